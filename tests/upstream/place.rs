//! A site whose relay follows doubles: four slots, two collections in two environments.

use crate::client::{Answer, ask};
use crate::double::{Double, Options};
use crate::harness::relay::Relay;
use crate::harness::site::Site;
use crate::harness::{GUID, KEY, PATIENCE};
use crate::request;
use crate::way::PLAIN;
use serde_json::{Value, json};
use staffetta::limits::Limits;
use std::time::{Duration, Instant};

/// What is followed, as a double names it.
pub const SLOTS: [&str; 4] = ["shop/dev", "shop/prod", "store/dev", "store/prod"];

/// How often the doubles say `test message`.
const HEARTBEAT_MS: u64 = 50;

/// Limits with everything that a test waits for made short, and what it must not wait for left
/// long: whatever happens in time did not happen by back-off or by the safety net.
pub fn short() -> Limits {
    Limits {
        retry_primary_default: Duration::from_secs(1),
        stagger_max: Duration::from_millis(400),
        ping_after: Duration::from_millis(400),
        silence_timeout: Duration::from_secs(2),
        heartbeat_timeout: Duration::from_secs(3),
        upstream_idle_timeout: Duration::from_secs(2),
        refetch_first: Duration::from_millis(50),
        denied_first: Duration::from_millis(500),
        denied_cap: Duration::from_secs(1),
        // No return is delayed for being the third.
        damping_wait_max: Duration::from_secs(1),
        backoff_first: Duration::from_secs(120),
        ..Limits::PRODUCTION
    }
}

/// A document for all of [`SLOTS`], in the service's own export form. `mark` is the value of one
/// property: it tells which document somebody has.
pub fn document(mark: &str) -> String {
    let collection = |id: &str| json!({ "collection_id": id, "name": id });
    let collections = [collection("shop"), collection("store")];
    let feature = json!({
        "feature_id": "lights", "name": "Lights", "type": "BOOLEAN", "enabled_value": true,
        "disabled_value": false, "enabled": true, "rollout_percentage": 100, "segment_rules": [],
        "collections": collections,
    });
    let property = json!({
        "property_id": "mark", "name": "Mark", "type": "STRING", "format": "TEXT", "value": mark,
        "segment_rules": [], "collections": collections,
    });
    let environment = |id: &str| {
        json!({
            "environment_id": id, "name": id, "features": [feature], "properties": [property],
        })
    };
    let document = json!({
        "environments": [environment("dev"), environment("prod")],
        "collections": collections,
        "segments": [],
    });
    document.to_string()
}

/// A double that has [`document`] with `mark` for every slot.
pub fn double(node: &str, mark: &str) -> Double {
    let double = Double::start(options(node)).expect("ports of the kernel's choice are free");
    set(&double, mark);
    double
}

/// A double as every test here starts it.
pub fn options(node: &str) -> Options {
    Options {
        node: node.to_owned(),
        api_key: Some(KEY.to_owned()),
        guid: Some(GUID.to_owned()),
        heartbeat_ms: HEARTBEAT_MS,
        ..Options::default()
    }
}

/// Gives `double` the document with `mark` for every slot, and tells nobody.
pub fn set(double: &Double, mark: &str) {
    for slot in SLOTS {
        double.set_document(slot, document(mark));
    }
}

/// Tells every socket that its document changed.
pub fn notify(double: &Double) {
    for slot in SLOTS {
        assert_eq!(double.notify(slot, None), 1, "one socket follows {slot}");
    }
}

/// A site that follows `primary` (and `backup`), and starts as `start` says. Unless that is
/// `normal`, it has a seed: the document with the mark `seed`.
pub fn site(name: &str, start: &str, primary: &Double, backup: Option<&Double>) -> Site {
    let primary = format!("http://{}", primary.address);
    let backup = backup.map(|backup| format!("http://{}", backup.address));
    site_by_url(name, start, &primary, backup.as_deref())
}

/// As [`site`], of upstreams that are no doubles.
pub fn site_by_url(name: &str, start: &str, primary: &str, backup: Option<&str>) -> Site {
    let mut site = Site::new(name, &document("seed"));
    let upstream = |url: &str| json!({ "url": url, "api_key": KEY });
    site.config["start"] = json!(start);
    if start == "normal"
        && let Some(config) = site.config.as_object_mut()
    {
        config.remove("seed");
    }
    site.config["upstream"] = json!({ "primary": upstream(primary) });
    if let Some(backup) = backup {
        site.config["upstream"]["backup"] = upstream(backup);
    }
    site.config["limits"] = json!({ "connections": 2_000, "memory": "1GiB" });
    site
}

/// A config answer of `slot`.
pub fn get(relay: &Relay, slot: &str) -> Answer {
    let (collection, environment) = slot.split_once('/').expect("a slot");
    let path = request::config_path(collection, environment);
    ask(relay, PLAIN, request::get(&path))
}

/// The mark in the document that a config answer of `slot` has.
pub fn mark(relay: &Relay, slot: &str) -> String {
    let answer = get(relay, slot);
    let document: Value = serde_json::from_slice(&answer.body).expect("a document");
    let mark = document["environments"][0]["properties"][0]["value"].as_str();
    mark.unwrap_or_else(|| panic!("no mark in {document:#}"))
        .to_owned()
}

/// Asks until `slot` is served with `wanted`. Each question is a round trip through the relay's
/// loop; the deadline is for when it never is.
pub fn until_marked(relay: &Relay, slot: &str, wanted: &str) {
    let deadline = Instant::now() + PATIENCE;
    while mark(relay, slot) != wanted {
        assert!(
            Instant::now() < deadline,
            "{slot} never has {wanted}\n{}",
            relay.log.all()
        );
    }
}

/// Asks until the status is as `is_wanted` says; gives it.
pub fn until_told(relay: &Relay, what: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (_, status) = relay.ask("GET /status");
        let status: Value = serde_json::from_str(&status).expect("a status document");
        if is_wanted(&status) {
            return status;
        }
        let log = relay.log.all();
        assert!(Instant::now() < deadline, "never {what}: {status:#}\n{log}");
    }
}

/// Waits until `double` has `count` open sockets.
pub fn until_open(double: &Double, relay: &Relay, count: u64) {
    let open = double.wait_until(PATIENCE, |counts| counts.sockets_open == count);
    assert!(
        open.is_some(),
        "{}: never {count} sockets: {:?}\n{}",
        double.options.node,
        double.counts(),
        relay.log.all()
    );
}

/// Requests for documents of all slots, those that were given them only.
pub fn fetches(double: &Double) -> u64 {
    let counts = double.counts();
    counts.slots.values().map(|slot| slot.fetches).sum()
}
