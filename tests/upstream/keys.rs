//! Keys of upstreams that are read again while the relay runs.

use crate::double::{Double, Options};
use crate::harness::relay::Relay;
use crate::harness::{KEY, PATIENCE};
use crate::place::{SLOTS, double, notify, options, set, site, until_marked, until_open};
use serde_json::json;
use std::time::Instant;

/// A double that takes no key but `key`.
fn keyed(node: &str, key: &str) -> Double {
    let options = Options {
        api_key: Some(key.to_owned()),
        ..options(node)
    };
    let double = Double::start(options).expect("ports of the kernel's choice are free");
    set(&double, "upstream");
    double
}

#[test]
fn the_key_of_another_upstream_does_not_go_to_the_one_that_is_followed() {
    let (followed, next) = (double("followed", "upstream"), double("next", "next"));
    let mut site = site("moved", "fast", &followed, None);
    let relay = Relay::start(&site);
    until_open(&followed, &relay, 4);
    until_marked(&relay, "shop/dev", "upstream");
    let url = format!("http://{}", next.address);
    site.config["upstream"]["primary"] = json!({ "url": url, "api_key": "secret-of-next" });
    site.write_config();
    // The second one finds nothing that differs from the first.
    for after in ["after one", "after two"] {
        let (status, verdict) = relay.reload();
        assert_eq!(status, 200, "{verdict}");
        set(&followed, after);
        notify(&followed);
        for slot in SLOTS {
            until_marked(&relay, slot, after);
        }
    }
    let (followed, next) = (followed.counts(), next.counts());
    assert_eq!((followed.token_requests, followed.sockets_open), (1, 4));
    assert_eq!(next.connections, 0);
    assert!(relay.stop().success());
}

#[test]
fn a_reload_asks_at_once_for_what_was_refused() {
    let upstream = keyed("primary", "another-key");
    let mut site = site("refused", "fast", &upstream, None);
    assert_eq!(site.config["upstream"]["primary"]["api_key"], KEY);
    let relay = Relay::start(&site);
    let refusals = |log: &str| log.matches("refuses the relay's key").count();
    let refused = upstream.wait_until(PATIENCE, |counts| counts.token_requests == 1);
    assert!(refused.is_some(), "{}", relay.log.all());
    let deadline = Instant::now() + PATIENCE;
    while refusals(&relay.log.all()) < SLOTS.len() {
        assert!(Instant::now() < deadline, "{}", relay.log.all());
        std::thread::yield_now();
    }
    site.config["upstream"]["primary"]["api_key"] = json!("another-key");
    site.write_config();
    let (status, verdict) = relay.reload();
    assert_eq!(status, 200, "{verdict}");
    // What was refused is left alone for a minute otherwise, which is longer than this waits.
    until_open(&upstream, &relay, 4);
    until_marked(&relay, "shop/dev", "upstream");
    assert!(relay.stop().success());
}
