//! The numbers about usage and analytics.
//!
//! Reports and entries as they come in are counted by kind; behind that, entries that are alike are
//! one, and kinds share the memory, the disk and the way to the upstream.

use super::{Scrape, Text};
use crate::wire::status::EventCounts;
use std::fmt;

impl Scrape {
    pub(super) fn events(&self, text: &mut Text<'_>) -> fmt::Result {
        let events = &self.status.events;
        let kinds = |count: fn(&EventCounts) -> u64| {
            let kinds = [("usage", &events.usage), ("analytics", &events.analytics)];
            kinds.map(|(kind, counts)| ([("kind", kind)], count(counts)))
        };
        for (name, help, count) in [
            (
                "event_reports",
                "Reports from clients.",
                kinds(|counts| counts.reports),
            ),
            (
                "event_entries",
                "Entries in those.",
                kinds(|counts| counts.entries),
            ),
            (
                "event_reports_malformed",
                "Reports that could not be read.",
                kinds(|counts| counts.malformed),
            ),
            (
                "event_entries_malformed",
                "Entries that could not be read, of reports that could.",
                kinds(|counts| counts.malformed_entries),
            ),
        ] {
            text.counters(name, help, count)?;
        }
        self.deliveries(text)
    }

    fn deliveries(&self, text: &mut Text<'_>) -> fmt::Result {
        let events = &self.status.events;
        text.totals([
            (
                "event_posts_delivered",
                "Reports that the upstream took.",
                events.delivered,
            ),
            (
                "event_entries_delivered",
                "Entries in those, summed.",
                events.delivered_entries,
            ),
            (
                "event_posts_set_aside",
                "Reports that the upstream refused for good.",
                events.set_aside,
            ),
            (
                "event_entries_set_aside",
                "Entries in those, summed.",
                events.set_aside_entries,
            ),
            (
                "event_entries_dropped",
                "Entries lost because memory or disk were full, summed.",
                events.dropped_entries,
            ),
        ])?;
        for (name, help, value) in [
            (
                "event_entries_waiting",
                "Entries that wait for delivery, summed.",
                events.waiting,
            ),
            (
                "event_memory_bytes",
                "What they take in memory.",
                events.waiting_bytes as u64,
            ),
            (
                "event_disk_bytes",
                "What they take on the disk.",
                events.disk_bytes,
            ),
            (
                "event_disk_problem",
                "1 while memory has to do in place of the disk.",
                u64::from(events.disk_problem.is_some()),
            ),
            (
                "event_posts_unmarked",
                "Delivered reports that a power cut would repeat.",
                events.may_repeat,
            ),
        ] {
            text.gauge(name, help, value)?;
        }
        Ok(())
    }
}
