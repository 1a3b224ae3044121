//! Many subscribers of one slot, read by one thread as fast as they are sent to.
//!
//! Nothing of a document is kept: what a reader knows is the version at the end of the last event
//! that came whole.

use crate::request;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Longer than the small event behind each document, with its version in it.
const TAIL_BYTES: usize = 128;

/// One subscriber.
pub struct Reader {
    socket: TcpStream,
    tail: Vec<u8>,
    received: usize,
    /// The version of the last whole event; 0 before the first.
    pub version: u64,
}

impl Reader {
    /// Subscribes over `socket`.
    pub fn subscribe(mut socket: TcpStream) -> Reader {
        let path = request::subscribe_path("inventory", "dev");
        socket
            .write_all(request::get(&path).as_bytes())
            .expect("a new connection takes a request");
        socket.set_nonblocking(true).expect("a TCP socket");
        Reader {
            socket,
            tail: Vec::new(),
            received: 0,
            version: 0,
        }
    }

    /// Reads what there is. The relay has no reason to end a stream of a client that reads.
    fn read(&mut self, space: &mut [u8], document_bytes: usize) {
        loop {
            match self.socket.read(space) {
                Ok(0) => panic!("the stream ended at version {}", self.version),
                Ok(length) => self.note(&space[..length], document_bytes),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("{error} at version {}", self.version),
            }
        }
    }

    fn note(&mut self, bytes: &[u8], document_bytes: usize) {
        self.received += bytes.len();
        self.tail
            .extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL_BYTES)..]);
        let excess = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..excess);
        if !self.tail.ends_with(b"\n\n\r\n") {
            return;
        }
        let text = String::from_utf8_lossy(&self.tail);
        let version = text
            .rsplit_once("\nid: ")
            .and_then(|(_, rest)| rest.lines().next()?.parse().ok());
        match version {
            Some(version) => self.version = version,
            // The first event has its version before the document and nothing behind it.
            None if self.received > document_bytes => self.version = self.version.max(1),
            None => {}
        }
    }
}

/// Reads for all of `readers` until `is_done`. Documents are at least `document_bytes` long.
pub fn read_until(
    readers: &mut [Reader],
    document_bytes: usize,
    patience: Duration,
    mut is_done: impl FnMut(&[Reader]) -> bool,
) {
    let deadline = Instant::now() + patience;
    let mut space = vec![0; 256 * 1024];
    while !is_done(readers) {
        assert!(
            Instant::now() < deadline,
            "the readers are on versions {:?}",
            readers
                .iter()
                .map(|reader| reader.version)
                .collect::<Vec<u64>>()
        );
        let sockets = readers.iter().map(|reader| reader.socket.as_fd());
        let mut polled: Vec<PollFd<'_>> = sockets
            .map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN))
            .collect();
        let moment = Timespec {
            tv_sec: 0,
            tv_nsec: 5_000_000,
        };
        poll(&mut polled, Some(&moment)).expect("the sockets are open");
        let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        for (reader, _) in readers.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
            reader.read(&mut space, document_bytes);
        }
    }
}

/// Waits until the peer of `socket` has reset it, without reading from it.
pub fn wait_for_reset(socket: &TcpStream, patience: Duration) {
    let mut polled = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::empty())];
    let wait = Timespec {
        tv_sec: patience.as_secs().try_into().expect("seconds"),
        tv_nsec: 0,
    };
    let count = poll(&mut polled, Some(&wait)).expect("the socket is open");
    assert_eq!(count, 1, "not reset within {patience:?}");
}
