//! The change socket of an upstream: a WebSocket, on the relay's own connection.
//!
//! Owns the upgrade, by the same strict reader as every other answer, and the frames after it. The
//! codec is the library's, without its streams: it is given what can be read now and takes what can
//! be written now, so that one task drives a socket, a wait can be dropped at any point, and what
//! is queued goes out with the next.
//!
//! Pings are answered by the codec, in the next poll. A socket says nothing of deadlines: whether a
//! silent one is lost is the session's to say.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use async_tungstenite::tungstenite::error::Error;
use async_tungstenite::tungstenite::handshake::derive_accept_key;
use async_tungstenite::tungstenite::protocol::frame::CloseFrame;
use async_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use async_tungstenite::tungstenite::protocol::{Role, WebSocketConfig, WebSocketContext};
use async_tungstenite::tungstenite::{Bytes, Message};
use data_encoding::BASE64;
use futures_lite::{AsyncRead, AsyncWrite};

use crate::limits::Limits;
use crate::state::session::{Inbound, Loss};
use crate::wire::DecodeError;
use crate::wire::http::answer::{Asked, Head};
use crate::wire::http::request::Request;
use crate::wire::websocket::HEARTBEAT_TEXT;

use super::client::Net;
use super::deadline::within;
use super::dial::{Stream, Way, dial, host_and_port};
use super::error::{Problem, Step, UpstreamError};
use super::fetch::{encode, read_head, refusal, send};

/// Held while the socket is open; messages are a line.
const READ_BUFFER_BYTES: usize = 1024;
/// Control frames that wait for the connection to take them: a dozen.
const WRITE_BUFFER_BYTES: usize = 2048;
/// Messages taken in a row before other tasks get their turn.
const BATCH: u32 = 64;

/// Why a socket is at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The upstream closed it, with this code if it gave one.
    Closed(Option<u16>),
    /// The connection broke.
    Lost(io::ErrorKind),
    /// What came is no WebSocket, or a message over its bound.
    Broken,
}

impl Ended {
    /// As the session hears of it.
    pub const fn loss(self) -> Loss {
        match self {
            Ended::Closed(_) | Ended::Lost(_) => Loss::Closed,
            Ended::Broken => Loss::Unusable,
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Closed(Some(code)) => write!(formatter, "closed by the upstream ({code})"),
            Ended::Closed(None) => formatter.write_str("closed by the upstream"),
            Ended::Lost(kind) => write!(formatter, "the connection broke ({kind})"),
            Ended::Broken => formatter.write_str("the upstream sent what is no WebSocket"),
        }
    }
}

/// An open change socket. Dropped, it closes its connection without a word.
pub struct Socket {
    stream: Stream,
    codec: WebSocketContext,
    ended: Option<Ended>,
    in_a_row: u32,
}

/// Upgrades a connection to the server at the end of `way` by `request`, a `GET`.
///
/// # Errors
/// A refusal comes with its status and `Retry-After`; its content is not read.
///
/// Bounded by the time-outs of a connection and of silence, together.
pub async fn open(net: &Net, way: &Way, request: Request) -> Result<Socket, UpstreamError> {
    let patience = net.limits.upstream_connect_timeout + net.limits.upstream_idle_timeout;
    let upgrading = Box::pin(upgrade(net, way, request));
    match within(&net.clock, patience, upgrading).await {
        Some(outcome) => outcome,
        None => {
            let host = host_and_port(&way.endpoint);
            Err(UpstreamError::new(&host, Problem::Timeout(Step::Answer)))
        }
    }
}

async fn upgrade(net: &Net, way: &Way, request: Request) -> Result<Socket, UpstreamError> {
    let host = host_and_port(&way.endpoint);
    let at_host = |problem| UpstreamError::new(&host, problem);
    let key = BASE64.encode(&net.nonce());
    let request = request
        .with("connection", "Upgrade")
        .with("upgrade", "websocket")
        .with("sec-websocket-version", "13")
        .with("sec-websocket-key", key.as_str());
    let bytes = encode(way, request).map_err(at_host)?;
    let mut stream = dial(net, way).await?;
    send(&mut stream, &bytes, net).await.map_err(at_host)?;
    let accept = derive_accept_key(key.as_bytes());
    let took = |head: &Head<'_>| match (head.status, head.websocket_accept) {
        (101, Some(found)) if found == accept => Ok(head.length),
        (101 | 200..300, _) => Err(Problem::Protocol(DecodeError::Malformed(
            "no WebSocket where one was asked for",
        ))),
        _ => Err(refusal(head, net).unwrap_or(Problem::Busy)),
    };
    let mut buffer = Vec::new();
    let read = read_head(&mut stream, &mut buffer, Asked::Upgrade, net, took);
    let length = read.await.and_then(|judged| judged).map_err(at_host)?;
    let unread = buffer.split_off(length);
    Ok(Socket::new(stream, unread, &net.limits))
}

impl Socket {
    fn new(stream: Stream, unread: Vec<u8>, limits: &Limits) -> Socket {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER_BYTES)
            .write_buffer_size(0)
            .max_write_buffer_size(WRITE_BUFFER_BYTES)
            .max_message_size(Some(limits.upstream_message_bytes_max))
            .max_frame_size(Some(limits.upstream_message_bytes_max));
        Socket {
            stream,
            codec: WebSocketContext::from_partially_read(unread, Role::Client, Some(config)),
            ended: None,
            in_a_row: 0,
        }
    }

    /// What the upstream says next. Can be dropped at any point, and asked again.
    ///
    /// # Errors
    /// The socket is at its end, and stays there.
    pub async fn next(&mut self) -> Result<Inbound, Ended> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Queues a ping; it goes out with the next poll of [`Socket::next`], and its answer comes as
    /// [`Inbound::Other`]. Never waits.
    pub fn ping(&mut self) {
        self.queue(Message::Ping(Bytes::new()));
    }

    /// Closes the socket in order: says so, and waits for the answer.
    ///
    /// Bounded by `close_timeout`.
    pub async fn close(mut self, net: &Net) {
        self.queue(Message::Close(Some(CloseFrame {
            code: CloseCode::Normal,
            reason: Default::default(),
        })));
        let answered = async { while self.next().await.is_ok() {} };
        // Without an answer it is closed all the same.
        let _ = within(&net.clock, net.limits.close_timeout, answered).await;
    }

    /// Queues a frame: the codec keeps what the connection, here none, does not take. A full queue
    /// belongs to a connection that takes nothing, which shows by itself.
    fn queue(&mut self, message: Message) {
        let _ = self.codec.write(&mut Nowhere, message);
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Inbound, Ended>> {
        if let Some(ended) = self.ended {
            return Poll::Ready(Err(ended));
        }
        self.in_a_row += 1;
        if self.in_a_row > BATCH {
            self.in_a_row = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let stream = &mut self.stream;
        let mut wire = Now { stream, context };
        let message = match self.codec.flush(&mut wire) {
            Err(error) if !is_would_block(&error) => Err(error),
            _ => self.codec.read(&mut wire),
        };
        let ended = match message {
            Ok(Message::Text(text)) if text.as_str() == HEARTBEAT_TEXT => {
                return Poll::Ready(Ok(Inbound::Heartbeat));
            }
            Ok(Message::Text(_)) => return Poll::Ready(Ok(Inbound::Change)),
            Ok(Message::Close(frame)) => {
                // The codec has queued the answer.
                let _ = self.codec.flush(&mut wire);
                Ended::Closed(frame.map(|frame| frame.code.into()))
            }
            Ok(_) => return Poll::Ready(Ok(Inbound::Other)),
            Err(error) if is_would_block(&error) => {
                self.in_a_row = 0;
                return Poll::Pending;
            }
            Err(error) => reason(&error),
        };
        self.ended = Some(ended);
        Poll::Ready(Err(ended))
    }
}

fn is_would_block(error: &Error) -> bool {
    matches!(error, Error::Io(error) if error.kind() == io::ErrorKind::WouldBlock)
}

fn reason(error: &Error) -> Ended {
    use async_tungstenite::tungstenite::error::ProtocolError;
    match error {
        Error::Io(error) => Ended::Lost(error.kind()),
        Error::ConnectionClosed
        | Error::AlreadyClosed
        | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => Ended::Closed(None),
        _ => Ended::Broken,
    }
}

/// A connection as the codec wants one: what it cannot do now it says so, and wakes the task later.
struct Now<'a, 'b> {
    stream: &'a mut Stream,
    context: &'a mut Context<'b>,
}

fn now<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
    match poll {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

impl Read for Now<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        now(Pin::new(&mut *self.stream).poll_read(self.context, buffer))
    }
}

impl Write for Now<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        now(Pin::new(&mut *self.stream).poll_write(self.context, bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        now(Pin::new(&mut *self.stream).poll_flush(self.context))
    }
}

/// A connection that takes nothing now.
struct Nowhere;

impl Read for Nowhere {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

impl Write for Nowhere {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

#[cfg(test)]
mod tests;
