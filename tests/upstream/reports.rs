//! A report that the primary does not know what to do with.

use crate::client::ask;
use crate::harness::PATIENCE;
use crate::harness::relay::Relay;
use crate::place::{double, site, until_open};
use crate::request;
use crate::way::PLAIN;
use serde_json::json;

/// A report of as many entries as go at once, and so go without delay.
fn report(collection: &str) -> Vec<u8> {
    let entry = |number: usize| {
        json!({
            "feature_id": format!("feature-{number}"), "entity_id": "e", "segment_id": null,
            "evaluation_time": "2026-11-29T21:54:12Z", "count": 1,
        })
    };
    let usages: Vec<_> = (0..30).map(entry).collect();
    let body = json!({ "collection_id": collection, "environment_id": "dev", "usages": usages });
    let body = body.to_string();
    request::post(&request::usage_path(), body.as_bytes(), "")
}

#[test]
fn a_report_about_what_is_unknown_does_not_hold_up_the_next() {
    let primary = double("primary", "upstream");
    let site = site("unknown", "fast", &primary, None);
    let relay = Relay::start(&site);
    until_open(&primary, &relay, 4);
    let orders = json!({ "usage": { "status": 404, "times": 1 } });
    primary.behave(&orders).expect("known behaviours");
    assert_eq!(ask(&relay, PLAIN, report("ghost")).status(), 202);
    relay.log.wait_for("set aside");
    assert_eq!(ask(&relay, PLAIN, report("shop")).status(), 202);
    let taken = primary.wait_until(PATIENCE, |counts| counts.usage.entries == 30);
    assert!(
        taken.is_some(),
        "{:?}\n{}",
        primary.counts(),
        relay.log.all()
    );
    assert!(relay.stop().success());
}
