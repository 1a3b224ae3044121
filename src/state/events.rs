//! Bodies of usage and analytics that clients have handed over.
//!
//! Owns the bounded queue in front of delivery, and the counts that status and metrics show. It
//! does not look into bodies: whoever accepts one says how many entries it holds.
//!
//! Why nothing is ever refused here: IBM's Go SDK can crash its process when usage is answered
//! with anything but 202 and the relay is gone at the retry, and Python's analytics thread dies of
//! it. So the queue takes every body, and pays with its oldest ones when it is full; each loss is
//! counted.
//!
//! Where no delivery is configured, bodies are counted and let go at once.
//!
//! Invariants: what waits, with [`OVERHEAD_BYTES`] a body, is at most `events_bytes_max`; every
//! body taken in is waiting, taken out, or counted as dropped.

use crate::limits::Limits;
use crate::time::Instant;
use bytes::Bytes;
use std::collections::VecDeque;

/// What a waiting body costs beside its bytes: its place in a queue whose buffer doubles as it
/// grows, and its allocation. Counted, so that empty bodies cannot fill the memory either.
pub const OVERHEAD_BYTES: usize = 192;

/// Which of the two paths a body came in by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Usage,
    Analytics,
}

impl Kind {
    /// As it is written in status and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Usage => "usage",
            Kind::Analytics => "analytics",
        }
    }
}

/// A body that waits for delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub kind: Kind,
    /// As the client sent it, decompressed.
    pub body: Bytes,
    /// How many entries it holds.
    pub entries: u32,
    /// When it came in.
    pub since: Instant,
}

/// What happened to the bodies of one kind since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bodies taken in.
    pub bodies: u64,
    /// Entries in them.
    pub entries: u64,
    /// Bodies that could not be read; answered 202 like the others.
    pub malformed: u64,
    /// Bodies that were taken in and lost, because the queue was full.
    pub dropped_bodies: u64,
    /// Entries in those.
    pub dropped_entries: u64,
}

/// The queue and its counts.
#[derive(Debug)]
pub struct Events {
    queue: VecDeque<Waiting>,
    waiting_bytes: usize,
    /// None where bodies are counted only.
    bytes_max: Option<usize>,
    usage: Counts,
    analytics: Counts,
}

impl Events {
    /// For a relay that delivers: bodies wait, within `events_bytes_max`.
    pub fn kept(limits: &Limits) -> Events {
        Events::new(Some(limits.events_bytes_max))
    }

    /// For a relay with nobody to deliver to: bodies are counted and let go.
    pub fn counted_only() -> Events {
        Events::new(None)
    }

    fn new(bytes_max: Option<usize>) -> Events {
        Events {
            queue: VecDeque::new(),
            waiting_bytes: 0,
            bytes_max,
            usage: Counts::default(),
            analytics: Counts::default(),
        }
    }

    /// Takes a body in. Full: the oldest bodies make room; one that is larger than the whole queue
    /// is itself the one that is dropped.
    ///
    /// `body` is kept as it is: it must not be a small slice of a large buffer. Bounded by the
    /// number of bodies that wait.
    pub fn accept(&mut self, kind: Kind, body: Bytes, entries: u32, now: Instant) {
        let counts = self.counts_mut(kind);
        counts.bodies += 1;
        counts.entries += u64::from(entries);
        let Some(bytes_max) = self.bytes_max else {
            return;
        };
        let waiting = Waiting {
            kind,
            body,
            entries,
            since: now,
        };
        if waiting.cost_bytes() > bytes_max {
            self.handle_drop(&waiting);
            return;
        }
        while self.waiting_bytes + waiting.cost_bytes() > bytes_max
            && let Some(oldest) = self.take()
        {
            self.handle_drop(&oldest);
        }
        self.waiting_bytes += waiting.cost_bytes();
        self.queue.push_back(waiting);
        self.check_invariants();
    }

    /// Counts a body that could not be read.
    pub fn handle_malformed(&mut self, kind: Kind) {
        self.counts_mut(kind).malformed += 1;
    }

    /// The body that has waited longest, which stays.
    pub fn oldest(&self) -> Option<&Waiting> {
        self.queue.front()
    }

    /// Takes the body that has waited longest.
    pub fn take(&mut self) -> Option<Waiting> {
        let oldest = self.queue.pop_front()?;
        self.waiting_bytes = self.waiting_bytes.saturating_sub(oldest.cost_bytes());
        self.check_invariants();
        Some(oldest)
    }

    /// How many bodies wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// What they take, in bytes, each with its overhead.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Whether bodies are counted and let go, because there is nobody to deliver to.
    pub fn is_counting_only(&self) -> bool {
        self.bytes_max.is_none()
    }

    /// What happened to the bodies of `kind` so far.
    pub fn counts(&self, kind: Kind) -> Counts {
        match kind {
            Kind::Usage => self.usage,
            Kind::Analytics => self.analytics,
        }
    }

    fn counts_mut(&mut self, kind: Kind) -> &mut Counts {
        match kind {
            Kind::Usage => &mut self.usage,
            Kind::Analytics => &mut self.analytics,
        }
    }

    fn handle_drop(&mut self, dropped: &Waiting) {
        let counts = self.counts_mut(dropped.kind);
        counts.dropped_bodies += 1;
        counts.dropped_entries += u64::from(dropped.entries);
    }

    fn check_invariants(&self) {
        debug_assert!(self.waiting_bytes <= self.bytes_max.unwrap_or(0));
        debug_assert_eq!(self.waiting_bytes == 0, self.queue.is_empty());
    }
}

impl Waiting {
    fn cost_bytes(&self) -> usize {
        self.body.len().saturating_add(OVERHEAD_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::ORIGIN;

    fn limits(events_bytes_max: usize) -> Limits {
        Limits {
            events_bytes_max,
            ..Limits::PRODUCTION
        }
    }

    fn body(length: usize) -> Bytes {
        vec![b'x'; length].into()
    }

    #[test]
    fn bodies_leave_in_the_order_they_came() {
        let mut events = Events::kept(&Limits::PRODUCTION);
        for number in 0..5_u32 {
            let kind = [Kind::Usage, Kind::Analytics][number as usize % 2];
            let since = Instant::from_micros(u64::from(number));
            events.accept(kind, body(10), number, since);
        }
        assert_eq!(events.oldest().map(|waiting| waiting.entries), Some(0));
        let out: Vec<(u32, u64)> = std::iter::from_fn(|| events.take())
            .map(|waiting| (waiting.entries, waiting.since.as_micros()))
            .collect();
        assert_eq!(out, [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]);
        assert_eq!((events.waiting(), events.waiting_bytes()), (0, 0));
    }

    #[test]
    fn a_full_queue_loses_its_oldest_and_says_so() {
        let mut events = Events::kept(&limits(3 * (100 + OVERHEAD_BYTES)));
        for entries in 1..=5 {
            events.accept(Kind::Usage, body(100), entries, NOW);
        }
        assert_eq!(events.waiting(), 3);
        assert_eq!(events.oldest().map(|waiting| waiting.entries), Some(3));
        // One that needs the room of two.
        events.accept(Kind::Analytics, body(100 + OVERHEAD_BYTES + 100), 9, NOW);
        assert_eq!(events.oldest().map(|waiting| waiting.entries), Some(5));
        let usage = events.counts(Kind::Usage);
        assert_eq!((usage.bodies, usage.entries), (5, 15));
        assert_eq!((usage.dropped_bodies, usage.dropped_entries), (4, 10));
        assert_eq!(events.counts(Kind::Analytics).dropped_bodies, 0);
    }

    #[test]
    fn a_body_larger_than_the_queue_leaves_the_others_alone() {
        let mut events = Events::kept(&limits(1000));
        events.accept(Kind::Usage, body(100), 1, NOW);
        events.accept(Kind::Usage, body(1001 - OVERHEAD_BYTES), 7, NOW);
        assert_eq!(
            (events.waiting(), events.waiting_bytes()),
            (1, 100 + OVERHEAD_BYTES)
        );
        let counts = events.counts(Kind::Usage);
        assert_eq!((counts.dropped_bodies, counts.dropped_entries), (1, 7));
        events.accept(Kind::Usage, body(1000 - OVERHEAD_BYTES), 1, NOW);
        assert_eq!((events.waiting(), events.waiting_bytes()), (1, 1000));
    }

    #[test]
    fn empty_bodies_fill_the_queue_too() {
        let mut events = Events::kept(&Limits::PRODUCTION);
        for _ in 0..10_000 {
            events.accept(Kind::Usage, Bytes::new(), 0, NOW);
        }
        let fits = Limits::PRODUCTION.events_bytes_max / OVERHEAD_BYTES;
        assert_eq!(events.waiting(), fits);
        let held = events.queue.capacity() * size_of::<Waiting>();
        assert!(held <= Limits::PRODUCTION.events_bytes_max, "{held}");
    }

    #[test]
    fn without_delivery_bodies_are_counted_and_let_go() {
        let mut events = Events::counted_only();
        events.accept(Kind::Usage, body(100), 3, NOW);
        events.handle_malformed(Kind::Usage);
        assert!(events.is_counting_only());
        assert_eq!((events.waiting(), events.waiting_bytes()), (0, 0));
        assert_eq!(
            events.counts(Kind::Usage),
            Counts {
                bodies: 1,
                entries: 3,
                malformed: 1,
                ..Counts::default()
            }
        );
        assert_eq!(events.counts(Kind::Analytics), Counts::default());
    }

    #[test]
    fn every_body_is_waiting_taken_or_dropped() {
        let bytes_max = 4_000;
        let mut events = Events::kept(&limits(bytes_max));
        let mut seed: u64 = 0xe7e7;
        let mut taken = 0;
        for step in 0..20_000 {
            if next(&mut seed).is_multiple_of(3) {
                taken += u64::from(events.take().is_some());
            } else {
                let length = (next(&mut seed) % 1_200) as usize;
                events.accept(Kind::Usage, body(length), 1, NOW);
            }
            let counts = events.counts(Kind::Usage);
            let waiting = events.waiting() as u64;
            assert_eq!(
                counts.bodies,
                waiting + taken + counts.dropped_bodies,
                "step {step}"
            );
            assert!(events.waiting_bytes() <= bytes_max, "step {step}");
        }
        assert!(events.counts(Kind::Usage).dropped_bodies > 0 && taken > 0);
    }

    /// One step of xorshift64*, a generator that needs nothing but its seed.
    fn next(seed: &mut u64) -> u64 {
        *seed ^= *seed >> 12;
        *seed ^= *seed << 25;
        *seed ^= *seed >> 27;
        seed.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }
}
