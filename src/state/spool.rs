//! Delivery of events: what is written down when, what is sent when, and what becomes of it.
//!
//! Entries are gathered in memory, written to the disk within a second, read back a window at a
//! time, summed again, and posted batch by batch. Without a disk, or while it refuses, a window is
//! cut from memory instead.
//!
//! Policy. At least once: a batch that was delivered is marked on the disk before the next is sent,
//! so that a crash repeats one batch at most, and loses what was not written yet. One batch is on
//! its way at a time. What the upstream cannot take now is kept and tried again, later each time;
//! what it will never take is set aside, counted, and passed by; where it does not take our
//! credentials, nothing is lost and little is tried. Only a full memory or a full disk loses
//! entries, the oldest first, and each is counted.
//!
//! Never looks into an entry, and never knows what a file is: `net::spool` carries out what
//! [`Spool::poll_persist`] and [`Spool::poll_send`] ask for, and tells how it went. Entries are
//! counted as they are summed.

use crate::limits::Limits;
use crate::model::report::{Entry, ReportKind};
use crate::time::{Duration, Instant};
use std::collections::VecDeque;
use std::rc::Rc;

use super::backoff::Backoff;
use super::tally::{Batch, Tally};

mod orders;

pub use orders::{BatchId, Deliveries, Note, Outcome, Persist, Stored};

#[derive(Debug)]
enum Store {
    /// There is none; where one was asked for, why not.
    Memory {
        problem: Option<String>,
    },
    Disk,
    /// Memory has to do for now. The reason is one line for an operator.
    Broken {
        retry_at: Instant,
        problem: String,
    },
}

/// How the upstream took the last batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Takes,
    Refuses,
    Delays,
    Denies,
}

/// The batches that are being delivered.
#[derive(Debug, Default)]
struct Window {
    batches: VecDeque<Batch>,
    /// Read from the disk, and so to be marked there.
    is_stored: bool,
    done: u32,
    /// What it takes of the memory of what waits: nothing, where it is on the disk.
    bytes: usize,
}

/// The spool.
#[derive(Debug)]
pub struct Spool {
    limits: Limits,
    random: fastrand::Rng,
    gathered: Tally,
    gathered_since: Option<Instant>,
    store: Store,
    stored: Stored,
    /// What the disk is doing.
    busy: Option<Persist>,
    appending: Vec<Batch>,
    appending_bytes: usize,
    window: Window,
    mark: Option<Persist>,
    sending: Option<BatchId>,
    sent: u64,
    /// When what waits is due; None while nothing waits.
    due_at: Option<Instant>,
    not_before: Instant,
    retry_at: Option<Instant>,
    delayed: Backoff,
    denied: Backoff,
    mood: Mood,
    is_hasty: bool,
    deliveries: Deliveries,
}

impl Spool {
    /// A spool; `stored` is what a disk holds from before, or None where memory has to do.
    pub fn new(stored: Option<Stored>, limits: &Limits, random_seed: u64, now: Instant) -> Spool {
        let mut spool = Spool {
            limits: limits.clone(),
            random: fastrand::Rng::with_seed(random_seed),
            gathered: Tally::default(),
            gathered_since: None,
            store: match stored {
                Some(_) => Store::Disk,
                None => Store::Memory { problem: None },
            },
            stored: Stored::default(),
            busy: None,
            appending: Vec::new(),
            appending_bytes: 0,
            window: Window::default(),
            mark: None,
            sending: None,
            sent: 0,
            due_at: None,
            not_before: now,
            retry_at: None,
            delayed: Backoff::new(limits.report_retry, limits.report_retry_max),
            denied: Backoff::new(limits.report_denied_retry, limits.report_denied_retry_max),
            mood: Mood::Takes,
            is_hasty: false,
            deliveries: Deliveries::default(),
        };
        spool.note_stored(stored.unwrap_or_default());
        spool.note_waiting(now);
        spool
    }

    /// A spool that should have a disk and cannot; `problem` is one line for an operator.
    pub fn without_disk(problem: String, limits: &Limits, random_seed: u64, now: Instant) -> Spool {
        let problem = Some(problem);
        Spool {
            store: Store::Memory { problem },
            ..Spool::new(None, limits, random_seed, now)
        }
    }

    /// Takes an entry in. Where there is no room, the oldest make some.
    ///
    /// Bounded by O(log n) for each entry that is dropped.
    pub fn accept(&mut self, kind: ReportKind, envelope: &Rc<str>, entry: Entry, now: Instant) {
        self.gathered.add(kind, envelope, entry);
        self.gathered_since.get_or_insert(now);
        self.note_waiting(now);
        self.make_room();
        self.check_invariants();
    }

    /// Whether whoever brings more had better wait for the disk. Without a disk nothing is gained
    /// by it.
    pub fn is_pressed(&self) -> bool {
        let bytes = self.gathered.bytes() + self.appending_bytes;
        matches!(self.store, Store::Disk) && bytes >= self.limits.events_bytes_max / 2
    }

    /// Writes and marks at once from now on: the process is about to end.
    pub fn hurry(&mut self) {
        self.is_hasty = true;
    }

    /// Whether everything that can be on the disk is.
    pub fn is_settled(&self) -> bool {
        let is_written = self.gathered.is_empty() && self.mark.is_none();
        !matches!(self.store, Store::Disk) || (is_written && self.busy.is_none())
    }

    // The disk.

    /// What the disk is to do now; to be answered by the `handle_` of its name before the next.
    ///
    /// Bounded by what is gathered.
    pub fn poll_persist(&mut self, now: Instant) -> Option<Persist> {
        let due = self.persist_at().filter(|(at, _)| *at <= now)?.1;
        match due {
            Persist::Append => {
                self.appending_bytes = self.gathered.bytes();
                self.appending = self.gathered.take_batches(&self.limits).into();
                self.gathered_since = None;
            }
            Persist::Mark(_) | Persist::Finish => self.mark = None,
            Persist::Read => {}
        }
        self.busy = Some(due);
        self.check_invariants();
        Some(due)
    }

    /// When to call [`Spool::poll_persist`] again; None while something else has to happen first.
    pub fn poll_persist_timeout(&self) -> Option<Instant> {
        self.persist_at().map(|(at, _)| at)
    }

    fn persist_at(&self) -> Option<(Instant, Persist)> {
        if self.busy.is_some() {
            return None;
        }
        let from = match self.store {
            Store::Memory { .. } => return None,
            Store::Disk => Instant::ORIGIN,
            Store::Broken { .. } if self.is_hasty => return None,
            Store::Broken { retry_at, .. } => retry_at,
        };
        let mark = self.mark.map(|mark| (from, mark));
        let append = self.gathered_since.map(|since| {
            let at = match self.is_hasty || self.is_pressed() {
                true => Instant::ORIGIN,
                false => since + self.limits.spool_delay,
            };
            (at.max(from), Persist::Append)
        });
        let wants_window = self.window.batches.is_empty() && self.stored.entries > 0;
        let read = self.cut_at(self.stored.entries).filter(|_| wants_window);
        let read = read.map(|at| (at.max(from), Persist::Read));
        let all = [mark, append, read].into_iter().flatten();
        all.min_by_key(|(at, _)| *at)
    }

    /// Whether there is no disk, though a late one would do.
    pub fn is_without_disk(&self) -> bool {
        matches!(self.store, Store::Memory { .. })
    }

    /// What is being written down, for as long as it is.
    pub fn appending(&self) -> &[Batch] {
        &self.appending
    }

    /// It is on the disk.
    pub fn handle_appended(&mut self, stored: Stored, now: Instant) {
        self.appending = Vec::new();
        self.appending_bytes = 0;
        self.handle_persisted(stored, now);
    }

    /// A window was read: lines as they were written, `done` of its batches delivered before.
    ///
    /// Bounded by what is in the window.
    pub fn handle_read(&mut self, mut entries: Tally, done: u32, stored: Stored, now: Instant) {
        let mut batches = entries.take_batches(&self.limits);
        let skipped = usize::try_from(done).unwrap_or(usize::MAX);
        batches.drain(..skipped.min(batches.len()));
        if batches.is_empty() {
            // Nothing of it is left to send, or nothing could be read.
            self.mark = Some(Persist::Finish);
        }
        self.window = Window {
            batches,
            is_stored: true,
            done,
            bytes: 0,
        };
        self.handle_persisted(stored, now);
    }

    /// A mark is on the disk.
    pub fn handle_marked(&mut self, stored: Stored, now: Instant) {
        if self.mark.is_none() {
            self.deliveries.unmarked_batches = 0;
        }
        self.handle_persisted(stored, now);
    }

    /// The disk holds this now: what it was given, or, after all, what a late one has from before.
    ///
    /// Bounded by O(1).
    pub fn handle_persisted(&mut self, stored: Stored, now: Instant) {
        self.busy = None;
        self.store = Store::Disk;
        self.note_stored(stored);
        self.note_waiting(now);
        self.check_invariants();
    }

    /// The disk did not do what it was asked for. `true` where that is news.
    ///
    /// Bounded by what is gathered, and by what was being written.
    pub fn handle_disk_failure(&mut self, problem: String, stored: Stored, now: Instant) -> bool {
        if let Some(mark @ (Persist::Mark(_) | Persist::Finish)) = self.busy.take() {
            // The newest says it all.
            self.mark.get_or_insert(mark);
        }
        let newer = self.gathered.take_batches(&self.limits);
        self.appending_bytes = 0;
        for batch in std::mem::take(&mut self.appending).into_iter().chain(newer) {
            self.gathered.add_batch(batch);
        }
        if !self.gathered.is_empty() {
            self.gathered_since.get_or_insert(now);
        }
        let is_news = !matches!(self.store, Store::Broken { .. });
        let retry_at = now + self.limits.spool_retry;
        self.store = Store::Broken { retry_at, problem };
        self.note_stored(stored);
        self.note_waiting(now);
        self.make_room();
        self.check_invariants();
        is_news
    }

    // The upstream.

    /// The batch to post now; to be answered by [`Spool::handle_sent`] before the next.
    ///
    /// Bounded by what is gathered.
    pub fn poll_send(&mut self, now: Instant) -> Option<(BatchId, &Batch)> {
        self.send_at().filter(|at| *at <= now)?;
        if self.window.batches.is_empty() {
            let bytes = self.gathered.bytes();
            self.window = Window {
                batches: self.gathered.take_batches(&self.limits),
                is_stored: false,
                done: 0,
                bytes,
            };
            self.gathered_since = None;
        }
        let batch = self.window.batches.front()?;
        self.sent += 1;
        let id = BatchId(self.sent);
        self.sending = Some(id);
        Some((id, batch))
    }

    /// When to call [`Spool::poll_send`] again; None while something else has to happen first.
    pub fn poll_send_timeout(&self) -> Option<Instant> {
        self.send_at()
    }

    fn send_at(&self) -> Option<Instant> {
        if self.sending.is_some() || self.is_hasty {
            return None;
        }
        let retry_at = self.retry_at.unwrap_or(Instant::ORIGIN);
        if !self.window.batches.is_empty() {
            let is_marking = matches!(self.busy, Some(Persist::Mark(_)));
            let waits = matches!(self.store, Store::Disk) && (self.mark.is_some() || is_marking);
            return (!waits).then_some(retry_at);
        }
        let is_disk_out = match &self.store {
            Store::Memory { .. } => true,
            Store::Disk => false,
            // What it holds may still be readable; but it is older, and tried again in a minute.
            Store::Broken { .. } => self.busy.is_none(),
        };
        let gathered = self.gathered.len() as u64;
        let cut = self
            .cut_at(gathered)
            .filter(|_| is_disk_out && gathered > 0);
        cut.map(|at| at.max(retry_at))
    }

    /// What became of the batch `id`. One that is no longer on its way changes nothing.
    pub fn handle_sent(&mut self, id: BatchId, outcome: Outcome, now: Instant) -> Option<Note> {
        if self.sending != Some(id) {
            return None;
        }
        self.sending = None;
        let mood = match outcome {
            Outcome::Delivered | Outcome::Refused => return self.handle_done(outcome, now),
            Outcome::Later(wait) => {
                let delay = self.delayed.next_delay(&mut self.random);
                // Not everybody who was told the same comes back at the same moment.
                let told = wait.map(|wait| wait + self.jitter(self.limits.report_retry));
                self.retry_at = Some(now + told.map_or(delay, |told| told.max(delay)));
                Mood::Delays
            }
            Outcome::Denied => {
                self.retry_at = Some(now + self.denied.next_delay(&mut self.random));
                Mood::Denies
            }
        };
        let is_news = std::mem::replace(&mut self.mood, mood) != mood;
        is_news.then_some(match mood {
            Mood::Denies => Note::Denied,
            _ => Note::Delayed,
        })
    }

    /// Somebody changed a key, or what a key may do: where it was refused, it is tried again at
    /// once.
    pub fn handle_reload(&mut self) {
        if self.mood == Mood::Denies {
            self.denied.reset();
            self.retry_at = None;
        }
    }

    fn handle_done(&mut self, outcome: Outcome, now: Instant) -> Option<Note> {
        self.delayed.reset();
        self.denied.reset();
        self.retry_at = None;
        let batch = self.window.batches.pop_front()?;
        let entries = batch.entries.len();
        let mood = match outcome {
            Outcome::Refused => Mood::Refuses,
            _ => Mood::Takes,
        };
        let before = std::mem::replace(&mut self.mood, mood);
        if mood == Mood::Refuses {
            self.deliveries.set_aside_batches += 1;
            self.deliveries.set_aside_entries += entries as u64;
        } else {
            self.deliveries.batches += 1;
            self.deliveries.entries += entries as u64;
        }
        self.window.done = self.window.done.saturating_add(1);
        if self.window.is_stored {
            self.deliveries.unmarked_batches += 1;
            self.mark = Some(match self.window.batches.is_empty() {
                true => Persist::Finish,
                false => Persist::Mark(self.window.done),
            });
        }
        if self.window.batches.is_empty() {
            self.window = Window::default();
            let is_backlog = self.stored.entries >= self.limits.report_entries_max as u64;
            let pause = if is_backlog {
                Duration::ZERO
            } else {
                self.limits.report_pause
            };
            self.not_before = now + pause;
            self.due_at = None;
            self.note_waiting(now);
        }
        self.check_invariants();
        let kind = batch.kind;
        match (before, mood) {
            (Mood::Refuses, Mood::Refuses) => None,
            (_, Mood::Refuses) => Some(Note::SetAside { kind, entries }),
            (Mood::Delays | Mood::Denies, _) => Some(Note::Resumed),
            _ => None,
        }
    }

    // For status and metrics.

    /// Entries that wait, those on the disk and those on their way included.
    pub fn waiting_entries(&self) -> u64 {
        let count = |batches: &mut dyn Iterator<Item = &Batch>| -> usize {
            batches.map(|batch| batch.entries.len()).sum()
        };
        let memory = self.gathered.len()
            + count(&mut self.appending.iter())
            + count(&mut self.window.batches.iter());
        self.stored.entries.saturating_add(memory as u64)
    }

    /// What waits in memory takes so many bytes; what was read back from the disk is beside it.
    pub fn memory_bytes(&self) -> usize {
        self.gathered.bytes() + self.appending_bytes + self.window.bytes
    }

    /// What the disk holds.
    pub fn disk_bytes(&self) -> u64 {
        self.stored.bytes
    }

    pub fn deliveries(&self) -> Deliveries {
        self.deliveries
    }

    /// Why memory has to do in place of the disk.
    pub fn disk_problem(&self) -> Option<&str> {
        match &self.store {
            Store::Memory { problem } => problem.as_deref(),
            Store::Broken { problem, .. } => Some(problem),
            Store::Disk => None,
        }
    }

    fn note_stored(&mut self, stored: Stored) {
        self.deliveries.dropped_entries += stored.lost;
        self.stored = stored;
    }

    fn note_waiting(&mut self, now: Instant) {
        let waits = self.stored.entries > 0 || !self.gathered.is_empty();
        if waits && self.due_at.is_none() {
            let delay = self.limits.report_delay;
            let fifth = delay / 5;
            self.due_at = Some(now + (delay - fifth) + self.jitter(fifth * 2));
        }
    }

    /// When a window may be cut from `entries`.
    fn cut_at(&self, entries: u64) -> Option<Instant> {
        let fills_a_batch = entries >= self.limits.report_entries_max as u64;
        let due_at = match fills_a_batch {
            true => Some(self.not_before),
            false => self.due_at.map(|due_at| due_at.max(self.not_before)),
        };
        due_at.filter(|_| self.window.batches.is_empty())
    }

    fn make_room(&mut self) {
        while self.memory_bytes() > self.limits.events_bytes_max && self.gathered.drop_oldest() {
            self.deliveries.dropped_entries += 1;
        }
        if self.gathered.is_empty() {
            self.gathered_since = None;
        }
    }

    /// Anything from nothing to `longest`.
    fn jitter(&mut self, longest: Duration) -> Duration {
        let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.random.u64(0..=micros))
    }

    fn check_invariants(&self) {
        debug_assert!(self.memory_bytes() <= self.limits.events_bytes_max);
        debug_assert_eq!(self.gathered.is_empty(), self.gathered_since.is_none());
        debug_assert!(self.appending.is_empty() || self.busy == Some(Persist::Append));
        debug_assert!(self.sending.is_none() || !self.window.batches.is_empty());
    }
}

#[cfg(test)]
mod tests;
