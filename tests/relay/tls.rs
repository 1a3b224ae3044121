//! The three transports against what the network, or a client, does to their bytes.
//!
//! Every case is tried for a document, a WebSocket and an event stream where it can make a
//! difference; what happens before the first request is the same for all of them.

use crate::client::{Client, Outcome};
use crate::figures::{clients, connections, expiries, metric, until, until_nobody_is_left};
use crate::harness::relay::Relay;
use crate::harness::site::Site;
use crate::request::{subscribe_path, websocket_path};
use crate::stream::{Events, Frame, HEARTBEAT, WebSocket};
use crate::way::{Transport, connect_tcp, open_tunnel, service_host};
use crate::wire::{Connection, Packets};
use crate::{request, seed, shortened};
use staffetta::limits::Limits;
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

const TRANSPORTS: [Transport; 3] = [Transport::Plain, Transport::Tls, Transport::Tunnel];
pub const KINDS: [Kind; 3] = [Kind::Document, Kind::WebSocket, Kind::Events];

pub fn site() -> Site {
    Site::new("tls", &seed::usual("one"))
}

pub fn start() -> (Site, Relay) {
    let site = site();
    let relay = Relay::start(&site);
    (site, relay)
}

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Document,
    WebSocket,
    Events,
}

impl Kind {
    pub fn request(self) -> String {
        match self {
            Kind::Document => request::config(),
            Kind::WebSocket => request::upgrade(&websocket_path("inventory", "dev"), ""),
            Kind::Events => request::get(&subscribe_path("inventory", "dev")),
        }
    }

    /// Reads the answer to [`Kind::request`], which must be the right one.
    pub fn accept(self, mut client: Client) -> Outcome<Served> {
        match self {
            Kind::Document => {
                expect_marker(client.answer(false)?.text(), "one")?;
                Ok(Served::Document(client))
            }
            Kind::WebSocket => {
                let head = client.head()?;
                match head.status {
                    101 => Ok(Served::WebSocket(WebSocket { client, head })),
                    status => Err(format!("status {status}")),
                }
            }
            Kind::Events => {
                let mut events = Events::accepted(client)?;
                expect_marker(events.next()?.data, "one")?;
                Ok(Served::Events(Box::new(events)))
            }
        }
    }
}

fn expect_marker(text: String, marker: &str) -> Outcome<()> {
    let holds = text.contains(&format!("\"value\":\"{marker}\""));
    holds
        .then_some(())
        .ok_or_else(|| format!("no {marker} in {text}"))
}

/// A client that has its first answer.
pub enum Served {
    Document(Client),
    WebSocket(WebSocket),
    Events(Box<Events>),
}

impl Served {
    /// Learns of the second seed in its own way.
    fn follow(&mut self) -> Outcome<()> {
        match self {
            Served::Document(client) => {
                let answer = client.exchange(Kind::Document.request().as_bytes())?;
                expect_marker(answer.text(), "two")
            }
            Served::WebSocket(socket) => match socket.next_change()? {
                Frame::Text(text) if text != HEARTBEAT => Ok(()),
                other => Err(format!("{other:?} instead of a change")),
            },
            Served::Events(events) => expect_marker(events.next()?.data, "two"),
        }
    }
}

/// Reads to the end, which the relay must bring about without another word.
fn ends(mut connection: impl Read) -> Outcome<()> {
    let mut rest = Vec::new();
    match connection.read_to_end(&mut rest) {
        Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {
            Err("still open".to_owned())
        }
        // A reset, or TLS without a farewell, ends it as well as a close.
        Ok(_) | Err(_) if rest.is_empty() => Ok(()),
        Ok(_) | Err(_) => Err(format!("more: {}", rest.escape_ascii())),
    }
}

/// Fails with the case in front.
pub fn demand<T>(outcome: Outcome<T>, kind: Kind, transport: Transport, case: &str) -> T {
    outcome.unwrap_or_else(|error| panic!("{kind:?} by {transport:?}, {case}: {error}"))
}

fn all() -> impl Iterator<Item = (Transport, Kind)> {
    let kinds = |transport| KINDS.map(|kind| (transport, kind));
    TRANSPORTS.into_iter().flat_map(kinds)
}

/// In single bytes: the tunnel's request, both flights of the handshake, every record. In one
/// packet: the tunnel's request with the hello, the handshake's end with the request.
#[test]
fn everybody_is_served_whatever_a_packet_holds() {
    let (site, relay) = start();
    let mut served = Vec::new();
    for (transport, kind) in all() {
        for packets in [Packets::Single, Packets::Gathered] {
            let mut client = Connection::open(&relay, transport, packets).client();
            client.send(kind.request().as_bytes());
            let case = format!("{packets:?}");
            let accepted = demand(kind.accept(client), kind, transport, &case);
            served.push((accepted, kind, transport, case));
        }
    }
    site.replace_seed(&seed::usual("two"));
    assert_eq!(relay.reload().0, 200);
    for (served, kind, transport, case) in &mut served {
        demand(served.follow(), *kind, *transport, case);
    }
    assert_eq!(metric(&relay, "staffetta_handshakes_failed", ""), 0);
}

/// Opens a connection for every point at which a client can stop after the first byte of a layer,
/// or before it.
fn stopped(relay: &Relay) -> Vec<(&'static str, Box<dyn Read>)> {
    let bytes = |bytes: &[u8]| -> Box<dyn Read> {
        let mut socket = connect_tcp(relay);
        socket.write_all(bytes).expect("a new connection");
        Box::new(socket)
    };
    let tunnel = |bytes: &[u8]| -> Box<dyn Read> {
        let mut socket = connect_tcp(relay);
        let request = format!("CONNECT {}:443 HTTP/1.1\r\n\r\n", service_host());
        assert!(open_tunnel(&mut socket, &request).starts_with("HTTP/1.1 200 "));
        socket.write_all(bytes).expect("an open tunnel");
        Box::new(socket)
    };
    let inside = |transport, bytes: &[u8]| -> Box<dyn Read> {
        let connection = Connection::open(relay, transport, Packets::Written);
        connection.shake_hands();
        connection.client().send(bytes);
        Box::new(connection)
    };
    vec![
        ("before anything", bytes(b"")),
        ("plain", bytes(b"G")),
        ("before TLS", bytes(b"\x16")),
        ("before a tunnel", bytes(b"C")),
        ("in a tunnel, before TLS", tunnel(b"")),
        ("in a tunnel", tunnel(b"\x16")),
        ("in TLS, before a request", inside(Transport::Tls, b"")),
        ("in TLS", inside(Transport::Tls, b"G")),
        ("in TLS in a tunnel, before", inside(Transport::Tunnel, b"")),
        ("in TLS in a tunnel", inside(Transport::Tunnel, b"G")),
    ]
}

#[test]
fn whoever_stops_after_a_byte_is_cut_at_the_head_deadline() {
    const HEAD: Duration = Duration::from_secs(2);
    let limits = Limits {
        head_timeout: HEAD,
        ..Limits::PRODUCTION
    };
    let name = "tls::whoever_stops_after_a_byte_is_cut_at_the_head_deadline";
    let Some((_site, relay)) = shortened::start(name, limits, site) else {
        return;
    };
    let started = Instant::now();
    let stopped = stopped(&relay);
    let count = stopped.len() as u64;
    for (name, connection) in stopped {
        ends(connection).unwrap_or_else(|error| panic!("{name}: {error}"));
        let took = started.elapsed();
        assert!(took >= HEAD, "{name}: cut after {took:?}");
    }
    assert_eq!(expiries(&relay, "head"), count);
    until_nobody_is_left(&relay);
}

type Farewell = (&'static str, fn(&Connection));

/// In what words a client can say that nothing more comes.
fn farewells(transport: Transport) -> Vec<Farewell> {
    let half: Farewell = ("half-close", Connection::close_half);
    let notify: Farewell = ("close_notify", Connection::say_goodbye);
    let both: Farewell = ("both", |connection| {
        connection.say_goodbye();
        connection.close_half();
    });
    match transport {
        Transport::Plain => vec![half],
        Transport::Tls | Transport::Tunnel => vec![notify, half, both],
    }
}

#[test]
fn a_farewell_right_behind_the_request_does_not_cost_the_answer() {
    let (_site, relay) = start();
    for (transport, kind) in all() {
        for (case, farewell) in farewells(transport) {
            let connection = Connection::open(&relay, transport, Packets::Written);
            let mut client = connection.client();
            client.send(kind.request().as_bytes());
            farewell(&connection);
            if kind == Kind::Document {
                let _served = demand(kind.accept(client), kind, transport, case);
                demand(ends(connection), kind, transport, case);
            } else {
                // A stream without a client: how much of it is still said does not matter.
                let mut rest = Vec::new();
                let _ = connection.clone().read_to_end(&mut rest);
            }
            until_nobody_is_left(&relay);
        }
    }
    assert_eq!(metric(&relay, "staffetta_expiries", ""), 0);
}

#[test]
fn a_farewell_within_a_request_or_behind_an_answer_ends_the_connection() {
    let (_site, relay) = start();
    for (transport, kind) in all() {
        for (case, farewell) in farewells(transport) {
            let request = kind.request();
            let half = Connection::open(&relay, transport, Packets::Written);
            let mut client = half.client();
            client.send(&request.as_bytes()[..40]);
            farewell(&half);
            demand(ends(half), kind, transport, case);

            let whole = Connection::open(&relay, transport, Packets::Written);
            let mut client = whole.client();
            client.send(request.as_bytes());
            let _served = demand(kind.accept(client), kind, transport, case);
            let streams = u64::from(kind != Kind::Document);
            until(&relay, "subscribers", streams, clients);
            farewell(&whole);
            demand(ends(whole), kind, transport, case);
            until_nobody_is_left(&relay);
        }
    }
    assert_eq!(metric(&relay, "staffetta_expiries", ""), 0);
}

#[test]
fn keys_may_change_before_within_and_behind_a_request() {
    let (site, relay) = start();
    let mut served = Vec::new();
    for (transport, kind) in all().filter(|(transport, _)| *transport != Transport::Plain) {
        let connection = Connection::open(&relay, transport, Packets::Written);
        connection.shake_hands();
        let refresh = || connection.refresh_keys().expect("the relay goes on");
        let mut client = connection.client();
        let request = kind.request();
        let (start, end) = request.as_bytes().split_at(40);
        refresh();
        client.send(start);
        refresh();
        client.send(end);
        refresh();
        let accepted = demand(kind.accept(client), kind, transport, "new keys");
        refresh();
        served.push((accepted, kind, transport));
    }
    site.replace_seed(&seed::usual("two"));
    assert_eq!(relay.reload().0, 200);
    for (served, kind, transport) in &mut served {
        demand(served.follow(), *kind, *transport, "new keys");
    }
}

/// Each change of keys costs the relay some work and an answer, and this client reads none.
#[test]
fn a_flood_of_new_keys_ends_its_own_connection_only() {
    let (_site, relay) = start();
    for transport in [Transport::Tls, Transport::Tunnel] {
        let honest = Connection::open(&relay, transport, Packets::Written);
        honest.shake_hands();
        let flood = Connection::open(&relay, transport, Packets::Written);
        flood.shake_hands();
        let sent = (0..10_000).take_while(|_| flood.refresh_keys().is_ok());
        let sent = sent.count();
        until(&relay, "connections", 1, connections);
        assert!(sent < 10_000, "{sent} new keys were taken by {transport:?}");
        let mut client = honest.client();
        client.send(Kind::Document.request().as_bytes());
        let served = Kind::Document.accept(client);
        drop(demand(served, Kind::Document, transport, "beside a flood"));
        drop(honest);
        until_nobody_is_left(&relay);
    }
}
