//! First messages of TLS: cut short, bent, and with what does not belong there.
//!
//! They are made by our own TLS library and changed as bytes, because it would not send them so.

use crate::client::Client;
use crate::figures::{descriptors, expiries, metric, until, until_nobody_is_left};
use crate::shortened;
use crate::tls::{KINDS, demand, site, start};
use crate::way::{Delivery, Transport, connect_tcp, open_tunnel, service_host, through_tls};
use crate::wire::{Connection, Packets};
use staffetta::limits::Limits;
use std::io::{Error, ErrorKind, Read, Result as IoResult, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

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

/// Python's WebSocket client puts an IP address where a host name belongs. Here the address takes
/// the place of a name of the same length.
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
    let name = "hellos::a_thousand_half_hellos_keep_nobody_out";
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
        let mut client = Client::over(Box::new(socket), Delivery::Whole);
        // An alert, or a server's hello and then an alert, may come; plain HTTP may not.
        let first = client.take(1).unwrap_or_default();
        assert!([&b""[..], b"\x15", b"\x16"].contains(&&first[..]), "{name}");
        while client.take(1).is_ok() {}
        until_nobody_is_left(&relay);
        assert_eq!(expiries(&relay, "head"), 0, "{name}: it was waited for");
    }
    let failed = metric(&relay, "staffetta_handshakes_failed", "");
    assert_eq!(failed, 6);
}
