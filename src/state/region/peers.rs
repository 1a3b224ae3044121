//! When which peer is asked for its status, and what it said last.
//!
//! Every other node of the record is asked each `poll`, ± 20 %, so that nodes that started together
//! do not ask together. Where the seal of one is awaited, the question waits at that peer until
//! something changes there, and the next follows at once: the gap of a switch is then a round trip.
//!
//! Invariant: at most one question to each peer is under way. One that is not answered in time is
//! given up, and its answer, should it still come, is nobody's.

use super::id::AskId;
use super::trust::{Now, Offset};
use crate::limits::Limits;
use crate::model::Id;
use crate::model::region::{NodeIndex, Status};
use crate::time::{Duration, Instant, WallMs};
use fastrand::Rng;

/// Another node of the record.
#[derive(Debug)]
pub struct Peer {
    pub index: NodeIndex,
    pub name: Id,
    pub last_ok: Option<Instant>,
    pub offset: Option<Offset>,
    /// The version of its record, as it said last.
    pub version: Option<u64>,
    /// All that it said last, for people, and when.
    pub said: Option<(Instant, Status)>,
    /// Boot and serial of its last status.
    heard: Option<(u64, u64)>,
    asked: Option<Asked>,
    next: Instant,
    /// Its record is worth pulling, not before then.
    pub(super) pull_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    id: AskId,
    at: Instant,
    deadline: Instant,
    is_waiting: bool,
}

/// A question, as it goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    pub id: AskId,
    pub peer: NodeIndex,
    /// Answer only once the status is another one than this (boot and serial), or after `wait`.
    pub after: Option<(u64, u64)>,
    pub wait: Duration,
}

impl Peer {
    /// A peer that is to be asked at once.
    pub fn new(index: NodeIndex, name: Id, now: Instant) -> Peer {
        Peer {
            index,
            name,
            last_ok: None,
            offset: None,
            version: None,
            said: None,
            heard: None,
            asked: None,
            next: now,
            pull_at: None,
        }
    }

    /// Takes over what was known of the same node under the last record.
    pub fn inherit(&mut self, before: &Peer) {
        self.last_ok = before.last_ok;
        self.offset = before.offset;
        self.said = before.said.clone();
    }

    /// The question that is due, if one is. `is_awaited`: a seal of this peer is waited for.
    pub fn poll_ask(
        &mut self,
        serial: &mut u64,
        is_awaited: bool,
        limits: &Limits,
        now: Instant,
    ) -> Option<Ask> {
        if self.asked.is_some_and(|asked| now >= asked.deadline) {
            self.handle_failed();
        }
        if now < self.next_ask(is_awaited) {
            return None;
        }
        *serial += 1;
        let (after, wait) = match self.heard.filter(|_| is_awaited) {
            Some(heard) => (Some(heard), limits.region.wait),
            None => (None, Duration::ZERO),
        };
        let id = AskId(*serial);
        self.asked = Some(Asked {
            id,
            at: now,
            deadline: now + wait + limits.region.ask_timeout,
            is_waiting: after.is_some(),
        });
        let peer = self.index;
        Some(Ask {
            id,
            peer,
            after,
            wait,
        })
    }

    /// The question that is under way.
    #[cfg(test)]
    pub fn asked(&self) -> Option<AskId> {
        self.asked.map(|asked| asked.id)
    }

    /// When `poll_ask` is to be called again.
    pub fn next_ask(&self, is_awaited: bool) -> Instant {
        match self.asked {
            Some(asked) => asked.deadline,
            None if is_awaited && self.heard.is_some() => Instant::ORIGIN,
            None => self.next,
        }
    }

    /// Whether this answer is the one that is awaited; the next question comes after `poll`.
    pub fn land(&mut self, id: AskId, poll: Duration, random: &mut Rng, now: Instant) -> bool {
        if self.asked.is_none_or(|asked| asked.id != id) {
            return false;
        }
        let share = 0.8 + 0.4 * random.f64();
        self.next = now + poll.mul_f64(share);
        true
    }

    /// It is to be asked at this time, if not before.
    pub fn hurry(&mut self, at: Instant) {
        self.next = self.next.min(at);
    }

    /// It answered: what its clock shows, and where its status stands.
    pub fn handle_ok(&mut self, wall: WallMs, heard: (u64, u64), now: Now) {
        if let Some(asked) = self.asked.take() {
            self.last_ok = Some(now.instant);
            // A question that waited there says nothing about clocks.
            if !asked.is_waiting {
                self.offset = Some(Offset::measured(wall, asked.at, now));
            }
        }
        self.heard = Some(heard);
    }

    /// It did not answer: the next question is a plain one, at its time.
    pub fn handle_failed(&mut self) {
        self.asked = None;
        self.heard = None;
    }
}
