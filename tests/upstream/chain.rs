//! Relays behind relays, in a row and in a ring.

use crate::crowd::Crowd;
use crate::harness::PATIENCE;
use crate::harness::relay::Relay;
use crate::harness::site::Site;
use crate::place::{
    SLOTS, double, get, mark, notify, set, short, site, site_by_url, until_marked, until_open,
};
use crate::port::Port;
use crate::shortened;
use serde_json::json;
use staffetta::limits::Limits;
use std::time::Duration;

#[test]
fn a_change_goes_through_two_relays() {
    let upstream = double("primary", "first");
    let near_site = site("near", "normal", &upstream, None);
    let near = Relay::start(&near_site);
    let url = format!("http://{}", near.address);
    let far_site = site_by_url("far", "normal", &url, None);
    let far = Relay::start(&far_site);
    until_open(&upstream, &near, 4);
    let mut crowd = Crowd::connect(&far, 40, 20, &SLOTS);
    for (number, text) in (1..).zip(["second", "third"]) {
        set(&upstream, text);
        notify(&upstream);
        crowd.until_told(number);
        assert_eq!(mark(&far, "store/dev"), text);
    }
    let path = |relay: &Relay| {
        let answer = get(relay, "store/dev");
        let path = answer.head.header("x-config-path").map(str::to_owned);
        path.expect("every relay names itself")
    };
    let (near_path, far_path) = (path(&near), path(&far));
    assert_eq!(near_path.split(',').count(), 1, "{near_path}");
    assert!(far_path.ends_with(&format!(",{near_path}")), "{far_path}");
    assert!(far.stop().success());
    assert!(near.stop().success());
}

#[test]
fn a_ring_of_three_is_refused_and_goes_on_serving() {
    let limits = Limits {
        // How often each asks the next, and how soon again when that is not there yet.
        refresh_interval: Duration::from_millis(500),
        backoff_first: Duration::from_millis(200),
        backoff_cap: Duration::from_millis(500),
        ..short()
    };
    if shortened::serves(limits) {
        return;
    }
    // Known before anybody listens there.
    let ports = [(); 3].map(|()| Port::reserve());
    let addresses = ports.each_ref().map(|port| port.address);
    let site = |number: usize| -> Site {
        let next = addresses[(number + 1) % addresses.len()];
        let url = format!("http://{next}");
        let mut site = site_by_url(&format!("ring-{number}"), "fast", &url, None);
        site.config["listen"] = json!([addresses[number].to_string()]);
        site
    };
    let sites = [0, 1, 2].map(site);
    let test = "chain::a_ring_of_three_is_refused_and_goes_on_serving";
    let ring = sites
        .each_ref()
        .map(|site| shortened::start_through(test, site, Vec::new()));
    let refused = |line: &str| line.contains("ring").then(|| line.to_owned());
    for relay in &ring {
        let line = relay.log.find_within(PATIENCE, 0, refused);
        let line = line.unwrap_or_else(|| panic!("no word of a ring:\n{}", relay.log.all()));
        println!("{line}");
        until_marked(relay, "shop/prod", "seed");
    }
    for relay in ring {
        assert!(relay.stop().success());
    }
}
