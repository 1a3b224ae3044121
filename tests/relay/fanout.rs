//! Streams: what comes first, what comes on a change, who waits, who is noticed to be gone.

use crate::client::{Client, ask};
use crate::harness::relay::Relay;
use crate::harness::site::Site;
use crate::harness::{GUID, KEY};
use crate::request::{ACCEPT, subscribe_path, websocket_path};
use crate::stream::{Events, Frame, HEARTBEAT, WebSocket, frame, is_harmless};
use crate::way::{PLAIN, WAYS};
use crate::{request, seed};
use serde_json::{Value, json};

fn start() -> (Site, Relay) {
    let site = Site::new("fanout", &seed::usual("one"));
    let relay = Relay::start(&site);
    (site, relay)
}

fn marker(document: &str) -> String {
    let document: Value = serde_json::from_str(document).expect("the data is a document");
    let value = document["environments"][0]["properties"][0]["value"].as_str();
    value.expect("the test's seeds have a marker").to_owned()
}

fn publish(site: &Site, relay: &Relay, seed: &str) {
    site.replace_seed(seed);
    let (status, body) = relay.reload();
    assert_eq!(status, 200, "{body}");
}

#[test]
fn a_subscriber_gets_the_document_first_and_every_change_after() {
    let (site, relay) = start();
    let path = subscribe_path("inventory", "dev");
    let mut streams: Vec<Events> = WAYS
        .into_iter()
        .map(|way| Events::subscribe(&relay, way, &path))
        .collect();
    for stream in &mut streams {
        let content_type = stream.head.header("content-type").unwrap_or_default();
        assert!(
            content_type.starts_with("text/event-stream"),
            "{content_type}"
        );
        assert!(!stream.head.has("content-length"));
        assert!(stream.head.has("access-control-allow-origin"));
        let first = stream.next().expect("the document comes at once");
        assert_eq!(
            (first.name.as_str(), marker(&first.data).as_str()),
            ("Registration", "one")
        );
        assert_eq!(first.id, "1");
        assert!(
            stream
                .retry_ms
                .is_some_and(|delay| (1_000..=60_000).contains(&delay))
        );
    }
    publish(&site, &relay, &seed::usual("two"));
    for stream in &mut streams {
        let payload = stream.next().expect("a change comes");
        let label = (payload.name.as_str(), marker(&payload.data));
        assert_eq!(label, ("SSEConfig_payload", "two".to_owned()));
        let event = stream.next().expect("and its small companion");
        assert_eq!(event.name, "SSEEvent_update");
        assert!(event.data.len() < 200, "{}", event.data);
        assert_eq!(payload.id, "2");
    }
}

#[test]
fn an_events_only_subscriber_gets_small_events_only() {
    let (site, relay) = start();
    let path = subscribe_path("inventory", "dev") + "&events_only=true";
    let mut stream = Events::subscribe(&relay, PLAIN, &path);
    let first = stream.next().expect("registered");
    assert_eq!(first.name, "Registration");
    assert!(
        !first.data.is_empty() && first.data.len() < 200,
        "{}",
        first.data
    );
    publish(&site, &relay, &seed::usual("two"));
    publish(&site, &relay, &seed::usual("three"));
    let event = stream.next().expect("a change comes");
    assert_eq!(event.name, "SSEEvent_update");
    assert!(event.data.len() < 200, "{}", event.data);
}

#[test]
fn text_with_line_breaks_survives_the_event_stream() {
    let (site, relay) = start();
    let path = subscribe_path("inventory", "dev");
    let mut stream = Events::subscribe(&relay, PLAIN, &path);
    stream.next().expect("registered");
    let odd = "one\ntwo\r\nthree\rfour\u{2028}five \u{e9} \"quoted\"";
    let mut seed = seed::seed(odd, &["inventory"]);
    seed["environments"][0]["properties"][0]["description"] = json!("data: \n\nevent: x");
    publish(
        &site,
        &relay,
        &serde_json::to_string_pretty(&seed).expect("a value"),
    );
    let event = stream.next().expect("a change comes");
    assert_eq!(marker(&event.data), odd);
    let rest = ask(&relay, PLAIN, request::config()).text();
    let same: (Value, Value) = (
        serde_json::from_str(&event.data).unwrap(),
        serde_json::from_str(&rest).unwrap(),
    );
    assert_eq!(same.0, same.1, "both ways carry the same document");
}

#[test]
fn the_upgrade_is_answered_as_the_standard_says() {
    let (_site, relay) = start();
    for way in WAYS {
        let path = websocket_path("inventory", "dev");
        let socket = WebSocket::open(&relay, way, &path, "");
        assert_eq!(
            socket.head.header("sec-websocket-accept"),
            Some(ACCEPT),
            "{way:?}"
        );
        let upgrade = socket.head.header("upgrade").unwrap_or_default();
        assert!(upgrade.eq_ignore_ascii_case("websocket"), "{way:?}");
        let connection = socket.head.header("connection").unwrap_or_default();
        assert!(connection.eq_ignore_ascii_case("upgrade"), "{way:?}");
        assert!(!socket.head.has("sec-websocket-protocol"), "{way:?}");
        assert!(!socket.head.has("sec-websocket-extensions"), "{way:?}");
    }
}

#[test]
fn upgrades_that_are_none_are_told_so() {
    let (_site, relay) = start();
    let path = websocket_path("inventory", "dev");
    let good = request::upgrade(&path, "");
    let cases = [
        good.replace("Version: 13", "Version: 8"),
        good.replace("dGhlIHNhbXBsZSBub25jZQ==", "short"),
        good.replace("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", ""),
        request::get(&path),
    ];
    for request in cases {
        let status = ask(&relay, PLAIN, &request).status();
        assert!([400, 426].contains(&status), "{status}: {request}");
    }
    let spelled = good.replace("Connection: Upgrade", "connection: keep-alive, upgrade");
    let mut client = Client::connect(&relay, PLAIN);
    client.send(
        spelled
            .replace("Upgrade: websocket", "upgrade: WebSocket")
            .as_bytes(),
    );
    assert_eq!(client.head().map(|head| head.status), Ok(101));
}

#[test]
fn bytes_right_behind_the_upgrade_are_kept() {
    let (_site, relay) = start();
    for way in WAYS {
        let path = websocket_path("inventory", "dev");
        let pings = [frame(0x9, b"first"), frame(0x9, b"second")].concat();
        let mut socket = WebSocket::open_with(&relay, way, &path, "", &pings);
        // A later ping may answer for an earlier one (RFC 6455, 5.5.3).
        let pong = match socket.next_change() {
            Ok(Frame::Pong(payload)) if payload == b"first" => socket.next_change(),
            other => other,
        };
        assert_eq!(pong, Ok(Frame::Pong(b"second".to_vec())), "{way:?}");
    }
}

#[test]
fn a_change_is_told_by_a_short_text() {
    let (site, relay) = start();
    let path = websocket_path("inventory", "dev");
    let mut sockets: Vec<WebSocket> = WAYS
        .into_iter()
        .map(|way| WebSocket::open(&relay, way, &path, ""))
        .collect();
    publish(&site, &relay, &seed::usual("two"));
    for socket in &mut sockets {
        let Ok(Frame::Text(text)) = socket.next() else {
            panic!("a text comes first")
        };
        assert!(
            text != HEARTBEAT && !text.is_empty() && text.len() < 200,
            "{text}"
        );
    }
}

/// IBM's Rust SDK in its sources: plain `ws://`, the socket before the first fetch, names of fields
/// in lower case, a new connection for each request, no compression. The crate that is published
/// has none of the first three (`tests/sdk/rust.rs` runs it), so this client stands in for the
/// rest.
#[test]
fn whoever_subscribes_before_the_first_fetch_misses_nothing() {
    let (site, relay) = start();
    let path =
        format!("/apprapp/wsfeature?instance_id={GUID}&environment_id=dev&collection_id=inventory");
    let mut socket = WebSocket::open(&relay, PLAIN, &path, "");
    let fetch = || {
        let path = format!(
            "/apprapp/feature/v1/instances/{GUID}/config?action=sdkConfig&environment_id=dev\
             &collection_id=inventory"
        );
        let request = format!(
            "GET {path} HTTP/1.1\r\nauthorization: Bearer {KEY}\r\naccept: */*\r\n\
             content-type: application/json\r\nhost: relay\r\n\r\n"
        );
        let answer = ask(&relay, PLAIN, request);
        assert_eq!(answer.status(), 200);
        assert!(!answer.head.has("content-encoding"));
        marker(&answer.text())
    };
    assert_eq!(fetch(), "one");
    publish(&site, &relay, &seed::usual("two"));
    assert!(matches!(socket.next_change(), Ok(Frame::Text(_))));
    assert_eq!(fetch(), "two");
}

#[test]
fn streams_of_a_slot_without_data_wait_and_then_deliver() {
    let mut site = Site::new("fanout", &seed::usual("one"));
    seed::add_empty_slot(&mut site, "payments", "dev");
    let relay = Relay::start(&site);
    let mut streams: Vec<Events> = WAYS
        .into_iter()
        .map(|way| Events::subscribe(&relay, way, &subscribe_path("payments", "dev")))
        .collect();
    let mut sockets: Vec<WebSocket> = WAYS
        .into_iter()
        .map(|way| WebSocket::open(&relay, way, &websocket_path("payments", "dev"), ""))
        .collect();
    let config = request::get(&request::config_path("payments", "dev"));
    assert_eq!(ask(&relay, PLAIN, &config).status(), 503);
    publish(
        &site,
        &relay,
        &seed::seed("two", &["inventory", "payments"]).to_string(),
    );
    for stream in &mut streams {
        let first = stream.next().expect("the document comes");
        assert_eq!(
            (first.name.as_str(), marker(&first.data).as_str()),
            ("Registration", "two")
        );
    }
    for socket in &mut sockets {
        assert!(matches!(socket.next_change(), Ok(Frame::Text(_))));
    }
    assert_eq!(ask(&relay, PLAIN, &config).status(), 200);
}

#[test]
fn a_change_of_one_slot_is_nothing_to_another() {
    let both = seed::seed("one", &["inventory", "payments"]);
    let site = Site::new("fanout", &both.to_string());
    let relay = Relay::start(&site);
    let mut other = Events::subscribe(&relay, PLAIN, &subscribe_path("payments", "dev"));
    let mut own = Events::subscribe(&relay, PLAIN, &subscribe_path("inventory", "dev"));
    other.next().expect("registered");
    own.next().expect("registered");
    let mut changed = both.clone();
    let property = json!({
        "property_id": "more", "name": "More", "type": "NUMERIC", "value": 1, "segment_rules": [],
        "collections": [{ "collection_id": "inventory" }],
    });
    changed["environments"][0]["properties"]
        .as_array_mut()
        .expect("a list")
        .push(property);
    publish(&site, &relay, &changed.to_string());
    assert_eq!(
        own.next().map(|event| event.name),
        Ok("SSEConfig_payload".to_owned())
    );
    publish(
        &site,
        &relay,
        &seed::seed("two", &["inventory", "payments"]).to_string(),
    );
    let next = other.next().expect("its own change comes");
    assert_eq!(
        marker(&next.data),
        "two",
        "the first thing that the other slot's client is told"
    );
}

#[test]
fn frames_against_the_standard_close_with_their_code() {
    let (_site, relay) = start();
    let path = websocket_path("inventory", "dev");
    let unmasked = [vec![0x81, 0x02], b"hi".to_vec()].concat();
    let reserved = {
        let mut bytes = frame(0x1, b"hi");
        bytes[0] |= 0x40;
        bytes
    };
    let huge = [
        vec![0x82, 0xff],
        (1u64 << 40).to_be_bytes().to_vec(),
        vec![0; 4],
    ]
    .concat();
    let long_ping = {
        let mut bytes = frame(0x9, &[b'a'; 126]);
        bytes.truncate(140);
        bytes
    };
    let cases: [(&str, Vec<u8>, &[u16]); 7] = [
        ("an unmasked frame", unmasked, &[1002]),
        ("a reserved bit", reserved, &[1002]),
        ("an unknown kind", frame(0x3, b""), &[1002]),
        (
            "a text that is not UTF-8",
            frame(0x1, &[0xff, 0xfe]),
            &[1007],
        ),
        ("a message of a tebibyte", huge, &[1009]),
        ("a ping of 126 bytes", long_ping, &[1002]),
        ("a continuation of nothing", frame(0x0, b"x"), &[1002]),
    ];
    for way in WAYS {
        for (name, bytes, codes) in &cases {
            let mut socket = WebSocket::open(&relay, way, &path, "");
            socket.client.send(bytes);
            match socket.next_change() {
                Ok(Frame::Close(code)) => {
                    assert!(codes.contains(&code), "{name} by {way:?}: {code}");
                    assert!(is_harmless(code));
                }
                other => panic!("{name} by {way:?}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_close_is_answered_and_the_connection_ends() {
    let (_site, relay) = start();
    for way in WAYS {
        let mut socket = WebSocket::open(&relay, way, &websocket_path("inventory", "dev"), "");
        socket.send(0x8, &1000u16.to_be_bytes());
        assert_eq!(socket.next_change(), Ok(Frame::Close(1000)), "{way:?}");
        socket
            .client
            .closes()
            .unwrap_or_else(|error| panic!("{way:?}: {error}"));
    }
}

#[test]
fn many_pings_are_each_answered_or_conflated_in_order() {
    let (_site, relay) = start();
    let mut socket = WebSocket::open(&relay, PLAIN, &websocket_path("inventory", "dev"), "");
    let pings: Vec<u8> = (0..200u8)
        .flat_map(|number| frame(0x9, &[number]))
        .collect();
    socket.client.send(&pings);
    let mut last = None;
    while last != Some(199) {
        let Ok(Frame::Pong(payload)) = socket.next_change() else {
            panic!("after {last:?}: no pong")
        };
        let number = payload[0];
        assert!(
            last.is_none_or(|before| number > before),
            "{number} after {last:?}"
        );
        last = Some(number);
    }
}
