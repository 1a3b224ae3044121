//! The fetches of a slot: one at a time, and what comes after it.
//!
//! Owns when the next fetch is due and why; whom to ask is the session's, which knows the links. A
//! change that is announced during a fetch makes one more, however many there are, because the
//! answer that is under way may be older than they are. What failed is tried again until it works:
//! after a second, then less and less often, never before a `Retry-After` is over. The fetch that
//! nobody asked for comes up to a tenth early, so that slots that were fetched together drift
//! apart.
//!
//! The fetch by which a probe judges the primary is beside all that: a primary that accepts sockets
//! and never answers a GET must not hold up what the backup announces, nor the other way round.
//!
//! Invariants: at most one fetch is in flight, and one of a probe; between two stands
//! `refetch_spacing` at least, after a failure `refetch_first`, unless a link has opened meanwhile;
//! an abandoned fetch never counts.

use super::{FetchId, Loss};
use crate::limits::Limits;
use crate::model::Role;
use crate::state::backoff::Backoff;
use crate::time::{Duration, Instant};
use fastrand::Rng;
use heapless::Deque;

/// What a fetch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To have what the upstream that is followed has.
    Follow,
    /// To see whether the primary can be gone back to.
    Probe,
    /// Because the primary failed this once; the backup is not followed for it.
    Fallback,
}

/// A fetch that was ordered and has not come back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) id: FetchId,
    pub(super) role: Role,
    pub(super) purpose: Purpose,
    pub(super) deadline: Instant,
}

/// The fetches of one slot.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) flight: Option<Flight>,
    pub(super) probe: Option<Flight>,
    abandoned: Deque<FetchId, 2>,
    /// When the upstream that is followed is asked next; None while nothing calls for it.
    due: Option<Instant>,
    /// The backup is to be asked for a request that the primary failed.
    pub(super) is_fallback_due: bool,
    /// What is due waits at least until this.
    floor: Instant,
    fallback_floor: Instant,
    /// `Retry-After` of each upstream.
    hold: [Instant; 2],
    backoff: Backoff,
    /// How what is due failed last.
    pub(super) failure: Option<Loss>,
    pub(super) fetched: Option<Instant>,
    spacing: Duration,
    retry_first: Duration,
    refresh_interval: Duration,
}

impl Lane {
    pub(super) fn new(limits: &Limits) -> Lane {
        Lane {
            flight: None,
            probe: None,
            abandoned: Deque::new(),
            due: None,
            is_fallback_due: false,
            floor: Instant::ORIGIN,
            fallback_floor: Instant::ORIGIN,
            hold: [Instant::ORIGIN; 2],
            backoff: Backoff::new(limits.refetch_first, limits.refresh_interval),
            failure: None,
            fetched: None,
            spacing: limits.refetch_spacing,
            retry_first: limits.refetch_first,
            refresh_interval: limits.refresh_interval,
        }
    }

    /// When `role` may be asked because the followed content is due, if it is.
    pub(super) fn due(&self, role: Role) -> Option<Instant> {
        let due = self.due?;
        Some(due.max(self.floor).max(self.hold(role)))
    }

    /// When a fallback may start.
    pub(super) fn fallback_at(&self) -> Instant {
        self.fallback_floor.max(self.hold(Role::Backup))
    }

    /// Until when `role` asked to be left alone.
    pub(super) fn hold(&self, role: Role) -> Instant {
        self.hold[role as usize]
    }

    pub(super) fn set_hold(&mut self, role: Role, until: Instant) {
        self.hold[role as usize] = until;
    }

    /// Whether the content is being fetched or should be, be it that a retry waits.
    pub(super) fn is_wanted(&self, now: Instant) -> bool {
        let is_due = self.due.is_some_and(|due| due <= now);
        is_due || self.flight.is_some() || self.failure.is_some()
    }

    /// The content is worth asking for, as soon as the lane is free.
    pub(super) fn want(&mut self, now: Instant) {
        self.due = Some(self.due.map_or(now, |due| due.min(now)));
    }

    /// A link has opened: what came before it is no reason to wait.
    pub(super) fn want_at_once(&mut self, now: Instant) {
        self.floor = now;
        self.backoff.reset();
        self.is_fallback_due = false;
        self.want(now);
    }

    pub(super) fn begin(&mut self, flight: Flight, now: Instant) {
        match flight.purpose {
            Purpose::Follow => {
                self.due = None;
                self.is_fallback_due = false;
                self.floor = now + self.spacing;
            }
            Purpose::Fallback => {
                self.is_fallback_due = false;
                self.fallback_floor = now + self.spacing;
            }
            Purpose::Probe => {
                self.probe = Some(flight);
                return;
            }
        }
        self.flight = Some(flight);
    }

    /// A fetch came back. None when it is not one that is waited for.
    pub(super) fn land(&mut self, id: FetchId) -> Option<Flight> {
        let is_meant = |flight: &mut Flight| flight.id == id;
        let flight = self.flight.take_if(is_meant);
        flight.or_else(|| self.probe.take_if(is_meant))
    }

    /// Gives up what is in flight.
    pub(super) fn abandon(&mut self) -> Option<Flight> {
        let flight = self.flight.take()?;
        self.note_abandoned(flight.id);
        Some(flight)
    }

    /// Gives up the fetch of a probe.
    pub(super) fn abandon_probe(&mut self) {
        if let Some(flight) = self.probe.take() {
            self.note_abandoned(flight.id);
        }
    }

    /// The primary is followed while its probe is under way: the probe's fetch is what was due.
    /// Returns whether there was one.
    pub(super) fn promote_probe(&mut self) -> bool {
        let Some(mut flight) = self.probe.take() else {
            return false;
        };
        self.abandon();
        flight.purpose = Purpose::Follow;
        self.due = None;
        self.is_fallback_due = false;
        self.flight = Some(flight);
        true
    }

    pub(super) fn poll_abandoned(&mut self) -> Option<FetchId> {
        self.abandoned.pop_front()
    }

    fn note_abandoned(&mut self, id: FetchId) {
        // Cannot be full: there are two in flight at most, and none begins while one waits here.
        let _ = self.abandoned.push_back(id);
    }

    /// There is a document that is as new as can be had. The next is due when a change calls for
    /// it, or by and by.
    pub(super) fn settle(&mut self, random: &mut Rng, now: Instant) {
        self.failure = None;
        self.backoff.reset();
        let early = (self.refresh_interval / 10).mul_f64(random.f64());
        self.due
            .get_or_insert(now + (self.refresh_interval - early));
    }

    /// The same, where waiting for the retry of what failed would gain nothing.
    pub(super) fn settle_whole(&mut self, random: &mut Rng, now: Instant) {
        self.due = None;
        self.settle(random, now);
    }

    /// What was due failed and is tried again, at most `cap` from now.
    pub(super) fn retry(&mut self, loss: Loss, cap: Duration, random: &mut Rng, now: Instant) {
        self.failure = Some(loss);
        let delay = self.backoff.next_delay_within(cap, random);
        self.floor = now + delay.min(self.retry_first);
        let at = now + delay;
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Nothing is followed any more: what is due waits for a link, or for its retry.
    pub(super) fn rest(&mut self, random: &mut Rng, now: Instant) {
        self.is_fallback_due = false;
        if self.due.is_some_and(|due| due <= now) {
            let delay = self.backoff.next_delay(random);
            self.due = Some(now + delay);
        }
    }
}
