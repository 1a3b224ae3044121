//! JSON as a tree that keeps duplicate keys, and that can be written in many ways.
//!
//! The second opinion of the targets about JSON: built by the parser, with nothing of the relay in
//! it.

use super::entropy::Entropy;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

/// One JSON value.
#[derive(Clone, Debug)]
pub enum Tree {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

impl Tree {
    pub fn parse(text: &str) -> Option<Tree> {
        serde_json::from_str(text).ok()
    }

    fn children(&self) -> Vec<&Tree> {
        match self {
            Tree::List(list) => list.iter().collect(),
            Tree::Map(entries) => entries.iter().map(|(_, value)| value).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether some object has a key twice.
    pub fn has_duplicate(&self) -> bool {
        let twice = match self {
            Tree::Map(entries) => {
                let keys: BTreeSet<&String> = entries.iter().map(|(key, _)| key).collect();
                keys.len() < entries.len()
            }
            _ => false,
        };
        twice || self.children().into_iter().any(Tree::has_duplicate)
    }

    /// Steps from here to the deepest value; an empty list counts as one that was entered.
    pub fn depth(&self) -> usize {
        let below = self.children().into_iter().map(Tree::depth).max();
        match (self, below) {
            (_, Some(below)) => 1 + below,
            (Tree::List(_), None) => 1,
            _ => 0,
        }
    }

    /// Whether a key anywhere holds `text`.
    pub fn has_key_with(&self, text: &str) -> bool {
        let here = match self {
            Tree::Map(entries) => entries.iter().any(|(key, _)| key.contains(text)),
            _ => false,
        };
        here || self
            .children()
            .into_iter()
            .any(|child| child.has_key_with(text))
    }

    /// Whether the parser reads back every number that is written out; it may miss a last digit.
    pub fn is_exact(&self) -> bool {
        let exact = match self {
            Tree::Number(number) => {
                let again = serde_json::from_str::<f64>(&format!("{number}"));
                again.ok().map(f64::to_bits) == number.as_f64().map(f64::to_bits)
            }
            _ => true,
        };
        exact && self.children().into_iter().all(Tree::is_exact)
    }

    /// Changes the scalar at `place`, counted in the order of the text; false if there is none.
    pub fn change(&mut self, place: &mut usize) -> bool {
        match self {
            Tree::List(list) => list.iter_mut().any(|child| child.change(place)),
            Tree::Map(entries) => entries.iter_mut().any(|(_, child)| child.change(place)),
            scalar if *place == 0 => {
                *scalar = match scalar {
                    Tree::Null => Tree::Bool(false),
                    Tree::Bool(value) => Tree::Bool(!*value),
                    Tree::Text(text) => Tree::Text(format!("{text}x")),
                    _ => Tree::Text("0".into()),
                };
                true
            }
            _ => {
                *place -= 1;
                false
            }
        }
    }

    /// Writes the value, with keys, blanks and escapes as `entropy` has them.
    pub fn write(&self, entropy: &mut Entropy, text: &mut String) {
        let blanks = ["", "", " ", "\n", "\t\r\n "];
        text.push_str(blanks[entropy.below(blanks.len())]);
        match self {
            Tree::Null => text.push_str("null"),
            Tree::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
            Tree::Number(number) => write_number(number, entropy, text),
            Tree::Text(value) => write_text(value, entropy, text),
            Tree::List(list) => {
                text.push('[');
                for (index, value) in list.iter().enumerate() {
                    text.push_str(if index == 0 { "" } else { "," });
                    value.write(entropy, text);
                }
                text.push(']');
            }
            Tree::Map(entries) => {
                let mut left: Vec<&(String, Tree)> = entries.iter().collect();
                text.push('{');
                while !left.is_empty() {
                    let (key, value) = left.remove(entropy.below(left.len()));
                    write_text(key, entropy, text);
                    text.push(':');
                    value.write(entropy, text);
                    text.push_str(if left.is_empty() { "" } else { "," });
                }
                text.push('}');
            }
        }
        text.push_str(blanks[entropy.below(blanks.len())]);
    }
}

fn write_number(number: &serde_json::Number, entropy: &mut Entropy, text: &mut String) {
    // With ten times as much above 2^53, the parser rounds on its way to the double.
    let size = number.as_i64().map(i64::unsigned_abs);
    let small = size.is_some_and(|size| (1..1 << 49).contains(&size));
    let forms = [
        format!("{number}"),
        format!("{number}.0"),
        format!("{number}e0"),
        format!("{number}0E-1"),
    ];
    let form = if small { entropy.below(forms.len()) } else { 0 };
    text.push_str(&forms[form]);
}

fn write_text(value: &str, entropy: &mut Entropy, text: &mut String) {
    text.push('"');
    for c in value.chars() {
        let must = c < ' ' || c == '"' || c == '\\';
        if must || entropy.below(8) == 7 {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string has no way to fail.
                let _ = write!(text, "\\u{unit:04x}");
            }
        } else {
            text.push(c);
        }
    }
    text.push('"');
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Tree, E> {
        let number = serde_json::Number::from_f64(value);
        number
            .map(Tree::Number)
            .ok_or_else(|| E::custom("no number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = access.next_element()? {
            list.push(value);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Tree::Map(entries))
    }
}
