//! A flag that is switched on the box, and the real SDK in an application that follows it.

use crate::app::{App, Route, SLOTS, entities};
use crate::demo::demo;
use crate::harness::PATIENCE;
use crate::harness::relay::Relay;
use crate::harness::site::{PROGRAM, Site};
use crate::python;
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// What is switched.
pub const FLAG: &str = "fast-checkout";
/// From the end of the command to the new value in the application.
const TOGGLE_MAX: Duration = Duration::from_secs(2);

/// A site of the demo whose slot `payments/prod` is the operator's.
pub fn site(name: &str, seed: &str) -> Site {
    let mut site = Site::new(name, seed);
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

/// What applications see while the flag is off, by what they see while it is on.
pub fn with_flag_off(values: &Value) -> Value {
    let mut off = values.clone();
    let flag = off["features"][FLAG].as_object_mut();
    let flag = flag.expect("values by entity");
    let is_on_for_some = flag.values().any(|value| *value == true);
    assert!(is_on_for_some, "{values}");
    flag.values_mut()
        .for_each(|value| *value = Value::Bool(false));
    off
}

/// Switches the flag, and gives when the relay had it: what the command takes is its own affair.
fn toggle(site: &Site, state: &str) -> SystemTime {
    let socket = format!("unix:{}", site.scratch.path("admin.sock").display());
    let toggle = Command::new(PROGRAM)
        .args(["toggle", FLAG, state, "--slot", "payments/prod", "--yes"])
        .args(["--admin", &socket])
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&toggle.stderr);
    assert!(toggle.status.success(), "{said}");
    SystemTime::now()
}

#[test]
fn an_application_sees_a_flag_that_is_switched_on_the_box() {
    let Some(python) = python::interpreter() else {
        return;
    };
    let demo = demo(python);
    let site = site("operator", &demo.first.seed);
    let relay = Relay::start(&site);
    let route = Route::by_service_url(&relay);
    let seed = entities(&site, &demo.first.seed);
    let mut app = App::start(python, SLOTS[3], &route, &seed);
    app.wait_until_running();
    let first = &demo.first.values[3];
    assert_eq!(&app.evaluate(), first);
    let switched = with_flag_off(first);
    for (state, expected) in [("off", &switched), ("on", first), ("off", &switched)] {
        let mark = app.mark();
        let switched_at = toggle(&site, state);
        let told = app.wait_until(mark, expected, PATIENCE);
        let took = told.duration_since(switched_at).unwrap_or_default();
        assert!(took <= TOGGLE_MAX, "{state}: only after {took:?}");
    }
    // The seed is the site's, and this slot no longer is.
    site.replace_seed(&demo.changed.seed);
    let (status, verdict) = relay.reload();
    assert_eq!(status, 200, "{verdict}");
    assert!(verdict.contains("1 superseded"), "{verdict}");
    assert_eq!(app.evaluate(), switched);
    assert!(relay.stop().success());
}
