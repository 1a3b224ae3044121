//! Why a write was turned away, and what two nodes do not agree about.
//!
//! Reasons are words that nodes, people and monitors share; what a reason means in HTTP is
//! `wire::region::problem`'s. A refusal says who the refusing node believes in, so that the other
//! side sees which of the two is mistaken; a disagreement says it to people.

use super::{Epoch, Subject};
use crate::model::Id;
use std::fmt;

/// Why a write was turned away. `wire::region::problem` has the one table from these to statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The sender belongs to another cluster.
    WrongCluster,
    /// The request has been here, or would have to go on.
    Loop,
    /// The sender's time for it is over.
    DeadlineOver,
    /// The sender believes in a term that is over.
    StaleEpoch,
    /// The sender believes in a term that has not begun here.
    UnknownEpoch,
    /// This node is not primary, and may not or need not forward.
    NotPrimary,
    /// `If-Match` names another revision than the newest.
    PreconditionFailed,
    /// The body is larger than a push may be.
    BodyTooLarge,
    /// Too much is held back already.
    HoldFull,
    /// It was held back for as long as the record allows.
    HoldTimeout,
    /// The node that held it back is shutting down.
    Draining,
    /// It was sent on, and no answer came.
    ForwardTimeout,
    /// The store did not take it.
    StoreFailed,
    /// See [`Doubt::NoRecord`], and so on.
    NoRecord,
    StateConflict,
    OldRecord,
    Starting,
    ClockTilted,
    ClockUntrusted,
}

impl Reason {
    /// All of them, in the order of their declaration.
    pub const ALL: [Reason; 19] = [
        Reason::WrongCluster,
        Reason::Loop,
        Reason::DeadlineOver,
        Reason::StaleEpoch,
        Reason::UnknownEpoch,
        Reason::NotPrimary,
        Reason::PreconditionFailed,
        Reason::BodyTooLarge,
        Reason::HoldFull,
        Reason::HoldTimeout,
        Reason::Draining,
        Reason::ForwardTimeout,
        Reason::StoreFailed,
        Reason::NoRecord,
        Reason::StateConflict,
        Reason::OldRecord,
        Reason::Starting,
        Reason::ClockTilted,
        Reason::ClockUntrusted,
    ];

    /// As it is written in answers, metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::WrongCluster => "wrong_cluster",
            Reason::Loop => "loop",
            Reason::DeadlineOver => "deadline_over",
            Reason::StaleEpoch => "stale_epoch",
            Reason::UnknownEpoch => "unknown_epoch",
            Reason::NotPrimary => "not_primary",
            Reason::PreconditionFailed => "precondition_failed",
            Reason::BodyTooLarge => "body_too_large",
            Reason::HoldFull => "hold_full",
            Reason::HoldTimeout => "hold_timeout",
            Reason::Draining => "draining",
            Reason::ForwardTimeout => "forward_timeout",
            Reason::StoreFailed => "store_failed",
            Reason::NoRecord => "no_record",
            Reason::StateConflict => "state_conflict",
            Reason::OldRecord => "old_record",
            Reason::Starting => "starting",
            Reason::ClockTilted => "clock_tilted",
            Reason::ClockUntrusted => "clock_untrusted",
        }
    }

    /// The reverse of `as_str`.
    pub fn parse(text: &str) -> Option<Reason> {
        Reason::ALL
            .into_iter()
            .find(|reason| reason.as_str() == text)
    }
}

/// What became of a write; the value of `X-Relay-Outcome`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in the store.
    Applied,
    /// Nobody stored it, and nobody will.
    NotAttempted,
    /// It may be in a store or not.
    Unknown,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Outcome; 3] = [Outcome::Applied, Outcome::NotAttempted, Outcome::Unknown];

    /// As it is written in the header.
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Applied => "applied",
            Outcome::NotAttempted => "not-attempted",
            Outcome::Unknown => "unknown",
        }
    }

    /// The reverse of `as_str`.
    pub fn parse(text: &str) -> Option<Outcome> {
        Outcome::ALL
            .into_iter()
            .find(|outcome| outcome.as_str() == text)
    }
}

/// A refusal with what the other side needs to see who is mistaken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub reason: Reason,
    pub outcome: Outcome,
    /// What it was about; absent where that is not known.
    pub subject: Option<Subject>,
    /// The term that is in force at the refusing node.
    pub epoch: Option<Epoch>,
    /// Who is primary, as the refusing node believes.
    pub primary: Option<Id>,
    /// The refusing node's record.
    pub version: Option<u64>,
    /// What is to be corrected, in words; empty where nothing is.
    pub words: String,
}

/// What two nodes do not agree about. Prints as what has to be corrected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    pub peer: Id,
    pub reason: Reason,
    pub held: Belief,
    pub heard: Belief,
}

/// What one node goes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Belief {
    pub version: Option<u64>,
    pub primary: Option<Id>,
}

impl fmt::Display for Belief {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Some(version) => write!(formatter, "v{version}")?,
            None => formatter.write_str("no record")?,
        }
        match &self.primary {
            Some(primary) => write!(formatter, " (primary {primary})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Disagreement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "global state must be corrected: this node holds {}, {} sent {}",
            self.held, self.peer, self.heard
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disagreement_says_what_must_be_corrected() {
        let belief = |version, primary| Belief {
            version: Some(version),
            primary: Id::new(primary),
        };
        let disagreement = Disagreement {
            peer: Id::new("au-1").unwrap(),
            reason: Reason::StaleEpoch,
            held: belief(42, "eu-1"),
            heard: belief(41, "au-1"),
        };
        let words = "global state must be corrected: this node holds v42 (primary eu-1), au-1 sent \
                     v41 (primary au-1)";
        assert_eq!(disagreement.to_string(), words);
    }
}
