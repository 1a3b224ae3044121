//! Writes on their way: who waits, who runs, who was sent on, and by when each has to be answered.
//!
//! A table of what is known of each request but its bytes, which whoever reads them keeps. What a
//! request does next follows from the phase of its subject and is decided in `serve`; here is only
//! the bookkeeping, and the bound on what is held back.
//!
//! Invariants: a request that is held back has its body in the sum of parked bytes, and no other;
//! every request has a deadline, and is answered once.

use super::id::{RequestId, SubjectIndex};
use crate::limits::Limits;
use crate::model::region::{Epoch, Refusal};
use crate::model::{Digest, Revision};
use crate::time::Instant;
use std::collections::BTreeMap;

/// Who sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Not a peer. `may_forward`: without `X-Relay-No-Forward`.
    Client { may_forward: bool },
    /// A peer: it is not sent on once more.
    Peer,
}

/// What has to be there for a push to count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Precondition {
    #[default]
    None,
    /// `If-Match`: one of these.
    OneOf(Box<[Revision]>),
    /// `If-Match: *`.
    Content,
    /// `If-None-Match: *`.
    NoContent,
    /// `If-None-Match`: none of these.
    NoneOf(Box<[Revision]>),
    /// All of these, of which there are two at most.
    All(Box<[Precondition]>),
}

impl Precondition {
    /// Whether it holds for a slot at this revision; 0-0 is before all content. Bounded by the
    /// revisions that are named.
    pub fn holds(&self, current: Revision) -> bool {
        let is_there = current != Revision::default();
        match self {
            Precondition::None => true,
            Precondition::OneOf(wanted) => is_there && wanted.contains(&current),
            Precondition::Content => is_there,
            Precondition::NoContent => !is_there,
            Precondition::NoneOf(unwanted) => !is_there || !unwanted.contains(&current),
            Precondition::All(all) => all.iter().all(|one| one.holds(current)),
        }
    }
}

/// A write that somebody wants.
#[derive(Clone, Debug)]
pub struct Write {
    pub subject: SubjectIndex,
    pub origin: Origin,
    /// Its body, as far as it is known beforehand.
    pub bytes: usize,
    /// Of the content that is pushed; absent for routes.
    pub digest: Option<Digest>,
    pub precondition: Precondition,
    /// `Idempotency-Key`.
    pub key: Option<Box<str>>,
}

/// How far a request is.
#[derive(Debug)]
pub enum Stage {
    /// For the phase to change, or for the next attempt.
    Waiting { not_before: Instant },
    /// It was sent on; `is_sent` when a byte of it left.
    Forwarding { is_sent: bool },
    /// It was sent on and given up.
    Lost,
    /// The store, or the local server, has it. `is_answered`: it took too long.
    Applying { epoch: Epoch, is_answered: bool },
}

/// A request in the table.
#[derive(Debug)]
pub struct Request {
    pub write: Write,
    pub deadline: Instant,
    pub stage: Stage,
    /// Its body is kept, so that it may be sent again.
    pub is_held: bool,
    /// What the last peer said.
    pub refused: Option<Refusal>,
}

/// All requests.
#[derive(Debug)]
pub struct Requests {
    all: BTreeMap<RequestId, Request>,
    serial: u64,
    held: usize,
    held_bytes: usize,
    count_max: usize,
    held_max: usize,
    held_bytes_max: usize,
}

/// There is no place for one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestsFull;

impl Requests {
    /// A table for one request of each connection.
    pub fn new(limits: &Limits) -> Requests {
        Requests {
            all: BTreeMap::new(),
            serial: 0,
            held: 0,
            held_bytes: 0,
            count_max: limits.connections_max,
            held_max: limits.region.parked_max,
            held_bytes_max: limits.region.parked_bytes_max,
        }
    }

    /// Gives no id that `before` gave.
    pub fn count_on(&mut self, before: &Requests) {
        self.serial = before.serial;
    }

    /// Takes a request in; its body is held if there is room for it.
    ///
    /// # Errors
    /// The table is full. Bounded by O(log n).
    pub fn insert(
        &mut self,
        write: Write,
        deadline: Instant,
        now: Instant,
    ) -> Result<RequestId, RequestsFull> {
        if self.all.len() >= self.count_max {
            return Err(RequestsFull);
        }
        let bytes = self.held_bytes.saturating_add(write.bytes);
        let is_held = self.held < self.held_max && bytes <= self.held_bytes_max;
        if is_held {
            self.held += 1;
            self.held_bytes = bytes;
        }
        self.serial += 1;
        let id = RequestId(self.serial);
        let request = Request {
            write,
            deadline,
            stage: Stage::Waiting { not_before: now },
            is_held,
            refused: None,
        };
        self.all.insert(id, request);
        Ok(id)
    }

    /// The request of this id, unless it is over.
    pub fn of(&self, id: RequestId) -> Option<&Request> {
        self.all.get(&id)
    }

    /// The same, to be changed.
    pub fn of_mut(&mut self, id: RequestId) -> Option<&mut Request> {
        self.all.get_mut(&id)
    }

    /// Takes a request out.
    pub fn remove(&mut self, id: RequestId) -> Option<Request> {
        let request = self.all.remove(&id)?;
        if request.is_held {
            self.held -= 1;
            self.held_bytes = self.held_bytes.saturating_sub(request.write.bytes);
        }
        Some(request)
    }

    /// All of them, in the order of their arrival.
    pub fn iter(&self) -> impl Iterator<Item = (RequestId, &Request)> {
        self.all.iter().map(|(id, request)| (*id, request))
    }

    /// How many are waiting.
    pub fn parked(&self) -> usize {
        let waits = |request: &&Request| matches!(request.stage, Stage::Waiting { .. });
        self.all.values().filter(waits).count()
    }

    /// The next instant at which one of them is over, or to be tried again.
    pub fn next_wake(&self, now: Instant) -> Option<Instant> {
        let has_time_out = |request: &Request| request.write.digest.is_some();
        let wake = |request: &Request| match request.stage {
            Stage::Applying { is_answered, .. } if is_answered || !has_time_out(request) => None,
            // What waits for its phase is looked at when that changes.
            Stage::Waiting { not_before } if not_before > now => {
                Some(request.deadline.min(not_before))
            }
            Stage::Waiting { .. } | Stage::Lost => Some(request.deadline),
            Stage::Forwarding { .. } | Stage::Applying { .. } => Some(request.deadline),
        };
        self.all.values().filter_map(wake).min()
    }
}
