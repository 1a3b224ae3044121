//! What an application goes through in one life: start, evaluation, usage, a change, a restart.

use crate::app::{App, Route, SLOTS, START_MAX, entities};
use crate::demo::{Expected, demo, ids};
use crate::harness::PATIENCE;
use crate::harness::relay::Relay;
use crate::harness::site::Site;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A replaced seed must reach applications within this.
const CHANGE_MAX: Duration = Duration::from_secs(5);

/// The SDK waits 15 s before it reconnects.
const RECONNECT_MAX: Duration = Duration::from_secs(45);

/// Lets an application of every slot live through everything, by `route`. `site` names the address
/// of `relay`, so that a relay started from it again is found again.
pub fn live_through_everything(python: &Path, site: &Site, relay: Relay, route: &Route) {
    let demo = demo(python);
    let seed = entities(site, &demo.first.seed);
    let mut apps = SLOTS.map(|slot| App::start(python, slot, route, &seed));
    for app in &apps {
        check_loaded(app, &demo.first.seed);
        app.wait_until_connected();
    }
    check_values(&mut apps, &demo.first);
    check_reports(&mut apps);

    let marks = apps.each_ref().map(App::mark);
    let replaced = SystemTime::now();
    site.replace_seed(&demo.changed.seed);
    for ((app, mark), values) in apps.iter_mut().zip(marks).zip(&demo.changed.values) {
        let told = app.wait_until(mark, values, PATIENCE);
        let took = told.duration_since(replaced).unwrap_or_default();
        assert!(took <= CHANGE_MAX, "{:?}: only after {took:?}", app.slot);
    }

    let tokens = apps
        .each_mut()
        .map(|app| app.ask("token", "token")["token"].clone());
    let marks = apps.each_ref().map(App::mark);
    assert!(relay.stop().success());
    site.replace_seed(&demo.first.seed);
    let relay = Relay::start_through(site, &route.through);
    for ((app, mark), values) in apps.iter_mut().zip(marks).zip(&demo.first.values) {
        // Fetched again: that is what the SDK does after an upgrade that succeeded, and only then.
        app.wait_until(mark, values, RECONNECT_MAX);
    }
    for (app, token) in apps.iter_mut().zip(tokens) {
        let now = app.ask("token", "token");
        assert!(token.is_string());
        assert_eq!(
            now["token"], token,
            "{:?}: the old token was good for the new relay",
            app.slot
        );
        assert_eq!(now["connected"], true, "{:?}: 101, not 401", app.slot);
    }
    assert!(relay.stop().success());
}

fn check_loaded(app: &App, seed: &str) {
    let loaded = app.wait(0, "loaded", START_MAX);
    let said = |list: &str| -> BTreeSet<String> {
        let names = loaded[list].as_array().expect("a list").iter();
        names.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let failure = || format!("{:?}; the SDK logged\n{}", app.slot, app.log.all());
    let features = ids(seed, app.slot, "features", "feature_id");
    let properties = ids(seed, app.slot, "properties", "property_id");
    assert!(
        !features.is_empty() && !properties.is_empty(),
        "{:?} is empty",
        app.slot
    );
    assert_eq!(said("features"), features, "{}", failure());
    assert_eq!(said("properties"), properties, "{}", failure());
}

fn check_values(apps: &mut [App], expected: &Expected) {
    for (app, values) in apps.iter_mut().zip(&expected.values) {
        assert_eq!(&app.evaluate(), values, "{:?}", app.slot);
    }
}

/// Usage and analytics are accepted: the SDK calls only 202 a success for usage.
fn check_reports(apps: &mut [App]) {
    for app in apps.iter_mut() {
        app.log.wait_for("Successfully posted metering data");
        app.ask("flush", "flushed");
        let log = app.log.all();
        let failed = [
            "Failed to send the metering data",
            "Error while posting analytics",
        ];
        let failure = failed.into_iter().find(|text| log.contains(text));
        assert_eq!(failure, None, "{:?}: {log}", app.slot);
    }
    let analytics = |app: &App| app.log.all().contains("Successfully posted analytics data");
    assert!(
        apps.iter().any(analytics),
        "no guarded rollout was reported"
    );
}
