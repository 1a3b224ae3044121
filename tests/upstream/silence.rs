//! Upstreams that fall silent without closing anything.

use crate::double::{Double, Options};
use crate::harness::PATIENCE;
use crate::harness::relay::Relay;
use crate::network::{Network, Side};
use crate::place::{double, options, set, short, site, site_by_url, until_open};
use crate::shortened;
use serde_json::{Value, json};
use staffetta::limits::Limits;
use std::io::Write;
use std::time::{Duration, Instant};

/// The address of the clients' side of the cable, where the primary is here.
const FAR_ADDRESS: &str = "192.0.2.2";

/// Lets the sockets of the primary go on as `manners` say: the backup is there after the deadline.
fn is_noticed(test: &str, name: &str, manners: &Value) {
    let limits = short();
    if shortened::serves(limits.clone()) {
        return;
    }
    let (primary, backup) = (double("primary", "same"), double("backup", "same"));
    let site = site(name, "normal", &primary, Some(&backup));
    let relay = shortened::start_through(test, &site, Vec::new());
    until_open(&primary, &relay, 4);
    assert_eq!(backup.counts().connections, 0);
    let fell = Instant::now();
    // Only what is open falls silent: new sockets would be followed again, and lost again.
    let orders = json!({ "socket": manners, "upgrade": { "status": 503 } });
    primary.behave(&orders).expect("known behaviours");
    until_open(&backup, &relay, 4);
    println!("{name}: on the backup after {:?}", fell.elapsed());
    // By no more than the answer that was on its way when it fell silent.
    let soonest = limits.silence_timeout.min(limits.heartbeat_timeout);
    assert!(fell.elapsed() + Duration::from_millis(500) > soonest);
    assert!(relay.stop().success());
}

#[test]
fn a_socket_that_says_nothing_is_given_up() {
    let test = "silence::a_socket_that_says_nothing_is_given_up";
    is_noticed(test, "silent", &json!({ "silent": true }));
}

#[test]
fn a_socket_that_answers_pings_and_never_beats_is_given_up() {
    let test = "silence::a_socket_that_answers_pings_and_never_beats_is_given_up";
    is_noticed(test, "beatless", &json!({ "heartbeat_ms": 0 }));
}

#[test]
fn a_network_that_swallows_packets_is_given_up() {
    let test = "silence::a_network_that_swallows_packets_is_given_up";
    let limits = short();
    if shortened::serves(limits.clone()) {
        return;
    }
    let network = match Network::open() {
        Ok(network) => network,
        Err(why) => return skip(&why),
    };
    let start = |node: &str, side: Side, bind: &str| -> Double {
        let bind = bind.parse().expect("an address");
        let options = Options {
            bind,
            ..options(node)
        };
        let double = network.on(side, || Double::start(options)).expect("a port");
        set(&double, "same");
        double
    };
    let primary = start("primary", Side::Clients, FAR_ADDRESS);
    let backup = start("backup", Side::Relay, "127.0.0.1");
    let (near, far) = (backup.address, primary.address);
    let urls = (format!("http://{far}"), format!("http://{near}"));
    let site = site_by_url("swallowed", "normal", &urls.0, Some(&urls.1));
    let relay = shortened::start_through(test, &site, network.enter(Side::Relay));
    until_open(&primary, &relay, 4);
    let pulled = Instant::now();
    network.pull();
    until_open(&backup, &relay, 4);
    println!("swallowed: on the backup after {:?}", pulled.elapsed());
    assert!(pulled.elapsed() + Duration::from_millis(500) > limits.silence_timeout);
    network.put_back();
    until_back(&primary, &backup, &relay);
    assert!(relay.stop().success());
}

fn until_back(primary: &Double, backup: &Double, relay: &Relay) {
    // What was lost may stay open at its far end, whom nobody told; it is not counted on.
    let opened = primary.wait_until(PATIENCE, |counts| {
        counts.slots.values().all(|slot| slot.sockets_ever >= 2)
    });
    assert!(opened.is_some(), "never back\n{}", relay.log.all());
    until_open(backup, relay, 0);
}

/// Says that a test is skipped where nobody can miss it; fails where skipping is not allowed.
fn skip(why: &str) {
    let in_ci = std::env::var("CI").as_deref() == Ok("true");
    assert!(!in_ci, "not skipped in CI: {why}");
    // Not `eprintln`: the test runner would keep it to itself while the test passes.
    let _ = writeln!(std::io::stderr(), "\n*** SKIPPED silence: {why}\n");
}

#[test]
fn the_deadlines_that_ship_are_those_of_the_page() {
    let limits = Limits::PRODUCTION;
    assert_eq!(limits.silence_timeout, Duration::from_secs(60));
    assert_eq!(limits.heartbeat_timeout, Duration::from_secs(120));
    assert!(limits.ping_after * 2 <= limits.silence_timeout);
}
