//! A relay before relays: no slots of its own, and every path of the service goes on.

use std::io::BufRead as _;
use std::time::Instant;

use serde_json::{Value, json};

use crate::client::Client;
use crate::harness::relay::Relay;
use crate::harness::site::Site;
use crate::harness::{GUID, KEY, PATIENCE};
use crate::site::{Front, sticky};

const SEED: &str = include_str!("../../seeds/demo.json");

struct Rows {
    nodes: Vec<(Option<Relay>, Site)>,
    front: Front,
}

/// Two relays that serve the demo, and one before them.
fn rows() -> Rows {
    let nodes = [(); 2].map(|()| {
        let site = Site::new("node", SEED);
        (Some(Relay::start(&site)), site)
    });
    let mut cluster = sticky("Redistribute");
    for (number, (relay, _)) in nodes.iter().enumerate() {
        let address = relay.as_ref().expect("it was started").address;
        cluster["Destinations"][format!("node-{number}")] =
            json!({ "Address": format!("http://{address}") });
    }
    let section = json!({
        "Routes": {
            "service": { "ClusterId": "nodes", "Match": { "Path": "/apprapp/{**rest}" } },
            "token": { "ClusterId": "nodes", "Match": { "Path": "/identity/token" } },
        },
        "Clusters": { "nodes": cluster },
    });
    let front = Front::by(section, |config: &mut Value| {
        config["slots"] = json!([]);
        config["client_keys"] = json!([]);
        config.as_object_mut().expect("an object").remove("seed");
    });
    Rows {
        nodes: nodes.into(),
        front,
    }
}

impl Rows {
    /// The one that has the only event stream, once those that were dropped are gone.
    fn serving(&self) -> usize {
        let streams = |(relay, _): &(Option<Relay>, Site)| {
            let Some(relay) = relay else { return 0 };
            let (_, text) = relay.ask("GET /status");
            let status: Value = serde_json::from_str(&text).expect("JSON");
            let slots = status["slots"].as_array().expect("slots").iter();
            slots
                .map(|slot| slot["clients"]["sse"].as_u64().expect("a count"))
                .sum::<u64>()
        };
        let deadline = Instant::now() + PATIENCE;
        loop {
            let counts: Vec<u64> = self.nodes.iter().map(streams).collect();
            if counts.iter().sum::<u64>() == 1 {
                let serving = counts.iter().position(|count| *count == 1);
                return serving.expect("one of them is one");
            }
            assert!(
                Instant::now() < deadline,
                "streams of the nodes: {counts:?}"
            );
        }
    }

    fn subscribe(&self, cookie: Option<&str>) -> (Client, Option<String>) {
        let mut client = self.front.client();
        let cookie = cookie.map_or(String::new(), |cookie| format!("Cookie: {cookie}\r\n"));
        let path = format!(
            "/apprapp/feature/v1/instances/{GUID}/environments/prod/sse/subscribe?\
             collection_id=payments"
        );
        client.send(
            format!("GET {path} HTTP/1.1\r\nHost: r\r\nAuthorization: {KEY}\r\n{cookie}\r\n")
                .as_bytes(),
        );
        let head = client.read_head();
        assert_eq!(head.status, 200, "{head:?}");
        let mut line = String::new();
        while !line.starts_with("event: Registration") {
            line.clear();
            client.reader.read_line(&mut line).expect("an event");
        }
        let bound = (!head.fields("set-cookie").is_empty()).then(|| head.cookie());
        (client, bound)
    }
}

#[test]
fn a_page_stays_with_its_node_until_that_is_gone() {
    let mut rows = rows();
    let (stream, cookie) = rows.subscribe(None);
    let cookie = cookie.expect("the first answer binds");
    let serving = rows.serving();
    // Reports go where the stream is.
    for _ in 0..4 {
        let mut client = rows.front.client();
        let body = r#"{"collection_id":"payments","environment_id":"prod","usages":[]}"#;
        let path = format!("/apprapp/events/v1/instances/{GUID}/usage");
        client.send(
            format!(
                "POST {path} HTTP/1.1\r\nHost: r\r\nAuthorization: {KEY}\r\nCookie: {cookie}\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .as_bytes(),
        );
        let answer = client.read("POST");
        assert_eq!(answer.status, 202);
        assert!(answer.fields("set-cookie").is_empty());
    }
    let relay = rows.nodes[serving].0.as_ref().expect("it runs");
    let (_, text) = relay.ask("GET /status");
    let status: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(status["events"]["usage"]["reports"], 4, "{text}");
    // A reload of the page.
    drop(stream);
    let (mut stream, renewed) = rows.subscribe(Some(&cookie));
    assert_eq!(renewed, None);
    assert_eq!(rows.serving(), serving);
    // Its node is killed: the stream ends, and the next one is somewhere else.
    rows.nodes[serving].0 = None;
    stream.rest();
    let (_stream, renewed) = rows.subscribe(Some(&cookie));
    let renewed = renewed.expect("one new cookie");
    assert_ne!(renewed, cookie);
    assert_ne!(rows.serving(), serving);
    let (_again, kept) = rows.subscribe(Some(&renewed));
    assert_eq!(kept, None);
}

#[test]
fn a_server_sdk_gets_token_document_and_change_socket_through_the_front() {
    let rows = rows();
    let mut client = rows.front.client();
    let form = format!("grant_type=urn%3Aibm%3Aparams%3Aoauth%3Agrant-type%3Aapikey&apikey={KEY}");
    client.send(
        format!(
            "POST /identity/token HTTP/1.1\r\nHost: r\r\nContent-Length: {}\r\n\r\n{form}",
            form.len()
        )
        .as_bytes(),
    );
    let answer = client.read("POST");
    assert_eq!(answer.status, 200, "{answer:?}");
    let token: Value = serde_json::from_slice(&answer.body).expect("JSON");
    let token = token["access_token"].as_str().expect("a token").to_owned();
    // Either node takes the token of the other.
    for _ in 0..4 {
        client.send(
            format!(
                "GET /apprapp/feature/v1/instances/{GUID}/config?action=sdkConfig&\
                 collection_id=payments&environment_id=prod HTTP/1.1\r\nHost: r\r\n\
                 Authorization: Bearer {token}\r\n\r\n"
            )
            .as_bytes(),
        );
        let answer = client.read("GET");
        assert_eq!(answer.status, 200);
        assert_eq!(answer.fields("x-config-source"), ["seed"]);
        assert!(serde_json::from_slice::<Value>(&answer.body).is_ok());
    }
    client.send(
        format!(
            "GET /apprapp/wsfeature?instance_id={GUID}&collection_id=payments&environment_id=prod \
             HTTP/1.1\r\nHost: r\r\nAuthorization: Bearer {token}\r\nConnection: upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        .as_bytes(),
    );
    assert_eq!(client.read("GET").status, 101);
    // A ping goes to the node, and its pong comes back.
    client.send(&[0x89, 0x80, 0, 0, 0, 0]);
    let mut pong = [0; 2];
    std::io::Read::read_exact(&mut client.reader, &mut pong).expect("a pong");
    assert_eq!(pong, [0x8a, 0]);
}

#[test]
fn when_no_node_is_there_an_event_stream_hears_no_status() {
    let mut rows = rows();
    for (relay, _) in &mut rows.nodes {
        *relay = None;
    }
    let mut client = rows.front.client();
    client.send(
        format!(
            "GET /apprapp/feature/v1/instances/{GUID}/environments/prod/sse/subscribe?\
             collection_id=payments HTTP/1.1\r\nHost: r\r\nAuthorization: {KEY}\r\n\r\n"
        )
        .as_bytes(),
    );
    assert!(client.rest().is_empty());
    let path = format!(
        "/apprapp/feature/v1/instances/{GUID}/config?action=sdkConfig&collection_id=payments\
         &environment_id=prod"
    );
    assert_eq!(rows.front.get(&path, None).status, 502);
}
