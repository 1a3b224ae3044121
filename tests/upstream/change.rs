//! No change is lost between two requests, nor by one that failed.
//!
//! The safety net comes every ten minutes here as everywhere: it has no part in this.

use crate::harness::PATIENCE;
use crate::harness::relay::Relay;
use crate::place::{document, double, mark, short, site, until_marked, until_open};
use crate::shortened;
use serde_json::json;
use std::time::Instant;

const SLOT: &str = "shop/prod";

#[test]
fn a_document_that_changes_between_get_and_101_is_seen() {
    let upstream = double("primary", "before");
    let swap = json!({ "slot": SLOT, "document": document("after") });
    upstream
        .behave(&json!({ "upgrade": { "slot": SLOT, "swap_document": swap } }))
        .expect("known behaviours");
    // A normal start has its documents before it opens a socket.
    let site = site("between", "normal", &upstream, None);
    let relay = Relay::start(&site);
    until_open(&upstream, &relay, 4);
    let opened = Instant::now();
    until_marked(&relay, SLOT, "after");
    println!("seen {:?} after the 101", opened.elapsed());
    assert_eq!(mark(&relay, "shop/dev"), "before");
    let asked = upstream.log();
    let asked = asked
        .iter()
        .filter(|asked| asked.target.contains("=shop") && asked.target.contains("=prod"))
        .map(|asked| asked.target.contains("/config"));
    assert_eq!(asked.collect::<Vec<bool>>(), [true, false, true]);
    assert_eq!(upstream.counts().slot(SLOT).notified, 0);
}

#[test]
fn a_refetch_that_fails_three_times_ends_on_the_new_document() {
    let upstream = double("primary", "before");
    let test = "change::a_refetch_that_fails_three_times_ends_on_the_new_document";
    let site = || site("refetch", "normal", &upstream, None);
    let Some((_site, relay)) = shortened::start(test, short(), site) else {
        return;
    };
    let begun = upstream.wait_until(PATIENCE, |counts| {
        counts.slots.values().all(|slot| slot.fetches == 2)
    });
    assert!(begun.is_some(), "{:?}", upstream.counts());
    upstream.set_document(SLOT, document("after"));
    upstream
        .behave(&json!({ "config": [
            { "status": 503, "times": 1 }, { "drop": true, "times": 1 },
            { "truncate": true, "times": 1 },
        ] }))
        .expect("known behaviours");
    upstream.notify(SLOT, None);
    until_marked(&relay, SLOT, "after");
    let counts = upstream.counts();
    let slot = counts.slot(SLOT);
    assert_eq!((slot.fetch_requests, slot.sockets_ever), (2 + 3 + 1, 1));
    let fetched: Vec<u64> = counts
        .slots
        .values()
        .map(|slot| slot.fetch_requests)
        .collect();
    assert_eq!(fetched, [2, 6, 2, 2], "nobody else was asked for it");
}
