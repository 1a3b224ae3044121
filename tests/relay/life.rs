//! The life of the process and of its connections, seen from outside.

use crate::client::{Client, ask};
use crate::harness::relay::Relay;
use crate::harness::site::Site;
use crate::harness::{KEY, PATIENCE};
use crate::process::{thread_names, timer_slack_ns};
use crate::request::{subscribe_path, websocket_path};
use crate::stream::{Events, Frame, WebSocket, is_harmless};
use crate::way::{PLAIN, WAYS};
use crate::{request, seed};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::Instant;

fn start() -> (Site, Relay) {
    let site = Site::new("life", &seed::usual("one"));
    let relay = Relay::start(&site);
    (site, relay)
}

/// The status document.
pub fn status(relay: &Relay) -> Value {
    let (status, body) = relay.ask("GET /status");
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("/status: {error}: {body}"))
}

/// Asks the status until `accept` is content. Each question is a round trip through the relay's
/// loop, so what was caused before it is done soon; the deadline is for when it is not.
fn until(relay: &Relay, what: &str, accept: impl Fn(&Value) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = status(relay);
        if accept(&status) {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "never {what}: {status:#}\n{}",
            relay.log.all()
        );
    }
}

/// The sum of all numbers under the key `clients`, whatever kinds it is broken down by.
fn clients(status: &Value) -> u64 {
    fn sum(value: &Value) -> u64 {
        match value {
            Value::Number(number) => number.as_u64().unwrap_or(0),
            Value::Object(fields) => fields.values().map(sum).sum(),
            Value::Array(items) => items.iter().map(sum).sum(),
            _ => 0,
        }
    }
    match status {
        Value::Object(fields) => {
            let nested = |(name, value): (&String, &Value)| {
                if name == "clients" {
                    sum(value)
                } else {
                    clients(value)
                }
            };
            fields.iter().map(nested).sum()
        }
        Value::Array(items) => items.iter().map(clients).sum(),
        _ => 0,
    }
}

#[test]
fn clients_that_leave_are_noticed_at_once() {
    let (_site, relay) = start();
    for way in WAYS {
        let stream = Events::subscribe(&relay, way, &subscribe_path("inventory", "dev"));
        let socket = WebSocket::open(&relay, way, &websocket_path("inventory", "dev"), "");
        until(&relay, "two clients", |status| clients(status) >= 2);
        drop((stream, socket));
        until(&relay, "no clients", |status| clients(status) == 0);
    }
}

#[test]
fn the_reactors_thread_looks_seldom_and_ours_is_never_late() {
    let (_site, relay) = start();
    assert_eq!(timer_slack_ns(&relay, "async-io"), [1_000_000]);
    let own = timer_slack_ns(&relay, "staffetta");
    assert!(own.len() == 1 && own[0] <= 50_000, "{own:?}");
}

/// Main and the reactor's, and the disk lane's while files are read.
#[test]
fn there_are_two_threads_whatever_is_asked() {
    let (site, relay) = start();
    let path = request::usage_path();
    let mut expecting = Client::connect(&relay, PLAIN);
    let post = request::post(&path, request::USAGE.as_bytes(), "Expect: 100-continue\r\n");
    // Without the body, which would make the interim answer needless.
    expecting.send(&post[..post.len() - request::USAGE.len()]);
    assert_eq!(
        expecting.answer(false).map(|answer| answer.status()),
        Ok(100)
    );
    for way in WAYS {
        assert_eq!(ask(&relay, way, request::config()).status(), 200);
    }
    let _stream = Events::subscribe(&relay, PLAIN, &subscribe_path("inventory", "dev"));
    std::thread::scope(|scope| {
        let reloads = scope.spawn(|| {
            for number in 0..20 {
                site.replace_seed(&seed::large(&number.to_string(), 1 << 20));
                assert_eq!(relay.reload().0, 200);
            }
        });
        while !reloads.is_finished() {
            // One lane runs; the one before it may not have noticed yet that it is idle.
            let names = thread_names(&relay);
            assert!(names.len() <= 4, "{names:?}");
            // A thread has its parent's name until it gives itself its own.
            let known = |name: &String| {
                ["async-io", "staffetta"].contains(&name.as_str()) || name.starts_with("blocking-")
            };
            assert!(names.iter().all(known), "{names:?}");
        }
    });
    // The lane's thread may still be ending; nothing but those two may stay.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let names = thread_names(&relay);
        if names == ["async-io", "staffetta"] {
            return;
        }
        assert!(Instant::now() < deadline, "{names:?}");
    }
}

#[test]
fn a_stop_says_goodbye_to_everybody_and_succeeds() {
    let (_site, relay) = start();
    let mut sockets: Vec<WebSocket> = WAYS
        .into_iter()
        .map(|way| WebSocket::open(&relay, way, &websocket_path("inventory", "dev"), ""))
        .collect();
    let mut stream = Events::subscribe(&relay, PLAIN, &subscribe_path("inventory", "dev"));
    stream.next().expect("registered");
    relay.signal(Signal::TERM);
    for socket in &mut sockets {
        match socket.next_change() {
            Ok(Frame::Close(code)) => assert!([1001, 1012].contains(&code), "{code}"),
            other => panic!("{other:?} instead of a close"),
        }
    }
    stream.ends().expect("the stream ends");
    drop(sockets);
    assert!(relay.stop().success());
}

/// Connections that are in before the relay ends, and requests that come while it does.
#[test]
fn nobody_who_is_in_is_turned_away_at_the_end() {
    let (_site, relay) = start();
    let report = br#"{"collection_id":"inventory","environment_id":"dev","usages":[]}"#;
    let requests = [
        request::post(&request::usage_path(), report, ""),
        request::post(&request::analytics_path(), report, ""),
        request::get(&subscribe_path("inventory", "dev")).into_bytes(),
        request::config().into_bytes(),
        request::token(KEY).into_bytes(),
        request::upgrade(&websocket_path("inventory", "dev"), "").into_bytes(),
    ];
    let mut clients = WAYS.map(|way| {
        requests.each_ref().map(|request| {
            let mut client = Client::connect(&relay, way);
            client.send(&request[..10]);
            client
        })
    });
    // Connections are accepted in their order: when this one is served, the others are in.
    assert_eq!(ask(&relay, PLAIN, request::config()).status(), 200);
    relay.signal(Signal::TERM);
    relay.log.wait_for("ending: ");
    for (client, request) in clients
        .iter_mut()
        .flat_map(|of| of.iter_mut().zip(&requests))
    {
        client.send(&request[10..]);
    }
    for (way, clients) in WAYS.into_iter().zip(clients) {
        let [usage, analytics, mut stream, document, token, socket] = clients;
        let answered = [
            (usage, 202),
            (analytics, 202),
            (document, 200),
            (token, 200),
        ];
        for (mut client, status) in answered {
            let answer = client.answer(false).map(|answer| answer.status());
            assert_eq!(answer, Ok(status), "{way:?}");
            client.closes().expect("the connection ends in order");
        }
        assert_eq!(stream.head().map(|head| head.status), Ok(200), "{way:?}");
        while stream.chunk().expect("the stream ends in order").is_some() {}
        let mut socket = WebSocket::opened(socket).expect("it opens");
        assert_eq!(socket.next_change(), Ok(Frame::Close(1012)), "{way:?}");
    }
    assert!(relay.wait().success());
}

#[test]
fn a_removed_key_ends_its_own_streams_only() {
    let mut site = Site::new("life", &seed::usual("one"));
    let line_key = "test-key-of-one-production-line-0002";
    let keys = site.config["client_keys"]
        .as_array_mut()
        .expect("the site has keys");
    keys.push(json!({ "id": "line-3", "key": line_key }));
    let relay = Relay::start(&site);

    let path = websocket_path("inventory", "dev");
    let mut stays = WebSocket::open(&relay, PLAIN, &path, "");
    let mut goes = Client::connect(&relay, PLAIN);
    goes.send(
        request::upgrade(&path, "")
            .replace(KEY, line_key)
            .as_bytes(),
    );
    let head = goes.head().expect("an answer");
    assert_eq!(head.status, 101);
    let mut goes = WebSocket { client: goes, head };
    let events = request::get(&subscribe_path("inventory", "dev"));
    let mut events_go = Client::connect(&relay, PLAIN);
    events_go.send(events.replace(KEY, line_key).as_bytes());
    assert_eq!(events_go.head().map(|head| head.status), Ok(200));
    let mut events_stay = Events::subscribe(&relay, PLAIN, &subscribe_path("inventory", "dev"));
    events_stay.next().expect("registered");

    site.config["client_keys"]
        .as_array_mut()
        .expect("the site has keys")
        .pop();
    site.write_config();
    relay.signal(Signal::HUP);
    match goes.next_change() {
        Ok(Frame::Close(code)) => assert!(is_harmless(code), "{code}"),
        other => panic!("{other:?} instead of a close"),
    }
    while events_go.chunk().expect("ended in order").is_some() {}
    site.replace_seed(&seed::usual("two"));
    assert_eq!(relay.reload().0, 200);
    assert!(matches!(stays.next_change(), Ok(Frame::Text(_))));
    assert_eq!(events_stay.next().map(|event| event.id), Ok("2".to_owned()));
}

#[test]
fn a_bad_reload_keeps_the_old_configuration_whole() {
    let (mut site, relay) = start();
    site.config["client_keys"] = json!([]);
    site.config["sluts"] = json!(1);
    site.write_config();
    let (status, verdict) = relay.reload();
    assert!(status >= 400, "{status}: {verdict}");
    assert!(verdict.contains("sluts"), "{verdict}");
    assert_eq!(ask(&relay, PLAIN, request::config()).status(), 200);
}

#[test]
fn readiness_names_the_slots_without_data() {
    let mut site = Site::new("life", &seed::usual("one"));
    seed::add_empty_slot(&mut site, "payments", "dev");
    let relay = Relay::start(&site);
    assert_eq!(relay.ask("GET /live").0, 200);
    let (status, missing) = relay.ask("GET /ready");
    assert_eq!(status, 503);
    assert!(
        missing.contains("payments/dev") && !missing.contains("inventory/dev"),
        "{missing}"
    );
    let seed = seed::seed("two", &["inventory", "payments"]);
    site.replace_seed(&seed.to_string());
    assert_eq!(relay.reload().0, 200);
    assert_eq!(relay.ask("GET /ready").0, 200);
}

#[test]
fn the_watch_finds_a_new_seed_by_itself() {
    let (site, relay) = start();
    let mut stream = Events::subscribe(&relay, PLAIN, &subscribe_path("inventory", "dev"));
    stream.next().expect("registered");
    let before = Instant::now();
    site.replace_seed(&seed::usual("two"));
    let event = stream.next().expect("a change comes");
    assert_eq!(event.name, "SSEConfig_payload");
    assert!(before.elapsed().as_secs() < 5, "{:?}", before.elapsed());
}

#[test]
fn fifty_connections_over_the_limit_disturb_nobody() {
    let mut site = Site::new("life", &seed::usual("one"));
    site.config["limits"] = json!({ "connections": 20 });
    let relay = Relay::start(&site);
    let path = subscribe_path("inventory", "dev");
    let mut streams: Vec<Events> = (0..20)
        .map(|number| Events::subscribe(&relay, WAYS[number % WAYS.len()], &path))
        .collect();
    for stream in &mut streams {
        stream.next().expect("registered");
    }
    let mut over: Vec<Client> = (0..50).map(|_| Client::connect(&relay, PLAIN)).collect();
    for client in &mut over {
        client.send(request::config().as_bytes());
    }
    for client in &mut over {
        let answer = client.answer(false).expect("the lobby answers");
        assert_eq!(answer.status(), 503);
        assert!(answer.head.has("retry-after"));
        client.closes().expect("and closes");
    }
    site.replace_seed(&seed::usual("two"));
    assert_eq!(relay.reload().0, 200);
    for stream in &mut streams {
        assert_eq!(stream.next().map(|event| event.id), Ok("2".to_owned()));
    }
}

#[test]
fn connections_over_the_limit_are_told_to_come_again() {
    let mut site = Site::new("life", &seed::usual("one"));
    site.config["limits"] = json!({ "connections": 4 });
    let relay = Relay::start(&site);
    let path = subscribe_path("inventory", "dev");
    let streams: Vec<Events> = (0..4)
        .map(|_| Events::subscribe(&relay, PLAIN, &path))
        .collect();
    let answer = ask(&relay, PLAIN, request::config());
    assert_eq!(answer.status(), 503);
    assert!(answer.head.has("retry-after"));
    let upgrade = request::upgrade(&websocket_path("inventory", "dev"), "");
    assert_eq!(ask(&relay, PLAIN, upgrade).status(), 503);
    let mut client = Client::connect(&relay, PLAIN);
    client.send(request::get(&path).as_bytes());
    client
        .closes()
        .expect("an event stream is closed without an answer");
    drop(streams);
    until(&relay, "room again", |_| {
        ask(&relay, PLAIN, request::config()).status() == 200
    });
}
