//! The real JavaScript SDK, unmodified, against the relay: in Node and on a page in Chromium.
//!
//! It needs no token and no WebSocket: its key goes into every request, and one event stream brings
//! the document and every change of it. What its answers are compared with is what the same SDK
//! makes of the same seed when no relay has touched it.

mod application;
mod chromium;
mod expected;
mod installed;
mod page;
mod same_origin;

use crate::app::SLOTS;
use crate::harness::PATIENCE;
use crate::harness::relay::Relay;
use crate::harness::site::{Site, certificates};
use crate::port::Port;
use crate::python::skip;
use application::Application;
use expected::Seeds;
use serde_json::Value;
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

/// A replaced seed must reach applications within this.
const CHANGE_MAX: Duration = Duration::from_secs(5);

/// The relay tells the SDK to wait 2 to 4 s before it connects again; the SDK doubles that whenever
/// it finds nobody.
const RECONNECT_MAX: Duration = Duration::from_secs(40);

/// The collection whose flags have an experiment in the demo.
const EXPERIMENTS_IN: &str = "payments";

/// What an application goes through in one life: start, evaluation, a change, a restart of the
/// relay that hides a change. Gives the restarted relay. `site` names the address of `relay`, so
/// that a relay started from it again is found again.
fn live_through_everything(
    site: &Site,
    relay: Relay,
    apps: &[Application],
    seeds: &Seeds,
) -> Relay {
    for app in apps {
        app.wait_for_values(0, "registration", &seeds.first, PATIENCE);
        app.wait(0, "ready");
    }
    let marks: Vec<usize> = apps.iter().map(Application::mark).collect();
    let before = Instant::now();
    site.replace_seed(&seeds.changed.seed);
    for (app, &mark) in apps.iter().zip(&marks) {
        app.wait_for_values(mark, "update", &seeds.changed, PATIENCE);
    }
    let took = before.elapsed();
    assert!(took <= CHANGE_MAX, "told of the change only after {took:?}");

    let marks: Vec<usize> = apps.iter().map(Application::mark).collect();
    assert!(relay.stop().success());
    site.replace_seed(&seeds.first.seed);
    let relay = Relay::start(site);
    for (app, &mark) in apps.iter().zip(&marks) {
        app.wait_for_values(mark, "registration", &seeds.first, RECONNECT_MAX);
        app.wait_until_reported(0, "usage");
    }
    relay
}

fn in_node(scheme: &str) {
    let installed = match installed::installed() {
        Ok(installed) => installed,
        Err(why) => return skip(why),
    };
    let seeds = Seeds::of(installed);
    let mut site = Site::new(&format!("node-{scheme}"), &seeds.first.seed);
    let _port = Port::of(&mut site);
    let relay = Relay::start(&site);
    let service = format!("{scheme}://{}", relay.address);
    let bundle: OsString = certificates().join("bundle.crt").into();
    let trust = [("NODE_EXTRA_CA_CERTS", bundle)];
    let apps = SLOTS.map(|slot| {
        Application::in_node(installed, &site, slot, &service, &trust, &seeds.first.seed)
    });
    let relay = live_through_everything(&site, relay, &apps, seeds);
    for app in apps.iter().filter(|app| app.slot.0 == EXPERIMENTS_IN) {
        app.wait_until_reported(0, "analytics");
    }
    apps.iter().for_each(Application::check_nothing_failed);
    assert!(relay.stop().success());
}

#[test]
fn an_application_in_node_is_served() {
    in_node("http");
}

#[test]
fn an_application_in_node_is_served_over_tls() {
    in_node("https");
}

/// Both, or none when the test is to be skipped.
fn sdk_and_browser() -> Option<(&'static Path, &'static Path)> {
    match (installed::installed(), chromium::found()) {
        (Ok(installed), Ok(browser)) => Some((installed, browser)),
        (Err(why), _) | (_, Err(why)) => {
            skip(why);
            None
        }
    }
}

/// A page of another origin: every request of the SDK is one that the browser asks leave for.
#[test]
fn an_application_on_a_page_of_another_origin_is_served() {
    let Some((installed, browser)) = sdk_and_browser() else {
        return;
    };
    let seeds = Seeds::of(installed);
    let mut site = Site::new("page", &seeds.first.seed);
    let _port = Port::of(&mut site);
    let relay = Relay::start(&site);
    let service = format!("http://{}", relay.address);
    let seed = &seeds.first.seed;
    let page = application::page(installed, SLOTS[3], Some(&service), seed);
    let address = page.address();
    let mut apps = [Application::on_page(
        browser, &site, SLOTS[3], page, &address,
    )];
    apps[0].wait(0, "refused");
    let relay = live_through_everything(&site, relay, &apps, seeds);
    apps[0].check_nothing_failed();
    let before = usage_reports(&relay);
    apps[0].leave();
    let deadline = Instant::now() + PATIENCE;
    while usage_reports(&relay) == before {
        assert!(
            Instant::now() < deadline,
            "no usage from the page that was left"
        );
    }
    apps.into_iter().for_each(Application::end);
    assert!(relay.stop().success());
}

fn status(relay: &Relay) -> Value {
    let (status, body) = relay.ask("GET /status");
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).expect("the status is JSON")
}

fn usage_reports(relay: &Relay) -> u64 {
    let reports = &status(relay)["events"]["usage"]["reports"];
    reports.as_u64().expect("a number")
}
