//! Usage and analytics: the bodies, their compression, the lines of the spool, and delivery.
//!
//! Claims: what is read of a body is what a naive reader finds, summed counts included, and reads
//! back from what is written; growth is bounded and what was compressed comes back; a line of the
//! spool holds what a plain checksum says, and no part of one is a line; each entry that the spool
//! took waits, is delivered, set aside or counted as lost, and it asks for one thing at a time.

use super::entropy::Entropy;
use super::tree::Tree;
use staffetta::limits::Limits;
use staffetta::model::report::{Entry, Latest, ReportKind, Sum};
use staffetta::state::spool::{BatchId, Outcome, Persist, Spool, Stored};
use staffetta::state::tally::{Batch, Tally};
use staffetta::time::{Duration, Instant};
use staffetta::wire::usage::{self, Report};
use staffetta::wire::{DecodeError, gzip as codec, journal};

pub const WORDS: &[&str] = &[
    "\"usages\":[]",
    "\"usages\"",
    "\"collection_id\":\"c\"",
    "\"environment_id\":\"e\"",
    "\"feature_id\":",
    "\"property_id\":",
    "\"entity_id\":",
    "\"segment_id\":null",
    "\"evaluation_time\":\"2026-11-29T21:54:12Z\"",
    "\"count\":1",
    "\\u0041",
    "{}",
    "[]",
    "null",
    "{\"a\":[1]}",
    ",",
    ":",
];

pub const LINE_WORDS: &[&str] = &[
    "\n",
    " ",
    "u 1 ",
    "a 1 ",
    "m 0 ",
    "{\"usages\":[]}",
    "\0\0\0\0",
];

/// The envelope of a report, and its entries.
type Read = (String, Vec<Option<Entry>>);

fn read(kind: ReportKind, body: &[u8]) -> Result<Read, DecodeError> {
    let report = Report::read(kind, body, &Limits::PRODUCTION)?;
    let mut entries = Vec::new();
    report.each_entry(0, |entry| {
        entries.push(entry);
        true
    });
    Ok((report.envelope().to_owned(), entries))
}

pub fn entries(input: &[u8]) {
    for kind in ReportKind::ALL {
        let found = read(kind, input);
        if let Ok((envelope, entries)) = &found {
            let whole: Vec<Entry> = entries.iter().flatten().cloned().collect();
            let written = usage::body(envelope, &whole);
            let (again, read) = read(kind, written.as_bytes()).expect("what was written");
            assert_eq!(&again, envelope);
            assert!(read.into_iter().flatten().eq(whole), "{written}");
        }
        let tree = std::str::from_utf8(input).ok().and_then(Tree::parse);
        // The parser's own limits (depth, numbers, halves of characters) are none of the relay's.
        match tree {
            Some(Tree::Map(members)) => compare(kind, &members, found),
            Some(_) => assert!(found.is_err(), "no object"),
            None => {}
        }
    }
}

fn compare(kind: ReportKind, members: &[(String, Tree)], found: Result<Read, DecodeError>) {
    let usages = all(members, "usages");
    let [Tree::List(entries)] = usages.as_slice() else {
        assert!(found.is_err(), "{usages:?}");
        return;
    };
    let is_id = |key| matches!(all(members, key).as_slice(), [Tree::Text(_)]);
    let names_slot = is_id("collection_id") && is_id("environment_id");
    if kind == ReportKind::Usage && !names_slot {
        assert!(found.is_err());
    }
    // Ids of other characters, and envelopes over their bound, are refused as well.
    let Ok((_, read)) = found else { return };
    assert_eq!(read.len(), entries.len());
    for (entry, tree) in read.iter().zip(entries) {
        let Tree::Map(members) = tree else {
            assert_eq!(entry, &None);
            continue;
        };
        let count = match all(members, "count").as_slice() {
            [Tree::Number(count)] => count.as_u64(),
            _ => None,
        };
        match entry.as_ref().map(|entry| &entry.sum) {
            Some(Some(sum)) => assert_eq!(Some(sum.count), count),
            Some(None) => assert_eq!(kind, ReportKind::Analytics),
            None => {}
        }
    }
}

fn all<'a>(members: &'a [(String, Tree)], key: &str) -> Vec<&'a Tree> {
    let same = members.iter().filter(|(name, _)| name == key);
    same.map(|(_, value)| value).collect()
}

pub fn lines(input: &[u8]) {
    let mut rest = input;
    while let Some(line) = journal::decode(rest) {
        let (text, next) = rest.split_at(line.bytes);
        assert_eq!(text.last(), Some(&b'\n'));
        let letter = match line.kind {
            ReportKind::Usage => b'u',
            ReportKind::Analytics => b'a',
        };
        let summed = [
            &[letter][..],
            &line.entries.to_be_bytes(),
            line.body.as_bytes(),
        ]
        .concat();
        let head = format!("{} {} {:08x} ", letter as char, line.entries, crc(&summed));
        let expected = [head.as_bytes(), line.body.as_bytes(), b"\n"].concat();
        assert_eq!(text, expected);
        for end in 0..text.len() {
            assert_eq!(journal::decode(&text[..end]), None);
        }
        rest = next;
    }
    if let Some(mark) = journal::decode_mark(input) {
        let text = journal::encode_mark(&mark);
        assert_eq!(journal::decode_mark(text.as_bytes()), Some(mark));
        assert_eq!(journal::decode(input), None);
    }
    if let Ok((envelope, entries)) = read(ReportKind::Analytics, input) {
        let entries: Vec<Entry> = entries.into_iter().flatten().collect();
        let text = journal::encode(ReportKind::Analytics, &envelope, &entries);
        let line = journal::decode(text.as_bytes()).expect("what was written");
        assert_eq!(
            (line.bytes, line.entries as usize),
            (text.len(), entries.len())
        );
        assert_eq!(line.body, usage::body(&envelope, &entries));
    }
}

/// CRC-32, bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    let bit = |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), bit);
    !bytes.iter().fold(!0, byte)
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

/// Where each entry is that the spool was given. No two are alike, so that none are summed.
#[derive(Default)]
struct Shadow {
    accepted: u64,
    /// On the disk behind the window.
    disk: Vec<Entry>,
    /// Read, and not marked as done yet.
    window: Vec<Entry>,
    order: Option<Persist>,
    sending: Option<BatchId>,
}

fn unique(number: u64) -> Entry {
    let text = format!("{number:06}").into();
    let latest = Latest {
        moment: None,
        text: "\"t\"".into(),
    };
    let sum = Some(Sum { count: 1, latest });
    Entry { text, sum }
}

impl Shadow {
    fn stored(&mut self) -> Stored {
        Stored {
            entries: self.disk.len() as u64,
            bytes: 100 * (self.disk.len() + self.window.len()) as u64,
            lost: 0,
        }
    }

    /// The disk does, or fails to do, what it was told.
    fn answer(&mut self, spool: &mut Spool, fails: bool, now: Instant) {
        let Some(order) = self.order.take() else {
            return;
        };
        if fails {
            let stored = self.stored();
            spool.handle_disk_failure("broken".to_owned(), stored, now);
            return;
        }
        match order {
            Persist::Append => {
                let entries = spool.appending().iter().flat_map(|batch| &batch.entries);
                self.disk.extend(entries.cloned());
                let stored = self.stored();
                spool.handle_appended(stored, now);
            }
            Persist::Read => {
                let left = self.disk.split_off(self.disk.len().min(40));
                self.window = std::mem::replace(&mut self.disk, left);
                let mut tally = Tally::default();
                for entry in &self.window {
                    tally.add(ReportKind::Usage, &"e".into(), entry.clone());
                }
                let stored = self.stored();
                spool.handle_read(tally, 0, stored, now);
            }
            Persist::Mark(_) | Persist::Finish => {
                let stored = self.stored();
                spool.handle_marked(stored, now);
            }
        }
    }

    fn check(&self, spool: &Spool) {
        let done = spool.deliveries();
        assert_eq!(
            self.accepted,
            spool.waiting_entries() + done.entries + done.set_aside_entries + done.dropped_entries,
            "an entry is nowhere, or twice"
        );
    }
}

pub fn spool(input: &[u8]) {
    let mut entropy = Entropy::new(input);
    let limits = Limits {
        events_bytes_max: 2_000 + entropy.below(256) * 100,
        report_entries_max: 1 + entropy.below(40),
        ..Limits::PRODUCTION
    };
    let has_disk = entropy.flag();
    let mut now = Instant::from_micros(1);
    let mut shadow = Shadow::default();
    let stored = has_disk.then(|| shadow.stored());
    let mut spool = Spool::new(stored, &limits, entropy.word(), now);
    while !entropy.is_empty() {
        match entropy.below(8) {
            0 => now = now + Duration::from_millis(entropy.below(256) as u64 * 300),
            1 => shadow.answer(&mut spool, entropy.below(4) == 0, now),
            2 => {
                let outcome = match entropy.below(6) {
                    0 => Outcome::Refused,
                    1 => Outcome::Denied,
                    2 => Outcome::Later(None),
                    3 => Outcome::Later(Some(Duration::from_secs(entropy.below(256) as u64))),
                    _ => Outcome::Delivered,
                };
                if let Some(id) = shadow.sending.take() {
                    spool.handle_sent(id, outcome, now);
                    assert_eq!(spool.handle_sent(id, outcome, now), None);
                }
            }
            _ => {
                for _ in 0..=entropy.below(20) {
                    shadow.accepted += 1;
                    let entry = unique(shadow.accepted);
                    spool.accept(ReportKind::Usage, &"e".into(), entry, now);
                }
            }
        }
        if let Some(order) = spool.poll_persist(now) {
            assert!(has_disk && shadow.order.is_none(), "two orders at once");
            shadow.order = Some(order);
        }
        if let Some((id, Batch { entries, .. })) = spool.poll_send(now) {
            assert!(shadow.sending.is_none(), "two POSTs at once");
            assert!((1..=limits.report_entries_max).contains(&entries.len()));
            shadow.sending = Some(id);
        }
        for at in [spool.poll_persist_timeout(), spool.poll_send_timeout()] {
            assert!(at.is_none_or(|at| at > now), "it is due, and not done");
        }
        assert!(spool.memory_bytes() <= limits.events_bytes_max);
        shadow.check(&spool);
    }
}
