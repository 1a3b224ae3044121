//! Scalars as .NET's configuration has them: everything is text.
//!
//! There `true` and `"True"` are the same, and so are `5` and `"5"`; a section that loads in YARP
//! must load here. `null`, which is empty text or an error there depending on the version, is
//! refused. Numbers in place of a name of a list of choices, which .NET takes too, are refused as
//! no choice.

use std::borrow::Cow;

use crate::config::error::{Problem, ReverseProblem};
use crate::config::section::{Mistakes, Place};
use crate::config::timespan;
use crate::config::tree::Node;
use crate::time::Duration;

/// A scalar of whatever type, as text.
pub fn text<'t>(place: &Place<'t>, mistakes: &mut Mistakes) -> Option<Cow<'t, str>> {
    match place.node {
        Node::Text(text) => Some(Cow::Borrowed(text)),
        Node::Bool(flag) => Some(Cow::Borrowed(if *flag { "True" } else { "False" })),
        Node::Whole(number) => Some(Cow::Owned(number.to_string())),
        Node::Number(text) => Some(Cow::Borrowed(text)),
        Node::Null | Node::List(_) | Node::Map(_) => {
            let (expected, found) = ("text", place.node.kind());
            mistakes.error(&place.path, Problem::WrongType { expected, found });
            None
        }
    }
}

/// Text, as what `read` makes of it.
pub fn read<T>(
    place: &Place<'_>,
    mistakes: &mut Mistakes,
    read: impl FnOnce(&str) -> Result<T, Problem>,
) -> Option<T> {
    let text = text(place, mistakes)?;
    mistakes.keep(&place.path, read(&text))
}

/// True or false, in any case of letters, with blanks around it.
pub fn flag(place: &Place<'_>, mistakes: &mut Mistakes) -> Option<bool> {
    read(place, mistakes, |text| {
        let is = |word: &str| text.trim().eq_ignore_ascii_case(word);
        match (is("true"), is("false")) {
            (true, _) => Ok(true),
            (_, true) => Ok(false),
            _ => Err(ReverseProblem::NotABool.into()),
        }
    })
}

/// A duration above zero. A number alone is refused, although it is a number of days.
pub fn duration(place: &Place<'_>, mistakes: &mut Mistakes) -> Option<Duration> {
    read(place, mistakes, |text| {
        if timespan::is_days(text) {
            return Err(ReverseProblem::Days.into());
        }
        match (timespan::ticks(text), timespan::duration(text)) {
            (None, _) => Err(ReverseProblem::NotATimeSpan.into()),
            (Some(..=0), _) | (_, None) => Err(ReverseProblem::NotPositive.into()),
            (_, Some(duration)) => Ok(duration),
        }
    })
}

/// A whole number within bounds.
pub fn whole(place: &Place<'_>, mistakes: &mut Mistakes, from: i64, to: i64) -> Option<i64> {
    read(place, mistakes, |text| {
        let number = text.trim().parse().ok();
        let fits = |number: &i64| (from..=to).contains(number);
        number
            .filter(fits)
            .ok_or(ReverseProblem::NotWhole { from, to }.into())
    })
}

/// One of a list of names, in any case of letters, with blanks around it.
pub fn choice<T: Copy>(
    place: &Place<'_>,
    mistakes: &mut Mistakes,
    choices: &'static [&'static str],
    values: &[T],
) -> Option<T> {
    read(place, mistakes, |text| {
        let is = |name: &&str| name.eq_ignore_ascii_case(text.trim());
        let place = choices.iter().position(is);
        let value = place.and_then(|place| values.get(place)).copied();
        value.ok_or(Problem::NotOneOf { choices })
    })
}

/// Whether nothing stands here: .NET does not tell it from a key that is missing.
pub fn is_empty(place: &Place<'_>) -> bool {
    match place.node {
        Node::Null => true,
        Node::Text(text) => text.is_empty(),
        Node::List(list) => list.is_empty(),
        Node::Map(entries) => entries.is_empty(),
        Node::Bool(_) | Node::Whole(_) | Node::Number(_) => false,
    }
}
