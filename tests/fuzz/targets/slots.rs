//! Offers to slots, beside a plain record of what each was given.
//!
//! Claims: a slot serves the last good content, whatever was refused since; equal content changes
//! neither bytes nor version; versions count up by one; a refusal is news once; every slot is found
//! by its ids and no other is. The primary is always followed; a backup never takes a slot back to
//! what an upstream went past; the state folder fills what is empty; a new seed is served unless an
//! upstream is followed, and one that was seen replaces no upstream's document. Only news is kept.

use super::entropy::Entropy;
use bytes::Bytes;
use staffetta::limits::Limits;
use staffetta::model::{Counts, Digest, Past, SlotIndex, SlotKey, Snapshot, Source, Version};
use staffetta::state::slots::{Adoption, Slots};
use staffetta::time::{Duration, Instant};
use std::collections::BTreeSet;
use std::rc::Rc;

const PROBLEMS: [&str; 2] = ["torn", "$.a: odd"];
const NAMES: [&str; 4] = ["a", "b", "a.b", "A"];

const SOURCES: [Source; 4] = [Source::Primary, Source::Backup, Source::Seed, Source::Cache];

#[derive(Clone, Default)]
struct Record {
    /// Every adoption and every upstream's confirmation so far.
    path: Vec<(Digest, bool)>,
    seeds: BTreeSet<Digest>,
    is_following: bool,
    superseded: Option<Digest>,
    stale: u64,
    /// The backup has shown what is held: what it has after that is no older.
    is_level: bool,
    held: Option<(Rc<Snapshot>, u64, Instant, Instant)>,
    refusal: Option<(usize, Instant, u64)>,
}

pub fn slots(input: &[u8]) {
    let mut entropy = Entropy::new(input);
    let mut keys = BTreeSet::new();
    for _ in 0..=entropy.below(6) {
        let (collection, environment) = (entropy.below(4), entropy.below(4));
        keys.insert((NAMES[collection], NAMES[environment]));
    }
    let mut keys: Vec<(&str, &str)> = keys.into_iter().collect();
    let turn = entropy.below(keys.len());
    keys.rotate_left(turn);
    let parse = |(collection, environment): &(&str, &str)| {
        SlotKey::parse(&format!("{collection}/{environment}")).expect("a slot key")
    };
    let mut slots = Slots::new(keys.iter().map(parse), &Limits::PRODUCTION);
    for collection in NAMES {
        for environment in NAMES {
            let at = keys
                .iter()
                .position(|key| *key == (collection, environment));
            let expected = at.map(|at| SlotIndex(at as u16));
            assert_eq!(slots.find(collection, environment), expected);
        }
    }
    let mut records = vec![Record::default(); keys.len()];
    let mut now = Instant::from_micros(1);
    while !entropy.is_empty() {
        now = now + Duration::from_secs(entropy.below(3) as u64);
        let at = entropy.below(keys.len() + 1);
        let index = SlotIndex(at as u16);
        let choice = entropy.byte();
        let Some(record) = records.get_mut(at) else {
            assert!(!slots.handle_refusal(index, "torn", now), "no such slot");
            let offer = slots.handle_offer(index, snapshot(0), Source::Seed, now);
            assert_eq!(offer, Adoption::Unchanged);
            continue;
        };
        match choice & 7 {
            0 => refuse(&mut slots, index, record, usize::from(choice >> 7), now),
            1 => {
                record.is_following = choice >> 7 == 1;
                slots.set_following(index, record.is_following);
            }
            _ => {
                let source = SOURCES[usize::from(choice >> 3 & 3)];
                offer(&mut slots, index, record, (choice >> 5, source), now);
            }
        }
        agree(&slots, &records);
    }
}

fn snapshot(content: u8) -> Rc<Snapshot> {
    Rc::new(Snapshot {
        gzip: None,
        json: Bytes::copy_from_slice(&[content]),
        digest: Digest([content; 32]),
        counts: Counts::default(),
        rollouts_filled: 0,
    })
}

fn offer(
    slots: &mut Slots,
    index: SlotIndex,
    record: &mut Record,
    (content, source): (u8, Source),
    now: Instant,
) {
    let offered = snapshot(content);
    let origin = SOURCES[usize::from(content & 1)];
    if source == Source::Cache && record.held.is_none() {
        // Whoever finds a document there finds the memory beside it.
        let adopted = vec![(offered.digest, origin)];
        let past = Past {
            adopted,
            ..Past::default()
        };
        slots.restore(index, &past);
    }
    let past = slots.of(index).expect("a slot").past();
    let found = slots.handle_offer(index, offered.clone(), source, now);
    let held = record.held.as_ref().map(|(held, ..)| held.digest);
    let is_equal = held == Some(offered.digest);
    assert_eq!(found == Adoption::Unchanged, is_equal);
    let is_free = held.is_none() || is_equal;
    match source {
        Source::Primary | Source::Operator => {
            assert!(is_equal || matches!(found, Adoption::Adopted(_)))
        }
        Source::Backup => {
            let is_older = !is_free && !record.is_level && record.went_past(offered.digest);
            assert_eq!(found == Adoption::Stale, is_older);
        }
        Source::Cache => assert_eq!(found == Adoption::Superseded, !is_free),
        Source::Seed if is_free => assert_ne!(found, Adoption::Superseded),
        Source::Seed => {
            let is_new = !record.seeds.contains(&offered.digest);
            let of_upstream = record.of_upstream();
            assert!(!record.is_following || found == Adoption::Superseded);
            assert!(record.is_following || !is_new || found != Adoption::Superseded);
            assert!(is_new || !of_upstream || found == Adoption::Superseded);
        }
    }
    record.is_level = match found {
        Adoption::Adopted(_) => source == Source::Backup,
        Adoption::Unchanged => record.is_level || source == Source::Backup,
        Adoption::Stale | Adoption::Superseded => record.is_level,
    };
    record.note(found, &offered, source, now);
    let kept = slots.of(index).expect("a slot").past();
    let order = |past: &Past| past.adopted.iter().map(|(digest, _)| *digest).collect();
    let order = |past: &Past| -> (Vec<Digest>, Vec<Digest>) { (order(past), past.seeds.clone()) };
    // What the state folder brings is what it keeps.
    let is_news = order(&past) != order(&kept);
    assert_eq!(slots.poll_keep(), is_news.then_some(index));
    assert!(
        kept.adopted
            .iter()
            .all(|(_, source)| *source != Source::Cache)
    );
}

impl Record {
    /// Takes down what became of an offer.
    fn note(&mut self, found: Adoption, offered: &Rc<Snapshot>, source: Source, now: Instant) {
        let is_upstream = matches!(source, Source::Primary | Source::Backup);
        match found {
            Adoption::Adopted(version) => {
                let last = self.held.as_ref().map_or(0, |(_, version, ..)| *version);
                assert_eq!(version, Version(last + 1));
                self.held = Some((offered.clone(), last + 1, now, now));
                let of_upstream = is_upstream || source == Source::Cache;
                self.path.push((offered.digest, of_upstream));
            }
            Adoption::Unchanged => {
                self.held.as_mut().expect("it is held").3 = now;
                let of_upstream = is_upstream || self.of_upstream();
                self.path.push((offered.digest, of_upstream));
            }
            Adoption::Stale => self.stale += 1,
            Adoption::Superseded => {}
        }
        if found != Adoption::Stale {
            self.refusal = None;
        }
        if source == Source::Seed {
            self.seeds.insert(offered.digest);
            self.superseded = (found == Adoption::Superseded).then_some(offered.digest);
        }
    }

    fn of_upstream(&self) -> bool {
        self.path.last().is_some_and(|(_, upstream)| *upstream)
    }

    /// Whether an upstream has brought other content since this was served last.
    fn went_past(&self, digest: Digest) -> bool {
        let Some(at) = self.path.iter().rposition(|(known, _)| *known == digest) else {
            return false;
        };
        self.path[at..]
            .iter()
            .any(|(other, upstream)| *other != digest && *upstream)
    }
}

fn refuse(slots: &mut Slots, index: SlotIndex, record: &mut Record, problem: usize, now: Instant) {
    let is_news = slots.handle_refusal(index, PROBLEMS[problem], now);
    match &mut record.refusal {
        Some((same, _, times)) if *same == problem => {
            assert!(!is_news);
            *times += 1;
        }
        refusal => {
            assert!(is_news);
            *refusal = Some((problem, now, 1));
        }
    }
}

fn agree(slots: &Slots, records: &[Record]) {
    assert_eq!(slots.iter().count(), records.len());
    for ((index, slot), record) in slots.iter().zip(records) {
        assert_eq!(slots.of(index).map(|slot| &slot.key), Some(&slot.key));
        let held = slot.held.as_ref().map(|held| {
            (
                held.snapshot.clone(),
                held.version.0,
                held.since,
                held.confirmed,
            )
        });
        match (&held, &record.held) {
            (Some(found), Some(expected)) => {
                assert!(Rc::ptr_eq(&found.0, &expected.0), "other bytes");
                assert_eq!(
                    (found.1, found.2, found.3),
                    (expected.1, expected.2, expected.3)
                );
            }
            (found, expected) => assert!(found.is_none() && expected.is_none()),
        }
        let refusal = slot.refusal.as_ref();
        let found = refusal.map(|found| (found.problem.as_str(), found.since, found.times));
        let expected = record
            .refusal
            .map(|(at, since, times)| (PROBLEMS[at], since, times));
        assert_eq!(found, expected);
    }
    for ((_, slot), record) in slots.iter().zip(records) {
        let superseded = slot.superseded.map(|superseded| superseded.digest);
        assert_eq!((superseded, slot.stale), (record.superseded, record.stale));
    }
    let missing = records
        .iter()
        .filter(|record| record.held.is_none())
        .count();
    assert_eq!(slots.missing().count(), missing);
}
