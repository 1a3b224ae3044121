//! The three transports against what the network, or a client, does to their bytes.
//!
//! Every case is tried for a document, a WebSocket and an event stream where it can make a
//! difference; what happens before the first request is the same for all of them.

use crate::client::{Client, Outcome};
use crate::figures::{
    clients, connections, descriptors, expiries, metric, until, until_nobody_is_left,
};
use crate::harness::PATIENCE;
use crate::harness::relay::Relay;
use crate::harness::site::Site;
use crate::request::{subscribe_path, websocket_path};
use crate::stream::{Events, Frame, HEARTBEAT, WebSocket};
use crate::way::{Delivery, Transport, connect_tcp, open_tunnel, service_host, through_tls};
use crate::wire::{Connection, Packets};
use crate::{request, seed, shortened};
use staffetta::limits::Limits;
use std::io::{Error, ErrorKind, Read, Result as IoResult, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const TRANSPORTS: [Transport; 3] = [Transport::Plain, Transport::Tls, Transport::Tunnel];
const KINDS: [Kind; 3] = [Kind::Document, Kind::WebSocket, Kind::Events];

fn site() -> Site {
    Site::new("tls", &seed::usual("one"))
}

fn start() -> (Site, Relay) {
    let site = site();
    let relay = Relay::start(&site);
    (site, relay)
}

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Document,
    WebSocket,
    Events,
}

impl Kind {
    fn request(self) -> String {
        match self {
            Kind::Document => request::config(),
            Kind::WebSocket => request::upgrade(&websocket_path("inventory", "dev"), ""),
            Kind::Events => request::get(&subscribe_path("inventory", "dev")),
        }
    }

    /// Reads the answer to [`Kind::request`], which must be the right one.
    fn accept(self, mut client: Client) -> Outcome<Served> {
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
enum Served {
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
fn demand<T>(outcome: Outcome<T>, kind: Kind, transport: Transport, case: &str) -> T {
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
    let opened = Instant::now();
    let count = stopped.len() as u64;
    assert!(opened - started < HEAD, "too slow to tell: {started:?}");
    for (name, connection) in stopped {
        ends(connection).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (least, most) = (started.elapsed(), opened.elapsed());
        assert!(least >= HEAD, "{name}: cut after {least:?}");
        assert!(most < HEAD + PATIENCE / 4, "{name}: cut after {most:?}");
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

/// A socket that keeps what is written and has nothing to read.
#[derive(Default)]
struct Kept(Vec<u8>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> IoResult<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> IoResult<()> {
        Ok(())
    }
}

impl Read for Kept {
    fn read(&mut self, _: &mut [u8]) -> IoResult<usize> {
        Err(Error::from(ErrorKind::WouldBlock))
    }
}

/// The first message of a client that asks for `name`.
fn hello(name: &str) -> Vec<u8> {
    let mut stream = through_tls(Kept::default(), name);
    let stuck = stream.flush().map_err(|error| error.kind());
    assert_eq!(stuck, Err(ErrorKind::WouldBlock));
    stream.sock.0
}

/// Python's WebSocket client puts an IP address where a host name belongs. Our own TLS library
/// refuses to, so the address takes the place of a name of the same length.
#[test]
fn an_address_where_a_name_belongs_is_answered() {
    let (_site, relay) = start();
    let (name, address) = (b"aa.bb.c.d", b"127.0.0.1");
    let mut hello = hello("aa.bb.c.d");
    let place = hello.windows(name.len()).position(|part| part == name);
    let place = place.expect("the name is sent in clear");
    hello[place..place + name.len()].copy_from_slice(address);
    for in_tunnel in [false, true] {
        let mut socket = connect_tcp(&relay);
        if in_tunnel {
            let request = format!("CONNECT {}:443 HTTP/1.1\r\n\r\n", service_host());
            assert!(open_tunnel(&mut socket, &request).starts_with("HTTP/1.1 200 "));
        }
        socket.write_all(&hello).expect("a new connection");
        let mut answer = [0; 6];
        socket.read_exact(&mut answer).expect("an answer");
        // A handshake record with a server's hello in it, and no alert.
        assert_eq!((answer[0], answer[1], answer[5]), (0x16, 0x03, 0x02));
    }
}

/// A thousand stop within their first message, a hundred behind it: nobody waits for them.
#[test]
fn a_thousand_half_hellos_keep_nobody_out() {
    const HALF: usize = 1000;
    const WHOLE: usize = 100;
    const HEAD: Duration = Duration::from_secs(4);
    let limits = Limits {
        head_timeout: HEAD,
        ..Limits::PRODUCTION
    };
    let name = "tls::a_thousand_half_hellos_keep_nobody_out";
    let roomy = || {
        let mut site = site();
        site.config["limits"] = serde_json::json!({ "connections": HALF + WHOLE + 50 });
        site
    };
    let Some((_site, relay)) = shortened::start(name, limits, roomy) else {
        return;
    };
    let before = descriptors(&relay);
    let hello = hello("relay.test");
    let stall = |length: usize| -> TcpStream {
        let mut socket = connect_tcp(&relay);
        socket.write_all(&hello[..length]).expect("a new socket");
        socket
    };
    let mut stalled: Vec<TcpStream> = (0..HALF).map(|_| stall(hello.len() / 2)).collect();
    stalled.extend((0..WHOLE).map(|_| stall(hello.len())));
    let started = Instant::now();
    for transport in [Transport::Tls, Transport::Tunnel] {
        for kind in KINDS {
            let mut client = Connection::open(&relay, transport, Packets::Written).client();
            client.send(kind.request().as_bytes());
            drop(demand(kind.accept(client), kind, transport, "in a crowd"));
        }
    }
    let took = started.elapsed();
    assert!(took < HEAD, "honest clients waited for {took:?}");
    let cut = (HALF + WHOLE) as u64;
    until(&relay, "expiries", cut, |relay| expiries(relay, "head"));
    until_nobody_is_left(&relay);
    until(&relay, "descriptors", before, descriptors);
    for mut socket in stalled {
        let mut rest = Vec::new();
        let ended = socket.read_to_end(&mut rest).map_err(|error| error.kind());
        assert!(ended != Err(ErrorKind::WouldBlock), "one is still open");
    }
}

/// Random bytes behind what looks like TLS, and an alert in the place of a hello.
#[test]
fn what_only_looks_like_tls_is_ended_at_once() {
    let (_site, relay) = start();
    let record = |content: &[u8]| -> Vec<u8> {
        let length = u16::try_from(content.len()).expect("a short record");
        [b"\x16\x03\x01", &length.to_be_bytes()[..], content].concat()
    };
    let whole = hello("relay.test");
    let mut bent = whole.clone();
    bent[8] -= 1;
    let cases: [(&str, Vec<u8>); 6] = [
        ("an empty record", record(b"")),
        ("a server's hello", record(b"\x02\x00\x00\x02\x03\x03")),
        ("a record longer than any", b"\x16\x03\x01\xff\xff".to_vec()),
        ("another version", b"\x16\x09\x09\x00\x02ab".to_vec()),
        ("a hello longer than it says", bent),
        ("two hellos at once", whole.repeat(2)),
    ];
    for (name, bytes) in cases {
        let mut socket = connect_tcp(&relay);
        socket.write_all(&bytes).expect("a new connection");
        let started = Instant::now();
        let mut client = Client::over(Box::new(socket), Delivery::Whole);
        // An alert, or a server's hello and then an alert, may come; plain HTTP may not.
        let first = client.take(1).unwrap_or_default();
        assert!([&b""[..], b"\x15", b"\x16"].contains(&&first[..]), "{name}");
        while client.take(1).is_ok() {}
        until_nobody_is_left(&relay);
        let took = started.elapsed();
        assert!(took < PATIENCE / 8, "{name}: {took:?}");
    }
    let failed = metric(&relay, "staffetta_handshakes_failed", "");
    assert_eq!(failed, 6);
}
