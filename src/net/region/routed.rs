//! Requests of routes that a region is primary for, from their arrival to their turn.
//!
//! Owns the table of those who wait for a turn. The bytes of such a request stay on its connection
//! (`net::proxy`): what came of its content with its head counts among what is held back, and what
//! comes later is read up to the bound of a head, as on every connection that waits. An order about
//! one of them is taken out of the way of slots' writes, which have bytes here.
//!
//! Invariant: who holds a [`Ticket`] is in the table, and in `Routing`'s until it is dropped or
//! answered.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use smol::channel::{Receiver, Sender, bounded};

use crate::model::Id;
use crate::model::region::{Epoch, Node, Outcome, Reason, Record, Refusal, Subject};
use crate::net::driver::Driver;
use crate::state::region::{self, SubjectIndex};
use crate::state::region::{Applied, Forwarded, Order, Origin, Precondition, RequestId, Write};
use crate::time::{Duration, Instant};
use crate::wire::http::response::Answer;

use super::write::{self, Arrival};
use super::{Region, tell};

/// Turns that are told and not heard: a forward that is given up, and the answer behind it.
const TURNS_MAX: usize = 4;

/// Those who wait.
#[derive(Default)]
pub struct Routed {
    waiting: RefCell<BTreeMap<RequestId, Sender<Turn>>>,
    /// Tickets that were dropped, and whether it was their turn.
    over: Cell<Vec<(RequestId, bool)>>,
}

/// What a request does next.
#[derive(Clone, Debug)]
pub enum Turn {
    /// It goes to the local cluster.
    Here,
    /// It goes to another node.
    Elsewhere(Box<Errand>),
    /// What was begun elsewhere is given up.
    Abandoned,
    /// It is over, and was refused.
    Refused(Box<Refusal>),
}

/// What goes to whom.
#[derive(Clone, Debug)]
pub struct Errand {
    pub node: Node,
    pub record: Rc<Record>,
    pub epoch: Epoch,
    /// By then it has an answer, or is given up.
    pub deadline: Instant,
}

/// A place among those who wait. Dropped, it is given back, and what was done is over.
pub struct Ticket {
    driver: Rc<Driver>,
    id: RequestId,
    subject: SubjectIndex,
    turns: Receiver<Turn>,
    is_here: Cell<bool>,
}

/// Takes a request in: `bytes` of it are held already.
///
/// # Errors
/// What it is refused with at once.
pub fn enter(
    driver: &Rc<Driver>,
    slot: &Id,
    arrival: &Arrival,
    bytes: usize,
) -> Result<Ticket, Answer> {
    let region = driver.region.as_ref();
    let subject = region.and_then(|region| region.subject(&Subject::Route(slot.clone())));
    let (Some(region), Some(subject)) = (region, subject) else {
        let text = "this route's RegionSlot takes effect at the next start\n";
        return Err(Answer::text(503, text));
    };
    let request = Write {
        subject,
        origin: match arrival {
            Arrival::Client { may_forward, .. } => Origin::Client {
                may_forward: *may_forward,
            },
            Arrival::Peer(..) => Origin::Peer,
        },
        bytes,
        digest: None,
        precondition: Precondition::None,
        key: None,
    };
    let accepted = tell(driver, |routing, now| match arrival {
        Arrival::Peer(incoming, _) => routing.receive(incoming, request, now),
        Arrival::Client { .. } => routing.accept(request, now),
    });
    let id = match accepted {
        Some(Ok(id)) => id,
        Some(Err(refusal)) => return Err(write::answer_of(driver, &refusal)),
        None => return Err(Answer::new(503)),
    };
    let (sender, turns) = bounded(TURNS_MAX);
    region.routed.waiting.borrow_mut().insert(id, sender);
    Ok(Ticket {
        driver: driver.clone(),
        id,
        subject,
        turns,
        is_here: Cell::new(false),
    })
}

impl Ticket {
    /// The next turn. Can be dropped and asked again.
    pub async fn next(&self) -> Turn {
        match self.turns.recv().await {
            Ok(turn) => {
                self.is_here.set(matches!(turn, Turn::Here));
                turn
            }
            // Nobody takes a request out of the table while its ticket is there.
            Err(_) => std::future::pending().await,
        }
    }

    /// The first byte is about to leave for another node.
    pub fn handle_sent(&self) {
        tell(&self.driver, |routing, _| routing.handle_sent(self.id));
    }

    /// What became of it there.
    pub fn handle_forwarded(&self, what: Forwarded) {
        tell(&self.driver, |routing, now| {
            routing.handle_forwarded(self.id, what, now);
        });
    }

    /// A refusal by this node, of something that was begun.
    pub fn refusal(&self, reason: Reason, outcome: Outcome) -> Refusal {
        let region = self.driver.region.as_ref();
        let subject =
            region.and_then(|region| region.routing.borrow().subject(self.subject).cloned());
        Refusal {
            reason,
            outcome,
            subject,
            epoch: None,
            primary: None,
            version: None,
            words: String::new(),
        }
    }
}

impl Drop for Ticket {
    /// Borrows nothing: the driver takes it out with its next turn.
    fn drop(&mut self) {
        if let Some(region) = &self.driver.region {
            let mut over = region.routed.over.take();
            over.push((self.id, self.is_here.get()));
            region.routed.over.set(over);
            self.driver.wake();
        }
    }
}

/// Takes out those whose tickets were dropped: what was done here has ended, the rest is cancelled.
pub(super) fn forget_over(driver: &Driver, region: &Region) {
    for (id, is_here) in region.routed.over.take() {
        region.routed.waiting.borrow_mut().remove(&id);
        tell(driver, |routing, now| match is_here {
            // What came of it was passed on; there is nothing to add.
            true => drop(routing.handle_applied(id, Applied::Passed, now)),
            false => routing.cancel(id),
        });
    }
}

/// Passes an order on to the request that it is about; gives it back if that is none of these.
pub(super) fn obey(driver: &Driver, region: &Region, order: Order) -> Option<Order> {
    let id = match &order {
        Order::Apply { id, .. }
        | Order::Forward { id, .. }
        | Order::Abandon { id }
        | Order::Answer { id, .. } => *id,
        Order::Store { .. } | Order::Ask(_) => return Some(order),
        Order::PullRecord { .. } | Order::PullHead { .. } => return Some(order),
    };
    let waiting = region.routed.waiting.borrow().get(&id).cloned();
    let Some(sender) = waiting else {
        return Some(order);
    };
    let turn = match order {
        Order::Apply { .. } => Some(Turn::Here),
        Order::Forward {
            peer, epoch, left, ..
        } => errand(driver, region, peer, epoch, left),
        Order::Abandon { .. } => Some(Turn::Abandoned),
        Order::Answer {
            answer: region::Answer::Refused(refusal),
            ..
        } => Some(Turn::Refused(Box::new(refusal))),
        // A route has no content that could be there already.
        _ => None,
    };
    match turn {
        Some(turn) => drop(sender.try_send(turn)),
        None => drop(tell(driver, |routing, now| {
            routing.handle_forwarded(id, Forwarded::NotSent, now);
        })),
    }
    None
}

fn errand(
    driver: &Driver,
    region: &Region,
    peer: crate::model::region::NodeIndex,
    epoch: Epoch,
    left: Duration,
) -> Option<Turn> {
    let record = region.routing.borrow().record().cloned()?;
    Some(Turn::Elsewhere(Box::new(Errand {
        node: record.node(peer).cloned()?,
        record,
        epoch,
        deadline: driver.clock.now() + left,
    })))
}
