//! The double held to its word, by a client of its own that knows no more than HTTP.
//!
//! What is tested elsewhere with the double is only worth something if the failures that it plays
//! are the ones that it was told to play.

#[path = "mod.rs"]
mod double;

use async_tungstenite::tungstenite::{self, Message, WebSocket};
use double::{Double, Options};
use flate2::read::GzDecoder;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
const SLOT: &str = "shop/prod";
const CONFIG: &str = "/apprapp/feature/v1/instances/g/config?environment_id=prod\
                      &action=sdkConfig&collection_id=shop";
const USAGE: &str = "/apprapp/events/v1/instances/g/usage";
const SOCKET: &str = "/apprapp/wsfeature?instance_id=g&collection_id=shop&environment_id=prod";
const FORM: &str = "grant_type=urn%3Aibm%3Aparams%3Aoauth%3Agrant-type%3Aapikey&apikey=key";

fn start() -> Double {
    let options = Options {
        api_key: Some("key".to_owned()),
        ..Options::default()
    };
    let double = Double::start(options).expect("ports of the kernel's choice are free");
    double.set_document(SLOT, "{\"old\": 1}");
    double
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the double listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
    stream
}

/// Status, head in lower case, body as it came.
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

/// Sends one request that ends its connection; gives all that came back.
fn exchange(mut stream: impl Read + Write, line: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nHost: double\r\nConnection: close\r\nContent-Length: {length}\r\n\
         {headers}\r\n{body}"
    );
    stream
        .write_all(request.as_bytes())
        .expect("the double reads");
    let mut answer = Vec::new();
    stream
        .read_to_end(&mut answer)
        .expect("the double ends the connection");
    answer
}

fn ask(address: SocketAddr, line: &str, headers: &str, body: &str) -> Answer {
    parse(&exchange(connect(address), line, headers, body))
}

fn parse(bytes: &[u8]) -> Answer {
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .expect("a head")
        + 4;
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let status = head[9..12].parse().expect("a status");
    Answer {
        status,
        head,
        body: bytes[end..].to_vec(),
    }
}

fn bearer(double: &Double) -> String {
    let kind = "Content-Type: application/x-www-form-urlencoded\r\n";
    let answer = ask(double.address, "POST /identity/token", kind, FORM);
    assert_eq!(answer.status, 200);
    let token = answer.json()["access_token"]
        .as_str()
        .expect("a token")
        .to_owned();
    format!("Authorization: Bearer {token}\r\n")
}

fn fetch(double: &Double, headers: &str) -> Answer {
    ask(double.address, &format!("GET {CONFIG}"), headers, "")
}

fn open(double: &Double) -> WebSocket<TcpStream> {
    let token = bearer(double);
    let token = token.trim_end().trim_start_matches("Authorization: ");
    let request = tungstenite::http::Request::builder()
        .uri(format!("ws://{}{SOCKET}", double.address))
        .header("Host", "double")
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
        .header("Authorization", token)
        .body(())
        .expect("a request");
    let opened = tungstenite::client(request, connect(double.address));
    opened.expect("a socket").0
}

fn order(double: &Double, orders: Value) {
    double.behave(&orders).expect("good orders");
}

#[test]
fn a_document_comes_for_a_token_and_for_nothing_else() {
    let double = start();
    let token = bearer(&double);
    assert_eq!(fetch(&double, "").status, 401);
    assert_eq!(fetch(&double, "Authorization: key\r\n").status, 401);
    assert_eq!(
        fetch(&double, "Authorization: Bearer a.b.c\r\n").status,
        401
    );
    let answer = fetch(&double, &token);
    assert_eq!(
        (answer.status, &answer.body[..]),
        (200, &b"{\"old\": 1}"[..])
    );
    assert!(answer.head.contains("content-type: application/json\r\n"));
    let compressed = fetch(&double, &format!("{token}Accept-Encoding: gzip\r\n"));
    let mut body = String::new();
    GzDecoder::new(&compressed.body[..])
        .read_to_string(&mut body)
        .expect("gzip");
    assert_eq!(body, "{\"old\": 1}");
    double.revoke_tokens();
    assert_eq!(fetch(&double, &token).status, 401);
    let counts = double.counts();
    let slot = counts.slot(SLOT);
    assert_eq!(
        (counts.tokens, slot.fetches, slot.fetch_requests),
        (1, 2, 6)
    );
    assert_eq!(double.log()[1].authorization, "none");
}

#[test]
fn a_wrong_key_is_refused_as_iam_does() {
    let double = start();
    let kind = "Content-Type: application/x-www-form-urlencoded\r\n";
    let form = FORM.replace("=key", "=other");
    let answer = ask(double.address, "POST /identity/token", kind, &form);
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["errorCode"], "BXNIM0415E");
}

#[test]
fn scripted_answers_are_given_and_then_it_is_as_before() {
    let double = start();
    let token = bearer(&double);
    let scripts = [
        (
            json!({ "status": 503, "retry_after": 3 }),
            503,
            "retry-after: 3\r\n",
        ),
        (
            json!({ "garbage": true }),
            200,
            "content-type: text/html\r\n",
        ),
        (
            json!({ "redirect": "http://elsewhere/" }),
            302,
            "location: http://elsewhere/\r\n",
        ),
        (json!({ "body": "{}" }), 200, "content-length: 2\r\n"),
        (
            json!({ "headers": { "X-Config-Path": "a,b" } }),
            200,
            "x-config-path: a,b\r\n",
        ),
        (
            json!({ "chunked": true }),
            200,
            "transfer-encoding: chunked\r\n",
        ),
        (
            json!({ "truncate": true }),
            200,
            "content-length: 10\r\n\r\n",
        ),
    ];
    for (mut script, status, header) in scripts {
        script["times"] = json!(1);
        order(&double, json!({ "config": script }));
        let answer = fetch(&double, &token);
        assert_eq!(answer.status, status, "{script}");
        assert!(answer.head.contains(header), "{script}: {}", answer.head);
        if script["truncate"] == true {
            assert_eq!(answer.body.len(), 5);
        }
        assert_eq!(
            fetch(&double, &token).body,
            b"{\"old\": 1}",
            "after {script}"
        );
    }
}

#[test]
fn noise_is_not_http_and_an_end_is_without_a_word() {
    let double = start();
    order(
        &double,
        json!({ "config": [{ "noise": true, "times": 1 }, { "drop": true }] }),
    );
    let token = bearer(&double);
    let line = format!("GET {CONFIG}");
    let noise = exchange(connect(double.address), &line, &token, "");
    assert!(!noise.is_empty() && !noise.starts_with(b"HTTP"));
    assert_eq!(exchange(connect(double.address), &line, &token, ""), b"");
    assert_eq!(double.counts().slot(SLOT).fetches, 1);
}

#[test]
fn a_socket_gets_heartbeats_changes_and_its_end() {
    let double = start();
    let mut socket = open(&double);
    order(&double, json!({ "socket": { "heartbeat_ms": 1 } }));
    assert_eq!(
        socket.read().expect("a heartbeat"),
        Message::text("test message")
    );
    order(&double, json!({ "socket": { "heartbeat_ms": 0 } }));
    assert_eq!(double.notify(SLOT, Some("changed")), 1);
    assert_eq!(double.notify("shop/other", None), 0);
    let next = std::iter::repeat_with(|| socket.read().expect("a message"))
        .find(|message| *message != Message::text("test message"));
    assert_eq!(next, Some(Message::text("changed")));
    socket.send(Message::Ping("now".into())).expect("open");
    assert_eq!(socket.read().expect("a pong"), Message::Pong("now".into()));
    order(&double, json!({ "socket": { "close": 1012 } }));
    match socket.read().expect("a close frame") {
        Message::Close(Some(frame)) => assert_eq!(u16::from(frame.code), 1012),
        other => panic!("not a close frame: {other:?}"),
    }
    assert!(socket.read().is_err());
    let ended = double.wait_until(PATIENCE, |counts| counts.sockets_open == 0);
    let slot = ended.expect("the socket ends").slot(SLOT);
    assert_eq!((slot.sockets_ever, slot.notified), (1, 1));
}

#[test]
fn a_silent_socket_says_nothing_and_is_still_seen_to_go() {
    let double = start();
    order(
        &double,
        json!({ "socket": { "silent": true, "heartbeat_ms": 1 } }),
    );
    let mut socket = open(&double);
    double.notify(SLOT, None);
    socket.send(Message::Ping("now".into())).expect("open");
    // Silence can only be told by waiting for it.
    socket
        .get_ref()
        .set_read_timeout(Some(Duration::from_millis(50)))
        .expect("not zero");
    assert!(socket.read().is_err());
    assert_eq!(double.counts().sockets_open, 1);
    drop(socket);
    double
        .wait_until(PATIENCE, |counts| counts.sockets_open == 0)
        .expect("the end is seen");
}

#[test]
fn an_aborted_socket_is_reset_and_a_killed_one_ends() {
    let double = start();
    let mut aborted = open(&double).into_inner();
    order(&double, json!({ "socket": { "abort": true } }));
    let error = aborted.read(&mut [0]).expect_err("a reset");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    order(&double, json!({ "socket": null }));
    let mut killed = open(&double).into_inner();
    double.kill_sockets();
    assert_eq!(killed.read(&mut [0]).expect("an end of file"), 0);
}

#[test]
fn a_document_changes_right_before_the_socket_opens() {
    let double = start();
    let token = bearer(&double);
    let swap = json!({ "slot": SLOT, "document": { "new": 2 } });
    order(&double, json!({ "upgrade": { "swap_document": swap } }));
    assert_eq!(fetch(&double, &token).body, b"{\"old\": 1}");
    let _socket = open(&double);
    assert_eq!(fetch(&double, &token).body, b"{\"new\":2}");
    assert_eq!(double.counts().slot(SLOT).notified, 0);
}

#[test]
fn a_refused_upgrade_is_counted_and_opens_nothing() {
    let double = start();
    order(&double, json!({ "upgrade": { "status": 503 } }));
    let headers = format!(
        "{}Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: a\r\n",
        bearer(&double)
    );
    assert_eq!(
        ask(double.address, &format!("GET {SOCKET}"), &headers, "").status,
        503
    );
    let counts = double.counts();
    assert_eq!((counts.upgrades, counts.sockets_open), (1, 0));
}

#[test]
fn a_port_that_refuses_opens_again_where_it_was() {
    let double = start();
    order(&double, json!({ "tcp": { "refuse": true } }));
    let refused = TcpStream::connect(double.address).expect_err("closed");
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    order(&double, json!({ "tcp": { "refuse": false } }));
    assert!(bearer(&double).len() > 100);
}

#[test]
fn a_port_that_only_accepts_says_nothing_until_it_is_over() {
    let double = start();
    order(&double, json!({ "tcp": { "accept_only": true } }));
    let mut held = connect(double.address);
    held.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .expect("the kernel takes it");
    // Silence can only be told by waiting for it.
    held.set_read_timeout(Some(Duration::from_millis(50)))
        .expect("not zero");
    assert_eq!(
        held.read(&mut [0]).expect_err("nothing").kind(),
        io::ErrorKind::WouldBlock
    );
    held.set_read_timeout(Some(PATIENCE)).expect("not zero");
    order(&double, json!({ "tcp": null }));
    assert!(matches!(held.read(&mut [0]), Ok(0) | Err(_)));
    assert_eq!(double.counts().requests, 0);
    assert!(bearer(&double).len() > 100);
}

#[test]
fn usage_is_summed_and_more_than_thirty_entries_are_not() {
    let double = start();
    let headers = format!("{}Content-Type: application/json\r\n", bearer(&double));
    let report = |count: usize| {
        let entry = json!({
            "property_id": "p", "entity_id": "e", "segment_id": null, "count": 2,
            "evaluation_time": "2026-11-29T21:54:12Z",
        });
        let usages = vec![entry; count];
        json!({ "collection_id": "shop", "environment_id": "prod", "usages": usages }).to_string()
    };
    let line = format!("POST {USAGE}");
    assert_eq!(
        ask(double.address, &line, &headers, &report(30)).status,
        202
    );
    assert_eq!(
        ask(double.address, &line, &headers, &report(31)).status,
        400
    );
    order(
        &double,
        json!({ "usage": { "status": 500, "containing": "\"p\"", "times": 1 } }),
    );
    assert_eq!(ask(double.address, &line, &headers, &report(1)).status, 500);
    let totals = ask(double.control, "GET /totals", "", "").json();
    assert_eq!(totals["usage"][0]["count"], 60);
    assert_eq!(totals["usage"][0]["property"], "p");
    let counts = ask(double.control, "GET /counts", "", "").json();
    assert_eq!(counts["usage"]["posts"], 1);
    assert_eq!(counts["usage"]["entries_largest"], 31);
}

#[test]
fn the_control_port_does_what_the_methods_do() {
    let double = start();
    let control = |line: &str, body: &str| ask(double.control, line, "", body);
    let mut socket = open(&double);
    let told = control("PUT /documents/shop/prod?notify=1", "{\"new\": 2}");
    assert_eq!(told.json()["told"], 1);
    assert!(socket.read().expect("a change").is_text());
    assert_eq!(fetch(&double, &bearer(&double)).body, b"{\"new\": 2}");
    assert_eq!(
        control("GET /counts/shop/prod", "").json()["sockets_open"],
        1
    );
    assert_eq!(
        control("POST /behave", "{\"config\":{\"stauts\":1}}").status,
        400
    );
    assert_eq!(
        control("POST /behave", "{\"config\":{\"status\":418}}").status,
        200
    );
    assert_eq!(fetch(&double, "").status, 418);
    let log = control("GET /log", "").body;
    let last = log
        .split(|&byte| byte == b'\n')
        .rfind(|line| !line.is_empty());
    let last: Value = serde_json::from_slice(last.expect("a line")).expect("JSON");
    assert_eq!(
        (&last["status"], &last["authorization"]),
        (&json!(418), &json!("none"))
    );
    let changes = double.counts().changes;
    let after = control(&format!("GET /counts?after={}", changes - 1), "").json();
    assert_eq!(after["changes"], changes);
}

#[test]
fn what_is_connected_ends_with_the_double() {
    let double = start();
    let mut socket = open(&double).into_inner();
    let mut idle = connect(double.control);
    let began = Instant::now();
    drop(double);
    for stream in [&mut socket, &mut idle] {
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
    }
    assert!(began.elapsed() < PATIENCE);
}

/// A certificate for 127.0.0.1 that nobody signed but itself, with its key, as files.
fn certificate() -> (rcgen::Certificate, PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]);
    let made = made.expect("a certificate");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = |name: &str| folder.join(format!("double-{}.{name}", std::process::id()));
    let (chain, key) = (file("crt"), file("key"));
    std::fs::write(&chain, made.cert.pem()).expect("target/tmp is writable");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("target/tmp is writable");
    (made.cert, chain, key)
}

#[test]
fn it_speaks_tls_where_it_has_a_certificate() {
    let (certificate, chain, key) = certificate();
    let options = Options {
        tls: Some((chain.clone(), key.clone())),
        ..Options::default()
    };
    let double = Double::start(options).expect("a good certificate");
    for path in [chain, key] {
        std::fs::remove_file(path).expect("it was written");
    }
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone()).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions that ring has")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").expect("an address");
    let session = ClientConnection::new(Arc::new(config), name).expect("a session");
    let mut stream = StreamOwned::new(session, connect(double.address));
    let request = format!("GET {CONFIG} HTTP/1.1\r\nHost: a\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a handshake");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 401");
}
