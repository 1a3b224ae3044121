//! A write to a slot, from its arrival to its answer.
//!
//! Owns the table of what is on its way: the bytes of each request, which `state::region` never
//! sees, and whoever waits for the answer. The document is judged before anything else, since what
//! no slot may serve is nobody's to apply. Then the request is accepted, and what happens to it is
//! ordered: applied here (kept, served, told), sent on by `forward`, or answered.
//!
//! What is held back is bounded by `Routing`; the bodies of those that are not, by the room that
//! pushes have in `http`.
//!
//! Invariant: every request in the table is in `Routing`'s as well, until its answer is there.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use smol::channel::{Sender, bounded};

use crate::model::region::{Head, Outcome, Reason, Refusal, Subject};
use crate::model::{Revision, SlotIndex, SlotKey, Snapshot};
use crate::net::driver::Driver;
use crate::net::push::{self, Push};
use crate::net::upstream::deadline::within;
use crate::state::region::{
    self, Applied, Incoming, Origin, Precondition, RequestId, SubjectIndex, Write,
};
use crate::time::Duration;
use crate::wire::http::response::Answer;
use crate::wire::push::{self as wire, Conditions, Tags};
use crate::wire::region::{peer, problem};

use super::{Region, forward, store, tell};

/// The writes that are on their way.
#[derive(Default)]
pub struct Writes {
    parked: RefCell<BTreeMap<RequestId, Parked>>,
    /// Those whose clients are gone.
    gone: Cell<Vec<RequestId>>,
}

/// Who brought a write, and by which name it may come again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Not a peer. `may_forward`: without `X-Relay-No-Forward`.
    Client {
        may_forward: bool,
        key: Option<Box<str>>,
    },
    /// A peer that has shown the peer key.
    Peer(Incoming, Option<Box<str>>),
}

/// A write that waits for its answer.
#[derive(Clone)]
pub struct Parked {
    pub slot: SlotIndex,
    /// As it was sent.
    pub body: Rc<[u8]>,
    /// `body` is in gzip.
    pub is_compressed: bool,
    pub conditions: Conditions,
    /// `Idempotency-Key`.
    pub key: Option<Box<str>>,
    pub snapshot: Rc<Snapshot>,
    answer: Sender<Answer>,
}

/// Takes a write whose body was read, and waits for its answer.
pub async fn write(driver: &Rc<Driver>, arrival: Arrival, push: Push, body: Vec<u8>) -> Answer {
    let slot = push.slot;
    let Some((region, subject, key)) = routed(driver, slot) else {
        return Answer::new(404);
    };
    let (origin, mut incoming, name) = match arrival {
        Arrival::Client { may_forward, key } => (Origin::Client { may_forward }, None, key),
        Arrival::Peer(incoming, key) => (Origin::Peer, Some(incoming), key),
    };
    let arrived = driver.clock.now();
    let patience = patience(driver, region, incoming.as_ref());
    let judged = Box::pin(push::judged(driver, key, body, push.is_compressed));
    let judged = Box::pin(within(&driver.clock, patience, judged));
    let (snapshot, body) = match judged.await {
        Some(Ok(judged)) => judged,
        Some(Err(refusal)) => return push::refuse(driver, slot, &refusal),
        None => return push::refuse(driver, slot, &wire::Refusal::Crowded),
    };
    if let Some(incoming) = &mut incoming {
        incoming.left = incoming.left.saturating_sub(driver.clock.now() - arrived);
    }
    let write = Write {
        subject,
        origin,
        bytes: body.len().max(snapshot.json.len()),
        digest: Some(snapshot.digest),
        precondition: precondition(&push.conditions),
        key: name.clone(),
    };
    let accepted = tell(driver, |routing, now| match &incoming {
        Some(incoming) => routing.receive(incoming, write, now),
        None => routing.accept(write, now),
    });
    let id = match accepted {
        Some(Ok(id)) => id,
        Some(Err(refusal)) => return refused(driver, slot, &refusal),
        None => return Answer::new(404),
    };
    let (sender, receiver) = bounded(1);
    let parked = Parked {
        slot,
        body: body.into(),
        is_compressed: push.is_compressed,
        conditions: push.conditions,
        key: name,
        snapshot: Rc::new(snapshot),
        answer: sender,
    };
    region.writes.parked.borrow_mut().insert(id, parked);
    let mut waiting = Waiting {
        driver,
        id,
        is_over: false,
    };
    let answer = receiver.recv().await;
    waiting.is_over = true;
    // Nobody takes a write out of the table without an answer.
    answer.unwrap_or_else(|_| Answer::new(503))
}

/// For how long a document may wait to be judged: as long as the write could be held.
fn patience(driver: &Driver, region: &Region, incoming: Option<&Incoming>) -> Duration {
    let routing = region.routing.borrow();
    let hold = routing.record().map(|record| record.timing.hold);
    // Without a record it is refused behind that.
    let hold = hold.unwrap_or(driver.limits.region.ask_timeout);
    incoming.map_or(hold, |incoming| incoming.left.min(hold))
}

fn routed(driver: &Driver, slot: SlotIndex) -> Option<(&Region, SubjectIndex, SlotKey)> {
    let region = driver.region.as_ref()?;
    let subject = region.subject_of(driver, slot)?;
    let state = driver.state.borrow();
    Some((region, subject, state.slots.of(slot)?.key.clone()))
}

/// Whom this relay takes for primary for a slot; nothing where there is no region.
pub fn standing(driver: &Driver, slot: &SlotKey) -> wire::Standing {
    let region = driver.region.as_ref();
    let subject = region.and_then(|region| region.subject(&Subject::Slot(slot.clone())));
    match region.zip(subject) {
        Some((region, subject)) => {
            let routing = region.routing.borrow();
            wire::Standing {
                epoch: routing.epoch(subject).map(|epoch| epoch.0),
                primary: routing.believed(subject).map(|name| name.to_string()),
            }
        }
        None => wire::Standing::default(),
    }
}

/// Where a routed slot stands: a term that was entered without a seal makes a revision of its own.
pub fn place(driver: &Driver, slot: SlotIndex) -> Option<Revision> {
    let (region, subject, _) = routed(driver, slot)?;
    let head = region.routing.borrow().head(subject)?;
    (head.revision > Revision::default()).then_some(head.revision)
}

fn precondition(conditions: &Conditions) -> Precondition {
    let named = |tags: &Vec<Option<Revision>>| tags.iter().copied().flatten().collect();
    let is_there = conditions.if_match.as_ref().map(|tags| match tags {
        Tags::Any => Precondition::Content,
        Tags::These(tags) => Precondition::OneOf(named(tags)),
    });
    let is_not = conditions.if_none_match.as_ref().map(|tags| match tags {
        Tags::Any => Precondition::NoContent,
        Tags::These(tags) => Precondition::NoneOf(named(tags)),
    });
    match (is_there, is_not) {
        (None, None) => Precondition::None,
        (Some(one), None) | (None, Some(one)) => one,
        (Some(one), Some(other)) => Precondition::All(Box::new([one, other])),
    }
}

/// Somebody who waits for an answer. Dropped before it is there, he is gone.
struct Waiting<'d> {
    driver: &'d Driver,
    id: RequestId,
    is_over: bool,
}

impl Drop for Waiting<'_> {
    /// Borrows nothing: the driver forgets the write with its next turn.
    fn drop(&mut self) {
        if let Some(region) = self.driver.region.as_ref().filter(|_| !self.is_over) {
            let mut gone = region.writes.gone.take();
            gone.push(self.id);
            region.writes.gone.set(gone);
            self.driver.wake();
        }
    }
}

/// A write that is on its way.
pub fn parked(driver: &Driver, id: RequestId) -> Option<Parked> {
    let region = driver.region.as_ref()?;
    region.writes.parked.borrow().get(&id).cloned()
}

/// Gives a peer's answer to who waits for it. `routing` is told by the caller.
pub fn pass(driver: &Driver, id: RequestId, answer: Answer) {
    let Some(region) = &driver.region else { return };
    let parked = region.writes.parked.borrow_mut().remove(&id);
    if let Some(parked) = parked {
        // Who is gone meanwhile misses it.
        let _ = parked.answer.try_send(answer);
    }
}

/// Forgets the writes whose clients are gone, and gives up what was sent on for them.
pub(super) fn forget_gone(driver: &Rc<Driver>, region: &Region) {
    for id in region.writes.gone.take() {
        region.writes.parked.borrow_mut().remove(&id);
        tell(driver, |routing, _| routing.cancel(id));
        forward::abandon(driver, id);
    }
}

/// Keeps and serves what was pushed.
pub(super) fn apply(driver: &Rc<Driver>, id: RequestId, head: Head) {
    let parked = parked(driver, id);
    let task = driver.clone();
    driver.spawn(async move {
        let applied = match parked {
            Some(parked) => keep(&task, &parked, head).await,
            None => Applied::Failed,
        };
        let answered = tell(&task, |routing, now| {
            routing.handle_applied(id, applied, now)
        });
        if let Some(answered) = answered.flatten() {
            answer(&task, id, answered);
        }
    });
}

async fn keep(driver: &Rc<Driver>, parked: &Parked, head: Head) -> Applied {
    let snapshot = parked.snapshot.clone();
    let head = Head {
        digest: snapshot.digest,
        ..head
    };
    match store::settle(driver, parked.slot, snapshot, head).await {
        Ok(()) => Applied::Stored(head),
        Err(not_kept) => {
            driver.log.limited(
                crate::net::log::Cause::Disk,
                driver.clock.now(),
                format_args!("region: a push could not be kept: {not_kept}"),
            );
            Applied::Failed
        }
    }
}

/// Answers a write.
pub(super) fn answer(driver: &Driver, id: RequestId, answer: region::Answer) {
    let Some(parked) = parked(driver, id) else {
        return;
    };
    let answer = match answer {
        region::Answer::Applied {
            revision,
            is_change,
        } => applied(driver, parked.slot, revision, is_change),
        region::Answer::Refused(refusal) => refused(driver, parked.slot, &refusal),
        // A slot has no local server whose answer could have been passed on.
        region::Answer::Pass => Answer::new(502),
    };
    pass(driver, id, answer);
}

fn applied(driver: &Driver, slot: SlotIndex, revision: Revision, is_change: bool) -> Answer {
    let outcome = match is_change {
        true => {
            driver.count(|counters| counters.pushes += 1);
            wire::Outcome::Applied
        }
        false => wire::Outcome::Unchanged,
    };
    let state = driver.state.borrow();
    let Some(slot) = state.slots.of(slot) else {
        return Answer::new(404);
    };
    wire::done(&slot.key, revision, outcome).with(peer::OUTCOME, Outcome::Applied.as_str())
}

/// The answer to a write that was refused, counted.
pub fn refused(driver: &Driver, slot: SlotIndex, refusal: &Refusal) -> Answer {
    driver.count(|counters| counters.pushes_refused += 1);
    let answer = answer_of(driver, refusal);
    match place(driver, slot).filter(|_| refusal.reason == Reason::PreconditionFailed) {
        Some(revision) => answer.with("etag", wire::etag(revision)),
        None => answer,
    }
}

/// A refusal as it is answered, to whatever it was.
pub fn answer_of(driver: &Driver, refusal: &Refusal) -> Answer {
    let status = problem::status(refusal.reason);
    let answer = Answer::new(status)
        .with("content-type", problem::CONTENT_TYPE)
        .with(peer::OUTCOME, refusal.outcome.as_str())
        .with_body(problem::write(refusal) + "\n");
    match status {
        503 => {
            let seconds = driver.limits.retry_after.as_secs().max(1);
            answer.with("retry-after", seconds.to_string())
        }
        _ => answer,
    }
}
