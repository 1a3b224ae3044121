//! Deadlines, and the table under them, beside plain maps.
//!
//! Claims: what is due comes up, once, for its last reason and not before its time; the timer is
//! never late, and whoever moves it forward is told; nothing comes up for who left. A key finds its
//! own value or none, whatever became of its place.

use super::entropy::Entropy;
use staffetta::state::deadlines::{Deadlines, Reason};
use staffetta::state::slab::{Key, Slab};
use staffetta::time::{Duration, Instant};
use std::collections::BTreeMap;

pub fn deadlines(input: &[u8]) {
    let mut entropy = Entropy::new(input);
    let mut deadlines = Deadlines::default();
    let mut shadow: BTreeMap<Key, Option<(Instant, Reason)>> = BTreeMap::new();
    let mut stale: Vec<Key> = Vec::new();
    let mut now = Instant::from_micros(entropy.word() >> 8);
    while !entropy.is_empty() {
        let operation = entropy.below(8);
        let at = entropy.below(shadow.len());
        let key = shadow.keys().nth(at).copied();
        let reason = Reason::ALL[entropy.below(Reason::ALL.len())];
        match (operation, key) {
            (0, _) if shadow.len() < 16 => {
                shadow.insert(deadlines.insert(), None);
            }
            (1, Some(key)) => {
                deadlines.remove(key);
                shadow.remove(&key);
                stale.push(key);
            }
            (2 | 3, Some(key)) => {
                let due = now + Duration::from_secs(entropy.below(20) as u64);
                arm(&mut deadlines, key, due, reason);
                shadow.insert(key, Some((due, reason)));
            }
            (4, Some(key)) => {
                deadlines.disarm(key);
                shadow.insert(key, None);
            }
            (5, _) => {
                deadlines.hasten(reason, now);
                for (due, other) in shadow.values_mut().flatten() {
                    *due = if *other == reason { now } else { *due };
                }
            }
            (6, _) => {
                for key in &stale {
                    assert!(
                        !deadlines.arm(*key, now, reason),
                        "a stale key has no deadline"
                    );
                    deadlines.disarm(*key);
                    deadlines.remove(*key);
                }
            }
            _ => {
                now = now + Duration::from_secs(entropy.below(12) as u64);
                expire(&mut deadlines, &mut shadow, now);
            }
        }
        let first = shadow.values().flatten().map(|(due, _)| *due).min();
        let timer = deadlines.poll_timeout();
        assert!(
            first.is_none() || timer.is_some_and(|timer| Some(timer) <= first),
            "a late timer"
        );
    }
    // Nothing is left once everybody is gone.
    for key in shadow.keys() {
        deadlines.remove(*key);
    }
    assert_eq!(deadlines.poll_timeout(), None);
}

fn arm(deadlines: &mut Deadlines, key: Key, due: Instant, reason: Reason) {
    let before = deadlines.poll_timeout();
    let moved = deadlines.arm(key, due, reason);
    let after = deadlines.poll_timeout().expect("it is armed");
    let is_sooner = before.is_none_or(|before| after < before);
    assert!(moved || !is_sooner, "the timer is not told");
}

fn expire(
    deadlines: &mut Deadlines,
    shadow: &mut BTreeMap<Key, Option<(Instant, Reason)>>,
    now: Instant,
) {
    while let Some((key, reason)) = deadlines.poll_expired(now) {
        let entry = shadow.get_mut(&key).expect("somebody who is there");
        let (due, expected) = entry.take().expect("a deadline");
        assert_eq!(reason, expected);
        assert!(due <= now, "before its time");
    }
    assert!(
        shadow.values().flatten().all(|(due, _)| *due > now),
        "overdue"
    );
    assert!(
        deadlines.poll_timeout().is_none_or(|timer| timer > now),
        "a hot loop"
    );
}

pub fn slab(input: &[u8]) {
    let mut entropy = Entropy::new(input);
    let mut slab: Slab<u64> = Slab::default();
    let mut shadow: BTreeMap<Key, u64> = BTreeMap::new();
    let mut stale: Vec<Key> = Vec::new();
    let (mut next, mut peak) = (0, 0);
    while !entropy.is_empty() {
        let operation = entropy.below(4);
        let at = entropy.below(shadow.len());
        match (operation, shadow.keys().nth(at).copied()) {
            (0 | 1, _) => {
                next += 1;
                let key = slab.insert(next);
                assert_eq!(shadow.insert(key, next), None, "a key in use");
                assert!(!stale.contains(&key), "a key used again");
                peak = peak.max(shadow.len());
                assert!(key.place() < peak, "a new place while one was free");
            }
            (2, Some(key)) => {
                assert_eq!(slab.remove(key), shadow.remove(&key));
                stale.push(key);
            }
            (3, Some(key)) => {
                let value = slab.of_mut(key).expect("it is there");
                *value += 1000;
                shadow.insert(key, *value);
            }
            _ => {}
        }
        for key in &stale {
            assert_eq!(slab.of(*key), None);
            assert_eq!(slab.of_mut(*key), None);
            assert_eq!(slab.remove(*key), None);
        }
        assert_eq!(
            (slab.len(), slab.is_empty()),
            (shadow.len(), shadow.is_empty())
        );
        let held: Vec<(Key, u64)> = slab.iter().map(|(key, value)| (key, *value)).collect();
        let mutable: Vec<(Key, u64)> = slab.iter_mut().map(|(key, value)| (key, *value)).collect();
        assert!(held.is_sorted_by_key(|(key, _)| key.place()));
        assert_eq!(held, mutable);
        assert_eq!(BTreeMap::from_iter(held), shadow);
    }
}
