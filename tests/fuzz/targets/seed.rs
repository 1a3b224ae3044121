//! Seed files and what each slot gets of them.
//!
//! Claims: what was accepted holds for a naive reader what SDKs rely on; it is accepted again and
//! comes back byte for byte; a smaller bound refuses or changes nothing; the flat form and the one
//! line hold the same content; a refusal is one line.

use serde_json::Value;
use staffetta::limits::Limits;
use staffetta::model::{Id, SlotKey, Snapshot};
use staffetta::wire::seed::Seed;
use staffetta::wire::{document, json, sse};
use std::collections::BTreeSet;

pub const WORDS: &[&str] = &[
    "1",
    "2",
    "50",
    "101",
    "null",
    "true",
    "[]",
    "{}",
    "\"$default\"",
    "\"rollout_percentage\":50,",
    "{\"collection_id\":\"payments\"}",
    "{\"collection_id\":\"other\"}",
    "\"collections\"",
    "\"order\"",
    "\"rollout_percentage\"",
    "\"segments\"",
    "\"s\"",
    "\"f\"",
    "\"SECRETREF\"",
    "\"NUMERIC\"",
    "\"JSON\"",
    "\"PROGRESSIVE\"",
    "\"GUARDED\"",
    "\"prod\"",
    "\"payments\"",
    "\r\n",
    ",",
];

pub fn seed(input: &[u8]) {
    let limits = Limits::PRODUCTION;
    let seed = match Seed::parse(input, &limits) {
        Ok(seed) => seed,
        Err(error) => return one_line_of(&error.to_string()),
    };
    let text = json::text(input).expect("it was read");
    let whole: Value = serde_json::from_str(text).expect("it was read");
    for key in slot_keys(&whole) {
        match seed.snapshot(&key, &limits) {
            Ok(snapshot) => {
                accepted(&snapshot, &key, &limits);
                bounded(input, &snapshot, &key);
            }
            Err(error) => one_line_of(&error.to_string()),
        }
    }
}

fn one_line_of(message: &str) {
    assert!(!message.chars().any(char::is_control), "{message:?}");
}

/// Some slots that the document may hold, and one that it does not.
fn slot_keys(whole: &Value) -> Vec<SlotKey> {
    let ids = |array: &str, id: &str| {
        let entries = whole[array].as_array().into_iter().flatten();
        let ids = entries.filter_map(|entry| Id::new(entry[id].as_str()?));
        ids.collect::<BTreeSet<Id>>()
            .into_iter()
            .take(2)
            .collect::<Vec<Id>>()
    };
    let mut keys = Vec::from_iter(SlotKey::parse("payments/nowhere"));
    for environment in ids("environments", "environment_id") {
        for collection in ids("collections", "collection_id") {
            let environment = environment.clone();
            keys.push(SlotKey {
                collection,
                environment,
            });
        }
    }
    keys
}

/// Smaller bounds refuse, or give the same.
fn bounded(input: &[u8], snapshot: &Snapshot, key: &SlotKey) {
    let small = Limits {
        items_max: 1,
        document_bytes_max: 1500,
        json_depth_max: 9,
        ..Limits::PRODUCTION
    };
    let found = Seed::parse(input, &small).and_then(|seed| seed.snapshot(key, &small));
    if let Ok(found) = found {
        assert_eq!(found.json, snapshot.json);
        assert!(found.json.len() <= small.document_bytes_max);
        let counts = found.counts;
        assert!(counts.features.max(counts.properties).max(counts.segments) <= 1);
    }
}

/// Whether an item says which collections it belongs to, which counts for no digest.
fn has_memberships(document: &Value) -> bool {
    let environment = &document["environments"][0];
    let arrays = ["features", "properties"].map(|array| environment[array].as_array());
    let mut items = arrays.into_iter().flatten().flatten();
    items.any(|item| item.get("collections").is_some())
}

fn accepted(snapshot: &Snapshot, key: &SlotKey, limits: &Limits) {
    let text = std::str::from_utf8(&snapshot.json).expect("UTF-8");
    let whole = json::check(text, limits.json_depth_max).ok();
    let document: Value = serde_json::from_str(text).expect("JSON");
    if !has_memberships(&document) {
        assert_eq!(whole, Some(snapshot.digest));
    }
    let again = Seed::parse(&snapshot.json, limits).expect("it was accepted");
    let again = again
        .snapshot(key, limits)
        .unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(again.json, snapshot.json, "selected twice");
    assert_eq!(
        (again.digest, again.counts),
        (snapshot.digest, snapshot.counts)
    );
    assert_eq!(again.rollouts_filled, 0, "filled twice");
    let line = sse::one_line(&snapshot.json);
    let line = std::str::from_utf8(&line).expect("UTF-8");
    assert_eq!(json::check(line, limits.json_depth_max).ok(), whole);
    sdk_reads(&document, snapshot, key);
    let flat = document::flat(snapshot);
    let flat: Value = serde_json::from_slice(&flat).expect("flat JSON");
    let environment = &document["environments"][0];
    assert_eq!(flat["features"], environment["features"]);
    assert_eq!(flat["segments"], document["segments"]);
    assert_eq!(flat["collection"], document["collections"][0]);
    let mut properties = list(&environment["properties"]).clone();
    properties.retain(|property| property["type"] != "SECRETREF");
    assert_eq!(flat["properties"], Value::Array(properties));
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().expect("an array")
}

/// What SDKs index, walk and convert without asking.
fn sdk_reads(document: &Value, snapshot: &Snapshot, key: &SlotKey) {
    let environments = list(&document["environments"]);
    let collections = list(&document["collections"]);
    assert_eq!((environments.len(), collections.len()), (1, 1));
    assert_eq!(environments[0]["environment_id"], key.environment.as_str());
    assert_eq!(collections[0]["collection_id"], key.collection.as_str());
    let mut used = BTreeSet::new();
    let counts = ["features", "properties"].map(|array| {
        let mut ids = BTreeSet::new();
        for item in list(&environments[0][array]) {
            let is_feature = array == "features";
            let id = if is_feature {
                "feature_id"
            } else {
                "property_id"
            };
            assert!(ids.insert(item[id].as_str().expect("an id")), "{id} twice");
            if let Some(collections) = item.get("collections") {
                let named = list(collections).iter();
                let mut named = named.map(|collection| &collection["collection_id"]);
                assert!(
                    named.any(|id| id == key.collection.as_str()),
                    "not of this slot"
                );
            }
            item_reads(item, is_feature, &mut used);
        }
        ids.len() as u32
    });
    let segments = list(&document["segments"]);
    let segments = segments
        .iter()
        .map(|segment| segment["segment_id"].as_str().expect("an id"));
    let segments: Vec<&str> = segments.collect();
    let found: BTreeSet<&str> = segments.iter().copied().collect();
    assert_eq!(found, used, "segments");
    assert_eq!(segments.len(), found.len(), "a segment twice");
    let told = snapshot.counts;
    assert_eq!(counts, [told.features, told.properties]);
    assert_eq!(segments.len() as u32, told.segments);
}

fn item_reads<'d>(item: &'d Value, is_feature: bool, used: &mut BTreeSet<&'d str>) {
    let is_percentage = |value: &Value| value.as_u64().is_some_and(|value| value <= 100);
    let values = if is_feature {
        vec!["enabled_value", "disabled_value"]
    } else {
        vec!["value"]
    };
    for value in values.into_iter().map(|key| &item[key]) {
        match item["type"].as_str().expect("a type") {
            "BOOLEAN" => assert!(value.is_boolean()),
            "NUMERIC" => assert!(value.is_number()),
            "SECRETREF" => assert!(value["id"].is_string() && !is_feature),
            _ if item["format"] == "JSON" => assert!(!value.is_null()),
            _ => assert!(value.is_string()),
        }
    }
    assert!(item["name"].is_string());
    assert!(
        !is_feature || is_percentage(&item["rollout_percentage"]),
        "{item}"
    );
    let rules = list(&item["segment_rules"]);
    let mut orders: Vec<u64> = Vec::new();
    for rule in rules {
        orders.push(rule["order"].as_u64().expect("an order"));
        assert!(
            !rule["value"].is_null() || item["format"] == "JSON",
            "{rule}"
        );
        let percentage = &rule["rollout_percentage"];
        let readable = is_percentage(percentage) || percentage == "$default";
        assert!(!is_feature || readable, "{rule}");
        for names in list(&rule["rules"]) {
            let names = list(&names["segments"]).iter();
            used.extend(names.map(|name| name.as_str().expect("a segment's id")));
        }
    }
    orders.sort_unstable();
    assert!(
        orders.iter().copied().eq(1..=rules.len() as u64),
        "{orders:?}"
    );
}
