//! One client: a connection, what it understands of it, and what it has seen so far.
//!
//! Owns the counters that a round compares. Never decides when to read: the swarm's `epoll` does.

use crate::reader::{Kind, ReadError, Reader, Seen};
use crate::transport::{Route, Transport};
use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};

/// What ended a client before its time.
#[derive(Debug)]
pub enum ClientError {
    Connection(io::Error),
    Stream(ReadError),
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> ClientError {
        ClientError::Connection(error)
    }
}

impl From<ReadError> for ClientError {
    fn from(error: ReadError) -> ClientError {
        ClientError::Stream(error)
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Connection(error) => write!(formatter, "connection: {error}"),
            ClientError::Stream(error) => write!(formatter, "stream: {error}"),
        }
    }
}

/// One client.
#[derive(Debug)]
pub struct Client {
    transport: Transport,
    reader: Reader,
    kind: Kind,
    /// Set up: it has its first document, or its 101.
    pub ready: bool,
    /// Changes (streams) or documents (keep-alive) seen since it was ready.
    pub changes: u64,
    /// The length of the newest document (keep-alive).
    pub document_bytes: u64,
    /// Payload bytes read over its life, heads included.
    pub bytes: u64,
    /// The peer said good-bye or closed.
    pub ended: bool,
}

impl Client {
    /// Connects and sends `request`. A `stuck` client gets the smallest receive buffer.
    pub fn start(
        kind: Kind,
        route: &Route,
        request: &[u8],
        source: Ipv4Addr,
        stuck: bool,
    ) -> Result<Client, ClientError> {
        let mut transport = Transport::connect(route, source, stuck.then_some(4096))?;
        transport.send(request)?;
        Ok(Client {
            transport,
            reader: Reader::new(kind),
            kind,
            ready: false,
            changes: 0,
            document_bytes: 0,
            bytes: 0,
            ended: false,
        })
    }

    /// Sends another request on the same connection.
    pub fn request(&mut self, request: &[u8]) -> Result<(), ClientError> {
        Ok(self.transport.send(request)?)
    }

    /// Reads what has come in and counts what is seen.
    pub fn handle_readable(&mut self, scratch: &mut [u8]) -> Result<(), ClientError> {
        let mut documents = 0;
        let mut changes = 0;
        let mut set_up = false;
        let open = self.transport.read_available(scratch, &mut |piece| {
            self.bytes += piece.len() as u64;
            self.reader.take(piece, &mut |seen| match seen {
                Seen::Ready => set_up = true,
                Seen::Change => changes += 1,
                Seen::Document(length) => {
                    documents += 1;
                    self.document_bytes = length;
                }
                Seen::Goodbye => self.ended = true,
            })?;
            Ok::<(), ClientError>(())
        })?;
        self.ended |= !open;
        if self.kind == Kind::KeepAlive && documents > 0 && !self.ready {
            set_up = true;
            documents -= 1;
        }
        self.ready |= set_up;
        self.changes += changes + documents;
        Ok(())
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.transport.as_fd()
    }
}
