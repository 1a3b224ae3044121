//! What of a session is worth a line in the log.
//!
//! An outage begins when the primary is no longer followed, or cannot be at the start, and ends
//! when it is again. However often things fail in between, each line is said once: that the backup
//! serves (and once more, after nothing served), that nothing does, that a key is refused, and that
//! it is over. What an operator wants to know beyond that is in the status.

use super::Loss;
use crate::model::Role;
use heapless::Deque;

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// The primary is followed: at the start, or again.
    OnPrimary,
    /// The backup is followed, because this became of the primary.
    OnBackup(Loss),
    /// Nothing is followed; this is the last that went wrong.
    AllDown(Loss),
    /// This upstream refuses our key or does not know the slot. Only a person can mend that.
    Denied(Role),
}

/// What was said of the present outage.
#[derive(Clone, Copy, Debug, Default)]
struct Outage {
    backup_lines: u8,
    is_down_said: bool,
    is_denied_said: [bool; 2],
    last: Option<Note>,
}

/// Lines that wait to be taken.
#[derive(Debug, Default)]
pub(super) struct Notes {
    queue: Deque<Note, 8>,
    outage: Outage,
    is_on_primary: bool,
}

impl Notes {
    pub(super) fn poll(&mut self) -> Option<Note> {
        self.queue.pop_front()
    }

    pub(super) fn on_primary(&mut self) {
        let is_news = self.outage.last.is_some() || !self.is_on_primary;
        self.outage = Outage::default();
        self.is_on_primary = true;
        if is_news {
            self.say(Note::OnPrimary);
        }
    }

    pub(super) fn on_backup(&mut self, loss: Loss) {
        let last = self.outage.last;
        let is_said = matches!(last, Some(Note::OnBackup(_) | Note::Denied(Role::Primary)));
        if !is_said && self.outage.backup_lines < 2 {
            self.outage.backup_lines += 1;
            self.open(Note::OnBackup(loss));
        }
    }

    pub(super) fn all_down(&mut self, loss: Loss) {
        if !self.outage.is_down_said {
            self.outage.is_down_said = true;
            self.open(Note::AllDown(loss));
        }
    }

    pub(super) fn denied(&mut self, role: Role) {
        let is_said = &mut self.outage.is_denied_said[role as usize];
        if !*is_said {
            *is_said = true;
            self.open(Note::Denied(role));
        }
    }

    fn open(&mut self, note: Note) {
        self.outage.last = Some(note);
        self.say(note);
    }

    fn say(&mut self, note: Note) {
        if self.queue.is_full() {
            self.queue.pop_front();
        }
        // Cannot be full: the oldest just left.
        let _ = self.queue.push_back(note);
    }
}
