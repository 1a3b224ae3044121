//! Pushes: how an operator's document gets from the admin listener to the slot.
//!
//! Owns the order, which is the promise: one push at a time, its conditions held against what is
//! served at that moment, the document judged as any other, **kept**, and only then served and
//! answered 200. Whatever is refused on the way has changed nothing.
//!
//! What may wait is bounded twice: so many pushes, and so many bytes of them. Beyond that a push is
//! told to come back.
//!
//! Never waits with state borrowed. While a push is being kept, nobody else writes that slot's file
//! (`state::saves`), and no seed moves its revision on (`state::slots`).

use std::cell::Cell;
use std::rc::Rc;

use smol::lock::{Semaphore, SemaphoreGuard};

use crate::limits::Limits;
use crate::model::region::Outcome::NotAttempted;
use crate::model::{Digest, Past, Revision, Role, SlotIndex, SlotKey, Snapshot, Source};
use crate::wire::http::response::Answer;
use crate::wire::http::{Head, Method};
use crate::wire::keep::Record;
use crate::wire::push::{self, Conditions, Outcome, Owner, Refusal};
use crate::wire::region::peer;
use crate::wire::seed::Seed;
use crate::wire::{DecodeError, gzip};

use super::driver::Driver;
use super::keep::{self, NotKept};
use super::region;
use super::region::write::Arrival;
use super::seed;

/// The pushes that wait.
pub struct Pushes {
    /// The disk does one thing at a time, and so do they.
    turn: Semaphore,
    waiting: Cell<usize>,
    /// Those whose documents are judged apart from the loop: their share of that lane.
    judging: Cell<usize>,
    /// Of the bodies of all that are being read or wait.
    pub bytes: Cell<usize>,
}

impl Default for Pushes {
    fn default() -> Pushes {
        Pushes {
            turn: Semaphore::new(1),
            waiting: Cell::new(0),
            judging: Cell::new(0),
            bytes: Cell::new(0),
        }
    }
}

impl Pushes {
    /// The right to change what a slot holds.
    pub(super) async fn turn(&self) -> SemaphoreGuard<'_> {
        self.turn.acquire().await
    }
}

/// A push whose head was read.
#[derive(Debug, PartialEq, Eq)]
pub struct Push {
    pub(super) slot: SlotIndex,
    pub(super) conditions: Conditions,
    pub(super) is_compressed: bool,
    /// By which name it may come again; means something only between regions, as what follows.
    pub(super) key: Option<Box<str>>,
    /// It may be sent on to another relay.
    pub(super) may_forward: bool,
}

/// What the head of a request for a slot comes to.
pub enum Asked {
    Answer(Answer),
    /// The body is wanted.
    Push(Push),
}

/// Decides about a request for a slot, by somebody who may push.
pub fn decide(driver: &Driver, slot: SlotIndex, head: &Head<'_>) -> Asked {
    if let Some(owner) = other_owner(driver, slot) {
        return Asked::Answer(refuse(driver, slot, &Refusal::OtherSource(owner)));
    }
    if matches!(head.method, Method::Get | Method::Head) {
        return Asked::Answer(show(driver, slot));
    }
    match read(driver, slot, head) {
        Ok(push) => Asked::Push(push),
        Err(refusal) => Asked::Answer(refuse(driver, slot, &refusal)),
    }
}

/// What the head of a push says.
pub(super) fn read(driver: &Driver, slot: SlotIndex, head: &Head<'_>) -> Result<Push, Refusal> {
    if driver.is_draining() {
        return Err(Refusal::Draining);
    }
    let conditions = Conditions::parse(head.if_match, head.if_none_match);
    let is_gzip =
        |coding: &str| coding.eq_ignore_ascii_case("gzip") || coding.eq_ignore_ascii_case("x-gzip");
    let key = |value| {
        let unreadable = DecodeError::Malformed("Idempotency-Key");
        peer::idempotency_key(value, &driver.limits).ok_or(Refusal::Malformed(unreadable))
    };
    Ok(Push {
        slot,
        key: head.idempotency_key.map(key).transpose()?,
        may_forward: !head.stays_here,
        conditions: conditions.map_err(Refusal::Malformed)?,
        is_compressed: match head.content_encoding {
            None => false,
            Some(coding) if is_gzip(coding) => true,
            Some(_) => return Err(Refusal::UnknownCoding),
        },
    })
}

/// Who fills the slot, if the operator does not.
fn other_owner(driver: &Driver, slot: SlotIndex) -> Option<Owner> {
    let state = driver.state.borrow();
    let is_operators = state.slots.of(slot).is_some_and(|slot| slot.is_operators());
    let follow = driver.follow.as_ref();
    let owner = match follow.and_then(|follow| follow.own(Role::Primary)) {
        Some(_) => Owner::Upstream,
        None => Owner::Seed,
    };
    (!is_operators).then_some(owner)
}

/// The slot's document as it is served.
fn show(driver: &Driver, slot: SlotIndex) -> Answer {
    let state = driver.state.borrow();
    let found = state.slots.of(slot);
    let routed = region::write::place(driver, slot);
    let shown = found.and_then(|slot| Some((slot.held.as_ref()?, routed.or(slot.revision())?)));
    match shown {
        Some((held, revision)) => Answer::json(200, held.snapshot.json.to_vec())
            .with("etag", push::etag(revision))
            .with("x-config-source", held.source.as_str()),
        None => {
            drop(state);
            refuse(driver, slot, &Refusal::Empty)
        }
    }
}

impl Push {
    /// A body over its bound.
    pub fn too_large(&self, driver: &Driver) -> Answer {
        let bytes_max = driver.limits.push_bytes_max;
        refuse(driver, self.slot, &Refusal::TooLarge { bytes_max })
    }

    /// No room for its body beside the others.
    pub fn crowded(&self, driver: &Driver) -> Answer {
        refuse(driver, self.slot, &Refusal::Crowded)
    }
}

/// The answer to a push that never came to be one, counted.
pub(super) fn refuse(driver: &Driver, index: SlotIndex, refusal: &Refusal) -> Answer {
    driver.count(|counters| counters.pushes_refused += 1);
    let state = driver.state.borrow();
    let Some(slot) = state.slots.of(index) else {
        return Answer::new(404);
    };
    let current = region::write::place(driver, index).or(slot.revision());
    let standing = region::write::standing(driver, &slot.key);
    let answer = refusal.answer(&slot.key, current, standing, driver.limits.retry_after);
    match driver.region {
        Some(_) => answer.with(peer::OUTCOME, NotAttempted.as_str()),
        None => answer,
    }
}

/// Takes a push whose body was read.
pub async fn run(driver: &Rc<Driver>, push: Push, body: Vec<u8>) -> Answer {
    if driver.region.is_some() {
        let arrival = Arrival::Client {
            may_forward: push.may_forward,
            key: push.key.clone(),
        };
        // Large, and not for the connections that never push.
        return Box::pin(region::write::write(driver, arrival, push, body)).await;
    }
    let slot = push.slot;
    let outcome = match Box::pin(take(driver, push, body)).await {
        Ok(outcome) => outcome,
        Err(refusal) => return refuse(driver, slot, &refusal),
    };
    let state = driver.state.borrow();
    let found = state.slots.of(slot);
    match found.and_then(|slot| Some((&slot.key, slot.revision()?))) {
        Some((key, revision)) => push::done(key, revision, outcome),
        None => Answer::new(404),
    }
}

async fn take(driver: &Rc<Driver>, push: Push, body: Vec<u8>) -> Result<Outcome, Refusal> {
    let (waiting, pushes_max) = (&driver.pushes.waiting, driver.limits.pushes_max);
    let _place = Place::take(waiting, pushes_max).ok_or(Refusal::Crowded)?;
    let _turn = driver.pushes.turn.acquire().await;
    let (key, current) = stands(driver, push.slot).ok_or(Refusal::Empty)?;
    if !push.conditions.hold(current) {
        return Err(Refusal::Stale);
    }
    let (snapshot, _) = judged(driver, key, body, push.is_compressed).await?;
    let Some(past) = begin(driver, push.slot, snapshot.digest) else {
        end(driver, push.slot, true);
        return Ok(Outcome::Unchanged);
    };
    let kept = match record(driver, push.slot, &snapshot, past) {
        Some(record) => keep::write(driver, push.slot, record).await,
        None => Err(NotKept::Busy),
    };
    if kept.is_ok() {
        driver.publish(push.slot, Rc::new(snapshot), Source::Operator);
        seed::note_adoption(driver, push.slot);
        driver.count(|counters| counters.pushes += 1);
    }
    end(driver, push.slot, kept.is_ok());
    match kept {
        Ok(()) => Ok(Outcome::Applied),
        Err(NotKept::Busy) => Err(Refusal::Crowded),
        Err(NotKept::Failed(problem)) => Err(Refusal::NotKept(problem)),
    }
}

fn stands(driver: &Driver, slot: SlotIndex) -> Option<(SlotKey, Option<Revision>)> {
    let state = driver.state.borrow();
    let slot = state.slots.of(slot)?;
    Some((slot.key.clone(), slot.revision()))
}

/// Judges the document: a small one right here, as long as it is not compressed. With what is to be
/// served comes the body, as it was sent. Not on the disk's lane: a relay whose disk hangs still
/// sends pushes on to another.
pub(super) async fn judged(
    driver: &Rc<Driver>,
    key: SlotKey,
    body: Vec<u8>,
    is_compressed: bool,
) -> Result<(Snapshot, Vec<u8>), Refusal> {
    let limits = driver.limits.clone();
    if !is_compressed && body.len() <= limits.packed_on_loop_bytes_max {
        return judge(&body, &key, false, &limits).map(|snapshot| (snapshot, body));
    }
    let _place = Place::take(&driver.pushes.judging, limits.pushes_max).ok_or(Refusal::Crowded)?;
    let job = driver.proxy.net.work.run(move || {
        let snapshot = judge(&body, &key, is_compressed, &limits);
        snapshot.map(|snapshot| (snapshot, body))
    });
    job.await.map_err(|_| Refusal::Crowded)?
}

fn judge(
    body: &[u8],
    key: &SlotKey,
    is_compressed: bool,
    limits: &Limits,
) -> Result<Snapshot, Refusal> {
    let bytes_max = limits.push_bytes_max;
    let inflated;
    let document = match is_compressed {
        false => body,
        true => {
            inflated = gzip::inflate(body, bytes_max).map_err(|fault| match fault {
                DecodeError::BodyTooLarge => Refusal::TooLarge { bytes_max },
                fault => Refusal::Malformed(fault),
            })?;
            &inflated
        }
    };
    let snapshot = Seed::parse(document, limits).and_then(|seed| seed.snapshot(key, limits));
    match snapshot {
        Ok(snapshot) => Ok(seed::packed(snapshot, limits)),
        Err(error) => Err(Refusal::Document(error.to_string())),
    }
}

/// What is to be kept, if anything is; from then on the slot's file is this push's.
fn begin(driver: &Driver, slot: SlotIndex, digest: Digest) -> Option<Past> {
    let (wall, now) = (driver.clock.wall(), driver.clock.now());
    let mut state = driver.state.borrow_mut();
    let past = state.slots.begin_push(slot, digest, wall, now)?;
    state.saves.hold_back(slot);
    Some(past)
}

/// What is to be kept of an operator's slot.
pub(super) fn record(
    driver: &Driver,
    slot: SlotIndex,
    snapshot: &Snapshot,
    past: Past,
) -> Option<Record> {
    let state = driver.state.borrow();
    Some(Record {
        slot: state.slots.of(slot)?.key.clone(),
        digest: snapshot.digest,
        source: Source::Operator,
        saved_at: driver.clock.wall(),
        past,
        document: snapshot.json.clone(),
    })
}

/// The push has ended, one way or the other.
pub(super) fn end(driver: &Driver, slot: SlotIndex, is_kept: bool) {
    let mut state = driver.state.borrow_mut();
    state.saves.release(slot);
    let is_seed_waiting = state.slots.end_push(slot, is_kept);
    drop(state);
    if is_seed_waiting {
        seed::forget(driver);
    }
    driver.wake();
}

/// One of the pushes that may wait, or be judged at a time.
struct Place<'a>(&'a Cell<usize>);

impl<'a> Place<'a> {
    fn take(taken: &'a Cell<usize>, places_max: usize) -> Option<Place<'a>> {
        if taken.get() >= places_max {
            return None;
        }
        taken.set(taken.get() + 1);
        Some(Place(taken))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests;
