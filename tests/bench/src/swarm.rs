//! Thousands of clients in one process, and the measuring of one round of fan-out.
//!
//! Owns the clients, one `epoll` and the clock. A round starts when the change is asked for and
//! ends when the last living client has seen it whole (and, with refetching, has fetched the
//! document by GET on its second connection), or at the deadline. Between rounds the swarm keeps
//! reading, so that heartbeats do not pile up and a closed connection is noticed.
//!
//! Clients are numbered: streams first, then their refetchers, then the stuck ones, which are read
//! until they are set up and never again. Every loop here ends at a deadline.

mod error;
mod round;

pub use error::SwarmError;
pub use round::Round;

use crate::client::{Client, ClientError};
use crate::mqtt;
use crate::reader::Kind;
use crate::transport::Route;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use std::fs::File;
use std::io::{self, Read};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const SCRATCH_BYTES: usize = 64 * 1024;
const EVENTS_MAX: usize = 512;
const COMMANDS: u64 = u64::MAX;
const ADMIN: u64 = u64::MAX - 1;

/// Clients started before those that wait are served: the first ones are not to wait for the last.
const STARTS_PER_TURN: usize = 32;

/// Clients for each source address: far below its ports, some of which are still in `TIME_WAIT`.
const CLIENTS_PER_SOURCE: usize = 1000;

/// What the swarm is to do. Requests are whole heads.
#[derive(Debug)]
pub struct Plan {
    pub kind: Kind,
    pub clients: usize,
    pub stuck: usize,
    pub request: Vec<u8>,
    /// The GET that each WebSocket client makes when it is told of a change.
    pub refetch: Option<Vec<u8>>,
    pub route: Route,
    pub change: Option<Change>,
    /// Connections that are not set up yet, at once.
    pub connecting_max: usize,
    pub round_timeout: Duration,
    pub connect_timeout: Duration,
}

/// How a round's change is made.
#[derive(Debug)]
pub enum Change {
    /// By a request, after the round's file was moved to `seed` if there is one.
    Ask {
        route: Route,
        request: Vec<u8>,
        seed: Option<PathBuf>,
    },
    /// The round's file is published to where the clients listen: by a POST to that path, or, for
    /// MQTT, to that topic.
    Publish { path: String },
    /// The round's file is put there: an upstream of the server that the clients listen to.
    Put { route: Route, path: String },
}

/// A line from the standard input.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// Make a change, with that file if one is named.
    Round(Option<PathBuf>),
    Quit,
}

/// The clients and what drives them.
pub struct Swarm {
    plan: Plan,
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    scratch: Vec<u8>,
    clients: Vec<Client>,
    admin: Option<Client>,
    input: File,
    typed: Vec<u8>,
    rounds: u64,
    /// Connections that ended, and why the first of them did if it was an error.
    pub ended: usize,
    pub first_error: Option<String>,
}

impl Swarm {
    /// Connects every client and waits until all are set up.
    pub fn connect(plan: Plan) -> Result<Swarm, SwarmError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let mut swarm = Swarm {
            clients: Vec::with_capacity(plan.clients * 2 + plan.stuck),
            plan,
            epoll,
            events: Vec::with_capacity(EVENTS_MAX),
            scratch: vec![0; SCRATCH_BYTES],
            admin: None,
            input,
            typed: Vec::new(),
            rounds: 0,
            ended: 0,
            first_error: None,
        };
        swarm.connect_clients()?;
        watch(&swarm.epoll, &swarm.input, COMMANDS)?;
        Ok(swarm)
    }

    /// Connections of all sorts.
    pub fn connections(&self) -> usize {
        self.clients.len()
    }

    fn refetchers(&self) -> usize {
        match self.plan.refetch {
            Some(_) => self.plan.clients,
            None => 0,
        }
    }

    fn connect_clients(&mut self) -> Result<(), SwarmError> {
        let all = self.plan.clients + self.refetchers() + self.plan.stuck;
        let deadline = Instant::now() + self.plan.connect_timeout;
        let mut ready = 0;
        while ready < all {
            let mut started = 0;
            while started < STARTS_PER_TURN
                && self.clients.len() < all
                && self.clients.len() - ready < self.plan.connecting_max
            {
                self.start_client()?;
                started += 1;
            }
            let patience = match started {
                STARTS_PER_TURN => Duration::ZERO,
                _ => Duration::from_millis(200),
            };
            if Instant::now() > deadline {
                return Err(SwarmError::NotReady(ready));
            }
            for token in self.wait(patience)? {
                let number = token as usize;
                let client = &mut self.clients[number];
                let before = client.ready;
                let read = client.handle_readable(&mut self.scratch);
                read.map_err(|error| SwarmError::Client(number, error))?;
                if client.ended {
                    return Err(SwarmError::Client(number, ended_early()));
                }
                ready += usize::from(client.ready && !before);
                if client.ready && number >= self.plan.clients + self.refetchers() {
                    epoll::delete(&self.epoll, &self.clients[number])?;
                }
            }
        }
        Ok(())
    }

    fn start_client(&mut self) -> Result<(), SwarmError> {
        let number = self.clients.len();
        let streams = self.plan.clients;
        let refetchers = self.refetchers();
        let (kind, request) = match &self.plan.refetch {
            Some(request) if (streams..streams + refetchers).contains(&number) => {
                (Kind::KeepAlive, request)
            }
            _ => (self.plan.kind, &self.plan.request),
        };
        let stuck = number >= streams + refetchers;
        let source = Ipv4Addr::new(127, 0, 0, (2 + number / CLIENTS_PER_SOURCE) as u8);
        let client = Client::start(kind, &self.plan.route, request, source, stuck)
            .map_err(|error| SwarmError::Client(number, error))?;
        watch(&self.epoll, &client, number as u64)?;
        self.clients.push(client);
        Ok(())
    }

    /// Waits at most that long for something to be readable; the tokens of what is.
    fn wait(&mut self, timeout: Duration) -> Result<Vec<u64>, SwarmError> {
        let timeout = Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        self.events.clear();
        match epoll::wait(
            &self.epoll,
            spare_capacity(&mut self.events),
            Some(&timeout),
        ) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.events.iter().map(|event| event.data.u64()).collect())
    }

    /// Reads clients until a command is typed; `Quit` at the end of the input or at `deadline`.
    pub fn next_command(&mut self, deadline: Instant) -> Result<Command, SwarmError> {
        loop {
            if let Some(end) = self.typed.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.typed.drain(..=end).collect();
                return Ok(parse_command(&String::from_utf8_lossy(&line)));
            }
            if Instant::now() > deadline {
                return Ok(Command::Quit);
            }
            for token in self.wait(Duration::from_millis(500))? {
                match token {
                    COMMANDS => {
                        let count = self.input.read(&mut self.scratch)?;
                        if count == 0 {
                            return Ok(Command::Quit);
                        }
                        self.typed.extend_from_slice(&self.scratch[..count]);
                    }
                    ADMIN => self.read_admin()?,
                    number => self.read_client(number as usize)?,
                }
            }
        }
    }

    /// Makes a change and waits for every client to have it.
    pub fn round(&mut self, file: Option<PathBuf>) -> Result<Round, SwarmError> {
        let streams = self.plan.clients;
        let living = self.clients[..streams]
            .iter()
            .filter(|client| !client.ended);
        let mut round = Round {
            clients: living.count(),
            ..Round::default()
        };
        let bytes_before: u64 = self.clients.iter().map(|client| client.bytes).sum();
        self.rounds += 1;
        let start = self.ask_for_change(file)?;
        let deadline = start + self.plan.round_timeout;
        while !self.is_over(&round) && Instant::now() < deadline {
            for token in self.wait(Duration::from_millis(50))? {
                match token {
                    COMMANDS => {}
                    ADMIN => {
                        self.read_admin()?;
                        round.answer.get_or_insert(start.elapsed());
                    }
                    number => self.read_in_round(number as usize, start, &mut round)?,
                }
            }
        }
        let bytes: u64 = self.clients.iter().map(|client| client.bytes).sum();
        round.bytes = bytes - bytes_before;
        let seen_more = |client: &&Client| client.changes > self.rounds;
        round.extra = self.clients[..streams].iter().filter(seen_more).count();
        Ok(round)
    }

    fn is_over(&self, round: &Round) -> bool {
        let refetched = self.plan.refetch.is_none() || round.refetched >= round.clients;
        round.changed >= round.clients && refetched && round.answer.is_some()
    }

    /// Makes the change; the moment of asking for it.
    fn ask_for_change(&mut self, file: Option<PathBuf>) -> Result<Instant, SwarmError> {
        let published;
        let (route, kind, request) = match (&self.plan.change, self.plan.kind, file) {
            (None, ..)
            | (_, Kind::KeepAlive, _)
            | (Some(Change::Publish { .. } | Change::Put { .. }), _, None) => {
                return Err(SwarmError::NoRounds);
            }
            (
                Some(Change::Ask {
                    route,
                    request,
                    seed,
                }),
                _,
                file,
            ) => {
                if let (Some(from), Some(to)) = (file, seed) {
                    std::fs::rename(from, to)?;
                }
                (route, Kind::KeepAlive, request)
            }
            (Some(Change::Publish { path }), Kind::Mqtt, Some(file)) => {
                published = mqtt::publisher(path, &std::fs::read(file)?);
                (&self.plan.route, Kind::Mqtt, &published)
            }
            (Some(Change::Publish { path }), _, Some(file)) => {
                published = post(path, &std::fs::read(file)?);
                (&self.plan.route, Kind::KeepAlive, &published)
            }
            (Some(Change::Put { route, path }), _, Some(file)) => {
                published = upload("PUT", path, "", &std::fs::read(file)?);
                (route, Kind::KeepAlive, &published)
            }
        };
        let start = Instant::now();
        let admin = Client::start(kind, route, request, Ipv4Addr::LOCALHOST, false)
            .map_err(SwarmError::Reload)?;
        watch(&self.epoll, &admin, ADMIN)?;
        self.admin = Some(admin);
        Ok(start)
    }

    /// Reads the answer to the request for a change; the connection is given up when it is whole.
    fn read_admin(&mut self) -> Result<(), SwarmError> {
        if let Some(admin) = &mut self.admin {
            admin
                .handle_readable(&mut self.scratch)
                .map_err(SwarmError::Reload)?;
            if admin.ready || admin.ended {
                self.admin = None;
            }
        }
        Ok(())
    }

    fn read_in_round(
        &mut self,
        number: usize,
        start: Instant,
        round: &mut Round,
    ) -> Result<(), SwarmError> {
        let target = self.rounds;
        let before = self.clients[number].changes;
        self.read_client(number)?;
        let elapsed = start.elapsed();
        let is_new = before < target && self.clients[number].changes >= target;
        if number >= self.plan.clients {
            if is_new {
                round.refetched += 1;
                round.refetch = elapsed;
            }
            return Ok(());
        }
        round.first.get_or_insert(elapsed);
        if !is_new {
            return Ok(());
        }
        round.changed += 1;
        round.last = elapsed;
        if let Some(request) = &self.plan.refetch {
            let refetcher = number + self.plan.clients;
            self.clients[refetcher]
                .request(request)
                .map_err(|error| SwarmError::Client(refetcher, error))?;
        }
        Ok(())
    }

    /// Reads one client; one that ends is counted and watched no longer.
    fn read_client(&mut self, number: usize) -> Result<(), SwarmError> {
        let client = &mut self.clients[number];
        if let Err(error) = client.handle_readable(&mut self.scratch) {
            client.ended = true;
            self.first_error
                .get_or_insert_with(|| format!("client {number}: {error}"));
        }
        if client.ended {
            self.ended += 1;
            epoll::delete(&self.epoll, &self.clients[number])?;
        }
        Ok(())
    }
}

fn watch(epoll: &OwnedFd, source: impl AsFd, token: u64) -> Result<(), SwarmError> {
    let token = epoll::EventData::new_u64(token);
    Ok(epoll::add(epoll, source, token, epoll::EventFlags::IN)?)
}

/// A message that subscribers get as an event of the name by which a relay ends a change.
fn post(path: &str, body: &[u8]) -> Vec<u8> {
    upload(
        "POST",
        path,
        "X-EventSource-Event: SSEEvent_update\r\n",
        body,
    )
}

fn upload(method: &str, path: &str, extra: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{extra}\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

fn ended_early() -> ClientError {
    ClientError::Connection(io::ErrorKind::UnexpectedEof.into())
}

fn parse_command(line: &str) -> Command {
    match line.trim().split_once(' ').unwrap_or((line.trim(), "")) {
        ("round", "") => Command::Round(None),
        ("round", file) => Command::Round(Some(PathBuf::from(file))),
        _ => Command::Quit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_as_typed() {
        assert_eq!(parse_command("round\n"), Command::Round(None));
        let file = PathBuf::from("a b.json");
        assert_eq!(
            parse_command("round a b.json\n"),
            Command::Round(Some(file))
        );
        assert_eq!(parse_command("quit\n"), Command::Quit);
    }
}
