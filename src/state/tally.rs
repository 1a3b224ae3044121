//! Entries of reports, summed, within a bound.
//!
//! Owns what is told apart and what is added up: usage by kind, envelope (collection and
//! environment) and text (flag, entity, segment); analytics never. What would not fit is paid for
//! by who calls, with the oldest first.
//!
//! Invariants: `bytes` is the sum of the costs of what is held; the same entries added in the same
//! order come out in the same batches, which is what lets a restarted relay go on within a window.

use crate::limits::Limits;
use crate::model::report::{Entry, ReportKind, Sum};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// What an entry costs beside its text: its time, two places in ordered tables whose nodes may be
/// half empty, and three allocations.
pub const OVERHEAD_BYTES: usize = 320;

/// What a sum takes in a body, at most: its time, its count, and what these are called.
const SUM_BYTES: usize = 112;

/// Entries that go in one POST, or in one line of the spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub kind: ReportKind,
    /// The members around the entries, as `wire::usage` gives them.
    pub envelope: Rc<str>,
    pub entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    kind: ReportKind,
    envelope: Rc<str>,
    /// Tells apart what is not summed; 0 for what is.
    single: u64,
    text: Box<str>,
}

/// The sums.
#[derive(Debug, Default)]
pub struct Tally {
    held: BTreeMap<Rc<Name>, Option<Sum>>,
    /// By the order in which they were first seen.
    ages: BTreeMap<u64, Rc<Name>>,
    added: u64,
    bytes: usize,
}

impl Tally {
    /// Adds an entry, or adds it to what is the same. Bounded by O(log n).
    pub fn add(&mut self, kind: ReportKind, envelope: &Rc<str>, entry: Entry) {
        self.added += 1;
        let Entry { text, sum } = entry;
        let name = Name {
            kind,
            envelope: envelope.clone(),
            single: if sum.is_some() { 0 } else { self.added },
            text,
        };
        if let Some(held) = self.held.get_mut(&name) {
            if let (Some(there), Some(sum)) = (held, sum) {
                there.add(sum);
            }
            return;
        }
        self.bytes = self.bytes.saturating_add(cost_bytes(&name));
        let name = Rc::new(name);
        self.ages.insert(self.added, name.clone());
        self.held.insert(name, sum);
    }

    /// Adds the entries of a batch.
    pub fn add_batch(&mut self, batch: Batch) {
        for entry in batch.entries {
            self.add(batch.kind, &batch.envelope, entry);
        }
    }

    /// Lets go of the entry that was first seen longest ago. Bounded by O(log n).
    pub fn drop_oldest(&mut self) -> bool {
        let Some((_, name)) = self.ages.pop_first() else {
            return false;
        };
        self.held.remove(&name);
        self.bytes = self.bytes.saturating_sub(cost_bytes(&name));
        true
    }

    /// How many entries are held.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// What they cost.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes everything out, in batches of at most `report_entries_max` entries and about
    /// `report_bytes_max` bytes, ordered by kind and envelope. Bounded by what is held.
    pub fn take_batches(&mut self, limits: &Limits) -> VecDeque<Batch> {
        let Tally { held, ages, .. } = std::mem::take(self);
        // The second reference to each name.
        drop(ages);
        let mut batches: VecDeque<Batch> = VecDeque::new();
        let mut bytes = 0;
        for (name, sum) in held {
            let name = Rc::unwrap_or_clone(name);
            let length = name.text.len() + sum.as_ref().map_or(0, |_| SUM_BYTES);
            let fits = |last: &&mut Batch| {
                (last.kind, &last.envelope) == (name.kind, &name.envelope)
                    && last.entries.len() < limits.report_entries_max
                    && bytes + length <= limits.report_bytes_max
            };
            let text = name.text;
            let entry = Entry { text, sum };
            match batches.back_mut().filter(fits) {
                Some(last) => {
                    last.entries.push(entry);
                    bytes += length;
                }
                None => {
                    bytes = name.envelope.len() + length;
                    batches.push_back(Batch {
                        kind: name.kind,
                        envelope: name.envelope,
                        entries: vec![entry],
                    });
                }
            }
        }
        batches
    }
}

fn cost_bytes(name: &Name) -> usize {
    name.envelope.len() + name.text.len() + OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::report::Latest;

    const LIMITS: Limits = Limits::PRODUCTION;

    fn usage(text: &str, count: u64) -> Entry {
        let latest = Latest {
            moment: None,
            text: "\"t\"".into(),
        };
        let sum = Some(Sum { count, latest });
        let text = text.into();
        Entry { text, sum }
    }

    fn analytics(text: &str) -> Entry {
        let text = text.into();
        Entry { text, sum: None }
    }

    /// Kind, envelope and each entry with its count.
    type Shown = (ReportKind, String, Vec<(String, u64)>);

    fn shown(batches: VecDeque<Batch>) -> Vec<Shown> {
        let entry = |entry: Entry| (entry.text.into(), entry.sum.map_or(0, |sum| sum.count));
        let batch = |batch: Batch| {
            let entries = batch.entries.into_iter().map(entry).collect();
            (batch.kind, batch.envelope.to_string(), entries)
        };
        batches.into_iter().map(batch).collect()
    }

    #[test]
    fn usage_is_summed_and_analytics_are_not() {
        let (one, two): (Rc<str>, Rc<str>) = ("one".into(), "two".into());
        let mut tally = Tally::default();
        for _ in 0..3 {
            tally.add(ReportKind::Usage, &two, usage("a", 2));
            tally.add(ReportKind::Usage, &one, usage("a", 1));
            tally.add(ReportKind::Analytics, &one, analytics("a"));
        }
        let bytes = 5 * (OVERHEAD_BYTES + 4);
        assert_eq!((tally.len(), tally.bytes()), (5, bytes));
        let expected = |kind, envelope: &str, entries: &[u64]| {
            let entries = entries
                .iter()
                .map(|count| ("a".to_owned(), *count))
                .collect();
            (kind, envelope.to_owned(), entries)
        };
        assert_eq!(
            shown(tally.take_batches(&LIMITS)),
            [
                expected(ReportKind::Usage, "one", &[3]),
                expected(ReportKind::Usage, "two", &[6]),
                expected(ReportKind::Analytics, "one", &[0, 0, 0]),
            ]
        );
        assert!(tally.is_empty() && tally.bytes() == 0);
    }

    #[test]
    fn batches_keep_to_entries_and_bytes() {
        let envelope: Rc<str> = "e".into();
        let mut tally = Tally::default();
        for number in 0..100 {
            tally.add(ReportKind::Usage, &envelope, usage(&format!("{number}"), 1));
        }
        let batches = tally.take_batches(&LIMITS);
        let sizes: Vec<usize> = batches.iter().map(|batch| batch.entries.len()).collect();
        assert_eq!(sizes, [30, 30, 30, 10]);
        let large = "x".repeat(LIMITS.report_bytes_max / 2);
        for text in [&large, "y", &large, "z"] {
            tally.add(ReportKind::Analytics, &envelope, analytics(text));
        }
        let batches = tally.take_batches(&LIMITS);
        let sizes: Vec<usize> = batches.iter().map(|batch| batch.entries.len()).collect();
        assert_eq!(sizes, [2, 2]);
    }

    #[test]
    fn the_oldest_goes_first_however_often_it_was_added_to() {
        let envelope: Rc<str> = "e".into();
        let mut tally = Tally::default();
        for text in ["b", "c", "a", "b"] {
            tally.add(ReportKind::Usage, &envelope, usage(text, 1));
        }
        assert!(tally.drop_oldest());
        let left = shown(tally.take_batches(&LIMITS));
        assert_eq!(left[0].2, [("a".to_owned(), 1), ("c".to_owned(), 1)]);
        assert!(!tally.drop_oldest());
    }
}
