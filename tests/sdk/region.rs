//! The real SDK in applications of three sites that share their writes: a flag is switched at one
//! of them before, during and after a planned switch of the primary, and that is all they notice.

use crate::app::{App, Route, SLOTS};
use crate::demo::demo;
use crate::harness::PATIENCE;
use crate::harness::site::Site;
use crate::nodes::{Node, REGIONS, Records, done, from_now};
use crate::{proxy, python};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, SystemTime};

const FLAG: &str = "fast-checkout";

/// A site of the demo whose slot `payments/prod` is the operator's.
fn site(region: &str, seed: &str) -> Site {
    let mut site = Site::new(&format!("region-{region}"), seed);
    let state = site.scratch.path("state");
    std::fs::create_dir(&state).expect("the scratch directory is writable");
    site.config["state_dir"] = json!(state);
    for slot in site.config["slots"].as_array_mut().expect("slots") {
        if slot["collection"] == "payments" && slot["environment"] == "prod" {
            slot["source"] = json!("operator");
        }
    }
    site
}

fn toggle(node: &Node, state: &str) {
    let words = ["toggle", FLAG, state, "--slot", "payments/prod", "--yes"];
    done(&node.command(&words));
}

/// Three sites, of which `au` is primary.
fn sites(seed: &str) -> ([Node; 3], Records) {
    let nodes = REGIONS.map(|region| Node::of(region, site(region, seed)));
    let records = Records::new(&nodes, "au");
    for node in &nodes {
        records.import(node);
    }
    nodes[0].wait("the first primary", |slot| slot["phase"] == "active");
    (nodes, records)
}

/// An application at each site.
fn start(python: &Path, nodes: &[Node; 3], seed: &str) -> [App; 3] {
    let entities = nodes[0].site.scratch.path("entities.json");
    std::fs::write(&entities, seed).expect("the scratch directory is writable");
    nodes.each_ref().map(|node| {
        let route = Route {
            service: Some(format!("http://{}", node.relay.address)),
            environment: proxy(&node.relay),
            ..Route::default()
        };
        App::start(python, SLOTS[3], &route, &entities)
    })
}

/// What applications see while the flag is off.
fn with_flag_off(values: &Value) -> Value {
    let mut off = values.clone();
    let flag = off["features"][FLAG].as_object_mut();
    let flag = flag.expect("values by entity").values_mut();
    flag.for_each(|value| *value = Value::Bool(false));
    off
}

#[test]
fn applications_of_three_sites_notice_nothing_of_a_switch_but_changes() {
    let Some(python) = python::interpreter() else {
        return;
    };
    let demo = demo(python);
    let (nodes, mut records) = sites(&demo.first.seed);
    let mut apps = start(python, &nodes, &demo.first.seed);
    let on = &demo.first.values[3];
    let off = with_flag_off(on);
    for app in &mut apps {
        app.wait_until_running();
        assert_eq!(&app.evaluate(), on);
    }
    let start = apps.each_ref().map(App::mark);

    let at = from_now(Duration::from_secs(4));
    records.switch("eu", at);
    records.import(&nodes[0]);
    let mut changes = 0;
    let mut is_over = false;
    for (state, expected) in [("off", &off), ("on", on)].into_iter().cycle() {
        let marks = apps.each_ref().map(App::mark);
        // Never the primary: that is `au` before the switch, and `eu` behind it.
        toggle(&nodes[2], state);
        for (app, mark) in apps.iter_mut().zip(marks) {
            app.wait_until(mark, expected, PATIENCE);
        }
        changes += 1;
        assert!(
            changes > 1 || SystemTime::now() < at,
            "too slow for this plan"
        );
        // One more, once the new primary has written something.
        if is_over {
            break;
        }
        let head = nodes[1].slot()["head"].clone();
        is_over = head.as_str().is_some_and(|head| head.starts_with("2-"));
    }
    println!("{changes} changes over a switch");
    for (app, start) in apps.iter().zip(start) {
        // The SDK fetches once when its socket opens, and says so.
        let updates = app.count(start, "update");
        assert!(
            (changes..=changes + 1).contains(&updates),
            "{updates} of {changes}"
        );
        let opened = "Received opened connection from websocket";
        let opened = app.log.all().matches(opened).count();
        assert_eq!(opened, 1, "one connection all the time");
    }
    for node in nodes {
        assert!(node.relay.stop().success());
    }
}
