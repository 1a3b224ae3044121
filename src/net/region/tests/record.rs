//! Which records count, and what a node does that has none or two.

use super::*;
use crate::net::region::record::Outcome;

/// What both slots' writes are refused with, and that nothing of them is served.
#[track_caller]
fn assert_no_write(sites: &Sites, index: usize, reason: &str) {
    let before = held(sites, index);
    assert_refused(&push(sites, index, "", "refused"), 503, reason);
    assert_eq!(held(sites, index), before);
}

/// The slot's head and content, whatever the time is.
fn held(sites: &Sites, index: usize) -> Vec<String> {
    let answer = slot(sites, index);
    let lines = answer.lines().filter(|line| !line.starts_with("date: "));
    lines.map(str::to_owned).collect()
}

fn put_state(body: &str) -> Vec<u8> {
    let length = body.len();
    let head = "PUT /v1/region/state HTTP/1.1\r\nHost: r\r\n";
    format!("{head}Content-Length: {length}\r\n\r\n{body}").into_bytes()
}

fn bring(sites: &Sites, index: usize, document: &str) -> String {
    let envelope = crate::wire::region::pack(document.as_bytes(), None);
    sites.ask(index, Door::AdminLocal, &put_state(&envelope))
}

#[test]
fn nobody_writes_without_a_record_or_right_after_a_start() {
    let sites = Sites::new("region-none", &NAMES);
    assert_no_write(&sites, AU, "no_record");
    let state = sites.ask(AU, Door::AdminLocal, &get("/v1/region/state", ""));
    assert!(state.starts_with("HTTP/1.1 404 "), "{state}");
    let page = sites.ask(AU, Door::AdminLocal, &get("/", ""));
    assert!(page.contains("there is no state record"), "{page}");
    sites.bring(AU, &document(1, &NAMES, "")).unwrap();
    assert_no_write(&sites, AU, "starting");
    sites.advance(SECOND);
    assert_done(&push(&sites, AU, "", "a"), "5-1");
}

#[test]
fn a_clock_before_its_record_decides_no_switch() {
    let sites = Sites::new("region-clock", &NAMES);
    sites.set_wall(AU, Wall::from_unix(BEGIN.as_unix() - 100_000));
    sites.cut(AU, EU);
    sites
        .bring(AU, &document(1, &NAMES, &switch_to_eu()))
        .unwrap();
    sites.advance(SECOND * 40);
    assert_no_write(&sites, AU, "clock_untrusted");
    sites.bring(AU, &document(2, &NAMES, "")).unwrap();
    sites.advance(SECOND * 2);
    assert_done(&push(&sites, AU, "", "a"), "5-1");
}

#[test]
fn a_node_that_is_not_primary_does_not_write_its_own_slot() {
    let sites = settled("region-replica");
    assert_done(&push(&sites, AU, "", "a"), "5-1");
    sites.advance(SECOND);
    let before = held(&sites, EU);
    let answer = push(&sites, EU, "X-Relay-No-Forward: 1\r\n", "b");
    assert_refused(&answer, 421, "not_primary");
    assert!(answer.contains(r#""primary":"au-1""#), "{answer}");
    sites.cut(AU, EU);
    let mut client = sites.connect(EU, Door::AdminLocal);
    sites.send(&mut client, &put("", &content("c")));
    sites.advance(SECOND * 8);
    let answer = sites.read(&mut client);
    assert!(answer.starts_with("HTTP/1.1 50"), "{answer}");
    assert_eq!(held(&sites, EU), before);
}

#[test]
fn what_an_admin_brings_is_answered_with_what_became_of_it() {
    let sites = Sites::new("region-brought", &NAMES);
    let first = document(2, &NAMES, "");
    for (document, status, word) in [
        ("{}", 422, "unsound"),
        (first.as_str(), 200, "adopted"),
        (first.as_str(), 200, "same"),
        (&document(1, &NAMES, ""), 409, "lower_version"),
        (
            &document(3, &NAMES, "").replace("plant", "other"),
            409,
            "other_cluster",
        ),
        (&document(3, &["eu-1", "au-1"], ""), 409, "epoch_reused"),
    ] {
        let answer = bring(&sites, AU, document);
        let line = format!("HTTP/1.1 {status} ");
        assert!(answer.starts_with(&line), "{document}: {answer}");
        assert!(answer.contains(&format!("\"{word}\"")), "{answer}");
    }
    let state = sites.ask(AU, Door::AdminLocal, &get("/v1/region/state", ""));
    let (_, body) = state.split_once("\r\n\r\n").unwrap();
    assert_eq!(body, crate::wire::region::pack(first.as_bytes(), None));
    let no_envelope = sites.ask(AU, Door::AdminLocal, &put_state("[]"));
    assert!(no_envelope.starts_with("HTTP/1.1 422 "), "{no_envelope}");
    let long = sites.ask(AU, Door::AdminLocal, &put_state(&" ".repeat(65 << 10)));
    assert!(long.starts_with("HTTP/1.1 413 "), "{long}");
}

#[test]
fn two_records_of_one_version_stop_writes_until_a_higher_one() {
    let sites = settled("region-conflict");
    assert_done(&push(&sites, AU, "", "a"), "5-1");
    let other = document(1, &NAMES, "").replace("\"hold_ms\": 2000", "\"hold_ms\": 1900");
    let answer = bring(&sites, AU, &other);
    assert!(answer.starts_with("HTTP/1.1 409 "), "{answer}");
    assert!(answer.contains("\"conflict\""), "{answer}");
    assert_no_write(&sites, AU, "state_conflict");
    let page = sites.ask(AU, Door::AdminLocal, &get("/", ""));
    assert!(
        page.contains("another record of version 1 is held"),
        "{page}"
    );
    let metrics = sites.ask(AU, Door::AdminLocal, &get("/metrics", ""));
    let phase = r#"staffetta_region_phase{slot="c/e",phase="unknown"} 1"#;
    assert!(metrics.contains(phase), "{metrics}");
    sites.bring(AU, &document(2, &NAMES, "")).unwrap();
    sites.advance(SECOND);
    assert_done(&push(&sites, AU, "", "b"), "5-2");
    let page = sites.ask(AU, Door::AdminLocal, &get("/", ""));
    assert!(!page.contains("another record of version"), "{page}");
}

#[test]
fn an_older_record_does_not_come_back_with_a_restart() {
    let sites = settled("region-old");
    sites.bring(AU, &document(3, &NAMES, "")).unwrap();
    sites.stop(AU);
    sites.restart(AU);
    let refused = sites.bring(AU, &document(2, &NAMES, "")).unwrap_err();
    assert!(
        refused.to_string().contains("older than version 3"),
        "{refused}"
    );
    let same = sites.bring(AU, &document(3, &NAMES, ""));
    assert_eq!(same, Ok(Outcome::Same));
}

#[test]
fn a_record_that_cannot_be_kept_does_not_count() {
    let sites = settled("region-unkept");
    let driver = sites.driver(AU);
    let write = driver.keep.borrow().write;
    driver.keep.borrow_mut().write = |path, _| {
        let full = std::io::Error::from_raw_os_error(28);
        Err(crate::net::disk::DiskError::new(
            crate::net::disk::Step::Write,
            path,
            &full,
        ))
    };
    let answer = bring(&sites, AU, &document(2, &NAMES, ""));
    assert!(answer.starts_with("HTTP/1.1 507 "), "{answer}");
    assert!(status(&sites, AU).contains(r#""version":1"#));
    let answer = push(&sites, AU, "", "a");
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains(r#""reason":"store_failed""#), "{answer}");
    assert!(
        answer.contains("\r\nx-relay-outcome: unknown\r\n"),
        "{answer}"
    );
    assert!(slot(&sites, AU).starts_with("HTTP/1.1 204 "));
    driver.keep.borrow_mut().write = write;
    assert_done(&push(&sites, AU, "", "a"), "5-1");
}

/// Somewhere between the first byte of the newer record and its last, a word falls due.
#[test]
fn no_word_of_the_old_record_is_stored_under_the_new_one() {
    let switch = |epoch: u64, at: &str| {
        format!(r#"{{ "at": "2027-01-15T08:00:{at}Z", "to": "r-eu-1", "epoch": {epoch} }}"#)
    };
    let mut adopted = 0;
    for steps in 0..24 {
        let sites = settled_by("region-overtaken", &switch(6, "03"));
        sites.cut(AU, EU);
        // The switch is due 10 ms from now.
        sites.advance(Duration::from_millis(1_990));
        let body = document(2, &NAMES, &switch(7, "30"));
        let body = crate::wire::region::pack(body.as_bytes(), None);
        let mut client = sites.connect(EU, Door::AdminLocal);
        sites.send_only(&mut client, &put_state(&body));
        let took = (0..steps).take_while(|_| sites.step(EU)).count();
        sites.advance(Duration::from_millis(50));
        sites.advance(SECOND);
        let status = status(&sites, EU);
        if status.contains(r#""version":2"#) {
            adopted += 1;
            let what = format!("step {took}: {status}");
            assert!(!status.contains(r#""phase":"unknown""#), "{what}");
        }
    }
    assert!(adopted > 0);
}

#[test]
fn a_conflict_outlives_a_restart() {
    let sites = settled("region-conflict-kept");
    sites.cut(AU, EU);
    let other = document(1, &NAMES, "").replace("\"hold_ms\": 2000", "\"hold_ms\": 1900");
    assert!(sites.bring(AU, &other).is_err());
    sites.stop(AU);
    sites.restart(AU);
    sites.advance(SECOND * 5);
    assert_no_write(&sites, AU, "state_conflict");
    sites.bring(AU, &document(2, &NAMES, "")).unwrap();
    sites.advance(SECOND);
    assert_done(&push(&sites, AU, "", "a"), "5-1");
    sites.stop(AU);
    sites.restart(AU);
    sites.advance(SECOND);
    assert_done(&push(&sites, AU, "", "b"), "5-2");
}
