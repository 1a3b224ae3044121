//! Usage and analytics that clients have handed over: their counts, and where they go.
//!
//! Owns what is counted of reports as they come in. Entries go on to the [`Spool`], which delivers
//! them; where no delivery is configured, they are counted and let go at once.
//!
//! Why nothing is ever refused here: IBM's Go SDK can crash its process when usage is answered
//! with anything but 202 and the relay is gone at the retry, and Python's analytics thread dies of
//! it. So every report is taken, and the spool pays with its oldest entries when it is full; each
//! loss is counted.

use crate::model::report::{Entry, ReportKind};
use crate::time::Instant;
use std::rc::Rc;

use super::spool::Spool;

/// What happened to the reports of one kind since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reports taken in.
    pub reports: u64,
    /// Entries in them, those that could not be read left aside.
    pub entries: u64,
    /// Reports that could not be read; answered 202 like the others.
    pub malformed: u64,
    /// Entries that could not be read, of reports that could.
    pub malformed_entries: u64,
}

/// The counts, and the way to the upstream if there is one.
#[derive(Debug, Default)]
pub struct Events {
    spool: Option<Spool>,
    usage: Counts,
    analytics: Counts,
}

impl Events {
    /// For a relay that delivers.
    pub fn delivered_by(spool: Spool) -> Events {
        Events {
            spool: Some(spool),
            ..Events::default()
        }
    }

    /// For a relay with nobody to deliver to: entries are counted and let go.
    pub fn counted_only() -> Events {
        Events::default()
    }

    /// Counts a report that can be read; its entries follow.
    pub fn handle_report(&mut self, kind: ReportKind) {
        self.counts_mut(kind).reports += 1;
    }

    /// Counts a report that could not be read.
    pub fn handle_malformed(&mut self, kind: ReportKind) {
        self.counts_mut(kind).malformed += 1;
    }

    /// Takes in an entry of a report; None for one that could not be read.
    ///
    /// Bounded like [`Spool::accept`].
    pub fn accept(
        &mut self,
        kind: ReportKind,
        envelope: &Rc<str>,
        entry: Option<Entry>,
        now: Instant,
    ) {
        self.let_go(kind, entry.as_ref());
        if let (Some(entry), Some(spool)) = (entry, &mut self.spool) {
            spool.accept(kind, envelope, entry, now);
        }
    }

    /// Counts an entry, and no more; None for one that could not be read.
    ///
    /// Bounded by O(1).
    pub fn let_go(&mut self, kind: ReportKind, entry: Option<&Entry>) {
        match entry {
            Some(_) => self.counts_mut(kind).entries += 1,
            None => self.counts_mut(kind).malformed_entries += 1,
        }
    }

    /// What delivers; None where nobody does.
    pub fn spool(&self) -> Option<&Spool> {
        self.spool.as_ref()
    }

    /// The same, to be told what happened.
    pub fn spool_mut(&mut self) -> Option<&mut Spool> {
        self.spool.as_mut()
    }

    /// What happened to the reports of `kind` so far.
    pub fn counts(&self, kind: ReportKind) -> Counts {
        match kind {
            ReportKind::Usage => self.usage,
            ReportKind::Analytics => self.analytics,
        }
    }

    fn counts_mut(&mut self, kind: ReportKind) -> &mut Counts {
        match kind {
            ReportKind::Usage => &mut self.usage,
            ReportKind::Analytics => &mut self.analytics,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    #[test]
    fn reports_are_counted_with_and_without_delivery() {
        let now = Instant::ORIGIN;
        let spool = Spool::new(None, &Limits::PRODUCTION, 1, now);
        let entry = || Entry {
            text: "{}".into(),
            sum: None,
        };
        for mut events in [Events::counted_only(), Events::delivered_by(spool)] {
            let envelope = "".into();
            events.handle_report(ReportKind::Analytics);
            events.accept(ReportKind::Analytics, &envelope, Some(entry()), now);
            events.accept(ReportKind::Analytics, &envelope, None, now);
            events.handle_malformed(ReportKind::Analytics);
            let counts = Counts {
                reports: 1,
                entries: 1,
                malformed: 1,
                malformed_entries: 1,
            };
            assert_eq!(events.counts(ReportKind::Analytics), counts);
            assert_eq!(events.counts(ReportKind::Usage), Counts::default());
            let waiting = events.spool().map(Spool::waiting_entries);
            assert!(matches!(waiting, None | Some(1)), "{waiting:?}");
        }
    }
}
