//! What a node is by its record, and which record it takes.

use super::*;

#[test]
fn without_a_record_nothing_is_taken_and_nothing_is_assumed() {
    let mut node = fresh("au-1", Mark::default());
    let (_, orders) = pushed(&mut node, push(1), 60_000);
    let expected = (Reason::NoRecord, Outcome::NotAttempted);
    assert_eq!(refusal_in(&orders), Some(expected));
    assert_eq!(phase(&mut node, 3_600_000), Phase::Unknown(Doubt::NoRecord));
}

#[test]
fn an_old_primary_with_an_old_record_is_not_primary_after_a_restart() {
    let mark = Mark {
        floor: Epoch(6),
        entered: Some(Epoch(5)),
        ..Mark::default()
    };
    let mut node = fresh("au-1", mark);
    node.adopt(Rc::new(record(1, Vec::new())), None, now(0));
    assert_eq!(phase(&mut node, 10_000), Phase::Unknown(Doubt::OldRecord));
    let (_, orders) = pushed(&mut node, push(1), 10_000);
    assert_eq!(refusal_in(&orders).unwrap().0, Reason::OldRecord);
    node.adopt(Rc::new(planned()), None, now(11_000));
    assert_eq!(phase(&mut node, 11_000), Phase::Sealed);
}

#[test]
fn a_conflict_lasts_until_a_higher_version_comes() {
    let mut node = node("au-1", record(1, Vec::new()));
    let mut other = record(1, Vec::new());
    other.digest = Digest([77; 32]);
    let verdict = node.judge(&other, now(4_000));
    assert_eq!(verdict, Verdict::Refuse(Objection::Conflict { version: 1 }));
    let (_, orders) = pushed(&mut node, push(1), 4_000);
    assert_eq!(refusal_in(&orders).unwrap().0, Reason::StateConflict);
    let higher = record(2, Vec::new());
    assert_eq!(node.judge(&higher, now(5_000)), Verdict::Adopt);
    node.adopt(Rc::new(higher), None, now(5_000));
    assert_eq!(phase(&mut node, 5_000), Phase::Active);
}

#[test]
fn records_that_would_turn_time_back_are_refused() {
    let mut node = node("au-1", record(3, Vec::new()));
    let judge = |node: &mut Routing, change: fn(&mut Record)| {
        let mut found = record(4, Vec::new());
        change(&mut found);
        node.judge(&found, now(4_000))
    };
    let subject = Subject::parse("line3/dev").unwrap();
    let objection = |verdict| match verdict {
        Verdict::Refuse(objection) => objection,
        other => panic!("{other:?}"),
    };
    let lower = objection(judge(&mut node, |found| found.version = 2));
    assert_eq!(lower, Objection::LowerVersion { held: 3, found: 2 });
    let other = objection(judge(&mut node, |found| found.cluster = id("other")));
    assert!(matches!(other, Objection::OtherCluster { .. }));
    let below = objection(judge(&mut node, |found| found.classes[0].epoch = Epoch(4)));
    let (floor, found) = (Epoch(5), Epoch(4));
    let expected = Objection::BelowFloor {
        subject: subject.clone(),
        floor,
        found,
    };
    assert_eq!(below, expected);
    let reused = objection(judge(&mut node, |found| found.classes[0].primary = seat(1)));
    let epoch = Epoch(5);
    assert_eq!(reused, Objection::EpochReused { subject, epoch });
    assert_eq!(judge(&mut node, |_| ()), Verdict::Adopt);
}
