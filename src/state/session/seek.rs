//! Whom to dial, and when, while nothing is followed.
//!
//! Policy: the upstream that did not just fail is dialled at once, so that an outage of one is over
//! in one round trip. When that has failed as well, the two take turns, and one back-off holds for
//! both together: a day with both dead costs at most 300 dials, because the radio of a gateway is
//! metered. A link that opens and is lost again soon does not reset it (or two upstreams that both
//! accept and drop would be dialled without end); a link that held does.
//!
//! What an upstream said about itself (`Retry-After`, a refused key) holds beside all that.

use super::link::Link;
use crate::limits::Limits;
use crate::model::Role;
use crate::state::backoff::Backoff;
use crate::time::{Duration, Instant};
use fastrand::Rng;

/// The next dial.
#[derive(Debug)]
pub(super) struct Seek {
    has_backup: bool,
    at: Instant,
    /// Whose turn it is.
    turn: Role,
    backoff: Backoff,
    /// The wait that was drawn last.
    delay: Duration,
    delay_first: Duration,
}

impl Seek {
    pub(super) fn new(has_backup: bool, limits: &Limits) -> Seek {
        Seek {
            has_backup,
            at: Instant::ORIGIN,
            turn: Role::Primary,
            backoff: Backoff::new(limits.backoff_first, limits.backoff_cap),
            delay: limits.backoff_first,
            delay_first: limits.backoff_first,
        }
    }

    /// There was a link that held.
    pub(super) fn reset(&mut self) {
        self.backoff.reset();
        self.delay = self.delay_first;
    }

    /// `role` is dialled now.
    pub(super) fn hurry(&mut self, role: Role, now: Instant) {
        self.turn = role;
        self.at = now;
    }

    /// `lost` has ended, as a link or before it was one. Returns whether the other is dialled at
    /// once: if it may be, and did not fail just now itself.
    pub(super) fn turn(
        &mut self,
        lost: Role,
        was_open: bool,
        other: &Link,
        random: &mut Rng,
        now: Instant,
    ) -> bool {
        let is_fresh = match other.failed {
            None => was_open || self.backoff.attempts() == 0,
            Some(failed) => was_open && failed + self.delay <= now,
        };
        if self.has_backup && is_fresh && other.not_before <= now {
            self.hurry(lost.other(), now);
            return true;
        }
        self.delay = self.backoff.next_delay(random);
        self.at = now + self.delay;
        self.turn = if self.has_backup { lost.other() } else { lost };
        false
    }

    /// Who is dialled next, and when. Whoever may be dialled first; of two, whose turn it is.
    pub(super) fn next(&self, links: &[Link; 2]) -> (Role, Instant) {
        let at = |role: Role| self.at.max(links[role as usize].not_before);
        let other = self.turn.other();
        if self.has_backup && at(other) < at(self.turn) {
            (other, at(other))
        } else {
            (self.turn, at(self.turn))
        }
    }
}
