//! Pushes that were applied lately, for who did not hear the answer and asks again.
//!
//! A client that names its push with an `Idempotency-Key` gets the same answer twice for it. Only
//! pushes that were applied are remembered: a refused one may be tried again.
//!
//! Invariant: at most `region.idempotency_keys_max` of them, oldest out first, in memory only.
//! After a restart the digest of the content still tells that there is nothing to change.

use super::id::SubjectIndex;
use crate::limits::Limits;
use crate::model::Revision;
use std::collections::VecDeque;

/// The answers that are remembered.
#[derive(Debug)]
pub struct Keys {
    seen: VecDeque<(SubjectIndex, Box<str>, Revision)>,
    count_max: usize,
}

impl Keys {
    /// Remembers nothing yet.
    pub fn new(limits: &Limits) -> Keys {
        Keys {
            seen: VecDeque::new(),
            count_max: limits.region.idempotency_keys_max,
        }
    }

    /// The revision that a push of this name came to. Bounded by the keys remembered.
    pub fn find(&self, subject: SubjectIndex, key: &str) -> Option<Revision> {
        let is_meant = |(other, name, _): &&(SubjectIndex, Box<str>, Revision)| {
            *other == subject && &**name == key
        };
        self.seen
            .iter()
            .find(is_meant)
            .map(|(_, _, revision)| *revision)
    }

    /// A push of this name was applied. Bounded by O(1).
    pub fn remember(&mut self, subject: SubjectIndex, key: Box<str>, revision: Revision) {
        if self.seen.len() >= self.count_max {
            self.seen.pop_front();
        }
        self.seen.push_back((subject, key, revision));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_too_many_is_forgotten() {
        let mut keys = Keys::new(&Limits::PRODUCTION);
        let slot = SubjectIndex(0);
        for number in 0..=Limits::PRODUCTION.region.idempotency_keys_max {
            keys.remember(slot, number.to_string().into(), Revision::default());
        }
        assert_eq!(keys.find(slot, "0"), None);
        assert_eq!(keys.find(slot, "1"), Some(Revision::default()));
        assert_eq!(keys.find(SubjectIndex(1), "1"), None, "another slot's");
    }
}
