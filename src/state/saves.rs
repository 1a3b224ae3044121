//! When what a slot holds is written to the state folder.
//!
//! Policy: at once, one slot at a time. A slot that changes while it waits or is being written is
//! written once more, with what it holds by then; nothing queues but the wish. After a failure the
//! disk is left alone for a while that doubles up to a bound, and then one write finds out whether
//! the outage is over. What is served never depends on any of it.
//!
//! Trip: a failed write. Recovery: one that works, after which all that waits follows at once.
//!
//! Nothing is written over what was not read: a folder that is not there yet, or a file that cannot
//! be read. Such slots wait, and the folder is looked at again by the same pauses, until all of it
//! is known.

use std::collections::BTreeSet;

use crate::limits::Limits;
use crate::model::SlotIndex;
use crate::time::{Duration, Instant};

/// The writes that are due. Off where no folder is configured.
#[derive(Clone, Debug)]
pub struct Saves {
    is_on: bool,
    wanted: BTreeSet<SlotIndex>,
    /// Slots of which nobody knows yet what the folder holds.
    unread: BTreeSet<SlotIndex>,
    /// Looks in vain since the last one that found all.
    looks: u32,
    /// When the folder is looked at again; None while that is done, or needless.
    look_at: Option<Instant>,
    /// Slots that somebody else is writing.
    held_back: BTreeSet<SlotIndex>,
    writing: Option<SlotIndex>,
    /// Failures since the last write that worked.
    failures: u32,
    retry_at: Option<Instant>,
    retry_first: Duration,
    retry_max: Duration,
}

impl Saves {
    /// No folder.
    pub fn new(limits: &Limits) -> Saves {
        Saves {
            is_on: false,
            wanted: BTreeSet::new(),
            unread: BTreeSet::new(),
            looks: 0,
            look_at: None,
            held_back: BTreeSet::new(),
            writing: None,
            failures: 0,
            retry_at: None,
            retry_first: limits.save_retry_first,
            retry_max: limits.save_retry_max,
        }
    }

    /// There is to be a folder, and somebody is looking what it holds of these slots.
    /// [`Saves::handle_looked`] follows.
    ///
    /// Bounded by O(n).
    pub fn begin_look(&mut self, unread: BTreeSet<SlotIndex>) {
        self.is_on = true;
        self.unread = unread;
        self.look_at = None;
    }

    /// The folder was looked at, and of these slots it is still not known what it holds: of all,
    /// where there is no folder.
    ///
    /// Bounded by O(n).
    pub fn handle_looked(&mut self, unread: BTreeSet<SlotIndex>, now: Instant) {
        self.begin_look(unread);
        if self.unread.is_empty() {
            self.looks = 0;
            return;
        }
        self.look_at = Some(now + self.pause(self.looks));
        self.looks = self.looks.saturating_add(1);
    }

    /// Slots of which it is not known what the folder holds.
    pub fn unread(&self) -> &BTreeSet<SlotIndex> {
        &self.unread
    }

    /// Whether something waits that the next moments may write: an end is worth waiting for that.
    ///
    /// Bounded by O(n).
    pub fn is_busy(&self) -> bool {
        let mut waiting = self.wanted.difference(&self.unread);
        self.writing.is_some() || (self.failures == 0 && waiting.next().is_some())
    }

    /// Slots whose content is not kept yet, the one that is being written among them: before there
    /// are none, a power cut may cost something.
    pub fn waiting(&self) -> usize {
        let writing = self.writing.filter(|slot| !self.wanted.contains(slot));
        self.wanted.len() + usize::from(writing.is_some())
    }

    /// A slot has something to keep. Without a folder it is forgotten.
    ///
    /// Bounded by O(log n).
    pub fn want(&mut self, index: SlotIndex) {
        if self.is_on {
            self.wanted.insert(index);
        }
    }

    /// Somebody else writes this slot, with newer content than it holds: nothing that is written of
    /// it from now on may come to lie over that. A write that was ordered before is ordered before.
    ///
    /// Bounded by O(log n).
    pub fn hold_back(&mut self, index: SlotIndex) {
        self.held_back.insert(index);
    }

    /// That write has ended.
    ///
    /// Bounded by O(log n).
    pub fn release(&mut self, index: SlotIndex) {
        self.held_back.remove(&index);
    }

    /// A write has ended.
    ///
    /// Bounded by O(log n).
    pub fn handle_saved(&mut self, index: SlotIndex, is_kept: bool, now: Instant) {
        self.writing = None;
        if is_kept {
            self.failures = 0;
            self.retry_at = None;
            return;
        }
        self.wanted.insert(index);
        self.retry_at = Some(now + self.pause(self.failures));
        self.failures = self.failures.saturating_add(1);
    }

    /// How long the disk is left alone after so many failures before this one.
    fn pause(&self, failures: u32) -> Duration {
        let doubled = 1u32.checked_shl(failures).unwrap_or(u32::MAX);
        let pause = self.retry_first.saturating_mul(doubled);
        pause.min(self.retry_max)
    }

    /// Whether to look at the folder now; [`Saves::handle_looked`] follows.
    ///
    /// Bounded by O(1).
    pub fn poll_look(&mut self, now: Instant) -> bool {
        self.look_at.take_if(|at| *at <= now).is_some()
    }

    /// The slot to write now, if any; the next one once its write has ended.
    ///
    /// Bounded by O(n).
    pub fn poll_save(&mut self, now: Instant) -> Option<SlotIndex> {
        let must_wait = self.retry_at.is_some_and(|at| now < at);
        if self.writing.is_some() || must_wait {
            return None;
        }
        let next = self.next();
        if let Some(index) = next {
            self.wanted.remove(&index);
        }
        self.writing = next;
        next
    }

    fn next(&self) -> Option<SlotIndex> {
        let mut free = self.wanted.difference(&self.held_back);
        free.find(|index| !self.unread.contains(index)).copied()
    }

    /// When to ask again, if nothing happens before.
    ///
    /// Bounded by O(n).
    pub fn poll_timeout(&self) -> Option<Instant> {
        let waits = self.writing.is_none() && self.next().is_some();
        let write = self.retry_at.filter(|_| waits);
        [write, self.look_at].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_micros(1_000_000);
    const FIRST: SlotIndex = SlotIndex(0);
    const SECOND: SlotIndex = SlotIndex(1);

    fn saves() -> Saves {
        let mut saves = Saves::new(&Limits::PRODUCTION);
        saves.handle_looked(BTreeSet::new(), START);
        saves
    }

    #[test]
    fn without_a_folder_nothing_is_written() {
        let mut saves = Saves::new(&Limits::PRODUCTION);
        saves.want(FIRST);
        assert!(!saves.is_busy());
        assert_eq!(saves.poll_save(START), None);
    }

    #[test]
    fn a_slot_that_changes_while_it_is_written_is_written_once_more() {
        let mut saves = saves();
        saves.want(FIRST);
        assert_eq!(saves.poll_save(START), Some(FIRST));
        assert_eq!(saves.waiting(), 1, "until it is kept");
        saves.want(FIRST);
        saves.want(FIRST);
        assert_eq!(saves.poll_save(START), None, "one at a time");
        assert_eq!(saves.waiting(), 1);
        saves.handle_saved(FIRST, true, START);
        assert_eq!(saves.poll_save(START), Some(FIRST));
        saves.handle_saved(FIRST, true, START);
        assert_eq!((saves.poll_save(START), saves.waiting()), (None, 0));
        assert!(!saves.is_busy() && saves.poll_timeout().is_none());
    }

    #[test]
    fn a_slot_that_somebody_else_writes_waits_and_holds_up_no_other() {
        let mut saves = saves();
        saves.hold_back(FIRST);
        saves.want(FIRST);
        saves.want(SECOND);
        assert_eq!(saves.poll_save(START), Some(SECOND));
        saves.handle_saved(SECOND, true, START);
        assert_eq!(saves.poll_save(START), None);
        assert!(saves.is_busy() && saves.poll_timeout().is_none());
        saves.release(FIRST);
        assert_eq!(saves.poll_save(START), Some(FIRST));
    }

    #[test]
    fn an_outage_is_probed_ever_less_often_and_no_slot_is_forgotten() {
        let limits = Limits::PRODUCTION;
        let mut saves = saves();
        saves.want(FIRST);
        saves.want(SECOND);
        let (mut now, mut pauses) = (START, Vec::new());
        for _ in 0..40 {
            assert_eq!(saves.poll_save(now), Some(FIRST));
            assert_eq!(
                saves.poll_timeout(),
                None,
                "nothing to wait for but the disk"
            );
            saves.handle_saved(FIRST, false, now);
            assert!(!saves.is_busy());
            let next = saves.poll_timeout().unwrap();
            assert_eq!(saves.poll_save(now), None);
            pauses.push(next - now);
            now = next;
        }
        assert_eq!(pauses[0], limits.save_retry_first);
        assert_eq!(pauses[1], limits.save_retry_first * 2);
        assert_eq!(pauses[39], limits.save_retry_max);
        assert_eq!(saves.poll_save(now), Some(FIRST));
        saves.handle_saved(FIRST, true, now);
        assert_eq!(saves.poll_save(now), Some(SECOND), "at once");
    }

    #[test]
    fn what_was_not_read_is_not_written_over_and_waits_for_a_look_that_finds_it() {
        let limits = Limits::PRODUCTION;
        let mut saves = Saves::new(&limits);
        saves.begin_look([FIRST, SECOND].into());
        assert_eq!(saves.poll_timeout(), None, "it is being looked at");
        saves.handle_looked([FIRST, SECOND].into(), START);
        saves.want(FIRST);
        saves.want(SECOND);
        assert_eq!(saves.poll_save(START), None);
        assert!(!saves.is_busy(), "no end waits for it");
        let (mut now, mut pauses) = (START, Vec::new());
        for _ in 0..40 {
            let next = saves.poll_timeout().unwrap();
            assert!(!saves.poll_look(now));
            pauses.push(next - now);
            now = next;
            assert!(
                saves.poll_look(now) && !saves.poll_look(now),
                "one at a time"
            );
            assert_eq!(saves.poll_timeout(), None);
            saves.handle_looked([FIRST, SECOND].into(), now);
        }
        assert_eq!(pauses[0], limits.save_retry_first);
        assert_eq!(pauses[1], limits.save_retry_first * 2);
        assert_eq!(pauses[39], limits.save_retry_max);
        saves.handle_looked([FIRST].into(), now);
        assert_eq!(saves.poll_save(now), Some(SECOND), "it holds up no other");
        saves.handle_saved(SECOND, true, now);
        assert_eq!(saves.poll_save(now), None);
        saves.handle_looked(BTreeSet::new(), now);
        assert_eq!(saves.poll_save(now), Some(FIRST));
        saves.handle_saved(FIRST, true, now);
        assert_eq!(saves.poll_timeout(), None);
    }
}
