//! Cuts a checked JSON text into borrowed pieces.
//!
//! A piece is the text of one value, exactly as it stands in the document. Its kind shows in its
//! first byte; members and elements are found by the parser and come back as pieces again. Nothing
//! is decoded that nobody asked for, and nothing but strings with escapes is ever copied.
//!
//! Invariant: every piece is a part of the text that it was cut from, which [`offset`] relies on.
//! The text must have passed [`check`](super::check()): here a malformed text only ever reads as
//! "not that kind".

use super::check::Key;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The kind of a JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Null,
    Boolean,
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    /// The kind of the value whose text is `piece`.
    pub fn of(piece: &str) -> Kind {
        match piece.as_bytes().first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Boolean,
            Some(b'-' | b'0'..=b'9') => Kind::Number,
            Some(_) | None => Kind::Null,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Kind::Null => "null",
            Kind::Boolean => "a boolean",
            Kind::Number => "a number",
            Kind::String => "a string",
            Kind::Array => "an array",
            Kind::Object => "an object",
        })
    }
}

/// Where `piece` begins in the text that it was cut from.
pub fn offset(text: &str, piece: &str) -> usize {
    (piece.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
}

/// The members of an object that have one of `names`, in the order of `names`; `None` when `piece`
/// is no object. Members of other names are passed over. Bounded by the length of `piece`.
pub fn members<'a, const N: usize>(
    piece: &'a str,
    names: [&str; N],
) -> Option<[Option<&'a str>; N]> {
    let mut deserializer = serde_json::Deserializer::from_str(piece);
    deserializer.deserialize_map(Members { names }).ok()
}

/// All members of an object, in their order; `None` when `piece` is no object. Keys are copied only
/// if they have escapes. Bounded by the length of `piece`.
pub fn all_members(piece: &str) -> Option<Vec<(Cow<'_, str>, &str)>> {
    let mut deserializer = serde_json::Deserializer::from_str(piece);
    deserializer.deserialize_map(AllMembers).ok()
}

/// The elements of an array; `None` when `piece` is no array. Bounded by the length of `piece`.
pub fn elements(piece: &str) -> Option<Vec<&str>> {
    let mut deserializer = serde_json::Deserializer::from_str(piece);
    deserializer.deserialize_seq(Elements).ok()
}

/// Gives every member of an object to `visit`, in their order, the value as a piece; `None` when
/// `piece` is no object, or ends inside one. Bounded by the length of `piece`.
pub fn each_member<'a>(piece: &'a str, visit: impl FnMut(Cow<'a, str>, &'a str)) -> Option<()> {
    let mut deserializer = serde_json::Deserializer::from_str(piece);
    deserializer.deserialize_map(EachMember(visit)).ok()?;
    deserializer.end().ok()
}

/// Gives every element of an array to `visit`; `None` when `piece` is no array, or ends inside one.
/// Bounded by the length of `piece`; builds no list of what may be a million elements.
pub fn each_element<'a>(piece: &'a str, visit: impl FnMut(&'a str)) -> Option<()> {
    let mut deserializer = serde_json::Deserializer::from_str(piece);
    deserializer.deserialize_seq(EachElement(visit)).ok()?;
    deserializer.end().ok()
}

/// The content of a string, copied only if it has escapes; `None` when `piece` is no string.
pub fn string(piece: &str) -> Option<Cow<'_, str>> {
    let mut deserializer = serde_json::Deserializer::from_str(piece);
    Key.deserialize(&mut deserializer).ok()
}

/// The value of a number that is written as an integer and fits 32 bits.
pub fn integer(piece: &str) -> Option<u32> {
    piece.parse().ok()
}

struct Members<'n, const N: usize> {
    names: [&'n str; N],
}

impl<'de, const N: usize> Visitor<'de> for Members<'_, N> {
    type Value = [Option<&'de str>; N];

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut found = [None; N];
        while let Some(key) = object.next_key_seed(Key)? {
            let piece = object.next_value::<&RawValue>()?.get();
            let place = self.names.iter().position(|name| *name == key);
            if let Some(place) = place.and_then(|place| found.get_mut(place)) {
                *place = Some(piece);
            }
        }
        Ok(found)
    }
}

struct AllMembers;

impl<'de> Visitor<'de> for AllMembers {
    type Value = Vec<(Cow<'de, str>, &'de str)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(key) = object.next_key_seed(Key)? {
            members.push((key, object.next_value::<&RawValue>()?.get()));
        }
        Ok(members)
    }
}

struct Elements;

impl<'de> Visitor<'de> for Elements {
    type Value = Vec<&'de str>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(piece) = array.next_element::<&RawValue>()? {
            elements.push(piece.get());
        }
        Ok(elements)
    }
}

struct EachMember<F>(F);

impl<'de, F: FnMut(Cow<'de, str>, &'de str)> Visitor<'de> for EachMember<F> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut object: A) -> Result<(), A::Error> {
        while let Some(key) = object.next_key_seed(Key)? {
            (self.0)(key, object.next_value::<&RawValue>()?.get());
        }
        Ok(())
    }
}

struct EachElement<F>(F);

impl<'de, F: FnMut(&'de str)> Visitor<'de> for EachElement<F> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut array: A) -> Result<(), A::Error> {
        while let Some(piece) = array.next_element::<&RawValue>()? {
            (self.0)(piece.get());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_text_as_it_stands() {
        let text = r#"{ "a" : 1.50e+1 , "\u0062": [ true, "x\ny" ], "c": {} }"#;
        let [a, b, missing] = members(text, ["a", "b", "d"]).unwrap();
        assert_eq!(a, Some("1.50e+1"));
        assert_eq!(b, Some(r#"[ true, "x\ny" ]"#));
        assert_eq!(missing, None);
        let parts = elements(b.unwrap()).unwrap();
        assert_eq!(parts, ["true", r#""x\ny""#]);
        assert_eq!(string(parts[1]).unwrap(), "x\ny");
        assert_eq!(&text[offset(text, parts[0])..][..4], "true");
        let all = all_members(text).unwrap();
        let keys: Vec<&str> = all.iter().map(|(key, _)| key.as_ref()).collect();
        assert_eq!(keys, ["a", "b", "c"]);
        assert_eq!(Some(all[1].1), b);
    }

    #[test]
    fn parts_are_visited_in_their_order() {
        let text = r#" {"b": 1, "a":[ 2 ,{}], "b":null} "#;
        let mut seen = Vec::new();
        each_member(text, |key, piece| seen.push((key.into_owned(), piece))).unwrap();
        let expected = [("b", "1"), ("a", "[ 2 ,{}]"), ("b", "null")];
        assert_eq!(seen, expected.map(|(key, piece)| (key.to_owned(), piece)));
        let mut seen = Vec::new();
        each_element(expected[1].1, |piece| seen.push(piece)).unwrap();
        assert_eq!(seen, ["2", "{}"]);
        for torn in ["{\"a\":1", "{\"a\":1} x", "{\"a\":1,}", "[]", ""] {
            assert!(each_member(torn, |_, _| ()).is_none(), "{torn}");
        }
        for torn in ["[1", "[1] x", "[1,]", "{}", ""] {
            assert!(each_element(torn, |_| ()).is_none(), "{torn}");
        }
    }

    #[test]
    fn another_kind_is_none() {
        assert!(members("[]", ["a"]).is_none());
        assert!(all_members("[]").is_none());
        assert!(elements("{}").is_none());
        assert!(string("1").is_none());
        assert_eq!(members("{}", ["a"]), Some([None]));
    }

    #[test]
    fn the_first_byte_shows_the_kind() {
        let kinds = ["null", "true", "false", "-1", "0.5", "\"\"", "[]", "{}"].map(Kind::of);
        let expected = [
            Kind::Null,
            Kind::Boolean,
            Kind::Boolean,
            Kind::Number,
            Kind::Number,
            Kind::String,
            Kind::Array,
            Kind::Object,
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn integers_are_those_that_are_written_as_such() {
        assert_eq!(integer("100"), Some(100));
        for other in ["1.0", "-1", "1e2", "99999999999", "\"1\"", "null"] {
            assert_eq!(integer(other), None, "{other}");
        }
    }
}
