//! Small seeds in the shape of the service's own export, made to be bent.
//!
//! `marker` is the value of one property: it tells which seed a client has seen.

use crate::harness::site::Site;
use serde_json::{Value, json};

/// A seed of environment `dev` that fills the slots of `collections`; all others stay without data.
pub fn seed(marker: &str, collections: &[&str]) -> Value {
    let member = |collection: &&str| json!({ "collection_id": collection, "name": collection });
    let members: Vec<Value> = collections.iter().map(member).collect();
    let rule = json!({
        "rules": [{ "segments": ["staff"] }], "value": "$default", "order": 1,
        "rollout_percentage": "$default", "rule_id": "r-1", "rule_name": "staff first",
    });
    let feature = json!({
        "feature_id": "fast-checkout", "name": "Fast checkout", "type": "BOOLEAN",
        "enabled_value": true, "disabled_value": false, "enabled": true,
        "rollout_percentage": 50, "segment_rules": [rule], "collections": members,
    });
    let property = json!({
        "property_id": "marker", "name": "Marker", "type": "STRING", "format": "TEXT",
        "value": marker, "segment_rules": [], "collections": members,
    });
    let segment = json!({
        "segment_id": "staff", "name": "Staff", "description": "", "tags": "",
        "rules": [{ "attribute_name": "email", "operator": "endsWith", "values": ["@shop.test"] }],
    });
    json!({
        "environments": [{
            "environment_id": "dev", "name": "Dev", "features": [feature], "properties": [property],
        }],
        "collections": members,
        "segments": [segment],
    })
}

/// The seed of most tests: `inventory/dev` and nothing else.
pub fn usual(marker: &str) -> String {
    seed(marker, &["inventory"]).to_string()
}

/// A seed whose document of `inventory/dev` is at least `bytes` long.
pub fn large(marker: &str, bytes: usize) -> String {
    let mut seed = seed(marker, &["inventory"]);
    let ballast = json!({
        "property_id": "ballast", "name": "Ballast", "type": "STRING", "format": "TEXT",
        "value": "0123456789abcdef".repeat(bytes / 16 + 1), "segment_rules": [],
        "collections": seed["collections"],
    });
    let properties = seed["environments"][0]["properties"].as_array_mut();
    properties
        .expect("the seed above has properties")
        .push(ballast);
    seed.to_string()
}

/// Adds a slot for which the seed holds nothing to the configuration.
pub fn add_empty_slot(site: &mut Site, collection: &str, environment: &str) {
    let slots = site.config["slots"].as_array_mut();
    let slot = json!({ "collection": collection, "environment": environment });
    slots.expect("every site has slots").push(slot);
}
