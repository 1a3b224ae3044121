//! What the document says of a relay, and what in it is a problem or a note.

use super::*;

#[test]
fn the_document_reads_back_as_it_was_written() {
    let status = sample();
    let text = serde_json::to_string(&status).unwrap();
    assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), status);
    for part in [
        r#""state":"serving""#,
        r#""clock":{"state":"set","time":"2026-11-29T22:00:00Z"}"#,
        r#""clients":{"websocket":2,"sse":1,"sse_events_only":0,"fetch":0}"#,
        r#""last_error":null"#,
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_healthy_relay_has_no_problem_even_without_the_time() {
    let mut status = sample();
    status.clock.state = ClockState::NotSet;
    let status = status.judged();
    assert!(status.ready && status.problems.is_empty(), "{status:?}");
}

#[test]
fn every_kind_of_problem_is_told_in_words() {
    let mut status = sample();
    let mut empty = status.slots[0].clone();
    empty.slot = "payments/prod".into();
    empty.serves = None;
    status.slots.push(empty.clone());
    empty.slot = "payments/dev".into();
    empty.last_error = Some(LastError {
        problem: "not in the seed".into(),
        since_s: 61,
        times: 2,
    });
    status.slots[0].last_error = Some(LastError {
        problem: "feature `x`: no `type`".into(),
        since_s: 5,
        times: 1,
    });
    status.slots.push(empty);
    status.state = Phase::Draining;
    status.seed.as_mut().unwrap().problem = Some("/s: no such file".into());
    status.seed.as_mut().unwrap().problem_s = Some(3_700);
    let state_dir = status.state_dir.as_mut().unwrap();
    state_dir.problem = Some("cannot write /v: full".into());
    state_dir.problem_s = Some(7);
    status.events.disk_problem = Some("cannot write /e: no space".into());
    status.problems = vec!["admin token: /t: is empty".into()];
    let status = status.judged();
    assert!(!status.ready);
    assert_eq!(
        status.problems,
        [
            "the relay is shutting down",
            "nothing to serve for payments/prod: clients wait",
            "the seed has been unusable for 1 h 1 min, what is served stays: /s: no such file",
            "slot inventory/dev has refused newer content for 5 s, version 3 stays: \
             feature `x`: no `type`",
            "slot payments/dev has refused newer content for 1 min, it serves nothing: \
             not in the seed",
            "the state has not been kept for 7 s, a restart begins with the seed: \
             cannot write /v: full",
            "events wait in memory only: cannot write /e: no space",
            "admin token: /t: is empty",
        ]
    );
}

#[test]
fn what_is_over_or_as_it_should_be_is_a_note() {
    let mut status = sample();
    status.slots[0].superseded = Some(SupersededSeed {
        digest: "cd".repeat(32),
        since_s: 9,
    });
    status.events.set_aside = 2;
    status.events.set_aside_entries = 40;
    status.events.dropped_entries = 7;
    let status = status.judged();
    assert_eq!(status.problems, Vec::<String>::new());
    assert_eq!(
        status.notes,
        [
            "the seed is not served for inventory/dev: what is served counts more; a seed \
             with any change in it is a new one",
            "2 reports with 40 entries were refused by the upstream for good, and left out",
            "7 entries of reports are lost, because memory or disk were full",
        ]
    );
    assert_eq!(status.clone().judged(), status, "judged once or twice");
}

#[test]
fn a_relay_without_a_seed_says_so() {
    let mut status = sample();
    status.seed = None;
    status.slots[0].serves = None;
    let status = status.judged();
    assert_eq!(
        status.problems,
        ["nothing to serve for inventory/dev: clients wait; no seed is configured"]
    );
    let mut status = status;
    status.problems.clear();
    status.upstreams = Some(vec![sample_upstream(crate::model::Role::Primary)]);
    assert_eq!(
        status.judged().problems,
        ["nothing to serve for inventory/dev: clients wait"]
    );
}

#[test]
fn what_was_pushed_is_told_by_its_revision_and_its_time() {
    let mut served = sample().slots[0].serves.clone().unwrap();
    served.source = "cache".into();
    served.revision = Some("0-17".into());
    assert_eq!(served.in_words(), "cache version 3, 12 min old");
    served.pushed_at = Some("2026-11-30T09:12:59Z".into());
    assert_eq!(served.in_words(), "cache 0-17 of 2026-11-30 09:12");
}

#[test]
fn clients_are_named_by_kind() {
    assert_eq!(sample().slots[0].clients.in_words(), "2 WebSocket, 1 SSE");
    assert_eq!(Clients::default().in_words(), "");
}
