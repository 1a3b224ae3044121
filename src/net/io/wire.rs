//! What bytes come and go by: a socket of ours or of a client, or a pipe in tests.
//!
//! Owns when a read is worth its system call. One that gave less than it was asked for took what
//! there was. Until somebody has waited by [`Wire::poll_readable`], the next one answers
//! `WouldBlock` without a look, so a task that waits asks the kernel to be woken and nothing else.
//!
//! No wake-up is lost by that: whoever is told `WouldBlock` asks `poll_readable`, and the kernel is
//! asked there whether anything lies in the socket now, not whether something has come since. What
//! came behind the short read wakes at once. Once woken, by whatever, a task may look: which
//! events the reactor holds for news depends on which thread polls it, so that is not relied on.
//!
//! Invariant: an end, or an error, is never taken for a wire that is drained.

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
    /// The last read took what there was.
    is_drained: bool,
}

enum Kind {
    Socket(Async<Socket>),
    /// In a box: only tests have one, and each client has room for the larger of both.
    Pipe(Box<End>),
}

impl From<Async<Socket>> for Wire {
    fn from(socket: Async<Socket>) -> Wire {
        Wire {
            kind: Kind::Socket(socket),
            is_drained: false,
        }
    }
}

impl From<End> for Wire {
    fn from(end: End) -> Wire {
        Wire {
            kind: Kind::Pipe(Box::new(end)),
            is_drained: false,
        }
    }
}

impl Wire {
    /// Reads what is there; zero is the end. After `WouldBlock`, `poll_readable` comes first.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.is_drained {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let result = match &mut self.kind {
            Kind::Socket(socket) => retry(|| io::Read::read(&mut socket.get_ref(), buffer)),
            Kind::Pipe(end) => end.read(buffer),
        };
        self.is_drained = match &result {
            Ok(count) => (1..buffer.len()).contains(count),
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        };
        result
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
        let was_drained = std::mem::take(&mut self.is_drained);
        let readable = self.kind.poll_readable(context);
        // What the reactor heard before the last read is old; only from the second time on it asks.
        match readable {
            Poll::Ready(Ok(())) if was_drained => self.kind.poll_readable(context),
            readable => readable,
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
    /// since what it has not told the reactor yet counts too.
    pub fn is_quiet(&self) -> bool {
        match &self.kind {
            Kind::Socket(socket) => {
                let peeked = socket.get_ref().peek(&mut [MaybeUninit::uninit()]);
                peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
            }
            Kind::Pipe(end) => end.is_quiet(),
        }
    }

    /// Tells the peer that nothing more will come. Many end their own side at that, before the
    /// reactor has its turn: the next read looks.
    pub fn finish(&mut self) {
        self.is_drained = false;
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

impl Kind {
    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Kind::Socket(socket) => socket.poll_readable(context),
            Kind::Pipe(end) => end.poll_readable(context),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::pipe::{self, Manners};
    use futures_lite::future::{or, poll_once};
    use futures_lite::{AsyncReadExt, AsyncWriteExt as _, FutureExt as _};
    use smol::{LocalExecutor, Timer};
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    fn pair() -> (Wire, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        (Async::new(Socket::from(near)).unwrap().into(), far)
    }

    fn kind(result: io::Result<usize>) -> io::ErrorKind {
        result.unwrap_err().kind()
    }

    /// What `work` gives, in a time that only a lost wake-up exceeds.
    fn in_time<T>(work: impl Future<Output = T>) -> T {
        let late = async {
            Timer::after(Duration::from_secs(30)).await;
            panic!("a wake-up was lost");
        };
        smol::block_on(or(work, late))
    }

    #[test]
    fn a_read_that_was_short_is_the_last_until_there_is_more() {
        let (mut wire, mut far) = pair();
        far.write_all(b"abc").unwrap();
        let mut buffer = [0; 8];
        assert_eq!(wire.read(&mut buffer).unwrap(), 3);
        far.write_all(b"de").unwrap();
        // It is there; nobody looks.
        assert_eq!(kind(wire.read(&mut buffer)), io::ErrorKind::WouldBlock);
        in_time(std::future::poll_fn(|context| wire.poll_readable(context))).unwrap();
        assert_eq!(wire.read(&mut buffer[..2]).unwrap(), 2);
        // It was as long as it could be: there may be more.
        far.write_all(b"f").unwrap();
        assert_eq!(wire.read(&mut buffer).unwrap(), 1);
    }

    #[test]
    fn what_comes_before_the_wait_ends_it() {
        let (mut wire, mut far) = pair();
        let mut buffer = [0; 8];
        for text in ["abc", "de", "f"] {
            far.write_all(text.as_bytes()).unwrap();
            let count = in_time(AsyncReadExt::read(&mut wire, &mut buffer)).unwrap();
            assert_eq!(&buffer[..count], text.as_bytes());
        }
    }

    #[test]
    fn what_comes_within_the_wait_ends_it() {
        let (mut wire, mut far) = pair();
        let mut buffer = [0; 8];
        for text in ["abc", "de", "f"] {
            in_time(async {
                let mut read = AsyncReadExt::read(&mut wire, &mut buffer).boxed_local();
                assert!(poll_once(&mut read).await.is_none());
                far.write_all(text.as_bytes()).unwrap();
                assert_eq!(read.await.unwrap(), text.len());
            });
        }
    }

    #[test]
    fn an_end_behind_a_short_read_is_read_and_stays() {
        let (mut wire, mut far) = pair();
        far.write_all(b"abc").unwrap();
        drop(far);
        let mut buffer = [0; 8];
        assert_eq!(wire.read(&mut buffer).unwrap(), 3);
        let end = in_time(AsyncReadExt::read(&mut wire, &mut buffer));
        assert_eq!(end.unwrap(), 0);
        assert_eq!(wire.read(&mut buffer).unwrap(), 0);
    }

    #[test]
    fn who_is_told_the_end_and_ends_at_once_is_seen_at_once() {
        let (mut wire, mut far) = pair();
        far.write_all(b"abc").unwrap();
        assert_eq!(wire.read(&mut [0; 8]).unwrap(), 3);
        wire.finish();
        drop(far);
        assert_eq!(wire.read(&mut [0; 8]).unwrap(), 0);
    }

    #[test]
    fn a_wire_that_is_drained_is_not_quiet_once_something_came() {
        let (mut wire, mut far) = pair();
        far.write_all(b"abc").unwrap();
        assert_eq!(wire.read(&mut [0; 8]).unwrap(), 3);
        assert!(wire.is_quiet());
        drop(far);
        assert!(!wire.is_quiet());
    }

    #[test]
    fn a_stream_in_short_pieces_arrives_whole() {
        let (near, far) = pipe::pair(Manners {
            capacity_bytes: 5,
            step_bytes: 3,
        });
        let (mut near, mut far) = (Wire::from(near), Wire::from(far));
        let sent: Vec<u8> = (0..=255).collect();
        let bytes = sent.clone();
        let executor = LocalExecutor::new();
        let reader = executor.spawn(async move {
            let mut got = Vec::new();
            near.read_to_end(&mut got).await.map(|_| got)
        });
        let writer = executor.spawn(async move {
            far.write_all(&bytes).await?;
            far.close().await
        });
        while executor.try_tick() {}
        assert!(writer.is_finished() && reader.is_finished());
        assert_eq!(smol::block_on(reader).unwrap(), sent);
    }
}
