//! When a node becomes primary, on whose word, and when it stops.

use super::*;

#[test]
fn nobody_is_primary_in_the_first_three_seconds() {
    let mut node = fresh("au-1", Mark::default());
    node.adopt(Rc::new(record(1, Vec::new())), None, now(0));
    assert_eq!(phase(&mut node, 2_999), Phase::Unknown(Doubt::Starting));
    let (_, orders) = pushed(&mut node, push(1), 2_999);
    assert_eq!(
        refusal_in(&orders),
        Some((Reason::Starting, Outcome::NotAttempted))
    );
    assert_eq!(phase(&mut node, 3_000), Phase::Active);
}

#[test]
fn the_word_is_stored_before_it_counts() {
    let mut node = fresh("au-1", Mark::default());
    node.adopt(Rc::new(record(1, Vec::new())), None, now(0));
    let order = node.poll_output(now(3_000));
    let Some(Order::Store { subject, mark }) = order else {
        panic!("{order:?}");
    };
    assert_eq!(
        (subject, mark.entered, mark.floor),
        (SLOT, Some(Epoch(5)), Epoch(5))
    );
    assert_eq!(node.phase(SLOT), Some(Phase::Hold));
    node.handle_mark(SLOT, false, now(3_000));
    assert_eq!(node.phase(SLOT), Some(Phase::Hold), "the store failed");
    assert_eq!(phase(&mut node, 3_200), Phase::Active);
}

#[test]
fn the_primary_seals_before_the_guard_and_forwards_after_it() {
    let mut node = node("au-1", planned());
    let written = apply(&mut node, 1, 4_000);
    assert_eq!(phase(&mut node, AT - 3_001), Phase::Active);
    assert_eq!(phase(&mut node, AT - 3_000), Phase::Sealed);
    let seal = node.status(now(AT - 3_000)).subjects[0].seal.unwrap();
    assert_eq!((seal.epoch, seal.head), (Epoch(5), written));
    let (_, orders) = pushed(&mut node, push(2), AT - 2_900);
    let is_forward = matches!(
        orders[..],
        [Order::Forward {
            peer: NodeIndex(1),
            epoch: Epoch(6),
            ..
        }]
    );
    assert!(is_forward, "{orders:?}");
}

#[test]
fn the_next_primary_begins_when_it_has_the_seal_and_the_head() {
    let record = planned();
    let mut node = node("eu-1", record.clone());
    assert_eq!(phase(&mut node, AT - 3_001), Phase::Replica);
    let (_, orders) = pushed(&mut node, push(9), AT - 3_000);
    assert_eq!((node.phase(SLOT), orders.len()), (Some(Phase::Hold), 0));
    let head = Revision::parse("5-3").unwrap();
    let seal = Some(Seal {
        epoch: Epoch(5),
        head,
    });
    hear(
        &mut node,
        told("au-1", &record, Phase::Sealed, 6, seal),
        AT - 2_900,
    );
    let orders = settle(&mut node, AT - 2_900);
    let pull = Order::PullHead {
        subject: SLOT,
        peer: NodeIndex(0),
        revision: head,
    };
    assert!(orders.contains(&pull), "{orders:?}");
    let there = Head {
        revision: head,
        digest: Digest([3; 32]),
        parent: Revision::default(),
    };
    assert_eq!(node.follow(SLOT, &there), Follow::Adopt { is_fork: false });
    assert_eq!(
        phase(&mut node, AT - 2_890),
        Phase::Hold,
        "the store has it not yet"
    );
    node.handle_head(SLOT, Some(there), false, now(AT - 2_880));
    let orders = about_requests(settle(&mut node, AT - 2_880));
    let [Order::Apply { head, .. }] = orders[..] else {
        panic!("the held push is applied: {orders:?}");
    };
    assert_eq!(
        (head.revision.to_string().as_str(), head.parent),
        ("6-1", there.revision)
    );
    assert!(!node.status(now(AT - 2_880)).subjects[0].is_taken_over_unsealed);
}

#[test]
fn without_a_seal_it_begins_after_guard_and_grace_and_says_so() {
    let mut node = node("eu-1", planned());
    assert_eq!(phase(&mut node, AT + 3_999), Phase::Hold);
    assert_eq!(phase(&mut node, AT + 4_000), Phase::Active);
    let status = &node.status(now(AT + 4_000)).subjects[0];
    assert!(status.is_taken_over_unsealed);
    let is_alarm = |note: &Note| matches!(note, Note::TakenOver { subject: SLOT, .. });
    assert!(std::iter::from_fn(|| node.poll_note()).any(|note| is_alarm(&note)));
}

#[test]
fn what_is_taken_over_without_a_seal_is_a_revision_unless_it_is_nothing() {
    for (stored, expected) in [("0-0", "0-0"), ("0-1", "6-0"), ("5-3", "6-0")] {
        let mut node = node("eu-1", planned());
        let head = Head {
            revision: Revision::parse(stored).unwrap(),
            ..Head::default()
        };
        node.handle_head(SLOT, Some(head), false, now(4_000));
        assert_eq!(phase(&mut node, AT + 4_000), Phase::Active);
        let head = node.head(SLOT).unwrap();
        assert_eq!(
            head.revision,
            Revision::parse(expected).unwrap(),
            "{stored}"
        );
    }
}

#[test]
fn a_seal_of_a_node_that_was_never_primary_is_never_given() {
    let mut record = planned();
    let at = WallMs::from_unix_ms(BEGIN + AT + 60_000);
    let (to, epoch) = (seat(2), Epoch(7));
    record.classes[0].switches.push(Switch { at, to, epoch });
    // eu-1 comes up a moment before its own term ends.
    let mut node = fresh("eu-1", Mark::default());
    let start = AT + 57_500;
    node.started_at = now(start - 3_000).instant;
    node.adopt(Rc::new(record), None, now(start));
    assert_eq!(phase(&mut node, start), Phase::Hold);
    assert_eq!(phase(&mut node, AT + 61_000), Phase::Replica);
    assert_eq!(node.status(now(AT + 61_000)).subjects[0].seal, None);
}

#[test]
fn a_primary_that_hears_of_a_later_one_stops_at_once() {
    let record = planned();
    let mut node = node("au-1", record.clone());
    assert_eq!(phase(&mut node, 4_000), Phase::Active);
    hear(
        &mut node,
        told("eu-1", &record, Phase::Active, 6, None),
        5_000,
    );
    assert_eq!(phase(&mut node, 5_000), Phase::Sealed);
}

#[test]
fn an_untrusted_clock_matters_only_while_a_switch_is_pending() {
    for (switches, expected) in [
        (
            planned().classes[0].switches.clone(),
            Phase::Unknown(Doubt::Clock),
        ),
        (Vec::new(), Phase::Active),
    ] {
        let mut node = fresh("au-1", Mark::default());
        node.trust
            .raise_floor(WallMs::from_unix_ms(BEGIN + 3_600_000));
        node.adopt(Rc::new(record(1, switches)), None, now(0));
        assert_eq!(phase(&mut node, 3_000), expected);
    }
}

#[test]
fn a_clock_that_was_set_makes_nobody_primary_for_its_wait() {
    let mut node = node("au-1", planned());
    assert_eq!(phase(&mut node, 4_000), Phase::Active);
    let set = |millis: u64| Now {
        instant: now(millis).instant,
        wall: now(millis).wall + Duration::from_secs(10),
    };
    node.poll_output(set(5_000));
    assert_eq!(node.phase(SLOT), Some(Phase::Unknown(Doubt::Tilt)));
    while let Some(order) = node.poll_output(set(35_000)) {
        if let Order::Store { subject, .. } = order {
            node.handle_mark(subject, true, set(35_000));
        }
    }
    assert_eq!(node.phase(SLOT), Some(Phase::Active));
}

#[test]
fn a_forced_change_waits_for_the_writer_of_the_record_before() {
    let mut node = node("eu-1", record(1, Vec::new()));
    assert_eq!(phase(&mut node, 4_000), Phase::Replica);
    let mut forced = record(2, Vec::new());
    (forced.classes[0].primary, forced.classes[0].epoch) = (seat(1), Epoch(6));
    node.adopt(Rc::new(forced), None, now(5_000));
    assert_eq!(phase(&mut node, 5_000), Phase::Hold);
    assert_eq!(phase(&mut node, 8_999), Phase::Hold);
    assert_eq!(phase(&mut node, 9_000), Phase::Active);
    assert!(node.status(now(9_000)).subjects[0].is_taken_over_unsealed);
}

#[test]
fn content_that_comes_meanwhile_does_not_end_an_adoption() {
    let mut node = node("eu-1", planned());
    let head = |revision: &str| Head {
        revision: Revision::parse(revision).unwrap(),
        digest: Digest([revision.len() as u8; 32]),
        parent: Revision::default(),
    };
    let adopt = Follow::Adopt { is_fork: false };
    assert_eq!(node.follow(SLOT, &head("5-3")), adopt);
    node.handle_content(SLOT, head("0-1"), now(4_000));
    assert_eq!(phase(&mut node, AT + 4_000), Phase::Hold);
    node.handle_head(SLOT, Some(head("5-3")), false, now(AT + 4_000));
    assert_eq!(phase(&mut node, AT + 4_000), Phase::Active);
    let part = node.part(SLOT).unwrap();
    assert_eq!(part.mark().parent, Revision::parse("5-3").unwrap());
}
