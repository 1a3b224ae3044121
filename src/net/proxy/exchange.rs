//! One request at one destination: the request up and the answer down, at the same time.
//!
//! Owns the two directions of a forwarded request. Each reads once, gives what it read to the other
//! side, and reads again when that took it all: a slow reader slows its writer down, and what a
//! request holds is bounded by one read each way. Content is passed on as it comes, so an event
//! stream arrives event by event.
//!
//! Ends early: when the client goes, the destination's connection is dropped at once. When nothing
//! moved for the cluster's `ActivityTimeout`, it is given up. A destination that answers before it
//! has the whole request is heard out.
//!
//! Never sends anything twice, and never more of an answer than was read in good order: one that
//! breaks off ends the client's connection without the end of its content.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use futures_lite::AsyncRead;

use crate::net::connection::{Connection, Expiry};
use crate::net::upstream::dial::Stream;
use crate::state::deadlines::Reason;
use crate::time::{Duration, Instant};
use crate::wire::DecodeError;
use crate::wire::forward::{self, Added, Framing};
use crate::wire::http::answer::{Asked, Head};
use crate::wire::http::{Body, Method};

use super::request::{Content, Outline};
use super::rest::Rest;

/// Reads of one direction before the other tasks have their turn.
const READS_PER_POLL: usize = 16;

/// Why an exchange failed, and by that whose fault it was.
#[derive(Debug)]
pub enum Fault {
    /// The client went, or takes nothing.
    ClientGone,
    /// The client's content cannot be read.
    ClientMalformed(DecodeError),
    /// The client's content does not come.
    ClientSilent,
    /// The destination's connection ended.
    Closed(io::ErrorKind),
    /// The destination's answer cannot be read.
    Malformed(DecodeError),
    /// The destination takes nothing, or says nothing.
    Silent,
}

/// How an exchange ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The answer is out, and what the destination said about its connection.
    Answered { keeps_alive: bool },
    /// From here on it is not HTTP.
    Tunnel,
}

/// How far an exchange came.
pub struct Course {
    /// That of the answer, once anything of it went to the client.
    pub status: Option<u16>,
    /// The whole request was sent.
    pub is_sent: bool,
    /// The whole request was read, though perhaps not sent.
    pub is_read: bool,
    /// The client was told that its connection ends.
    pub is_closing: bool,
    /// What came behind the answer: the beginning of a tunnel, else nothing that anybody asked for.
    pub inbox: Vec<u8>,
}

/// A request under way.
pub struct Exchange<'a> {
    connection: &'a Rc<Connection>,
    /// Read from the client and not dealt with: content, or the next request.
    buffer: &'a mut Vec<u8>,
    stream: &'a mut Stream,
    outline: Outline,
    content: Content,
    up: Rest,
    is_sent: bool,
    /// The destination takes no more of the request; it may still answer.
    is_deaf: bool,
    set_cookie: Option<String>,
    /// Read from the destination and not dealt with.
    inbox: Vec<u8>,
    interim: usize,
    answer: Option<Answer>,
    down: Rest,
    patience: Patience,
}

/// An answer whose head was read.
struct Answer {
    status: u16,
    body: Body,
    framing: Framing,
    keeps_alive: bool,
}

/// When something last moved, and the deadline that follows.
pub struct Patience {
    expiry: Rc<Expiry>,
    timeout: Duration,
    moved: Instant,
    armed: Option<(Instant, Reason)>,
}

impl Patience {
    /// Waits for `timeout` from now on.
    pub fn new(connection: &Connection, timeout: Duration) -> Patience {
        Patience {
            expiry: connection.expiry(),
            timeout,
            moved: connection.driver.clock.now(),
            armed: None,
        }
    }

    /// Whether nothing moved for too long.
    pub fn is_over(&self, context: &mut Context<'_>) -> bool {
        self.expiry.poll(context).is_ready()
    }

    /// Something moved.
    pub fn note(&mut self, connection: &Connection) {
        self.moved = connection.driver.clock.now();
    }

    /// Sets the deadline of the connection. A client that takes nothing is reset, as everywhere.
    pub fn arm(&mut self, connection: &Connection, is_client_full: bool) {
        let limits = &connection.driver.limits;
        let (reason, timeout) = match is_client_full {
            true => (Reason::Stall, self.timeout.min(limits.stall_timeout)),
            false => (Reason::Activity, self.timeout),
        };
        let due = (self.moved + timeout, reason);
        if self.armed.replace(due) != Some(due) {
            connection.arm_at(due.0, reason);
        }
    }
}

impl<'a> Exchange<'a> {
    /// A request whose head, and what there was of its content, lies in `up`.
    pub fn new(
        connection: &'a Rc<Connection>,
        buffer: &'a mut Vec<u8>,
        stream: &'a mut Stream,
        (outline, content, up): (Outline, Content, Rest),
        timeout: Duration,
    ) -> Exchange<'a> {
        Exchange {
            patience: Patience::new(connection, timeout),
            connection,
            buffer,
            stream,
            outline,
            content,
            up,
            is_sent: false,
            is_deaf: false,
            set_cookie: None,
            inbox: Vec::new(),
            interim: 0,
            answer: None,
            down: Rest::default(),
        }
    }

    /// With a cookie that binds the client, if the destination answers.
    pub fn binding(mut self, set_cookie: Option<String>) -> Exchange<'a> {
        self.set_cookie = set_cookie;
        self
    }

    /// With what came before there was an exchange: perhaps the beginning of the answer.
    pub fn hearing(mut self, inbox: Vec<u8>) -> Exchange<'a> {
        self.inbox = inbox;
        self
    }

    /// Carries the request up and the answer down.
    pub async fn run(&mut self) -> Result<End, Fault> {
        if !self.inbox.is_empty() {
            self.take_answer()?;
        }
        poll_fn(|context| self.poll(context)).await
    }

    /// How far it came.
    pub fn course(self) -> Course {
        Course {
            status: self.answer.as_ref().map(|answer| answer.status),
            is_sent: self.is_sent,
            is_read: self.content.is_read(),
            is_closing: self.outline.close,
            inbox: self.inbox,
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<End, Fault>> {
        if self.patience.is_over(context) {
            return Poll::Ready(Err(self.overdue()));
        }
        if !self.is_sent && !self.is_deaf {
            match self.poll_up(context) {
                Poll::Ready(Ok(())) => self.is_sent = true,
                // It may have answered before it closed.
                Poll::Ready(Err(Fault::Closed(_))) => self.is_deaf = true,
                Poll::Ready(Err(fault)) => return Poll::Ready(Err(fault)),
                Poll::Pending => {}
            }
        }
        // An end that was sent together with the request must not take the answer's place.
        let down = self.poll_down(context);
        if down.is_ready() {
            return down;
        }
        if self.is_sent && self.poll_gone(context).is_ready() {
            return Poll::Ready(Err(Fault::ClientGone));
        }
        self.patience.arm(self.connection, !self.down.is_empty());
        Poll::Pending
    }

    fn overdue(&self) -> Fault {
        match !self.is_sent && self.up.is_empty() && !self.content.is_read() {
            true => Fault::ClientSilent,
            false => Fault::Silent,
        }
    }

    fn poll_up(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        for _ in 0..READS_PER_POLL {
            let sent = ready!(self.up.poll_to(self.stream, context));
            if sent.map_err(|error| Fault::Closed(error.kind()))? > 0 {
                self.patience.note(self.connection);
            }
            if !self.up.is_empty() {
                continue;
            }
            if self.content.is_read() {
                self.up.release();
                return Poll::Ready(Ok(()));
            }
            let has_taken = self
                .content
                .take(self.buffer, &mut self.up, self.connection)
                .map_err(Fault::ClientMalformed)?;
            if has_taken {
                continue;
            }
            match self.poll_read_client(context) {
                Poll::Ready(Ok(1..)) => self.patience.note(self.connection),
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Err(Fault::ClientGone)),
                Poll::Pending => {
                    self.up.release();
                    if self.buffer.is_empty() {
                        *self.buffer = Vec::new();
                    }
                    return Poll::Pending;
                }
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_read_client(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let bytes_max = self.connection.driver.limits.head_bytes_max;
        let buffer = &mut *self.buffer;
        let sink = |bytes: &[u8]| buffer.extend_from_slice(bytes);
        self.connection.poll_read_some(context, bytes_max, sink)
    }

    /// Ready when the client is gone. What it sends ahead meanwhile is kept, up to its bound.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.buffer.len() < self.connection.driver.limits.head_bytes_max {
            if let Ok(0) | Err(_) = ready!(self.poll_read_client(context)) {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    fn poll_down(&mut self, context: &mut Context<'_>) -> Poll<Result<End, Fault>> {
        for _ in 0..READS_PER_POLL {
            if !self.down.is_empty() {
                let given = ready!(self.down.poll_to_client(self.connection, context));
                match given {
                    Ok(0) => {}
                    Ok(_) => self.patience.note(self.connection),
                    Err(_) => return Poll::Ready(Err(Fault::ClientGone)),
                }
                if !self.down.is_empty() {
                    continue;
                }
            }
            if let Some(end) = self.end() {
                return Poll::Ready(Ok(end));
            }
            match self.poll_receive(context) {
                Poll::Ready(Ok(0)) => self.take_end()?,
                Poll::Ready(Ok(_)) => {
                    self.patience.note(self.connection);
                    self.take_answer()?;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Fault::Closed(error.kind()))),
                Poll::Pending => {
                    self.down.release();
                    if self.inbox.is_empty() {
                        self.inbox = Vec::new();
                    }
                    return Poll::Pending;
                }
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut scratch = self.connection.driver.scratch.borrow_mut();
        let count = ready!(Pin::new(&mut *self.stream).poll_read(context, &mut scratch))?;
        self.inbox.extend_from_slice(&scratch[..count]);
        Poll::Ready(Ok(count))
    }

    fn end(&self) -> Option<End> {
        let answer = self.answer.as_ref()?;
        match answer.framing {
            Framing::Tunnel => Some(End::Tunnel),
            _ if answer.body.is_end() => Some(End::Answered {
                keeps_alive: answer.keeps_alive && self.inbox.is_empty(),
            }),
            _ => None,
        }
    }

    /// The destination's connection has ended: so may have its answer.
    fn take_end(&mut self) -> Result<(), Fault> {
        let early = || Fault::Closed(io::ErrorKind::UnexpectedEof);
        let answer = self.answer.as_mut().ok_or_else(early)?;
        answer.body.handle_end().map_err(|_| early())?;
        if answer.framing == Framing::Chunked {
            self.down.push(forward::LAST_CHUNK);
        }
        Ok(())
    }

    /// Moves what was read of the answer to where the client takes it.
    fn take_answer(&mut self) -> Result<(), Fault> {
        if self.answer.is_none() && !self.take_head().map_err(Fault::Malformed)? {
            return Ok(());
        }
        let Some(answer) = &mut self.answer else {
            return Ok(());
        };
        if answer.framing == Framing::Tunnel || answer.body.is_end() {
            return Ok(());
        }
        let (down, limits) = (&mut self.down, &self.connection.driver.limits);
        let is_chunked = answer.framing == Framing::Chunked;
        let consumed = answer.body.decode_all(&self.inbox, limits, |bytes| {
            match is_chunked {
                true => down.push_chunk(bytes),
                false => down.push(bytes),
            }
            Ok(())
        });
        self.inbox.drain(..consumed.map_err(Fault::Malformed)?);
        if answer.body.is_end() && is_chunked {
            down.push(forward::LAST_CHUNK);
        }
        Ok(())
    }

    /// Reads the head of the answer, past interim ones, which end here. `false` while it is not
    /// complete.
    fn take_head(&mut self) -> Result<bool, DecodeError> {
        let Outline {
            method, is_upgrade, ..
        } = self.outline;
        let asked = match (method, is_upgrade) {
            (_, true) => Asked::Upgrade,
            (Method::Head, _) => Asked::Head,
            _ => Asked::Content,
        };
        let driver = &self.connection.driver;
        loop {
            let Some(head) = Head::parse(&self.inbox, asked, &driver.limits)? else {
                return Ok(false);
            };
            if head.is_interim() {
                self.interim += 1;
                if self.interim > driver.limits.interim_answers_max {
                    return Err(DecodeError::Malformed("too many interim answers"));
                }
                let length = head.length;
                self.inbox.drain(..length);
                continue;
            }
            let framing = Framing::of(method, head.status, length(&head));
            // What is still to come of the request may never come.
            let close = self.outline.close || !self.is_sent || driver.is_draining();
            let date = driver.clock.date();
            let added = Added {
                set_cookie: self.set_cookie.as_deref(),
                date: std::str::from_utf8(&date).unwrap_or(""),
                close,
            };
            let fields: Vec<(&str, &[u8])> = head.fields().collect();
            let bytes = forward::response(head.status, fields.into_iter(), framing, added)?;
            self.outline.close = close;
            let length = head.length;
            self.answer = Some(Answer {
                status: head.status,
                keeps_alive: head.keeps_alive,
                body: head.body,
                framing,
            });
            self.inbox.drain(..length);
            self.down = Rest::of(bytes);
            return Ok(true);
        }
    }
}

/// The length that an answer announces, whether its content follows or not.
fn length(head: &Head<'_>) -> Option<u64> {
    if let Some(length) = head.body.remaining().filter(|length| *length > 0) {
        return Some(length);
    }
    let mut fields = head.fields();
    let (_, value) = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"))?;
    std::str::from_utf8(value).ok()?.parse().ok()
}
