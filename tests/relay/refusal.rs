//! Seeds that would crash an SDK: none of them replaces a good document, and people are told why.
//!
//! No client may see anything of it. That is shown by what comes next: after all refusals a good
//! seed follows, and it must be the first thing that clients are told of.

use crate::client::ask;
use crate::harness::relay::Relay;
use crate::harness::site::Site;
use crate::request::{subscribe_path, websocket_path};
use crate::stream::{Events, Frame, HEARTBEAT, WebSocket};
use crate::way::PLAIN;
use crate::{request, seed};
use serde_json::{Value, json};

/// A seed that is refused, and what the log and the status must name.
struct Refused {
    name: &'static str,
    seed: String,
    /// Words of which each must be in the log's line and in the status.
    named: &'static [&'static str],
}

/// The usual seed with one thing done to it.
fn bent(name: &'static str, named: &'static [&'static str], bend: impl Fn(&mut Value)) -> Refused {
    let mut seed = seed::seed("bad", &["inventory"]);
    bend(&mut seed);
    Refused {
        name,
        seed: seed.to_string(),
        named,
    }
}

/// The usual seed with one thing done to its feature.
fn feature(
    name: &'static str,
    named: &'static [&'static str],
    bend: impl Fn(&mut Value),
) -> Refused {
    bent(name, named, |seed| {
        bend(&mut seed["environments"][0]["features"][0])
    })
}

fn remove(object: &mut Value, key: &str) {
    let fields = object.as_object_mut().expect("an object");
    fields.remove(key).expect("the key was there");
}

const FLAG: &[&str] = &["inventory/dev", "fast-checkout"];
const SLOT: &[&str] = &["inventory/dev"];

fn rows() -> Vec<Refused> {
    let text = |name, seed: &str| Refused {
        name,
        seed: seed.to_owned(),
        named: &[],
    };
    let usual = seed::usual("bad");
    vec![
        text("an empty object", "{}"),
        text("an empty file", ""),
        text("a file that ends in the middle", &usual[..usual.len() / 2]),
        text("something behind the document", &format!("{usual}}}")),
        text("a list", "[]"),
        text(
            "a duplicate key",
            &usual.replacen("\"enabled\":", "\"enabled\":false,\"enabled\":", 1),
        ),
        bent("the collection is not listed", SLOT, |seed| {
            seed["collections"] = json!([])
        }),
        bent("no environment has the id", SLOT, |seed| {
            seed["environments"][0]["environment_id"] = json!("staging");
        }),
        bent("segments are missing", &[], |seed| remove(seed, "segments")),
        bent("segments are null", &[], |seed| {
            seed["segments"] = json!(null)
        }),
        bent("a rule names a segment that is missing", FLAG, |seed| {
            seed["segments"] = json!([])
        }),
        feature("an unknown type", FLAG, |feature| {
            feature["type"] = json!("BOOL")
        }),
        feature("no type", FLAG, |feature| remove(feature, "type")),
        feature("no segment rules", FLAG, |feature| {
            remove(feature, "segment_rules")
        }),
        feature("a rollout of 101 percent", FLAG, |feature| {
            feature["rollout_percentage"] = json!(101)
        }),
        feature("a rollout of half a percent", FLAG, |feature| {
            feature["rollout_percentage"] = json!(0.5);
        }),
        feature("an enabled value of another type", FLAG, |feature| {
            feature["enabled_value"] = json!("true");
        }),
        feature("rules that skip an order", FLAG, |feature| {
            feature["segment_rules"][0]["order"] = json!(2);
        }),
        feature("a progressive rollout without phases", FLAG, |feature| {
            feature["rollout_type"] = json!("PROGRESSIVE");
            feature["rollout_configuration"] = json!({ "start_at": "2026-01-05T08:00:00Z" });
        }),
        feature("a progressive rollout without a start", FLAG, |feature| {
            feature["rollout_type"] = json!("PROGRESSIVE");
            feature["rollout_configuration"] = json!({ "phases": [{ "percentage": 100 }] });
        }),
        bent("an unknown operator", SLOT, |seed| {
            seed["segments"][0]["rules"][0]["operator"] = json!("resembles");
        }),
    ]
}

#[test]
fn a_bad_seed_changes_nothing_and_says_why() {
    let site = Site::new("refusal", &seed::usual("one"));
    let relay = Relay::start(&site);
    let mut stream = Events::subscribe(&relay, PLAIN, &subscribe_path("inventory", "dev"));
    let path = websocket_path("inventory", "dev");
    let mut socket = WebSocket::open(&relay, PLAIN, &path, "");
    stream.next().expect("registered");
    let good = ask(&relay, PLAIN, request::config());

    let mut failures = Vec::new();
    for row in rows() {
        let mark = relay.log.mark();
        site.replace_seed(&row.seed);
        let (_, verdict) = relay.reload();
        let logged = |line: &str| {
            row.named
                .iter()
                .all(|word| line.contains(word))
                .then_some(())
        };
        if relay
            .log
            .find_within(crate::harness::PATIENCE, mark, logged)
            .is_none()
        {
            failures.push(format!(
                "{}: the log does not name {:?}",
                row.name, row.named
            ));
        }
        let status = crate::life::status(&relay).to_string();
        if let Some(word) = row.named.iter().find(|word| !status.contains(**word)) {
            failures.push(format!(
                "{}: the status does not name {word}: {status}",
                row.name
            ));
        }
        let now = ask(&relay, PLAIN, request::config());
        if (now.status(), &now.body) != (200, &good.body) {
            failures.push(format!(
                "{}: it is served; the verdict was {verdict}",
                row.name
            ));
        }
    }
    let list = failures.join("\n");
    assert!(
        failures.is_empty(),
        "{list}\nthe relay logged\n{}",
        relay.log.all()
    );

    site.replace_seed(&seed::usual("good again"));
    assert_eq!(relay.reload().0, 200);
    let event = stream.next().expect("a change comes");
    assert_eq!(
        (event.name.as_str(), event.id.as_str()),
        ("SSEConfig_payload", "2")
    );
    assert!(event.data.contains("good again"), "{}", event.data);
    assert!(matches!(socket.next(), Ok(Frame::Text(text)) if text != HEARTBEAT));
    socket.send(0x9, b"the only one");
    assert_eq!(socket.next(), Ok(Frame::Pong(b"the only one".to_vec())));
}

#[test]
fn every_slot_that_a_seed_is_refused_for_is_named() {
    let both = seed::seed("one", &["inventory", "payments"]);
    let site = Site::new("refusal", &both.to_string());
    let relay = Relay::start(&site);
    for bad in ["BOOL", "NUMBER"] {
        let mut seed = both.clone();
        seed["environments"][0]["features"][0]["type"] = json!(bad);
        let mark = relay.log.mark();
        site.replace_seed(&seed.to_string());
        let (status, verdict) = relay.reload();
        assert_eq!(status, 422);
        for slot in ["inventory/dev", "payments/dev"] {
            let names = |line: &str| {
                [slot, "fast-checkout", bad]
                    .iter()
                    .all(|word| line.contains(word))
                    .then_some(())
            };
            relay.log.wait_from(mark, slot, names);
            assert!(
                verdict.lines().any(|line| names(line).is_some()),
                "{verdict}"
            );
        }
    }
}

#[test]
fn a_refused_seed_is_no_error_once_a_good_one_came() {
    let site = Site::new("refusal", &seed::usual("one"));
    let relay = Relay::start(&site);
    site.replace_seed("{");
    let (status, verdict) = relay.reload();
    assert!(status >= 400, "{status}: {verdict}");
    site.replace_seed(&seed::usual("two"));
    assert_eq!(relay.reload().0, 200);
    assert!(ask(&relay, PLAIN, request::config()).text().contains("two"));
}

#[test]
fn a_seed_that_vanishes_changes_nothing() {
    let site = Site::new("refusal", &seed::usual("one"));
    let relay = Relay::start(&site);
    std::fs::remove_file(site.scratch.path("seed.json")).expect("it was there");
    relay.reload();
    assert_eq!(ask(&relay, PLAIN, request::config()).status(), 200);
    site.replace_seed(&seed::usual("two"));
    assert_eq!(relay.reload().0, 200);
    assert!(ask(&relay, PLAIN, request::config()).text().contains("two"));
}

#[test]
fn a_relay_without_a_seed_file_starts_and_waits_for_it() {
    let site = Site::new("refusal", &seed::usual("one"));
    std::fs::remove_file(site.scratch.path("seed.json")).expect("it was there");
    let relay = Relay::start(&site);
    assert_eq!(ask(&relay, PLAIN, request::config()).status(), 503);
    let mut stream = Events::subscribe(&relay, PLAIN, &subscribe_path("inventory", "dev"));
    site.replace_seed(&seed::usual("late"));
    let first = stream.next().expect("the watch finds it");
    assert_eq!(first.name, "Registration");
    assert!(first.data.contains("late"));
}

#[test]
fn harmless_oddities_of_a_seed_are_taken() {
    let site = Site::new("refusal", &seed::usual("one"));
    let relay = Relay::start(&site);
    let with_bom = format!("\u{feff}{}", seed::usual("bom"));
    let pretty = serde_json::to_string_pretty(&seed::seed("crlf", &["inventory"]));
    let with_crlf = pretty.expect("a value").replace('\n', "\r\n");
    for (marker, seed) in [("bom", with_bom), ("crlf", with_crlf)] {
        site.replace_seed(&seed);
        assert_eq!(relay.reload().0, 200, "{marker}");
        let answer = ask(&relay, PLAIN, request::config());
        let document: Value = serde_json::from_slice(&answer.body).expect("JSON without a BOM");
        assert_eq!(
            document["environments"][0]["properties"][0]["value"],
            marker
        );
    }
}
