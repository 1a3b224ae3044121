//! What clients report while the service is away, and what of it arrives.
//!
//! The relay is killed once, in the worst moment: while it delivers, and right after it took a
//! report. At least once means that a batch may come twice and that the last second may not come at
//! all; nothing else may be lost, and nothing else may come twice.

use crate::client::ask;
use crate::double::Double;
use crate::harness::PATIENCE;
use crate::harness::relay::Relay;
use crate::place::{double, short, site, until_told};
use crate::request;
use crate::shortened;
use crate::way::PLAIN;
use serde_json::{Value, json};
use staffetta::limits::Limits;
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::time::Duration;

/// Entries that wait for the service, and those of the last second.
const WAITING: u64 = 10_000;
const LAST: u64 = 100;
/// Batches that the service takes and answers before the kill. It takes one more without an answer
/// and then none, so that the relay is killed while it delivers, however late.
const ANSWERED: u32 = 80;
/// What one report of a client holds.
const REPORT: usize = 500;

fn limits() -> Limits {
    Limits {
        report_delay: Duration::from_millis(200),
        report_pause: Duration::from_millis(10),
        report_retry: Duration::from_millis(100),
        report_retry_max: Duration::from_millis(200),
        spool_delay: Duration::from_millis(200),
        ..short()
    }
}

/// Reports each of `entities` once, and has it accepted.
fn report(relay: &Relay, entities: Range<u64>) {
    let entities: Vec<u64> = entities.collect();
    for some in entities.chunks(REPORT) {
        let entry = |entity: &u64| {
            json!({
                "feature_id": "lights", "entity_id": entity.to_string(), "segment_id": null,
                "evaluation_time": "2026-11-30T02:00:00Z", "count": 1,
            })
        };
        let body = json!({
            "collection_id": "shop", "environment_id": "prod",
            "usages": some.iter().map(entry).collect::<Vec<Value>>(),
        });
        let body = body.to_string().into_bytes();
        let request = request::post(&request::usage_path(), &body, "");
        assert_eq!(ask(relay, PLAIN, request).status(), 202);
    }
}

/// Nothing is left to deliver, and all that was delivered is known to be.
fn is_over(status: &Value) -> bool {
    let events = &status["events"];
    events["waiting"] == 0 && events["may_repeat"] == 0
}

/// How often each entity came.
fn arrived(double: &Double) -> BTreeMap<u64, u64> {
    let totals = double.totals();
    let usage = totals.usage.iter().map(|(subject, count)| {
        let entity = subject.entity.as_deref().expect("an entity");
        (entity.parse().expect("a number"), *count)
    });
    usage.collect()
}

/// Makes the service one that cannot be reached, or one that can.
fn set_away(double: &Double, is_away: bool) {
    let tcp = if is_away {
        json!({ "refuse": true })
    } else {
        Value::Null
    };
    double
        .behave(&json!({ "tcp": tcp }))
        .expect("known behaviours");
}

#[test]
fn reports_survive_an_outage_and_a_kill_but_for_the_last_second() {
    const TEST: &str = "usage::reports_survive_an_outage_and_a_kill_but_for_the_last_second";
    if shortened::serves(limits()) {
        return;
    }
    let primary = double("primary", "one");
    set_away(&primary, true);
    let mut site = site("usage", "fast", &primary, None);
    let folder = site.scratch.path("state");
    fs::create_dir(&folder).expect("the scratch directory is writable");
    site.config["state_dir"] = json!(folder);
    let mut relay = shortened::start_through(TEST, &site, Vec::new());
    report(&relay, 0..WAITING);
    until_told(&relay, "all on the disk", |status| {
        let events = &status["events"];
        events["waiting"] == WAITING && events["waiting_bytes"] == 0
    });
    assert!(arrived(&primary).is_empty());

    let answered = json!({ "times": ANSWERED });
    let usage = json!([answered, { "times": 1, "drop": true }, { "silence": true }]);
    primary
        .behave(&json!({ "usage": usage }))
        .expect("known behaviours");
    set_away(&primary, false);
    let taken = u64::from(ANSWERED) + 1;
    let delivers = primary.wait_until(PATIENCE, |counts| counts.usage.posts == taken);
    assert!(delivers.is_some(), "{}", relay.log.all());
    report(&relay, WAITING..WAITING + LAST);
    relay.child.kill().expect("it runs");
    relay.child.wait().expect("it is our child");
    let before = arrived(&primary).len() as u64;
    assert!(before < WAITING, "all was delivered before the kill");

    primary
        .behave(&json!({ "usage": null }))
        .expect("known behaviours");
    let relay = shortened::start_through(TEST, &site, Vec::new());
    until_told(&relay, "all delivered", is_over);
    let found = arrived(&primary);
    let missing = (0..WAITING).find(|entity| !found.contains_key(entity));
    assert_eq!(missing, None, "{}", relay.log.all());
    let repeated: u64 = found.values().map(|count| count - 1).sum();
    // The one batch that nobody knew of.
    let batch = 1..=Limits::PRODUCTION.report_entries_max as u64;
    assert!(batch.contains(&repeated), "{repeated}");
    assert!(found.len() as u64 <= WAITING + LAST);
    relay.stop();
}

#[test]
fn a_batch_that_is_refused_for_ever_holds_up_no_other() {
    const TEST: &str = "usage::a_batch_that_is_refused_for_ever_holds_up_no_other";
    if shortened::serves(limits()) {
        return;
    }
    let primary = double("primary", "one");
    let refused = json!({ "usage": { "status": 400, "containing": "\"entity_id\":\"7\"" } });
    primary.behave(&refused).expect("known behaviours");
    let site = site("refused", "fast", &primary, None);
    let relay = shortened::start_through(TEST, &site, Vec::new());
    report(&relay, 0..100);
    let status = until_told(&relay, "all but one", is_over);
    let batch = Limits::PRODUCTION.report_entries_max as u64;
    let (events, found) = (&status["events"], arrived(&primary));
    assert_eq!(events["set_aside"], 1);
    assert_eq!(events["set_aside_entries"], batch);
    assert!(!found.contains_key(&7) && found.len() as u64 == 100 - batch);
    assert!(
        status["notes"]
            .to_string()
            .contains("were refused by the upstream for good")
    );
    relay.stop();
}
