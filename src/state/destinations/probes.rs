//! When which destination is asked for its health.
//!
//! Owns the due times of all active checks and the bound on probes under way. The first probe of a
//! destination is due at once, the next one an interval after the last began, or as soon as it
//! ended where that took longer. Traffic waits for none of them.
//!
//! What a probe found is judged in `health`.

use super::{Destinations, Probe};
use crate::time::Instant;

impl Destinations {
    /// The next destination to be asked for its health. Asked until there is none.
    ///
    /// At most `Limits::probes_max` are under way; each is answered by `handle_probe`. Bounded by
    /// O(log n).
    pub fn poll_probe(&mut self, now: Instant) -> Option<Probe> {
        let &(due, destination) = self.due.first()?;
        if due > now || self.probes == self.probes_max {
            return None;
        }
        self.due.pop_first();
        let entry = self.entries.of_mut(destination)?;
        let check = self.groups[entry.cluster].health.active.as_ref()?;
        self.probes += 1;
        Some(Probe {
            destination,
            timeout: check.timeout,
            number: entry.active.begin(now + check.interval),
        })
    }

    /// Notes what a probe found: an answer of 2xx in time, or not. A probe of a destination that
    /// went, or has another address now, tells nothing. Bounded by O(log n).
    pub fn handle_probe(&mut self, probe: Probe, is_good: bool, now: Instant) {
        let Some(entry) = self.entries.of_mut(probe.destination) else {
            return;
        };
        if !entry.active.end(probe.number) {
            return;
        }
        self.probes -= 1;
        if let Some(check) = &self.groups[entry.cluster].health.active {
            entry.active.note(is_good, check);
            let due = entry.active.next.max(now);
            entry.active.due = Some(due);
            self.due.insert((due, probe.destination));
        }
    }

    /// When `poll_probe` has something next; `None` while as many probes are under way as may be.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let (due, _) = self.due.first()?;
        (self.probes < self.probes_max).then_some(*due)
    }
}
