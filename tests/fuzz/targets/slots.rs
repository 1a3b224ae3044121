//! Offers to slots, beside a plain record of what each was given.
//!
//! Claims: a slot serves the last good content, whatever was refused since; equal content changes
//! neither bytes nor version; versions count up by one; a refusal is news once; every slot is found
//! by its ids and no other is.

use super::entropy::Entropy;
use bytes::Bytes;
use staffetta::model::{Counts, Digest, SlotIndex, SlotKey, Snapshot, Source, Version};
use staffetta::state::slots::{Adoption, Slots};
use staffetta::time::{Duration, Instant};
use std::collections::BTreeSet;
use std::rc::Rc;

const PROBLEMS: [&str; 2] = ["torn", "$.a: odd"];
const NAMES: [&str; 4] = ["a", "b", "a.b", "A"];

#[derive(Clone, Default)]
struct Record {
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
    let mut slots = Slots::new(keys.iter().map(parse));
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
        match choice & 3 {
            0 => refuse(&mut slots, index, record, usize::from(choice >> 7), now),
            _ => offer(&mut slots, index, record, choice >> 2 & 3, now),
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

fn offer(slots: &mut Slots, index: SlotIndex, record: &mut Record, content: u8, now: Instant) {
    let offered = snapshot(content);
    let found = slots.handle_offer(index, offered.clone(), Source::Seed, now);
    record.refusal = None;
    match &mut record.held {
        Some((held, _, _, confirmed)) if held.digest == offered.digest => {
            assert_eq!(found, Adoption::Unchanged);
            *confirmed = now;
        }
        held => {
            let version = held.as_ref().map_or(0, |(_, version, ..)| *version) + 1;
            assert_eq!(found, Adoption::Adopted(Version(version)));
            *held = Some((offered, version, now, now));
        }
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
    let missing = records
        .iter()
        .filter(|record| record.held.is_none())
        .count();
    assert_eq!(slots.missing().count(), missing);
}
