//! A subscriber on its connection: a WebSocket or an event stream.
//!
//! Owns the frame that is being written and the place in it. Two write to it: the broadcast loop,
//! which hands a new snapshot straight to every socket that takes it, and the client's own task,
//! which goes on when a socket that was full takes more. Both call [`Client::pump`]; it never waits
//! and always finishes a frame before it asks for the next, so no frame is ever torn.
//!
//! The await-point rule: the task waits on its socket in one place, for both directions at once; it
//! reads on while it cannot write, or a peer that waits for us to read would be waited for by us.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::model::{KeyIndex, SlotIndex};
use crate::state::fanout::{Control, Kind, Next, Subscription};
use crate::state::slab::Key;
use crate::wire::frame::Frame;
use crate::wire::publication::Publication;
use crate::wire::websocket::{self, Decoder, Inbound};
use crate::wire::{cors, sse};

use super::connection::Connection;
use super::driver::{Driver, Place};
use super::reload::CLOSE_KEY_REMOVED;

/// Reads in one poll before others get their turn.
const READS_PER_POLL: usize = 16;

/// What is said before the first frame.
pub enum Greeting {
    /// The whole 101 answer.
    WebSocket(String),
    Sse,
}

/// A stream that was decided on.
pub struct Opening {
    pub slot: SlotIndex,
    pub key: KeyIndex,
    pub kind: Kind,
    pub greet: bool,
    pub greeting: Greeting,
}

/// A connection that becomes a stream.
pub struct Upgrade {
    /// What was asked for.
    pub opening: Opening,
    /// Bytes that came behind the request.
    pub unread: Vec<u8>,
}

/// How far a pump came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Everything is out.
    Idle,
    /// The socket takes no more for now.
    Blocked,
    /// The last frame is out; nothing follows.
    Closed,
}

/// A subscriber on its connection.
pub struct Client {
    pub connection: Rc<Connection>,
    key: Key,
    kind: Kind,
    /// What is being written, and how much of it is out.
    frame: RefCell<Option<(Rc<Frame>, usize)>>,
    waker: Cell<Option<Waker>>,
    blocked: Cell<bool>,
}

/// Opens the stream and serves it to its end.
pub async fn open(connection: Rc<Connection>, upgrade: Box<Upgrade>) {
    let greeted = Box::pin(greet(connection, upgrade)).await;
    let Some((client, place, mut inbox)) = greeted else {
        return;
    };
    let ended = poll_fn(|context| client.poll(context, &mut inbox)).await;
    drop((inbox, place));
    // Said in order, the end is waited for; a peer that went, or was reset, is not.
    if ended.is_ok() {
        Box::pin(client.connection.linger()).await;
    }
}

async fn greet(
    connection: Rc<Connection>,
    upgrade: Box<Upgrade>,
) -> Option<(Rc<Client>, Place, Inbox)> {
    let Upgrade { opening, unread } = *upgrade;
    let driver = &connection.driver;
    let head = match &opening.greeting {
        Greeting::WebSocket(answer) => answer.clone(),
        Greeting::Sse => sse_head(driver),
    };
    connection.write(&[head.as_bytes()]).await.ok()?;
    connection.disarm();
    let subscription = Subscription {
        slot: opening.slot,
        kind: opening.kind,
        key: opening.key,
        greet: opening.greet,
    };
    let (client, place) = driver
        .join(subscription, |key| Client {
            connection: connection.clone(),
            key,
            kind: opening.kind,
            frame: RefCell::new(None),
            waker: Cell::new(None),
            blocked: Cell::new(false),
        })
        .ok()?;
    let mut state = driver.state.borrow_mut();
    // While the head went out, a reload may have taken the key away.
    if state.access.may_use(opening.key, opening.slot).is_err() {
        state.fanout.close(client.key, CLOSE_KEY_REMOVED);
    }
    drop(state);
    let mut inbox = Inbox::new(&client);
    inbox.take(&client, &unread);
    Some((client, place, inbox))
}

fn sse_head(driver: &Driver) -> String {
    let date = driver.clock.date();
    let date = std::str::from_utf8(&date).unwrap_or("");
    let retry_ms = u64::try_from(driver.limits.sse_retry.as_millis()).unwrap_or(u64::MAX / 2);
    let preamble = sse::preamble(retry_ms + driver.random_below(retry_ms));
    format!(
        "{}{}date: {date}\r\n\r\n{preamble}",
        sse::RESPONSE_HEAD,
        cors::ANSWER_LINE
    )
}

/// What a client's bytes are given to.
struct Inbox {
    /// Event streams have none: what their clients send means nothing.
    decoder: Option<Box<Decoder>>,
}

impl Inbox {
    fn new(client: &Client) -> Inbox {
        let limits = &client.connection.driver.limits;
        let is_read = client.kind == Kind::WebSocket;
        Inbox {
            decoder: is_read.then(|| Box::new(Decoder::new(limits))),
        }
    }

    fn take(&mut self, client: &Client, bytes: &[u8]) {
        let inbound = self
            .decoder
            .as_mut()
            .and_then(|decoder| decoder.decode(bytes));
        let Some(inbound) = inbound else { return };
        let mut state = client.connection.driver.state.borrow_mut();
        match inbound {
            Inbound::Ping(payload) => state.fanout.pong(client.key, payload),
            Inbound::Close(code) => {
                state.fanout.close(client.key, code);
                self.decoder = None;
            }
        }
    }
}

impl Client {
    /// The name of this client in the fan-out.
    pub fn key(&self) -> Key {
        self.key
    }

    /// Lets the client's task look at it.
    pub fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Whether the socket was full at the last write: its own task goes on when it takes more.
    pub fn is_blocked(&self) -> bool {
        self.blocked.get()
    }

    /// Ready at the end of the stream: `Ok` when we ended it, an error when the peer did.
    fn poll(&self, context: &mut Context<'_>, inbox: &mut Inbox) -> Poll<io::Result<()>> {
        self.waker.set(Some(context.waker().clone()));
        let mut reads = 0;
        loop {
            match self
                .connection
                .poll_read(context, |bytes| inbox.take(self, bytes))
            {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Poll::Ready(Ok(_)) if reads == READS_PER_POLL => {
                    context.waker().wake_by_ref();
                    break;
                }
                Poll::Ready(Ok(_)) => reads += 1,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => break,
            }
        }
        loop {
            match self.pump() {
                Err(error) => return Poll::Ready(Err(error)),
                Ok(Progress::Closed) => return Poll::Ready(Ok(())),
                Ok(Progress::Idle) => return Poll::Pending,
                Ok(Progress::Blocked) => match self.connection.io().poll_writable(context) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return Poll::Pending,
                },
            }
        }
    }

    /// Writes what there is, as far as the socket takes it.
    ///
    /// Bounded by the socket's buffer: every frame but the last is out whole.
    pub fn pump(&self) -> io::Result<Progress> {
        match self.write_frames() {
            Ok(progress) => {
                if self.blocked.replace(false) {
                    self.connection.disarm();
                }
                Ok(progress)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let is_new = !self.blocked.replace(true);
                self.connection.arm_stall(is_new);
                Ok(Progress::Blocked)
            }
            Err(error) => Err(error),
        }
    }

    fn write_frames(&self) -> io::Result<Progress> {
        let mut place = self.frame.borrow_mut();
        loop {
            if place.is_none() {
                let mut state = self.connection.driver.state.borrow_mut();
                let Some(next) = state.fanout.next(self.key) else {
                    let closed = state.fanout.is_closed(self.key);
                    drop(state);
                    self.connection.io().try_flush()?;
                    return Ok(if closed {
                        Progress::Closed
                    } else {
                        Progress::Idle
                    });
                };
                drop(state);
                *place = Some((self.encode(next), 0));
            }
            let Some((frame, offset)) = place.as_mut() else {
                continue;
            };
            while *offset < frame.length() {
                *offset += self.connection.io().try_write(&frame.rest(*offset))?;
            }
            *place = None;
        }
    }

    fn encode(&self, next: Next<Publication>) -> Rc<Frame> {
        let frames = &self.connection.driver.frames;
        match (self.kind, next) {
            (Kind::WebSocket, Next::Control(Control::Pong(payload))) => {
                websocket::pong(payload).into()
            }
            (Kind::WebSocket, Next::Control(Control::Heartbeat)) => frames.heartbeat.clone(),
            (Kind::WebSocket, Next::Control(Control::Close(code))) => websocket::close(code).into(),
            (Kind::WebSocket, Next::Registration(_) | Next::Change(_)) => frames.change.clone(),
            (Kind::Sse, Next::Registration(published)) => published.registration.clone(),
            (Kind::Sse, Next::Change(published)) => published.change.clone(),
            (_, Next::Registration(published)) => published.registration_only.clone(),
            (_, Next::Change(published)) => published.change_only.clone(),
            (_, Next::Control(Control::Heartbeat)) => frames.comment.clone(),
            (_, Next::Control(Control::Close(_))) => frames.end.clone(),
            (_, Next::Control(Control::Pong(_))) => Rc::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::net::connection::Door;
    use crate::net::rig::Rig;
    use std::io::IoSlice;

    const UPGRADE: &[u8] = b"GET /apprapp/wsfeature?instance_id=g-1&collection_id=c\
        &environment_id=e HTTP/1.1\r\nHost: r\r\nAuthorization: secret\r\nUpgrade: websocket\r\n\
        Connection: upgrade\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

    #[test]
    fn a_key_that_goes_while_a_stream_opens_takes_the_stream_along() {
        let rig = Rig::new(Limits::PRODUCTION);
        let mut client = rig.connect_by(Door::Sdk, 16);
        for part in UPGRADE.chunks(16) {
            client.write(&[IoSlice::new(part)]).unwrap();
            rig.settle();
        }
        let mut state = rig.driver.state.borrow_mut();
        state.access.replace(Vec::new(), 0);
        state.close_not_allowed(CLOSE_KEY_REMOVED);
        drop(state);
        let (answer, ended) = rig.read(&mut client);
        assert!(answer.starts_with(b"HTTP/1.1 101 "));
        assert!(answer.ends_with(b"\r\n\r\n\x88\x02\x03\xe9") && ended);
    }
}
