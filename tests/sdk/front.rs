//! The real SDK before a relay that goes before two others, and one of those is killed.

use crate::app::{App, Route, SLOTS, entities};
use crate::demo::demo;
use crate::harness::relay::Relay;
use crate::harness::site::Site;
use crate::python;
use serde_json::json;
use std::time::Duration;

/// The SDK waits 15 s before it reconnects.
const RECONNECT_MAX: Duration = Duration::from_secs(45);

/// A relay without slots, whose every path goes to one of `nodes`.
pub fn front(nodes: &[(Relay, Site)], seed: &str) -> Site {
    let mut site = Site::new("front", seed);
    let destinations = nodes.iter().enumerate().map(|(number, (relay, _))| {
        let address = format!("http://{}", relay.address);
        (format!("node-{number}"), json!({ "Address": address }))
    });
    let destinations: serde_json::Map<_, _> = destinations.collect();
    let config = site.config.as_object_mut().expect("an object");
    config.remove("seed");
    config.insert("slots".into(), json!([]));
    config.insert("client_keys".into(), json!([]));
    config.insert(
        "ReverseProxy".into(),
        json!({
            "Routes": { "all": { "ClusterId": "nodes", "Match": { "Path": "/{**rest}" } } },
            "Clusters": { "nodes": {
                "LoadBalancingPolicy": "LeastRequests",
                "SessionAffinity": { "Enabled": true, "AffinityKeyName": "Relay.Affinity" },
                "Destinations": destinations,
            } },
        }),
    );
    site
}

#[test]
fn an_application_is_served_through_a_front_and_survives_a_node() {
    let Some(python) = python::interpreter() else {
        return;
    };
    let demo = demo(python);
    let mut nodes: Vec<(Relay, Site)> = Vec::new();
    for _ in 0..2 {
        let site = Site::new("node", &demo.first.seed);
        nodes.push((Relay::start(&site), site));
    }
    let site = front(&nodes, &demo.first.seed);
    let front = Relay::start(&site);
    let route = Route::by_proxy(&front);
    let seed = entities(&site, &demo.first.seed);
    let mut apps = SLOTS.map(|slot| App::start(python, slot, &route, &seed));
    for app in &apps {
        app.wait_until_running();
    }
    for (app, values) in apps.iter_mut().zip(&demo.first.values) {
        assert_eq!(&app.evaluate(), values, "{:?}", app.slot);
    }
    // One node is killed; whoever was there comes back to the other, which has news for all. Not
    // while both are there: the SDK keeps no cookie, and is told by one of what it may ask the
    // other for, who may not have it yet.
    let marks = apps.each_ref().map(App::mark);
    drop(nodes.remove(0));
    let (relay, site) = &nodes[0];
    site.replace_seed(&demo.changed.seed);
    assert_eq!(relay.reload().0, 200);
    for ((app, mark), values) in apps.iter_mut().zip(marks).zip(&demo.changed.values) {
        app.wait_until(mark, values, RECONNECT_MAX);
    }
    assert!(front.stop().success());
}
