//! All state of the relay, and its clockwork.
//!
//! Call order, for the one owner (`net::driver`): tell it what happened (mutators, `handle_*`),
//! then take everything out of [`Relay::poll_due`], of `fanout.poll_dirty` and of
//! `fanout.poll_evicted`, then set one timer to [`Relay::poll_timeout`] and wait for it or for the
//! next thing to happen.
//!
//! Policy of the end: streams are closed in small groups over most of the drain window, so that a
//! fleet does not come back in one instant, and those that open late are closed with them;
//! connections between two requests are closed at once, those within one are let finish. Trip:
//! SIGTERM. There is no way back.

use fastrand::Rng;

use crate::limits::Limits;
use crate::model::{SlotIndex, SlotKey};
use crate::time::{Duration, Instant};

use super::access::{Access, TokenForm};
use super::counters::Counters;
use super::deadlines::{self, Deadlines};
use super::destinations::Destinations;
use super::events::Events;
use super::fanout::Fanout;
use super::saves::Saves;
use super::sessions::Sessions;
use super::slab::Key;
use super::slots::Slots;

/// How often streams are closed while draining.
const DRAIN_STEP: Duration = Duration::from_millis(100);

/// The code for streams that end because the process does: "service restart".
const CLOSE_RESTART: u16 = 1012;

/// Why the relay wants to be called again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    Deadline,
    Heartbeat,
    Seed,
    Clocks,
    Save,
    Drain,
    Upstream,
    Probe,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Reset this connection: its time is over.
    Reset(Key, deadlines::Reason),
    /// See whether the seed file has changed.
    LookAtSeed,
    /// Tell the sessions what both clocks show.
    CompareClocks,
    /// Write what this slot holds to the state folder, and tell `saves` how that ended.
    Save(SlotIndex),
    /// Look again for what of the state folder is not known yet, and tell `saves`.
    LookAtFolder,
    /// The drain window is over: leave, whoever is still there.
    Leave,
}

#[derive(Clone, Copy, Debug)]
struct Drain {
    until: Instant,
    /// The last of the window is for the peers' own closes.
    closed_by: Instant,
    next_step: Instant,
    streams_per_step: usize,
}

impl Drain {
    /// Closes at least as many at each step as `left` streams need to be closed in time.
    fn keep_pace(&mut self, left: usize, now: Instant) {
        let steps = (self.closed_by - now).as_millis() / DRAIN_STEP.as_millis();
        let steps = usize::try_from(steps).unwrap_or(1).max(1);
        self.streams_per_step = self.streams_per_step.max(left.div_ceil(steps));
    }
}

/// Everything that the relay knows. `P` is what is published to subscribers.
pub struct Relay<P> {
    pub slots: Slots,
    /// Empty where there is no upstream.
    pub sessions: Sessions,
    pub saves: Saves,
    pub fanout: Fanout<P>,
    pub access: Access,
    pub events: Events,
    pub deadlines: Deadlines,
    pub counters: Counters,
    /// Empty where there is no reverse proxy.
    pub destinations: Destinations,
    heartbeat_at: Instant,
    heartbeat_interval: Duration,
    seed_at: Option<Instant>,
    seed_interval: Duration,
    clocks_at: Instant,
    drain: Option<Drain>,
    drain_timeout: Duration,
}

impl<P> Relay<P> {
    /// A relay of these slots, without keys and without content. `watches_seed`: there is a seed
    /// file to look at.
    pub fn new(
        slots: Vec<SlotKey>,
        watches_seed: bool,
        form: TokenForm,
        limits: &Limits,
        now: Instant,
    ) -> Relay<P> {
        Relay {
            fanout: Fanout::new(slots.len(), limits),
            slots: Slots::new(slots, limits),
            sessions: Sessions::default(),
            saves: Saves::new(limits),
            access: Access::new(form, limits),
            events: Events::counted_only(),
            deadlines: Deadlines::default(),
            counters: Counters::default(),
            destinations: Destinations::new(Rng::with_seed(0), limits),
            heartbeat_at: now + limits.heartbeat_interval,
            heartbeat_interval: limits.heartbeat_interval,
            seed_at: watches_seed.then_some(now + limits.seed_interval),
            seed_interval: limits.seed_interval,
            clocks_at: now,
            drain: None,
            drain_timeout: limits.drain_timeout,
        }
    }

    /// Whether the end has begun.
    pub fn is_draining(&self) -> bool {
        self.drain.is_some()
    }

    /// Begins the end. A second call changes nothing.
    ///
    /// Bounded by the number of connections.
    pub fn drain(&mut self, now: Instant) {
        if self.drain.is_some() {
            return;
        }
        self.deadlines.hasten(deadlines::Reason::Idle, now);
        let mut drain = Drain {
            until: now + self.drain_timeout,
            closed_by: now + self.drain_timeout * 4 / 5,
            next_step: now,
            streams_per_step: 1,
        };
        drain.keep_pace(self.fanout.count(), now);
        self.drain = Some(drain);
    }

    /// The next thing to do. To be called until it answers `None`.
    ///
    /// Bounded by the number of connections for a heartbeat or a drain step, else by O(log n).
    pub fn poll_due(&mut self, now: Instant) -> Option<Due> {
        if now >= self.heartbeat_at {
            self.heartbeat_at = now + self.heartbeat_interval;
            self.fanout.heartbeat();
        }
        if let Some(drain) = &mut self.drain {
            if now >= drain.until {
                return Some(Due::Leave);
            }
            if now >= drain.next_step {
                drain.next_step = now + DRAIN_STEP;
                let count = drain.streams_per_step;
                let left = self.fanout.close_some(count, CLOSE_RESTART);
                drain.keep_pace(left, now);
            }
        }
        if let Some((key, reason)) = self.deadlines.poll_expired(now) {
            self.counters.expire(reason);
            return Some(Due::Reset(key, reason));
        }
        if !self.sessions.is_empty() && now >= self.clocks_at {
            self.clocks_at = now + self.seed_interval;
            return Some(Due::CompareClocks);
        }
        while let Some(index) = self.slots.poll_keep() {
            self.saves.want(index);
        }
        if let Some(index) = self.saves.poll_save(now) {
            return Some(Due::Save(index));
        }
        if self.saves.poll_look(now) {
            return Some(Due::LookAtFolder);
        }
        match self.seed_at {
            Some(seed_at) if now >= seed_at => {
                self.seed_at = Some(now + self.seed_interval);
                Some(Due::LookAtSeed)
            }
            _ => None,
        }
    }

    /// When to call `poll_due` again, and why. An idle relay without clients wakes for its seed
    /// only.
    pub fn poll_timeout(&self) -> Option<(Instant, Wake)> {
        let heartbeat = (self.fanout.count() > 0).then_some((self.heartbeat_at, Wake::Heartbeat));
        let deadline = self
            .deadlines
            .poll_timeout()
            .map(|due| (due, Wake::Deadline));
        let seed = self.seed_at.map(|due| (due, Wake::Seed));
        let drain = self
            .drain
            .map(|drain| (drain.next_step.min(drain.until), Wake::Drain));
        // Nobody takes orders from sessions on the way out: what is due there stays due.
        let upstream = match self.drain {
            None => self.sessions.poll_timeout(),
            Some(_) => None,
        };
        let upstream = upstream.map(|(due, _)| (due, Wake::Upstream));
        let clocks = (!self.sessions.is_empty()).then_some((self.clocks_at, Wake::Clocks));
        let save = self.saves.poll_timeout().map(|due| (due, Wake::Save));
        let probe = self.destinations.poll_timeout();
        let probe = probe.filter(|_| self.drain.is_none());
        let probe = probe.map(|due| (due, Wake::Probe));
        [
            heartbeat, deadline, seed, clocks, save, probe, drain, upstream,
        ]
        .into_iter()
        .flatten()
        .min_by_key(|(due, _)| *due)
    }

    /// Closes the streams whose key may no longer use their slot.
    ///
    /// Bounded by the number of subscribers.
    pub fn close_not_allowed(&mut self, code: u16) {
        let access = &self.access;
        self.fanout
            .close_where(|slot, key| access.may_use(key, slot).is_err(), code);
    }

    /// Watches a seed file from now on, or none.
    pub fn watch_seed(&mut self, watches: bool, now: Instant) {
        self.seed_at = watches.then_some(now + self.seed_interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::KeyIndex;
    use crate::state::fanout::{Control, Kind, Next, Subscription};

    const START: Instant = Instant::from_micros(1_000_000);

    fn relay() -> Relay<u64> {
        let form = TokenForm {
            key_id: |_| None,
            is_signed_by: |_, _| false,
        };
        let slots = vec![SlotKey::parse("shop/prod").unwrap()];
        Relay::new(slots, true, form, &Limits::PRODUCTION, START)
    }

    #[test]
    fn a_session_that_is_due_does_not_keep_an_ending_relay_awake() {
        let (mut relay, limits) = (relay(), Limits::PRODUCTION);
        relay.watch_seed(false, START);
        relay.sessions = Sessions::new(1, false, limits.probe_interval, &limits, 1);
        relay.sessions.tell_all(|session| session.start(START));
        while relay.sessions.poll(START).is_some() {}
        let (due, wake) = relay.sessions.poll_timeout().unwrap();
        assert!(
            relay.poll_timeout().is_some_and(|(at, _)| at <= due),
            "{wake:?}"
        );
        relay.drain(due);
        while relay.poll_due(due).is_some() {}
        let (next, wake) = relay.poll_timeout().unwrap();
        assert!(next > due, "{wake:?}");
    }

    fn join(relay: &mut Relay<u64>) -> Key {
        let subscription = Subscription {
            slot: SlotIndex(0),
            kind: Kind::Sse,
            key: KeyIndex(0),
            greet: false,
        };
        relay.fanout.subscribe(subscription, START).unwrap()
    }

    #[test]
    fn an_idle_relay_wakes_for_its_seed_only() {
        let mut relay = relay();
        let (at, wake) = relay.poll_timeout().unwrap();
        assert_eq!((at - START, wake), (Duration::from_secs(2), Wake::Seed));
        assert_eq!(relay.poll_due(at), Some(Due::LookAtSeed));
        assert_eq!(relay.poll_due(at), None);
        relay.watch_seed(false, at);
        assert_eq!(relay.poll_timeout(), None);
    }

    #[test]
    fn streams_get_a_heartbeat_every_25_seconds() {
        let mut relay = relay();
        relay.watch_seed(false, START);
        let key = join(&mut relay);
        let (at, wake) = relay.poll_timeout().unwrap();
        assert_eq!(
            (at - START, wake),
            (Duration::from_secs(25), Wake::Heartbeat)
        );
        assert_eq!(relay.poll_due(at), None);
        assert_eq!(
            relay.fanout.next(key),
            Some(Next::Control(Control::Heartbeat))
        );
        assert_eq!(
            relay.poll_timeout().unwrap().0 - at,
            Duration::from_secs(25)
        );
    }

    /// How many of these streams are told that the process ends; each is told once.
    fn told(relay: &mut Relay<u64>, keys: &[Key]) -> usize {
        let close = |next| matches!(next, Some(Next::Control(Control::Close(1012))));
        let told = keys.iter().filter(|key| close(relay.fanout.next(**key)));
        told.count()
    }

    #[test]
    fn the_end_is_spread_and_comes_in_time() {
        let mut relay = relay();
        let keys: Vec<Key> = (0..100).map(|_| join(&mut relay)).collect();
        relay.drain(START);
        let (mut now, mut steps) = (START, Vec::new());
        while relay.poll_due(now) != Some(Due::Leave) {
            steps.push(told(&mut relay, &keys));
            now = relay.poll_timeout().unwrap().0;
        }
        assert_eq!(steps.iter().sum::<usize>(), 100);
        assert!(steps.iter().all(|closing| *closing <= 3), "{steps:?}");
        assert_eq!(now - START, Duration::from_secs(5));
    }

    #[test]
    fn streams_that_open_late_are_closed_in_time_too() {
        let mut relay = relay();
        relay.drain(START);
        let (mut now, mut keys, mut steps) = (START, Vec::new(), Vec::new());
        while relay.poll_due(now) != Some(Due::Leave) {
            // A fleet whose handshakes had to wait, and one that is later still.
            if [10, 42].contains(&steps.len()) {
                keys.extend((0..200).map(|_| join(&mut relay)));
            }
            steps.push(told(&mut relay, &keys));
            now = relay.poll_timeout().unwrap().0;
        }
        assert_eq!(steps.iter().sum::<usize>(), 400);
        assert!(steps[..42].iter().all(|closing| *closing <= 8), "{steps:?}");
    }
}
