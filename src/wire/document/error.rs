//! Why a document was refused: which item, where, and what an operator can do about it.
//!
//! One line for a person, and a type for everybody else. What a document says is quoted clipped and
//! escaped, so that a log line stays a line.

use crate::wire::json::slice::Kind;
use crate::wire::json::{JsonError, JsonProblem};
use std::fmt;

/// Why a document, or what it holds for a slot, was refused whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentError {
    /// The item that is at fault, when it is one.
    pub item: Option<Item>,
    /// The place, as `$.environments[0].features[3]`.
    pub path: String,
    pub problem: Problem,
}

/// An item of a document: its kind, and its id when it has a readable one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub kind: ItemKind,
    pub id: Option<String>,
}

/// The kinds of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemKind {
    Environment,
    Collection,
    Feature,
    Property,
    Segment,
}

impl ItemKind {
    /// The singular, as it is shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            ItemKind::Environment => "environment",
            ItemKind::Collection => "collection",
            ItemKind::Feature => "feature",
            ItemKind::Property => "property",
            ItemKind::Segment => "segment",
        }
    }

    /// The key of the array that holds the items of this kind.
    pub const fn array(self) -> &'static str {
        match self {
            ItemKind::Environment => "environments",
            ItemKind::Collection => "collections",
            ItemKind::Feature => "features",
            ItemKind::Property => "properties",
            ItemKind::Segment => "segments",
        }
    }

    /// The key of the item's id.
    pub const fn id_key(self) -> &'static str {
        match self {
            ItemKind::Environment => "environment_id",
            ItemKind::Collection => "collection_id",
            ItemKind::Feature => "feature_id",
            ItemKind::Property => "property_id",
            ItemKind::Segment => "segment_id",
        }
    }
}

/// What is wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The text itself; the position is line and column.
    Json {
        problem: JsonProblem,
        position: Option<(usize, usize)>,
    },
    /// More bytes than the bound.
    TooLarge { bytes: usize, bytes_max: usize },
    /// More items of one kind than the bound.
    TooMany {
        kind: ItemKind,
        count: usize,
        count_max: usize,
    },
    /// The document has no such environment or collection.
    Absent {
        kind: ItemKind,
        id: String,
        present: Vec<String>,
    },
    /// A key that SDKs cannot do without.
    Missing {
        key: &'static str,
        readers: &'static str,
    },
    /// A value of another kind than the one that SDKs read.
    WrongKind {
        key: &'static str,
        expected: &'static str,
        found: Kind,
    },
    /// A value that is no member of a closed list.
    Unknown {
        key: &'static str,
        found: String,
        known: &'static [&'static str],
    },
    /// A value outside of what the key may hold.
    OutOfRange {
        key: &'static str,
        expected: &'static str,
        found: String,
    },
    /// An array that must not be empty.
    Empty { key: &'static str },
    /// An id that does not survive in a URL.
    NotAnId { found: String },
    /// Two items of one kind have the same id.
    Duplicate,
    /// A rule names a segment that the document does not hold.
    NoSuchSegment { segment: String },
    /// A traffic group names a variation that the experiment does not hold.
    NoSuchVariation { variation: String },
    /// The orders of the segment rules are not 1 to `count`, each once.
    RuleOrder { count: usize },
}

impl DocumentError {
    /// The same error as one of `item`, unless a nearer one is known.
    pub(super) fn of(mut self, kind: ItemKind, id: Option<&str>) -> DocumentError {
        let id = id.map(quoted);
        self.item.get_or_insert(Item { kind, id });
        self
    }
}

impl From<JsonError> for DocumentError {
    fn from(error: JsonError) -> DocumentError {
        DocumentError {
            item: None,
            path: error.path,
            problem: Problem::Json {
                problem: error.problem,
                position: error.position,
            },
        }
    }
}

/// What a document says, on one line and short enough for one.
pub(super) fn quoted(text: &str) -> String {
    const CHARACTERS_MAX: usize = 64;
    let mut quoted: String = text
        .chars()
        .take(CHARACTERS_MAX)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(CHARACTERS_MAX).is_some() {
        quoted.push('…');
    }
    quoted
}

fn write_json(
    formatter: &mut fmt::Formatter<'_>,
    problem: &JsonProblem,
    position: Option<(usize, usize)>,
) -> fmt::Result {
    write!(formatter, "{problem}")?;
    match position {
        Some((line, column)) => write!(formatter, ", line {line}, column {column}"),
        None => Ok(()),
    }
}

fn write_absent(
    formatter: &mut fmt::Formatter<'_>,
    kind: ItemKind,
    id: &str,
    present: &[String],
) -> fmt::Result {
    let (kind, array) = (kind.as_str(), kind.array());
    write!(formatter, "there is no {kind} `{id}`; the {array} are: ")?;
    match present.is_empty() {
        true => formatter.write_str("none"),
        false => formatter.write_str(&present.join(", ")),
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Json { problem, position } => write_json(formatter, problem, *position),
            Problem::TooLarge { bytes, bytes_max } => {
                write!(formatter, "{bytes} bytes, and {bytes_max} are allowed")
            }
            Problem::TooMany {
                kind,
                count,
                count_max,
            } => {
                let array = kind.array();
                write!(formatter, "{count} {array}, and {count_max} are allowed")
            }
            Problem::Absent { kind, id, present } => write_absent(formatter, *kind, id, present),
            Problem::Missing { key, readers } => {
                write!(
                    formatter,
                    "`{key}` is missing ({readers} SDKs fail without it)"
                )
            }
            Problem::WrongKind {
                key,
                expected,
                found,
            } => {
                write!(formatter, "`{key}` must be {expected}, and is {found}")
            }
            Problem::Unknown { key, found, known } => {
                let known = known.join(", ");
                write!(
                    formatter,
                    "`{key}` is `{found}`, and must be one of {known}"
                )
            }
            Problem::OutOfRange {
                key,
                expected,
                found,
            } => {
                write!(formatter, "`{key}` is {found}, and must be {expected}")
            }
            Problem::Empty { key } => write!(formatter, "`{key}` is empty"),
            Problem::NotAnId { found } => {
                write!(
                    formatter,
                    "`{found}` is no id (letters, digits, `.`, `-`, `_`)"
                )
            }
            Problem::Duplicate => write!(formatter, "the id stands twice"),
            Problem::NoSuchSegment { segment } => {
                write!(
                    formatter,
                    "a rule names segment `{segment}`, which is not there"
                )
            }
            Problem::NoSuchVariation { variation } => {
                write!(
                    formatter,
                    "a group names variation `{variation}`, which is not there"
                )
            }
            Problem::RuleOrder { count } => write!(
                formatter,
                "`order` of the segment rules must run from 1 to {count} without gaps \
                 (Python and Java SDKs index them)"
            ),
        }
    }
}

impl fmt::Display for DocumentError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(item) = &self.item {
            formatter.write_str(item.kind.as_str())?;
            match &item.id {
                Some(id) => write!(formatter, " `{id}`: ")?,
                None => formatter.write_str(": ")?,
            }
        }
        self.problem.fmt(formatter)?;
        match self.path.as_str() {
            "$" => Ok(()),
            path => write!(formatter, " at {path}"),
        }
    }
}

impl std::error::Error for DocumentError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_that_names_item_problem_and_place() {
        let error = DocumentError {
            item: None,
            path: "$.environments[0].features[3]".into(),
            problem: Problem::Missing {
                key: "segment_rules",
                readers: "Node, Java, JavaScript and Rust",
            },
        };
        let expected = "feature `fast-checkout`: `segment_rules` is missing (Node, Java, \
                        JavaScript and Rust SDKs fail without it) \
                        at $.environments[0].features[3]";
        let error = error.of(ItemKind::Feature, Some("fast-checkout"));
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.clone().of(ItemKind::Segment, None), error);
    }

    #[test]
    fn quotes_are_clipped_and_keep_to_their_line() {
        assert_eq!(quoted("a\nb"), "a\\nb");
        assert_eq!(quoted(&"x".repeat(65)).chars().count(), 65);
    }
}
