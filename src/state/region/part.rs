//! One subject at this node: its word, its head, and what it waits for.
//!
//! Keeps what a phase depends on and does what follows from it, one thing at a time: the word is
//! stored before it counts, the next primary pulls what its predecessor has written. What a phase
//! is, is not decided here but in `outlook`, which is pure.
//!
//! Invariant: while a word is being stored, no write begins, so that what is sealed is what the
//! store holds.

use super::fork::{self, Follow};
use super::outlook::{self, Carried, Outlook, Step, View};
use super::trust::Now;
use crate::model::Revision;
use crate::model::region::{Doubt, Epoch, Head, Mark, NodeIndex, Phase, Record, Seal, Subject};
use crate::time::{Duration, Instant};

/// What holds for all subjects of a node.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'g> {
    pub record: &'g Record,
    pub me: Option<NodeIndex>,
    pub doubt: Option<Doubt>,
    pub clock: Option<Doubt>,
}

/// One subject.
#[derive(Debug)]
pub struct Part {
    pub subject: Subject,
    mark: Mark,
    stored: Head,
    /// Writes under way: one at most for a slot, any number for a route.
    running: usize,
    storing: Option<Mark>,
    /// After the store failed.
    store_at: Instant,
    is_pulling: bool,
    /// A peer's content is on its way into the store.
    is_adopting: bool,
    pull_at: Instant,
    heard: Epoch,
    seal: Option<(NodeIndex, Seal)>,
    carried: Option<Carried>,
    settled_at: Instant,
    outlook: Option<Outlook>,
    pub orphans: u64,
}

impl Part {
    /// A subject with what the store holds of it.
    pub fn new(subject: Subject, mark: Mark, stored: Head) -> Part {
        Part {
            subject,
            mark,
            stored,
            running: 0,
            storing: None,
            store_at: Instant::ORIGIN,
            is_pulling: false,
            is_adopting: false,
            pull_at: Instant::ORIGIN,
            heard: Epoch(0),
            seal: None,
            carried: None,
            settled_at: Instant::ORIGIN,
            outlook: None,
            orphans: 0,
        }
    }

    /// The word that is stored.
    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    /// What is done for it; `None` while there is no record.
    pub fn outlook(&self) -> Option<&Outlook> {
        self.outlook.as_ref()
    }

    /// The phase; without a record it is unknown.
    pub fn phase(&self) -> Phase {
        let phase = self.outlook.map(|outlook| outlook.phase);
        phase.unwrap_or(Phase::Unknown(Doubt::NoRecord))
    }

    /// What this node has to offer: a term that was entered without a seal makes what the store
    /// holds a revision of its own, so that all others come to hold the same. Of nothing there is
    /// no revision: nobody could come to hold it.
    pub fn head(&self) -> Head {
        let is_older = |epoch: &Epoch| self.stored.revision.epoch < epoch.0;
        let is_empty = self.stored.revision == Revision::default();
        match self.mark.entered.filter(is_older) {
            Some(epoch) if self.mark.is_unsealed && !is_empty => Head {
                revision: Revision {
                    epoch: epoch.0,
                    seq: 0,
                },
                parent: self.mark.parent,
                ..self.stored
            },
            Some(_) | None => self.stored,
        }
    }

    /// Whether nothing keeps a write from beginning. Routes run any number of them.
    pub fn may_begin(&self) -> bool {
        let is_free = matches!(self.subject, Subject::Route(_)) || self.running == 0;
        self.phase() == Phase::Active && self.storing.is_none() && is_free
    }

    /// Whether a write that ends now may be called applied, as one of `epoch`.
    pub fn may_acknowledge(&self, epoch: Epoch) -> bool {
        let outlook = self.outlook.filter(|outlook| outlook.may_acknowledge);
        outlook.is_some_and(|outlook| outlook.term.epoch == epoch)
    }

    /// A write begins; the head that it is to come to. Only where `may_begin` says so.
    pub fn begin(&mut self) -> Head {
        self.running += 1;
        let head = self.head();
        let Epoch(epoch) = self.mark.entered.unwrap_or_default();
        let (seq, parent) = match head.revision.epoch == epoch {
            true => (head.revision.seq.saturating_add(1), head.parent),
            false => (1, head.revision),
        };
        Head {
            revision: Revision { epoch, seq },
            parent,
            ..head
        }
    }

    /// A write ended; for a slot with what its store holds now.
    pub fn end(&mut self, stored: Option<Head>) {
        self.running = self.running.saturating_sub(1);
        self.stored = stored.unwrap_or(self.stored);
    }

    /// Looks again. Returns whether peers have something to hear.
    pub fn look(&mut self, ground: &Ground<'_>, now: Now) -> bool {
        let Some(class) = ground.record.class_of(&self.subject) else {
            return self.outlook.take().is_some();
        };
        let view = View {
            class,
            timing: &ground.record.timing,
            me: ground.me,
            doubt: ground.doubt,
            clock: ground.clock,
            mark: self.mark,
            heard: self.heard,
            seal: self.seal,
            carried: self.carried,
            head: self.head().revision,
            is_busy: self.running > 0,
            has_head: matches!(self.subject, Subject::Slot(_)),
            settled_at: self.settled_at,
        };
        let mut outlook = outlook::look(&view, now);
        let was_unknown = matches!(self.phase(), Phase::Unknown(_));
        if was_unknown && !matches!(outlook.phase, Phase::Unknown(_)) {
            self.settled_at = now.instant;
            let view = View {
                settled_at: now.instant,
                ..view
            };
            outlook = outlook::look(&view, now);
        }
        let told = |outlook: &Outlook| (outlook.phase, outlook.epoch);
        let is_news = self.outlook.as_ref().map(told) != Some(told(&outlook));
        self.outlook = Some(outlook);
        is_news
    }

    /// The word that is to be stored now, if one is.
    pub fn poll_mark(&mut self, now: Instant) -> Option<Mark> {
        if self.storing.is_some() || self.is_adopting || now < self.store_at {
            return None;
        }
        let step = self.outlook?.step?;
        let head = self.head().revision;
        let raised = |floor: Epoch| self.mark.floor.max(floor);
        let mark = match step {
            Step::Raise(floor) => Mark {
                floor: raised(floor),
                ..self.mark
            },
            Step::Enter { epoch, is_unsealed } => Mark {
                floor: raised(epoch),
                entered: Some(epoch),
                parent: head,
                is_unsealed,
                seal: self.mark.seal,
            },
            Step::Seal { epoch, floor } => Mark {
                floor: raised(floor),
                seal: Some(Seal { epoch, head }),
                ..self.mark
            },
        };
        self.storing = Some(mark);
        Some(mark)
    }

    /// The word was stored, or not. Returns whether it now counts.
    pub fn handle_mark(&mut self, is_stored: bool, retry: Duration, now: Instant) -> bool {
        let Some(mark) = self.storing.take() else {
            return false;
        };
        if is_stored {
            self.mark = mark;
        } else {
            self.store_at = now + retry;
        }
        is_stored
    }

    /// Whom to pull which revision from, because a seal names it and it is not here.
    pub fn poll_pull(&mut self, now: Instant) -> Option<(NodeIndex, Revision)> {
        let (peer, seal) = self
            .seal
            .filter(|(_, seal)| seal.head > self.stored.revision)?;
        let is_wanted = self.phase() == Phase::Hold && !self.is_pulling && now >= self.pull_at;
        self.is_pulling |= is_wanted;
        is_wanted.then_some((peer, seal.head))
    }

    /// The pull came to an end, whatever came of it.
    pub fn handle_pulled(&mut self, retry: Duration, now: Instant) {
        self.is_pulling = false;
        self.pull_at = now + retry;
    }

    /// What to do with a head that a peer has. A primary takes nothing from anybody.
    pub fn follow(&mut self, there: &Head) -> Follow {
        let is_primary = matches!(self.phase(), Phase::Active | Phase::Drain);
        let is_busy = self.running > 0 || self.storing.is_some() || self.is_adopting;
        if is_primary || is_busy {
            return Follow::Keep;
        }
        let follow = fork::judge(&self.head(), there, self.mark.entered);
        self.is_adopting = matches!(follow, Follow::Adopt { .. });
        follow
    }

    /// The store holds this now; `None`: it did not take it.
    pub fn handle_head(&mut self, head: Option<Head>) {
        self.is_adopting = false;
        self.stored = head.unwrap_or(self.stored);
    }

    /// The store came to hold this by nobody's order; what is on its way into it still is.
    pub fn handle_content(&mut self, head: Head) {
        self.stored = head;
    }

    /// A node was heard to have entered a term of this record.
    pub fn handle_entered(&mut self, epoch: Epoch) {
        self.heard = self.heard.max(epoch);
    }

    /// A writer's seal was heard.
    pub fn handle_seal(&mut self, from: NodeIndex, seal: Seal) {
        if self.seal.is_none_or(|(_, known)| known.epoch <= seal.epoch) {
            self.seal = Some((from, seal));
        }
    }

    /// Whether the seal of this term was heard.
    pub fn has_seal(&self, epoch: Epoch) -> bool {
        self.seal.is_some_and(|(_, seal)| seal.epoch >= epoch)
    }

    /// Another record counts from now on. `before`: the epoch that was in force, and where its
    /// writer stands in the new record.
    pub fn handle_record(&mut self, before: Option<(Epoch, Option<NodeIndex>)>, now: Now) {
        self.seal = None;
        self.heard = Epoch(0);
        self.outlook = None;
        self.settled_at = now.instant;
        if let Some((epoch, writer)) = before {
            self.carried = Some(Carried {
                epoch,
                writer,
                since: now.wall,
            });
        }
    }

    /// When to look, to store or to pull again.
    pub fn wakes(&self) -> [Option<Instant>; 2] {
        let has_step = self.outlook.is_some_and(|outlook| outlook.step.is_some());
        let may_store = has_step && self.storing.is_none() && !self.is_adopting;
        let store = may_store.then_some(self.store_at);
        let is_behind = self
            .seal
            .is_some_and(|(_, seal)| seal.head > self.stored.revision);
        let pulls = is_behind && self.phase() == Phase::Hold && !self.is_pulling;
        [store, pulls.then_some(self.pull_at)]
    }
}
