//! WebSocket clients that break the protocol, flood, or leave halfway.
//!
//! What comes back is read from the close frame itself. Behind every broken frame comes a ping that
//! must not be answered any more.

use crate::crowd::wait_for_reset;
use crate::figures::{clients, expiries, until, until_nobody_is_left};
use crate::harness::PATIENCE;
use crate::harness::relay::Relay;
use crate::harness::site::Site;
use crate::process::memory_kib;
use crate::request::{upgrade, websocket_path};
use crate::stream::{Frame, WebSocket, frame, is_harmless};
use crate::way::{PLAIN, Transport, WAYS, Way, through_tls};
use crate::wire::{Connection, Packets};
use crate::{seed, shortened, slow};
use staffetta::limits::Limits;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

const TRANSPORTS: [Transport; 3] = [Transport::Plain, Transport::Tls, Transport::Tunnel];

fn start() -> (Site, Relay) {
    let site = Site::new("websocket", &seed::usual("one"));
    let relay = Relay::start(&site);
    (site, relay)
}

fn open(relay: &Relay, way: Way) -> WebSocket {
    WebSocket::open(relay, way, &websocket_path("inventory", "dev"), "")
}

/// A frame whose first byte is `first`, otherwise as it should be.
fn begun_with(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = frame(0, payload);
    bytes[0] = first;
    bytes
}

/// The start of a frame that announces `length` bytes in the longest of the three ways.
fn announcing(first: u8, length: u64) -> Vec<u8> {
    [&[first, 0xff][..], &length.to_be_bytes(), &[0; 4]].concat()
}

fn unmasked(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).expect("a short payload");
    [&[0x80 | kind, length][..], payload].concat()
}

struct Broken {
    name: String,
    bytes: Vec<u8>,
    code: u16,
}

fn broken(name: impl Into<String>, bytes: Vec<u8>, code: u16) -> Broken {
    Broken {
        name: name.into(),
        bytes,
        code,
    }
}

/// Frames that are wrong by themselves.
fn broken_frames() -> Vec<Broken> {
    let mut cases = vec![
        broken("an unmasked ping", unmasked(0x9, b"hi"), 1002),
        broken("an unmasked close", unmasked(0x8, b"\x03\xe8"), 1002),
        broken("an unmasked nothing", unmasked(0x1, b""), 1002),
        broken("a long close", frame(0x8, &[3; 126]), 1002),
        broken("a ping of a tebibyte", announcing(0x89, 1 << 40), 1009),
        broken("a close of one byte", frame(0x8, b"\x03"), 1002),
        broken(
            "a close with a bad reason",
            frame(0x8, b"\x03\xe8\xff"),
            1007,
        ),
        broken("a text of a tebibyte", announcing(0x81, 1 << 40), 1009),
        broken("a start of a tebibyte", announcing(0x02, 1 << 40), 1009),
    ];
    for bit in [0x40, 0x20, 0x10, 0x70] {
        let bytes = begun_with(0x81 | bit, b"hi");
        cases.push(broken(format!("reserved bits {bit:#x}"), bytes, 1002));
        let bytes = begun_with(0x89 | bit, b"hi");
        cases.push(broken(format!("reserved {bit:#x} of a ping"), bytes, 1002));
    }
    for kind in [3, 4, 5, 6, 7, 0xb, 0xc, 0xd, 0xe, 0xf] {
        let bytes = begun_with(0x80 | kind, b"");
        cases.push(broken(format!("a frame of kind {kind:#x}"), bytes, 1002));
    }
    for kind in [0x8, 0x9, 0xa] {
        let bytes = begun_with(kind, b"");
        cases.push(broken(format!("a fragment of kind {kind:#x}"), bytes, 1002));
    }
    for code in [0_u16, 999, 1005, 1006, 1015, 2999, 5000, u16::MAX] {
        let bytes = frame(0x8, &code.to_be_bytes());
        cases.push(broken(format!("a close with {code}"), bytes, 1002));
    }
    cases
}

/// Messages that are wrong as a whole.
fn broken_messages() -> Vec<Broken> {
    let parts = |parts: &[(u8, &[u8])]| -> Vec<u8> {
        let frames = parts.iter().map(|(first, part)| begun_with(*first, part));
        frames.collect::<Vec<_>>().concat()
    };
    let long = [b'x'; 4097];
    let half = &long[..2049];
    let mut cases = vec![
        broken("a long text", frame(0x1, &long), 1009),
        broken("long bytes", frame(0x2, &long), 1009),
        broken(
            "long in two parts",
            parts(&[(0x01, half), (0x80, half)]),
            1009,
        ),
        broken(
            "a part too many",
            parts(&[(0x02, &long[..4096]), (0x00, b"x")]),
            1009,
        ),
        broken(
            "a text within a text",
            parts(&[(0x01, b"a"), (0x81, b"b")]),
            1002,
        ),
        broken(
            "a text that ends within a letter",
            parts(&[(0x01, b"a"), (0x80, b"\xe2\x82")]),
            1007,
        ),
        broken(
            "a second part that is none",
            parts(&[(0x01, b"a"), (0x80, b"\xff")]),
            1007,
        ),
    ];
    let texts: [&[u8]; 5] = [
        b"\xc0\xaf",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\x80",
        b"\xe2\x82",
    ];
    for text in texts {
        let name = format!("the text {}", text.escape_ascii());
        cases.push(broken(name, frame(0x1, text), 1007));
    }
    cases
}

fn close_with_their_code(cases: &[Broken]) {
    let (_site, relay) = start();
    // Whole by each transport, and plain in single bytes.
    for way in [WAYS[0], WAYS[1], WAYS[2], WAYS[4]] {
        for Broken { name, bytes, code } in cases {
            let mut socket = open(&relay, way);
            socket
                .client
                .send(&[bytes, &frame(0x9, b"late")[..]].concat());
            let closed = socket.next_change();
            assert_eq!(closed, Ok(Frame::Close(*code)), "{name} by {way:?}");
            assert!(is_harmless(*code), "{name}: {code}");
            let ended = socket.client.closes();
            ended.unwrap_or_else(|error| panic!("{name} by {way:?}: {error}"));
        }
    }
    until_nobody_is_left(&relay);
}

#[test]
fn broken_frames_close_with_the_code_that_names_the_fault() {
    close_with_their_code(&broken_frames());
}

#[test]
fn broken_messages_close_with_the_code_that_names_the_fault() {
    close_with_their_code(&broken_messages());
}

#[test]
fn what_is_unusual_and_allowed_closes_nothing() {
    let (_site, relay) = start();
    let cases: [(&str, Vec<u8>); 5] = [
        ("the longest text", frame(0x1, &[b'x'; 4096])),
        ("an empty text", frame(0x1, b"")),
        (
            "a letter in two parts with a pong between them",
            [
                begun_with(0x01, b"\xe2\x82"),
                frame(0xa, b""),
                begun_with(0x80, b"\xac"),
            ]
            .concat(),
        ),
        (
            "a thousand empty parts",
            [
                begun_with(0x01, b""),
                begun_with(0x00, b"").repeat(1000),
                begun_with(0x80, b""),
            ]
            .concat(),
        ),
        ("a thousand pongs", frame(0xa, b"?").repeat(1000)),
    ];
    for way in [WAYS[0], WAYS[1], WAYS[2], WAYS[4]] {
        let mut socket = open(&relay, way);
        for (name, bytes) in &cases {
            socket.client.send(bytes);
            socket.send(0x9, name.as_bytes());
            let pong = Frame::Pong(name.as_bytes().to_vec());
            assert_eq!(socket.next_change(), Ok(pong), "{name} by {way:?}");
        }
    }
}

/// SDKs close with codes of their own, some in the range that would stop others for good.
#[test]
fn a_close_of_any_legal_code_is_answered_harmlessly() {
    let (_site, relay) = start();
    for code in [1000_u16, 1001, 1003, 1011, 3000, 4001, 4499, 4999] {
        let mut socket = open(&relay, PLAIN);
        let payload = [&code.to_be_bytes()[..], b"bye"].concat();
        socket.send(0x8, &payload);
        assert_eq!(socket.next_change(), Ok(Frame::Close(1000)), "{code}");
        socket.client.closes().expect("the relay closes");
    }
}

/// Pings as fast as the relay reads them, and no answer is ever read. What waits for the client is
/// one pong and the one that is being written; 4 MB are what a few thousand pongs would come to.
#[test]
fn a_flood_of_pings_that_reads_nothing_is_reset_and_takes_no_memory() {
    const GROWTH_MAX_KIB: u64 = 4 * 1024;
    const STALL: Duration = Duration::from_millis(1500);
    let limits = Limits {
        stall_timeout: STALL,
        ..Limits::PRODUCTION
    };
    let name = "websocket::a_flood_of_pings_that_reads_nothing_is_reset_and_takes_no_memory";
    let first = || Site::new("websocket", &seed::usual("one"));
    let Some((_site, relay)) = shortened::start(name, limits, first) else {
        return;
    };
    let request = upgrade(&websocket_path("inventory", "dev"), "");
    let pings = frame(0x9, &[b'?'; 125]).repeat(500);
    for (number, transport) in [Transport::Plain, Transport::Tls].into_iter().enumerate() {
        let socket = slow::connect_small(&relay);
        let watched = socket.try_clone().expect("descriptors are left");
        let mut stream: Box<dyn Write> = match transport {
            Transport::Plain => Box::new(socket),
            _ => Box::new(through_tls(socket, "127.0.0.1")),
        };
        stream
            .write_all(request.as_bytes())
            .expect("a new connection takes a request");
        until(&relay, "subscribers", 1, clients);
        let before = memory_kib(&relay, "VmRSS");
        let (started, mut sent) = (Instant::now(), 0);
        while stream.write_all(&pings).is_ok() {
            sent += pings.len();
            assert!(started.elapsed() < PATIENCE, "{sent} bytes and no reset");
        }
        wait_for_reset(&watched, PATIENCE);
        assert!(started.elapsed() >= STALL, "{:?}", started.elapsed());
        let grown = memory_kib(&relay, "VmHWM").saturating_sub(before);
        assert!(grown < GROWTH_MAX_KIB, "{grown} KiB for {sent} bytes");
        assert!(sent > 1 << 20, "{sent} bytes are no flood");
        until_nobody_is_left(&relay);
        assert_eq!(expiries(&relay, "stall"), number as u64 + 1);
    }
}

/// A relay that waited for the peer to take its farewell would keep these until the stall deadline.
#[test]
fn whoever_closes_half_is_let_go_at_once() {
    let (_site, relay) = start();
    let upgrade = upgrade(&websocket_path("inventory", "dev"), "");
    let behind: [&[u8]; 4] = [
        b"",
        b"\x89",
        &frame(0x1, b"cut off")[..9],
        &frame(0x9, b"?"),
    ];
    for transport in TRANSPORTS {
        for bytes in behind {
            let connection = Connection::open(&relay, transport, Packets::Written);
            let mut client = connection.client();
            client.send(upgrade.as_bytes());
            let status = client.head().map(|head| head.status);
            assert_eq!(status, Ok(101), "{transport:?}");
            until(&relay, "subscribers", 1, clients);
            client.send(bytes);
            connection.close_half();
            let mut rest = Vec::new();
            // A reset is as good an end as a close.
            let _ = connection.clone().read_to_end(&mut rest);
            let pong: &[u8] = b"\x8a\x01?";
            let may_come = bytes.ends_with(&frame(0x9, b"?")) && rest == pong;
            assert!(rest.is_empty() || may_come, "{transport:?}: {rest:?}");
            until_nobody_is_left(&relay);
        }
    }
}
