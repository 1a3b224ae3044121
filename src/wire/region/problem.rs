//! Refusals of writes, as `application/problem+json` (RFC 9457), both ways.
//!
//! Owns the one table from a [`Reason`] to its status: nobody else chooses one. 421 says that
//! another node is meant, and is hidden by the node that the client has asked; 503 passes by itself
//! and says when to come back; 504 is the one after which nobody knows what became of the write.
//!
//! Invariant: never a 3xx, because clients of the service follow them.

use crate::model::Id;
use crate::model::region::{Epoch, Outcome, Reason, Refusal, Subject};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// What a body of this room is.
pub const CONTENT_TYPE: &str = "application/problem+json";

/// The HTTP status of a refusal.
pub const fn status(reason: Reason) -> u16 {
    match reason {
        Reason::PreconditionFailed => 412,
        Reason::BodyTooLarge => 413,
        Reason::WrongCluster | Reason::StaleEpoch | Reason::UnknownEpoch | Reason::NotPrimary => {
            421
        }
        Reason::Loop => 502,
        Reason::DeadlineOver
        | Reason::HoldFull
        | Reason::HoldTimeout
        | Reason::Draining
        | Reason::StoreFailed
        | Reason::NoRecord
        | Reason::StateConflict
        | Reason::OldRecord
        | Reason::Starting
        | Reason::ClockTilted
        | Reason::ClockUntrusted => 503,
        Reason::ForwardTimeout => 504,
    }
}

/// What was wrong, and what to do about it.
const fn title(reason: Reason) -> &'static str {
    match reason {
        Reason::WrongCluster => "The sender belongs to another cluster.",
        Reason::Loop => "The request has been here before.",
        Reason::DeadlineOver => "The time for this request is over.",
        Reason::StaleEpoch => "The sender goes by a term that is over.",
        Reason::UnknownEpoch => "The sender goes by a term that has not begun here.",
        Reason::NotPrimary => "Another node is primary.",
        Reason::PreconditionFailed => "The content was changed meanwhile: read it and try again.",
        Reason::BodyTooLarge => "The body is larger than a push may be.",
        Reason::HoldFull => "Too many writes are held back already: retry.",
        Reason::HoldTimeout => "No node became primary in time: retry.",
        Reason::Draining => "This node is shutting down: retry.",
        Reason::ForwardTimeout => "The primary did not answer: read what it holds before a retry.",
        Reason::StoreFailed => "The store did not confirm it in time: read what it holds.",
        Reason::NoRecord => "This node has no state record.",
        Reason::StateConflict => "Two state records have one version: sign a higher one.",
        Reason::OldRecord => "This node's state record is older than what it has seen.",
        Reason::Starting => "This node has just started: retry.",
        Reason::ClockTilted => "This node's clock was set a moment ago: retry.",
        Reason::ClockUntrusted => "This node's clock is not to be trusted.",
    }
}

#[derive(Serialize, Deserialize)]
struct Body<'b> {
    #[serde(borrow)]
    title: Cow<'b, str>,
    status: u16,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    detail: Cow<'b, str>,
    #[serde(borrow)]
    reason: Cow<'b, str>,
    #[serde(borrow)]
    outcome: Cow<'b, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    slot: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    primary: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
}

/// The body of a refusal.
pub fn write(refusal: &Refusal) -> String {
    let body = Body {
        title: title(refusal.reason).into(),
        status: status(refusal.reason),
        detail: refusal.words.as_str().into(),
        reason: refusal.reason.as_str().into(),
        outcome: refusal.outcome.as_str().into(),
        slot: refusal.subject.as_ref().map(Subject::to_string),
        epoch: refusal.epoch.map(|epoch| epoch.0),
        primary: refusal.primary.as_ref().map(Id::to_string),
        version: refusal.version,
    };
    serde_json::to_string(&body).unwrap_or_default()
}

/// Reads a peer's refusal; `None` if it is none. Unknown members are ignored, so that nodes of two
/// versions understand each other. Bounded by the length of `body`.
pub fn read(body: &[u8]) -> Option<Refusal> {
    let body: Body<'_> = serde_json::from_slice(body).ok()?;
    let name = |text: &String| Id::new(text);
    Some(Refusal {
        reason: Reason::parse(&body.reason)?,
        outcome: Outcome::parse(&body.outcome)?,
        subject: body.slot.as_deref().and_then(Subject::parse),
        epoch: body.epoch.map(Epoch),
        primary: body.primary.as_ref().and_then(name),
        version: body.version,
        words: body.detail.into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(reason: Reason) -> Refusal {
        Refusal {
            reason,
            outcome: Outcome::NotAttempted,
            subject: Subject::parse("line3/dev"),
            epoch: Some(Epoch(5)),
            primary: Id::new("eu-1"),
            version: Some(42),
            words: String::from("global state must be corrected: \"v41\""),
        }
    }

    #[test]
    fn refusals_read_back_as_what_they_say() {
        for reason in Reason::ALL {
            let refusal = refusal(reason);
            assert_eq!(read(write(&refusal).as_bytes()), Some(refusal));
        }
        let bare = Refusal {
            subject: None,
            epoch: None,
            primary: None,
            version: None,
            words: String::new(),
            ..refusal(Reason::NoRecord)
        };
        assert_eq!(read(write(&bare).as_bytes()), Some(bare));
    }

    #[test]
    fn what_is_no_refusal_of_a_node_is_none() {
        for body in [
            "",
            "{}",
            "<html>",
            r#"{"title":"a","status":421,"reason":"b"}"#,
        ] {
            assert_eq!(read(body.as_bytes()), None, "{body}");
        }
    }

    #[test]
    fn only_what_was_sent_on_in_error_is_421() {
        let misdirected = |reason: &Reason| status(*reason) == 421;
        let found: Vec<Reason> = Reason::ALL.into_iter().filter(misdirected).collect();
        let expected = [
            Reason::WrongCluster,
            Reason::StaleEpoch,
            Reason::UnknownEpoch,
            Reason::NotPrimary,
        ];
        assert_eq!(found, expected);
        for reason in Reason::ALL {
            assert!((400..600).contains(&status(reason)), "{reason:?}");
        }
    }
}
