//! The demo seed, a changed one, and what the SDK makes of each when no relay has touched it.

use super::application::in_node;
use crate::app::SLOTS;
use crate::child::Child;
use crate::harness::PATIENCE;
use crate::harness::site::Scratch;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

const DEMO: &str = include_str!("../../../seeds/demo.json");

/// A seed and the values of each slot in it, in the order of [`SLOTS`].
pub struct Expected {
    pub seed: String,
    values: Vec<Value>,
}

impl Expected {
    /// The values of `slot`.
    pub fn values(&self, slot: (&str, &str)) -> &Value {
        let index = SLOTS.iter().position(|other| *other == slot);
        &self.values[index.expect("one of the slots")]
    }
}

/// The demo seed as it ships, and the same with every boolean flag switched.
pub struct Seeds {
    pub first: Expected,
    pub changed: Expected,
}

impl Seeds {
    /// Both seeds, evaluated once per test program by the SDK without any relay.
    pub fn of(installed: &Path) -> &'static Seeds {
        static SEEDS: OnceLock<Seeds> = OnceLock::new();
        SEEDS.get_or_init(|| {
            let changed = switched(DEMO);
            let scratch = Scratch::new("expected-js");
            let paths = [("first.json", DEMO), ("changed.json", &changed)].map(|(name, text)| {
                let path = scratch.path(name);
                fs::write(&path, text).expect("the scratch directory is writable");
                path
            });
            let options = json!({ "installed": installed, "expected": paths, "slots": SLOTS });
            let child = Child::start(&[], in_node(&options), &[]);
            let found = child.said.find(0, "expected", PATIENCE, |_| true);
            let found = found.unwrap_or_else(|| panic!("Node said\n{}", child.log.all()));
            let values = |index: usize| -> Vec<Value> {
                let values: &Value = &found["seeds"][index];
                values.as_array().expect("a list of slots").clone()
            };
            let seeds = Seeds {
                first: Expected {
                    seed: DEMO.to_owned(),
                    values: values(0),
                },
                changed: Expected {
                    seed: changed,
                    values: values(1),
                },
            };
            seeds.check_variety();
            seeds
        })
    }

    /// The comparison would be empty if nothing differed: between the seeds, between an entity of a
    /// segment and a stranger, and between strangers.
    fn check_variety(&self) {
        let (mut targeted, mut rolled_out) = (false, false);
        for (slot, (first, changed)) in SLOTS
            .iter()
            .zip(self.first.values.iter().zip(&self.changed.values))
        {
            assert_ne!(first, changed, "{slot:?}: the change shows in no value");
            for flag in first["features"].as_object().expect("flags").values() {
                let differs = |start: &str| {
                    let entities = flag.as_object().expect("values by entity").iter();
                    let mut named = entities.filter(|(name, _)| name.starts_with(start));
                    named.any(|(_, value)| *value != flag["stranger"])
                };
                targeted |= differs("in-") && !differs("entity-");
                rolled_out |= differs("entity-");
            }
        }
        assert!(targeted, "no demo flag is decided by a segment");
        assert!(rolled_out, "no demo flag is decided by a rollout");
    }
}

fn switched(seed: &str) -> String {
    let mut seed: Value = serde_json::from_str(seed).expect("the demo seed is JSON");
    for environment in seed["environments"].as_array_mut().expect("a list") {
        for feature in environment["features"].as_array_mut().expect("a list") {
            if feature["type"] == "BOOLEAN" {
                feature["enabled"] = Value::Bool(feature["enabled"] != true);
            }
        }
    }
    seed.to_string()
}
