//! Many clients of a relay, some by WebSocket and some by event stream, read by one thread.
//!
//! What a client keeps is how often it was told of a change. None has a reason to be sent away by
//! the relay, so an end of any of them fails the test that reads.

use crate::harness::PATIENCE;
use crate::harness::relay::Relay;
use crate::request;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Instant;

/// What each event stream ends a change with.
const UPDATE: &[u8] = b"event: SSEEvent_update\n";
/// What says nothing to a WebSocket but that the connection is alive.
const HEARTBEAT: &[u8] = b"test message";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Socket,
    Stream,
}

/// One client.
struct Client {
    number: usize,
    kind: Kind,
    slot: &'static str,
    tcp: TcpStream,
    /// What was read and not yet understood.
    ahead: Vec<u8>,
    is_ready: bool,
    changes: usize,
}

impl Client {
    fn connect(relay: &Relay, number: usize, kind: Kind, slot: &'static str) -> Client {
        let (collection, environment) = slot.split_once('/').expect("a slot");
        let request = match kind {
            Kind::Socket => request::upgrade(&request::websocket_path(collection, environment), ""),
            Kind::Stream => request::get(&request::subscribe_path(collection, environment)),
        };
        let mut tcp = TcpStream::connect(relay.address).expect("the relay listens");
        tcp.write_all(request.as_bytes())
            .expect("a new connection takes a request");
        tcp.set_nonblocking(true).expect("a TCP socket");
        Client {
            number,
            kind,
            slot,
            tcp,
            ahead: Vec::new(),
            is_ready: false,
            changes: 0,
        }
    }

    fn fail(&self, problem: &str) -> ! {
        let Client {
            number,
            kind,
            slot,
            changes,
            ..
        } = self;
        panic!("client {number} ({kind:?} of {slot}) after {changes} changes: {problem}");
    }

    fn read(&mut self, space: &mut [u8]) {
        loop {
            match self.tcp.read(space) {
                Ok(0) => self.fail("the relay closed"),
                Ok(length) => self.ahead.extend_from_slice(&space[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => self.fail(&error.to_string()),
            }
        }
        match self.kind {
            Kind::Socket => self.read_frames(),
            Kind::Stream => self.read_events(),
        }
    }

    fn read_events(&mut self) {
        self.is_ready |= find(&self.ahead, b"event: Registration\n").is_some();
        while let Some(at) = find(&self.ahead, UPDATE) {
            self.ahead.drain(..at + UPDATE.len());
            self.changes += 1;
        }
        let keep = self.ahead.len().min(UPDATE.len() - 1);
        if self.is_ready {
            self.ahead.drain(..self.ahead.len() - keep);
        }
    }

    fn read_frames(&mut self) {
        if !self.is_ready {
            let Some(at) = find(&self.ahead, b"\r\n\r\n") else {
                return;
            };
            if !self.ahead.starts_with(b"HTTP/1.1 101 ") {
                self.fail(&String::from_utf8_lossy(&self.ahead));
            }
            self.ahead.drain(..at + 4);
            self.is_ready = true;
        }
        // The relay's own texts are short, whole and, as all that a server sends, not masked.
        while let [first, length, ..] = self.ahead[..] {
            let end = 2 + usize::from(length);
            if length > 125 || !matches!(first, 0x81 | 0x89 | 0x8a) {
                self.fail(&format!("a frame that begins {first:#x} {length}"));
            }
            if self.ahead.len() < end {
                return;
            }
            if first == 0x81 && self.ahead[2..end] != *HEARTBEAT {
                self.changes += 1;
            }
            self.ahead.drain(..end);
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

/// All of them.
pub struct Crowd {
    clients: Vec<Client>,
}

impl Crowd {
    /// Connects clients to `slots` in turn and waits until all are subscribed.
    pub fn connect(relay: &Relay, sockets: usize, streams: usize, slots: &[&'static str]) -> Crowd {
        let client = |number: usize| {
            // Spread evenly, so that every slot has some of each.
            let kind = match number % (sockets + streams) < sockets {
                true => Kind::Socket,
                false => Kind::Stream,
            };
            Client::connect(relay, number, kind, slots[number % slots.len()])
        };
        let clients = (0..sockets + streams).map(client).collect();
        let mut crowd = Crowd { clients };
        crowd.read_until("subscribed", |client| client.is_ready);
        crowd
    }

    /// Reads until every client was told of `changes`, and sees that none was told of more.
    pub fn until_told(&mut self, changes: usize) {
        self.read_until("told of the change", |client| client.changes >= changes);
        self.check(changes);
    }

    /// Reads what there is, and sees that no client was told of more than `changes`.
    pub fn check(&mut self, changes: usize) {
        let mut space = vec![0; 64 * 1024];
        for client in &mut self.clients {
            client.read(&mut space);
            if client.changes != changes {
                client.fail(&format!("there were {changes}"));
            }
        }
    }

    fn read_until(&mut self, what: &str, is_done: impl Fn(&Client) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut space = vec![0; 64 * 1024];
        loop {
            let missing = self.clients.iter().filter(|client| !is_done(client));
            let missing: Vec<usize> = missing.map(|client| client.number).collect();
            if missing.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "never {what}: {missing:?}");
            let sockets = self.clients.iter().map(|client| client.tcp.as_fd());
            let mut polled: Vec<PollFd<'_>> = sockets
                .map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN))
                .collect();
            let moment = Timespec {
                tv_sec: 0,
                tv_nsec: 50_000_000,
            };
            poll(&mut polled, Some(&moment)).expect("the sockets are open");
            let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
            for (client, _) in self
                .clients
                .iter_mut()
                .zip(ready)
                .filter(|(_, ready)| *ready)
            {
                client.read(&mut space);
            }
        }
    }
}

/// Lets this process and those that it starts have as many descriptors as they may.
pub fn raise_descriptors() {
    let found = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: found.maximum,
        maximum: found.maximum,
    };
    setrlimit(Resource::Nofile, raised).expect("up to the hard limit");
}
