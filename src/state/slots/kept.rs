//! What the state folder remembers of a slot, whenever it can be read.
//!
//! Usually that is first of all, and then it is all that the slot knows. A folder on a card that is
//! mounted late finds a slot that had to begin without it.
//!
//! Policy: nothing that an upstream or somebody has brought meanwhile is undone; what was kept goes
//! below the memory of this process. One thing yields: a seed that lay there at the start and that
//! is all the slot has had so far. If the folder knows that seed, or holds what was pushed, a start
//! with the folder would not have served it, and what was kept takes its place now. Where regions
//! mint the revisions of a slot, the higher one counts.

use crate::model::{Past, SlotIndex, Source};

use super::{Slot, Slots};
use crate::state::history::{History, is_upstream};

impl Slots {
    /// What the slot remembered when a process before this one last kept it, to be told before what
    /// was kept is offered. Where the slot knew nothing, it is known to be kept.
    ///
    /// Bounded by the lengths of the lists, which `history` cuts to its bounds.
    pub fn restore(&mut self, index: SlotIndex, past: &Past) {
        let Some(slot) = self.slots.get_mut(usize::from(index.0)) else {
            return;
        };
        let restored = History::restore(past, &self.limits);
        slot.is_premature = slot.yields_to(past);
        let mut own = std::mem::replace(&mut slot.history, restored);
        if slot.held.is_none() || slot.is_premature {
            // What yields is remembered as a seed that was offered, not as what was served.
            own.forget_adopted();
            slot.pushes.restore(past);
        } else {
            let newest = past.adopted.last().map(|(digest, _)| *digest);
            let held = slot.held.as_ref();
            let is_same = held.is_some_and(|held| newest.is_some_and(|newest| held.serves(newest)));
            slot.pushes.restore_below(past, is_same);
            self.unkept.insert(index);
        }
        slot.history.go_on(&own);
    }
}

impl Slot {
    /// Whether what is held would not be, had this been known first.
    fn yields_to(&self, past: &Past) -> bool {
        let Some(held) = &self.held else {
            return false;
        };
        if self.is_routed() {
            // Whoever minted the revisions has ordered them.
            return self.revision().is_some_and(|own| past.revision > own);
        }
        let is_first = self.versions == 1 && held.source == Source::Seed;
        let is_upstreams = self.origin().is_some_and(is_upstream);
        let was_pushed = self.is_operators() && past.pushed_unix_s.is_some();
        let is_known = past.seeds.contains(&held.snapshot.digest);
        is_first && !is_upstreams && (was_pushed || is_known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::model::{Counts, Digest, Revision, SlotKey, Snapshot};
    use crate::state::slots::Adoption;
    use crate::time::Instant;
    use std::rc::Rc;

    const FIRST: SlotIndex = SlotIndex(0);

    fn slots(offers: &[(u8, Source)]) -> Slots {
        let key = SlotKey::parse("shop/prod").unwrap();
        let mut slots = Slots::new([key], &Limits::PRODUCTION);
        offer(&mut slots, offers);
        slots
    }

    /// What became of the last of these offers.
    fn offer(slots: &mut Slots, offers: &[(u8, Source)]) -> Option<Adoption> {
        let offers = offers.iter().map(|(content, source)| {
            let snapshot = Rc::new(Snapshot {
                gzip: None,
                json: vec![*content].into(),
                digest: digest(*content),
                counts: Counts::default(),
                rollouts_filled: 0,
            });
            slots.handle_offer(FIRST, snapshot, *source, Instant::from_micros(1))
        });
        offers.last()
    }

    fn digest(content: u8) -> Digest {
        Digest([content; 32])
    }

    fn served(slots: &Slots) -> u8 {
        let held = slots.of(FIRST).unwrap().held.as_ref().unwrap();
        held.snapshot.digest.0[0]
    }

    /// A seed 1, and the primary's 2 after it, were kept by a process before this one.
    fn past() -> Past {
        slots(&[(1, Source::Seed), (2, Source::Primary)])
            .of(FIRST)
            .unwrap()
            .past()
    }

    /// A slot that had these offers before the folder came, and what became of what was kept.
    fn late(offers: &[(u8, Source)], past: &Past, kept: u8) -> (Slots, Adoption) {
        let mut slots = slots(offers);
        while slots.poll_keep().is_some() {}
        slots.restore(FIRST, past);
        let adoption = offer(&mut slots, &[(kept, Source::Cache)]).unwrap();
        (slots, adoption)
    }

    #[test]
    fn an_empty_slot_takes_what_comes_late() {
        let (mut slots, adoption) = late(&[], &past(), 2);
        assert!(matches!(adoption, Adoption::Adopted(_)), "{adoption:?}");
        assert_eq!(slots.poll_keep(), None, "it is kept already");
        assert_eq!(slots.of(FIRST).unwrap().past(), past());
    }

    #[test]
    fn a_seed_that_the_folder_knows_gives_way() {
        let (mut slots, adoption) = late(&[(1, Source::Seed)], &past(), 2);
        assert!(matches!(adoption, Adoption::Adopted(_)), "{adoption:?}");
        let origin = slots.of(FIRST).unwrap().origin();
        assert_eq!(origin, Some(Source::Primary));
        let again = offer(&mut slots, &[(1, Source::Seed)]);
        assert_eq!(again, Some(Adoption::Superseded));
        assert_eq!(
            offer(&mut slots, &[(1, Source::Backup)]),
            Some(Adoption::Stale)
        );
    }

    #[test]
    fn what_came_meanwhile_stays_and_is_newer_than_what_was_kept() {
        let newer: [&[(u8, Source)]; 4] = [
            &[(3, Source::Seed)],
            &[(4, Source::Seed), (3, Source::Seed)],
            &[(1, Source::Seed), (3, Source::Primary)],
            &[(3, Source::Primary)],
        ];
        for offers in newer {
            let (mut slots, adoption) = late(offers, &past(), 2);
            assert_eq!(adoption, Adoption::Superseded, "{offers:?}");
            assert_eq!(served(&slots), 3);
            assert_eq!(slots.poll_keep(), Some(FIRST), "over what was kept");
            let before = offer(&mut slots, &[(1, Source::Backup)]);
            assert_eq!(before, Some(Adoption::Stale), "{offers:?}");
        }
    }

    #[test]
    fn a_known_seed_that_an_upstream_confirmed_stays() {
        let offers = [(1, Source::Seed), (1, Source::Primary)];
        let (slots, adoption) = late(&offers, &past(), 2);
        assert_eq!((adoption, served(&slots)), (Adoption::Superseded, 1));
    }

    #[test]
    fn what_was_pushed_comes_back_and_nobody_reads_one_revision_twice() {
        let pushed = |seq| Past {
            adopted: vec![(digest(2), Source::Operator)],
            revision: Revision { epoch: 0, seq },
            pushed_unix_s: Some(1),
            ..Past::default()
        };
        let mut slots = slots(&[]);
        slots.give_to_operator(FIRST);
        offer(&mut slots, &[(5, Source::Seed)]);
        slots.restore(FIRST, &pushed(7));
        offer(&mut slots, &[(2, Source::Cache)]);
        let revision = |slots: &Slots| slots.of(FIRST).unwrap().revision().unwrap().seq;
        assert_eq!((served(&slots), revision(&slots)), (2, 7));
        // The folder was lost and found: what it holds is what is served, or is behind it.
        slots.restore(FIRST, &pushed(7));
        assert_eq!(revision(&slots), 7);
        offer(&mut slots, &[(3, Source::Operator)]);
        slots.restore(FIRST, &pushed(7));
        assert_eq!((served(&slots), revision(&slots)), (3, 8));
        slots.restore(FIRST, &pushed(9));
        assert_eq!((served(&slots), revision(&slots)), (3, 10));
    }

    #[test]
    fn of_what_regions_order_the_higher_revision_counts() {
        let past = |epoch| Past {
            adopted: vec![(digest(2), Source::Operator)],
            revision: Revision { epoch, seq: 1 },
            parent: Revision { epoch: 1, seq: 1 },
            pushed_unix_s: Some(1),
            ..Past::default()
        };
        let mut slots = slots(&[]);
        slots.give_to_operator(FIRST);
        slots.route(FIRST);
        offer(&mut slots, &[(5, Source::Seed)]);
        slots.restore(FIRST, &past(4));
        offer(&mut slots, &[(2, Source::Cache)]);
        let place = |slots: &Slots| {
            let slot = slots.of(FIRST).unwrap();
            (slot.revision().unwrap().epoch, slot.parent().epoch)
        };
        assert_eq!((served(&slots), place(&slots)), (2, (4, 1)));
        slots.restore(FIRST, &past(3));
        offer(&mut slots, &[(9, Source::Cache)]);
        assert_eq!((served(&slots), place(&slots)), (2, (4, 1)), "it is older");
        slots.restore(FIRST, &past(6));
        offer(&mut slots, &[(9, Source::Cache)]);
        assert_eq!((served(&slots), place(&slots)), (9, (6, 1)));
    }
}
