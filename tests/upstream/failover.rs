//! The primary fails in every way, under a crowd of clients: they see changes of content, and
//! nothing else.
//!
//! The back-off of these relays is longer than the tests' patience: a backup that is there in time
//! was dialled at once.

use crate::crowd::{Crowd, raise_descriptors};
use crate::double::Double;
use crate::harness::relay::Relay;
use crate::place::{SLOTS, double, notify, set, short, site, until_open, until_told};
use crate::shortened;
use serde_json::{Value, json};
use staffetta::limits::Limits;
use std::time::{Duration, Instant};

/// On top of the deadlines that are tested: a machine that is busy with other things.
const SLACK: Duration = Duration::from_secs(6);

/// What becomes of the primary, and whether its present connections end with it.
struct Failure {
    name: &'static str,
    orders: Value,
    cuts: bool,
}

fn failure(name: &'static str, cuts: bool, orders: Value) -> Failure {
    Failure { name, orders, cuts }
}

fn failures() -> [Failure; 7] {
    let silence = json!({ "silence": true });
    let garbage = json!({ "garbage": true });
    let denied = json!({ "status": 401 });
    [
        failure("killed", true, json!({ "tcp": { "refuse": true } })),
        failure(
            "silent",
            false,
            json!({ "socket": { "silent": true }, "config": silence, "upgrade": silence }),
        ),
        failure("TCP only", true, json!({ "tcp": { "accept_only": true } })),
        failure("503", true, json!({ "upgrade": { "status": 503 } })),
        failure("garbage", true, json!({ "config": garbage })),
        failure("garbage for a 101", true, json!({ "upgrade": garbage })),
        failure("401", true, json!({ "upgrade": denied, "config": denied })),
    ]
}

/// Lets the primary fail once and come back; `number` counts from 1 and is the number of changes
/// that clients have seen at the end.
fn live_through(
    failure: &Failure,
    number: usize,
    (primary, backup): (&Double, &Double),
    relay: &Relay,
    crowd: &mut Crowd,
) {
    let name = failure.name;
    let failed = Instant::now();
    primary.behave(&failure.orders).expect("known behaviours");
    if failure.cuts {
        primary.kill_connections();
    }
    until_open(backup, relay, SLOTS.len() as u64);
    println!(
        "{name}: all slots on the backup after {:?}",
        failed.elapsed()
    );
    let told = |status: &Value| status["problems"].to_string();
    let status = until_told(relay, "a word on the backup", |status| {
        told(status).contains("the backup has been followed for")
    });
    assert_eq!(status["ready"], true, "{name}");
    println!("{name}: {}", told(&status));
    let mark = format!("change {number}");
    set(primary, &mark);
    set(backup, &mark);
    notify(backup);
    crowd.until_told(number);

    let mended = Instant::now();
    let well = json!({
        "tcp": null, "socket": null, "config": null, "upgrade": null,
    });
    primary.behave(&well).expect("known behaviours");
    until_open(primary, relay, SLOTS.len() as u64);
    until_open(backup, relay, 0);
    let took = mended.elapsed();
    until_told(relay, "all well", |status| told(status) == "[]");
    println!("{name}: all slots back after {took:?}");
    let limits = short();
    let bound = limits.retry_primary_default + limits.stagger_max;
    assert!(took <= bound + SLACK, "{name}: back only after {took:?}");
    crowd.check(number);
}

#[test]
fn a_crowd_sees_no_outage_of_the_primary() {
    raise_descriptors();
    let (primary, backup) = (double("primary", "first"), double("backup", "first"));
    let test = "failover::a_crowd_sees_no_outage_of_the_primary";
    let site = || site("failover", "normal", &primary, Some(&backup));
    let Some((_site, relay)) = shortened::start(test, short(), site) else {
        return;
    };
    until_open(&primary, &relay, SLOTS.len() as u64);
    let mut crowd = Crowd::connect(&relay, 350, 150, &SLOTS);
    for (number, failure) in (1..).zip(&failures()) {
        live_through(failure, number, (&primary, &backup), &relay, &mut crowd);
    }
    // Whatever was told in between, and was no change, would be in front of this one.
    let changes = failures().len() + 1;
    set(&primary, "last");
    notify(&primary);
    crowd.until_told(changes);
    assert!(relay.stop().success());
}

/// Without a token from it, too: nothing was ever had from this primary.
#[test]
fn a_primary_that_was_never_there_is_gone_to_when_it_comes() {
    let (primary, backup) = (double("primary", "same"), double("backup", "same"));
    let test = "failover::a_primary_that_was_never_there_is_gone_to_when_it_comes";
    let limits = Limits {
        token_unreached_retry: Duration::from_millis(300),
        ..short()
    };
    let site = || {
        let refuse = json!({ "tcp": { "refuse": true } });
        primary.behave(&refuse).expect("known behaviours");
        site("late", "normal", &primary, Some(&backup))
    };
    let Some((_site, relay)) = shortened::start(test, limits, site) else {
        return;
    };
    until_open(&backup, &relay, SLOTS.len() as u64);
    primary
        .behave(&json!({ "tcp": null }))
        .expect("known behaviours");
    until_open(&primary, &relay, SLOTS.len() as u64);
    until_open(&backup, &relay, 0);
    assert!(relay.stop().success());
}

#[test]
fn a_return_comes_within_twenty_seconds() {
    let limits = Limits::PRODUCTION;
    let longest = limits.retry_primary_default + limits.stagger_max;
    assert_eq!(limits.probe_interval, limits.retry_primary_default);
    assert!(longest <= Duration::from_secs(20), "{longest:?}");
}
