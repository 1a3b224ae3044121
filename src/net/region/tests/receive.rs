//! The receiver's table, row by row, with real bytes.

use super::*;

#[test]
fn what_a_peer_claims_is_compared_row_by_row() {
    let sites = settled("region-rows");
    for (changes, status, reason) in [
        (&[("X-Relay-Cluster", "other")][..], 421, "wrong_cluster"),
        (&[("X-Relay-From", "au-1")], 502, "loop"),
        (&[("Via", "1.1 x, 1.1 au-1")], 502, "loop"),
        (&[("X-Relay-Hops", "2")], 502, "loop"),
        (&[("X-Relay-Deadline", "0")], 503, "deadline_over"),
        (&[("X-Relay-Epoch", "4")], 421, "stale_epoch"),
        (&[("X-Relay-Epoch", "6")], 421, "unknown_epoch"),
        (&[("If-Match", "\"5-7\"")], 412, "precondition_failed"),
    ] {
        let answer = receive(&sites, AU, changes, "a");
        assert_refused(&answer, status, reason);
        assert!(answer.contains(r#""primary":"au-1""#), "{answer}");
    }
    let nothing = slot(&sites, AU);
    assert!(nothing.starts_with("HTTP/1.1 204 "), "{nothing}");
    assert_refused(
        &receive(
            &sites,
            EU,
            &[("X-Relay-From", "au-1"), ("Via", "1.1 au-1")],
            "a",
        ),
        421,
        "not_primary",
    );
}

#[test]
fn rows_about_nodes_come_before_what_is_wrong_with_the_push() {
    let sites = settled("region-order");
    let is_wrong = [
        ("X-Relay-Cluster", "other"),
        ("If-Match", "5-1"),
        ("Content-Encoding", "br"),
    ];
    let answer = sites.ask(AU, Door::Sdk, &put(&sent_on(&is_wrong), "no document"));
    assert_refused(&answer, 421, "wrong_cluster");
    let is_coded = sent_on(&is_wrong[2..]);
    let answer = sites.ask(AU, Door::Sdk, &put(&is_coded, "no document"));
    assert!(answer.starts_with("HTTP/1.1 415 "), "{answer}");
    assert!(answer.contains(r#""epoch":5,"primary":"au-1""#), "{answer}");
}

#[test]
fn what_passes_is_applied_once() {
    let sites = settled("region-applied");
    assert_done(
        &receive(&sites, AU, &[("Idempotency-Key", "k-1")], "a"),
        "5-1",
    );
    assert_done(&receive(&sites, AU, &[], "a"), "5-1");
    assert_done(&receive(&sites, AU, &[("If-Match", "\"5-1\"")], "b"), "5-2");
    let again = receive(&sites, AU, &[("Idempotency-Key", "k-1")], "a");
    assert_done(&again, "5-1");
    let held = slot(&sites, AU);
    assert_done(&held, "5-2");
    assert!(held.contains("\r\nx-relay-parent: 0-0\r\n"), "{held}");
    assert!(held.contains(r#""value":"b""#), "{held}");
}

#[test]
fn a_term_that_is_not_known_here_has_the_senders_record_pulled() {
    let sites = settled("region-unknown");
    sites.cut(AU, EU);
    let switch = r#"{ "at": "2027-01-15T09:00:00Z", "to": "r-eu-1", "epoch": 6 }"#;
    sites.bring(EU, &document(2, &NAMES, switch)).unwrap();
    sites.advance(10 * SECOND);
    sites.heal();
    assert_refused(
        &receive(&sites, AU, &[("X-Relay-Epoch", "6")], "a"),
        421,
        "unknown_epoch",
    );
    sites.settle();
    assert!(
        status(&sites, AU).contains(r#""version":2"#),
        "{}",
        status(&sites, AU)
    );
}

#[test]
fn the_next_primary_parks_what_comes_for_its_term() {
    let sites = settled_by("region-parks", &switch_to_eu());
    sites.cut(AU, EU);
    sites.advance(Duration::from_millis(8_900));
    let mut client = sites.connect(EU, Door::Sdk);
    let fields = sent_on(&[
        ("X-Relay-From", "au-1"),
        ("Via", "1.1 au-1"),
        ("X-Relay-Epoch", "6"),
    ]);
    sites.send(&mut client, &put(&fields, &content("a")));
    assert!(
        status(&sites, EU).contains(r#""phase":"hold""#),
        "{}",
        status(&sites, EU)
    );
    assert_eq!(sites.read(&mut client), "");
    sites.advance(SECOND);
    assert_done(&sites.read(&mut client), "6-1");
    assert!(status(&sites, EU).contains(r#""unsealed_takeover":true"#));
    assert_eq!(
        sites.driver(EU).clock.wall().as_unix(),
        BEGIN.as_unix() + 10
    );
}

#[test]
fn too_much_or_too_large_is_refused_before_anybody_is_asked() {
    let mut limits = limits();
    limits.push_bytes_max = 2_000;
    let sites = settled_with("region-large", "", limits);
    let long = content(&"x".repeat(2_000));
    let answer = sites.ask(EU, Door::AdminLocal, &put("", &long));
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let answer = sites.ask(AU, Door::Sdk, &put(&sent_on(&[]), &long));
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(
        answer.contains("\r\nx-relay-outcome: not-attempted\r\n"),
        "{answer}"
    );
}
