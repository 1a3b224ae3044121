//! Which destination a request goes to.
//!
//! Owns clusters and their destinations while the relay runs: whose cookie a client brought
//! (`affinity`), who is chosen among several (`balance`), who is healthy (`health`), who is asked
//! for that and when (`probes`). Bytes never come here: a request calls `choose`, `begin`, and
//! `finish`. What is left of all that under a new configuration is for `replace` to say.
//!
//! The rules are YARP's, with three of ours. By metadata of a destination, a *backup* is for new
//! clients only while nobody else takes any, and its cookie counts as not set from then on, so that
//! clients come back under both failure policies. One that is *draining* keeps its clients and gets
//! no new ones, unless all that are left are draining. And a request whose destination cannot be
//! reached may go to one other, where YARP answers 502 (`choose_again`).
//!
//! Invariants: a destination's cookie is made of its id alone, so two relays agree whatever the
//! order of their lists. Requests under way survive a new configuration; those of a destination
//! that went are not missed.

mod affinity;
pub mod balance;
pub mod health;
mod probes;
mod replace;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use fastrand::Rng;

use self::balance::Turn;
use self::health::{Active, Passive};
use super::slab::{Key, Slab};
use crate::limits::Limits;
use crate::model::proxy::{ActiveCheck, AffinityKey, Balance, Destination, FailurePolicy, Health};
use crate::time::{Duration, Instant};

/// How a request came to its destination, or to none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The cluster binds nobody.
    Unbound,
    /// No cookie, none that can be read, or one of a backup that is not needed.
    New,
    /// The cookie's destination.
    Resolved,
    /// The cookie's destination cannot be had, and another one was chosen.
    Redistributed,
    /// The cookie's destination cannot be had, and the policy forbids another: 503 without body and
    /// cookie.
    Refused,
    /// Nobody is there: 503 without body and cookie.
    NoDestination,
}

impl Outcome {
    /// All of them, in the order of their declaration.
    pub const ALL: [Outcome; 6] = [
        Outcome::Unbound,
        Outcome::New,
        Outcome::Resolved,
        Outcome::Redistributed,
        Outcome::Refused,
        Outcome::NoDestination,
    ];

    /// As it is written in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Unbound => "unbound",
            Outcome::New => "new",
            Outcome::Resolved => "resolved",
            Outcome::Redistributed => "redistributed",
            Outcome::Refused => "refused",
            Outcome::NoDestination => "no_destination",
        }
    }
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// `None` = 503.
    pub destination: Option<Key>,
    /// What the answer of the destination binds the client with; an answer of the relay's own, 502
    /// or 504, carries none.
    pub establish: Option<AffinityKey>,
    pub outcome: Outcome,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The destination answered, with whatever status.
    Answered,
    /// It could not be reached, was silent too long, or broke off.
    Failed,
    /// The client went away, which is nobody's failure.
    Abandoned,
}

/// A request under way. Given back by [`Destinations::finish`].
#[derive(Debug)]
#[must_use = "a request that is never finished weighs on its destination"]
pub struct Ticket(Key);

/// A destination that has to be asked for its health now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    pub destination: Key,
    /// An answer after this is a failure.
    pub timeout: Duration,
    number: u32,
}

#[derive(Debug)]
struct Entry {
    cluster: usize,
    destination: Destination,
    key: AffinityKey,
    /// Its place in the alphabetical order of its cluster.
    rank: usize,
    in_flight: u32,
    active: Active,
    passive: Passive,
}

#[derive(Debug)]
struct Group {
    id: Box<str>,
    balance: Balance,
    failure: Option<FailurePolicy>,
    health: Health,
    /// In the order of the file.
    members: Vec<Key>,
    turn: Turn,
    outcomes: [u64; Outcome::ALL.len()],
    again: u64,
}

/// What status and metrics show of one destination.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub destination: &'a Destination,
    /// Requests under way.
    pub in_flight: u32,
    /// Neither check speaks against it.
    pub is_healthy: bool,
    /// What the active check says; `None` when there is none.
    pub active: Option<health::Verdict>,
    /// What the passive check says; `None` when there is none.
    pub passive: Option<health::Verdict>,
}

/// All clusters and their destinations.
#[derive(Debug)]
pub struct Destinations {
    groups: Vec<Group>,
    entries: Slab<Entry>,
    /// When each destination with an active check and no probe under way has its next one.
    due: BTreeSet<(Instant, Key)>,
    probes: usize,
    probes_max: usize,
    window: Duration,
    random: Rng,
}

impl Destinations {
    /// No clusters yet; `replace` brings them.
    pub fn new(random: Rng, limits: &Limits) -> Destinations {
        Destinations {
            groups: Vec::new(),
            entries: Slab::default(),
            due: BTreeSet::new(),
            probes: 0,
            probes_max: limits.probes_max,
            window: limits.failure_window,
            random,
        }
    }

    /// Notes that a request goes to a destination. Bounded by O(1).
    pub fn begin(&mut self, destination: Key) -> Ticket {
        if let Some(entry) = self.entries.of_mut(destination) {
            entry.in_flight += 1;
        }
        Ticket(destination)
    }

    /// Notes how a request ended; nothing for a destination that went. Bounded by O(1).
    pub fn finish(&mut self, ticket: Ticket, result: Finish, now: Instant) {
        let Some(entry) = self.entries.of_mut(ticket.0) else {
            return;
        };
        entry.in_flight = entry.in_flight.saturating_sub(1);
        if let Some(check) = &self.groups[entry.cluster].health.passive {
            let has_failed = result == Finish::Failed;
            entry.passive.note(has_failed, check, self.window, now);
        }
    }

    /// Whether the checks leave a destination; `None` for one that went.
    pub fn is_healthy(&self, key: Key, now: Instant) -> Option<bool> {
        let entry = self.entries.of(key)?;
        Some(entry.is_healthy(&self.groups[entry.cluster].health, now))
    }

    /// What is known of a destination; `None` for one that went.
    pub fn destination(&self, key: Key) -> Option<&Destination> {
        self.entries.of(key).map(|entry| &entry.destination)
    }

    /// How its destination is to be asked for its health.
    pub fn active_check(&self, key: Key) -> Option<&ActiveCheck> {
        let entry = self.entries.of(key)?;
        self.groups[entry.cluster].health.active.as_ref()
    }

    /// Requests of a cluster by what became of them, and how many were sent to a second
    /// destination. Empty for a cluster that is not there.
    pub fn outcomes(&self, cluster: usize) -> (impl Iterator<Item = (Outcome, u64)>, u64) {
        let group = self.groups.get(cluster);
        let counts = group.into_iter().flat_map(|group| group.outcomes);
        (
            Outcome::ALL.into_iter().zip(counts),
            group.map_or(0, |group| group.again),
        )
    }

    /// The destinations of a cluster, in the order of the file.
    pub fn views(&self, cluster: usize, now: Instant) -> impl Iterator<Item = View<'_>> {
        let group = self.groups.get(cluster);
        let members = group
            .into_iter()
            .flat_map(|group| group.members.iter().map(move |key| (group, key)));
        members.filter_map(move |(group, key)| {
            let entry = self.entries.of(*key)?;
            Some(View {
                destination: &entry.destination,
                in_flight: entry.in_flight,
                is_healthy: entry.is_healthy(&group.health, now),
                active: group.health.active.as_ref().map(|_| entry.active.verdict),
                passive: group
                    .health
                    .passive
                    .as_ref()
                    .map(|_| entry.passive.verdict(now)),
            })
        })
    }

    fn check_invariants(&self) {
        if cfg!(debug_assertions) {
            let entries = self.entries.iter();
            let probing = entries
                .filter(|(_, entry)| entry.active.is_probing())
                .count();
            assert_eq!(self.probes, probing, "probes under way");
            let members = self.groups.iter().map(|group| group.members.len());
            assert_eq!(
                members.sum::<usize>(),
                self.entries.len(),
                "a destination without cluster"
            );
            for (due, key) in &self.due {
                let entry = self.entries.of(*key);
                assert_eq!(entry.and_then(|entry| entry.active.due), Some(*due));
            }
        }
    }
}

impl Entry {
    /// Only checks that are configured count.
    fn is_healthy(&self, health: &Health, now: Instant) -> bool {
        let active = health.active.is_none() || self.active.verdict != health::Verdict::Unhealthy;
        let passive =
            health.passive.is_none() || self.passive.verdict(now) != health::Verdict::Unhealthy;
        active && passive
    }
}
