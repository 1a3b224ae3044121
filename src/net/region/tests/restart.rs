//! What survives a restart, and what nobody may rely on right after one.

use super::*;

#[test]
fn a_node_that_comes_back_is_what_it_was_and_says_nothing_at_first() {
    let sites = settled("region-restart");
    assert_done(&push(&sites, AU, "", "a"), "5-1");
    sites.stop(AU);
    sites.restart(AU);
    assert_refused(&push(&sites, AU, "", "b"), 503, "starting");
    assert_refused(&receive(&sites, AU, &[], "b"), 421, "not_primary");
    sites.advance(SECOND);
    assert_done(&push(&sites, AU, "If-Match: \"5-1\"\r\n", "b"), "5-2");
    let status = status(&sites, AU);
    assert!(status.contains(r#""version":1"#), "{status}");
}

#[test]
fn a_clock_that_was_set_while_a_switch_is_pending_decides_nothing() {
    let sites = settled_by("region-tilt", &switch_to_eu());
    assert_done(&push(&sites, AU, "", "a"), "5-1");
    sites.set_wall(AU, Wall::from_unix(BEGIN.as_unix() + 9));
    sites.advance(Duration::from_millis(100));
    assert_refused(&push(&sites, AU, "", "b"), 503, "clock_tilted");
    let held = slot(&sites, AU);
    assert_done(&held, "5-1");
    assert!(held.contains(r#""value":"a""#), "{held}");
}

/// Only so does it come about: a record is taken because of what the clock shows, and the clock is
/// set back before this node has given its word by it.
#[test]
fn a_record_that_a_clock_makes_older_than_what_was_seen_decides_nothing() {
    let sites = settled("region-old");
    let with_epoch = |version, epoch: &str, switches: &str| {
        let text = document(version, &NAMES, switches);
        text.replace("\"epoch\": 5,", &format!("\"epoch\": {epoch},"))
    };
    sites.cut(AU, EU);
    sites.bring(AU, &with_epoch(2, "7", "")).unwrap();
    sites.advance(SECOND);
    assert_done(&push(&sites, AU, "", "a"), "7-1");
    sites.stop(AU);
    sites.restart(AU);
    let over = r#"{ "at": "2027-01-15T07:59:00Z", "to": "r-eu-1", "epoch": 9 }"#;
    sites.bring(AU, &with_epoch(3, "5", over)).unwrap();
    sites.set_wall(AU, Wall::from_unix(BEGIN.as_unix() - 120));
    sites.advance(SECOND);
    assert_refused(&push(&sites, AU, "", "b"), 503, "old_record");
    let held = slot(&sites, AU);
    assert!(held.contains(r#""value":"a""#), "{held}");
}
