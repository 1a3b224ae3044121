//! One socket of a slot: heartbeats, change texts, pongs, and every way to end.
//!
//! One thread reads and writes, so it never blocks in either: it waits by `poll` for the peer, for
//! orders and for the next heartbeat, whichever is first.

use super::listen::drain;
use super::stage::{Order, Stage};
use super::transport::Transport;
use async_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use async_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use async_tungstenite::tungstenite::{Error, Message, WebSocket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The text that says nothing but that the connection is alive.
const HEARTBEAT: &str = "test message";
/// How long a peer has to answer a close frame.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);
/// A client has little to say.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// Runs socket `id` to its end. `rest` is what came behind the handshake.
pub fn run(
    stage: &Stage,
    id: u64,
    transport: Transport,
    rest: Vec<u8>,
    mut woken: UnixStream,
) -> io::Result<()> {
    transport.tcp().set_nonblocking(true)?;
    let config = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX));
    let mut socket = WebSocket::from_partially_read(transport, rest, Role::Server, Some(config));
    let mut beaten = Instant::now();
    let mut closing: Option<Instant> = None;
    loop {
        let (orders, manners) = stage.orders(id);
        for order in orders {
            match order {
                Order::Text(_) if manners.silent => {}
                Order::Text(text) => send(&mut socket, text)?,
                Order::Close(code) => {
                    let frame = CloseFrame {
                        code: CloseCode::from(code),
                        reason: "".into(),
                    };
                    ignore_full(socket.close(Some(frame)))?;
                    closing = Some(Instant::now() + CLOSE_PATIENCE);
                }
                Order::Drop => return Ok(()),
                Order::Abort => {
                    let tcp = socket2::SockRef::from(socket.get_ref().tcp());
                    return tcp.set_linger(Some(Duration::ZERO));
                }
            }
        }
        let interval_ms = manners.heartbeat_ms.unwrap_or(stage.options.heartbeat_ms);
        let beats = interval_ms > 0 && !manners.silent && closing.is_none();
        let interval = Duration::from_millis(interval_ms);
        if beats && beaten.elapsed() >= interval {
            send(&mut socket, HEARTBEAT.to_owned())?;
            beaten = Instant::now();
        }
        let hung_up = match manners.silent {
            true => false,
            false => !read_all(&mut socket)?,
        };
        if hung_up || closing.is_some_and(|deadline| deadline <= Instant::now()) {
            return Ok(());
        }
        let next = closing.or(beats.then(|| beaten + interval));
        let full = !manners.silent && ignore_full(socket.flush())?;
        if wait(socket.get_ref(), &mut woken, next, manners.silent, full) {
            return Ok(());
        }
    }
}

fn send(socket: &mut WebSocket<Transport>, text: String) -> io::Result<()> {
    ignore_full(socket.send(Message::text(text))).map(|_| ())
}

/// Whether the socket takes no more for now; what was written waits in the library's buffer.
fn ignore_full(result: Result<(), Error>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(false),
        Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
        Err(Error::Io(error)) => Err(error),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Reads whatever there is; the library answers pings and closes meanwhile. False at the end.
fn read_all(socket: &mut WebSocket<Transport>) -> io::Result<bool> {
    loop {
        match socket.read() {
            Ok(_) => {}
            Err(Error::ConnectionClosed | Error::AlreadyClosed) => return Ok(false),
            Err(error) => return ignore_full(Err(error)),
        }
    }
}

/// Waits for something to do; true when the peer has gone.
fn wait(
    transport: &Transport,
    woken: &mut UnixStream,
    next: Option<Instant>,
    silent: bool,
    full: bool,
) -> bool {
    let mut interest = PollFlags::RDHUP;
    interest.set(PollFlags::IN, !silent);
    interest.set(PollFlags::OUT, full);
    let left = next.map(|next| next.saturating_duration_since(Instant::now()));
    // A moment later rather than a moment too early, which would turn in circles.
    let left = left.map(|left| left + Duration::from_millis(1));
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    let mut waited = [
        PollFd::new(transport.tcp(), interest),
        PollFd::new(&*woken, PollFlags::IN),
    ];
    if poll(&mut waited, left.as_ref()).is_err() {
        // Interrupted: the loop looks at everything again.
        return false;
    }
    let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    let hung_up = waited[0].revents().intersects(gone);
    drain(woken);
    // Who reads finds the end behind what came in front of it.
    silent && hung_up
}
