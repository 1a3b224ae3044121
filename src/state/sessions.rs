//! The sessions of all slots, under one clockwork.
//!
//! Owns a session for each slot that follows an upstream or another region's writer (none at all on
//! an isolated site), and the one moment at which the first of them wants to be called again. Their
//! order of work: tell, then take every [`Step`] out of [`Sessions::poll`] until it answers `None`,
//! then wait for [`Sessions::poll_timeout`].
//!
//! A relay turns for every client that comes or goes; sessions that were told nothing and have
//! nothing due are not looked at then.

use super::session::{Note, Order, Session, Setting, Wake};
use crate::limits::Limits;
use crate::model::SlotIndex;
use crate::time::{Duration, Instant, Wall};

/// A wall clock that moved by this much more or less than the monotonic one was set.
const CLOCK_STEP: Duration = Duration::from_secs(5);

/// What a session wants done or said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Carry this out.
    Do(Order),
    /// This is worth a line in the log.
    Say(Note),
    /// From now on, the slot's content is known to be current, or is not.
    Live(bool),
}

/// One for each slot that has one, in the order of the configuration.
#[derive(Debug, Default)]
pub struct Sessions {
    sessions: Vec<Option<Session>>,
    live: Vec<bool>,
    /// Where `poll` goes on; the number of sessions when there is nothing to go through.
    next: usize,
    timeout: Option<(Instant, Wake)>,
    clocks: Option<(Wall, Instant)>,
}

impl Sessions {
    /// A session for each of `slots` slots. The probes of their primaries are spread evenly over
    /// `stagger_max`.
    pub fn new(
        slots: usize,
        has_backup: bool,
        probe_interval: Duration,
        limits: &Limits,
        random_seed: u64,
    ) -> Sessions {
        let parts = u32::try_from(slots.max(1)).unwrap_or(u32::MAX);
        let session = |slot: usize| {
            let setting = Setting {
                has_backup,
                probe_interval,
                stagger: limits.stagger_max / parts * u32::try_from(slot).unwrap_or(0),
            };
            let seed = random_seed.wrapping_add(slot as u64);
            Session::new(setting, limits, seed)
        };
        Sessions {
            sessions: (0..slots).map(session).map(Some).collect(),
            live: vec![false; slots],
            next: slots,
            timeout: None,
            clocks: None,
        }
    }

    /// Slots that follow nobody so far.
    pub fn vacant(slots: usize) -> Sessions {
        Sessions {
            sessions: std::iter::repeat_with(|| None).take(slots).collect(),
            live: vec![false; slots],
            next: slots,
            timeout: None,
            clocks: None,
        }
    }

    // Getters.

    /// The session of `slot`.
    pub fn of(&self, slot: SlotIndex) -> Option<&Session> {
        self.sessions.get(usize::from(slot.0))?.as_ref()
    }

    /// Whether there is nobody to follow.
    pub fn is_empty(&self) -> bool {
        self.sessions.iter().all(Option::is_none)
    }

    // Mutators.

    /// The slot follows nobody: it has another source.
    ///
    /// Bounded by O(1).
    pub fn leave_out(&mut self, slot: SlotIndex) {
        self.replace(slot, None);
    }

    /// The slot follows somebody else from now on, or nobody. Whatever the session before has
    /// ordered is to be let go of without a word: the new one counts its ids from the start.
    ///
    /// Bounded by O(1).
    pub fn replace(&mut self, slot: SlotIndex, session: Option<Session>) {
        if let Some(place) = self.sessions.get_mut(usize::from(slot.0)) {
            *place = session;
            self.next = 0;
        }
    }

    /// Tells the session of `slot` what happened.
    ///
    /// Bounded by O(1).
    pub fn tell(&mut self, slot: SlotIndex, what: impl FnOnce(&mut Session)) {
        if let Some(Some(session)) = self.sessions.get_mut(usize::from(slot.0)) {
            what(session);
            self.next = 0;
        }
    }

    /// Tells all of them.
    ///
    /// Bounded by the number of slots.
    pub fn tell_all(&mut self, what: impl Fn(&mut Session)) {
        self.sessions.iter_mut().flatten().for_each(what);
        self.next = 0;
    }

    /// Compares the time of day with the monotonic clock: a step means that it was set, and that a
    /// certificate which was not valid yet may be now. Returns whether it was.
    ///
    /// Bounded by the number of slots.
    pub fn handle_clocks(&mut self, wall: Wall, now: Instant) -> bool {
        let Some((wall_before, before)) = self.clocks.replace((wall, now)) else {
            return false;
        };
        let by_wall = i128::from(wall.as_unix()) - i128::from(wall_before.as_unix());
        let by_monotonic = i128::from((now - before).as_secs());
        let is_step = (by_wall - by_monotonic).unsigned_abs() > u128::from(CLOCK_STEP.as_secs());
        if is_step {
            self.tell_all(|session| session.handle_clock_jump(now));
        }
        is_step
    }

    /// The next step, and whose. To be called until it answers `None`.
    ///
    /// Bounded by the number of slots.
    pub fn poll(&mut self, now: Instant) -> Option<(SlotIndex, Step)> {
        if self.timeout.is_some_and(|(at, _)| at <= now) {
            self.timeout = None;
            self.next = 0;
        }
        if self.next >= self.sessions.len() {
            return None;
        }
        while let Some(place) = self.sessions.get_mut(self.next) {
            let slot = SlotIndex(self.next as u16);
            if let Some(session) = place {
                // Orders first: a note is about what they came of.
                if let Some(order) = session.poll_output(now) {
                    return Some((slot, Step::Do(order)));
                }
                if let Some(note) = session.poll_note() {
                    return Some((slot, Step::Say(note)));
                }
            }
            let is_live = place.as_ref().is_some_and(Session::is_live);
            if self.live[self.next] != is_live {
                self.live[self.next] = is_live;
                return Some((slot, Step::Live(is_live)));
            }
            self.next += 1;
        }
        let sessions = self.sessions.iter().flatten();
        let timeouts = sessions.filter_map(Session::poll_timeout);
        self.timeout = timeouts.min_by_key(|(at, _)| *at);
        None
    }

    /// When to call `poll` again though nothing was told, and why.
    pub fn poll_timeout(&self) -> Option<(Instant, Wake)> {
        self.timeout
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Role;
    use crate::state::session::Loss;

    const START: Instant = Instant::from_micros(1_000_000);

    fn sessions(slots: usize) -> Sessions {
        let limits = &Limits::PRODUCTION;
        Sessions::new(slots, true, limits.probe_interval, limits, 1)
    }

    fn steps(sessions: &mut Sessions, now: Instant) -> Vec<(u16, Step)> {
        std::iter::from_fn(|| sessions.poll(now))
            .map(|(slot, step)| (slot.0, step))
            .collect()
    }

    fn dials(steps: &[(u16, Step)]) -> Vec<u16> {
        let dial = |(slot, step): &(u16, Step)| match step {
            Step::Do(Order::Dial {
                role: Role::Primary,
                ..
            }) => Some(*slot),
            _ => None,
        };
        steps.iter().filter_map(dial).collect()
    }

    #[test]
    fn each_slot_is_followed_by_a_session_of_its_own() {
        let mut sessions = sessions(3);
        assert!(steps(&mut sessions, START).is_empty());
        sessions.tell_all(|session| session.start(START));
        let first = steps(&mut sessions, START);
        assert_eq!(dials(&first), [0, 1, 2]);
        let (at, _) = sessions.poll_timeout().unwrap();
        assert!(at > START, "nothing is due at once");
        assert!(steps(&mut sessions, START).is_empty());
    }

    #[test]
    fn a_slot_that_is_left_out_follows_nobody() {
        let mut sessions = sessions(3);
        sessions.leave_out(SlotIndex(1));
        sessions.tell_all(|session| session.start(START));
        sessions.tell(SlotIndex(1), |session| session.start(START));
        assert_eq!(dials(&steps(&mut sessions, START)), [0, 2]);
        assert!(sessions.of(SlotIndex(1)).is_none() && !sessions.is_empty());
        for slot in [0, 2] {
            sessions.leave_out(SlotIndex(slot));
        }
        assert!(sessions.is_empty());
    }

    /// Lets every dial and fetch succeed; all that was asked for and said until nothing was.
    fn open(sessions: &mut Sessions) -> Vec<(u16, Step)> {
        let mut all = Vec::new();
        while let Some((slot, step)) = sessions.poll(START) {
            all.push((slot.0, step));
            let Step::Do(order) = step else { continue };
            sessions.tell(slot, |session| match order {
                Order::Dial { id, .. } => session.handle_open(id, START),
                Order::Fetch { id, .. } => session.handle_fetched(id, Ok(()), START),
                Order::Hangup { .. } | Order::Ping { .. } | Order::Abandon { .. } => {}
            });
        }
        all
    }

    #[test]
    fn a_slot_that_follows_somebody_else_begins_anew_and_is_not_live_meanwhile() {
        let limits = &Limits::PRODUCTION;
        let setting = Setting {
            has_backup: false,
            probe_interval: limits.probe_interval,
            stagger: Duration::ZERO,
        };
        let session = || {
            let mut session = Session::new(setting, limits, 1);
            session.start(START);
            Some(session)
        };
        let mut sessions = Sessions::vacant(2);
        assert!(sessions.is_empty() && steps(&mut sessions, START).is_empty());
        sessions.replace(SlotIndex(1), session());
        let is_live = (1, Step::Live(true));
        assert!(open(&mut sessions).contains(&is_live));
        sessions.replace(SlotIndex(1), session());
        let replaced = steps(&mut sessions, START);
        assert_eq!(dials(&replaced), [1]);
        assert!(replaced.contains(&(1, Step::Live(false))), "{replaced:?}");
        sessions.replace(SlotIndex(1), session());
        assert!(open(&mut sessions).contains(&is_live));
        sessions.leave_out(SlotIndex(1));
        assert_eq!(steps(&mut sessions, START), [(1, Step::Live(false))]);
        assert_eq!(sessions.poll_timeout(), None);
    }

    #[test]
    fn what_is_due_is_found_without_being_told() {
        let mut sessions = sessions(2);
        sessions.tell_all(|session| session.start(START));
        steps(&mut sessions, START);
        let (at, wake) = sessions.poll_timeout().unwrap();
        let due = steps(&mut sessions, at);
        assert!(!due.is_empty(), "{wake:?}");
        assert!(sessions.poll_timeout().is_some_and(|(next, _)| next > at));
    }

    #[test]
    fn a_clock_that_is_set_brings_certificates_to_life_at_once() {
        let mut sessions = sessions(1);
        let at = |seconds| START + Duration::from_secs(seconds);
        assert!(!sessions.handle_clocks(Wall::from_unix(10), at(0)));
        sessions.tell_all(|session| session.start(at(0)));
        for (_, step) in steps(&mut sessions, at(0)) {
            if let Step::Do(Order::Dial { id, .. }) = step {
                let slot = SlotIndex(0);
                let loss = Loss::ClockNotSet;
                sessions.tell(slot, |session| session.handle_loss(id, loss, at(0)));
            }
        }
        // The backup is dialled, and fails in the same way.
        for (_, step) in steps(&mut sessions, at(0)) {
            if let Step::Do(Order::Dial { id, .. }) = step {
                let loss = Loss::ClockNotSet;
                sessions.tell(SlotIndex(0), |session| session.handle_loss(id, loss, at(0)));
            }
        }
        steps(&mut sessions, at(0));
        assert!(
            !sessions.handle_clocks(Wall::from_unix(12), at(2)),
            "no step"
        );
        assert!(dials(&steps(&mut sessions, at(2))).is_empty());
        assert!(sessions.handle_clocks(Wall::from_unix(1_800_000_000), at(3)));
        assert_eq!(dials(&steps(&mut sessions, at(3))), [0]);
    }
}
