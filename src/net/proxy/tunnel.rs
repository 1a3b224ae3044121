//! A tunnel: bytes both ways, until both sides have ended.
//!
//! Owns what is left of a request once its destination has answered 101. Nothing is looked into:
//! WebSocket frames, pings and closes are between the two ends. Each direction reads again when the
//! other side took what was read; one that ends is ended on the other side too, and the opposite
//! one goes on.
//!
//! Ends with an error of either side, or when nothing moved for the cluster's `ActivityTimeout`.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use futures_lite::{AsyncRead, AsyncWrite};

use crate::net::connection::Connection;
use crate::net::upstream::dial::Stream;
use crate::time::Duration;

use super::exchange::Patience;
use super::rest::Rest;

/// Reads of one direction before the other tasks have their turn.
const READS_PER_POLL: usize = 16;

/// One direction of a tunnel.
#[derive(Default)]
struct Direction {
    rest: Rest,
    /// Its source has ended, and what came from it is being given.
    is_ending: bool,
    is_over: bool,
}

struct Tunnel<'a> {
    connection: &'a Rc<Connection>,
    stream: &'a mut Stream,
    up: Direction,
    down: Direction,
    patience: Patience,
}

/// Carries bytes until both sides have ended. `from_client` and `from_destination` came behind the
/// heads.
pub async fn run(
    connection: &Rc<Connection>,
    stream: &mut Stream,
    from_client: Vec<u8>,
    from_destination: Vec<u8>,
    timeout: Duration,
) {
    let direction = |bytes| Direction {
        rest: Rest::of(bytes),
        ..Direction::default()
    };
    let mut tunnel = Tunnel {
        connection,
        stream,
        up: direction(from_client),
        down: direction(from_destination),
        patience: Patience::new(connection, timeout),
    };
    // An end is an end, however it came.
    let _ = poll_fn(|context| tunnel.poll(context)).await;
}

impl Tunnel<'_> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.patience.is_over(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        if !self.up.is_over && self.poll_up(context)?.is_ready() {
            self.up.is_over = true;
        }
        if !self.down.is_over && self.poll_down(context)?.is_ready() {
            self.down.is_over = true;
        }
        if self.up.is_over && self.down.is_over {
            return Poll::Ready(Ok(()));
        }
        self.patience
            .arm(self.connection, !self.down.rest.is_empty());
        Poll::Pending
    }

    fn poll_up(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let bytes_max = self.connection.driver.limits.head_bytes_max;
        for _ in 0..READS_PER_POLL {
            if ready!(self.up.rest.poll_to(self.stream, context))? > 0 {
                self.patience.note(self.connection);
            }
            if !self.up.rest.is_empty() {
                continue;
            }
            if self.up.is_ending {
                return Pin::new(&mut *self.stream).poll_close(context);
            }
            let rest = &mut self.up.rest;
            let sink = |bytes: &[u8]| rest.push(bytes);
            match self.connection.poll_read_some(context, bytes_max, sink)? {
                Poll::Ready(0) => self.up.is_ending = true,
                Poll::Ready(_) => self.patience.note(self.connection),
                Poll::Pending => {
                    self.up.rest.release();
                    return Poll::Pending;
                }
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_down(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        for _ in 0..READS_PER_POLL {
            if !self.down.rest.is_empty() {
                let given = self.down.rest.poll_to_client(self.connection, context);
                if ready!(given)? > 0 {
                    self.patience.note(self.connection);
                }
                if !self.down.rest.is_empty() {
                    continue;
                }
            }
            if self.down.is_ending {
                self.connection.io().finish();
                return Poll::Ready(Ok(()));
            }
            let mut scratch = self.connection.driver.scratch.borrow_mut();
            match Pin::new(&mut *self.stream).poll_read(context, &mut scratch)? {
                Poll::Ready(0) => self.down.is_ending = true,
                Poll::Ready(count) => {
                    self.down.rest.push(&scratch[..count]);
                    self.patience.note(self.connection);
                }
                Poll::Pending => {
                    self.down.rest.release();
                    return Poll::Pending;
                }
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
