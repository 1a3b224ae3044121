//! Why a state record was refused: where, and what an operator can do about it.
//!
//! One type for the document, its envelope and its signature, since a person who hands a record
//! over hears of one record. What the record says is quoted clipped and escaped, so that a log line
//! stays a line. What is refused only in comparison with another record is `state::region`'s.

use crate::wire::json::slice::Kind;
use crate::wire::json::{JsonError, JsonProblem};
use std::fmt;

/// Why a record was refused, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordError {
    /// The place in the document, as `$.slots[0].switches[1]`.
    pub path: String,
    pub problem: RecordProblem,
}

/// What is wrong with a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordProblem {
    /// More bytes than the bound.
    TooLarge {
        bytes_max: usize,
    },
    /// The text itself, duplicate keys included.
    Json(JsonProblem),
    /// `document` is no strict base64.
    NotBase64,
    /// There are keys to verify by and no signature.
    Unsigned,
    /// `signature` is not what minisign writes, or of its older kind, without a hash.
    NotASignature,
    /// None of the configured keys has made the signature: the id of the key that did.
    UnknownSigner {
        id: String,
    },
    /// The key is known and the bytes are others.
    BadSignature,
    /// `schema` is another one.
    WrongSchema {
        found: String,
    },
    /// A key that nobody reads.
    UnknownKey,
    Missing,
    WrongKind {
        expected: &'static str,
        found: Kind,
    },
    /// Letters, digits, `.`, `-`, `_`, at most 128.
    NotAnId,
    /// UTC in RFC 3339, as `2026-07-01T06:00:00Z`.
    NotATime,
    /// `https://` or `http://`, a host and a port, nothing else.
    NotAUrl,
    OutOfRange {
        from: u64,
        to: u64,
    },
    Empty,
    TooMany {
        count_max: usize,
    },
    UnknownRegion {
        name: String,
    },
    /// `writer` is no node of its region.
    UnknownWriter {
        name: String,
    },
    /// The node has the name of one in another region.
    DuplicateNode,
    /// Two nodes are at one place.
    DuplicateUrl,
    /// `guard_ms` is below `max_skew_ms`: clocks that are trusted could make two primaries.
    GuardBelowSkew,
    /// No entry matches everything.
    NoCatchAll,
    /// An entry before it matches everything that it does.
    Unreachable,
    /// `route` beside `collection` or `environment`: nothing is both.
    MixedMatch,
    TimesNotRising,
    EpochsNotRising,
    /// Switches have to be this far apart: 2 · guard + grace + hold + drain.
    TooClose {
        found_ms: u64,
        least_ms: u64,
    },
    /// A leg begins after its period.
    BeyondPeriod,
}

impl RecordError {
    pub(super) fn at(path: impl Into<String>, problem: RecordProblem) -> RecordError {
        let path = path.into();
        RecordError { path, problem }
    }
}

impl From<JsonError> for RecordError {
    fn from(error: JsonError) -> RecordError {
        RecordError::at(error.path, RecordProblem::Json(error.problem))
    }
}

/// What a record says, fit for a line.
pub(super) fn quoted(text: &str) -> String {
    const SHOWN_MAX: usize = 64;
    let shown: String = text.chars().take(SHOWN_MAX).collect();
    format!("{shown:?}")
}

impl fmt::Display for RecordProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            RecordProblem::TooLarge { bytes_max } => {
                return write!(formatter, "larger than {bytes_max} bytes");
            }
            RecordProblem::Json(problem) => return problem.fmt(formatter),
            RecordProblem::UnknownSigner { id } => {
                return write!(
                    formatter,
                    "signed with the key {id}, which is not in public_keys"
                );
            }
            RecordProblem::WrongSchema { found } => {
                return write!(formatter, "schema {found}, expected \"staffetta.region/1\"");
            }
            RecordProblem::WrongKind { expected, found } => {
                return write!(formatter, "expected {expected}, found {found}");
            }
            RecordProblem::OutOfRange { from, to } => {
                return write!(formatter, "expected a whole number from {from} to {to}");
            }
            RecordProblem::TooMany { count_max } => {
                return write!(formatter, "more than {count_max} entries");
            }
            RecordProblem::UnknownRegion { name } => {
                return write!(formatter, "no region of the record is called {name}");
            }
            RecordProblem::UnknownWriter { name } => {
                return write!(formatter, "no node of this region is called {name}");
            }
            RecordProblem::TooClose { found_ms, least_ms } => {
                return write!(
                    formatter,
                    "{found_ms} ms after the switch before, at least {least_ms} ms wanted \
                     (2 guard + grace + hold + drain)"
                );
            }
            RecordProblem::NotBase64 => "not base64",
            RecordProblem::Unsigned => "not signed, and region.public_keys asks for a signature",
            RecordProblem::NotASignature => "no signature of minisign 0.10 or later",
            RecordProblem::BadSignature => "the signature is for another document",
            RecordProblem::UnknownKey => "unknown key",
            RecordProblem::Missing => "missing",
            RecordProblem::NotAnId => "expected letters, digits, '.', '-' or '_', at most 128",
            RecordProblem::NotATime => "expected a time in UTC, as 2026-07-01T06:00:00Z",
            RecordProblem::NotAUrl => "expected https:// or http://, a host and a port, no more",
            RecordProblem::Empty => "must not be empty",
            RecordProblem::DuplicateNode => "another region has a node of this name",
            RecordProblem::DuplicateUrl => "another node has this URL",
            RecordProblem::GuardBelowSkew => "must be at least max_skew_ms",
            RecordProblem::NoCatchAll => "the last entry must match everything: \"match\": {}",
            RecordProblem::Unreachable => "an entry before this one matches all of it",
            RecordProblem::MixedMatch => "a route has no collection and no environment",
            RecordProblem::TimesNotRising => "must be later than the one before",
            RecordProblem::EpochsNotRising => "must be greater than the epoch before",
            RecordProblem::BeyondPeriod => "must be below the period",
        };
        formatter.write_str(text)
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(formatter)?;
        match self.path.as_str() {
            "$" => Ok(()),
            path => write!(formatter, ", in {path}"),
        }
    }
}

impl std::error::Error for RecordError {}
