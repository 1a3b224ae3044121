//! The life of a connection: TLS or not, one request after the other, until it ends or becomes a
//! stream.
//!
//! Owns the order of things: read a head within its time, let `route` decide (at once, without
//! waiting), take the body that the decision needs, write the answer, keep the connection or not.
//!
//! The await-point rule: no borrow of the head, of state or of the transport is held across a wait;
//! what `route` decides is owned. While the connection is idle its buffer is given up, and the
//! future of a request is in a box of its own: an idle connection costs a small task and nothing
//! else. A stream goes on in a new task.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use futures_lite::future::yield_now;

use crate::model::Reject;
use crate::state::deadlines::Reason;
use crate::wire::http::response::Answer;
use crate::wire::http::{Body, Head, Method};
use crate::wire::{DecodeError, cors};

use super::admin::Command;
use super::connection::{Connection, Door};
use super::driver::Driver;
use super::proxy::{self, Call, Served};
use super::route::{self, Action, Wanted};
use super::stream::{self, Upgrade};
use super::{document, tls};

/// The first byte of a TLS record that can begin a connection.
const TLS_HANDSHAKE: u8 = 0x16;

/// What is left to do with a connection after a request.
enum After {
    /// Serve a stream on it from now on.
    Stream(Box<Upgrade>),
    /// Read the first request inside a tunnel, in the time of a head.
    First,
    /// Read the next request.
    Next,
    /// End it in order; the peer may still be sending.
    Linger,
    /// End it: the peer is gone.
    Done,
}

/// Serves an accepted connection to its end.
pub async fn serve(connection: Rc<Connection>) {
    // An error is the peer's own failure; what was worth counting is counted where it happened.
    if let Ok(Some(upgrade)) = serve_requests(&connection).await {
        let driver = connection.driver.clone();
        driver.spawn_for_client(stream::open(connection, upgrade));
    }
}

/// Serves requests until the connection ends or becomes a stream.
pub async fn serve_requests(connection: &Rc<Connection>) -> io::Result<Option<Box<Upgrade>>> {
    let mut buffer = Vec::new();
    connection.arm(Reason::Head);
    if connection.read_wire(&mut buffer).await? == 0 {
        return Ok(None);
    }
    if buffer[0] == TLS_HANDSHAKE {
        Box::pin(start_tls(connection, std::mem::take(&mut buffer))).await?;
    }
    loop {
        let after = match Box::pin(serve_one(connection, &mut buffer)).await? {
            After::Next if is_last(connection, &buffer) => After::Linger,
            after => after,
        };
        match after {
            After::First => {}
            After::Next if buffer.is_empty() => {
                buffer = Vec::new();
                connection.arm(Reason::Idle);
                if connection.read(&mut buffer).await? == 0 {
                    return Ok(None);
                }
                connection.arm(Reason::Head);
            }
            // A client that sends ahead takes its turn with the others.
            After::Next => {
                connection.arm(Reason::Head);
                yield_now().await;
            }
            After::Linger => {
                Box::pin(connection.linger()).await;
                return Ok(None);
            }
            After::Stream(upgrade) => return Ok(Some(upgrade)),
            After::Done => return Ok(None),
        }
    }
}

/// Whether no other request is served on it: the relay ends, and none has come.
fn is_last(connection: &Connection, buffer: &[u8]) -> bool {
    connection.driver.is_draining() && buffer.is_empty() && connection.io().is_quiet()
}

async fn start_tls(connection: &Rc<Connection>, unread: Vec<u8>) -> io::Result<()> {
    let driver = &connection.driver;
    let config = driver.tls.borrow().clone();
    let Some(config) = config.filter(|_| matches!(connection.door, Door::Sdk | Door::Lobby)) else {
        driver.count(|counters| counters.handshakes_refused += 1);
        return Err(io::ErrorKind::Unsupported.into());
    };
    let result = tls::accept(connection, config, unread).await;
    driver.count(|counters| match result {
        Ok(()) => counters.handshakes += 1,
        Err(_) => counters.handshakes_failed += 1,
    });
    connection.arm(Reason::Head);
    result
}

/// Reads one request from `buffer` and the connection, and answers it.
async fn serve_one(connection: &Rc<Connection>, buffer: &mut Vec<u8>) -> io::Result<After> {
    let driver = &connection.driver;
    let (action, request) = loop {
        if let Some(decided) = decide(connection, buffer) {
            break decided;
        }
        if connection.read(buffer).await? == 0 {
            return Ok(After::Done);
        }
    };
    if let Action::Forward(call) = action {
        return Box::pin(forward(connection, buffer, request, call)).await;
    }
    buffer.drain(..request.head_length);
    match action {
        // Dealt with above: its head is still needed.
        Action::Forward(_) => Ok(After::Done),
        Action::Stream(opening) => Ok(After::Stream(Box::new(Upgrade {
            opening,
            unread: std::mem::take(buffer),
        }))),
        Action::Tunnel => {
            connection
                .write(&[b"HTTP/1.1 200 Connection established\r\n\r\n"])
                .await?;
            tunnel(connection, buffer).await
        }
        Action::Document(answer) => {
            let mut close = request.close;
            let answer = match request.body.is_end() {
                true => answer,
                // Nobody sends a body with this; who does, and slowly, keeps no snapshot alive.
                false => {
                    let ask = answer.ask;
                    drop(answer);
                    close |= !discard_body(connection, buffer, &request).await?;
                    ask.resume(driver)?
                }
            };
            document::send(connection, &answer, close).await?;
            Ok(if close { After::Linger } else { After::Next })
        }
        Action::Answer(answer) => {
            let drained = discard_body(connection, buffer, &request).await?;
            send(connection, answer, &request, !drained).await
        }
        Action::Drop => Ok(After::Done),
        Action::Body(wanted) => {
            let taken = Box::pin(take_body(connection, buffer, &request, wanted)).await?;
            let (answer, unread) = taken;
            send(connection, answer, &request, unread).await
        }
    }
}

/// Forwards a request, and answers it where that failed.
async fn forward(
    connection: &Rc<Connection>,
    buffer: &mut Vec<u8>,
    request: Request,
    call: Call,
) -> io::Result<After> {
    let unread = buffer.split_off(request.head_length);
    let head = std::mem::replace(buffer, unread);
    let served = Box::pin(proxy::serve(connection, buffer, head, call, request.close)).await;
    Ok(match served {
        Served::Kept => After::Next,
        Served::Ended => After::Linger,
        Served::Broken => After::Done,
        Served::Answer { answer, is_whole } => {
            return send(connection, answer, &request, !is_whole).await;
        }
    })
}

/// Reads the body that was wanted and answers; whether something was left unread. The body's room
/// is its own until then.
async fn take_body(
    connection: &Rc<Connection>,
    buffer: &mut Vec<u8>,
    request: &Request,
    wanted: Wanted,
) -> io::Result<(Answer, bool)> {
    let driver = &connection.driver;
    Ok(
        match read_body(connection, buffer, request, &wanted).await? {
            Ok((body, _room)) => (route::with_body(connection, wanted, body).await, false),
            Err(NotRead::Crowded) => (wanted.crowded(driver), true),
            Err(NotRead::Fault(DecodeError::BodyTooLarge)) => (wanted.too_large(driver), true),
            Err(NotRead::Fault(fault)) => (fault_answer(fault), true),
        },
    )
}

/// Why there is no body.
enum NotRead {
    Fault(DecodeError),
    /// The bodies of others take all the room.
    Crowded,
}

/// What outlives the head of a request.
struct Request {
    method: Method,
    head_length: usize,
    body: Body,
    expects_continue: bool,
    close: bool,
}

/// Reads the head, if it is complete, and decides. Everything that is returned is owned.
fn decide(connection: &Rc<Connection>, buffer: &[u8]) -> Option<(Action, Request)> {
    let driver = &connection.driver;
    match Head::parse(buffer, &driver.limits) {
        Ok(None) => None,
        Ok(Some(head)) => {
            driver.count(|counters| counters.requests += 1);
            let request = Request {
                method: head.method,
                head_length: head.length,
                body: head.body.clone(),
                expects_continue: head.expects_continue,
                close: head.close || connection.door == Door::Lobby || driver.is_draining(),
            };
            Some((route::decide(connection, &head), request))
        }
        Err(fault) => {
            driver.count(|counters| counters.malformed += 1);
            let request = Request {
                method: Method::Get,
                head_length: buffer.len(),
                body: Body::empty(),
                expects_continue: false,
                close: true,
            };
            Some((Action::Answer(fault_answer(fault)), request))
        }
    }
}

/// The answer to a request that cannot be read, or that nobody here can do.
pub(super) fn fault_answer(fault: DecodeError) -> Answer {
    let body = format!(
        "{{\"status_code\":{},\"message\":\"{}\"}}",
        fault.status(),
        fault.what().replace(['"', '\\'], "")
    );
    let (name, value) = cors::ANSWER;
    Answer::json(fault.status(), body).with(name, value)
}

async fn send(
    connection: &Connection,
    answer: Answer,
    request: &Request,
    must_close: bool,
) -> io::Result<After> {
    let close = request.close || must_close;
    let date = connection.driver.clock.date();
    let date = std::str::from_utf8(&date).unwrap_or("");
    let bytes = answer.encode(request.method, date, close);
    connection.write(&[&bytes]).await?;
    Ok(if close { After::Linger } else { After::Next })
}

/// Inside a tunnel there is TLS and nothing else.
async fn tunnel(connection: &Rc<Connection>, buffer: &mut Vec<u8>) -> io::Result<After> {
    connection.arm(Reason::Head);
    if buffer.is_empty() && connection.read_wire(buffer).await? == 0 {
        return Ok(After::Done);
    }
    if buffer[0] != TLS_HANDSHAKE {
        connection.driver.count(|counters| counters.malformed += 1);
        return Ok(After::Done);
    }
    Box::pin(start_tls(connection, std::mem::take(buffer))).await?;
    Ok(After::First)
}

/// Reads the body of a request that needs it, whole, up to its bound; with it the room that it
/// takes, if it is one of those that compete for some.
async fn read_body<'c>(
    connection: &'c Connection,
    buffer: &mut Vec<u8>,
    request: &Request,
    wanted: &Wanted,
) -> io::Result<Result<(Vec<u8>, Option<Room<'c>>), NotRead>> {
    let limits = &connection.driver.limits;
    let bytes_max = wanted.bytes_max(limits);
    let too_large = NotRead::Fault(DecodeError::BodyTooLarge);
    let mut body = request.body.clone();
    if body
        .remaining()
        .is_some_and(|length| length > bytes_max as u64)
    {
        return Ok(Err(too_large));
    }
    if request.expects_continue && buffer.is_empty() && !body.is_end() {
        connection
            .write(&[b"HTTP/1.1 100 Continue\r\n\r\n"])
            .await?;
    }
    connection.arm(Reason::Body);
    let mut content = Vec::new();
    // A body no longer than a head takes the place of the head that came before it. Only longer
    // ones compete for room, and those are taken from clients that have shown a key: nobody else's
    // bodies can keep an SDK from its token.
    let is_large = bytes_max > limits.head_bytes_max;
    let mut room = is_large.then(|| Room::none(&connection.driver, wanted));
    let mut is_full = false;
    loop {
        let take = |bytes: &[u8]| {
            let length = content.len() + bytes.len();
            let fits = length <= bytes_max;
            is_full = fits && room.as_mut().is_some_and(|room| !room.grow(length));
            if !fits || is_full {
                return Err(DecodeError::BodyTooLarge);
            }
            content.extend_from_slice(bytes);
            Ok(())
        };
        match body.decode_all(buffer, limits, take) {
            Ok(consumed) => drop(buffer.drain(..consumed)),
            Err(_) if is_full => return Ok(Err(NotRead::Crowded)),
            Err(fault) => return Ok(Err(NotRead::Fault(fault))),
        }
        if body.is_end() {
            return Ok(Ok((content, room)));
        }
        read_on(connection, buffer).await?;
    }
}

/// Reads more of a body. Meanwhile an empty buffer is given up: who sends slowly holds nothing.
async fn read_on(connection: &Connection, buffer: &mut Vec<u8>) -> io::Result<()> {
    if buffer.is_empty() {
        *buffer = Vec::new();
    }
    match connection.read(buffer).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// What one body that is being read takes of the bytes that all of its kind may.
struct Room<'a> {
    bodies: &'a Cell<usize>,
    bytes_max: usize,
    taken: usize,
}

impl<'a> Room<'a> {
    /// Pushes have room of their own: no client's reports keep an operator out.
    fn none(driver: &'a Driver, wanted: &Wanted) -> Room<'a> {
        let (bodies, bytes_max) = match wanted {
            Wanted::Admin(_) | Wanted::Peer(_) => {
                (&driver.pushes.bytes, driver.limits.pushes_bytes_max)
            }
            _ => (&driver.body_bytes, driver.limits.bodies_bytes_max),
        };
        Room {
            bodies,
            bytes_max,
            taken: 0,
        }
    }

    /// Takes room for `length` bytes in all; `false` when there is none.
    fn grow(&mut self, length: usize) -> bool {
        let others = self.bodies.get() - self.taken;
        if others + length > self.bytes_max {
            return false;
        }
        self.bodies.set(others + length);
        self.taken = length;
        true
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.bodies.set(self.bodies.get() - self.taken);
    }
}

/// Reads past the body of a request that does not need it. `false`: it is not worth it, or not
/// possible; the connection has to end.
async fn discard_body(
    connection: &Connection,
    buffer: &mut Vec<u8>,
    request: &Request,
) -> io::Result<bool> {
    let limits = &connection.driver.limits;
    let mut left = limits.body_drain_bytes_max;
    let mut body = request.body.clone();
    if body.is_end() {
        return Ok(true);
    }
    let is_long = body.remaining().is_some_and(|length| length > left as u64);
    let is_lobby = connection.door == Door::Lobby;
    // A client that waits to be asked for its body gets its answer instead.
    if is_long || is_lobby || (request.expects_continue && buffer.is_empty()) {
        return Ok(false);
    }
    connection.arm(Reason::Body);
    loop {
        let Ok(consumed) = body.decode_all(buffer, limits, |_| Ok(())) else {
            return Ok(false);
        };
        buffer.drain(..consumed);
        if body.is_end() {
            return Ok(true);
        }
        left = left.saturating_sub(consumed);
        if left == 0 {
            return Ok(false);
        }
        read_on(connection, buffer).await?;
    }
}

impl Wanted {
    /// A body over its bound. Events are answered as if they had been taken: an SDK that hears
    /// anything but 202 may lose more than this report.
    fn too_large(&self, driver: &Driver) -> Answer {
        match self {
            Wanted::Events { kind, .. } => {
                driver.state.borrow_mut().events.handle_malformed(*kind);
                route::accepted()
            }
            Wanted::Admin(Command::Push(push)) => push.too_large(driver),
            Wanted::Peer(command) => command.too_large(driver),
            Wanted::Token | Wanted::Admin(Command::Reload | Command::Record) => {
                driver.refuse(Reject::BodyTooLarge)
            }
        }
    }

    /// A body for which there is no room beside the others.
    fn crowded(&self, driver: &Driver) -> Answer {
        match self {
            Wanted::Admin(Command::Push(push)) => push.crowded(driver),
            Wanted::Peer(command) => command.crowded(driver),
            _ => self.too_large(driver),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::net::rig::Rig;

    const TOKEN: &str = "POST /identity/token HTTP/1.1\r\nHost: r\r\n";
    const FORM: &str = "grant_type=urn%3Aibm%3Aparams%3Aoauth%3Agrant-type%3Aapikey&apikey=secret";

    fn post(head: &str, length: usize, body: &str) -> Vec<u8> {
        format!("{head}Content-Length: {length}\r\n\r\n{body}").into_bytes()
    }

    #[test]
    fn stalled_bodies_keep_nobody_from_a_token() {
        let limits = Limits {
            bodies_bytes_max: 1000,
            ..Limits::PRODUCTION
        };
        let rig = Rig::new(limits);
        let mut stalled = [Door::Sdk; 5].map(|door| rig.connect(door));
        for client in &mut stalled {
            let (answer, _) = rig.exchange(client, &post(TOKEN, 501, &"x".repeat(500)));
            assert_eq!(answer, "");
        }
        let mut client = rig.connect(Door::Sdk);
        let (answer, ended) = rig.exchange(&mut client, &post(TOKEN, FORM.len(), FORM));
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(!ended);
    }

    #[test]
    fn who_waits_to_be_asked_for_a_body_is_refused_at_once() {
        let rig = Rig::new(Limits::PRODUCTION);
        let usage = "POST /apprapp/events/v1/instances/g-1/usage HTTP/1.1\r\nHost: r\r\n";
        for (head, length) in [
            (format!("{usage}Expect: 100-continue\r\n"), 9),
            (usage.into(), 1 << 40),
        ] {
            let mut client = rig.connect(Door::Sdk);
            let (answer, ended) = rig.exchange(&mut client, &post(&head, length, ""));
            assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
            assert!(answer.contains("\r\nconnection: close\r\n") && ended);
        }
    }

    #[test]
    fn bodies_in_tiny_chunks_are_read_whole() {
        let rig = Rig::new(Limits::PRODUCTION);
        let chunks: String = FORM
            .chars()
            .map(|letter| format!("1\r\n{letter}\r\n"))
            .collect();
        let request = format!("{TOKEN}Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n");
        let mut client = rig.connect(Door::Sdk);
        let (answer, _) = rig.exchange(&mut client, request.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    }

    fn future_bytes<A, F: Future>(_: impl FnOnce(A) -> F) -> usize {
        size_of::<F>()
    }

    /// The static build's allocator gives powers of two and keeps 16 bytes of them; the executor
    /// adds 64 to a future, and an `Rc` 16.
    #[test]
    fn an_idle_client_costs_a_small_task() {
        let stream = |(connection, upgrade)| stream::open(connection, upgrade);
        assert!(future_bytes(serve) <= 256 - 80);
        assert!(future_bytes(stream) <= 256 - 80);
        assert!(size_of::<Connection>() <= 128 - 32);
        assert!(size_of::<stream::Client>() <= 128 - 32);
    }

    #[test]
    fn a_page_can_see_that_its_request_was_malformed() {
        let rig = Rig::new(Limits::PRODUCTION);
        let mut client = rig.connect(Door::Sdk);
        let (answer, ended) = rig.exchange(&mut client, b"GET / HTTP/1.1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        assert!(answer.contains("\r\naccess-control-allow-origin: *\r\n") && ended);
    }
}
