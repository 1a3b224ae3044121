//! What routing asks for, and what it is told: nouns without rules.
//!
//! Orders for the tasks outside, what these report back, why to be woken, and what is worth a line
//! in the log. Whatever was asked for carries an id (`id`), and the order says by which call it is
//! answered.

use super::adopt::Objection;
use super::id::{RequestId, SubjectIndex};
use super::peers::Ask;
use crate::model::region::{Epoch, Head, Mark, NodeIndex, Phase, Reason, Refusal};
use crate::model::{Id, Revision};
use crate::time::{Duration, Instant};

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Store this word, on the same lane as writes; answer with `handle_mark`.
    Store { subject: SubjectIndex, mark: Mark },
    /// Ask a peer for its status; answer with `handle_status` or `handle_ask_failed`.
    Ask(Ask),
    /// Pull a peer's record, verify it, and bring it by way of `judge` and `adopt`.
    PullRecord { peer: NodeIndex },
    /// Pull a slot's content, at least of this revision; answer with `handle_head` if it was to be
    /// adopted, and with `handle_pulled` in any case.
    PullHead {
        subject: SubjectIndex,
        peer: NodeIndex,
        revision: Revision,
    },
    /// Store what was pushed, as this; its digest is the caller's to fill in. For a route: send it
    /// to the local cluster. Answer with `handle_applied`.
    Apply { id: RequestId, head: Head },
    /// Send the request to a peer; answer with `handle_sent` when the first byte leaves, and with
    /// `handle_forwarded`.
    Forward {
        id: RequestId,
        peer: NodeIndex,
        epoch: Epoch,
        left: Duration,
    },
    /// Give this forward up, however far it is.
    Abandon { id: RequestId },
    /// Answer the request. It is over.
    Answer { id: RequestId, answer: Answer },
}

/// What a request is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// 200: it is in the store as this revision. `is_change`: it was not before.
    Applied {
        revision: Revision,
        is_change: bool,
    },
    /// What the peer, or the local server, has answered.
    Pass,
    Refused(Refusal),
}

/// What became of a forward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// An answer came that the client gets as it is.
    Answered,
    /// 421, with what the peer had to say.
    Refused(Refusal),
    /// Not one byte was sent.
    NotSent,
    /// Bytes were sent and no answer came.
    Lost,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The store holds this now, and has synced it.
    Stored(Head),
    /// The local server has answered, or its connection ended: that was passed on.
    Passed,
    /// The store did not take it.
    Failed,
}

/// Why `poll_timeout` wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// A phase may change.
    Phase,
    /// A word is to be stored, or something to be pulled again.
    Retry,
    /// A request is over, or to be tried again.
    Request,
    /// A peer is to be asked, or does not answer.
    Peer,
}

/// What is worth a line in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A subject's phase.
    Phase {
        subject: SubjectIndex,
        phase: Phase,
        epoch: Epoch,
    },
    /// This node became primary without a seal: what the writer before it had not passed on is at
    /// that node, and may end among its orphans.
    TakenOver { subject: SubjectIndex, epoch: Epoch },
    /// A peer refused, or was refused, for the first time with this reason.
    Refused { peer: Id, reason: Reason },
    /// A record was refused.
    RecordRefused(Objection),
    /// The wall clock was set.
    Tilted { until: Instant },
    /// Two writers were at work in one term.
    Contradiction { subject: SubjectIndex },
}
