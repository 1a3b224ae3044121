//! Destinations that are spoken to by TLS: other relays, with the certificate that they serve SDKs
//! with. HTTP itself over TLS is tested before nginx.

use std::ffi::OsString;
use std::io::{BufRead as _, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};

use serde_json::{Value, json};

use crate::client::Answer;
use crate::harness::relay::Relay;
use crate::harness::site::Site;
use crate::harness::{GUID, KEY};
use crate::site::{COOKIE, Front, sticky};
use crate::trust::trusting;

const SEED: &str = include_str!("../../seeds/demo.json");

/// A relay with the demo, and a second address that its certificate is not for.
struct Node {
    relay: Relay,
    site: Site,
    elsewhere: SocketAddr,
}

fn node() -> Node {
    let mut site = Site::new("node", SEED);
    site.config["listen"] = json!(["127.0.0.1:0", "127.0.0.2:0"]);
    let relay = Relay::start(&site);
    let elsewhere = relay.log.wait_from(0, "its second address", |line| {
        let (_, rest) = line.split_once("listening on 127.0.0.2:")?;
        let port = rest.split_once(" (SDK")?.0;
        format!("127.0.0.2:{port}").parse().ok()
    });
    Node {
        relay,
        site,
        elsewhere,
    }
}

/// A relay run by `through`, of which everything goes to `address`.
fn front(through: &[OsString], address: &str) -> Front {
    let mut cluster = sticky("Redistribute");
    cluster["Destinations"]["node"] = json!({ "Address": address });
    let section = json!({
        "Routes": { "all": { "ClusterId": "nodes", "Match": { "Path": "/{**rest}" } } },
        "Clusters": { "nodes": cluster },
    });
    Front::through(through, section, |config| {
        config["slots"] = json!([]);
        config["client_keys"] = json!([]);
        config.as_object_mut().expect("an object").remove("seed");
    })
}

fn slot(path: &str) -> String {
    format!("/apprapp/feature/v1/instances/{GUID}{path}collection_id=payments")
}

fn document(front: &Front) -> Answer {
    let path = slot("/config?action=sdkConfig&environment_id=prod&");
    let mut client = front.client();
    client
        .send(format!("GET {path} HTTP/1.1\r\nHost: r\r\nAuthorization: {KEY}\r\n\r\n").as_bytes());
    client.read("GET")
}

#[test]
fn a_certificate_of_the_systems_authority_for_the_name_is_taken() {
    let Some(through) = trusting() else {
        return;
    };
    let node = node();
    let port = node.relay.address.port();
    for host in ["127.0.0.1", "localhost"] {
        let front = front(&through, &format!("https://{host}:{port}"));
        let answer = document(&front);
        assert_eq!(answer.status, 200, "{host}: {}", front.relay.log.all());
        assert!(answer.cookie().starts_with(COOKIE));
        assert_eq!(answer.fields("x-config-source"), ["seed"]);
        assert!(serde_json::from_slice::<Value>(&answer.body).is_ok());
    }
}

/// A server that says in plain text what it thinks of the first bytes of a handshake.
fn speaks_no_tls() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    address
}

/// Nobody is sent a request whose identity is not certain.
#[test]
fn any_other_certificate_is_502_and_a_line_in_the_log() {
    let Some(through) = trusting() else {
        return;
    };
    let node = node();
    let plain = speaks_no_tls();
    let nobody: Vec<OsString> = Vec::new();
    for (through, address, reason) in [
        (
            &nobody,
            node.relay.address,
            "install the authority in the system",
        ),
        (
            &through,
            node.elsewhere,
            "its certificate is for another name",
        ),
        (&through, plain, "no TLS session"),
    ] {
        let front = front(through, &format!("https://{address}"));
        let answer = document(&front);
        assert_eq!(answer.status, 502, "{reason}");
        assert!(answer.fields("set-cookie").is_empty(), "{reason}");
        let line = front.relay.log.wait_from(0, "why", |line| {
            line.contains("a destination cannot be reached")
                .then(|| line.to_owned())
        });
        assert!(
            line.contains(&format!("{address}: ")) && line.contains(reason),
            "{line}"
        );
    }
}

#[test]
fn event_streams_and_websockets_go_over_tls_too() {
    let Some(through) = trusting() else {
        return;
    };
    let node = node();
    let front = front(&through, &format!("https://{}", node.relay.address));
    let path = slot("/environments/prod/sse/subscribe?");
    let mut stream = front.client();
    stream
        .send(format!("GET {path} HTTP/1.1\r\nHost: r\r\nAuthorization: {KEY}\r\n\r\n").as_bytes());
    assert_eq!(stream.read_head().status, 200);
    let mut wait_for = |event: &str| {
        let mut line = String::new();
        while !line.starts_with(event) {
            line.clear();
            let count = stream.reader.read_line(&mut line).expect("an event");
            assert!(count > 0, "no {event}");
        }
    };
    wait_for("event: Registration");
    let mut socket = front.client();
    socket.send(
        format!(
            "GET /apprapp/wsfeature?instance_id={GUID}&collection_id=payments&environment_id=prod \
             HTTP/1.1\r\nHost: r\r\nAuthorization: {KEY}\r\nConnection: upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        .as_bytes(),
    );
    assert_eq!(socket.read("GET").status, 101);
    socket.send(&[0x89, 0x80, 0, 0, 0, 0]);
    let mut pong = [0; 2];
    socket.reader.read_exact(&mut pong).expect("a pong");
    assert_eq!(pong, [0x8a, 0]);
    // A change, while both are there.
    node.site
        .replace_seed(&SEED.replace("\"enabled\": true", "\"enabled\": false"));
    assert_eq!(node.relay.reload().0, 200);
    wait_for("event: ");
    let mut first = [0; 1];
    socket.reader.read_exact(&mut first).expect("a message");
    assert_eq!(first, [0x81]);
}
