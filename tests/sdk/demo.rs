//! The demo seed, a changed one, and what the SDK makes of each when it reads them by itself.
//!
//! The expectation is IBM's own: the same SDK evaluates the seed as its bootstrap file, with no
//! relay between. What must agree is everything that an application can ask for.

use crate::app::{App, SLOTS, START_MAX};
use crate::harness::site::Scratch;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

const DEMO: &str = include_str!("../../seeds/demo.json");

/// A seed and the values of each slot in it, in the order of [`SLOTS`].
pub struct Expected {
    pub seed: String,
    pub values: Vec<Value>,
}

/// The demo seed as it ships, and the same with every boolean flag switched.
pub struct Demo {
    pub first: Expected,
    pub changed: Expected,
}

/// The demo, evaluated once per test program.
pub fn demo(python: &Path) -> &'static Demo {
    static DEMO_VALUES: OnceLock<Demo> = OnceLock::new();
    DEMO_VALUES.get_or_init(|| {
        let seed: Value = serde_json::from_str(DEMO).expect("the demo seed is JSON");
        let first = evaluate(python, DEMO.to_owned());
        let changed = evaluate(python, switched(seed).to_string());
        for (slot, values) in SLOTS.iter().zip(first.values.iter().zip(&changed.values)) {
            assert_ne!(values.0, values.1, "{slot:?}: the change shows in no value");
        }
        check_variety(&first);
        Demo { first, changed }
    })
}

/// The identities of all flags or properties that `seed` has for a slot.
pub fn ids(seed: &str, slot: (&str, &str), list: &str, id: &str) -> BTreeSet<String> {
    let seed: Value = serde_json::from_str(seed).expect("the seed is JSON");
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let member = |item: &Value| {
        array(&item["collections"])
            .iter()
            .any(|entry| entry["collection_id"] == slot.0)
    };
    let environments = array(&seed["environments"]);
    let environment = environments
        .iter()
        .find(|entry| entry["environment_id"] == slot.1);
    let items = environment
        .map(|entry| array(&entry[list]))
        .unwrap_or_default();
    let ids = items
        .iter()
        .filter(|item| member(item))
        .filter_map(|item| item[id].as_str());
    ids.map(str::to_owned).collect()
}

fn switched(mut seed: Value) -> Value {
    for environment in seed["environments"].as_array_mut().expect("a list") {
        for feature in environment["features"].as_array_mut().expect("a list") {
            if feature["type"] == "BOOLEAN" {
                feature["enabled"] = Value::Bool(feature["enabled"] != true);
            }
        }
    }
    seed
}

fn evaluate(python: &Path, seed: String) -> Expected {
    let scratch = Scratch::new("expected");
    let apps = SLOTS.map(|slot| {
        // The SDK locks the file while it reads, and gives up at once when another one does.
        let file = scratch.path(&format!("{}-{}.json", slot.0, slot.1));
        fs::write(&file, &seed).expect("the scratch directory is writable");
        App::offline(python, slot, &file)
    });
    let values = apps.map(|mut app| {
        app.wait(0, "loaded", START_MAX);
        app.evaluate()
    });
    Expected {
        seed,
        values: values.into(),
    }
}

/// The comparison would be empty if nothing depended on anything: somewhere a segment must decide,
/// and somewhere a rollout.
fn check_variety(expected: &Expected) {
    let flags = expected
        .values
        .iter()
        .filter_map(|values| values["features"].as_object());
    let flags: Vec<&Value> = flags.flat_map(|flags| flags.values()).collect();
    let differs = |flag: &Value, start: &str| {
        let values = flag.as_object().expect("values by entity");
        let stranger = &values["stranger"];
        values
            .iter()
            .any(|(name, value)| name.starts_with(start) && value != stranger)
    };
    let targeted = flags
        .iter()
        .any(|flag| differs(flag, "in-") && !differs(flag, "entity-"));
    let rolled_out = flags.iter().any(|flag| {
        let values = flag.as_object().expect("values by entity");
        let plain = values
            .iter()
            .filter(|(name, _)| name.starts_with("entity-"));
        let distinct: BTreeSet<String> = plain.map(|(_, value)| value.to_string()).collect();
        distinct.len() > 1
    });
    assert!(targeted, "no demo flag is decided by a segment");
    assert!(rolled_out, "no demo flag is decided by a rollout");
}
