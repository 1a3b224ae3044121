//! One named member of an object under validation.
//!
//! A field knows its key and its place, so that a check is one call and its refusal says where.
//! `null` counts as absent only where every SDK takes it so: see [`Field::given`].

use super::error::{DocumentError, Problem, quoted};
use super::place::Place;
use crate::model::Id;
use crate::wire::json::slice::{self, Kind};
use std::borrow::Cow;

/// A member that may be there: its text, its key and its object's place.
#[derive(Clone, Copy)]
pub(super) struct Field<'a, 'p> {
    object: &'p Place<'p>,
    key: &'static str,
    piece: Option<&'a str>,
}

/// The fields of `names` of an object; `what` says in a refusal what was expected to be one.
pub(super) fn fields<'a, 'p, const N: usize>(
    piece: &'a str,
    place: &'p Place<'p>,
    what: &'static str,
    names: [&'static str; N],
) -> Result<[Field<'a, 'p>; N], DocumentError> {
    let Some(pieces) = slice::members(piece, names) else {
        return Err(wrong_kind(place, what, "an object", piece));
    };
    let mut pieces = pieces.into_iter();
    Ok(names.map(|key| Field {
        object: place,
        key,
        piece: pieces.next().flatten(),
    }))
}

/// A refusal at `place`, of no item yet.
pub(super) fn refusal(place: &Place<'_>, problem: Problem) -> DocumentError {
    DocumentError {
        item: None,
        path: place.path(),
        problem,
    }
}

fn wrong_kind(
    place: &Place<'_>,
    key: &'static str,
    expected: &'static str,
    piece: &str,
) -> DocumentError {
    let found = Kind::of(piece);
    refusal(
        place,
        Problem::WrongKind {
            key,
            expected,
            found,
        },
    )
}

impl<'a, 'p> Field<'a, 'p> {
    /// A member that somebody else has cut out.
    pub fn new(object: &'p Place<'p>, key: &'static str, piece: Option<&'a str>) -> Field<'a, 'p> {
        Field { object, key, piece }
    }

    /// The key of this field.
    pub fn key(&self) -> &'static str {
        self.key
    }

    /// The place of this field's value.
    pub fn place(&self) -> Place<'p> {
        Place::Key(self.object, self.key)
    }

    /// Whether the object has no such member; `null` is one.
    pub fn is_absent(&self) -> bool {
        self.piece.is_none()
    }

    /// The text, unless the field is absent or `null`.
    pub fn given(&self) -> Option<&'a str> {
        self.piece.filter(|piece| Kind::of(piece) != Kind::Null)
    }

    /// The text, `null` included; refused when absent, since the SDKs of `readers` need it.
    pub fn required(&self, readers: &'static str) -> Result<&'a str, DocumentError> {
        let key = self.key;
        self.piece
            .ok_or_else(|| refusal(self.object, Problem::Missing { key, readers }))
    }

    /// A refusal of this field's value.
    pub fn refuse(&self, problem: Problem) -> DocumentError {
        refusal(&self.place(), problem)
    }

    /// A refusal of `piece`, which is of another kind than `expected` says.
    pub fn refuse_kind(&self, expected: &'static str, piece: &str) -> DocumentError {
        wrong_kind(&self.place(), self.key, expected, piece)
    }

    /// The content of a string; `null` is refused.
    pub fn string(&self, readers: &'static str) -> Result<Cow<'a, str>, DocumentError> {
        let piece = self.required(readers)?;
        slice::string(piece).ok_or_else(|| self.refuse_kind("a string", piece))
    }

    /// A string that may be absent or `null`.
    pub fn optional_string(&self) -> Result<Option<Cow<'a, str>>, DocumentError> {
        let string =
            |piece| slice::string(piece).ok_or_else(|| self.refuse_kind("a string", piece));
        self.given().map(string).transpose()
    }

    /// A string of a closed list.
    pub fn one_of(&self, text: &str, known: &'static [&'static str]) -> Result<(), DocumentError> {
        if known.contains(&text) {
            return Ok(());
        }
        let (key, found) = (self.key, quoted(text));
        Err(self.refuse(Problem::Unknown { key, found, known }))
    }

    /// Refused unless it is `true` or `false`.
    pub fn boolean(&self, readers: &'static str) -> Result<(), DocumentError> {
        let piece = self.required(readers)?;
        match Kind::of(piece) {
            Kind::Boolean => Ok(()),
            _ => Err(self.refuse_kind("true or false", piece)),
        }
    }

    /// The elements of an array; `null` is refused, since JavaScript cannot walk it.
    pub fn array(&self, readers: &'static str) -> Result<Vec<&'a str>, DocumentError> {
        let piece = self.required(readers)?;
        slice::elements(piece).ok_or_else(|| self.refuse_kind("an array", piece))
    }

    /// An array of strings; nobody keeps them, only their kind counts.
    pub fn strings(&self, readers: &'static str) -> Result<Vec<&'a str>, DocumentError> {
        let elements = self.array(readers)?;
        let odd = elements
            .iter()
            .position(|element| Kind::of(element) != Kind::String);
        if let Some((index, odd)) = odd.and_then(|index| Some((index, elements.get(index)?))) {
            let place = self.place();
            return Err(wrong_kind(
                &place.index(index),
                self.key,
                "strings only",
                odd,
            ));
        }
        Ok(elements)
    }

    /// A string that is an id: letters, digits, `.`, `-`, `_`, at most 128 of them.
    pub fn id(&self, readers: &'static str) -> Result<Cow<'a, str>, DocumentError> {
        let text = self.string(readers)?;
        match Id::new(&text) {
            Some(_) => Ok(text),
            None => Err(self.refuse(Problem::NotAnId {
                found: quoted(&text),
            })),
        }
    }

    /// An integer in a range; Rust SDKs read unsigned integers, so `50.0` is none.
    pub fn integer(
        &self,
        piece: &str,
        range: std::ops::RangeInclusive<u32>,
        expected: &'static str,
    ) -> Result<u32, DocumentError> {
        let integer = slice::integer(piece).filter(|integer| range.contains(integer));
        integer.ok_or_else(|| {
            let (key, found) = (self.key, quoted(piece));
            self.refuse(Problem::OutOfRange {
                key,
                expected,
                found,
            })
        })
    }

    /// An integer from 0 to 100.
    pub fn percentage(&self, piece: &str) -> Result<(), DocumentError> {
        self.integer(piece, 0..=100, "an integer from 0 to 100")
            .map(drop)
    }
}
