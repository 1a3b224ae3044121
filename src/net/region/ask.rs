//! What this node asks its peers: for their status, and for a newer record.
//!
//! Owns one task for each question, and who did not answer the last one, so that an outage is two
//! lines in the log however long it lasts. A question that is not answered in its time is given up;
//! what an answer is worth is said by `state::region`.
//!
//! Invariant: a peer is asked for its record once at a time, since one that is far away may take
//! longer than the wait from one pull to the next.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::model::Id;
use crate::model::region::{Node, NodeIndex, Status};
use crate::net::driver::Driver;
use crate::net::upstream::UpstreamError;
use crate::net::upstream::deadline::within;
use crate::net::upstream::error::{Problem, Step};
use crate::state::region::Ask;
use crate::time::Duration;
use crate::wire::DecodeError;
use crate::wire::http::Method;
use crate::wire::http::request::Request;
use crate::wire::region::status;
use crate::wire::region::target::{Question, Target};

use super::peer::{self, Answered, Bounds};
use super::record::{self, Origin};
use super::{replica, tell};

/// The questions that are under way, and what came of the last ones.
#[derive(Default)]
pub struct Asks {
    /// Peers whose records are being pulled.
    pulling: RefCell<BTreeSet<Id>>,
    /// Peers that did not answer the last question.
    silent: RefCell<BTreeSet<Id>>,
}

/// Asks a peer for its status. Bounded by the time that it is told to wait, and `ask_timeout`.
pub fn ask(driver: &Rc<Driver>, ask: Ask) {
    let node = node(driver, ask.peer);
    let asking = driver.clone();
    driver.spawn(async move {
        let status = match node {
            Some(node) => question(&asking, &node, &ask).await,
            None => None,
        };
        tell(&asking, |routing, now| match &status {
            Some(status) => routing.handle_status(ask.id, status, now),
            None => routing.handle_ask_failed(ask.id, now),
        });
        if let Some(status) = status {
            replica::handle_status(&asking, &status);
        }
    });
}

/// Pulls a peer's record, and offers it as any other. Bounded by `ask_timeout`, and by what it
/// takes to store one.
pub fn pull_record(driver: &Rc<Driver>, peer: NodeIndex) {
    let (Some(region), Some(node)) = (&driver.region, node(driver, peer)) else {
        return;
    };
    if !region.asks.pulling.borrow_mut().insert(node.name.clone()) {
        return;
    }
    let pulling = driver.clone();
    driver.spawn(async move {
        let bytes_max = pulling.limits.region.record_bytes_max;
        let pulled = get(&pulling, &node, Target::State, bytes_max, Duration::ZERO).await;
        if let Some(answered) = pulled {
            let origin = Origin::Peer(node.name.to_string());
            // What is wrong with it is in the log, and in what is shown.
            let _ = record::offer(&pulling, answered.body, origin).await;
        }
        if let Some(region) = &pulling.region {
            region.asks.pulling.borrow_mut().remove(&node.name);
        }
    });
}

/// A node of the record that counts.
pub(super) fn node(driver: &Driver, index: NodeIndex) -> Option<Node> {
    let region = driver.region.as_ref()?;
    let routing = region.routing.borrow();
    routing.record()?.node(index).cloned()
}

async fn question(driver: &Driver, node: &Node, ask: &Ask) -> Option<Status> {
    let bytes_max = driver.limits.region.status_bytes_max;
    let target = Target::Status(Question {
        after: ask.after,
        wait: ask.wait,
    });
    let answered = get(driver, node, target, bytes_max, ask.wait).await?;
    let status = status::read(&answered.body);
    if status.is_none() {
        let unreadable = Problem::Protocol(DecodeError::Malformed("the status of a node"));
        told(
            driver,
            node,
            Err(&UpstreamError::new(&node.url, unreadable)),
        );
    }
    status
}

/// A 200 of a node; none is said once.
async fn get(
    driver: &Driver,
    node: &Node,
    target: Target,
    bytes_max: usize,
    wait: Duration,
) -> Option<Answered> {
    let patience = wait + driver.limits.region.ask_timeout;
    let silence = patience;
    let bounds = Bounds { bytes_max, silence };
    let request = || Request::new(Method::Get, target.write());
    let asking = Box::pin(peer::ask(driver, node, bounds, request));
    let failed = |problem| UpstreamError::new(&node.url, problem);
    let outcome = match within(&driver.clock, patience, asking).await {
        Some(Ok(answered)) if answered.status == 200 => Ok(answered),
        Some(Ok(Answered { status, .. })) => Err(failed(Problem::Status {
            status,
            retry_after: None,
        })),
        Some(Err(failure)) => Err(failure.error().clone()),
        None => Err(failed(Problem::Timeout(Step::Whole))),
    };
    told(driver, node, outcome.as_ref().map(drop));
    outcome.ok()
}

/// One line when a peer stops answering, and one when it answers again.
fn told(driver: &Driver, node: &Node, outcome: Result<(), &UpstreamError>) {
    let Some(region) = &driver.region else { return };
    let name = &node.name;
    let mut silent = region.asks.silent.borrow_mut();
    match outcome {
        Ok(()) if silent.remove(name) => {
            driver.log.note(format_args!("peer {name} answers again"));
            replica::handle_reached(driver, name);
        }
        Ok(()) => {}
        Err(error) => {
            if silent.insert(name.clone()) {
                let advice = match error.problem {
                    Problem::Status {
                        status: 401 | 404, ..
                    } => {
                        "; do both nodes have the same peer key, and is `region` configured there?"
                    }
                    _ => "",
                };
                driver
                    .log
                    .warn(format_args!("peer {name} does not answer: {error}{advice}"));
            }
        }
    }
}
