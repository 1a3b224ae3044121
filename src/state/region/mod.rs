//! Region routing: reads stay local, a write goes to the region that is primary.
//!
//! [`Routing`] knows one state record and decides by it what this node is for each subject, where
//! each write goes, when to give its word and when to believe another's. It never sees a byte: it
//! is told what happened, in nouns, and answers with orders. Call order: `handle_*` and named
//! mutators, then `poll_output` and `poll_note` until they answer `None`, then wait until
//! `poll_timeout` or for the next thing to happen. Peers that wait for news are answered whenever
//! `serial` has risen.
//!
//! Read `outlook` first: the phases and their policy. `schedule` says who is primary when, `trust`
//! whether the clock may be used for that, `adopt` which record counts, `receive` what a peer is
//! told, `serve` what a request does next, `fork` whose content wins.
//!
//! Invariants: a phase follows from what is stored and what is known now, never from what it was
//! before; nothing is applied but in `Active`; every request is answered by its deadline and goes
//! to one other node at a time.

mod adopt;
mod fork;
mod id;
mod keys;
mod order;
mod outlook;
mod part;
mod peers;
mod poll;
mod receive;
mod report;
mod requests;
pub mod schedule;
mod serve;
#[cfg(test)]
mod tests;
mod trust;

pub use crate::model::region::Mark;
pub use adopt::{Objection, Verdict};
pub use fork::Follow;
pub use id::{AskId, RequestId, SubjectIndex};
pub use order::{Answer, Applied, Forwarded, Note, Order, Wake};
pub use peers::Ask;
pub use receive::Incoming;
pub use requests::{Origin, Precondition, RequestsFull, Write};
pub use trust::Now;

use crate::limits::Limits;
use crate::model::Id;
use crate::model::region::{
    Disagreement, Doubt, Epoch, Head, NodeIndex, Phase, Reason, Record, Status, Subject,
};
use crate::time::{Instant, WallMs};
use fastrand::Rng;
use keys::Keys;
use part::{Ground, Part};
use peers::Peer;
use requests::{Request, Requests};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use trust::Trust;

/// What a node starts with.
#[derive(Clone, Debug)]
pub struct Setting {
    /// This node's name, as records have it.
    pub name: Id,
    /// Another one after each start.
    pub boot: u64,
    /// The wall clock cannot show less: when the program was built, or the newest file stored.
    pub wall_floor: WallMs,
    /// What is routed, with what was stored of each: this node's word, and the head.
    pub subjects: Vec<(Subject, Mark, Head)>,
    /// It delivers reports.
    pub has_upstream: bool,
    pub random_seed: u64,
}

/// Routes the writes of one node.
#[derive(Debug)]
pub struct Routing {
    name: Id,
    boot: u64,
    limits: Rc<Limits>,
    random: Rng,
    started_at: Instant,
    record: Option<Rc<Record>>,
    signer: Option<String>,
    has_upstream: bool,
    is_conflicted: bool,
    is_draining: bool,
    looked_at: Option<Now>,
    trust: Trust,
    is_clock_trusted: bool,
    parts: Vec<Part>,
    peers: Vec<Peer>,
    requests: Requests,
    keys: Keys,
    /// Counts questions, so that late answers are known.
    asks: u64,
    serial: u64,
    refusals: BTreeMap<(Id, Reason), u64>,
    disagreements: Vec<Disagreement>,
    notes: VecDeque<Note>,
}

impl Routing {
    /// A node that has just started, without a record.
    pub fn new(setting: Setting, limits: Rc<Limits>, now: Now) -> Routing {
        let part = |(subject, mark, head)| Part::new(subject, mark, head);
        Routing {
            name: setting.name,
            boot: setting.boot,
            random: Rng::with_seed(setting.random_seed),
            started_at: now.instant,
            record: None,
            signer: None,
            has_upstream: setting.has_upstream,
            is_conflicted: false,
            is_draining: false,
            looked_at: None,
            trust: Trust::new(setting.wall_floor, &limits),
            is_clock_trusted: false,
            parts: setting.subjects.into_iter().map(part).collect(),
            peers: Vec::new(),
            requests: Requests::new(&limits),
            keys: Keys::new(&limits),
            asks: 0,
            serial: 1,
            refusals: BTreeMap::new(),
            disagreements: Vec::new(),
            notes: VecDeque::new(),
            limits,
        }
    }

    // The record.

    /// The record that counts.
    pub fn record(&self) -> Option<&Rc<Record>> {
        self.record.as_ref()
    }

    /// What is to be done with a record that is sound in itself and validly signed. A conflict
    /// counts from now on. Bounded by subjects times the switches of their classes.
    pub fn judge(&mut self, found: &Record, now: Now) -> Verdict {
        let held = self.record.clone();
        let grounds = self.parts.iter().map(|part| {
            let term = part.outlook().map(|outlook| &outlook.term);
            let node = |term: &schedule::Term| {
                let node = held.as_ref()?.node(term.seat.writer)?;
                Some((term.epoch, &node.name))
            };
            adopt::Ground {
                subject: &part.subject,
                floor: part.mark().floor,
                in_force: term.and_then(node),
            }
        });
        let verdict = adopt::judge(held.as_deref(), found, grounds, now.wall);
        if let Verdict::Refuse(objection) = &verdict {
            if matches!(objection, Objection::Conflict { .. }) && !self.is_conflicted {
                self.is_conflicted = true;
                self.looked_at = None;
                self.serial += 1;
            }
            self.note(Note::RecordRefused(objection.clone()));
        }
        verdict
    }

    /// From now on this record counts; `signer` is the id of the key that it was signed with. It
    /// was stored, and `judge` has let it through. Bounded by subjects and nodes.
    pub fn adopt(&mut self, record: Rc<Record>, signer: Option<String>, now: Now) {
        let held = self.record.replace(record.clone());
        for part in &mut self.parts {
            let before = part
                .outlook()
                .zip(held.as_ref())
                .and_then(|(outlook, held)| {
                    let node = held.node(outlook.term.seat.writer)?;
                    Some((outlook.term.epoch, record.find_node(&node.name)))
                });
            part.handle_record(before, now);
        }
        self.trust.raise_floor(record.issued_at);
        self.signer = signer;
        self.is_conflicted = false;
        self.serial += 1;
        let before = std::mem::take(&mut self.peers);
        let others = record.nodes.iter().enumerate();
        let others = others.filter(|(_, node)| node.name != self.name);
        self.peers = others
            .filter_map(|(index, node)| {
                let index = NodeIndex(u16::try_from(index).ok()?);
                let mut peer = Peer::new(index, node.name.clone(), now.instant);
                if let Some(known) = before.iter().find(|known| known.name == node.name) {
                    peer.inherit(known);
                }
                Some(peer)
            })
            .collect();
        self.disagreements.clear();
        self.look(now);
    }

    /// It was found before the start that another record has this one's version: that counts until
    /// a higher one comes. Bounded by the number of subjects.
    pub fn handle_conflict(&mut self, now: Now) {
        self.is_conflicted = true;
        self.serial += 1;
        self.look(now);
    }

    /// Goes on counting where `before` stopped, in whose place it comes: neither a request that
    /// was that one's nor a serial is taken for another. Bounded by O(1).
    pub fn count_on(&mut self, before: &Routing) {
        self.requests.count_on(&before.requests);
        self.serial = before.serial + 1;
    }

    // What happened.

    /// The word was stored, or not. Bounded by the number of subjects.
    pub fn handle_mark(&mut self, subject: SubjectIndex, is_stored: bool, now: Now) {
        let retry = self.limits.region.retry;
        let Some(part) = self.parts.get_mut(usize::from(subject.0)) else {
            return;
        };
        let before = *part.mark();
        if part.handle_mark(is_stored, retry, now.instant) {
            let mark = *part.mark();
            self.serial += 1;
            if let Some(epoch) = mark.entered.filter(|_| mark.is_unsealed)
                && before.entered != mark.entered
            {
                self.note(Note::TakenOver { subject, epoch });
            }
        }
        self.look(now);
    }

    /// A peer answered a question. Bounded by subjects squared.
    pub fn handle_status(&mut self, id: AskId, status: &Status, now: Now) {
        let Some(record) = self.record.clone() else {
            return;
        };
        let limits = self.limits.clone();
        let poll = record.timing.poll;
        let random = &mut self.random;
        let landed = self
            .peers
            .iter_mut()
            .find_map(|peer| peer.land(id, poll, random, now.instant).then_some(peer));
        let Some(peer) = landed else {
            return;
        };
        // Whoever answers under another name is not whom the record means.
        if status.node != peer.name {
            peer.handle_failed();
            return;
        }
        peer.handle_ok(status.wall, (status.boot, status.serial), now);
        let index = peer.index;
        peer.version = status.record.map(|(version, _)| version);
        let is_same = status.record == Some((record.version, record.digest));
        let is_other = status.record.is_some_and(|(version, digest)| {
            version > record.version || version == record.version && digest != record.digest
        });
        // A conflict that is known already is not mended by pulling the same again.
        let is_known = self.is_conflicted && peer.version == Some(record.version);
        if is_other && !is_known && status.cluster.as_ref() == Some(&record.cluster) {
            peer.pull_at
                .get_or_insert(now.instant + limits.region.retry);
        } else {
            peer.pull_at = None;
        }
        self.keep_said(index, status, now.instant);
        if is_same {
            let peer = status.node.clone();
            self.disagreements.retain(|known| known.peer != peer);
            self.hear(&record, index, status);
        } else {
            self.compare(index, status);
        }
        self.look(now);
    }

    /// A peer did not answer a question. Bounded by the number of peers.
    pub fn handle_ask_failed(&mut self, id: AskId, now: Now) {
        let poll = self.record.as_ref().map(|record| record.timing.poll);
        for peer in &mut self.peers {
            if peer.land(id, poll.unwrap_or_default(), &mut self.random, now.instant) {
                peer.handle_failed();
            }
        }
    }

    /// A pull of a slot's content came to an end. Bounded by O(1).
    pub fn handle_pulled(&mut self, subject: SubjectIndex, now: Now) {
        let retry = self.limits.region.retry;
        if let Some(part) = self.parts.get_mut(usize::from(subject.0)) {
            part.handle_pulled(retry, now.instant);
        }
    }

    /// The store took a peer's content for a slot, or not; `is_fork`: what it held before is among
    /// the orphans now. To be called once for each `Follow::Adopt`. Bounded by the number of
    /// subjects.
    pub fn handle_head(
        &mut self,
        subject: SubjectIndex,
        head: Option<Head>,
        is_fork: bool,
        now: Now,
    ) {
        if let Some(part) = self.parts.get_mut(usize::from(subject.0)) {
            part.handle_head(head);
            part.orphans += u64::from(is_fork);
        }
        self.look(now);
    }

    /// The store came to hold this of a slot by nobody's order, as from a seed. Bounded by the
    /// number of subjects.
    pub fn handle_content(&mut self, subject: SubjectIndex, head: Head, now: Now) {
        if let Some(part) = self.parts.get_mut(usize::from(subject.0)) {
            part.handle_content(head);
        }
        self.look(now);
    }

    // Getters.

    /// Whether another record of this one's version was seen.
    pub fn is_conflicted(&self) -> bool {
        self.is_conflicted
    }

    /// The subject of this index.
    pub fn subject(&self, index: SubjectIndex) -> Option<&Subject> {
        self.part(index).map(|part| &part.subject)
    }

    /// What this node does for a subject.
    pub fn phase(&self, index: SubjectIndex) -> Option<Phase> {
        self.part(index).map(Part::phase)
    }

    /// The term in force for a subject.
    pub fn epoch(&self, index: SubjectIndex) -> Option<Epoch> {
        let outlook = self.part(index).and_then(Part::outlook);
        outlook.map(|outlook| outlook.term.epoch)
    }

    /// What a node that follows this one is to have.
    pub fn head(&self, index: SubjectIndex) -> Option<Head> {
        self.part(index).map(Part::head)
    }

    /// Whom this node follows for a slot: the writer of the term in force, unless that is itself.
    /// Bounded by O(1): it is asked for with every turn of the loop.
    pub fn followed(&self, index: SubjectIndex) -> Option<NodeIndex> {
        let outlook = self.part(index).and_then(Part::outlook)?;
        let writer = outlook.term.seat.writer;
        let node = self.record.as_ref()?.node(writer)?;
        (node.name != self.name).then_some(writer)
    }

    /// What to do with a head that a peer has. Whoever is told to adopt it answers with
    /// `handle_head`; until then this node does not become primary. Bounded by O(1).
    pub fn follow(&mut self, index: SubjectIndex, there: &Head) -> Follow {
        let part = self.parts.get_mut(usize::from(index.0));
        let follow = part.map(|part| part.follow(there));
        if follow == Some(Follow::Contradiction) {
            self.note(Note::Contradiction { subject: index });
        }
        follow.unwrap_or(Follow::Keep)
    }

    /// Rises whenever peers that wait for news have some.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    fn part(&self, index: SubjectIndex) -> Option<&Part> {
        self.parts.get(usize::from(index.0))
    }

    fn me(&self) -> Option<NodeIndex> {
        self.record.as_ref()?.find_node(&self.name)
    }

    /// Looks at all subjects, unless that was done at this very time and nothing happened since.
    fn look_once(&mut self, now: Now) {
        if self.looked_at != Some(now) {
            self.look(now);
        }
    }

    /// Looks at all subjects again: at the clock first.
    fn look(&mut self, now: Now) {
        self.looked_at = Some(now);
        if self.trust.observe(now) {
            let until = self.trust.tilted_until(now.instant).unwrap_or(now.instant);
            self.note(Note::Tilted { until });
        }
        let Some(record) = self.record.clone() else {
            return;
        };
        let offsets = self.peers.iter().filter_map(|peer| peer.offset);
        let max_skew = record.timing.max_skew;
        self.is_clock_trusted = self.trust.is_trusted(offsets, max_skew, now);
        let settled = self.started_at + self.limits.region.settle;
        let ground = Ground {
            record: &record,
            me: self.me(),
            doubt: match now.instant < settled {
                _ if self.is_conflicted => Some(Doubt::Conflict),
                true => Some(Doubt::Starting),
                false => None,
            },
            clock: match self.trust.is_tilted(now.instant) {
                true => Some(Doubt::Tilt),
                false if !self.is_clock_trusted => Some(Doubt::Clock),
                false => None,
            },
        };
        let mut news = Vec::new();
        for (index, part) in self.parts.iter_mut().enumerate() {
            if part.look(&ground, now)
                && let Some(outlook) = part.outlook()
                && let Ok(index) = u16::try_from(index)
            {
                news.push((SubjectIndex(index), outlook.phase, outlook.epoch));
            }
        }
        for (subject, phase, epoch) in news {
            self.serial += 1;
            self.note(Note::Phase {
                subject,
                phase,
                epoch,
            });
        }
    }

    fn note(&mut self, note: Note) {
        // Notes are read after every mutation: what nobody reads is not worth keeping.
        if self.notes.len() >= self.limits.slots_max {
            self.notes.pop_front();
        }
        self.notes.push_back(note);
    }
}
