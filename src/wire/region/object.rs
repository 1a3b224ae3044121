//! Walking a checked document: objects whose keys are taken one by one.
//!
//! The first thing that is wrong ends the walk, with its place. What nobody has taken when an
//! object is finished is unknown, and refused: a misspelt `switches` would otherwise be none.

use super::error::{RecordError, RecordProblem, quoted};
use super::moment;
use crate::model::Id;
use crate::time::WallMs;
use crate::wire::json::Step;
use crate::wire::json::slice::{self, Kind};
use std::borrow::Cow;

/// A value and its place.
pub(super) struct Value<'a> {
    pub path: String,
    piece: &'a str,
}

impl<'a> Value<'a> {
    /// The whole document.
    pub fn root(text: &'a str) -> Value<'a> {
        Value {
            path: String::from("$"),
            piece: text,
        }
    }

    /// A refusal of this value.
    pub fn refuse(&self, problem: RecordProblem) -> RecordError {
        RecordError::at(self.path.as_str(), problem)
    }

    fn wrong_kind(&self, expected: &'static str) -> RecordError {
        let found = Kind::of(self.piece);
        self.refuse(RecordProblem::WrongKind { expected, found })
    }

    fn step(&self, step: &Step<'_>, piece: &'a str) -> Value<'a> {
        let mut path = self.path.clone();
        step.render(&mut path);
        Value { path, piece }
    }

    /// The members of an object.
    pub fn object(self) -> Result<Object<'a>, RecordError> {
        match slice::all_members(self.piece) {
            Some(members) => Ok(Object {
                place: self,
                members,
            }),
            None => Err(self.wrong_kind("an object")),
        }
    }

    /// The members of an object whose keys are names, at most `count_max`.
    pub fn named(self, count_max: usize) -> Result<Vec<(Id, Value<'a>)>, RecordError> {
        let Some(members) = slice::all_members(self.piece) else {
            return Err(self.wrong_kind("an object"));
        };
        self.bound(members.len(), count_max)?;
        let name = |(key, piece): (Cow<'a, str>, &'a str)| {
            let value = self.step(&Step::Key(Cow::Borrowed(&key)), piece);
            match Id::new(&key) {
                Some(name) => Ok((name, value)),
                None => Err(value.refuse(RecordProblem::NotAnId)),
            }
        };
        members.into_iter().map(name).collect()
    }

    /// The elements of an array, at most `count_max`.
    pub fn list(&self, count_max: usize) -> Result<Vec<Value<'a>>, RecordError> {
        let Some(elements) = slice::elements(self.piece) else {
            return Err(self.wrong_kind("an array"));
        };
        self.bound(elements.len(), count_max)?;
        let place = |(index, piece)| self.step(&Step::Index(index), piece);
        Ok(elements.into_iter().enumerate().map(place).collect())
    }

    fn bound(&self, count: usize, count_max: usize) -> Result<(), RecordError> {
        match count <= count_max {
            true => Ok(()),
            false => Err(self.refuse(RecordProblem::TooMany { count_max })),
        }
    }

    /// A string.
    pub fn string(&self) -> Result<Cow<'a, str>, RecordError> {
        slice::string(self.piece).ok_or_else(|| self.wrong_kind("a string"))
    }

    /// A string that is a name.
    pub fn id(&self) -> Result<Id, RecordError> {
        let text = self.string()?;
        Id::new(&text).ok_or_else(|| self.refuse(RecordProblem::NotAnId))
    }

    /// A time.
    pub fn time(&self) -> Result<WallMs, RecordError> {
        let text = self.string()?;
        moment::parse(&text).ok_or_else(|| self.refuse(RecordProblem::NotATime))
    }

    /// A whole number, written as one.
    pub fn whole(&self, from: u64, to: u64) -> Result<u64, RecordError> {
        if Kind::of(self.piece) != Kind::Number {
            return Err(self.wrong_kind("a whole number"));
        }
        let number = self.piece.parse().ok();
        let number = number.filter(|number| (from..=to).contains(number));
        number.ok_or_else(|| self.refuse(RecordProblem::OutOfRange { from, to }))
    }
}

/// An object whose keys are being taken.
pub(super) struct Object<'a> {
    pub place: Value<'a>,
    members: Vec<(Cow<'a, str>, &'a str)>,
}

impl<'a> Object<'a> {
    /// The value of `key`, if it is there.
    pub fn take(&mut self, key: &'static str) -> Option<Value<'a>> {
        let index = self.members.iter().position(|(name, _)| name == key)?;
        let (_, piece) = self.members.swap_remove(index);
        Some(self.place.step(&Step::Key(Cow::Borrowed(key)), piece))
    }

    /// The value of `key`, which must be there.
    pub fn require(&mut self, key: &'static str) -> Result<Value<'a>, RecordError> {
        self.take(key).ok_or_else(|| {
            let missing = self.place.step(&Step::Key(Cow::Borrowed(key)), "");
            missing.refuse(RecordProblem::Missing)
        })
    }

    /// Refuses what nobody took.
    pub fn finish(self) -> Result<(), RecordError> {
        match self.members.first() {
            None => Ok(()),
            Some((key, piece)) => {
                let value = self.place.step(&Step::Key(Cow::Borrowed(key)), piece);
                Err(value.refuse(RecordProblem::UnknownKey))
            }
        }
    }

    /// The schema, which must be `expected`.
    pub fn schema(&mut self, expected: &str) -> Result<(), RecordError> {
        let value = self.require("schema")?;
        let found = value.string()?;
        match found == expected {
            true => Ok(()),
            false => Err(value.refuse(RecordProblem::WrongSchema {
                found: quoted(&found),
            })),
        }
    }
}
