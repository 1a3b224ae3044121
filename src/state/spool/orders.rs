//! What the spool says, and what it is told.
//!
//! Owns the orders to the disk, the answers of the upstream, and the figures that status shows. No
//! decision is made here but what an HTTP status means for a report.

use crate::model::report::ReportKind;
use crate::time::Duration;

/// Which batch an answer belongs to; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchId(pub(super) u64);

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The upstream has it.
    Delivered,
    /// Not now: out of reach, overloaded, broken. It may have said how long to wait.
    Later(Option<Duration>),
    /// Never: the upstream will not take this batch however often it is sent.
    Refused,
    /// The upstream does not take our credentials.
    Denied,
}

impl Outcome {
    /// What an HTTP status means for a report. IBM's SDKs drop what is refused with a 4xx other
    /// than 429 as well; 408 and 425 are said by proxies on the way.
    pub const fn of_status(status: u16, retry_after: Option<Duration>) -> Outcome {
        match status {
            200..=299 => Outcome::Delivered,
            401 | 403 => Outcome::Denied,
            408 | 425 | 429 => Outcome::Later(retry_after),
            400..=499 => Outcome::Refused,
            _ => Outcome::Later(retry_after),
        }
    }
}

/// What the disk is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persist {
    /// Write down what [`Spool::appending`] holds, and sync it.
    Append,
    /// Read the next window.
    Read,
    /// Note that so many batches of the window are done.
    Mark(u32),
    /// Note that the whole window is done.
    Finish,
}

/// What is on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Entries that lie behind the window.
    pub entries: u64,
    /// Bytes of what is not marked as delivered.
    pub bytes: u64,
    /// Entries that were lost on the disk since the last time this was said: the oldest, when it
    /// was full, or unreadable ones.
    pub lost: u64,
}

/// What happened to entries since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deliveries {
    /// Posted and taken.
    pub batches: u64,
    pub entries: u64,
    /// Refused for good.
    pub set_aside_batches: u64,
    pub set_aside_entries: u64,
    /// Lost because memory or disk were full, or the disk forgot them.
    pub dropped_entries: u64,
    /// Batches that were delivered and not marked yet: what a crash now would repeat.
    pub unmarked_batches: u64,
}

/// What is worth a line in the log; each at most once for each change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// The upstream did not take the last batch, and took the one before.
    Delayed,
    /// The same, because of our credentials.
    Denied,
    /// It takes batches again.
    Resumed,
    /// The first batch that was refused for good since one was delivered.
    SetAside { kind: ReportKind, entries: usize },
}
