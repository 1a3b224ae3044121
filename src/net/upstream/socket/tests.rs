//! Upgrades that work and that do not, and what a socket says and hears.

use super::*;
use crate::net::pipe::End;
use crate::net::upstream::rig::{Rig, way};
use crate::time::Duration;
use crate::wire::http::Method;
use async_tungstenite::tungstenite::protocol::frame::Frame;
use async_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use std::cell::RefCell;
use std::rc::Rc;

type Opened = Result<Socket, UpstreamError>;

fn start(rig: &Rig) -> smol::Task<Opened> {
    let net = rig.net.clone();
    rig.start(async move {
        let request = Request::new(Method::Get, "/ws?a=b").with("authorization", "Bearer t");
        open(&net, &way("http://a.test"), request).await
    })
}

fn accept_for(asked: &str) -> String {
    let key = asked
        .lines()
        .find_map(|line| line.strip_prefix("sec-websocket-key: "));
    derive_accept_key(key.unwrap().as_bytes())
}

fn upgraded(rig: &Rig, behind: &[u8]) -> (Socket, End) {
    let task = start(rig);
    let (_, mut server) = rig.accept();
    let asked = rig.hear(&mut server);
    assert!(
        asked.starts_with("GET /ws?a=b HTTP/1.1\r\nhost: a.test\r\n"),
        "{asked}"
    );
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {}\r\n\r\n",
        accept_for(&asked)
    );
    rig.say(&mut server, &[head.as_bytes(), behind].concat());
    (rig.take(task).unwrap(), server)
}

fn bytes(frame: Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.format(&mut bytes).unwrap();
    bytes
}

fn text(text: &'static str) -> Vec<u8> {
    bytes(Frame::message(text, OpCode::Data(Data::Text), true))
}

/// Listens in a task; what was heard, and the end.
fn listen(rig: &Rig, mut socket: Socket) -> Rc<RefCell<Vec<Result<Inbound, Ended>>>> {
    let heard: Rc<RefCell<Vec<_>>> = Rc::default();
    let log = heard.clone();
    let task = rig.start(async move {
        loop {
            let next = socket.next().await;
            log.borrow_mut().push(next);
            if next.is_err() {
                return;
            }
        }
    });
    task.detach();
    heard
}

#[test]
fn texts_are_heartbeats_or_changes_and_the_first_may_come_with_the_upgrade() {
    for step_bytes in [1, 1 << 20] {
        let rig = Rig::with(Limits::PRODUCTION, step_bytes);
        let (socket, mut server) = upgraded(&rig, &text("test message"));
        let heard = listen(&rig, socket);
        rig.say(&mut server, &text("changed"));
        rig.say(&mut server, &text(""));
        rig.say(
            &mut server,
            &bytes(Frame::message("x", OpCode::Data(Data::Binary), true)),
        );
        rig.say(&mut server, &bytes(Frame::pong("")));
        let expected = [
            Inbound::Heartbeat,
            Inbound::Change,
            Inbound::Change,
            Inbound::Other,
            Inbound::Other,
        ];
        assert_eq!(*heard.borrow(), expected.map(Ok));
    }
}

#[test]
fn pings_are_answered_and_sent() {
    let rig = Rig::new();
    let (mut socket, mut server) = upgraded(&rig, b"");
    socket.ping();
    let heard = listen(&rig, socket);
    assert_eq!(rig.hear_bytes(&mut server)[..1], [0x89]);
    rig.say(&mut server, &bytes(Frame::ping("abc")));
    rig.say(&mut server, &text("test message"));
    let mut sent = [0; 64];
    let count = server.read(&mut sent).unwrap();
    // A masked pong of three bytes, and nothing else.
    assert_eq!((count, &sent[..2]), (9, &[0x8a, 0x83][..]));
    assert_eq!(
        *heard.borrow(),
        [Ok(Inbound::Other), Ok(Inbound::Heartbeat)]
    );
}

#[test]
fn the_end_is_told_with_its_reason_and_stays() {
    let close = |code: u16| {
        bytes(Frame::close(Some(CloseFrame {
            code: CloseCode::from(code),
            reason: Default::default(),
        })))
    };
    let huge = [&[0x81, 0x7f][..], &(1u64 << 40).to_be_bytes()].concat();
    for (said, ends, reason) in [
        (close(1012), false, Ended::Closed(Some(1012))),
        (bytes(Frame::close(None)), false, Ended::Closed(None)),
        (Vec::new(), true, Ended::Closed(None)),
        (
            b"HTTP/1.1 400 Bad Request\r\n".repeat(5),
            false,
            Ended::Broken,
        ),
        (huge, false, Ended::Broken),
    ] {
        let rig = Rig::new();
        let (socket, mut server) = upgraded(&rig, b"");
        let heard = listen(&rig, socket);
        rig.say(&mut server, &said);
        if ends {
            drop(server);
            rig.settle();
        }
        assert_eq!(*heard.borrow(), [Err(reason)], "{said:?}");
    }
    let rig = Rig::new();
    let (mut socket, mut server) = upgraded(&rig, b"");
    server.reset();
    for _ in 0..2 {
        let lost = Err(Ended::Lost(io::ErrorKind::ConnectionReset));
        assert_eq!(smol::block_on(socket.next()), lost);
    }
}

#[test]
fn a_refused_upgrade_tells_status_and_patience() {
    let rig = Rig::new();
    for (answer, problem) in [
        (
            "503 x\r\nRetry-After: 9\r\nContent-Length: 5",
            Problem::Status {
                status: 503,
                retry_after: Some(Duration::from_secs(9)),
            },
        ),
        (
            "401 x",
            Problem::Status {
                status: 401,
                retry_after: None,
            },
        ),
        (
            "302 x\r\nLocation: https://b.test/",
            Problem::Redirect {
                to: Some("b.test".into()),
            },
        ),
    ] {
        let task = start(&rig);
        let (_, mut server) = rig.accept();
        rig.hear(&mut server);
        rig.say(&mut server, format!("HTTP/1.1 {answer}\r\n\r\n").as_bytes());
        assert_eq!(rig.take(task).err().unwrap().problem, problem);
    }
    for answer in [
        "200 OK",
        "101 x\r\nUpgrade: websocket\r\nConnection: Upgrade",
        "101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: AAAA",
    ] {
        let task = start(&rig);
        let (_, mut server) = rig.accept();
        rig.hear(&mut server);
        rig.say(&mut server, format!("HTTP/1.1 {answer}\r\n\r\n").as_bytes());
        let problem = rig.take(task).err().unwrap().problem;
        assert!(
            matches!(problem, Problem::Protocol(_)),
            "{answer}: {problem:?}"
        );
    }
}

#[test]
fn an_upgrade_that_drips_is_given_up() {
    let rig = Rig::new();
    let task = start(&rig);
    let (_, mut server) = rig.accept();
    rig.hear(&mut server);
    let patience = rig.net.limits.upstream_connect_timeout + rig.net.limits.upstream_idle_timeout;
    for byte in b"HTTP/1.1 200 very slow indeed, and slower still"
        .iter()
        .take(35)
    {
        assert!(!task.is_finished());
        rig.say(&mut server, &[*byte]);
        rig.advance(patience / 35 + Duration::from_millis(1));
    }
    assert!(task.is_finished());
    assert!(rig.take(task).is_err());
}

#[test]
fn a_wait_that_is_dropped_loses_nothing() {
    let rig = Rig::with(Limits::PRODUCTION, 1);
    let (mut socket, mut server) = upgraded(&rig, b"");
    let said = [text("changed"), text("test message")].concat();
    let mut heard = Vec::new();
    for byte in said {
        rig.say(&mut server, &[byte]);
        // Each wait is dropped before the next byte comes.
        while let Some(next) = smol::block_on(futures_lite::future::poll_once(socket.next())) {
            heard.push(next);
        }
    }
    assert_eq!(heard, [Ok(Inbound::Change), Ok(Inbound::Heartbeat)]);
}

#[test]
fn a_flood_lets_others_have_their_turn() {
    let rig = Rig::new();
    let (mut socket, mut server) = upgraded(&rig, b"");
    rig.say(&mut server, &text("x").repeat(200));
    let mut in_a_row = 0;
    while smol::block_on(futures_lite::future::poll_once(socket.next())).is_some() {
        in_a_row += 1;
    }
    assert_eq!(in_a_row, BATCH);
}

#[test]
fn closing_says_so_and_does_not_wait_for_ever() {
    for answers in [true, false] {
        let rig = Rig::new();
        let (socket, mut server) = upgraded(&rig, b"");
        let net = rig.net.clone();
        let task = rig.start(async move { socket.close(&net).await });
        assert_eq!(rig.hear_bytes(&mut server)[..1], [0x88]);
        match answers {
            true => rig.say(&mut server, &bytes(Frame::close(None))),
            false => rig.advance(rig.net.limits.close_timeout),
        }
        assert!(task.is_finished(), "{answers}");
    }
}
