//! What does not end: event streams and WebSockets.

use std::io::{Read, Write};
use std::sync::mpsc;

use serde_json::json;

use crate::destination::{Destination, answer};
use crate::site::{Front, proxy, sticky};

#[test]
fn events_arrive_one_by_one_and_survive_a_reload() {
    let (next, events) = mpsc::channel::<&'static str>();
    let events = std::sync::Mutex::new(events);
    let a = Destination::start(move |_, socket| {
        let _ = socket.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
              Transfer-Encoding: chunked\r\n\r\n",
        );
        for event in events.lock().expect("no holder panics").iter() {
            let _ = write!(socket, "{:x}\r\n{event}\r\n", event.len());
        }
        let _ = socket.write_all(b"0\r\n\r\n");
        true
    });
    let mut front = Front::start(sticky("Redistribute"), &[("a", &a)]);
    let mut client = front.client();
    client.send(b"GET /events HTTP/1.1\r\nHost: r\r\n\r\n");
    let head = client.read_head();
    head.cookie();
    let mut expect = |event: &'static str| {
        next.send(event).expect("the destination writes");
        assert_eq!(client.chunk().as_deref(), Some(event.as_bytes()));
    };
    expect("data: 1\n\n");
    expect("data: 2\n\n");
    let b = Destination::named("b");
    front.reload(proxy("/{**rest}", sticky("Redistribute"), &[("b", &b)]));
    expect("data: 3\n\n");
    assert_eq!(front.get("/", None).text(), "b");
    drop(next);
    assert_eq!(client.chunk(), None);
    // The connection goes on, by the new routes.
    assert_eq!(client.get("/", None).text(), "b");
}

const UPGRADE: &str = "GET /socket HTTP/1.1\r\nHost: r\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

fn echo() -> Destination {
    Destination::start(|request, socket| {
        if request.fields("upgrade") != ["websocket"] {
            return answer(socket, "426 Upgrade Required", "", "");
        }
        let _ = socket.write_all(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
              Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
        );
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = socket.read(&mut buffer) {
            let _ = socket.write_all(&buffer[..count]);
        }
        false
    })
}

#[test]
fn a_websocket_is_a_tunnel_whose_101_binds() {
    let a = echo();
    let front = Front::start(sticky("Redistribute"), &[("dest-B", &a)]);
    let mut client = front.client();
    // Bytes right behind the head belong to the tunnel.
    client.send(format!("{UPGRADE}first").as_bytes());
    let head = client.read("GET");
    assert_eq!(head.status, 101);
    assert_eq!(head.cookie(), "Plant.Affinity=53c079ed4c377b0d");
    assert_eq!(head.fields("upgrade"), ["websocket"]);
    assert_eq!(
        head.fields("sec-websocket-accept"),
        ["s3pPLMBiTxaQ9kYGzzhZRbK+xOo="]
    );
    let mut echoed = [0; 5];
    for text in ["first", "other", "third"] {
        if text != "first" {
            client.send(text.as_bytes());
        }
        client.reader.read_exact(&mut echoed).expect("an echo");
        assert_eq!(&echoed, text.as_bytes());
    }
    // An end on one side is one on the other.
    let socket = client.reader.get_ref();
    socket.shutdown(std::net::Shutdown::Write).expect("open");
    assert!(client.rest().is_empty());
    let request = &a.requests()[0];
    assert_eq!(request.fields("connection"), ["upgrade"]);
    assert_eq!(request.fields("sec-websocket-version"), ["13"]);
}

#[test]
fn a_silent_tunnel_is_given_up() {
    let a = echo();
    let cluster = json!({ "HttpRequest": { "ActivityTimeout": "00:00:01" } });
    let front = Front::start(cluster, &[("a", &a)]);
    let mut client = front.client();
    client.send(UPGRADE.as_bytes());
    assert_eq!(client.read("GET").status, 101);
    assert!(client.rest().is_empty());
}

#[test]
fn a_large_message_passes_a_tunnel_whole() {
    let a = echo();
    let front = Front::start(json!({}), &[("a", &a)]);
    let mut client = front.client();
    client.send(UPGRADE.as_bytes());
    assert_eq!(client.read("GET").status, 101);
    let bytes: Vec<u8> = (0..4_000_000_u32).map(|byte| byte as u8).collect();
    let mut writer = client.reader.get_ref().try_clone().expect("a descriptor");
    let sent = bytes.clone();
    let sender = std::thread::spawn(move || writer.write_all(&sent));
    let mut echoed = vec![0; bytes.len()];
    client.reader.read_exact(&mut echoed).expect("an echo");
    assert!(echoed == bytes);
    sender.join().expect("no panic").expect("all was sent");
}
