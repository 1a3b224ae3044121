//! Slots of the operator: the place of their content in a sequence, and one push at a time.
//!
//! Every content that such a slot adopts, a seed's too, moves its revision on by one, so that
//! whoever names the revision that he has read overwrites nothing that he has not.
//!
//! Policy: a push is kept first and served then. While it is being kept, the slot is as it was and
//! takes no seed, which would put other content under the revision that is being written; the seed
//! is read again afterwards. A push of what is served already is none.
//!
//! Where regions route the writes of a slot, its revisions are minted there (`state::region`), and
//! a seed fills it only while it is empty: the nodes would otherwise drift apart by their seeds.
//!
//! Trip: a push that cannot be kept. Recovery: what is served is kept again, over whatever the
//! failure has left, and the next push finds the slot as if nothing had been.

use crate::model::{Digest, Past, Revision, SlotIndex, Source};
use crate::time::{Instant, Wall};

use super::{Slot, Slots};

/// What a slot knows about pushes.
#[derive(Clone, Debug, Default)]
pub(super) struct Pushes {
    is_operators: bool,
    /// Several sites write it in turns; who does is none of this room's business.
    is_routed: bool,
    revision: Revision,
    /// What the term of `revision` was built on.
    parent: Revision,
    pushed_unix_s: Option<u64>,
    underway: Option<Underway>,
}

/// A push that is being kept.
#[derive(Clone, Copy, Debug)]
struct Underway {
    revision: Revision,
    parent: Revision,
    unix_s: u64,
    is_seed_waiting: bool,
}

impl Slots {
    /// The slot takes pushes. To be told before anything is restored or offered.
    pub fn give_to_operator(&mut self, index: SlotIndex) {
        if let Some(slot) = self.slots.get_mut(usize::from(index.0)) {
            slot.pushes.is_operators = true;
        }
    }

    /// The revisions of the slot are minted by regions from now on, and a seed is no more than its
    /// first content. To be told with [`Slots::give_to_operator`].
    pub fn route(&mut self, index: SlotIndex) {
        if let Some(slot) = self.slots.get_mut(usize::from(index.0)) {
            slot.pushes.is_routed = true;
        }
    }

    /// Somebody pushes this content: what is to be kept with it before it is offered, or `None` if
    /// the slot serves it already. [`Slots::end_push`] follows in either case; until then there is
    /// no other push to the slot.
    ///
    /// Bounded by the bounds of `history`.
    pub fn begin_push(
        &mut self,
        index: SlotIndex,
        digest: Digest,
        wall: Wall,
        now: Instant,
    ) -> Option<Past> {
        let slot = self.slots.get_mut(usize::from(index.0))?;
        if slot.held.as_ref().is_some_and(|held| held.serves(digest)) {
            slot.confirm(Source::Operator, now);
            return None;
        }
        let (revision, parent) = (slot.pushes.revision.next(), slot.pushes.parent);
        Some(slot.begin(digest, revision, parent, wall))
    }

    /// The same for content whose place in the sequence was given from outside, be it served
    /// already or not: what is to be kept. `parent`: what the term of `revision` was built on.
    ///
    /// Bounded by the bounds of `history`.
    pub fn begin_push_at(
        &mut self,
        index: SlotIndex,
        digest: Digest,
        (revision, parent): (Revision, Revision),
        wall: Wall,
    ) -> Option<Past> {
        let slot = self.slots.get_mut(usize::from(index.0))?;
        Some(slot.begin(digest, revision, parent, wall))
    }

    /// The push has ended: it is kept and was offered, or it could not be kept. Returns whether a
    /// seed was put off meanwhile, and is to be read again.
    ///
    /// Bounded by O(log n).
    pub fn end_push(&mut self, index: SlotIndex, is_kept: bool) -> bool {
        let Some(slot) = self.slots.get_mut(usize::from(index.0)) else {
            return false;
        };
        let underway = slot.pushes.underway.take();
        match &underway {
            Some(underway) if is_kept => slot.pushes.settle(*underway),
            Some(_) => drop(self.unkept.insert(index)),
            None => {}
        }
        underway.is_some_and(|underway| underway.is_seed_waiting)
    }
}

impl Slot {
    /// Whether the operator pushes to it.
    pub fn is_operators(&self) -> bool {
        self.pushes.is_operators
    }

    /// How far the content of an operator's slot has come; `None` while there is none.
    pub fn revision(&self) -> Option<Revision> {
        let is_counted = self.pushes.is_operators && self.held.is_some();
        is_counted.then_some(self.pushes.revision)
    }

    /// What the term of the slot's revision was built on.
    pub fn parent(&self) -> Revision {
        self.pushes.parent
    }

    /// Whether regions mint its revisions.
    pub fn is_routed(&self) -> bool {
        self.pushes.is_routed
    }

    fn begin(&mut self, digest: Digest, revision: Revision, parent: Revision, wall: Wall) -> Past {
        let unix_s = wall.as_unix();
        self.pushes.underway = Some(Underway {
            revision,
            parent,
            unix_s,
            is_seed_waiting: false,
        });
        let mut history = self.history.clone();
        history.adopt(digest, Source::Operator);
        Past {
            revision,
            parent,
            pushed_unix_s: Some(unix_s),
            ..history.past()
        }
    }

    /// What the clock said at the last push to an operator's slot.
    pub fn pushed_at(&self) -> Option<Wall> {
        let unix_s = self.pushes.pushed_unix_s?;
        self.pushes.is_operators.then(|| Wall::from_unix(unix_s))
    }
}

impl Pushes {
    pub(super) fn restore(&mut self, past: &Past) {
        self.revision = past.revision;
        self.parent = past.parent;
        self.pushed_unix_s = past.pushed_unix_s;
    }

    /// The same beside content that this process has adopted already. `is_same`: it is what was
    /// kept; else it comes after that, under a revision that nobody has read yet.
    pub(super) fn restore_below(&mut self, past: &Past, is_same: bool) {
        self.pushed_unix_s = self.pushed_unix_s.or(past.pushed_unix_s);
        let is_counted = self.is_operators || past.revision > Revision::default();
        if is_counted && self.revision <= past.revision {
            self.revision = match is_same {
                true => past.revision,
                false => past.revision.next(),
            };
        }
    }

    /// Adds to what is to be kept.
    pub(super) fn complete(&self, past: Past) -> Past {
        Past {
            revision: self.revision,
            parent: self.parent,
            pushed_unix_s: self.pushed_unix_s,
            ..past
        }
    }

    /// Whether a seed has to wait for the end of a push; notes that it does.
    pub(super) fn put_off_seed(&mut self) -> bool {
        match &mut self.underway {
            Some(underway) => {
                underway.is_seed_waiting = true;
                true
            }
            None => false,
        }
    }

    /// Whether no seed replaces what is served.
    pub(super) fn outrank_seeds(&self) -> bool {
        self.is_operators && (self.is_routed || self.pushed_unix_s.is_some())
    }

    /// The slot has adopted content of `source`. Returns whether that is kept already.
    pub(super) fn advance(&mut self, source: Source) -> bool {
        if let Some(underway) = self.underway.filter(|_| source == Source::Operator) {
            self.settle(underway);
            return true;
        }
        // A slot that is the operator's no longer goes on counting: it may be again.
        let is_counted = self.is_operators || self.revision > Revision::default();
        let is_counted_already = source == Source::Cache && self.revision > Revision::default();
        if is_counted && !is_counted_already {
            self.revision = self.revision.next();
        }
        false
    }

    /// A push is kept, and counts.
    fn settle(&mut self, underway: Underway) {
        self.revision = underway.revision;
        self.parent = underway.parent;
        self.pushed_unix_s = Some(underway.unix_s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::model::{Counts, SlotKey, Snapshot};
    use crate::state::slots::Adoption;
    use std::rc::Rc;

    const NOW: Instant = Instant::from_micros(1);
    const WALL: Wall = Wall::from_unix(1_800_000_000);
    const FIRST: SlotIndex = SlotIndex(0);

    fn slots() -> Slots {
        let key = SlotKey::parse("shop/prod").unwrap();
        let mut slots = Slots::new([key], &Limits::PRODUCTION);
        slots.give_to_operator(FIRST);
        slots
    }

    fn offer(slots: &mut Slots, content: u8, source: Source) -> Adoption {
        let snapshot = Rc::new(Snapshot {
            gzip: None,
            json: vec![content].into(),
            digest: Digest([content; 32]),
            counts: Counts::default(),
            rollouts_filled: 0,
        });
        slots.handle_offer(FIRST, snapshot, source, NOW)
    }

    /// A push that is kept; what was kept.
    fn push(slots: &mut Slots, content: u8) -> Option<Past> {
        let past = slots.begin_push(FIRST, Digest([content; 32]), WALL, NOW);
        if past.is_some() {
            let adoption = offer(slots, content, Source::Operator);
            assert!(matches!(adoption, Adoption::Adopted(_)), "{adoption:?}");
        }
        assert!(!slots.end_push(FIRST, true));
        past
    }

    fn revision(slots: &Slots) -> Option<String> {
        let revision = slots.of(FIRST).unwrap().revision();
        revision.map(|revision| revision.to_string())
    }

    fn served(slots: &Slots) -> u8 {
        let held = slots.of(FIRST).unwrap().held.as_ref().unwrap();
        held.snapshot.digest.0[0]
    }

    #[test]
    fn what_is_kept_is_what_the_slot_remembers_afterwards() {
        let mut slots = slots();
        assert_eq!(revision(&slots), None);
        for content in [1, 2, 1, 3] {
            let kept = push(&mut slots, content).unwrap();
            assert_eq!(kept, slots.of(FIRST).unwrap().past());
            assert_eq!(slots.poll_keep(), None, "it is kept already");
        }
        assert_eq!(revision(&slots).as_deref(), Some("0-4"));
        assert_eq!(push(&mut slots, 3), None, "served already");
        assert_eq!(revision(&slots).as_deref(), Some("0-4"));
        assert_eq!(slots.of(FIRST).unwrap().pushed_at(), Some(WALL));
    }

    #[test]
    fn the_sequence_goes_on_after_a_restart() {
        let mut first = slots();
        push(&mut first, 1);
        let kept = push(&mut first, 2).unwrap();
        let mut next = slots();
        next.restore(FIRST, &kept);
        offer(&mut next, 2, Source::Cache);
        assert_eq!(revision(&next).as_deref(), Some("0-2"));
        push(&mut next, 3);
        assert_eq!(revision(&next).as_deref(), Some("0-3"));
    }

    #[test]
    fn seeds_count_and_are_replaced_until_something_is_pushed() {
        let mut slots = slots();
        offer(&mut slots, 1, Source::Seed);
        assert_eq!(revision(&slots).as_deref(), Some("0-1"));
        let second = offer(&mut slots, 2, Source::Seed);
        assert!(matches!(second, Adoption::Adopted(_)));
        assert_eq!(revision(&slots).as_deref(), Some("0-2"));
        assert_eq!(slots.poll_keep(), Some(FIRST));
        push(&mut slots, 3);
        assert_eq!(offer(&mut slots, 4, Source::Seed), Adoption::Superseded);
        assert_eq!(served(&slots), 3);
        let mut next = self::slots();
        next.restore(FIRST, &slots.of(FIRST).unwrap().past());
        offer(&mut next, 3, Source::Cache);
        assert_eq!(offer(&mut next, 5, Source::Seed), Adoption::Superseded);
        assert_eq!(revision(&next).as_deref(), Some("0-3"));
    }

    #[test]
    fn a_seed_waits_for_the_end_of_a_push_and_is_not_lost_if_that_fails() {
        let mut slots = slots();
        offer(&mut slots, 1, Source::Seed);
        slots.poll_keep();
        assert!(
            slots
                .begin_push(FIRST, Digest([2; 32]), WALL, NOW)
                .is_some()
        );
        assert_eq!(offer(&mut slots, 3, Source::Seed), Adoption::Superseded);
        assert!(slots.end_push(FIRST, false), "it is to be read again");
        assert_eq!(
            slots.poll_keep(),
            Some(FIRST),
            "over what the failure has left"
        );
        assert_eq!(
            (served(&slots), revision(&slots).unwrap().as_str()),
            (1, "0-1")
        );
        let again = offer(&mut slots, 3, Source::Seed);
        assert!(matches!(again, Adoption::Adopted(_)), "{again:?}");
    }

    #[test]
    fn content_that_another_source_left_has_a_revision_too() {
        let mut slots = slots();
        let past = Past {
            adopted: vec![(Digest([1; 32]), Source::Primary)],
            ..Past::default()
        };
        slots.restore(FIRST, &past);
        offer(&mut slots, 1, Source::Cache);
        assert_eq!(revision(&slots).as_deref(), Some("0-1"));
    }

    #[test]
    fn a_place_that_is_given_is_taken_even_for_content_that_is_served() {
        let mut slots = slots();
        slots.route(FIRST);
        offer(&mut slots, 1, Source::Seed);
        slots.poll_keep();
        let place = |text| Revision::parse(text).unwrap();
        for (content, at) in [(2, ("5-1", "0-1")), (2, ("6-0", "5-1"))] {
            let (revision, parent) = (place(at.0), place(at.1));
            let digest = Digest([content; 32]);
            let past = slots.begin_push_at(FIRST, digest, (revision, parent), WALL);
            offer(&mut slots, content, Source::Operator);
            slots.end_push(FIRST, true);
            let slot = slots.of(FIRST).unwrap();
            assert_eq!(past, Some(slot.past()));
            assert_eq!((slot.revision(), slot.parent()), (Some(revision), parent));
            assert_eq!(slots.poll_keep(), None, "it is kept already");
        }
    }

    #[test]
    fn a_seed_is_the_first_content_of_a_routed_slot_and_no_more() {
        let mut slots = slots();
        slots.route(FIRST);
        let first = offer(&mut slots, 1, Source::Seed);
        assert!(matches!(first, Adoption::Adopted(_)));
        assert_eq!(offer(&mut slots, 2, Source::Seed), Adoption::Superseded);
        assert_eq!(
            (served(&slots), revision(&slots).as_deref()),
            (1, Some("0-1"))
        );
    }
}
