//! What bytes come and go by: a socket of ours or of a client, or a pipe in tests.
//!
//! Owns what is the same for all of them: reads and writes that do what can be done now and answer
//! `WouldBlock` otherwise, the waits for more, and the two ways to end. TLS is not known here.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_lite::{AsyncRead, AsyncWrite};
use smol::Async;
use socket2::Socket;

use crate::net::pipe::End;

/// A byte stream with a peer behind it.
pub struct Wire {
    kind: Kind,
}

enum Kind {
    Socket(Async<Socket>),
    Pipe(End),
}

impl From<Async<Socket>> for Wire {
    fn from(socket: Async<Socket>) -> Wire {
        Wire {
            kind: Kind::Socket(socket),
        }
    }
}

impl From<End> for Wire {
    fn from(end: End) -> Wire {
        Wire {
            kind: Kind::Pipe(end),
        }
    }
}

impl Wire {
    /// Reads what is there; zero is the end.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.kind {
            Kind::Socket(socket) => retry(|| io::Read::read(&mut socket.get_ref(), buffer)),
            Kind::Pipe(end) => end.read(buffer),
        }
    }

    /// Writes as much of `parts` as is taken now.
    pub fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.kind {
            Kind::Socket(socket) => {
                retry(|| io::Write::write_vectored(&mut socket.get_ref(), parts))
            }
            Kind::Pipe(end) => end.write(parts),
        }
    }

    /// Ready when a read may do more than the last one.
    pub fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.kind {
            Kind::Socket(socket) => socket.poll_readable(context),
            Kind::Pipe(end) => end.poll_readable(context),
        }
    }

    /// Ready when a write may do more than the last one.
    pub fn poll_writable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.kind {
            Kind::Socket(socket) => socket.poll_writable(context),
            Kind::Pipe(end) => end.poll_writable(context),
        }
    }

    /// Whether nothing has come since the last read, an end included. The kernel itself is asked,
    /// since what it has not told the reactor yet counts too. A pipe is always quiet.
    pub fn is_quiet(&self) -> bool {
        match &self.kind {
            Kind::Socket(socket) => {
                let peeked = socket.get_ref().peek(&mut [MaybeUninit::uninit()]);
                peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
            }
            Kind::Pipe(_) => true,
        }
    }

    /// Tells the peer that nothing more will come.
    pub fn finish(&mut self) {
        match &mut self.kind {
            Kind::Socket(socket) => drop(socket.get_ref().shutdown(Shutdown::Write)),
            Kind::Pipe(end) => end.finish(),
        }
    }

    /// Ends what is read.
    pub fn end(&mut self) {
        match &mut self.kind {
            Kind::Socket(socket) => drop(socket.get_ref().shutdown(Shutdown::Read)),
            Kind::Pipe(end) => end.end(),
        }
    }

    /// Ends the stream at once and drops what the kernel still holds for it.
    pub fn reset(&mut self) {
        match &mut self.kind {
            Kind::Socket(socket) => {
                let _ = socket.get_ref().set_linger(Some(Duration::ZERO));
                let _ = socket.get_ref().shutdown(Shutdown::Both);
            }
            Kind::Pipe(end) => end.reset(),
        }
    }

    /// The socket; `None` for a pipe.
    #[cfg(test)]
    pub fn socket(&self) -> Option<&Socket> {
        match &self.kind {
            Kind::Socket(socket) => Some(socket.get_ref()),
            Kind::Pipe(_) => None,
        }
    }
}

fn retry(mut operation: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match operation() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
            ready!(self.poll_readable(context))?;
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.write(&[IoSlice::new(bytes)]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
            ready!(self.poll_writable(context))?;
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.finish();
        Poll::Ready(Ok(()))
    }
}
