//! Clients that are slow, stuck or silent, against limits short enough to wait for.
//!
//! Each of these tests is also the relay that it speaks to: see `shortened`.

use crate::client::{Client, Outcome};
use crate::crowd::{Reader, read_until, wait_for_reset};
use crate::figures::metric;
use crate::harness::PATIENCE;
use crate::harness::relay::Relay;
use crate::harness::site::Site;
use crate::process::memory_kib;
use crate::request::{subscribe_path, websocket_path};
use crate::stream::{Events, Frame, GO, HEARTBEAT, WebSocket};
use crate::way::{Delivery, PLAIN, Transport, WAYS, connect_tcp, through_tls};
use crate::{request, seed, shortened};
use rustix::process::Signal;
use socket2::{Domain, Socket, Type};
use staffetta::limits::Limits;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn site() -> Site {
    Site::new("slow", &seed::usual("one"))
}

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Waits until the relay says that it serves `version`.
fn adopted(relay: &Relay, version: u64) -> bool {
    let says = format!("serves version {version} from the seed");
    let found = |line: &str| line.contains(&says).then_some(());
    relay.log.find_within(Duration::ZERO, 0, found).is_some()
}

/// 100 changes of 200 KB for 500 subscribers are 10 GB. What may stay in memory of it does not
/// depend on the number of clients: the newest snapshot and three older ones that are still being
/// written, each 0.2 MB and once more as it is read and judged, 2 MB in all. 8 MB leave room for
/// what the allocator keeps, and are a twelfth of one copy per client.
#[test]
fn a_stuck_client_costs_the_others_nothing_and_is_reset() {
    const READERS: usize = 500;
    const DOCUMENT_BYTES: usize = 200 * 1024;
    const LAST: u64 = 101;
    const GROWTH_MAX_KIB: u64 = 8 * 1024;
    let limits = Limits {
        seed_interval: ms(20),
        stall_timeout: Duration::from_secs(5),
        ..Limits::PRODUCTION
    };
    let name = "slow::a_stuck_client_costs_the_others_nothing_and_is_reset";
    let first = || Site::new("slow", &seed::large("1", DOCUMENT_BYTES));
    let Some((site, relay)) = shortened::start(name, limits, first) else {
        return;
    };
    let subscribe = request::get(&subscribe_path("inventory", "dev"));
    let stuck = [
        stuck_client(&relay, Transport::Plain, &subscribe),
        stuck_client(&relay, Transport::Tls, &subscribe),
        // One that follows nothing, and holds the snapshot of its answer.
        stuck_client(&relay, Transport::Plain, &request::config()),
    ];
    let mut readers: Vec<Reader> = (0..READERS)
        .map(|_| Reader::subscribe(connect_tcp(&relay)))
        .collect();
    let all_on = |readers: &[Reader], version| readers.iter().all(|one| one.version >= version);
    let read = |readers: &mut [Reader], is_done: &dyn Fn(&[Reader]) -> bool| {
        read_until(readers, DOCUMENT_BYTES, 2 * PATIENCE, is_done);
    };
    read(&mut readers, &|readers| all_on(readers, 1));
    let before = memory_kib(&relay, "VmRSS");
    for version in 2..=LAST {
        site.replace_seed(&seed::large(&version.to_string(), DOCUMENT_BYTES));
        // A reader is at most one change behind, or it would be a slow one.
        read(&mut readers, &|readers| {
            adopted(&relay, version) && all_on(readers, version - 1)
        });
    }
    read(&mut readers, &|readers| all_on(readers, LAST));
    let grown = memory_kib(&relay, "VmHWM").saturating_sub(before);
    assert!(grown < GROWTH_MAX_KIB, "{grown} KiB more than before");
    for (socket, _keeps_it_open) in &stuck {
        wait_for_reset(socket, PATIENCE);
    }
    assert!(readers.iter().all(|reader| reader.version == LAST));
    assert_eq!(metric(&relay, "staffetta_", "stall"), stuck.len() as u64);
}

/// A connection with 4 KB of receive buffer.
pub fn connect_small(relay: &Relay) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("descriptors are left");
    socket.set_recv_buffer_size(4096).expect("before connect");
    let address = relay.address.into();
    socket.connect(&address).expect("the relay listens");
    let socket = TcpStream::from(socket);
    socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
    socket
}

/// A client that reads nothing of the answer to `request`: its socket, and what else keeps that
/// open.
fn stuck_client(relay: &Relay, transport: Transport, request: &str) -> (TcpStream, Option<Client>) {
    let mut socket = connect_small(relay);
    let watched = socket.try_clone().expect("descriptors are left");
    if transport == Transport::Plain {
        socket
            .write_all(request.as_bytes())
            .expect("a new connection takes a request");
        return (watched, None);
    }
    let session = Box::new(through_tls(socket, "127.0.0.1"));
    let mut client = Client::over(session, Delivery::Whole);
    client.send(request.as_bytes());
    (watched, Some(client))
}

/// 4 KB of receive buffer, emptied by 1 KB at a time: three changes come while the first document
/// is still under way. The newest has to follow it by itself.
#[test]
fn a_client_that_reads_slowly_ends_on_the_newest() {
    let name = "slow::a_client_that_reads_slowly_ends_on_the_newest";
    let first = || Site::new("slow", &seed::large("1", 64 * 1024));
    let Some((site, relay)) = shortened::start(name, Limits::PRODUCTION, first) else {
        return;
    };
    let mut socket = connect_small(&relay);
    let request = request::get(&subscribe_path("inventory", "dev"));
    socket.write_all(request.as_bytes()).expect("a new socket");
    let mut text = Vec::new();
    let mut read_slowly = |until: &dyn Fn(&str) -> bool| {
        let mut piece = [0; 1024];
        let deadline = Instant::now() + 2 * PATIENCE;
        while !until(&String::from_utf8_lossy(
            &text[text.len().saturating_sub(100)..],
        )) {
            assert!(Instant::now() < deadline, "{} bytes came", text.len());
            let length = socket.read(&mut piece).expect("the stream goes on");
            assert!(length > 0, "the stream ended after {} bytes", text.len());
            text.extend_from_slice(&piece[..length]);
            // A client that reads slowly is what is tested here.
            std::thread::sleep(ms(2));
        }
        text.len()
    };
    read_slowly(&|tail| tail.contains("0123456789abcdef"));
    for version in 2..=4 {
        site.replace_seed(&seed::large(&version.to_string(), 64 * 1024));
        assert_eq!(relay.reload().0, 200);
        relay
            .log
            .wait_for(&format!("serves version {version} from the seed"));
    }
    let length = read_slowly(&|tail| tail.contains("\nid: 4\ndata: {}\n\n"));
    // The first and the newest; the two between were skipped, not queued.
    assert!(
        (2 * 64 * 1024..3 * 64 * 1024).contains(&length),
        "{length} bytes"
    );
}

#[test]
fn a_silent_stream_gives_signs_of_life() {
    let limits = Limits {
        heartbeat_interval: ms(100),
        change_grace: Duration::ZERO,
        ..Limits::PRODUCTION
    };
    let name = "slow::a_silent_stream_gives_signs_of_life";
    let Some((_site, relay)) = shortened::start(name, limits, site) else {
        return;
    };
    for way in WAYS {
        let path = websocket_path("inventory", "dev");
        let mut socket = WebSocket::open(&relay, way, &path, "");
        for _ in 0..2 {
            let next = socket.next();
            assert_eq!(next, Ok(Frame::Text(HEARTBEAT.to_owned())), "{way:?}");
        }
        let mut stream = Events::subscribe(&relay, way, &subscribe_path("inventory", "dev"));
        stream.next().expect("registered");
        for _ in 0..2 {
            let heard = stream.next_comment();
            heard.unwrap_or_else(|error| panic!("{way:?}: {error}"));
        }
    }
}

/// Whether the first thing on a socket is a change. A pong may come before it, two may not.
fn is_told(mut socket: WebSocket) -> bool {
    for _ in 0..2 {
        socket.send(0x9, b"?");
        match socket.next() {
            Ok(Frame::Pong(_)) => {}
            Ok(Frame::Text(text)) if text != HEARTBEAT => return true,
            other => panic!("{other:?}"),
        }
    }
    false
}

/// Node fetches, waits for two seconds and only then opens its socket: a change between the two
/// would be lost on it.
#[test]
fn who_opens_soon_after_a_change_is_told_and_later_only_go() {
    const GRACE: Duration = ms(500);
    let limits = Limits {
        change_grace: GRACE,
        ..Limits::PRODUCTION
    };
    let name = "slow::who_opens_soon_after_a_change_is_told_and_later_only_go";
    let Some((site, relay)) = shortened::start(name, limits, site) else {
        return;
    };
    let path = websocket_path("inventory", "dev");
    let node = "User-Agent: appconfiguration-node-sdk/0.12.0\r\n";
    let before = Instant::now();
    site.replace_seed(&seed::usual("two"));
    assert_eq!(relay.reload().0, 200);
    let is_told = || is_told(WebSocket::open(&relay, PLAIN, &path, node));
    let deadline = before + PATIENCE;
    while is_told() {
        assert!(Instant::now() < deadline, "told for ever");
    }
    // The relay's own clock starts later: whoever opens before this is told, the first one too.
    assert!(before.elapsed() >= GRACE, "{:?}", before.elapsed());
    WebSocket::open(&relay, PLAIN, &path, GO).told_at_once();
}

/// Sends `bytes` one at a time until the relay has had enough; gives how long that took, from
/// before it could accept. The wait between two bytes is a read that nothing answers.
fn trickle(relay: &Relay, bytes: &[u8]) -> Outcome<Duration> {
    let pause = ms(50);
    let started = Instant::now();
    let mut socket = connect_tcp(relay);
    socket
        .set_read_timeout(Some(pause))
        .map_err(|error| error.to_string())?;
    let mut piece = [0; 1024];
    for byte in bytes {
        if socket.write_all(&[*byte]).is_err() {
            return Ok(started.elapsed());
        }
        match socket.read(&mut piece) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // Told so first, as it may be.
            Ok(length) if length > 0 => {}
            Ok(_) | Err(_) => return Ok(started.elapsed()),
        }
    }
    Err(format!("{} bytes were waited for", bytes.len()))
}

#[test]
fn a_head_that_trickles_in_is_cut_at_its_deadline() {
    const HEAD: Duration = ms(500);
    let limits = Limits {
        head_timeout: HEAD,
        ..Limits::PRODUCTION
    };
    let name = "slow::a_head_that_trickles_in_is_cut_at_its_deadline";
    let Some((_site, relay)) = shortened::start(name, limits, site) else {
        return;
    };
    let request = request::config();
    let tunnel = "CONNECT iam.cloud.ibm.com:443 HTTP/1.1\r\nHost: iam.cloud.ibm.com:443\r\n\r\n";
    // The start of a TLS record that announces 512 bytes.
    let hello = [&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01][..], &[0; 200]].concat();
    for bytes in [request.as_bytes(), tunnel.as_bytes(), &hello] {
        assert!(bytes.len() > 60, "long enough to be cut");
        let took = trickle(&relay, bytes).expect("cut in the middle");
        assert!(took >= HEAD, "{took:?}");
    }
    assert_eq!(metric(&relay, "staffetta_", "\"head\""), 3);
}

#[test]
fn a_body_that_does_not_come_is_cut_at_its_deadline() {
    let limits = Limits {
        body_timeout: ms(300),
        ..Limits::PRODUCTION
    };
    let name = "slow::a_body_that_does_not_come_is_cut_at_its_deadline";
    let Some((_site, relay)) = shortened::start(name, limits, site) else {
        return;
    };
    let report = request::post(&request::usage_path(), request::USAGE.as_bytes(), "");
    for way in WAYS {
        let mut client = Client::connect(&relay, way);
        client.send(&report[..report.len() - 1]);
        client
            .closes()
            .unwrap_or_else(|error| panic!("{way:?}: {error}"));
    }
}

#[test]
fn idle_connections_are_cut_and_streams_are_not() {
    const IDLE: Duration = ms(300);
    let limits = Limits {
        idle_timeout: IDLE,
        ..Limits::PRODUCTION
    };
    let name = "slow::idle_connections_are_cut_and_streams_are_not";
    let Some((site, relay)) = shortened::start(name, limits, site) else {
        return;
    };
    let mut stream = Events::subscribe(&relay, PLAIN, &subscribe_path("inventory", "dev"));
    stream.next().expect("registered");
    for way in WAYS {
        let mut client = Client::connect(&relay, way);
        let asked = Instant::now();
        let answer = client.exchange(request::config().as_bytes());
        assert_eq!(answer.map(|answer| answer.status()), Ok(200), "{way:?}");
        client
            .closes()
            .unwrap_or_else(|error| panic!("{way:?}: {error}"));
        let took = asked.elapsed();
        assert!(took >= IDLE, "{way:?}: cut after {took:?}");
    }
    site.replace_seed(&seed::usual("two"));
    assert_eq!(relay.reload().0, 200);
    let event = stream.next().expect("a change comes");
    assert_eq!(event.id, "2");
}

/// The end comes in small groups over most of its window, so that a fleet does not return at once.
#[test]
fn the_end_is_spread_over_its_window() {
    const WINDOW: Duration = Duration::from_secs(2);
    let limits = Limits {
        drain_timeout: WINDOW,
        ..Limits::PRODUCTION
    };
    let name = "slow::the_end_is_spread_over_its_window";
    let Some((_site, relay)) = shortened::start(name, limits, site) else {
        return;
    };
    let path = websocket_path("inventory", "dev");
    let sockets: Vec<WebSocket> = (0..60)
        .map(|number| WebSocket::open(&relay, WAYS[number % WAYS.len()], &path, ""))
        .collect();
    let mut stays = WebSocket::open(&relay, PLAIN, &path, "");
    let mut idle = Client::connect(&relay, PLAIN);
    let answer = idle.exchange(request::config().as_bytes());
    assert_eq!(answer.map(|answer| answer.status()), Ok(200));
    let started = Instant::now();
    relay.signal(Signal::TERM);
    idle.closes()
        .expect("what is between two requests goes first");
    let readers: Vec<_> = sockets
        .into_iter()
        .map(|mut socket| {
            std::thread::spawn(move || (socket.next_change(), started.elapsed(), socket))
        })
        .collect();
    let mut times = Vec::new();
    for reader in readers {
        let (frame, time, mut socket) = reader.join().expect("the reader does not panic");
        assert_eq!(frame, Ok(Frame::Close(1012)));
        socket.send(0x8, &1012u16.to_be_bytes());
        times.push(time);
    }
    times.sort();
    let (first, last) = (times[0], times[times.len() - 1]);
    assert!(last - first >= WINDOW / 4, "{times:?}");
    // One client never answers the close; the process ends all the same.
    assert_eq!(stays.next_change(), Ok(Frame::Close(1012)));
    let status = relay.wait();
    let took = started.elapsed();
    assert!(status.success(), "{status}");
    assert!(took < WINDOW + Duration::from_secs(2), "{took:?}");
}
