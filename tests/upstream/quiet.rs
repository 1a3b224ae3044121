//! An upstream that says the same again and again: nothing is written, and nobody is told.

use crate::crowd::Crowd;
use crate::harness::PATIENCE;
use crate::place::{SLOTS, document, double, short, site, until_marked, until_told};
use crate::reworded::{reworded, written_bytes};
use crate::shortened;
use serde_json::{Value, json};
use staffetta::limits::Limits;
use std::fs;
use std::time::Duration;

const SLOT: &str = "shop/prod";
const FETCHES: u64 = 1_000;

#[test]
fn a_thousand_fetches_of_the_same_content_write_nothing_and_tell_nobody() {
    let test = "quiet::a_thousand_fetches_of_the_same_content_write_nothing_and_tell_nobody";
    let limits = Limits {
        refetch_spacing: Duration::from_millis(1),
        ..short()
    };
    let upstream = double("primary", "same");
    let site = || {
        let mut site = site("quiet", "normal", &upstream, None);
        let folder = site.scratch.path("state");
        fs::create_dir(&folder).expect("a folder of the test's own");
        site.config["state_dir"] = json!(folder);
        site
    };
    let Some((_site, relay)) = shortened::start(test, limits, site) else {
        return;
    };
    let begun = upstream.wait_until(PATIENCE, |counts| {
        counts.slots.values().all(|slot| slot.fetches == 2)
    });
    assert!(begun.is_some(), "{:?}", upstream.counts());
    until_told(&relay, "kept", |status| {
        status["state_dir"]["waiting"] == 0 && !status["state_dir"]["saved_s"].is_null()
    });
    let mut crowd = Crowd::connect(&relay, 4, 4, &SLOTS);
    let before = written_bytes(&relay);
    let content: Value = serde_json::from_str(&document("same")).expect("a document");
    // One more: it begins when the last of the thousand has been judged.
    for turn in 1..=FETCHES + 1 {
        let mut text = String::new();
        reworded(&content, turn as usize, &mut text);
        upstream.set_document(SLOT, text);
        assert_eq!(upstream.notify(SLOT, None), 1);
        let fetched = upstream.wait_until(PATIENCE, |counts| counts.slot(SLOT).fetches == 2 + turn);
        assert!(fetched.is_some(), "{turn}: {:?}", upstream.counts());
    }
    assert_eq!(written_bytes(&relay), before);
    crowd.check(0);
    let log = relay.log.all();
    assert_eq!(log.matches("shop/prod serves version").count(), 1, "{log}");
    // A change is still one.
    upstream.set_document(SLOT, document("other"));
    assert_eq!(upstream.notify(SLOT, None), 1);
    until_marked(&relay, SLOT, "other");
    until_told(&relay, "kept again", |_| written_bytes(&relay) > before);
}
