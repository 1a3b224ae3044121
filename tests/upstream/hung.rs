//! A disk that hangs while documents come: those that are too large for the loop do not wait.
//!
//! `strace` holds up the syncs of one file for longer than a test waits for anything.

use crate::harness::relay::Relay;
use crate::place::{document, double, site, until_marked, until_open};
use crate::strace::Injection;
use serde_json::json;
use staffetta::limits::Limits;
use std::fs;

const SLOT: &str = "shop/prod";

#[test]
fn a_large_document_does_not_wait_for_a_disk_that_hangs() {
    let upstream = double("primary", "before");
    let mut site = site("hung", "normal", &upstream, None);
    let folder = site.scratch.path("state");
    fs::create_dir(&folder).expect("the scratch directory is writable");
    site.config["state_dir"] = json!(folder);
    site.config["log"] = json!({ "level": "debug", "format": "plain" });
    let relay = Relay::start(&site);
    until_open(&upstream, &relay, 4);
    let kept = format!("slot {SLOT}: kept");
    relay.log.wait_for(&kept);
    let file = folder.join("live/.shop@prod.slot.staffetta-tmp");
    let hangs = "delay_enter=60000000";
    let Some(injection) = Injection::put(&relay, "fsync", &file, hangs) else {
        return;
    };
    let log_mark = relay.log.mark();
    for name in ["one", "two"] {
        let mark = format!("{name} ").repeat(Limits::PRODUCTION.packed_on_loop_bytes_max / 3);
        upstream.set_document(SLOT, document(&mark));
        upstream.notify(SLOT, None);
        until_marked(&relay, SLOT, &mark);
    }
    let log = relay.log.all();
    // Or the relay could not end before its disk is back.
    injection.take_away();
    let mut lines = log.lines().skip(log_mark);
    assert!(!lines.any(|line| line.contains(&kept)), "{log}");
}
