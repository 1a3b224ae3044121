//! One accepted connection: its transport, its deadline, and how its task waits on both.
//!
//! A [`Connection`] is shared by the task that serves it and by the driver, which resets it when
//! its deadline is over. Its task is the only one that waits on it.
//!
//! Never holds a borrow across a wait. Its `Drop` borrows nothing: it lists its key as gone, and
//! the driver cleans up.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use crate::state::deadlines::Reason;
use crate::state::slab::Key;
use crate::time::Instant;

use super::driver::Driver;
use super::io::Io;

/// Parts that one gathering write takes: a document's head, its path, the moment, and its body.
const PARTS_MAX: usize = 4;

/// Which listener a connection came in by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// SDKs.
    Sdk,
    /// SDKs, over the connection limit: told so and let go.
    Lobby,
    /// Admin over TCP: reads without a token.
    AdminTcp,
    /// Admin over its Unix socket: the file's mode has let it in.
    AdminLocal,
}

/// One accepted connection.
pub struct Connection {
    pub driver: Rc<Driver>,
    pub door: Door,
    io: RefCell<Io>,
    key: Key,
    expiry: Cell<Option<Rc<Expiry>>>,
}

/// How a task that waits for others than its client hears that its time is over.
#[derive(Default)]
pub struct Expiry {
    is_over: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

impl Expiry {
    /// Ready when the time is over. One task waits.
    pub fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.is_over.get() {
            return Poll::Ready(());
        }
        self.waker.set(Some(context.waker().clone()));
        Poll::Pending
    }
}

impl Connection {
    /// Takes a connection in: it counts from here, until it is dropped.
    pub fn new(driver: Rc<Driver>, door: Door, io: Io) -> Rc<Connection> {
        driver.enter(door);
        let key = driver.state.borrow_mut().deadlines.insert();
        let connection = Rc::new(Connection {
            driver,
            door,
            io: RefCell::new(io),
            key,
            expiry: Cell::default(),
        });
        connection.driver.watch(key, &connection);
        connection
    }

    /// The transport, for as long as nothing is awaited.
    pub fn io(&self) -> std::cell::RefMut<'_, Io> {
        self.io.borrow_mut()
    }

    // Deadlines.

    /// From now on, this has to be done in its time.
    pub fn arm(&self, reason: Reason) {
        let limits = &self.driver.limits;
        let allowed = match reason {
            Reason::Head => limits.head_timeout,
            Reason::Body => limits.body_timeout,
            Reason::Idle => limits.idle_timeout,
            Reason::Stall => limits.stall_timeout,
            Reason::Close => limits.close_timeout,
            Reason::Activity => limits.activity_timeout,
        };
        self.arm_at(self.driver.clock.now() + allowed, reason);
    }

    /// By then this has to be done.
    pub fn arm_at(&self, due: Instant, reason: Reason) {
        if self
            .driver
            .state
            .borrow_mut()
            .deadlines
            .arm(self.key, due, reason)
        {
            self.driver.wake();
        }
    }

    /// Nothing is waited for.
    pub fn disarm(&self) {
        self.driver.state.borrow_mut().deadlines.disarm(self.key);
    }

    /// Tells the task that `expiry` was given to, from now on, when a deadline of
    /// [`Reason::Activity`] is over.
    pub fn expiry(&self) -> Rc<Expiry> {
        let expiry = Rc::<Expiry>::default();
        self.expiry.set(Some(expiry.clone()));
        expiry
    }

    /// The time of a forwarded request is over.
    pub fn expire(&self) {
        let Some(expiry) = self.expiry.take() else {
            return;
        };
        expiry.is_over.set(true);
        if let Some(waker) = expiry.waker.take() {
            waker.wake();
        }
    }

    /// The peer takes nothing more for now. The deadline runs from the last byte that it took.
    pub fn arm_stall(&self, is_new: bool) {
        if self.io.borrow_mut().take_sent() || is_new {
            self.arm(Reason::Stall);
        }
    }

    // Reading.

    /// Reads once and hands over what came; zero is the end.
    pub fn poll_read(
        &self,
        context: &mut Context<'_>,
        sink: impl FnMut(&[u8]),
    ) -> Poll<io::Result<usize>> {
        self.poll_read_some(context, usize::MAX, sink)
    }

    /// The same, for at most `bytes_max`.
    pub fn poll_read_some(
        &self,
        context: &mut Context<'_>,
        bytes_max: usize,
        mut sink: impl FnMut(&[u8]),
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut scratch = self.driver.scratch.borrow_mut();
            let length = scratch.len().min(bytes_max);
            match self.io.borrow_mut().try_read(&mut scratch[..length]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(count) => {
                    sink(&scratch[..count]);
                    return Poll::Ready(Ok(count));
                }
            }
            drop(scratch);
            ready!(self.io.borrow_mut().poll_readable(context))?;
        }
    }

    /// Reads once, to the end of `buffer`; zero is the end.
    pub fn read(&self, buffer: &mut Vec<u8>) -> impl Future<Output = io::Result<usize>> {
        poll_fn(move |context| self.poll_read(context, |bytes| buffer.extend_from_slice(bytes)))
    }

    /// Reads once from under TLS, to the end of `buffer`.
    pub fn read_wire(&self, buffer: &mut Vec<u8>) -> impl Future<Output = io::Result<usize>> {
        poll_fn(move |context| {
            loop {
                let mut scratch = self.driver.scratch.borrow_mut();
                match self.io.borrow_mut().try_read_wire(&mut scratch) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Poll::Ready(Err(error)),
                    Ok(count) => {
                        buffer.extend_from_slice(&scratch[..count]);
                        return Poll::Ready(Ok(count));
                    }
                }
                drop(scratch);
                ready!(self.io.borrow_mut().poll_readable(context))?;
            }
        })
    }

    // Writing.

    /// Writes all of `parts`. The stall deadline runs while the peer takes nothing; it replaces
    /// whatever deadline ran before.
    pub async fn write(&self, parts: &[&[u8]]) -> io::Result<()> {
        let (mut offset, mut waited) = (0, false);
        let length: usize = parts.iter().map(|part| part.len()).sum();
        poll_fn(|context| {
            loop {
                let done = match self.write_from(parts, offset, length) {
                    Ok(count) => {
                        offset += count;
                        offset == length && self.io.borrow_mut().try_flush().is_ok()
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
                    Err(error) => return Poll::Ready(Err(error)),
                };
                if done {
                    return Poll::Ready(Ok(()));
                }
                self.arm_stall(!std::mem::replace(&mut waited, true));
                ready!(self.io.borrow_mut().poll_writable(context))?;
            }
        })
        .await
    }

    /// Writes as much of `parts` as is taken now; nothing is an answer too.
    pub fn try_write(&self, parts: &[&[u8]]) -> io::Result<usize> {
        let length = parts.iter().map(|part| part.len()).sum();
        match self.write_from(parts, 0, length) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            result => result,
        }
    }

    fn write_from(&self, parts: &[&[u8]], offset: usize, length: usize) -> io::Result<usize> {
        if offset == length {
            return self.io.borrow_mut().try_flush().map(|()| 0);
        }
        debug_assert!(parts.len() <= PARTS_MAX);
        let mut skip = offset;
        let mut slices = [IoSlice::new(&[]); PARTS_MAX];
        for (slice, part) in slices.iter_mut().zip(parts) {
            let skipped = skip.min(part.len());
            skip -= skipped;
            *slice = IoSlice::new(&part[skipped..]);
        }
        self.io.borrow_mut().try_write(&slices)
    }

    /// Ends the stream in order, after an answer that leaves unread input: says that nothing more
    /// comes and reads on for a moment, so that the peer's own bytes do not reset our answer away.
    pub async fn linger(&self) {
        self.io.borrow_mut().finish();
        self.arm(Reason::Close);
        let mut drained = 0;
        loop {
            let read = poll_fn(|context| self.poll_read(context, |_| {})).await;
            match read {
                Ok(count) if count > 0 && drained < self.driver.limits.body_drain_bytes_max => {
                    drained += count;
                }
                _ => return,
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.leave(self.door, self.key);
    }
}
