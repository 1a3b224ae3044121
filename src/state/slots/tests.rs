//! Claims about [`Slots`]: who may replace what a slot serves, and what it keeps.

use super::*;
use crate::model::Counts;

const NOW: Instant = Instant::from_micros(1);
const FIRST: SlotIndex = SlotIndex(0);

fn slots() -> Slots {
    let keys = ["shop/prod", "bar/dev"].map(|text| SlotKey::parse(text).unwrap());
    Slots::new(keys, &Limits::PRODUCTION)
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

/// A slot that was offered these contents; what became of the last.
fn after(slots: &mut Slots, offers: &[(u8, Source)]) -> Adoption {
    let mut last = Adoption::Unchanged;
    for (content, source) in offers {
        last = slots.handle_offer(FIRST, snapshot(*content), *source, NOW);
    }
    last
}

fn served(slots: &Slots) -> (u8, Source) {
    let held = slots.of(FIRST).unwrap().held.as_ref().unwrap();
    (held.snapshot.digest.0[0], held.source)
}

/// The slots of the next process, after its state folder was read.
fn restarted(slots: &Slots) -> Slots {
    let past = slots.of(FIRST).unwrap().past();
    let (content, _) = served(slots);
    let mut next = self::slots();
    next.restore(FIRST, &past);
    let restored = after(&mut next, &[(content, Source::Cache)]);
    assert_eq!(restored, Adoption::Adopted(Version(1)));
    assert_eq!(next.poll_keep(), None, "it is kept already");
    next
}

#[test]
fn the_primary_is_followed_back_too() {
    let mut slots = slots();
    let offers = [
        (1, Source::Primary),
        (2, Source::Primary),
        (1, Source::Primary),
    ];
    assert_eq!(after(&mut slots, &offers), Adoption::Adopted(Version(3)));
    assert_eq!(
        after(&mut slots, &[(2, Source::Backup)]),
        Adoption::Stale,
        "rolled back at the primary"
    );
}

#[test]
fn older_backup_digest_is_not_adopted() {
    let mut slots = slots();
    after(&mut slots, &[(1, Source::Primary), (2, Source::Primary)]);
    assert_eq!(after(&mut slots, &[(1, Source::Backup)]), Adoption::Stale);
    assert_eq!(served(&slots), (2, Source::Primary));
    assert_eq!(slots.of(FIRST).unwrap().stale, 1);
    let newest = after(&mut slots, &[(2, Source::Backup)]);
    assert_eq!(newest, Adoption::Unchanged);
    let unknown = after(&mut slots, &[(3, Source::Backup)]);
    assert_eq!(unknown, Adoption::Adopted(Version(3)));
}

#[test]
fn a_backup_that_went_back_itself_is_followed() {
    // A flag was off (1) and on (2) when the primary died; the backup has caught up.
    let mut slots = slots();
    after(&mut slots, &[(1, Source::Primary), (2, Source::Primary)]);
    after(&mut slots, &[(2, Source::Backup)]);
    let off = after(&mut slots, &[(1, Source::Backup)]);
    assert!(matches!(off, Adoption::Adopted(_)), "{off:?}");
    // On and off again, all of it at the backup.
    after(&mut slots, &[(2, Source::Backup), (3, Source::Backup)]);
    after(&mut slots, &[(2, Source::Backup)]);
    assert_eq!(served(&slots), (2, Source::Backup));
    // What the primary brings puts it behind again.
    after(&mut slots, &[(4, Source::Primary)]);
    assert_eq!(after(&mut slots, &[(2, Source::Backup)]), Adoption::Stale);
    assert_eq!(after(&mut slots, &[(3, Source::Backup)]), Adoption::Stale);
}

#[test]
fn older_backup_digest_is_not_adopted_after_a_restart() {
    let mut slots = slots();
    after(&mut slots, &[(1, Source::Primary), (2, Source::Primary)]);
    let mut next = restarted(&slots);
    assert_eq!(after(&mut next, &[(1, Source::Backup)]), Adoption::Stale);
    assert_eq!(served(&next), (2, Source::Cache));
    assert_eq!(next.of(FIRST).unwrap().origin(), Some(Source::Primary));
}

#[test]
fn a_backup_that_is_all_there_is_may_be_old() {
    let mut slots = slots();
    after(&mut slots, &[(1, Source::Primary), (2, Source::Primary)]);
    let mut next = self::slots();
    next.restore(FIRST, &slots.of(FIRST).unwrap().past());
    let adopted = after(&mut next, &[(1, Source::Backup)]);
    assert_eq!(adopted, Adoption::Adopted(Version(1)));
}

#[test]
fn upstreams_replace_seeds() {
    for upstream in [Source::Primary, Source::Backup] {
        let mut slots = slots();
        after(&mut slots, &[(1, upstream), (2, Source::Seed)]);
        assert_eq!(served(&slots), (2, Source::Seed));
        let back = after(&mut slots, &[(1, upstream)]);
        assert_eq!(back, Adoption::Adopted(Version(3)));
    }
}

#[test]
fn the_state_folder_fills_an_empty_slot_only() {
    let mut slots = slots();
    after(&mut slots, &[(1, Source::Seed)]);
    let late = after(&mut slots, &[(2, Source::Cache)]);
    assert_eq!(late, Adoption::Superseded);
    assert_eq!(served(&slots), (1, Source::Seed));
    assert_eq!(slots.of(FIRST).unwrap().superseded, None);
}

#[test]
fn new_seed_replaces_last_known_good_at_the_start() {
    for first in [Source::Primary, Source::Backup, Source::Seed] {
        let mut slots = slots();
        after(&mut slots, &[(1, first)]);
        let mut next = restarted(&slots);
        let adopted = after(&mut next, &[(2, Source::Seed)]);
        assert_eq!(adopted, Adoption::Adopted(Version(2)));
    }
}

#[test]
fn older_seed_again_after_a_restart_does_not_replace_last_known_good() {
    for newer in [Source::Primary, Source::Backup, Source::Seed] {
        let mut slots = slots();
        after(&mut slots, &[(1, Source::Seed), (2, newer)]);
        let mut next = restarted(&slots);
        // The start, the second look two seconds later, a reload.
        let again = [(1, Source::Seed); 3];
        assert_eq!(after(&mut next, &again), Adoption::Superseded);
        assert_eq!(served(&next), (2, Source::Cache));
        let superseded = next.of(FIRST).unwrap().superseded.unwrap();
        assert_eq!(superseded.times, 3);
        let mut third = restarted(&next);
        let again = after(&mut third, &[(1, Source::Seed)]);
        assert_eq!(again, Adoption::Superseded);
    }
}

#[test]
fn a_seed_that_lies_there_does_not_come_back_over_an_upstream() {
    let mut slots = slots();
    after(&mut slots, &[(1, Source::Seed), (2, Source::Primary)]);
    slots.set_following(FIRST, false);
    let again = after(&mut slots, &[(1, Source::Seed), (1, Source::Seed)]);
    assert_eq!(again, Adoption::Superseded);
    assert_eq!(served(&slots), (2, Source::Primary));
    let new = after(&mut slots, &[(3, Source::Seed)]);
    assert_eq!(new, Adoption::Adopted(Version(3)));
    assert_eq!(slots.of(FIRST).unwrap().superseded, None);
}

#[test]
fn new_seed_waits_while_an_upstream_is_followed() {
    let mut slots = slots();
    slots.set_following(FIRST, true);
    let first = after(&mut slots, &[(1, Source::Seed)]);
    assert_eq!(first, Adoption::Adopted(Version(1)), "it is all there is");
    after(&mut slots, &[(2, Source::Primary)]);
    let new = after(&mut slots, &[(3, Source::Seed)]);
    assert_eq!(new, Adoption::Superseded);
    slots.set_following(FIRST, false);
    let again = after(&mut slots, &[(3, Source::Seed)]);
    assert_eq!(again, Adoption::Superseded, "it is no news any more");
}

#[test]
fn seeds_that_are_put_there_by_turns_are_each_served() {
    let mut slots = slots();
    let turns = [(1, Source::Seed), (2, Source::Seed), (1, Source::Seed)];
    assert_eq!(after(&mut slots, &turns), Adoption::Adopted(Version(3)));
    let mut next = restarted(&slots);
    let turns = [(1, Source::Seed), (2, Source::Seed)];
    assert_eq!(after(&mut next, &turns), Adoption::Adopted(Version(2)));
}

#[test]
fn a_seed_that_an_upstream_confirmed_is_the_upstreams() {
    let mut slots = slots();
    let offers = [
        (1, Source::Seed),
        (2, Source::Seed),
        (2, Source::Primary),
        (1, Source::Seed),
    ];
    assert_eq!(after(&mut slots, &offers), Adoption::Superseded);
    let held = slots.of(FIRST).unwrap().held.as_ref().unwrap();
    assert_eq!(held.confirmed_by, Source::Primary);
}

#[test]
fn only_news_is_kept() {
    let mut slots = slots();
    let mut kept = |content, source| {
        after(&mut slots, &[(content, source)]);
        let kept = slots.poll_keep();
        assert_eq!(slots.poll_keep(), None);
        kept == Some(FIRST)
    };
    assert!(kept(1, Source::Seed) && kept(2, Source::Primary));
    assert!(!kept(1, Source::Backup), "stale");
    assert!(!kept(2, Source::Primary) && !kept(2, Source::Backup));
    assert!(!kept(1, Source::Seed), "superseded and known");
    assert!(kept(3, Source::Seed) && !kept(3, Source::Seed));
    assert!(!kept(3, Source::Primary) && kept(4, Source::Primary));
    assert!(kept(1, Source::Seed), "which seed lies there is remembered");
}
