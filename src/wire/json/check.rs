//! One pass over a JSON text: refuses what parsers disagree about, and digests the rest where
//! somebody wants to know whether it has changed.
//!
//! The digest is a Merkle tree of SHA-256 over the objects. The encoding of a value is a tag and
//! its content; an object's content is the digest over its members in the order of their keys
//! (bytes of the unescaped key), so key order, white space and escapes do not matter. The order of
//! an array does.
//!
//! Numbers: integers that fit 64 bits count exactly; every other number counts as the double that
//! it reads as, and a double that is such an integer counts as that integer. So `1`, `1.0` and
//! `1e0` are one number, `-0` is `0`, and 2^53 and 2^53 + 1 are two although JavaScript cannot tell
//! them apart: a change too many is an event too many, a change too few would be a lost update.
//!
//! Invariant: memory is bounded by 48 bytes a key of the objects that are open at once, and 33
//! bytes an object that is done inside an open one.

use super::{JsonError, JsonProblem};
use crate::model::Digest;
use ring::digest::{Context, SHA256};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt::{self, Write as _};

/// Walks `text` once.
///
/// # Errors
/// The first offence: syntax, a key that stands twice in one object, nesting over `depth_max`, a
/// number beyond the doubles, or anything after the value. Bounded by the length of `text`.
pub fn check(text: &str, depth_max: usize) -> Result<Digest, JsonError> {
    check_without(text, depth_max, |_| false)
}

/// The same without the digest, which is half of the work.
pub fn judge(text: &str, depth_max: usize) -> Result<(), JsonError> {
    Walk::new(depth_max, None).over(text)
}

/// The same, with a digest over everything but the members whose path `is_left_out` picks. They are
/// judged like the rest.
pub fn check_without(
    text: &str,
    depth_max: usize,
    is_left_out: fn(&[Step<'_>]) -> bool,
) -> Result<Digest, JsonError> {
    let mut walk = Walk::new(depth_max, Some(is_left_out));
    walk.over(text)?;
    Ok(digest(|context| context.update(&walk.encoding)))
}

/// One step of a path into a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    Key(Cow<'a, str>),
    Index(usize),
}

impl Step<'_> {
    /// Appends the step as it is written in a path: `.key`, `["odd key"]` or `[2]`.
    pub fn render(&self, path: &mut String) {
        // Writing to a string has no way to fail.
        let _ = match self {
            Step::Index(index) => write!(path, "[{index}]"),
            Step::Key(key) => {
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
                match !key.is_empty() && key.bytes().all(plain) {
                    true => write!(path, ".{key}"),
                    false => write!(path, "[{key:?}]"),
                }
            }
        };
    }
}

/// A member of an object that is still open: its key and where its encoding lies.
struct Member<'de> {
    key: Cow<'de, str>,
    start: usize,
    end: usize,
    is_left_out: bool,
}

/// What the walk carries: stacks shared by all levels, so that a level allocates nothing.
struct Walk<'de> {
    depth_max: usize,
    /// What the digest leaves out; `None` where there is to be no digest.
    is_left_out: Option<fn(&[Step<'_>]) -> bool>,
    path: Vec<Step<'de>>,
    members: Vec<Member<'de>>,
    encoding: Vec<u8>,
    problem: Option<JsonProblem>,
}

impl<'de> Walk<'de> {
    fn new(depth_max: usize, is_left_out: Option<fn(&[Step<'_>]) -> bool>) -> Walk<'de> {
        Walk {
            depth_max,
            is_left_out,
            path: Vec::new(),
            members: Vec::new(),
            encoding: Vec::new(),
            problem: None,
        }
    }

    fn over(&mut self, text: &'de str) -> Result<(), JsonError> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        if let Err(error) = Value(&mut *self).deserialize(&mut deserializer) {
            return Err(self.refuse(&error));
        }
        if let Err(error) = deserializer.end() {
            self.problem = Some(JsonProblem::Trailing);
            return Err(self.refuse(&error));
        }
        Ok(())
    }

    fn refuse(&mut self, error: &serde_json::Error) -> JsonError {
        let detail = error.to_string();
        let problem = self.problem.take().unwrap_or_else(|| {
            if error.is_eof() {
                JsonProblem::Truncated
            } else if detail.starts_with("number out of range") {
                JsonProblem::NumberTooLarge
            } else {
                let end = detail.rfind(" at line ").unwrap_or(detail.len());
                let detail = detail[..end].to_string();
                JsonProblem::Syntax { detail }
            }
        });
        let mut path = String::from("$");
        for step in &self.path {
            step.render(&mut path);
        }
        JsonError {
            path,
            position: (error.line() > 0).then(|| (error.line(), error.column())),
            problem,
        }
    }

    fn enter<E: Error>(&mut self, step: Step<'de>) -> Result<(), E> {
        if self.path.len() >= self.depth_max {
            let depth_max = self.depth_max;
            return Err(self.fail(JsonProblem::TooDeep { depth_max }));
        }
        self.path.push(step);
        Ok(())
    }

    fn fail<E: Error>(&mut self, problem: JsonProblem) -> E {
        self.problem = Some(problem);
        E::custom("refused")
    }

    fn put(&mut self, tag: u8, content: &[u8]) {
        if self.is_left_out.is_some() {
            self.encoding.push(tag);
            self.encoding.extend_from_slice(content);
        }
    }

    /// Replaces the encodings of the members from `first` on by the digest of their object.
    fn close_object<E: Error>(&mut self, first: usize, start: usize) -> Result<(), E> {
        self.members[first..].sort_unstable_by(|one, other| one.key.cmp(&other.key));
        let members = &self.members[first..];
        if let Some(pair) = members.windows(2).find(|pair| pair[0].key == pair[1].key) {
            let key = pair[0].key.to_string();
            return Err(self.fail(JsonProblem::DuplicateKey { key }));
        }
        if self.is_left_out.is_some() {
            let object = digest(|context| {
                for member in members.iter().filter(|member| !member.is_left_out) {
                    context.update(&(member.key.len() as u64).to_le_bytes());
                    context.update(member.key.as_bytes());
                    context.update(&self.encoding[member.start..member.end]);
                }
            });
            self.encoding.truncate(start);
            self.put(b'o', &object.0);
        }
        self.members.truncate(first);
        Ok(())
    }
}

fn digest(fill: impl FnOnce(&mut Context)) -> Digest {
    let mut context = Context::new(&SHA256);
    fill(&mut context);
    let mut digest = Digest::default();
    let bytes = context.finish();
    for (to, from) in digest.0.iter_mut().zip(bytes.as_ref()) {
        *to = *from;
    }
    digest
}

/// Reads one value into the walk.
struct Value<'w, 'de>(&'w mut Walk<'de>);

impl<'de> DeserializeSeed<'de> for Value<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_, 'de> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.0.put(b'n', &[]);
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.0.put(if value { b't' } else { b'f' }, &[]);
        Ok(())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.0.put(b'i', &i128::from(value).to_le_bytes());
        Ok(())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.0.put(b'i', &i128::from(value).to_le_bytes());
        Ok(())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        let integer = value as i128;
        let fits = (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&integer);
        match fits && integer as f64 == value {
            true => self.0.put(b'i', &integer.to_le_bytes()),
            false => self.0.put(b'd', &value.to_le_bytes()),
        }
        Ok(())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.0.put(b's', &(value.len() as u64).to_le_bytes());
        if self.0.is_left_out.is_some() {
            self.0.encoding.extend_from_slice(value.as_bytes());
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<(), A::Error> {
        let walk = self.0;
        walk.put(b'[', &[]);
        walk.enter(Step::Index(0))?;
        while array.next_element_seed(Value(&mut *walk))?.is_some() {
            if let Some(Step::Index(index)) = walk.path.last_mut() {
                *index += 1;
            }
        }
        walk.path.pop();
        walk.put(b']', &[]);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let walk = self.0;
        let first = walk.members.len();
        let begin = walk.encoding.len();
        while let Some(key) = object.next_key_seed(Key)? {
            walk.enter(Step::Key(key))?;
            let start = walk.encoding.len();
            object.next_value_seed(Value(&mut *walk))?;
            let end = walk.encoding.len();
            let is_left_out = walk.is_left_out.is_some_and(|is| is(&walk.path));
            if let Some(Step::Key(key)) = walk.path.pop() {
                walk.members.push(Member {
                    key,
                    start,
                    end,
                    is_left_out,
                });
            }
        }
        walk.close_object(first, begin)
    }
}

/// Reads a key, borrowed unless it has escapes.
pub(super) struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_string()))
    }
}

#[cfg(test)]
mod tests;
