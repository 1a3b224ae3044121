//! A write on its way to the primary's writer.
//!
//! Owns one task for each forward. It is sent once; what became of it is told to `state::region`,
//! which has it sent again only where no byte of it left or the peer has refused it whole. An
//! answer of the peer goes to the client as it is.
//!
//! Not everything that answers is a node: a proxy in between may, or a relay that does not know the
//! peer key. An answer without `X-Relay-Outcome` is no node's. A refusal among them (4xx) was
//! certainly not applied, and is a refusal to routing too; of anything else nobody knows.
//!
//! Invariant: whoever is given up has no task any more, so that nothing of it comes late.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use smol::Task;

use crate::model::region::{Epoch, Node, NodeIndex, Outcome, Reason, Record, Refusal, Subject};
use crate::model::{Id, SlotKey};
use crate::net::driver::Driver;
use crate::net::log::Cause;
use crate::state::region::{Forwarded, RequestId};
use crate::time::{Duration, Instant};
use crate::wire::http::Method;
use crate::wire::http::request::Request;
use crate::wire::http::response::Answer;
use crate::wire::region::peer::{self as fields, PeerHead};
use crate::wire::region::problem;
use crate::wire::region::target::Target;

use super::peer::{self, Answered, Bounds, Failure};
use super::write::{self, Parked};
use super::{Region, tell};

/// The status of a refusal that another node would not make.
const MISDIRECTED: u16 = 421;

/// The forwards that are under way.
#[derive(Default)]
pub struct Forwards {
    tasks: RefCell<BTreeMap<RequestId, Task<()>>>,
}

#[cfg(test)]
impl Forwards {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.tasks.borrow().len()
    }
}

/// What goes to whom.
struct Errand {
    id: RequestId,
    slot: SlotKey,
    parked: Parked,
    own: Id,
    node: Node,
    record: Rc<Record>,
    epoch: Epoch,
    deadline: Instant,
}

/// Sends a parked request to a peer, which has so much time for it.
pub fn forward(driver: &Rc<Driver>, id: RequestId, peer: NodeIndex, epoch: Epoch, left: Duration) {
    let Some(region) = &driver.region else { return };
    let Some(errand) = errand(driver, region, id, (peer, epoch, left)) else {
        return finish(driver, id, Forwarded::NotSent);
    };
    let task = driver.task(run(driver.clone(), errand));
    region.forwards.tasks.borrow_mut().insert(id, task);
}

/// Gives a forward up, however far it is.
pub fn abandon(driver: &Rc<Driver>, id: RequestId) {
    if let Some(region) = &driver.region {
        let task = region.forwards.tasks.borrow_mut().remove(&id);
        // Behind the borrow: with it goes its connection.
        drop(task);
    }
}

fn errand(
    driver: &Driver,
    region: &Region,
    id: RequestId,
    (peer, epoch, left): (NodeIndex, Epoch, Duration),
) -> Option<Errand> {
    let record = region.routing.borrow().record().cloned()?;
    let parked = write::parked(driver, id)?;
    let state = driver.state.borrow();
    let loaded = driver.loaded.borrow();
    Some(Errand {
        id,
        slot: state.slots.of(parked.slot)?.key.clone(),
        parked,
        own: loaded.config.region.as_ref()?.node.clone(),
        node: record.node(peer).cloned()?,
        record,
        epoch,
        deadline: driver.clock.now() + left,
    })
}

async fn run(driver: Rc<Driver>, errand: Errand) {
    let outcome = send_on(&driver, &errand).await;
    let id = errand.id;
    if let Some(region) = &driver.region {
        let task = region.forwards.tasks.borrow_mut().remove(&id);
        // It is this very task.
        if let Some(task) = task {
            task.detach();
        }
    }
    let (what, problem) = match outcome {
        Ok(answered) => match sort(answered, &errand) {
            Sorted::Passed(answer) => {
                finish(&driver, id, Forwarded::Answered);
                return write::pass(&driver, id, answer);
            }
            Sorted::Refused(refusal) => {
                return finish(&driver, id, Forwarded::Refused(refusal));
            }
            Sorted::Unknown(status) => {
                let problem = format!("{} answered {status}, as no node does", errand.node.name);
                (Forwarded::Lost, problem)
            }
        },
        Err(Failure::NotSent(error)) => (Forwarded::NotSent, error.to_string()),
        Err(Failure::Lost(error)) => (Forwarded::Lost, error.to_string()),
    };
    finish(&driver, id, what);
    driver.log.limited(
        Cause::ForwardFailed,
        driver.clock.now(),
        format_args!("a write could not be sent on to a peer: {problem}"),
    );
}

fn finish(driver: &Driver, id: RequestId, what: Forwarded) {
    tell(driver, |routing, now| {
        routing.handle_forwarded(id, what, now)
    });
}

async fn send_on(driver: &Driver, errand: &Errand) -> Result<Answered, Failure> {
    let bounds = Bounds {
        bytes_max: driver.limits.region.status_bytes_max,
        // Its deadline is routing's, which gives it up.
        silence: errand.record.timing.hold + driver.limits.region.ask_timeout,
    };
    let request = || {
        tell(driver, |routing, _| routing.handle_sent(errand.id));
        errand.request(driver.clock.now())
    };
    Box::pin(peer::ask(driver, &errand.node, bounds, request)).await
}

impl Errand {
    /// The request as it goes out: what its client has sent, and what this node says about it.
    fn request(&self, now: Instant) -> Request {
        let head = PeerHead {
            cluster: self.record.cluster.clone(),
            from: self.own.clone(),
            hops: 1,
            epoch: self.epoch,
            left: self.deadline.since(now),
        };
        let target = Target::Slot(self.slot.clone()).write();
        let mut request = Request::new(Method::Put, target)
            .with_body("application/json", self.parked.body.to_vec())
            .with("via", fields::via_entry(&self.own));
        request.fields.extend(head.fields());
        request.fields.extend(self.parked.conditions.fields());
        if self.parked.is_compressed {
            request = request.with("content-encoding", "gzip");
        }
        match &self.parked.key {
            Some(key) => request.with(fields::IDEMPOTENCY_KEY, &**key),
            None => request,
        }
    }
}

/// What an answer is.
#[derive(Debug, PartialEq, Eq)]
enum Sorted {
    /// A node's, for the client.
    Passed(Answer),
    /// The write was not taken.
    Refused(Refusal),
    /// Of this status, and nobody knows whose.
    Unknown(u16),
}

fn sort(answered: Answered, errand: &Errand) -> Sorted {
    let Answered { status, .. } = answered;
    let is_nodes = answered.field(fields::OUTCOME).is_some();
    let refusal = problem::read(&answered.body).filter(|_| is_nodes && status == MISDIRECTED);
    match (refusal, status) {
        (Some(refusal), _) => Sorted::Refused(refusal),
        (None, 200..300 | 400..600) if is_nodes && status != MISDIRECTED => {
            Sorted::Passed(Answer {
                status,
                fields: answered.fields,
                body: answered.body,
            })
        }
        (None, 400..500) => Sorted::Refused(Refusal {
            reason: Reason::NotPrimary,
            outcome: Outcome::NotAttempted,
            subject: Some(Subject::Slot(errand.slot.clone())),
            epoch: Some(errand.epoch),
            primary: None,
            // What it holds was not said: then it is no news.
            version: Some(errand.record.version),
            words: format!(
                "{} answered {status}, as no node does that knows this one: compare the peer keys",
                errand.node.name
            ),
        }),
        (None, _) => Sorted::Unknown(status),
    }
}
