//! The real SDK behind one relay and behind two, with the double of the service behind them all.

use crate::app::{App, Route, SLOTS, entities};
use crate::demo::demo;
use crate::double::{Double, Options};
use crate::harness::relay::Relay;
use crate::harness::site::Site;
use crate::harness::{GUID, KEY, PATIENCE};
use crate::python;
use serde_json::json;
use std::time::SystemTime;

/// A site whose content comes from `url` alone.
fn site(name: &str, seed: &str, url: &str) -> Site {
    let mut site = Site::new(name, seed);
    if let Some(config) = site.config.as_object_mut() {
        config.remove("seed");
    }
    site.config["upstream"] = json!({ "primary": { "url": url, "api_key": KEY } });
    site
}

fn set(double: &Double, document: &str) {
    for (collection, environment) in SLOTS {
        double.set_document(&format!("{collection}/{environment}"), document);
    }
}

#[test]
fn a_change_at_the_service_reaches_applications_behind_relays() {
    let Some(python) = python::interpreter() else {
        return;
    };
    let demo = demo(python);
    let options = Options {
        api_key: Some(KEY.to_owned()),
        guid: Some(GUID.to_owned()),
        ..Options::default()
    };
    let double = Double::start(options).expect("ports of the kernel's choice are free");
    set(&double, &demo.first.seed);
    let url = format!("http://{}", double.address);
    let near_site = site("near", &demo.first.seed, &url);
    let near = Relay::start(&near_site);
    let url = format!("http://{}", near.address);
    let far_site = site("far", &demo.first.seed, &url);
    let far = Relay::start(&far_site);

    let entities = entities(&near_site, &demo.first.seed);
    let mut apps = [("one relay", &near), ("two relays", &far)].map(|(way, relay)| {
        let route = Route::by_service_url(relay);
        (way, App::start(python, SLOTS[0], &route, &entities))
    });
    for (way, app) in &mut apps {
        app.wait_until_running();
        assert_eq!(app.evaluate(), demo.first.values[0], "behind {way}");
    }

    let marks = apps.each_ref().map(|(_, app)| app.mark());
    let changed = SystemTime::now();
    set(&double, &demo.changed.seed);
    for (collection, environment) in SLOTS {
        let told = double.notify(&format!("{collection}/{environment}"), None);
        assert_eq!(told, 1, "one socket for {collection}/{environment}");
    }
    for ((way, app), mark) in apps.iter_mut().zip(marks) {
        let told = app.wait_until(mark, &demo.changed.values[0], PATIENCE);
        let took = told.duration_since(changed).unwrap_or_default();
        println!("the listener behind {way} was called {took:?} after the change");
        assert_eq!(app.count(mark, "update"), 1, "behind {way}");
    }
    assert!(far.stop().success());
    assert!(near.stop().success());
}
