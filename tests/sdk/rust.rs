//! The real Rust SDK, unmodified, against the relay: the crate `appconfiguration` 0.1.0-rc.0.
//!
//! What is published under that version has no service URL to override: it goes to the names of
//! IBM's service, over TLS. It refuses a whole document for one property of a type that it does not
//! know (`SECRETREF`), wherever the document comes from; so it gets the demo without those. And it
//! stops listening when its socket ends; an application that wants to go on makes a new client, and
//! so does this one.
//!
//! What its answers are compared with is what the Python SDK makes of the same seed when no relay
//! has touched it, wherever the two understand the same.

use crate::app::SLOTS;
use crate::child::Child;
use crate::debian::{need, run};
use crate::demo::{Expected, demo, ids};
use crate::harness::relay::Relay;
use crate::harness::site::{Site, certificates};
use crate::harness::{GUID, KEY, REGION};
use crate::namespace::Namespace;
use crate::python::{self, skip};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A replaced seed must reach applications within this.
const CHANGE_MAX: Duration = Duration::from_secs(5);

/// Where this SDK gets its tokens, whatever else it is told.
const IAM_HOST: &str = "iam.cloud.ibm.com";

const CRATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sdk/rust/Cargo.toml");

/// Builds the application under cargo's target directory, from its own lock file.
fn build() -> Result<PathBuf, String> {
    need(&[
        ("pkg-config", "pkg-config"),
        ("/usr/include/openssl/ssl.h", "libssl-dev"),
    ])?;
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rust-sdk");
    run(Command::new(env!("CARGO"))
        .args(["build", "--locked", "--quiet", "--manifest-path", CRATE])
        .arg("--target-dir")
        .arg(&target))?;
    Ok(target.join("debug/staffetta-sdk-application"))
}

#[test]
fn an_application_in_rust_is_served() {
    let Some(python) = python::interpreter() else {
        return;
    };
    let program = match build() {
        Ok(program) => program,
        Err(why) => return skip(&why),
    };
    let demo = demo(python);
    let first = Oracle::of(&demo.first);
    let changed = Oracle::of(&demo.changed);
    let mut site = Site::new("rust", &first.seed.to_string());
    let names = format!("{IAM_HOST} {REGION}.apprapp.cloud.ibm.com");
    let namespace = match Namespace::open(&site.scratch, &names) {
        Ok(namespace) => namespace,
        Err(why) => return skip(&why),
    };
    site.config["listen"] = json!(["127.0.0.1:443"]);
    let relay = Relay::start_through(&site, &namespace.enter());
    let mut apps = SLOTS.map(|slot| start(&program, &namespace, slot, &first.seed));
    for app in &mut apps {
        app.child.wait(0, "ready");
        first.check(app.slot, &app.child.ask("evaluate", "values"));
    }

    let marks = apps.each_mut().map(|app| app.child.send("change"));
    let before = Instant::now();
    site.replace_seed(&changed.seed.to_string());
    for (app, mark) in apps.iter().zip(marks) {
        changed.check(app.slot, &app.child.wait(mark, "values"));
    }
    let took = before.elapsed();
    assert!(took <= CHANGE_MAX, "told of the change only after {took:?}");

    assert!(relay.stop().success());
    for app in &mut apps {
        app.child.said.0.wait_for("Stopping to monitor for changes");
        changed.check(app.slot, &app.child.ask("evaluate", "values"));
    }
    site.replace_seed(&first.seed.to_string());
    let relay = Relay::start_through(&site, &namespace.enter());
    for app in &mut apps {
        app.child.ask("again", "ready");
        first.check(app.slot, &app.child.ask("evaluate", "values"));
    }
    assert!(relay.stop().success());
}

struct App {
    slot: (&'static str, &'static str),
    child: Child,
}

fn start(
    program: &Path,
    namespace: &Namespace,
    slot: (&'static str, &'static str),
    seed: &Value,
) -> App {
    let options = json!({
        "region": REGION, "guid": GUID, "key": KEY, "seed": seed,
        "collection": slot.0, "environment": slot.1,
    });
    let words = [program.into(), options.to_string().into()];
    let trust: OsString = certificates().join("bundle.crt").into();
    let child = Child::start(&namespace.enter(), words, &[("SSL_CERT_FILE", trust)]);
    App { slot, child }
}

/// A seed, and what another SDK of IBM's makes of it.
struct Oracle<'a> {
    seed: Value,
    expected: &'a Expected,
}

impl Oracle<'_> {
    fn of(expected: &Expected) -> Oracle<'_> {
        let mut seed: Value = serde_json::from_str(&expected.seed).expect("the seed is JSON");
        for environment in seed["environments"].as_array_mut().expect("a list") {
            let properties = environment["properties"].as_array_mut().expect("a list");
            properties.retain(|property| property["type"] != "SECRETREF");
        }
        Oracle { seed, expected }
    }

    /// Compares everything that an application of `slot` got with what it should have got.
    fn check(&self, slot: (&str, &str), said: &Value) {
        let index = SLOTS.iter().position(|other| *other == slot);
        let expected = &self.expected.values[index.expect("one of the slots")];
        for (list, id) in [("features", "feature_id"), ("properties", "property_id")] {
            let said = said["values"][list].as_object().expect("items");
            let names: BTreeSet<String> = said.keys().cloned().collect();
            assert_eq!(
                names,
                ids(&self.seed.to_string(), slot, list, id),
                "{slot:?}"
            );
            for (name, values) in said {
                let item = self.item(slot, list, id, name);
                let wanted = &expected[list][name];
                let values = values.as_object().expect("values by entity");
                let place = format!("{slot:?} {name}: {values:?} for {wanted}");
                if item["format"] == "YAML" {
                    assert!(is_the_same_text(item, values, wanted), "{place}");
                    continue;
                }
                for (entity, value) in values {
                    let good = is_as_good(item, value, &wanted[entity]);
                    assert!(good, "{entity}: {value}: {place}");
                }
            }
        }
    }

    fn item(&self, slot: (&str, &str), list: &str, id: &str, name: &str) -> &Value {
        let environments = self.seed["environments"].as_array().expect("a list");
        let mut found = environments.iter();
        let found = found.find(|entry| entry["environment_id"] == slot.1);
        let items = found.expect("the environment")[list].as_array();
        let mut items = items.expect("a list").iter();
        items.find(|item| item[id] == name).expect("the item")
    }
}

/// Whether `value` is what this SDK can make of an item for which the other one says `wanted`.
fn is_as_good(item: &Value, value: &Value, wanted: &Value) -> bool {
    if let Some(raised) = value["raised"].as_str() {
        // It has no type for JSON values, and four operators less.
        return match item["format"] == "JSON" {
            true => raised == "MismatchType",
            false => raised.contains("OperatorNotImplemented"),
        };
    }
    // It takes a rollout by phases, and a guarded one, for one by percentage.
    let by_percentage = item["rollout_type"].is_string();
    value == wanted || by_percentage && value.is_boolean()
}

/// This SDK hands YAML on as text, the other one reads it: where one says the same of two entities,
/// so must the other, and every text is one of the seed's.
fn is_the_same_text(item: &Value, values: &Map<String, Value>, wanted: &Value) -> bool {
    let pair = |(entity, value): (&String, &Value)| (value.to_string(), wanted[entity].to_string());
    let pairs: BTreeSet<(String, String)> = values.iter().map(pair).collect();
    let texts: BTreeSet<&String> = pairs.iter().map(|(text, _)| text).collect();
    let read: BTreeSet<&String> = pairs.iter().map(|(_, read)| read).collect();
    let item = item.to_string();
    let in_seed = texts.iter().all(|text| item.contains(text.as_str()));
    texts.len() == pairs.len() && read.len() == pairs.len() && in_seed
}
