//! Request heads: what is refused, with what, and what is merely unusual.

use crate::client::{Client, ask};
use crate::harness::KEY;
use crate::harness::relay::Relay;
use crate::harness::site::Site;
use crate::process::memory_kib;
use crate::rows::{answered, refused, told, try_all};
use crate::way::{Delivery, PLAIN, WAYS};
use crate::{request, seed};
use std::time::{Duration, Instant};

const BAD: &[&[u16]] = &[&[400]];
const TOO_LARGE: &[&[u16]] = &[&[431]];
const GOOD: &[&[u16]] = &[&[200]];
const GOOD_TWICE: &[&[u16]] = &[&[200], &[200]];
const UNKNOWN: &[&[u16]] = &[&[404]];

fn start() -> (Site, Relay) {
    let site = Site::new("heads", &seed::usual("one"));
    let relay = Relay::start(&site);
    (site, relay)
}

/// The usual request with `line` among its headers.
fn with_line(line: &str) -> String {
    request::with("GET", &request::config_path("inventory", "dev"), line)
}

fn headers(count: usize) -> String {
    (0..count)
        .map(|number| format!("X-{number}: a\r\n"))
        .collect()
}

#[test]
fn malformed_heads_are_refused_and_closed() {
    let (_site, relay) = start();
    let good = request::config();
    let mut nul = with_line("X: a\r\n").into_bytes();
    let place = nul
        .windows(4)
        .position(|window| window == b"X: a")
        .expect("just written");
    nul[place + 3] = 0;
    let rows = [
        refused("a value beyond ASCII", with_line("X: \u{e9}\r\n"), BAD),
        refused("a folded header line", with_line("X: a\r\n b\r\n"), BAD),
        refused("a space before the colon", with_line("Name : a\r\n"), BAD),
        refused("a NUL in a value", nul, BAD),
        refused("a bare carriage return", with_line("X: a\rb\r\n"), BAD),
        refused(
            "bare line feeds throughout",
            good.replace("\r\n", "\n"),
            BAD,
        ),
        refused("one bare line feed", good.replacen("\r\n", "\n", 1), BAD),
        refused(
            "a bare line feed at the end",
            good.replace("\r\n\r\n", "\r\n\n"),
            BAD,
        ),
        refused("a header without a colon", with_line("Name\r\n"), BAD),
        refused("an empty header name", with_line(": a\r\n"), BAD),
        refused("two Host headers", with_line("Host: other\r\n"), BAD),
        refused(
            "a Host that rewrites the path",
            good.replace("Host: relay", "Host: u@evil/x?#"),
            BAD,
        ),
        refused("an empty Host", good.replace("Host: relay", "Host:"), BAD),
        refused("no Host", good.replace("Host: relay\r\n", ""), BAD),
        refused("no version", good.replace(" HTTP/1.1", ""), BAD),
        refused(
            "two spaces before the target",
            good.replacen("GET ", "GET  ", 1),
            BAD,
        ),
        refused(
            "a target without a slash",
            good.replacen("GET /", "GET ", 1),
            BAD,
        ),
        refused("not HTTP at all", "\x01\x02\x03\x04\r\n\r\n", BAD),
    ];
    try_all(&relay, &rows);
}

#[test]
fn versions_and_methods_that_are_not_ours_are_told_so() {
    let (_site, relay) = start();
    let good = request::config();
    let rows = [
        refused("HTTP/1.0", good.replace("HTTP/1.1", "HTTP/1.0"), &[&[505]]),
        refused(
            "HTTP/2.0 in the old syntax",
            good.replace("HTTP/1.1", "HTTP/2.0"),
            &[&[400, 505]],
        ),
        refused(
            "the preface of HTTP/2",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            &[&[400, 505]],
        ),
        told(
            "an unknown method",
            good.replacen("GET", "BREW", 1),
            &[&[405, 501]],
        ),
        answered(
            "a method that the path does not take",
            good.replacen("GET", "DELETE", 1),
            &[&[405]],
        ),
        told(
            "OPTIONS *",
            "OPTIONS * HTTP/1.1\r\nHost: relay\r\n\r\n",
            &[&[200, 204, 400, 404, 405]],
        ),
    ];
    try_all(&relay, &rows);
}

#[test]
fn a_refused_method_names_those_that_are_taken() {
    let (_site, relay) = start();
    let path = request::config_path("inventory", "dev");
    let answer = ask(
        &relay,
        PLAIN,
        request::with("PUT", &path, "Content-Length: 0\r\n"),
    );
    let allowed = answer
        .head
        .header("allow")
        .map(str::to_owned)
        .unwrap_or_default();
    assert_eq!(answer.status(), 405);
    assert!(
        allowed.contains("GET") && !allowed.contains("PUT"),
        "Allow: {allowed}"
    );
}

#[test]
fn heads_over_their_bounds_are_refused() {
    let (_site, relay) = start();
    let long_line = format!("X: {}\r\n", "a".repeat(9_000));
    let long_path = format!("/{}", "a".repeat(9_000));
    let rows = [
        refused(
            "a header line of 9,000 bytes",
            with_line(&long_line),
            TOO_LARGE,
        ),
        refused(
            "a target of 9,000 bytes",
            request::get(&long_path),
            &[&[414, 431]],
        ),
        refused("129 header lines", with_line(&headers(129)), TOO_LARGE),
        answered("fifty header lines", with_line(&headers(50)), GOOD),
        answered(
            "a header line of 5,000 bytes",
            with_line(&format!("X: {}\r\n", "a".repeat(5_000))),
            GOOD,
        ),
    ];
    try_all(&relay, &rows);
}

#[test]
fn a_head_without_an_end_takes_no_memory() {
    let (_site, relay) = start();
    for way in WAYS
        .into_iter()
        .filter(|way| way.delivery == Delivery::Whole)
    {
        // One whole request first, so that what a connection costs anyhow is there before.
        assert_eq!(ask(&relay, way, request::config()).status(), 200);
        let before = memory_kib(&relay, "VmRSS");
        let mut client = Client::connect(&relay, way);
        client.send(b"GET /");
        let piece = vec![b'a'; 1 << 20];
        for _ in 0..64 {
            client.send(&piece);
        }
        let grown = memory_kib(&relay, "VmRSS").saturating_sub(before);
        assert!(
            grown < 4 * 1024,
            "{way:?}: {grown} KiB more for a head without an end"
        );
        if let Ok(answer) = client.answer(false) {
            assert!(
                [414, 431].contains(&answer.status()),
                "{way:?}: {}",
                answer.status()
            );
        }
    }
}

#[test]
fn a_stalled_head_is_closed_after_its_deadline() {
    let (_site, relay) = start();
    let started = Instant::now();
    let mut clients = Vec::new();
    for way in WAYS {
        let mut client = Client::connect(&relay, way);
        client.send(&request::config().as_bytes()[..40]);
        clients.push((way, client));
    }
    for (way, mut client) in clients {
        if let Ok(answer) = client.answer(false) {
            assert_eq!(answer.status(), 408, "{way:?}");
        }
        client
            .closes()
            .unwrap_or_else(|error| panic!("{way:?}: {error}"));
        let took = started.elapsed();
        assert!(
            took >= Duration::from_secs(4),
            "{way:?}: closed already after {took:?}"
        );
    }
}

#[test]
fn pipelined_requests_are_answered_in_turn() {
    let (_site, relay) = start();
    let good = request::config();
    let unknown = request::get("/nowhere");
    let ten = good.repeat(10);
    const OK: &[u16] = &[200];
    const TEN: &[&[u16]] = &[OK; 10];
    let rows = [
        answered("two at once", good.repeat(2), GOOD_TWICE),
        answered(
            "an unknown path first",
            format!("{unknown}{good}"),
            &[&[404], &[200]],
        ),
        answered("ten at once", ten, TEN),
        answered("an empty line before", format!("\r\n{good}"), GOOD),
    ];
    try_all(&relay, &rows);
}

#[test]
fn the_client_may_end_the_connection() {
    let (_site, relay) = start();
    let rows = [
        refused(
            "Connection: close",
            with_line("Connection: close\r\n"),
            GOOD,
        ),
        refused(
            "Connection: close, TE",
            with_line("Connection: close, TE\r\n"),
            GOOD,
        ),
        refused(
            "Connection: Keep-Alive, Close",
            with_line("Connection: Keep-Alive, Close\r\n"),
            GOOD,
        ),
        answered(
            "Connection: keep-alive",
            with_line("Connection: keep-alive\r\n"),
            GOOD,
        ),
    ];
    try_all(&relay, &rows);
}

#[test]
fn paths_mean_what_is_written() {
    let (_site, relay) = start();
    let path = request::config_path("inventory", "dev");
    let dotted = format!("/x/..{path}");
    let hidden = format!("/x/%2e%2e{path}");
    let encoded = path.replace("apprapp", "%61pprapp");
    let doubled = format!("/{}", path.replace("/feature", "//feature"));
    let absolute = format!("http://relay{path}");
    let encoded_id = request::config_path("invent%6fry", "dev");
    let reordered = path.replacen("action=sdkConfig&", "", 1) + "&action=sdkConfig&more=1";
    let rows = [
        answered(
            "dot segments are not resolved",
            request::get(&dotted),
            UNKNOWN,
        ),
        answered("nor are encoded ones", request::get(&hidden), UNKNOWN),
        answered("an unknown path", request::get("/nowhere"), UNKNOWN),
        answered(
            "case matters",
            request::get(&path.replace("/config?", "/Config?")),
            UNKNOWN,
        ),
        told(
            "a fragment is no path of ours",
            request::get(&format!("{path}#x")),
            &[&[400, 404]],
        ),
        answered("doubled slashes", request::get(&doubled), GOOD),
        answered("an absolute-form target", request::get(&absolute), GOOD),
        answered("an encoded path", request::get(&encoded), &[&[200, 404]]),
        answered("an encoded id", request::get(&encoded_id), GOOD),
        answered("the query in another order", request::get(&reordered), GOOD),
    ];
    try_all(&relay, &rows);
}

#[test]
fn keys_are_not_written_to_the_log() {
    let (_site, relay) = start();
    assert_eq!(ask(&relay, PLAIN, request::config()).status(), 200);
    let wrong = request::config().replace(KEY, "a-wrong-key-of-somebody");
    assert_eq!(ask(&relay, PLAIN, wrong).status(), 401);
    let log = relay.log.all();
    assert!(
        !log.contains(KEY) && !log.contains("a-wrong-key-of-somebody"),
        "{log}"
    );
}
