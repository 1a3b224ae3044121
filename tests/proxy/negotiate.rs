//! WebSockets that are negotiated first, as SignalR does: only the node that gave a token knows it.

use std::collections::HashSet;
use std::ffi::OsString;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_tungstenite::tungstenite::handshake::derive_accept_key;
use async_tungstenite::tungstenite::protocol::Role;
use async_tungstenite::tungstenite::{Message, WebSocket};
use serde_json::{Value, json};

use crate::destination::{Destination, Request, answer};
use crate::harness::lines::Lines;
use crate::harness::relay::with_the_thread;
use crate::python;
use crate::site::{Front, sticky};

const CLIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/proxy/negotiate.py");

/// Sessions, each of which negotiates and connects.
const SESSIONS: usize = 48;

/// For all of them: an interpreter has to start, beside other tests.
const ALL_MAX: Duration = Duration::from_secs(60);

/// A node that says its name to whom it has given a token, and 404 to whom it has not.
fn node(name: &'static str) -> Destination {
    let (given, count) = (Mutex::new(HashSet::new()), AtomicUsize::new(0));
    Destination::start(move |request, socket| {
        if request.path().starts_with("/hub/negotiate") {
            let token = format!("{name}-{}", count.fetch_add(1, Ordering::Relaxed));
            let body = json!({ "connectionToken": token, "node": name }).to_string();
            given.lock().expect("no holder panics").insert(token);
            return answer(
                socket,
                "200 OK",
                "Content-Type: application/json\r\n",
                &body,
            );
        }
        let token = request.path().strip_prefix("/hub?id=").unwrap_or("");
        let is_given = given.lock().expect("no holder panics").remove(token);
        if !is_given {
            return answer(socket, "404 Not Found", "", "no such connection");
        }
        talk(name, request, socket);
        false
    })
}

/// Answers every message with the node's name, until the client closes.
fn talk(name: &str, request: &Request, socket: &mut TcpStream) {
    let key = request.fields("sec-websocket-key")[0];
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {}\r\n\r\n",
        derive_accept_key(key.as_bytes())
    );
    if std::io::Write::write_all(socket, head.as_bytes()).is_err() {
        return;
    }
    let mut socket = WebSocket::from_raw_socket(socket, Role::Server, None);
    while let Ok(message) = socket.read() {
        if message.is_text() {
            let _ = socket.send(Message::text(name));
        }
    }
}

/// Connects all sessions once more; gives what was said about each.
fn round(clients: &mut std::process::Child, said: &Lines, log: &Lines) -> Vec<Value> {
    let mark = said.mark();
    let input = clients.stdin.as_mut().expect("it is piped");
    std::io::Write::write_all(input, b"again\n").expect("the clients read");
    let done = |line: &str| line.contains("\"done\"").then_some(());
    let found = said.find_within(ALL_MAX, mark, done);
    assert!(found.is_some(), "the clients logged\n{}", log.all());
    let all = said.all();
    let events = all
        .lines()
        .skip(mark)
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let sessions: Vec<Value> = events
        .filter(|said: &Value| said["event"] == "connected")
        .collect();
    assert_eq!(sessions.len(), SESSIONS);
    sessions
}

#[test]
fn a_websocket_connects_to_the_node_that_it_was_negotiated_with() {
    let Some(interpreter) = python::interpreter() else {
        return;
    };
    let (mut a, b) = (node("a"), node("b"));
    let front = Front::start(sticky("Redistribute"), &[("node-a", &a), ("node-b", &b)]);
    let mut words = with_the_thread();
    words.extend([interpreter.into(), OsString::from(CLIENTS)]);
    words.extend([
        front.relay.address.to_string().into(),
        SESSIONS.to_string().into(),
    ]);
    let mut clients = Command::new(&words[0])
        .args(&words[1..])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the interpreter starts");
    let said = Lines::of("clients", clients.stdout.take().expect("it is piped"));
    let log = Lines::of("clients", clients.stderr.take().expect("it is piped"));
    // The first answer of each binds, and its WebSocket goes there.
    let first = round(&mut clients, &said, &log);
    for session in &first {
        assert_eq!(session["said"], session["negotiated"]);
        assert_eq!(session["bound"], json!([true, false]));
    }
    let of_a = |sessions: &[Value]| sessions.iter().filter(|node| node["said"] == "a").count();
    assert_eq!(of_a(&first), SESSIONS / 2, "they take turns");
    // They come back to where they were.
    let second = round(&mut clients, &said, &log);
    for (session, before) in second.iter().zip(&first) {
        assert_eq!(
            (&session["said"], &session["negotiated"]),
            (&before["said"], &before["said"])
        );
        assert_eq!(session["bound"], json!([false, false]));
    }
    // Those of a node that is gone get one new cookie each, and nobody else does.
    a.stop();
    for (session, before) in round(&mut clients, &said, &log).iter().zip(&first) {
        assert_eq!(
            (&session["said"], &session["negotiated"]),
            (&json!("b"), &json!("b"))
        );
        assert_eq!(session["bound"], json!([before["said"] == "a", false]));
    }
    let requests = &front.status()["clusters"][0]["requests"];
    assert_eq!(requests["new"], SESSIONS);
    assert_eq!(front.status()["clusters"][0]["again"], SESSIONS / 2);
    drop(clients.stdin.take());
    assert!(clients.wait().expect("it is our child").success());
}
