//! Clusters and destinations under a new configuration.
//!
//! Owns what is kept: a destination is known by the ids of its cluster and of itself, in any case
//! of letters. Requests under way go on counting for it, its health stays while its addresses do,
//! and what was counted goes on with the cluster.
//!
//! Never cuts a request: one to a destination that went ends by itself and is not missed.

use super::balance::{self, Turn};
use super::health::{Active, Passive};
use super::{Destinations, Entry, Group, Outcome};
use crate::model::casing;
use crate::model::proxy::{AffinityKey, Cluster, Destination};
use crate::state::slab::Key;
use crate::time::Instant;

impl Destinations {
    /// Puts a configuration in force. `key` gives the cookie value of an id.
    ///
    /// A destination whose cluster and id are still there, in any case of letters, keeps its
    /// requests under way, and its health too if its addresses are the same. Counts go on with the
    /// cluster's id. Bounded by the number of destinations, squared within a cluster.
    pub fn replace(
        &mut self,
        clusters: &[Cluster],
        key: impl Fn(&str) -> AffinityKey,
        now: Instant,
    ) {
        let mut old = std::mem::take(&mut self.groups);
        for (place, cluster) in clusters.iter().enumerate() {
            let same = old
                .iter()
                .position(|group| casing::same(&group.id, &cluster.id));
            let before = same.map(|same| old.swap_remove(same));
            self.add(place, cluster, before, &key, now);
        }
        for member in old.into_iter().flat_map(|group| group.members) {
            self.remove(member);
        }
        self.check_invariants();
    }

    fn add(
        &mut self,
        place: usize,
        cluster: &Cluster,
        before: Option<Group>,
        key: &impl Fn(&str) -> AffinityKey,
        now: Instant,
    ) {
        let mut group = Group {
            id: cluster.id.clone(),
            balance: cluster.balance,
            failure: cluster.affinity.as_ref().map(|affinity| affinity.failure),
            health: cluster.health.clone(),
            members: Vec::new(),
            turn: Turn::default(),
            outcomes: [0; Outcome::ALL.len()],
            again: 0,
        };
        let mut left = Vec::new();
        let mut was_active = false;
        if let Some(before) = before {
            group.turn = before.turn;
            group.outcomes = before.outcomes;
            group.again = before.again;
            was_active = before.health.active.is_some();
            left = before.members;
        }
        let ranks = balance::ranks(cluster.destinations.iter().map(|own| &*own.id));
        for (destination, rank) in cluster.destinations.iter().zip(ranks) {
            let same = left
                .iter()
                .position(|key| self.has_id(*key, &destination.id));
            let member = match same.map(|same| left.swap_remove(same)) {
                Some(member) => member,
                None => self.entries.insert(Entry {
                    cluster: place,
                    destination: destination.clone(),
                    key: key(&destination.id),
                    rank,
                    in_flight: 0,
                    active: Active::default(),
                    passive: Passive::default(),
                }),
            };
            self.update(member, place, destination, rank, was_active);
            group.members.push(member);
        }
        for member in left {
            self.remove(member);
        }
        self.groups.push(group);
        for member in self.groups[place].members.clone() {
            self.schedule(member, now);
        }
    }

    fn has_id(&self, member: Key, id: &str) -> bool {
        let entry = self.entries.of(member);
        entry.is_some_and(|entry| casing::same(&entry.destination.id, id))
    }

    fn update(
        &mut self,
        member: Key,
        place: usize,
        destination: &Destination,
        rank: usize,
        was_active: bool,
    ) {
        let Some(entry) = self.entries.of_mut(member) else {
            return;
        };
        let is_same = entry.destination.address == destination.address
            && entry.destination.health == destination.health;
        entry.cluster = place;
        entry.rank = rank;
        entry.destination = destination.clone();
        if !is_same {
            entry.passive = Passive::default();
        }
        if !is_same || !was_active {
            let (due, probing) = entry.active.reset();
            self.probes -= usize::from(probing);
            if let Some(due) = due {
                self.due.remove(&(due, member));
            }
        }
    }

    /// Gives a destination its first probe, or takes its next one away.
    fn schedule(&mut self, member: Key, now: Instant) {
        let Some(entry) = self.entries.of_mut(member) else {
            return;
        };
        let is_checked = self.groups[entry.cluster].health.active.is_some();
        match (is_checked, entry.active.due) {
            (true, None) if !entry.active.is_probing() => {
                entry.active.due = Some(now);
                self.due.insert((now, member));
            }
            (false, Some(due)) => {
                entry.active.due = None;
                self.due.remove(&(due, member));
            }
            _ => {}
        }
    }

    fn remove(&mut self, member: Key) {
        let Some(mut entry) = self.entries.remove(member) else {
            return;
        };
        let (due, probing) = entry.active.reset();
        self.probes -= usize::from(probing);
        if let Some(due) = due {
            self.due.remove(&(due, member));
        }
    }
}
