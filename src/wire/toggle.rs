//! A flag switched on or off in a document, by an edit to its text.
//!
//! Changes the value of one key, `enabled` of one feature, and no other byte: what the relay does
//! not know about stays, and two people who switch different flags change different places. The
//! document is one that a slot serves, with one environment; whether the outcome may be served is
//! judged where it is taken.

use std::fmt;

use super::document::ItemKind;
use super::json::slice;

/// Flags that an error names.
const SHOWN_MAX: usize = 16;

/// Why a flag cannot be switched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToggleError {
    /// No document of a slot.
    NotADocument,
    /// There is no such flag; some that there are, in their order.
    UnknownFlag { flag: String, present: Vec<String> },
    /// The flag has no `enabled` that is true or false.
    NoSwitch { flag: String },
}

impl fmt::Display for ToggleError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ToggleError::NotADocument => formatter.write_str("what it serves is no document"),
            ToggleError::UnknownFlag { flag, present } if present.is_empty() => {
                write!(formatter, "it has no flag `{flag}`, and no other")
            }
            ToggleError::UnknownFlag { flag, present } => {
                let present = present.join(", ");
                write!(formatter, "it has no flag `{flag}`; it has {present}")
            }
            ToggleError::NoSwitch { flag } => {
                write!(formatter, "flag `{flag}` has no `enabled` to switch")
            }
        }
    }
}

/// The document with `flag` on or off, or `None` if it is already. Bounded by the length of `text`.
///
/// # Errors
/// The flag is not there, or the text is no document.
pub fn toggle(text: &str, flag: &str, is_on: bool) -> Result<Option<String>, ToggleError> {
    let features = features(text).ok_or(ToggleError::NotADocument)?;
    let mut present = Vec::new();
    for feature in features {
        let [id, enabled] = slice::members(feature, [ItemKind::Feature.id_key(), "enabled"])
            .ok_or(ToggleError::NotADocument)?;
        let Some(id) = id.and_then(slice::string) else {
            continue;
        };
        if id != flag {
            present.push(id.into_owned());
            continue;
        }
        let switched = if is_on { "true" } else { "false" };
        return match enabled {
            Some(value) if value == switched => Ok(None),
            Some(value) if slice::Kind::of(value) == slice::Kind::Boolean => {
                let start = slice::offset(text, value);
                let (before, rest) = text.split_at_checked(start).unwrap_or_default();
                let after = rest.get(value.len()..).unwrap_or_default();
                Ok(Some([before, switched, after].concat()))
            }
            Some(_) | None => Err(ToggleError::NoSwitch { flag: flag.into() }),
        };
    }
    present.truncate(SHOWN_MAX);
    let flag = flag.to_owned();
    Err(ToggleError::UnknownFlag { flag, present })
}

fn features(text: &str) -> Option<Vec<&str>> {
    let [environments] = slice::members(text, [ItemKind::Environment.array()])?;
    let environment = slice::elements(environments?)?.first().copied()?;
    let [features] = slice::members(environment, [ItemKind::Feature.array()])?;
    slice::elements(features?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#" {"odd" : 1.50, "environments":[{"features":[
        {"feature_id":"a","enabled" :  true,"x":"enabled\":false"},
        {"enabled":false,"feature_id":"b\u002dc"}, {"feature_id":"none"},
        {"feature_id":"text","enabled":"true"}]},
        {"features":[{"feature_id":"other","enabled":true}]}], "enabled":true } "#;

    #[test]
    fn one_word_changes_and_no_other_byte() {
        let off = toggle(TEXT, "a", false).unwrap().unwrap();
        assert_eq!(off, TEXT.replacen(":  true", ":  false", 1));
        assert_eq!(toggle(&off, "a", true).unwrap().unwrap(), TEXT);
        let on = toggle(TEXT, "b-c", true).unwrap().unwrap();
        assert_eq!(
            on,
            TEXT.replacen("{\"enabled\":false", "{\"enabled\":true", 1)
        );
        assert_eq!(toggle(TEXT, "a", true), Ok(None));
        assert_eq!(toggle(TEXT, "b-c", false), Ok(None));
    }

    #[test]
    fn what_is_not_there_is_told_with_what_is() {
        let error = toggle(TEXT, "other", true).unwrap_err().to_string();
        assert_eq!(error, "it has no flag `other`; it has a, b-c, none, text");
        for flag in ["none", "text"] {
            let error = toggle(TEXT, flag, true).unwrap_err();
            assert_eq!(error, ToggleError::NoSwitch { flag: flag.into() });
        }
        for text in [
            "",
            "[]",
            "{}",
            r#"{"environments":[]}"#,
            r#"{"environments":[{}]}"#,
        ] {
            assert_eq!(toggle(text, "a", true), Err(ToggleError::NotADocument));
        }
    }
}
