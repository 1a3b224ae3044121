//! What a node without its memory does, and what a crash leaves of a write.

use super::*;
use std::path::PathBuf;

fn live(sites: &Sites, index: usize, name: &str) -> PathBuf {
    sites.folder(index).join("live").join(name)
}

#[test]
fn a_node_whose_word_cannot_be_read_is_primary_for_nothing() {
    let sites = settled("region-no-word");
    assert_done(&push(&sites, AU, "", "a"), "5-1");
    for content in ["", "{}", "{\"format\":1,\"sha256\":\"00"] {
        sites.stop(AU);
        std::fs::write(live(&sites, AU, "region.node"), content).unwrap();
        sites.restart(AU);
        sites.advance(SECOND);
        assert_refused(&push(&sites, AU, "", "b"), 503, "no_record");
        let brought = sites.bring(AU, &document(9, &NAMES, ""));
        assert!(brought.unwrap_err().to_string().contains("region.node"));
        assert!(slot(&sites, AU).contains(r#""value":"a""#));
    }
    let page = sites.ask(AU, Door::AdminLocal, &get("/", ""));
    assert!(page.contains("no state record counts here"), "{page}");
    sites.stop(AU);
    std::fs::remove_file(live(&sites, AU, "region.node")).unwrap();
    sites.restart(AU);
    sites.bring(AU, &document(1, &NAMES, "")).unwrap();
    sites.advance(SECOND);
    assert_done(&push(&sites, AU, "", "b"), "5-2");
}

#[test]
fn the_word_of_another_node_is_not_taken_for_its_own() {
    let sites = settled("region-other-word");
    sites.stop(AU);
    let theirs = live(&sites, EU, "region.node");
    std::fs::copy(theirs, live(&sites, AU, "region.node")).unwrap();
    sites.restart(AU);
    sites.advance(SECOND);
    assert_refused(&push(&sites, AU, "", "a"), 503, "no_record");
    let lines = sites.lines(AU);
    assert!(lines.contains("the word of node eu-1"), "{lines}");
}

#[test]
fn a_slot_whose_content_is_lost_in_an_open_term_is_not_written_on() {
    let sites = settled("region-lost-slot");
    assert_done(&push(&sites, AU, "", "a"), "5-1");
    sites.stop(AU);
    std::fs::write(live(&sites, AU, "c@e.slot"), "torn").unwrap();
    sites.restart(AU);
    sites.advance(SECOND);
    assert_refused(&push(&sites, AU, "", "b"), 503, "no_record");
    let lines = sites.lines(AU);
    assert!(lines.contains("c@e.slot.bad"), "{lines}");
    assert!(lines.contains("term 5"), "{lines}");
}

#[test]
fn a_slot_whose_file_is_gone_in_an_open_term_is_not_written_on() {
    let sites = settled_by("region-gone-slot", &switch_to_eu());
    assert_done(&push(&sites, AU, "", "a"), "5-1");
    sites.advance(SECOND * 10);
    assert!(status(&sites, EU).contains(r#""phase":"active""#));
    sites.stop(EU);
    std::fs::remove_file(live(&sites, EU, "c@e.slot")).unwrap();
    sites.restart(EU);
    sites.advance(SECOND);
    assert_refused(&push(&sites, EU, "", "b"), 503, "no_record");
    let lines = sites.lines(EU);
    assert!(lines.contains("c@e.slot is not there"), "{lines}");
    assert!(lines.contains("term 6"), "{lines}");
}

/// After every single step that the relay takes, the power goes.
#[test]
fn a_crash_at_any_step_leaves_the_write_or_the_one_before_it() {
    let sites = settled("region-crash");
    assert_done(&push(&sites, AU, "", "0"), "5-1");
    let (mut held, mut applied, mut lost) = (1, 0, 0);
    for steps in 0..60 {
        let marker = (steps + 1).to_string();
        let mut client = sites.connect(AU, Door::AdminLocal);
        sites.send_only(&mut client, &put("", &content(&marker)));
        let took = (0..steps).take_while(|_| sites.step(AU)).count();
        let answer = sites.read_only(&mut client);
        sites.stop(AU);
        sites.restart(AU);
        sites.advance(Duration::from_millis(400));
        let found = slot(&sites, AU);
        let is_new = found.contains(&format!(r#""value":"{marker}""#));
        held += u64::from(is_new);
        assert_done(&found, &format!("5-{held}"));
        if answer.starts_with("HTTP/1.1 200 ") {
            assert!(is_new, "step {took}: {answer}");
        }
        applied += u64::from(is_new);
        lost += u64::from(!is_new);
    }
    assert!(applied > 0 && lost > 0, "{applied} applied, {lost} lost");
}

#[test]
fn what_was_kept_and_not_answered_is_known_when_it_comes_again() {
    let sites = settled("region-again");
    assert_done(&push(&sites, AU, "", "a"), "5-1");
    sites.stop(AU);
    sites.restart(AU);
    sites.advance(SECOND);
    let again = push(&sites, AU, "", "a");
    assert_done(&again, "5-1");
    assert!(again.contains("unchanged"), "{again}");
}

#[test]
fn a_term_that_was_given_up_is_not_taken_up_again_after_a_restart() {
    let sites = settled_by("region-sealed", &switch_to_eu());
    assert_done(&push(&sites, AU, "", "a"), "5-1");
    sites.advance(SECOND * 10);
    assert!(status(&sites, EU).contains(r#""phase":"active""#));
    sites.stop(AU);
    sites.cut(AU, EU);
    sites.restart(AU);
    // Its clock is behind the switch again: its word is not.
    sites.set_wall(AU, BEGIN);
    sites.advance(SECOND * 2);
    let status = status(&sites, AU);
    assert!(!status.contains(r#""phase":"active""#), "{status}");
    assert!(
        status.contains(r#""sealed":{"epoch":5,"head":"5-1"}"#),
        "{status}"
    );
}

/// In whatever order its turn and the end of the look come.
#[test]
fn a_write_that_comes_while_the_memory_is_found_is_answered() {
    for steps in 0..24 {
        let sites = settled("region-found-late");
        sites.stop(AU);
        let path = live(&sites, AU, "region.node");
        let kept = std::fs::read(&path).unwrap();
        std::fs::write(&path, "torn").unwrap();
        sites.restart(AU);
        std::fs::write(&path, &kept).unwrap();
        let driver = sites.driver(AU);
        let task = driver.clone();
        driver.spawn(async move { crate::net::region::start(&task).await });
        let took = (0..steps).take_while(|_| sites.step(AU)).count();
        let mut client = sites.connect(AU, Door::AdminLocal);
        sites.send(&mut client, &put("", &content("a")));
        let answer = sites.read(&mut client);
        assert!(answer.starts_with("HTTP/1.1 503 "), "{took}: {answer}");
        sites.advance(SECOND);
        assert_done(&push(&sites, AU, "", "b"), "5-1");
    }
}

#[test]
fn a_folder_that_is_replaced_gets_the_word_again() {
    let sites = settled("region-replaced");
    assert_done(&push(&sites, AU, "", "a"), "5-1");
    let folder = sites.folder(AU).join("live");
    std::fs::rename(&folder, sites.folder(AU).join("before")).unwrap();
    std::fs::create_dir(&folder).unwrap();
    let refused = push(&sites, AU, "", "b");
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    sites.advance(SECOND * 60);
    assert!(folder.join("c@e.slot").exists());
    sites.stop(AU);
    sites.cut(AU, EU);
    sites.restart(AU);
    sites.advance(SECOND);
    assert_done(&push(&sites, AU, "", "c"), "5-2");
}
