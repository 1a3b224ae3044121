//! What clients reported, and how far it has come, as it is told to people.
//!
//! Owns the counts of usage and analytics in the document. Reports that wait are as they should be,
//! and no problem; that they wait in memory only is one, and what was lost is a note, since nobody
//! can mend it.

use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// What clients reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Events {
    /// Reports are counted and let go, because there is nobody to deliver them to.
    pub counted_only: bool,
    /// Entries that wait for delivery, in memory and on the disk; those that are alike are one.
    pub waiting: u64,
    /// What they take in memory.
    pub waiting_bytes: usize,
    /// What they take on the disk.
    pub disk_bytes: u64,
    /// Why memory has to do in place of the disk.
    pub disk_problem: Option<String>,
    /// POSTs that the upstream took, since the start, and entries in them.
    pub delivered: u64,
    pub delivered_entries: u64,
    /// POSTs that it refused for good.
    pub set_aside: u64,
    pub set_aside_entries: u64,
    /// Entries that were lost because memory or disk were full.
    pub dropped_entries: u64,
    /// Delivered POSTs that a power cut at this moment would repeat.
    pub may_repeat: u64,
    pub usage: EventCounts,
    pub analytics: EventCounts,
}

/// Reports of one kind since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventCounts {
    pub reports: u64,
    pub entries: u64,
    /// Reports that could not be read.
    pub malformed: u64,
    /// Entries that could not be read, of reports that could.
    pub malformed_entries: u64,
}

impl Events {
    /// Short enough for a line: `40 entries wait, 900 delivered`.
    pub fn in_words(&self) -> String {
        let mut words = format!(
            "{} entries wait, {} delivered",
            self.waiting, self.delivered_entries
        );
        for (count, what) in [
            (self.set_aside_entries, "set aside"),
            (self.dropped_entries, "lost"),
        ] {
            if count > 0 {
                // A string takes everything.
                let _ = write!(words, ", {count} {what}");
            }
        }
        words
    }

    pub(super) fn complaint(&self) -> Option<String> {
        let problem = self.disk_problem.as_ref()?;
        Some(format!("events wait in memory only: {problem}"))
    }

    /// What was lost, which nobody can mend.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.set_aside > 0 {
            notes.push(format!(
                "{} reports with {} entries were refused by the upstream for good, and left out",
                self.set_aside, self.set_aside_entries
            ));
        }
        if self.dropped_entries > 0 {
            notes.push(format!(
                "{} entries of reports are lost, because memory or disk were full",
                self.dropped_entries
            ));
        }
        notes
    }
}
