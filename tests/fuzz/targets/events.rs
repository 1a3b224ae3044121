//! Usage and analytics: the bodies, their compression, and the queue in front of delivery.
//!
//! Claims: the count is that of a naive reader; growth is bounded and what was compressed comes
//! back; the queue holds the newest bodies that fit, in order, and every body is waiting, taken or
//! counted.

use super::entropy::Entropy;
use super::tree::Tree;
use bytes::Bytes;
use staffetta::limits::Limits;
use staffetta::state::events::{Events, Kind, OVERHEAD_BYTES};
use staffetta::time::Instant;
use staffetta::wire::{DecodeError, events as bodies, gzip as codec};
use std::collections::VecDeque;

pub const WORDS: &[&str] = &[
    "\"usages\":[]",
    "\"usages\"",
    "{}",
    "[]",
    "null",
    "{\"a\":[1]}",
    ",",
    ":",
];

pub fn entries(input: &[u8]) {
    let found = bodies::entries(input);
    let tree = std::str::from_utf8(input).ok().and_then(Tree::parse);
    // The parser's own limits (depth, numbers, halves of characters) are none of the relay's here.
    let Some(tree) = tree else {
        return;
    };
    let Tree::Map(members) = tree else {
        assert!(found.is_err(), "no object");
        return;
    };
    let usages: Vec<&Tree> = members
        .iter()
        .filter(|(key, _)| key == "usages")
        .map(|(_, value)| value)
        .collect();
    match usages.as_slice() {
        [Tree::List(entries)] => assert_eq!(found, Ok(entries.len() as u32)),
        _ => assert!(found.is_err(), "{usages:?}"),
    }
}

pub fn gzip(input: &[u8]) {
    let mut entropy = Entropy::new(input);
    let bound = entropy.below(256) * 16;
    match codec::inflate(input, 64 * 1024) {
        Ok(inflated) => {
            assert!(inflated.len() <= 64 * 1024);
            let bounded = codec::inflate(input, bound);
            match inflated.len() <= bound {
                true => assert_eq!(bounded.as_ref(), Ok(&inflated)),
                false => assert_eq!(bounded, Err(DecodeError::BodyTooLarge)),
            }
        }
        Err(error) => assert!(matches!(error.status(), 400 | 413), "{error:?}"),
    }
    let content = entropy.rest().repeat(1 + bound / 512);
    let packed = codec::compress(&content);
    assert_eq!(
        codec::inflate(&packed, content.len()).as_ref(),
        Ok(&content)
    );
    if let Some(less) = content.len().checked_sub(1) {
        assert_eq!(
            codec::inflate(&packed, less),
            Err(DecodeError::BodyTooLarge)
        );
    }
    let cut = bound % packed.len();
    assert!(cut == 0 || codec::inflate(&packed[..cut], content.len()).is_err());
    let twice = [&packed[..], &packed].concat();
    assert_eq!(
        codec::inflate(&twice, 2 * content.len()),
        Ok(content.repeat(2))
    );
}

/// A naive queue beside the real one.
#[derive(Default)]
struct Shadow {
    waiting: VecDeque<(Kind, Vec<u8>, u32)>,
    dropped: u64,
    dropped_entries: u64,
    malformed: u64,
    bodies: u64,
    taken: u64,
}

impl Shadow {
    fn bytes(&self) -> usize {
        self.waiting
            .iter()
            .map(|(_, body, _)| body.len() + OVERHEAD_BYTES)
            .sum()
    }

    fn accept(&mut self, kind: Kind, body: Vec<u8>, entries: u32, bytes_max: usize) {
        self.bodies += 1;
        let drop = |shadow: &mut Shadow, entries: u32| {
            shadow.dropped += 1;
            shadow.dropped_entries += u64::from(entries);
        };
        if body.len() + OVERHEAD_BYTES > bytes_max {
            return drop(self, entries);
        }
        self.waiting.push_back((kind, body, entries));
        while self.bytes() > bytes_max {
            let (_, _, entries) = self.waiting.pop_front().expect("something waits");
            drop(self, entries);
        }
    }
}

pub fn queue(input: &[u8]) {
    let mut entropy = Entropy::new(input);
    let bytes_max = entropy.below(256) * 8;
    let limits = Limits {
        events_bytes_max: bytes_max,
        ..Limits::PRODUCTION
    };
    let mut events = Events::kept(&limits);
    let mut counted = Events::counted_only();
    let mut shadow = Shadow::default();
    let now = Instant::from_micros(entropy.word());
    while !entropy.is_empty() {
        let kind = if entropy.flag() {
            Kind::Usage
        } else {
            Kind::Analytics
        };
        match entropy.below(5) {
            0 => {
                let found = events.take();
                let found = found.map(|found| (found.kind, found.body.to_vec(), found.entries));
                shadow.taken += u64::from(found.is_some());
                assert_eq!(found, shadow.waiting.pop_front());
            }
            1 => {
                events.handle_malformed(kind);
                shadow.malformed += 1;
            }
            _ => {
                let length = entropy.below(256) * 9;
                let entries = entropy.word() as u32;
                let body = vec![entropy.byte(); length];
                shadow.accept(kind, body.clone(), entries, bytes_max);
                events.accept(kind, Bytes::from(body.clone()), entries, now);
                counted.accept(kind, Bytes::from(body), entries, now);
            }
        }
        assert_eq!(events.waiting(), shadow.waiting.len());
        assert_eq!(events.waiting_bytes(), shadow.bytes());
        assert!(events.waiting_bytes() <= bytes_max);
        assert_eq!(counted.waiting(), 0);
        let counts = [Kind::Usage, Kind::Analytics].map(|kind| events.counts(kind));
        let [usage, analytics] = counts;
        assert_eq!(usage.bodies + analytics.bodies, shadow.bodies);
        assert_eq!(usage.malformed + analytics.malformed, shadow.malformed);
        assert_eq!(
            usage.dropped_bodies + analytics.dropped_bodies,
            shadow.dropped
        );
        assert_eq!(
            usage.dropped_entries + analytics.dropped_entries,
            shadow.dropped_entries
        );
        let there = shadow.waiting.len() as u64;
        assert_eq!(
            shadow.bodies,
            shadow.dropped + shadow.taken + there,
            "a body is lost"
        );
    }
}
