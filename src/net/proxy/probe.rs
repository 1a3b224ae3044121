//! Asks destinations for their health.
//!
//! Owns one probe: a request of its own on a connection of its own, and whether it was answered
//! with 2xx in its time. Whom to ask when, and what follows from the answer, is for
//! `state::destinations` to say.

use std::rc::Rc;

use crate::net::driver::Driver;
use crate::net::upstream::client::USER_AGENT;
use crate::net::upstream::deadline::within;
use crate::net::upstream::dial::{Way, dial};
use crate::net::upstream::error::Problem;
use crate::net::upstream::fetch::{read_head, send, unsendable};
use crate::net::upstream::{Net, UpstreamError};
use crate::state::destinations::Probe;
use crate::wire::http::Method;
use crate::wire::http::answer::{Asked, Head};
use crate::wire::http::request::Request;

use super::way;

/// Begins the probes that are due.
///
/// Bounded by `probes_max`.
pub fn drain(driver: &Rc<Driver>) {
    let now = driver.clock.now();
    loop {
        let probe = driver.state.borrow_mut().destinations.poll_probe(now);
        let Some(probe) = probe else { return };
        driver.spawn(run(driver.clone(), probe));
    }
}

async fn run(driver: Rc<Driver>, probe: Probe) {
    let net = driver.proxy.net.clone();
    let problem = match question(&driver, &probe) {
        None => return,
        Some((way, bytes)) => {
            let asking = Box::pin(ask(&net, &way, bytes));
            match within(&driver.clock, probe.timeout, asking).await {
                Some(Ok(())) => None,
                Some(Err(error)) => Some(error.to_string()),
                None => Some("no answer in time".to_owned()),
            }
        }
    };
    super::note_health(
        &driver,
        probe.destination,
        problem.as_deref(),
        |state, now| {
            state.handle_probe(probe, problem.is_none(), now);
        },
    );
    driver.wake();
}

/// Where to ask, and what; `None` for a destination that went.
fn question(driver: &Driver, probe: &Probe) -> Option<(Way, Result<Vec<u8>, Problem>)> {
    let state = driver.state.borrow();
    let destination = state.destinations.destination(probe.destination)?;
    let check = state.destinations.active_check(probe.destination)?;
    let address = destination.health.as_ref().unwrap_or(&destination.address);
    let target = match format!("{}{}", address.path, check.path) {
        path if path.is_empty() => format!("/{}", check.query),
        path => format!("{path}{}", check.query),
    };
    let request = Request::new(Method::Get, target)
        .with("user-agent", USER_AGENT)
        .with("connection", "close");
    let host = destination.host.as_deref().map(str::to_owned);
    let bytes = request.encode(&host.unwrap_or_else(|| address.authority()));
    Some((way(address), bytes.map_err(unsendable)))
}

async fn ask(net: &Net, way: &Way, bytes: Result<Vec<u8>, Problem>) -> Result<(), UpstreamError> {
    let host = way.endpoint.to_string();
    let at_host = |problem| UpstreamError::new(&host, problem);
    let bytes = bytes.map_err(at_host)?;
    let mut stream = dial(net, way).await?;
    send(&mut stream, &bytes, net).await.map_err(at_host)?;
    let mut buffer = Vec::new();
    let took = |head: &Head<'_>| head.status;
    let status = read_head(&mut stream, &mut buffer, Asked::Content, net, took).await;
    match status.map_err(at_host)? {
        200..300 => Ok(()),
        status => Err(at_host(Problem::Status {
            status,
            retry_after: None,
        })),
    }
}
