//! A write to a slot, from its arrival to its answer.
//!
//! Owns the table of what is on its way: the bytes of each request, which `state::region` never
//! sees, and whoever waits for the answer. The document is judged before anything else, since what
//! no slot may serve is nobody's to apply. Then the request is accepted, and what happens to it is
//! ordered: applied here (kept, served, told), sent on by `forward`, or answered.
//!
//! Invariant: every request in the table is in `Routing`'s as well, until its answer is there.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use smol::channel::Sender;

use crate::model::region::Head;
use crate::model::{SlotIndex, Snapshot};
use crate::net::driver::Driver;
use crate::net::push::Push;
use crate::state::region::{self, Incoming, RequestId};
use crate::wire::http::response::Answer;
use crate::wire::push::Conditions;

use super::{Region, tell};

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
pub async fn write(_driver: &Rc<Driver>, _arrival: Arrival, _push: Push, _body: Vec<u8>) -> Answer {
    Answer::new(503)
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

/// Forgets the writes whose clients are gone.
pub(super) fn forget_gone(_driver: &Driver, region: &Region) {
    for id in region.writes.gone.take() {
        region.writes.parked.borrow_mut().remove(&id);
        region.routing.borrow_mut().cancel(id);
    }
}

/// Keeps and serves what was pushed.
pub(super) fn apply(driver: &Rc<Driver>, id: RequestId, _head: Head) {
    tell(driver, |routing, now| {
        routing.handle_applied(id, region::Applied::Failed, now);
    });
}

/// Answers a write.
pub(super) fn answer(driver: &Driver, id: RequestId, _answer: region::Answer) {
    pass(driver, id, Answer::new(503));
}
