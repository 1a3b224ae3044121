//! One request, from its route to its answer.
//!
//! Owns the order: choose a destination, get a connection (an idle one, or a new one), send, and
//! tell `state` how it ended. Only while there is no connection may another destination be chosen,
//! once; what went out on one is never sent again, since nobody knows what became of it.
//!
//! Answers of the relay's own: 503 without content where nobody may be asked, as YARP does; 502
//! when the destination cannot be had or breaks off, 504 when it is silent, both before anything of
//! an answer came. None of them sets a cookie. A client of an event stream hears none of it: its
//! connection ends, because it would take any status for the last word.

use std::rc::Rc;

use crate::model::Reject;
use crate::model::proxy::Address;
use crate::net::connection::Connection;
use crate::net::driver::Driver;
use crate::net::http::fault_answer;
use crate::net::log::Cause;
use crate::net::upstream::deadline::within;
use crate::net::upstream::dial::{Stream, dial};
use crate::state::destinations::{Choice, Finish, Ticket};
use crate::time::Instant;
use crate::wire::affinity;
use crate::wire::forward::{self, CONTINUE, Hop, Onward};
use crate::wire::http::Head;
use crate::wire::http::response::Answer;
use crate::wire::{DecodeError, http::Method};

use super::exchange::{Course, End, Exchange, Fault};
use super::request::{Request, Taken};
use super::rest::Rest;
use super::{Call, note_health, tunnel, turn, way};

/// What became of a request.
pub enum Served {
    /// It was answered, and the client's connection can take the next one.
    Kept,
    /// It was answered, and the client was told that its connection ends.
    Ended,
    /// There is nothing more to say on the client's connection.
    Broken,
    /// It was not answered, and is to be with this. `is_whole`: its content was read to the
    /// end.
    Answer { answer: Answer, is_whole: bool },
}

/// A choice that is being tried.
struct Attempt {
    choice: Choice,
    ticket: Ticket,
    address: Rc<Address>,
    head: Vec<u8>,
}

/// Forwards a request. `head` is its own bytes, `buffer` what came behind it; `close`: the
/// connection ends after the answer, whatever becomes of it.
///
/// Bounded by the cluster's `ActivityTimeout` for as long as nothing moves.
pub async fn serve(
    connection: &Rc<Connection>,
    buffer: &mut Vec<u8>,
    head: Vec<u8>,
    call: Call,
    close: bool,
) -> Served {
    let driver = &connection.driver;
    // Its head is here; from now on others are waited for.
    connection.disarm();
    let Ok(mut request) = Request::read(head, &call, connection, close) else {
        return Served::Broken;
    };
    // What is wrong with content that is here already is found before anybody is asked.
    let early = request
        .taken
        .content
        .take(buffer, &mut request.up, connection);
    if let Err(fault) = early {
        driver.count(|counters| counters.malformed += 1);
        return refused(fault);
    }
    match &call.entrance {
        None => local(connection, buffer, &call, request).await,
        Some(entrance) => Box::pin(turn::serve(connection, buffer, &call, entrance, request)).await,
    }
}

/// Sends a request to a destination of its own cluster.
pub async fn local(
    connection: &Rc<Connection>,
    buffer: &mut Vec<u8>,
    call: &Call,
    request: Request,
) -> Served {
    let driver = &connection.driver;
    let Request {
        head,
        taken,
        cookie,
        up,
        began,
    } = request;
    let choice = driver.state.borrow_mut().destinations.choose(
        call.cluster(),
        cookie.as_deref(),
        driver.clock.now(),
    );
    let (stream, attempt) = match reach(connection, call, &head, choice).await {
        Ok(reached) => reached,
        Err(answer) => {
            return call.own(answer, taken.content.is_read());
        }
    };
    drop(head);
    let method = taken.outline.method;
    let set_cookie = call.affinity().zip(attempt.choice.establish);
    let set_cookie = set_cookie.map(|(affinity, key)| {
        let is_tls = connection.io().is_tls();
        affinity::set_cookie(affinity, key, is_tls, driver.clock.wall())
    });
    let Attempt {
        choice,
        ticket,
        address,
        head,
    } = attempt;
    let job = Job {
        call,
        address: &address,
        taken,
        set_cookie,
        head: Rest::of(head),
        content: up,
    };
    let (served, finished, status) = carry(connection, buffer, stream, job).await;
    finish(driver, &choice, ticket, finished);
    told(driver, call, method, (&choice, &address, status), began);
    served
}

/// A request and the destination that has it now.
struct Job<'a> {
    call: &'a Call,
    address: &'a Rc<Address>,
    taken: Taken,
    set_cookie: Option<String>,
    head: Rest,
    /// Of the content, what is here already.
    content: Rest,
}

/// Sends a request and gives the client its answer: what became of it, as whose failure it counts,
/// and the status that the client got.
async fn carry(
    connection: &Rc<Connection>,
    buffer: &mut Vec<u8>,
    mut stream: Stream,
    job: Job<'_>,
) -> (Served, Finish, Option<u16>) {
    let Taken {
        outline,
        content,
        expects_continue,
    } = job.taken;
    let is_awaited = expects_continue && job.content.is_empty() && !content.is_read();
    // A node asks whether its request is taken, with content or without.
    let is_awaited = is_awaited || expects_continue && job.call.is_from_peer();
    if is_awaited && connection.write(&[CONTINUE]).await.is_err() {
        return (Served::Broken, Finish::Abandoned, None);
    }
    let (call, mut up) = (job.call, job.head);
    up.append(job.content);
    let timeout = call.rules.proxy.clusters[call.cluster()].activity_timeout;
    let request = (outline, content, up);
    let mut exchange =
        Exchange::new(connection, buffer, &mut stream, request, timeout).binding(job.set_cookie);
    let outcome = exchange.run().await;
    let Course {
        status,
        is_sent,
        is_read,
        is_closing,
        inbox,
    } = exchange.course();
    connection.disarm();
    match outcome {
        Ok(End::Answered { keeps_alive }) => {
            let driver = &connection.driver;
            if keeps_alive && is_sent {
                driver.proxy.pool.put(job.address.clone(), stream, driver);
            }
            match is_sent && !is_closing {
                true => (Served::Kept, Finish::Answered, status),
                false => (Served::Ended, Finish::Answered, status),
            }
        }
        Ok(End::Tunnel) => {
            let unread = std::mem::take(buffer);
            Box::pin(tunnel::run(connection, &mut stream, unread, inbox, timeout)).await;
            (Served::Broken, Finish::Answered, status)
        }
        Err(fault) => {
            let (served, finished) =
                failed(connection, (call, job.address), fault, status, is_read);
            (served, finished, status)
        }
    }
}

fn refused(fault: DecodeError) -> Served {
    Served::Answer {
        answer: fault_answer(fault),
        is_whole: false,
    }
}

impl Call {
    /// An answer of the relay's own; none to an event stream.
    fn own(&self, answer: Answer, is_whole: bool) -> Served {
        match self.is_stream && answer.status >= 500 {
            true => Served::Broken,
            false => Served::Answer { answer, is_whole },
        }
    }
}

/// Gets a connection to the chosen destination, or to the one other that may be tried.
async fn reach(
    connection: &Rc<Connection>,
    call: &Call,
    head: &[u8],
    choice: Choice,
) -> Result<(Stream, Attempt), Answer> {
    let driver = &connection.driver;
    let mut choice = choice;
    let mut is_second = false;
    loop {
        let attempt = attempt(connection, call, head, choice)?;
        if let Some(stream) = driver.proxy.pool.take(&attempt.address) {
            return Ok((stream, attempt));
        }
        let way = way(&attempt.address);
        let patience = driver.limits.destination_connect_timeout;
        let dialling = Box::pin(dial(&driver.proxy.net, &way));
        let problem = match within(&driver.clock, patience, dialling).await {
            Some(Ok(stream)) => return Ok((stream, attempt)),
            Some(Err(error)) => error.to_string(),
            None => format!("{}: no connection in time", attempt.address),
        };
        finish(driver, &choice, attempt.ticket, Finish::Failed);
        driver.log.limited(
            Cause::DestinationFailed,
            driver.clock.now(),
            format_args!("a destination cannot be reached: {problem}"),
        );
        let now = driver.clock.now();
        let again = match is_second {
            true => None,
            false => driver
                .state
                .borrow_mut()
                .destinations
                .choose_again(choice, now),
        };
        let Some(again) = again else {
            return Err(driver.refuse(Reject::DestinationFailed));
        };
        (choice, is_second) = (again, true);
    }
}

/// Begins with a choice: its ticket, where it leads, and the head as it goes there.
fn attempt(
    connection: &Connection,
    call: &Call,
    raw: &[u8],
    choice: Choice,
) -> Result<Attempt, Answer> {
    let driver = &connection.driver;
    let mut state = driver.state.borrow_mut();
    let key = choice.destination;
    let found = key.and_then(|key| Some((key, state.destinations.destination(key)?)));
    let Some((key, destination)) = found else {
        let cluster = &call.rules.proxy.clusters[call.cluster()];
        driver.log.limited(
            Cause::NoDestination,
            driver.clock.now(),
            format_args!(
                "a request to cluster {} got 503: {}",
                cluster.id,
                choice.outcome.as_str()
            ),
        );
        return Err(Answer::new(503));
    };
    let limits = &driver.limits;
    let (client, is_tls) = {
        let io = connection.io();
        (io.peer().map(|peer| peer.to_string()), io.is_tls())
    };
    let onward = Onward {
        address: &destination.address,
        host: destination.host.as_deref(),
        client: client.as_deref(),
        is_tls,
        hop: match call.is_from_peer() {
            true => Hop::FromPeer,
            false => Hop::Server,
        },
    };
    let encoded = match Head::parse(raw, limits) {
        Ok(Some(head)) => forward::request(raw, &head, onward),
        Ok(None) => Err(DecodeError::Malformed("request head")),
        Err(fault) => Err(fault),
    };
    let head = encoded.map_err(fault_answer)?;
    let address = Rc::new(destination.address.clone());
    Ok(Attempt {
        ticket: state.destinations.begin(key),
        choice,
        address,
        head,
    })
}

fn finish(driver: &Rc<Driver>, choice: &Choice, ticket: Ticket, result: Finish) {
    if let Some(destination) = choice.destination {
        note_health(driver, destination, None, |destinations, now| {
            destinations.finish(ticket, result, now);
        });
    }
}

/// What the client gets for a failed exchange, and whose failure it counts as.
fn failed(
    connection: &Connection,
    (call, address): (&Call, &Address),
    fault: Fault,
    status: Option<u16>,
    is_read: bool,
) -> (Served, Finish) {
    let driver = &connection.driver;
    let (answer, finished, problem) = match fault {
        Fault::ClientGone => return (Served::Broken, Finish::Abandoned),
        Fault::ClientMalformed(fault) => {
            driver.count(|counters| counters.malformed += 1);
            (fault_answer(fault), Finish::Abandoned, None)
        }
        Fault::ClientSilent => (Answer::new(408), Finish::Abandoned, None),
        Fault::Closed(kind) => (
            driver.refuse(Reject::DestinationFailed),
            Finish::Failed,
            Some(format!("its connection ended too early ({kind})")),
        ),
        Fault::Malformed(fault) => (
            driver.refuse(Reject::DestinationFailed),
            Finish::Failed,
            Some(format!("its answer cannot be read ({fault})")),
        ),
        Fault::Silent => (
            driver.refuse(Reject::DestinationSilent),
            Finish::Failed,
            Some("nothing moved for its ActivityTimeout".to_owned()),
        ),
    };
    if let Some(problem) = problem {
        driver.log.limited(
            Cause::DestinationFailed,
            driver.clock.now(),
            format_args!("a destination failed a request: {address}: {problem}"),
        );
    }
    let served = match status {
        // Something of its answer is out: nothing else can be said.
        Some(_) => Served::Broken,
        None => call.own(answer, is_read),
    };
    (served, finished)
}

/// One line for developers.
fn told(
    driver: &Driver,
    call: &Call,
    method: Method,
    (choice, address, status): (&Choice, &Address, Option<u16>),
    began: Instant,
) {
    let Call { rules, route, .. } = call;
    let took_ms = (driver.clock.now() - began).as_millis();
    driver.log.debug(format_args!(
        "{} by route {} to {} ({address}): {}, {}, {took_ms} ms",
        http_types::Method::from(method),
        rules.proxy.routes[*route].id,
        rules.proxy.clusters[call.cluster()].id,
        status.map_or_else(|| "no answer".to_owned(), |status| status.to_string()),
        choice.outcome.as_str(),
    ));
}
