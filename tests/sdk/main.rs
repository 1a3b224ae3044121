//! The real SDK, unmodified, against the relay, in the ways in which an operator would point it.
//!
//! Needs `python3` with `venv` and a package index for the first run; then everything lies under
//! cargo's target directory. The SDK waits 15 s before it reconnects, and so do these tests, side
//! by side.

#[allow(dead_code, reason = "the double is held to its word in its own test")]
#[path = "../double/mod.rs"]
mod double;
#[path = "../harness/mod.rs"]
mod harness;

#[allow(dead_code, reason = "shared with tests that need the rest")]
#[path = "../region/admin.rs"]
mod admin;
#[allow(dead_code, reason = "shared with tests that need the rest")]
#[path = "../region/nodes.rs"]
mod nodes;
#[path = "../region/port.rs"]
mod port;
#[allow(dead_code, reason = "shared with tests that need the rest")]
#[path = "../state/site.rs"]
mod site;

mod app;
mod child;
mod debian;
mod demo;
mod front;
mod js;
mod namespace;
mod operator;
mod python;
mod region;
mod rust;
mod scenario;
mod upstream;

use app::{App, Route, SLOTS, entities};
use demo::demo;
use harness::PATIENCE;
use harness::relay::Relay;
use harness::site::{Site, certificates};
use namespace::Namespace;
use port::Port;
use serde_json::{Value, json};
use std::ffi::OsString;

/// The host that every SDK gets its token from as soon as it is given a service URL.
const IAM_HOST: &str = "iam.test.cloud.ibm.com";

fn trust() -> (&'static str, OsString) {
    (
        "REQUESTS_CA_BUNDLE",
        certificates().join("bundle.crt").into(),
    )
}

fn proxy(relay: &Relay) -> Vec<(&'static str, OsString)> {
    let proxy = format!("http://{}", relay.address);
    vec![
        ("HTTPS_PROXY", proxy.into()),
        ("NO_PROXY", "127.0.0.1".into()),
        trust(),
    ]
}

/// The service URL given by the application, the IAM name mapped to the relay's port 443.
fn by_service_url(scheme: &str) {
    let Some(python) = python::interpreter() else {
        return;
    };
    let mut site = Site::new(scheme, &demo(python).first.seed);
    let namespace = match Namespace::open(&site.scratch, IAM_HOST) {
        Ok(namespace) => namespace,
        Err(why) => return python::skip(&why),
    };
    // Nobody else is in there to take it, and it is none that clients are given.
    site.config["listen"] = json!(["127.0.0.1:8443", "127.0.0.1:443"]);
    let relay = Relay::start_through(&site, &namespace.enter());
    let route = Route {
        through: namespace.enter(),
        service: Some(format!("{scheme}://{}", relay.address)),
        environment: vec![trust()],
    };
    scenario::live_through_everything(python, &site, relay, &route);
}

#[test]
fn an_application_with_an_http_service_url_is_served() {
    by_service_url("http");
}

#[test]
fn an_application_with_an_https_service_url_is_served() {
    by_service_url("https");
}

#[test]
fn an_application_behind_a_proxy_setting_is_served() {
    let Some(python) = python::interpreter() else {
        return;
    };
    let mut site = Site::new("proxy", &demo(python).first.seed);
    let _port = Port::of(&mut site);
    let relay = Relay::start(&site);
    let route = Route::by_proxy(&relay);
    scenario::live_through_everything(python, &site, relay, &route);
}

/// Seeds that would break some SDK, made from the demo. Whether the relay names flag and reason is
/// tested elsewhere; here the SDK must see nothing of them.
fn bad_seeds(good: &str) -> Vec<String> {
    let bent = |bend: &dyn Fn(&mut Value)| {
        let mut seed: Value = serde_json::from_str(good).expect("the demo seed is JSON");
        bend(&mut seed);
        seed.to_string()
    };
    let every_feature = |bend: &dyn Fn(&mut Value)| {
        bent(&|seed| {
            for environment in seed["environments"].as_array_mut().expect("a list") {
                environment["features"]
                    .as_array_mut()
                    .expect("a list")
                    .iter_mut()
                    .for_each(bend);
            }
        })
    };
    vec![
        "{}".to_owned(),
        String::new(),
        good[..good.len() / 2].to_owned(),
        bent(&|seed| seed["collections"] = json!([])),
        bent(&|seed| seed["environments"] = json!([])),
        bent(&|seed| seed["segments"] = json!(null)),
        every_feature(&|feature| feature["type"] = json!("UNKNOWN")),
        every_feature(&|feature| {
            drop(
                feature
                    .as_object_mut()
                    .map(|map| map.remove("segment_rules")),
            )
        }),
        every_feature(&|feature| feature["rollout_percentage"] = json!("all")),
    ]
}

#[test]
fn an_application_sees_nothing_of_bad_seeds() {
    let Some(python) = python::interpreter() else {
        return;
    };
    let demo = demo(python);
    let site = Site::new("bad", &demo.first.seed);
    let relay = Relay::start(&site);
    let route = Route::by_service_url(&relay);
    let seed = entities(&site, &demo.first.seed);
    let mut apps = SLOTS.map(|slot| App::start(python, slot, &route, &seed));
    for app in &apps {
        app.wait_until_running();
    }
    let marks = apps.each_ref().map(App::mark);
    for bad in bad_seeds(&demo.first.seed) {
        site.replace_seed(&bad);
        let (status, verdict) = relay.reload();
        assert_eq!(status, 422, "{verdict}");
    }
    for (app, values) in apps.iter_mut().zip(&demo.first.values) {
        assert_eq!(&app.evaluate(), values, "{:?}", app.slot);
    }
    site.replace_seed(&demo.changed.seed);
    let (status, verdict) = relay.reload();
    assert_eq!(status, 200, "{verdict}");
    for ((app, mark), values) in apps.iter_mut().zip(marks).zip(&demo.changed.values) {
        app.wait_until(mark, values, PATIENCE);
        assert_eq!(app.count(mark, "update"), 1, "{:?}", app.slot);
    }
}
