//! A push in HTTP: on which conditions it is meant, and every answer to it.
//!
//! A slot's revision is its entity tag. `If-Match` names the revision that the sender has read;
//! `If-None-Match: *` says that there must be nothing yet. A condition that cannot be read is the
//! sender's fault and refused: to pass over it would overwrite what he did not want overwritten.
//!
//! Refusals are `application/problem+json` with a reason for programs and a sentence for people;
//! what was refused has changed nothing. This is the one table of their statuses.
//!
//! Source: RFC 9110 13.1 (conditions), RFC 9457 (problems).

use serde::{Deserialize, Serialize};

use super::DecodeError;
use super::http::response::Answer;
use super::json::line;
use crate::model::{Revision, SlotKey};
use crate::time::Duration;

/// When a push is meant to count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    pub if_match: Option<Tags>,
    pub if_none_match: Option<Tags>,
}

/// A list of entity tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tags {
    Any,
    /// Tags that are no revision are nobody's.
    These(Vec<Option<Revision>>),
}

/// The revision as an entity tag.
pub fn etag(revision: Revision) -> String {
    format!("\"{revision}\"")
}

/// The revision that an entity tag of ours stands for.
pub fn revision(etag: &str) -> Option<Revision> {
    let inner = etag.strip_prefix('"')?.strip_suffix('"')?;
    Revision::parse(inner)
}

impl Conditions {
    /// Reads the values of the two fields. Bounded by their lengths.
    ///
    /// # Errors
    /// One is no list of entity tags.
    pub fn parse(
        if_match: Option<&str>,
        if_none_match: Option<&str>,
    ) -> Result<Conditions, DecodeError> {
        let tags = |value: Option<&str>, weak_counts| {
            value
                .map(|value| Tags::parse(value, weak_counts))
                .transpose()
        };
        Ok(Conditions {
            // A weak tag is never the same as a strong one (RFC 9110 8.8.3.2), and ours are strong.
            if_match: tags(if_match, false)?,
            if_none_match: tags(if_none_match, true)?,
        })
    }

    /// The two fields, as they go on to another relay. Bounded by the number of tags.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, String)> {
        let field = |name, tags: &Option<Tags>| Some((name, tags.as_ref()?.write()));
        let both = [
            field("if-match", &self.if_match),
            field("if-none-match", &self.if_none_match),
        ];
        both.into_iter().flatten()
    }

    /// Whether they hold for a slot at this revision, or for one without content.
    ///
    /// Bounded by the number of tags.
    pub fn hold(&self, current: Option<Revision>) -> bool {
        let is_there = |tags: &Tags| tags.name(current);
        self.if_match.as_ref().is_none_or(is_there)
            && !self.if_none_match.as_ref().is_some_and(is_there)
    }
}

impl Tags {
    fn parse(value: &str, weak_counts: bool) -> Result<Tags, DecodeError> {
        if value == "*" {
            return Ok(Tags::Any);
        }
        let tag = |text: &str| {
            let text = text.trim_matches([' ', '\t']);
            let (is_weak, quoted) = match text.strip_prefix("W/") {
                Some(quoted) => (true, quoted),
                None => (false, text),
            };
            let inner = quoted
                .strip_prefix('"')
                .and_then(|rest| rest.strip_suffix('"'));
            let inner = inner.filter(|inner| !inner.contains('"'));
            let inner =
                inner.ok_or(DecodeError::Malformed("entity tag, which stands in quotes"))?;
            Ok(Revision::parse(inner).filter(|_| weak_counts || !is_weak))
        };
        let tags: Result<Vec<Option<Revision>>, DecodeError> = value.split(',').map(tag).collect();
        tags.map(Tags::These)
    }

    /// As they are read again: a tag that was no revision is still none.
    fn write(&self) -> String {
        let tag = |tag: &Option<Revision>| tag.map_or_else(|| "\"\"".to_owned(), etag);
        match self {
            Tags::Any => "*".to_owned(),
            Tags::These(tags) => tags.iter().map(tag).collect::<Vec<_>>().join(", "),
        }
    }

    fn name(&self, current: Option<Revision>) -> bool {
        match self {
            Tags::Any => current.is_some(),
            Tags::These(tags) => current.is_some() && tags.contains(&current),
        }
    }
}

/// What became of a push that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is kept and served.
    Applied,
    /// The slot serves this content already.
    Unchanged,
}

/// Who fills a slot that is not pushed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Upstream,
    Seed,
}

impl Owner {
    const fn as_str(self) -> &'static str {
        match self {
            Owner::Upstream => "upstream",
            Owner::Seed => "seed",
        }
    }
}

/// Why a push was refused, or a slot not shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is nothing to show yet.
    Empty,
    OtherSource(Owner),
    /// A condition does not hold.
    Stale,
    TooLarge {
        bytes_max: usize,
    },
    /// Compressed in another way than gzip.
    UnknownCoding,
    /// A condition or the compression cannot be read.
    Malformed(DecodeError),
    /// No document that the slot may serve, and why.
    Document(String),
    /// As many pushes wait as may.
    Crowded,
    Draining,
    /// It could not be kept, and why.
    NotKept(String),
}

#[derive(Serialize)]
struct Done {
    slot: String,
    revision: String,
    outcome: &'static str,
}

#[derive(Serialize)]
struct Problem {
    status: u16,
    reason: &'static str,
    detail: String,
    slot: String,
    /// Where the slot stands; null while it is empty.
    revision: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'static str>,
    #[serde(flatten)]
    standing: Standing,
}

/// Who a relay with a region takes for primary; nothing without one.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Standing {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<String>,
}

/// The answer to a push that was taken; `revision` is that of the content.
pub fn done(slot: &SlotKey, revision: Revision, outcome: Outcome) -> Answer {
    let done = Done {
        slot: slot.to_string(),
        revision: revision.to_string(),
        outcome: match outcome {
            Outcome::Applied => "applied",
            Outcome::Unchanged => "unchanged",
        },
    };
    Answer::json(200, line(&done)).with("etag", etag(revision))
}

impl Refusal {
    /// The whole answer. `current` is where the slot stands; `retry_after` is told to those who may
    /// come back.
    pub fn answer(
        &self,
        slot: &SlotKey,
        current: Option<Revision>,
        standing: Standing,
        retry_after: Duration,
    ) -> Answer {
        let problem = Problem {
            status: self.status(),
            reason: self.reason(),
            detail: self.detail(slot, current),
            slot: slot.to_string(),
            revision: current.map(|revision| revision.to_string()),
            owner: match self {
                Refusal::OtherSource(owner) => Some(owner.as_str()),
                _ => None,
            },
            standing,
        };
        let mut answer = Answer::new(problem.status)
            .with("content-type", "application/problem+json")
            .with_body(line(&problem));
        if let Some(revision) = current {
            answer = answer.with("etag", etag(revision));
        }
        if problem.status == 503 {
            answer = answer.with("retry-after", retry_after.as_secs().max(1).to_string());
        }
        answer
    }

    const fn status(&self) -> u16 {
        match self {
            Refusal::Malformed(_) => 400,
            Refusal::Empty => 404,
            Refusal::OtherSource(_) => 409,
            Refusal::Stale => 412,
            Refusal::TooLarge { .. } => 413,
            Refusal::UnknownCoding => 415,
            Refusal::Document(_) => 422,
            Refusal::Crowded | Refusal::Draining => 503,
            Refusal::NotKept(_) => 507,
        }
    }

    /// For programs; also the label of metrics.
    pub const fn reason(&self) -> &'static str {
        match self {
            Refusal::Empty => "empty",
            Refusal::OtherSource(_) => "other_source",
            Refusal::Stale => "stale",
            Refusal::TooLarge { .. } => "body_too_large",
            Refusal::UnknownCoding => "unknown_coding",
            Refusal::Malformed(_) => "malformed",
            Refusal::Document(_) => "bad_document",
            Refusal::Crowded => "crowded",
            Refusal::Draining => "draining",
            Refusal::NotKept(_) => "not_kept",
        }
    }

    fn detail(&self, slot: &SlotKey, current: Option<Revision>) -> String {
        match self {
            Refusal::Empty => format!("slot {slot} has no content yet: push some"),
            Refusal::OtherSource(owner) => {
                let fills = match owner {
                    Owner::Upstream => "follows the upstream",
                    Owner::Seed => "is filled by the seed",
                };
                format!(
                    "slot {slot} {fills}; only slots with `\"source\": \"operator\"` in the \
                     relay's configuration are pushed to"
                )
            }
            Refusal::Stale => match current {
                Some(revision) => format!(
                    "slot {slot} is at revision {revision}, which is not the one that was meant: \
                     read it again"
                ),
                None => format!("slot {slot} has no content yet, which is not what was meant"),
            },
            Refusal::TooLarge { bytes_max } => {
                format!("the document is longer than {bytes_max} bytes")
            }
            Refusal::UnknownCoding => {
                "the body is compressed in a way that is not known here: send it as it is, or in \
                 gzip"
                    .to_owned()
            }
            Refusal::Malformed(fault) => format!("cannot be read: {}", fault.what()),
            Refusal::Document(problem) => format!("the document is refused: {problem}"),
            Refusal::Crowded => "too many pushes wait already: retry".to_owned(),
            Refusal::Draining => "the relay is shutting down: retry".to_owned(),
            Refusal::NotKept(problem) => {
                format!("the push could not be kept, what is served stays: {problem}")
            }
        }
    }
}

/// The sentences in the body of a refusal, for whoever asked; `None` when it is another body.
pub fn detail(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Detailed {
        title: Option<String>,
        detail: Option<String>,
    }
    let read: Detailed = serde_json::from_slice(body).ok()?;
    let sentences: Vec<String> = [read.title, read.detail].into_iter().flatten().collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(if_match: Option<&str>, if_none_match: Option<&str>, current: Option<&str>) -> bool {
        let current = current.map(|text| Revision::parse(text).unwrap());
        Conditions::parse(if_match, if_none_match)
            .unwrap()
            .hold(current)
    }

    #[test]
    fn a_push_without_conditions_always_counts() {
        assert!(hold(None, None, None) && hold(None, None, Some("0-3")));
    }

    #[test]
    fn the_revision_that_was_read_must_be_the_one_that_is_there() {
        for (value, current, expected) in [
            ("\"0-3\"", Some("0-3"), true),
            ("\"0-3\"", Some("0-4"), false),
            ("\"0-3\"", Some("1-3"), false),
            ("\"0-3\"", None, false),
            ("\"x\", \"0-2\" , \"0-3\"", Some("0-3"), true),
            ("W/\"0-3\"", Some("0-3"), false),
            ("\"0-03\"", Some("0-3"), false),
            ("*", Some("0-3"), true),
            ("*", None, false),
        ] {
            assert_eq!(hold(Some(value), None, current), expected, "{value}");
        }
    }

    #[test]
    fn nothing_is_overwritten_by_what_is_meant_to_be_first() {
        for (value, current, expected) in [
            ("*", None, true),
            ("*", Some("0-1"), false),
            ("\"0-1\"", Some("0-1"), false),
            ("W/\"0-1\"", Some("0-1"), false),
            ("\"0-1\"", Some("0-2"), true),
            ("\"0-1\"", None, true),
        ] {
            assert_eq!(hold(None, Some(value), current), expected, "{value}");
        }
        assert!(!hold(Some("\"0-1\""), Some("*"), Some("0-1")), "both count");
    }

    #[test]
    fn conditions_mean_the_same_at_the_next_relay() {
        for (if_match, if_none_match) in [
            (None, None),
            (Some("*"), None),
            (None, Some("*")),
            (Some("\"0-3\", W/\"0-2\",\"x\""), Some("W/\"0-1\"")),
        ] {
            let conditions = Conditions::parse(if_match, if_none_match).unwrap();
            let fields: Vec<_> = conditions.fields().collect();
            let value = |name| {
                let found = fields.iter().find(|(field, _)| *field == name);
                found.map(|(_, value)| value.as_str())
            };
            let again = Conditions::parse(value("if-match"), value("if-none-match"));
            assert_eq!(again, Ok(conditions));
        }
    }

    #[test]
    fn a_condition_that_cannot_be_read_is_refused() {
        for value in [
            "",
            "0-3",
            "\"0-3",
            "\"0-3\",",
            "'0-3'",
            "\"a\"b\"",
            "w/\"0-3\"",
        ] {
            assert!(Conditions::parse(Some(value), None).is_err(), "{value}");
            assert!(Conditions::parse(None, Some(value)).is_err(), "{value}");
        }
    }

    #[test]
    fn a_refusal_says_where_the_slot_stands() {
        let slot = SlotKey::parse("c/e").unwrap();
        let answer = Refusal::Stale.answer(
            &slot,
            Revision::parse("0-7"),
            Standing::default(),
            Duration::ZERO,
        );
        let body = String::from_utf8(answer.body).unwrap();
        assert_eq!(answer.status, 412);
        assert!(detail(body.as_bytes()).is_some_and(|detail| detail.contains("0-7")));
        assert!(body.contains(r#""revision":"0-7""#), "{body}");
        assert!(answer.fields.contains(&("etag", "\"0-7\"".to_owned())));
        let empty = Refusal::Stale.answer(&slot, None, Standing::default(), Duration::ZERO);
        assert!(!empty.fields.iter().any(|(name, _)| *name == "etag"));
        let owned = Refusal::OtherSource(Owner::Upstream);
        let owned = owned.answer(&slot, None, Standing::default(), Duration::ZERO);
        let body = String::from_utf8(owned.body).unwrap();
        assert!(body.contains(r#""owner":"upstream""#), "{body}");
        let busy =
            Refusal::Crowded.answer(&slot, None, Standing::default(), Duration::from_secs(5));
        assert!(busy.fields.contains(&("retry-after", "5".to_owned())));
    }
}
