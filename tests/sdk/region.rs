//! The real SDK in applications of three sites that share their writes: a flag is switched at one
//! of them before, during and after a planned switch of the primary, and that is all they notice.

use crate::app::{App, Route, SLOTS, entities};
use crate::demo::demo;
use crate::harness::PATIENCE;
use crate::nodes::{Node, REGIONS, Records, done, from_now};
use crate::operator::{FLAG, site, with_flag_off};
use crate::python;
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

fn toggle(node: &Node, state: &str) {
    let words = ["toggle", FLAG, state, "--slot", "payments/prod", "--yes"];
    done(&node.command(&words));
}

/// Switches the flag at a node; all applications see it.
fn toggle_seen(node: &Node, apps: &mut [App; 3], state: &str, expected: &Value) {
    let marks = apps.each_ref().map(App::mark);
    toggle(node, state);
    for (app, mark) in apps.iter_mut().zip(marks) {
        app.wait_until(mark, expected, PATIENCE);
    }
}

/// Three sites, of which `au` is primary.
fn sites(seed: &str) -> ([Node; 3], Records) {
    let nodes = REGIONS.map(|region| Node::of(region, site(&format!("region-{region}"), seed)));
    let records = Records::new(&nodes, "au");
    for node in &nodes {
        records.import(node);
    }
    nodes[0].wait("the first primary", |slot| slot["phase"] == "active");
    (nodes, records)
}

/// An application at each site.
fn start(python: &Path, nodes: &[Node; 3], seed: &str) -> [App; 3] {
    let entities = entities(&nodes[0].site, seed);
    nodes.each_ref().map(|node| {
        let route = Route::by_service_url(&node.relay);
        App::start(python, SLOTS[3], &route, &entities)
    })
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

    // Never at the primary: that is `au` before the switch, and `eu` behind it.
    toggle_seen(&nodes[2], &mut apps, "off", &off);
    let mut changes = 1;
    records.switch("eu", from_now(Duration::from_secs(4)));
    records.import(&nodes[0]);
    let mut is_over = false;
    for (state, expected) in [("on", on), ("off", &off)].into_iter().cycle() {
        toggle_seen(&nodes[2], &mut apps, state, expected);
        changes += 1;
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
        assert_eq!(connections(app), 1, "one connection all the time");
    }
    a_lost_primary_is_nothing_to_the_others(nodes, records, apps, [on, &off]);
}

/// The primary is killed before its term is over. Applications at the other two sites keep their
/// values and their connections, and see the next change as soon as somebody is primary again.
fn a_lost_primary_is_nothing_to_the_others(
    nodes: [Node; 3],
    mut records: Records,
    apps: [App; 3],
    values: [&Value; 2],
) {
    records.switch("us", from_now(Duration::from_secs(5)));
    records.import(&nodes[0]);
    for node in &nodes {
        node.wait_line("payments/prod", "the plan", |line| {
            line["next"]["to"] == "us"
        });
    }
    let [au, eu, us] = nodes;
    let [mut at_au, _at_eu, mut at_us] = apps;
    drop(eu.relay);
    let marks = [at_au.mark(), at_us.mark()];
    let held = at_au.evaluate();
    assert_eq!(at_us.evaluate(), held);
    let [on, off] = values;
    let (state, expected) = if held == *on {
        ("off", off)
    } else {
        ("on", on)
    };
    // Refused until the term of the lost one is over, and the grace behind it.
    let words = ["toggle", FLAG, state, "--slot", "payments/prod", "--yes"];
    let started = Instant::now();
    while !au.command(&words).status.success() {
        assert!(started.elapsed() < PATIENCE, "{}", au.relay.log.all());
    }
    println!("a write is taken {:?} after the loss", started.elapsed());
    for (app, mark) in [&mut at_au, &mut at_us].into_iter().zip(marks) {
        app.wait_until(mark, expected, PATIENCE);
        assert_eq!(app.count(mark, "update"), 1, "one change");
        assert_eq!(connections(app), 1, "one connection all the time");
    }
    let taken = us.wait_line("payments/prod", "an alarm", |line| {
        line["phase"] == "active"
    });
    assert_eq!(taken["unsealed_takeover"], true, "{taken}");
    for node in [au, us] {
        assert!(node.relay.stop().success());
    }
}

/// How often an application has opened its WebSocket.
fn connections(app: &App) -> usize {
    let opened = "Received opened connection from websocket";
    app.log.all().matches(opened).count()
}
