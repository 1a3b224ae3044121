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
