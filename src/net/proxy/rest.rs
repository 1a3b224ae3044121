//! Bytes on their way to somebody who may not take them all at once.
//!
//! Owns what was taken from one side of a forwarded request and not yet given to the other. There
//! is one for each direction, filled by one read and emptied before the next: that is the whole of
//! backpressure, and the bound on what a request holds.
//!
//! Invariant: while nothing is held, no memory is either, once [`Rest::release`] was called; a
//! silent stream costs its task alone.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_lite::AsyncWrite;

use crate::net::connection::Connection;
use crate::net::upstream::dial::Stream;
use crate::wire::forward;

/// What is held.
#[derive(Debug, Default)]
pub struct Rest {
    bytes: Vec<u8>,
    given: usize,
}

impl Rest {
    /// Holds `bytes`.
    pub fn of(bytes: Vec<u8>) -> Rest {
        Rest { bytes, given: 0 }
    }

    /// Whether everything was given.
    pub fn is_empty(&self) -> bool {
        self.given == self.bytes.len()
    }

    /// How many bytes are still to be given.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.given
    }

    /// Adds bytes as they are.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds what another holds.
    pub fn append(&mut self, other: Rest) {
        self.push(other.bytes.get(other.given..).unwrap_or_default());
    }

    /// Adds bytes as one chunk; none make no chunk, which would end the content.
    pub fn push_chunk(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.push(forward::chunk_line(bytes.len()).as_bytes());
            self.push(bytes);
            self.push(b"\r\n");
        }
    }

    /// Gives up the memory of what was given.
    pub fn release(&mut self) {
        if self.is_empty() {
            *self = Rest::default();
        }
    }

    /// Gives everything to the destination, and sees it sent. Answers how much it took.
    pub fn poll_to(
        &mut self,
        stream: &mut Stream,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut taken = 0;
        while !self.is_empty() {
            let left = &self.bytes[self.given..];
            let count = match Pin::new(&mut *stream).poll_write(context, left) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => count,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending if taken > 0 => return Poll::Ready(Ok(taken)),
                Poll::Pending => return Poll::Pending,
            };
            self.give(count);
            taken += count;
        }
        ready!(Pin::new(stream).poll_flush(context))?;
        Poll::Ready(Ok(taken))
    }

    /// Gives everything to the client, and sees it sent. Answers how much it took.
    pub fn poll_to_client(
        &mut self,
        connection: &Connection,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut taken = 0;
        loop {
            let left = &self.bytes[self.given..];
            match connection.try_write(&[left]) {
                Err(error) => return Poll::Ready(Err(error)),
                Ok(count) => {
                    self.give(count);
                    taken += count;
                }
            }
            if self.is_empty() {
                match connection.io().try_flush() {
                    Ok(()) => return Poll::Ready(Ok(taken)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            if connection.io().poll_writable(context)?.is_pending() {
                return match taken {
                    0 => Poll::Pending,
                    _ => Poll::Ready(Ok(taken)),
                };
            }
        }
    }

    fn give(&mut self, count: usize) {
        self.given += count;
        if self.is_empty() {
            self.bytes.clear();
            self.given = 0;
        }
    }
}
