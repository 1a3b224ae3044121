//! What a request does next, as its subject's phase wants it.
//!
//! A write of a client goes where the primary is: into the store here, to one peer, or nowhere for
//! as long as the record allows. A 421 of a peer is hidden from the client: the request is tried
//! again every `region.retry`, with what is believed by then. It is sent again only where no byte
//! of it was sent, or a peer has refused it whole; what was sent and not answered is given up as
//! unknown.
//!
//! A write of a peer is judged by `receive` when it comes, and by nothing else; while it is parked
//! it is held to the term that it was sent for.

use super::requests::Stage;
use super::*;
use crate::model::region::{Belief, Outcome, Refusal};

/// What a request does next.
enum Next {
    Wait,
    Apply,
    Forward(NodeIndex),
    Answer(Answer),
    Refuse(Reason),
}

impl Routing {
    /// A client's write. Bounded by O(log n).
    ///
    /// # Errors
    /// What it is refused with at once.
    pub fn accept(&mut self, write: Write, now: Now) -> Result<RequestId, Refusal> {
        self.look_once(now);
        let subject = write.subject;
        let hold = self.record.as_ref().map(|record| record.timing.hold);
        let deadline = now.instant + hold.unwrap_or_default();
        self.take_in(write, deadline, now)
            .map_err(|reason| self.refusal(subject, reason, Outcome::NotAttempted))
    }

    /// A write that a peer has sent on. Bounded by the names in its `Via` and O(log n).
    ///
    /// # Errors
    /// What it is refused with at once: the first row of the receiver's table that fits.
    pub fn receive(
        &mut self,
        incoming: &Incoming,
        write: Write,
        now: Now,
    ) -> Result<RequestId, Refusal> {
        let subject = write.subject;
        self.admit(incoming, subject, now)?;
        let hold = self.record.as_ref().map(|record| record.timing.hold);
        let deadline = now.instant + incoming.left.min(hold.unwrap_or_default());
        self.take_in(write, deadline, now).map_err(|reason| {
            self.handle_mismatch(subject, &incoming.from, reason, now);
            self.refusal(subject, reason, Outcome::NotAttempted)
        })
    }

    /// Whether a write that a peer sends on may be taken in, as far as its head tells: `receive`
    /// asks again when its body is there. Bounded by the names in its `Via` and O(log n).
    ///
    /// # Errors
    /// The first row of the receiver's table that fits.
    pub fn admit(
        &mut self,
        incoming: &Incoming,
        subject: SubjectIndex,
        now: Now,
    ) -> Result<(), Refusal> {
        self.look_once(now);
        let record = self.record.clone();
        let outlook = self.part(subject).and_then(Part::outlook);
        let belief = receive::Belief {
            name: &self.name,
            cluster: record.as_ref().map(|record| &record.cluster),
            phase: self.phase(subject).unwrap_or(Phase::Replica),
            epoch: outlook.map_or(Epoch(0), |outlook| outlook.epoch),
        };
        let judged = match receive::judge(incoming, &belief) {
            Ok(()) if self.is_draining => Err(Reason::NotPrimary),
            judged => judged,
        };
        judged.map_err(|reason| {
            self.handle_mismatch(subject, &incoming.from, reason, now);
            self.refusal(subject, reason, Outcome::NotAttempted)
        })
    }

    /// This node is on its way out: whatever waits is refused, now and from here on, while what was
    /// sent on or is with the store goes on. A peer is told that this node is not primary, so that
    /// it holds the write back for its client. Bounded by O(1); the refusals come as orders.
    pub fn handle_drain(&mut self) {
        self.is_draining = true;
    }

    fn take_in(&mut self, write: Write, deadline: Instant, now: Now) -> Result<RequestId, Reason> {
        let is_push = write.digest.is_some();
        if is_push && write.bytes > self.limits.push_bytes_max {
            return Err(Reason::BodyTooLarge);
        }
        let taken = self.requests.insert(write, deadline, now.instant);
        taken.map_err(|RequestsFull| Reason::HoldFull)
    }

    /// A peer's request does not fit to what is believed here.
    fn handle_mismatch(&mut self, subject: SubjectIndex, from: &Id, reason: Reason, now: Now) {
        self.count_refusal(from, reason);
        let primary = self.believed(subject);
        let Some(peer) = self.peers.iter_mut().find(|peer| peer.name == *from) else {
            return;
        };
        let version = peer.version;
        if reason == Reason::UnknownEpoch {
            peer.pull_at.get_or_insert(now.instant);
        }
        let differs = matches!(reason, Reason::StaleEpoch | Reason::UnknownEpoch);
        if reason == Reason::WrongCluster || (differs && version.is_some()) {
            let heard = Belief {
                version,
                primary: None,
            };
            self.disagree(from.clone(), reason, heard, primary);
        }
    }

    /// The first byte of a forwarded request left. Bounded by O(log n).
    pub fn handle_sent(&mut self, id: RequestId) {
        if let Some(request) = self.requests.of_mut(id)
            && let Stage::Forwarding { is_sent } = &mut request.stage
        {
            *is_sent = true;
        }
    }

    /// What became of a forward. Bounded by O(log n); what follows from it comes as orders.
    pub fn handle_forwarded(&mut self, id: RequestId, what: Forwarded, now: Now) {
        let retry = now.instant + self.limits.region.retry;
        let Some(request) = self.requests.of_mut(id) else {
            return;
        };
        if !matches!(request.stage, Stage::Forwarding { .. }) {
            return;
        }
        let subject = request.write.subject;
        match what {
            Forwarded::Answered => drop(self.requests.remove(id)),
            Forwarded::Lost => {
                request.stage = Stage::Lost;
            }
            Forwarded::NotSent => {
                request.stage = Stage::Waiting { not_before: retry };
            }
            Forwarded::Refused(refusal) => {
                request.stage = Stage::Waiting { not_before: retry };
                request.refused = Some(refusal.clone());
                self.handle_refusal(subject, &refusal, now);
            }
        }
    }

    /// A peer refused a request with 421: what it knows that is not known here.
    fn handle_refusal(&mut self, subject: SubjectIndex, refusal: &Refusal, now: Now) {
        let followed = self.followed(subject);
        let primary = self.believed(subject);
        let version = self.record.as_ref().map(|record| record.version);
        let peer = self
            .peers
            .iter_mut()
            .find(|peer| Some(peer.index) == followed);
        let Some(peer) = peer else {
            return;
        };
        if refusal.version > version {
            peer.pull_at.get_or_insert(now.instant);
        }
        let name = peer.name.clone();
        self.count_refusal(&name, refusal.reason);
        let heard = Belief {
            version: refusal.version,
            primary: refusal.primary.clone(),
        };
        self.disagree(name, refusal.reason, heard, primary);
        // Whoever is said to be primary can tell whether he has begun.
        let named = |peer: &&mut Peer| Some(&peer.name) == refusal.primary.as_ref();
        if let Some(peer) = self.peers.iter_mut().find(named) {
            peer.hurry(now.instant);
        }
    }

    /// What became of a write. Bounded by O(log n).
    pub fn handle_applied(&mut self, id: RequestId, what: Applied, now: Now) -> Option<Answer> {
        let request = self.requests.remove(id)?;
        let Stage::Applying { epoch, is_answered } = request.stage else {
            return None;
        };
        let subject = request.write.subject;
        let part = self.parts.get_mut(usize::from(subject.0))?;
        let stored = match what {
            Applied::Stored(head) => Some(head),
            Applied::Passed | Applied::Failed => None,
        };
        part.end(stored);
        self.look(now);
        let may_acknowledge = self
            .part(subject)
            .is_some_and(|part| part.may_acknowledge(epoch));
        let answer = match what {
            Applied::Stored(head) if may_acknowledge => {
                let revision = head.revision;
                if let Some(key) = request.write.key {
                    self.keys.remember(subject, key, revision);
                }
                Answer::Applied {
                    revision,
                    is_change: true,
                }
            }
            Applied::Stored(_) | Applied::Failed => {
                let reason = Reason::StoreFailed;
                Answer::Refused(self.refusal(subject, reason, Outcome::Unknown))
            }
            Applied::Passed => Answer::Pass,
        };
        (!is_answered).then_some(answer)
    }

    /// The client went away. What runs goes on; the rest is forgotten. Bounded by O(log n).
    pub fn cancel(&mut self, id: RequestId) {
        let Some(request) = self.requests.of_mut(id) else {
            return;
        };
        match &mut request.stage {
            Stage::Applying { is_answered, .. } => *is_answered = true,
            Stage::Waiting { .. } | Stage::Forwarding { .. } | Stage::Lost => {
                self.requests.remove(id);
            }
        }
    }

    /// The next order about a request. Bounded by the number of requests.
    pub(super) fn poll_request(&mut self, now: Now) -> Option<Order> {
        let due = self.requests.iter().find_map(|(id, request)| {
            match self.next_of(request, now.instant) {
                Next::Wait => None,
                next => Some((id, next)),
            }
        });
        let (id, next) = due?;
        let request = self.requests.of(id)?;
        let subject = request.write.subject;
        let is_sent = matches!(request.stage, Stage::Forwarding { .. });
        let left = request.deadline.since(now.instant);
        match next {
            Next::Wait => None,
            Next::Answer(answer) => {
                self.requests.remove(id);
                Some(Order::Answer { id, answer })
            }
            Next::Refuse(_) if is_sent => {
                // The answer follows as the next order.
                let Stage::Forwarding { is_sent } = request.stage else {
                    return None;
                };
                self.give_up(id, is_sent, now);
                Some(Order::Abandon { id })
            }
            Next::Refuse(reason) => {
                let answer = self.refused(id, subject, reason);
                Some(Order::Answer { id, answer })
            }
            Next::Apply => {
                let head = self.parts.get_mut(usize::from(subject.0))?.begin();
                self.looked_at = None;
                let epoch = Epoch(head.revision.epoch);
                self.requests.of_mut(id)?.stage = Stage::Applying {
                    epoch,
                    is_answered: false,
                };
                Some(Order::Apply { id, head })
            }
            Next::Forward(peer) => {
                let epoch = self.epoch(subject)?;
                self.requests.of_mut(id)?.stage = Stage::Forwarding { is_sent: false };
                Some(Order::Forward {
                    id,
                    peer,
                    epoch,
                    left,
                })
            }
        }
    }

    /// A forward took too long: it waits no more, and its answer is due.
    fn give_up(&mut self, id: RequestId, is_sent: bool, now: Now) {
        if let Some(request) = self.requests.of_mut(id) {
            request.deadline = now.instant;
            request.stage = match is_sent {
                true => Stage::Lost,
                false => Stage::Waiting {
                    not_before: now.instant,
                },
            };
        }
    }

    /// The refusal of a request that is over; one that goes on in the store stays in the table.
    fn refused(&mut self, id: RequestId, subject: SubjectIndex, reason: Reason) -> Answer {
        let outcome = match reason {
            Reason::ForwardTimeout | Reason::StoreFailed => Outcome::Unknown,
            _ => Outcome::NotAttempted,
        };
        let mut refusal = self.refusal(subject, reason, outcome);
        let runs = self
            .requests
            .of_mut(id)
            .is_some_and(|request| match &mut request.stage {
                Stage::Applying { is_answered, .. } => {
                    *is_answered = true;
                    true
                }
                Stage::Waiting { .. } | Stage::Forwarding { .. } | Stage::Lost => false,
            });
        if !runs && let Some(request) = self.requests.remove(id) {
            let said = request
                .refused
                .map(|refused| refused.words)
                .unwrap_or_default();
            if refusal.words.is_empty() {
                refusal.words = said;
            }
        }
        Answer::Refused(refusal)
    }

    fn next_of(&self, request: &Request, now: Instant) -> Next {
        let is_over = request.deadline <= now;
        match request.stage {
            Stage::Lost => Next::Refuse(Reason::ForwardTimeout),
            Stage::Waiting { .. } if self.is_draining => match request.write.origin {
                Origin::Client { .. } => Next::Refuse(Reason::Draining),
                Origin::Peer => Next::Refuse(Reason::NotPrimary),
            },
            Stage::Waiting { .. } if is_over => match self.phase(request.write.subject) {
                Some(Phase::Unknown(doubt)) => Next::Refuse(doubt.reason()),
                Some(_) | None => Next::Refuse(Reason::HoldTimeout),
            },
            Stage::Waiting { not_before } if not_before > now => Next::Wait,
            Stage::Waiting { .. } => self.next_by_phase(request),
            Stage::Forwarding { .. } if is_over => Next::Refuse(Reason::ForwardTimeout),
            Stage::Applying { is_answered, .. } => {
                // What the local server has is its own affair: it has time-outs of its own.
                let is_late = is_over && !is_answered && request.write.digest.is_some();
                match is_late {
                    true => Next::Refuse(Reason::StoreFailed),
                    false => Next::Wait,
                }
            }
            Stage::Forwarding { .. } => Next::Wait,
        }
    }

    fn next_by_phase(&self, request: &Request) -> Next {
        let write = &request.write;
        let Some(part) = self.part(write.subject) else {
            return Next::Refuse(Reason::NotPrimary);
        };
        let hold = match request.is_held {
            true => Next::Wait,
            false => Next::Refuse(Reason::HoldFull),
        };
        match (part.phase(), write.origin) {
            (Phase::Unknown(doubt), _) => Next::Refuse(doubt.reason()),
            (Phase::Hold, _) | (Phase::Drain, Origin::Client { .. }) => hold,
            (Phase::Active, _) => self.next_of_primary(part, write).unwrap_or(hold),
            (Phase::Replica | Phase::Sealed, Origin::Client { may_forward: true }) => {
                // One that is not held was sent once, and is refused with what came of it.
                match self.followed(write.subject) {
                    Some(peer) if request.is_held || request.refused.is_none() => {
                        Next::Forward(peer)
                    }
                    Some(_) | None => hold,
                }
            }
            (Phase::Replica | Phase::Sealed | Phase::Drain, _) => Next::Refuse(Reason::NotPrimary),
        }
    }

    /// The last rows of the receiver's table, for writes of clients as well; `None` when it has to
    /// wait for the one before it.
    fn next_of_primary(&self, part: &Part, write: &Write) -> Option<Next> {
        if !part.may_begin() {
            return None;
        }
        let Some(digest) = write.digest else {
            return Some(Next::Apply);
        };
        let head = part.head();
        let revision = head.revision;
        if !write.precondition.holds(revision) {
            return Some(Next::Refuse(Reason::PreconditionFailed));
        }
        let known = write
            .key
            .as_ref()
            .and_then(|key| self.keys.find(write.subject, key));
        let stored = (digest == head.digest).then_some(revision).or(known);
        Some(match stored {
            Some(revision) => Next::Answer(Answer::Applied {
                revision,
                is_change: false,
            }),
            None => Next::Apply,
        })
    }
}
