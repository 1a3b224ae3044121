//! Whose cookie a request brought, and what becomes of it.
//!
//! Owns the order of decisions: who is available, whose cookie it is, what the failure policy says,
//! and who may be chosen anew. Among those who take new clients, primaries come before backups, and
//! whoever is draining comes last.
//!
//! A backup that is not needed gives its clients back: its cookie counts as not set as long as a
//! primary takes new clients, whether the backup could be had or not. Otherwise clients that came
//! while the primaries were away would stay with the backup for good, or get 503 for it.

use super::balance::{self, Candidate};
use super::{Choice, Destinations, Entry, Group, Outcome};
use crate::model::proxy::{Available, FailurePolicy};
use crate::state::slab::Key;
use crate::time::Instant;

/// Who is asked first to take a new client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tier {
    Primary,
    Backup,
    Draining,
    DrainingBackup,
}

impl Tier {
    fn is_backup(self) -> bool {
        matches!(self, Tier::Backup | Tier::DrainingBackup)
    }
}

impl Destinations {
    /// Chooses for a request to a cluster that brought `cookie`, as it was decoded.
    ///
    /// Bounded by the number of the cluster's destinations.
    pub fn choose(&mut self, cluster: usize, cookie: Option<&str>, now: Instant) -> Choice {
        let Some(group) = self.groups.get(cluster) else {
            return Choice {
                destination: None,
                establish: None,
                outcome: Outcome::NoDestination,
            };
        };
        let available = self.available(group, None, now);
        let resolved = match (group.failure, cookie) {
            (None, _) => Err(Outcome::Unbound),
            (_, None) => Err(Outcome::New),
            (Some(policy), Some(cookie)) => self.resolve(group, policy, cookie, &available),
        };
        let choice = match resolved {
            Ok(destination) => Choice {
                destination: Some(destination),
                establish: None,
                outcome: Outcome::Resolved,
            },
            Err(Outcome::Refused) => Choice {
                destination: None,
                establish: None,
                outcome: Outcome::Refused,
            },
            Err(outcome) => self.distribute(cluster, available, outcome),
        };
        self.groups[cluster].outcomes[choice.outcome as usize] += 1;
        choice
    }

    /// Chooses another destination for a request whose first one could not be connected to.
    ///
    /// `None` = there is no other, or the client is bound to the first and may not be moved. To be
    /// called once a request. The new choice is not counted as another outcome. Bounded by the
    /// number of the cluster's destinations.
    pub fn choose_again(&mut self, failed: Choice, now: Instant) -> Option<Choice> {
        let first = failed.destination?;
        let cluster = self.entries.of(first)?.cluster;
        let group = self.groups.get(cluster)?;
        let outcome = match (failed.outcome, group.failure) {
            (Outcome::Resolved, Some(FailurePolicy::Refuse)) => return None,
            (Outcome::Resolved, _) => Outcome::Redistributed,
            (outcome, _) => outcome,
        };
        let available = self.available(group, Some(first), now);
        let choice = self.distribute(cluster, available, outcome);
        choice.destination?;
        self.groups[cluster].again += 1;
        Some(choice)
    }

    /// Those that the checks leave, or all where none is left and the policy is to panic; without
    /// `except`.
    fn available(&self, group: &Group, except: Option<Key>, now: Instant) -> Vec<Key> {
        let is_healthy = |member: &Key| {
            let entry = self.entries.of(*member);
            entry.is_some_and(|entry| entry.is_healthy(&group.health, now))
        };
        let mut left: Vec<Key> = group.members.iter().copied().filter(is_healthy).collect();
        if left.is_empty() && group.health.available == Available::HealthyOrPanic {
            left.clone_from(&group.members);
        }
        left.retain(|member| Some(*member) != except);
        left
    }

    /// The available destination whose cookie this is, or why there is none.
    fn resolve(
        &self,
        group: &Group,
        policy: FailurePolicy,
        cookie: &str,
        available: &[Key],
    ) -> Result<Key, Outcome> {
        let has_key = |member: &Key| {
            let entry = self.entries.of(*member);
            entry.is_some_and(|entry| entry.key.as_str() == cookie)
        };
        let known = group.members.iter().copied().find(has_key);
        // A backup that is not needed gives its clients back, whether it could be had or not.
        let is_backup = known.is_some_and(|known| self.tier(known).is_some_and(Tier::is_backup));
        let is_needed = !available
            .iter()
            .any(|member| self.tier(*member) == Some(Tier::Primary));
        if is_backup && !is_needed {
            return Err(Outcome::New);
        }
        let found = known.filter(|known| available.contains(known));
        found.ok_or(match policy {
            FailurePolicy::Redistribute => Outcome::Redistributed,
            FailurePolicy::Refuse => Outcome::Refused,
        })
    }

    /// One of the best that are available, by the cluster's policy.
    fn distribute(&mut self, cluster: usize, available: Vec<Key>, outcome: Outcome) -> Choice {
        let best = available
            .iter()
            .filter_map(|member| self.tier(*member))
            .min();
        let candidate = |member: &Key| {
            let entry = self.entries.of(*member)?;
            let (key, in_flight, rank) = (*member, entry.in_flight, entry.rank);
            let candidate = Candidate {
                key,
                in_flight,
                rank,
            };
            (Some(entry.tier()) == best).then_some(candidate)
        };
        let candidates: Vec<Candidate> = available.iter().filter_map(candidate).collect();
        let group = &mut self.groups[cluster];
        let picked = balance::pick(
            group.balance,
            &candidates,
            &mut group.turn,
            &mut self.random,
        );
        let is_bound = group.failure.is_some();
        let entry = picked.and_then(|picked| self.entries.of(picked));
        Choice {
            destination: picked,
            establish: entry.filter(|_| is_bound).map(|entry| entry.key),
            outcome: match picked {
                Some(_) => outcome,
                None => Outcome::NoDestination,
            },
        }
    }

    fn tier(&self, member: Key) -> Option<Tier> {
        self.entries.of(member).map(Entry::tier)
    }
}

impl Entry {
    fn tier(&self) -> Tier {
        match (self.destination.is_draining, self.destination.is_backup) {
            (false, false) => Tier::Primary,
            (false, true) => Tier::Backup,
            (true, false) => Tier::Draining,
            (true, true) => Tier::DrainingBackup,
        }
    }
}
