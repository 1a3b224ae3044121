//! What this node says of itself, and what it hears of others that does not fit.
//!
//! Owns the status that peers and people read, the counts of refusals by peer and reason, and the
//! disagreements: one for each peer, until that peer is heard to agree. A disagreement prints as
//! what has to be corrected.
//!
//! Never decides anything about a request.

use super::*;
use crate::model::region::{Belief, Heard, PeerStatus, Refusal, SubjectStatus};
use crate::time::Duration;

impl Routing {
    /// What peers and people are told. Bounded by subjects and peers.
    pub fn status(&self, now: Now) -> Status {
        let record = self.record.as_ref();
        Status {
            node: self.name.clone(),
            cluster: record.map(|record| record.cluster.clone()),
            boot: self.boot,
            serial: self.serial,
            wall: now.wall,
            is_clock_trusted: self.is_clock_trusted && !self.trust.is_tilted(now.instant),
            record: record.map(|record| (record.version, record.digest)),
            signer: self.signer.clone(),
            has_upstream: self.has_upstream,
            parked: self.requests.parked(),
            subjects: self
                .parts
                .iter()
                .map(|part| self.subject_status(part))
                .collect(),
            peers: self
                .peers
                .iter()
                .map(|peer| peer_status(peer, now.instant))
                .collect(),
        }
    }

    /// What was heard of every node last, this one first. Bounded by what is kept of them.
    pub fn nodes(&self, now: Now) -> Vec<Heard> {
        let own = Heard {
            node: self.name.clone(),
            last: Some((Duration::ZERO, self.status(now))),
        };
        let peers = self.peers.iter().map(|peer| Heard {
            node: peer.name.clone(),
            last: peer
                .said
                .as_ref()
                .map(|(at, status)| (now.instant.since(*at), status.clone())),
        });
        std::iter::once(own).chain(peers).collect()
    }

    /// Keeps what a peer said, for people: without its slots where all peers have too many.
    pub(super) fn keep_said(&mut self, from: NodeIndex, status: &Status, now: Instant) {
        let others = self.peers.iter().filter(|peer| peer.index != from);
        let said = others.filter_map(|peer| peer.said.as_ref());
        let kept: usize = said.map(|(_, status)| status.subjects.len()).sum();
        let is_room = kept + status.subjects.len() <= self.limits.region.said_subjects_max;
        let mut said = status.clone();
        if !is_room {
            said.subjects.clear();
        }
        if let Some(peer) = self.peers.iter_mut().find(|peer| peer.index == from) {
            peer.said = Some((now, said));
        }
    }

    /// Whether a node was heard to have an upstream of its own.
    pub fn delivers(&self, node: NodeIndex) -> bool {
        let peer = self.peers.iter().find(|peer| peer.index == node);
        let said = peer.and_then(|peer| peer.said.as_ref());
        said.is_some_and(|(_, status)| status.has_upstream)
    }

    /// Whether no node delivers reports, and every one was heard to say so. Bounded by the number
    /// of peers.
    pub fn is_isolated(&self) -> bool {
        let is_without = |peer: &Peer| {
            let said = peer.said.as_ref();
            said.is_some_and(|(_, status)| !status.has_upstream)
        };
        !self.has_upstream && self.record.is_some() && self.peers.iter().all(is_without)
    }

    /// How often which peer refused, or was refused, and why.
    pub fn refusals(&self) -> impl Iterator<Item = (&Id, Reason, u64)> {
        let all = self.refusals.iter();
        all.map(|((peer, reason), count)| (peer, *reason, *count))
    }

    /// What has to be corrected.
    pub fn disagreements(&self) -> &[Disagreement] {
        &self.disagreements
    }

    /// The next thing worth a line in the log.
    pub fn poll_note(&mut self) -> Option<Note> {
        self.notes.pop_front()
    }

    fn subject_status(&self, part: &Part) -> SubjectStatus {
        let record = self.record.as_deref();
        let id = |name: &str| Id::new(name);
        let outlook = part.outlook();
        let primary = outlook.zip(record).and_then(|(outlook, record)| {
            let seat = outlook.term.seat;
            let region = id(record.region_name(seat.region))?;
            Some((region, id(record.node_name(seat.writer))?))
        });
        let next = outlook.zip(record).and_then(|(outlook, record)| {
            let next = outlook.next?;
            Some((next.from?, id(record.region_name(next.seat.region))?))
        });
        let mark = part.mark();
        let epoch = outlook.map_or(mark.floor, |outlook| outlook.term.epoch);
        SubjectStatus {
            subject: part.subject.clone(),
            phase: part.phase(),
            epoch,
            primary,
            next,
            head: part.head(),
            seal: mark.seal,
            is_taken_over_unsealed: mark.is_unsealed && mark.entered == Some(epoch),
            orphans: part.orphans,
        }
    }

    /// What a peer with the same record says of its subjects.
    pub(super) fn hear(&mut self, record: &Record, from: NodeIndex, status: &Status) {
        for part in &mut self.parts {
            let theirs = status
                .subjects
                .iter()
                .find(|other| other.subject == part.subject);
            let class = record.class_of(&part.subject);
            let Some((theirs, class)) = theirs.zip(class) else {
                continue;
            };
            let is_writer = |epoch| {
                let term = schedule::term_of(class, epoch);
                term.is_some_and(|term| term.seat.writer == from)
            };
            if matches!(theirs.phase, Phase::Active | Phase::Drain) && is_writer(theirs.epoch) {
                part.handle_entered(theirs.epoch);
            }
            if let Some(seal) = theirs.seal {
                // The seal of another record's term says nothing about a writer of this one, but
                // its epoch does.
                part.handle_seal(from, seal);
            }
        }
    }

    /// A peer goes by another record. Worth a word only when nobody can mend it by pulling.
    pub(super) fn compare(&mut self, from: NodeIndex, status: &Status) {
        let Some(record) = self.record.clone() else {
            return;
        };
        let reason = match status.cluster.as_ref() {
            Some(cluster) if *cluster != record.cluster => Reason::WrongCluster,
            _ if status
                .record
                .is_some_and(|(version, _)| version == record.version) =>
            {
                Reason::StateConflict
            }
            _ => return,
        };
        let peer = Id::new(record.node_name(from));
        if let Some(peer) = peer {
            let heard = Belief {
                version: status.record.map(|(version, _)| version),
                primary: None,
            };
            self.disagree(peer, reason, heard, None);
        }
    }

    /// A peer refused a request of ours, or we one of its. Counted, noted once for each reason.
    pub(super) fn count_refusal(&mut self, peer: &Id, reason: Reason) {
        // Only nodes of the record are counted by name: the table is bounded by it.
        if !self.peers.iter().any(|known| known.name == *peer) {
            return;
        }
        let count = self.refusals.entry((peer.clone(), reason)).or_default();
        *count += 1;
        if *count == 1 {
            let peer = peer.clone();
            self.note(Note::Refused { peer, reason });
        }
    }

    /// Keeps what does not fit, if records differ: otherwise time will mend it.
    pub(super) fn disagree(
        &mut self,
        peer: Id,
        reason: Reason,
        heard: Belief,
        primary: Option<Id>,
    ) {
        let held = Belief {
            version: self.record.as_ref().map(|record| record.version),
            primary,
        };
        let is_conflict = matches!(reason, Reason::StateConflict | Reason::WrongCluster);
        if held.version == heard.version && !is_conflict {
            return;
        }
        self.disagreements.retain(|known| known.peer != peer);
        if self.disagreements.len() < self.limits.region.disagreements_max {
            self.disagreements.push(Disagreement {
                peer,
                reason,
                held,
                heard,
            });
        }
    }

    /// A refusal of this node about `subject`.
    pub(super) fn refusal(
        &self,
        subject: SubjectIndex,
        reason: Reason,
        outcome: crate::model::region::Outcome,
    ) -> Refusal {
        let part = self.part(subject);
        let outlook = part.and_then(Part::outlook);
        let words = self.disagreements.first().map(Disagreement::to_string);
        Refusal {
            reason,
            outcome,
            subject: part.map(|part| part.subject.clone()),
            epoch: outlook.map(|outlook| outlook.epoch),
            primary: self.believed(subject),
            version: self.record.as_ref().map(|record| record.version),
            words: words.unwrap_or_default(),
        }
    }

    /// Who is primary, or will be in a moment. Bounded by O(1).
    pub fn believed(&self, subject: SubjectIndex) -> Option<Id> {
        let part = self.part(subject)?;
        let outlook = part.outlook()?;
        let term = match part.phase() {
            Phase::Unknown(_) => return None,
            Phase::Drain => outlook.next.unwrap_or(outlook.term),
            _ => outlook.term,
        };
        Id::new(self.record.as_ref()?.node_name(term.seat.writer))
    }
}

fn peer_status(peer: &Peer, now: Instant) -> PeerStatus {
    PeerStatus {
        node: peer.name.clone(),
        last_ok: peer.last_ok.map(|last_ok| now.since(last_ok)),
        offset_ms: peer.offset.map(|offset| offset.millis),
    }
}
