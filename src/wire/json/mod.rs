//! JSON text: whether it may be trusted, what it contains, and where.
//!
//! Owns the reading of whole JSON texts that come from outside. [`text`] turns the bytes of a file
//! into a string and says in plain words why it cannot. [`check`](fn@check) walks the string once
//! and either refuses it (syntax, duplicate keys, nesting, numbers) or gives its digest;
//! [`judge`] does so where nobody wants the digest.
//! [`slice`](mod@slice) then cuts it into borrowed pieces, so that what is kept stays byte for byte
//! as it was received. [`line`](fn@line) writes the small documents of our own.
//!
//! Never builds a tree of values over a document: that costs eight times its size. Never looks at
//! what a document means; that is `wire::document`.
//!
//! Invariant: a text that either let through has one meaning for every parser: no key twice, no
//! number that overflows, nothing after the end.

mod check;
mod compact;
pub mod slice;

pub use check::{Step, check, check_without, judge};
pub use compact::compact;

use serde::Serialize;
use std::fmt;

/// What we have to say ourselves, on a line of its own, which those want who ask in a terminal. It
/// has strings, numbers and string keys only.
pub fn line(document: &impl Serialize) -> Vec<u8> {
    // These have no way to fail.
    let mut line = serde_json::to_vec(document).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Why a JSON text was refused, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// The place, as `$.environments[2].features[0]`; `$` while nothing was entered yet.
    pub path: String,
    /// Line and column from 1, when the reader had come to a definite place.
    pub position: Option<(usize, usize)>,
    pub problem: JsonProblem,
}

/// What is wrong with a JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonProblem {
    /// No bytes, or white space only.
    Empty,
    /// UTF-16, with or without a byte order mark: what Windows tools write as "Unicode".
    Utf16,
    /// Not UTF-8 from this byte on.
    NotUtf8 { offset: usize },
    /// A NUL byte: what a file holds that was allocated and never written.
    Nul { offset: usize },
    /// The text ends inside a value.
    Truncated,
    /// Something stands after the end of the value.
    Trailing,
    /// The key stands twice in one object.
    DuplicateKey { key: String },
    /// Arrays and objects nest deeper than the bound.
    TooDeep { depth_max: usize },
    /// A number that no double can hold.
    NumberTooLarge,
    /// Any other offence against the grammar, in the parser's words.
    Syntax { detail: String },
}

impl fmt::Display for JsonProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JsonProblem::Empty => write!(formatter, "the file is empty"),
            JsonProblem::Utf16 => write!(formatter, "the file is UTF-16; save it as UTF-8"),
            JsonProblem::NotUtf8 { offset } => {
                write!(
                    formatter,
                    "not UTF-8 at byte {offset}; save the file as UTF-8"
                )
            }
            JsonProblem::Nul { offset } => {
                write!(
                    formatter,
                    "a NUL byte at byte {offset}; the file was not written whole"
                )
            }
            JsonProblem::Truncated => write!(
                formatter,
                "the file ends in the middle: is it still being copied?"
            ),
            JsonProblem::Trailing => write!(formatter, "something stands after the end"),
            JsonProblem::DuplicateKey { key } => write!(formatter, "the key `{key}` stands twice"),
            JsonProblem::TooDeep { depth_max } => {
                write!(formatter, "nested deeper than {depth_max} levels")
            }
            JsonProblem::NumberTooLarge => write!(formatter, "a number that is too large"),
            JsonProblem::Syntax { detail } => write!(formatter, "not JSON: {detail}"),
        }
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(formatter)?;
        if let Some((line, column)) = self.position {
            write!(formatter, " at line {line}, column {column}")?;
        }
        if self.path != "$" {
            write!(formatter, ", in {}", self.path)?;
        }
        Ok(())
    }
}

impl std::error::Error for JsonError {}

/// The text of a JSON file: a UTF-8 byte order mark and white space at both ends are taken off.
///
/// # Errors
/// Whatever makes the bytes no text at all; the path is `$` and there is no position. Bounded by
/// the length of `bytes`; nothing is copied.
pub fn text(bytes: &[u8]) -> Result<&str, JsonError> {
    let refuse = |problem| {
        Err(JsonError {
            path: "$".into(),
            position: None,
            problem,
        })
    };
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if is_utf16(bytes) {
        return refuse(JsonProblem::Utf16);
    }
    if let Some(offset) = bytes.iter().position(|byte| *byte == 0) {
        return refuse(JsonProblem::Nul { offset });
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.trim_matches([' ', '\t', '\r', '\n']),
        // A character cut in two at the very end is a copy that has not finished.
        Err(error) if error.error_len().is_none() => return refuse(JsonProblem::Truncated),
        Err(error) => {
            let offset = error.valid_up_to();
            return refuse(JsonProblem::NotUtf8 { offset });
        }
    };
    if text.is_empty() {
        return refuse(JsonProblem::Empty);
    }
    Ok(text)
}

/// A byte order mark, or an ASCII character with a NUL on one side, which JSON begins with.
fn is_utf16(bytes: &[u8]) -> bool {
    match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => true,
        [0, second, ..] => *second != 0,
        [first, 0, ..] => *first != 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(bytes: &[u8]) -> JsonProblem {
        text(bytes).unwrap_err().problem
    }

    #[test]
    fn a_byte_order_mark_and_line_ends_of_windows_are_taken_off() {
        assert_eq!(text(b"\xef\xbb\xbf{}\r\n"), Ok("{}"));
    }

    #[test]
    fn utf16_is_named_with_and_without_its_mark() {
        for bytes in [
            &b"\xff\xfe{\0}\0"[..],
            b"\xfe\xff\0{\0}",
            b"{\0}\0",
            b"\0{\0}",
        ] {
            assert_eq!(problem(bytes), JsonProblem::Utf16, "{bytes:?}");
        }
        assert!(JsonProblem::Utf16.to_string().contains("save it as UTF-8"));
    }

    #[test]
    fn a_file_of_nuls_is_not_called_utf16() {
        assert_eq!(problem(&[0; 64]), JsonProblem::Nul { offset: 0 });
        assert_eq!(problem(b"{} \0"), JsonProblem::Nul { offset: 3 });
    }

    #[test]
    fn nothing_and_white_space_are_empty() {
        for bytes in [&b""[..], b"\xef\xbb\xbf", b" \r\n\t"] {
            assert_eq!(problem(bytes), JsonProblem::Empty);
        }
    }

    #[test]
    fn a_character_cut_at_the_end_is_a_truncated_file() {
        assert_eq!(problem(b"{\"a\":\"\xc3"), JsonProblem::Truncated);
        assert_eq!(
            problem(b"{\"a\":\"\xff\"}"),
            JsonProblem::NotUtf8 { offset: 6 }
        );
    }
}
