//! A disk that takes seconds: clients notice nothing of it.
//!
//! `strace` holds up the sync of a file of the real program for as long as a worn card does. What
//! is asked is not how long an answer takes, but what came first: the answers, or the file.

use crate::harness::relay::Relay;
use crate::harness::{GUID, KEY, PATIENCE};
use crate::site::{document, kept, marker, site, wait_kept};
use crate::strace::strace;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Answers of each kind that have to come before a write of two seconds is done.
const ROUNDS: usize = 5;

/// A WebSocket of the one slot.
fn websocket(address: SocketAddr) -> TcpStream {
    let mut socket = TcpStream::connect(address).expect("the relay listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
    let request = format!(
        "GET /apprapp/wsfeature?instance_id={GUID}&collection_id=c&environment_id=e HTTP/1.1\r\n\
         Host: r\r\nAuthorization: {KEY}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).expect("a request");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(0);
        let last = head.len() - 1;
        socket.read_exact(&mut head[last..]).expect("a head");
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{head:?}");
    socket
}

/// Sends a ping and waits for its answer, past whatever text comes before it.
fn ping(socket: &mut TcpStream) {
    let ping = [0x89, 0x80, 1, 2, 3, 4];
    socket.write_all(&ping).expect("an open socket");
    loop {
        let mut start = [0; 2];
        socket.read_exact(&mut start).expect("a frame");
        let mut content = vec![0; usize::from(start[1])];
        assert!(content.len() < 126, "the relay's frames are short");
        socket.read_exact(&mut content).expect("a whole frame");
        if start[0] == 0x8A {
            return;
        }
    }
}

#[test]
fn a_disk_that_blocks_for_two_seconds_delays_no_client() {
    let site = site("slow");
    // By its name, whichever thread of the lane writes it.
    let file = site.scratch.path("state/live/.c@e.slot.staffetta-tmp");
    let file = file.to_str().expect("text");
    let inject = "-einject=fsync:delay_enter=2000000";
    let Some(through) = strace(&site, &["-P", file, "-etrace=fsync", inject]) else {
        return;
    };
    let relay = Relay::start_through(&site, &through);
    let mut socket = websocket(relay.address);
    let mut rounds = 0;
    // The file appears when its sync is over.
    while !kept(&site).exists() {
        let (source, found) = document(relay.address).expect("a document");
        assert_eq!((source.as_str(), marker(&found)), ("seed", 0));
        ping(&mut socket);
        let (_, status) = relay.ask("GET /status");
        let status: Value = serde_json::from_str(&status).expect("a status document");
        assert_eq!(status["problems"], Value::Array(Vec::new()));
        rounds += usize::from(!kept(&site).exists());
    }
    assert!(rounds >= ROUNDS, "{rounds} rounds");
    wait_kept(&relay, 1);
    relay.stop();
}
