//! What each slot serves, and why not something newer.
//!
//! Policy: a slot keeps the last good snapshot for as long as the process lives. Nothing empties
//! it: a seed that is missing, torn, or wrong for this slot leaves a note (what, since when) and
//! changes nothing else. Content equal by digest is not adopted again: the bytes that are served
//! stay, and no client hears of it.
//!
//! Trip: any refusal. Recovery: the next good document, which also clears the note.

use std::rc::Rc;

use crate::model::{Digest, SlotIndex, SlotKey, Snapshot, Source, Version};
use crate::time::Instant;

/// A snapshot that a slot serves.
#[derive(Clone, Debug)]
pub struct Held {
    pub snapshot: Rc<Snapshot>,
    pub version: Version,
    pub source: Source,
    /// When its content was adopted.
    pub since: Instant,
    /// When a source last confirmed it, by the same digest.
    pub confirmed: Instant,
}

/// Why the newest offer was not adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// One line: item, path, problem.
    pub problem: String,
    /// When this problem was first seen, of those without a good document in between.
    pub since: Instant,
    /// How often it was refused since then.
    pub times: u64,
}

/// One slot.
#[derive(Clone, Debug)]
pub struct Slot {
    pub key: SlotKey,
    pub held: Option<Held>,
    pub refusal: Option<Refusal>,
    versions: u64,
}

/// What became of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// It is served from now on, as this version: publish it.
    Adopted(Version),
    /// It is what is served already.
    Unchanged,
}

/// All slots of the configuration.
#[derive(Clone, Debug)]
pub struct Slots {
    slots: Vec<Slot>,
    /// Positions in `slots`, by collection and environment.
    sorted: Vec<SlotIndex>,
}

impl Slots {
    /// Empty slots with these keys, in the order of the configuration.
    pub fn new(keys: impl IntoIterator<Item = SlotKey>) -> Slots {
        let empty = |key| Slot {
            key,
            held: None,
            refusal: None,
            versions: 0,
        };
        let slots: Vec<Slot> = keys.into_iter().map(empty).collect();
        let mut sorted: Vec<SlotIndex> = (0..slots.len() as u16).map(SlotIndex).collect();
        sorted.sort_by(|left, right| {
            slots[usize::from(left.0)]
                .key
                .cmp(&slots[usize::from(right.0)].key)
        });
        Slots { slots, sorted }
    }

    // Getters.

    /// The slot of a collection and environment.
    ///
    /// Bounded by O(log n).
    pub fn find(&self, collection: &str, environment: &str) -> Option<SlotIndex> {
        let wanted = (collection, environment);
        let order = |index: &SlotIndex| {
            let key = &self.slots[usize::from(index.0)].key;
            (key.collection.as_str(), key.environment.as_str()).cmp(&wanted)
        };
        let place = self.sorted.binary_search_by(order).ok()?;
        self.sorted.get(place).copied()
    }

    /// A slot.
    pub fn of(&self, index: SlotIndex) -> Option<&Slot> {
        self.slots.get(usize::from(index.0))
    }

    /// All slots in the order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = (SlotIndex, &Slot)> {
        (0..).map(SlotIndex).zip(self.slots.iter())
    }

    /// The slots that have nothing to serve.
    pub fn missing(&self) -> impl Iterator<Item = &SlotKey> {
        self.slots
            .iter()
            .filter(|slot| slot.held.is_none())
            .map(|slot| &slot.key)
    }

    // What happened.

    /// A source offers a valid document.
    ///
    /// Bounded by O(1).
    pub fn handle_offer(
        &mut self,
        index: SlotIndex,
        snapshot: Rc<Snapshot>,
        source: Source,
        now: Instant,
    ) -> Adoption {
        let Some(slot) = self.slots.get_mut(usize::from(index.0)) else {
            return Adoption::Unchanged;
        };
        slot.refusal = None;
        if let Some(held) = slot
            .held
            .as_mut()
            .filter(|held| held.serves(snapshot.digest))
        {
            held.confirmed = now;
            return Adoption::Unchanged;
        }
        slot.versions += 1;
        let version = Version(slot.versions);
        slot.held = Some(Held {
            snapshot,
            version,
            source,
            since: now,
            confirmed: now,
        });
        Adoption::Adopted(version)
    }

    /// A source offers something that cannot be served. Returns whether that is news.
    ///
    /// Bounded by O(1).
    pub fn handle_refusal(&mut self, index: SlotIndex, problem: &str, now: Instant) -> bool {
        let Some(slot) = self.slots.get_mut(usize::from(index.0)) else {
            return false;
        };
        match &mut slot.refusal {
            Some(refusal) if refusal.problem == problem => {
                refusal.times += 1;
                false
            }
            refusal => {
                *refusal = Some(Refusal {
                    problem: problem.to_owned(),
                    since: now,
                    times: 1,
                });
                true
            }
        }
    }
}

impl Held {
    fn serves(&self, digest: Digest) -> bool {
        self.snapshot.digest == digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Counts;

    const NOW: Instant = Instant::from_micros(1);
    const FIRST: SlotIndex = SlotIndex(0);

    fn slots() -> Slots {
        Slots::new(["shop/prod", "bar/dev"].map(|text| SlotKey::parse(text).unwrap()))
    }

    fn snapshot(content: u8) -> Rc<Snapshot> {
        Rc::new(Snapshot {
            gzip: None,
            json: vec![content].into(),
            digest: Digest([content; 32]),
            counts: Counts::default(),
            rollouts_filled: 0,
        })
    }

    #[test]
    fn slots_are_found_by_both_ids() {
        let slots = slots();
        assert_eq!(slots.find("shop", "prod"), Some(FIRST));
        assert_eq!(slots.find("bar", "dev"), Some(SlotIndex(1)));
        assert_eq!(slots.find("shop", "dev"), None);
    }

    #[test]
    fn equal_content_keeps_the_bytes_and_the_version() {
        let mut slots = slots();
        let first = snapshot(1);
        let adopted = slots.handle_offer(FIRST, first.clone(), Source::Seed, NOW);
        assert_eq!(adopted, Adoption::Adopted(Version(1)));
        let again = slots.handle_offer(FIRST, snapshot(1), Source::Seed, NOW);
        assert_eq!(again, Adoption::Unchanged);
        let held = slots.of(FIRST).unwrap().held.as_ref().unwrap();
        assert!(Rc::ptr_eq(&held.snapshot, &first));
    }

    #[test]
    fn a_refusal_leaves_what_is_served() {
        let mut slots = slots();
        slots.handle_offer(FIRST, snapshot(1), Source::Seed, NOW);
        assert!(slots.handle_refusal(FIRST, "torn", NOW));
        assert!(!slots.handle_refusal(FIRST, "torn", NOW));
        let slot = slots.of(FIRST).unwrap();
        assert_eq!(slot.held.as_ref().unwrap().version, Version(1));
        assert_eq!(slot.refusal.as_ref().unwrap().times, 2);
        slots.handle_offer(FIRST, snapshot(2), Source::Seed, NOW);
        assert_eq!(slots.of(FIRST).unwrap().refusal, None);
    }

    #[test]
    fn empty_slots_are_listed() {
        let mut slots = slots();
        slots.handle_offer(FIRST, snapshot(1), Source::Seed, NOW);
        let missing: Vec<String> = slots.missing().map(SlotKey::to_string).collect();
        assert_eq!(missing, ["bar/dev"]);
    }
}
