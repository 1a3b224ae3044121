//! Relays that speak to each other: real bytes, the real tasks, no sockets.

mod empty;
mod forward;
mod leave;
mod memory;
mod peers;
mod receive;
mod record;
mod reload;
mod restart;
mod routed;

use super::rig::{BEGIN, PEER_KEY, SHORT, Sites, document, limits};
use crate::config::Secret;
use crate::limits::{Limits, Region as Bounds};
use crate::net::connection::Door;
use crate::net::load::{self, Loaded};
use crate::net::rig::content;
use crate::time::{Duration, Wall};

const NAMES: [&str; 2] = ["au-1", "eu-1"];
/// The primary of the first term, and the other one.
const AU: usize = 0;
const EU: usize = 1;

const SECOND: Duration = Duration::from_secs(1);

fn get(target: &str, key: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: r\r\nAuthorization: Bearer {key}\r\n\r\n").into_bytes()
}

fn put(fields: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!("PUT /v1/slots/c/e HTTP/1.1\r\nHost: r\r\nContent-Length: {length}\r\n");
    format!("{head}{fields}\r\n{body}").into_bytes()
}

/// What a peer says about a write that it sends on, with some lines in place of others.
fn sent_on(changes: &[(&str, &str)]) -> String {
    let lines = [
        ("X-Relay-Cluster", "plant"),
        ("X-Relay-From", "eu-1"),
        ("X-Relay-Hops", "1"),
        ("X-Relay-Epoch", "5"),
        ("X-Relay-Deadline", "1500"),
        ("Via", "1.1 eu-1"),
    ];
    let mut fields = format!("Authorization: Bearer {PEER_KEY}\r\n");
    for (name, value) in lines {
        let changed = changes.iter().find(|(other, _)| *other == name);
        let value = changed.map_or(value, |(_, value)| value);
        fields += &format!("{name}: {value}\r\n");
    }
    let is_new = |(name, _): &&(&str, &str)| lines.iter().all(|(known, _)| known != name);
    for (name, value) in changes.iter().filter(is_new) {
        fields += &format!("{name}: {value}\r\n");
    }
    fields
}

/// Two relays that have one record and have heard of each other; the first is primary in epoch 5.
fn settled(test: &str) -> Sites {
    settled_by(test, "")
}

fn settled_by(test: &str, switches: &str) -> Sites {
    settled_with(test, switches, limits())
}

fn settled_with(test: &str, switches: &str, limits: Limits) -> Sites {
    let sites = Sites::with(test, &NAMES, limits);
    for index in [AU, EU] {
        sites.bring(index, &document(1, &NAMES, switches)).unwrap();
    }
    sites.advance(SECOND);
    assert!(status(&sites, AU).contains(r#""phase":"active""#));
    assert!(status(&sites, EU).contains(r#""phase":"replica""#));
    sites
}

/// One node has not heard of the newer record, and would not for a minute.
fn differing(test: &str) -> Sites {
    let sites = Sites::new(test, &NAMES);
    let rarely = |text: String| text.replace("\"poll_ms\": 200", "\"poll_ms\": 60000");
    for index in [AU, EU] {
        sites
            .bring(index, &rarely(document(1, &NAMES, "")))
            .unwrap();
    }
    sites.advance(SECOND);
    let newer = document(2, &["eu-1", "au-1"], "").replace("\"epoch\": 5", "\"epoch\": 6");
    sites.bring(AU, &rarely(newer)).unwrap();
    sites.advance(SECOND);
    assert!(status(&sites, AU).contains(r#""phase":"replica""#));
    assert!(
        status(&sites, EU).contains(r#""phase":"replica""#),
        "each takes the other for it"
    );
    sites
}

/// Ten seconds after everything began.
fn switch_to_eu() -> String {
    let at = "2027-01-15T08:00:10Z";
    format!(r#"{{ "at": "{at}", "to": "r-eu-1", "epoch": 6 }}"#)
}

/// A moment before its term `eu-1` cannot hear whether the one before has ended: what comes to it
/// is held, within these bounds.
fn holding(test: &str, bounds: &'static Bounds) -> Sites {
    let limits = Limits {
        region: bounds,
        ..limits()
    };
    let sites = settled_with(test, &switch_to_eu(), limits);
    sites.cut(AU, EU);
    sites.advance(Duration::from_millis(8_900));
    sites
}

fn status(sites: &Sites, index: usize) -> String {
    sites.ask(index, Door::Sdk, &get("/v1/region/status", PEER_KEY))
}

/// The slot as a peer reads it.
fn slot(sites: &Sites, index: usize) -> String {
    sites.ask(index, Door::Sdk, &get("/v1/slots/c/e", PEER_KEY))
}

/// A push by the operator of one relay; what came back at once.
fn push(sites: &Sites, index: usize, fields: &str, marker: &str) -> String {
    sites.ask(index, Door::AdminLocal, &put(fields, &content(marker)))
}

/// A write that `eu-1` seems to have sent on; what came back at once.
fn receive(sites: &Sites, index: usize, changes: &[(&str, &str)], marker: &str) -> String {
    let bytes = put(&sent_on(changes), &content(marker));
    sites.ask(index, Door::Sdk, &bytes)
}

#[track_caller]
fn assert_refused(answer: &str, status: u16, reason: &str) {
    assert!(
        answer.starts_with(&format!("HTTP/1.1 {status} ")),
        "{answer}"
    );
    assert!(
        answer.contains(&format!(r#""reason":"{reason}""#)),
        "{answer}"
    );
    let outcome = "\r\nx-relay-outcome: not-attempted\r\n";
    assert!(answer.contains(outcome), "{answer}");
}

#[track_caller]
fn assert_done(answer: &str, revision: &str) {
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(
        answer.contains(&format!("\r\netag: \"{revision}\"\r\n")),
        "{answer}"
    );
}
