//! The machine, step by step: one node, one slot and one route, peers that are played by hand.

use super::*;
use crate::model::region::{
    Matching, Node, Outcome, Refusal, Region, RegionIndex, Seal, Seat, SlotClass, SubjectStatus,
    Switch, Timing,
};
use crate::model::{Digest, Revision};
use crate::time::Duration;

const BEGIN: u64 = 1_900_000_000_000;
const SLOT: SubjectIndex = SubjectIndex(0);
const ROUTE: SubjectIndex = SubjectIndex(1);
/// When `au` hands over to `eu`: epoch 5 to 6.
const AT: u64 = 60_000;

fn id(text: &str) -> Id {
    Id::new(text).unwrap()
}

fn now(millis: u64) -> Now {
    Now {
        instant: Instant::from_micros(millis * 1_000 + 1),
        wall: WallMs::from_unix_ms(BEGIN + millis),
    }
}

fn seat(index: u16) -> Seat {
    Seat {
        region: RegionIndex(index),
        writer: NodeIndex(index),
    }
}

fn record(version: u64, switches: Vec<Switch>) -> Record {
    let names = ["au", "eu", "us"];
    let node = |(index, name): (usize, &&str)| Node {
        name: id(&format!("{name}-1")),
        url: format!("https://{name}-1"),
        region: RegionIndex(index as u16),
    };
    let region = |(index, name): (usize, &&str)| Region {
        name: id(name),
        writer: NodeIndex(index as u16),
    };
    Record {
        cluster: id("plant"),
        version,
        digest: Digest([version as u8; 32]),
        issued_at: WallMs::from_unix_ms(BEGIN - 1),
        timing: Timing {
            max_skew: Duration::from_secs(2),
            guard: Duration::from_secs(2),
            grace: Duration::from_secs(2),
            drain: Duration::from_secs(1),
            hold: Duration::from_secs(12),
            poll: Duration::from_secs(1),
        },
        regions: names.iter().enumerate().map(region).collect(),
        nodes: names.iter().enumerate().map(node).collect(),
        classes: vec![SlotClass {
            matching: Matching::default(),
            primary: seat(0),
            epoch: Epoch(5),
            switches,
            rotation: None,
        }],
    }
}

fn planned() -> Record {
    let at = WallMs::from_unix_ms(BEGIN + AT);
    let (to, epoch) = (seat(1), Epoch(6));
    record(1, vec![Switch { at, to, epoch }])
}

/// A node of this name with that record, its start 3 s ago.
fn node(name: &str, record: Record) -> Routing {
    let mut node = fresh(name, Mark::default());
    node.adopt(Rc::new(record), None, now(0));
    settle(&mut node, 3_000);
    node
}

fn fresh(name: &str, mark: Mark) -> Routing {
    let setting = Setting {
        name: id(name),
        boot: 1,
        wall_floor: WallMs::from_unix_ms(BEGIN - 2),
        subjects: vec![
            (Subject::parse("line3/dev").unwrap(), mark, Head::default()),
            (
                Subject::parse("route:orders").unwrap(),
                mark,
                Head::default(),
            ),
        ],
        has_upstream: false,
        random_seed: 1,
    };
    Routing::new(setting, Rc::new(Limits::PRODUCTION), now(0))
}

/// Stores every word at once; the orders that are left.
fn settle(node: &mut Routing, millis: u64) -> Vec<Order> {
    let mut orders = Vec::new();
    while let Some(order) = node.poll_output(now(millis)) {
        match order {
            Order::Store { subject, .. } => node.handle_mark(subject, true, now(millis)),
            order => orders.push(order),
        }
    }
    orders
}

fn phase(node: &mut Routing, millis: u64) -> Phase {
    settle(node, millis);
    node.phase(SLOT).unwrap()
}

fn push(number: u8) -> Write {
    Write {
        subject: SLOT,
        origin: Origin::Client { may_forward: true },
        bytes: 1_000,
        digest: Some(Digest([number; 32])),
        precondition: Precondition::None,
        key: None,
    }
}

/// The orders about requests that follow from a push.
fn pushed(node: &mut Routing, write: Write, millis: u64) -> (RequestId, Vec<Order>) {
    let id = node.accept(write, now(millis)).unwrap();
    (id, about_requests(settle(node, millis)))
}

fn about_requests(orders: Vec<Order>) -> Vec<Order> {
    let is_other = |order: &Order| {
        matches!(
            order,
            Order::Ask(_) | Order::PullRecord { .. } | Order::PullHead { .. }
        )
    };
    orders
        .into_iter()
        .filter(|order| !is_other(order))
        .collect()
}

fn refusal_in(orders: &[Order]) -> Option<(Reason, Outcome)> {
    orders.iter().find_map(|order| match order {
        Order::Answer {
            answer: Answer::Refused(refusal),
            ..
        } => Some((refusal.reason, refusal.outcome)),
        _ => None,
    })
}

/// Applies a push at the primary; its revision.
fn apply(node: &mut Routing, number: u8, millis: u64) -> Revision {
    let (_, orders) = pushed(node, push(number), millis);
    let Some(Order::Apply { id, head }) = orders.first().cloned() else {
        panic!("not applied: {orders:?}");
    };
    let digest = Digest([number; 32]);
    let answer = node.handle_applied(id, Applied::Stored(Head { digest, ..head }), now(millis));
    assert_eq!(
        answer,
        Some(Answer::Applied {
            revision: head.revision,
            is_change: true
        })
    );
    head.revision
}

/// What a peer with the same record says of the slot.
fn told(name: &str, record: &Record, phase: Phase, epoch: u64, seal: Option<Seal>) -> Status {
    Status {
        node: id(name),
        cluster: Some(record.cluster.clone()),
        boot: 9,
        serial: 9,
        wall: WallMs::default(),
        is_clock_trusted: true,
        record: Some((record.version, record.digest)),
        signer: None,
        has_upstream: false,
        parked: 0,
        subjects: vec![SubjectStatus {
            subject: Subject::parse("line3/dev").unwrap(),
            phase,
            epoch: Epoch(epoch),
            primary: None,
            next: None,
            head: Head::default(),
            seal,
            is_taken_over_unsealed: false,
            orphans: 0,
        }],
        peers: Vec::new(),
    }
}

/// Lets a peer answer whatever it was asked last.
fn hear(node: &mut Routing, mut status: Status, millis: u64) {
    status.wall = now(millis).wall;
    settle(node, millis);
    let is_meant = |peer: &&Peer| peer.name == status.node;
    let asked = node.peers.iter().find(is_meant).and_then(Peer::asked);
    node.handle_status(asked.expect("the peer is asked"), &status, now(millis));
}

#[test]
fn without_a_record_nothing_is_taken_and_nothing_is_assumed() {
    let mut node = fresh("au-1", Mark::default());
    let (_, orders) = pushed(&mut node, push(1), 60_000);
    let expected = (Reason::NoRecord, Outcome::NotAttempted);
    assert_eq!(refusal_in(&orders), Some(expected));
    assert_eq!(phase(&mut node, 3_600_000), Phase::Unknown(Doubt::NoRecord));
}

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
fn the_primary_applies_one_push_after_the_other() {
    let mut node = node("au-1", planned());
    let (_, first) = pushed(&mut node, push(1), 4_000);
    let (_, second) = pushed(&mut node, push(2), 4_000);
    let Some(Order::Apply { id, head }) = first.first().cloned() else {
        panic!("{first:?}");
    };
    assert_eq!(second, [], "it waits for the first");
    node.handle_applied(id, Applied::Stored(head), now(4_001));
    let orders = about_requests(settle(&mut node, 4_001));
    let Some(Order::Apply { head, .. }) = orders.first() else {
        panic!("{orders:?}");
    };
    assert_eq!(head.revision, Revision::parse("5-2").unwrap());
}

#[test]
fn the_last_rows_of_the_table_decide_in_their_order() {
    let mut node = node("au-1", planned());
    let mut first = push(1);
    first.key = Some("key".into());
    let (request, orders) = pushed(&mut node, first, 4_000);
    let Some(Order::Apply { head, .. }) = orders.first().cloned() else {
        panic!("{orders:?}");
    };
    let digest = Digest([1; 32]);
    node.handle_applied(
        request,
        Applied::Stored(Head { digest, ..head }),
        now(4_000),
    );
    let stored = Revision::parse("5-1").unwrap();
    let unchanged = |orders: &[Order]| match orders {
        [Order::Answer { answer, .. }] => {
            let (revision, is_change) = (stored, false);
            *answer
                == Answer::Applied {
                    revision,
                    is_change,
                }
        }
        _ => false,
    };
    let mut stale = push(1);
    stale.precondition = Precondition::OneOf([Revision { epoch: 5, seq: 0 }].into());
    let (_, orders) = pushed(&mut node, stale, 4_000);
    assert_eq!(refusal_in(&orders).unwrap().0, Reason::PreconditionFailed);
    let (_, orders) = pushed(&mut node, push(1), 4_000);
    assert!(unchanged(&orders), "the same content: {orders:?}");
    let mut again = push(2);
    again.key = Some("key".into());
    let (_, orders) = pushed(&mut node, again, 4_000);
    assert!(unchanged(&orders), "the same name: {orders:?}");
    assert_eq!(apply(&mut node, 2, 4_000), Revision::parse("5-2").unwrap());
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
fn a_push_that_ends_after_the_guard_has_begun_is_not_called_applied() {
    let mut node = node("au-1", planned());
    let (request, orders) = pushed(&mut node, push(1), AT - 3_500);
    let Some(Order::Apply { head, .. }) = orders.first().cloned() else {
        panic!("{orders:?}");
    };
    assert_eq!(
        phase(&mut node, AT - 2_500),
        Phase::Drain,
        "the seal waits for it"
    );
    let answer = node.handle_applied(request, Applied::Stored(head), now(AT - 2_000));
    let Some(Answer::Refused(refusal)) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(
        (refusal.reason, refusal.outcome),
        (Reason::StoreFailed, Outcome::Unknown)
    );
    assert_eq!(phase(&mut node, AT - 1_999), Phase::Sealed);
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
fn a_slot_that_was_taken_over_empty_takes_its_first_push() {
    let mut node = node("eu-1", planned());
    assert_eq!(phase(&mut node, AT + 4_000), Phase::Active);
    let write = Write {
        precondition: Precondition::NoContent,
        ..push(1)
    };
    let (_, orders) = pushed(&mut node, write, AT + 5_000);
    let [Order::Apply { head, .. }] = orders.as_slice() else {
        panic!("{orders:?}");
    };
    assert_eq!(head.revision, Revision::parse("6-1").unwrap());
    assert_eq!(head.parent, Revision::default());
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
fn a_refused_forward_is_tried_again_until_the_time_is_up() {
    let mut node = node("us-1", planned());
    let (request, orders) = pushed(&mut node, push(1), 4_000);
    assert!(
        matches!(
            orders[..],
            [Order::Forward {
                peer: NodeIndex(0),
                ..
            }]
        ),
        "{orders:?}"
    );
    let refusal = refused_by("au-1", Reason::NotPrimary, 1);
    let mut forwards = 0;
    for millis in (4_000..16_000).step_by(200) {
        node.handle_forwarded(request, Forwarded::Refused(refusal.clone()), now(millis));
        assert_eq!(about_requests(settle(&mut node, millis)), [], "not at once");
        let orders = about_requests(settle(&mut node, millis + 200));
        forwards += orders
            .iter()
            .filter(|order| matches!(order, Order::Forward { .. }))
            .count();
    }
    assert_eq!(forwards, 59);
    let orders = about_requests(settle(&mut node, 16_000));
    assert_eq!(orders, [], "answered when its time was up");
    assert_eq!(node.status(now(16_000)).parked, 0);
    let counted: Vec<u64> = node.refusals().map(|(_, _, count)| count).collect();
    assert_eq!(counted, [60]);
}

/// What a peer refuses with.
fn refused_by(primary: &str, reason: Reason, version: u64) -> Refusal {
    Refusal {
        reason,
        outcome: Outcome::NotAttempted,
        subject: None,
        epoch: Some(Epoch(5)),
        primary: Some(id(primary)),
        version: Some(version),
        words: String::new(),
    }
}

#[test]
fn when_records_differ_the_client_is_told_what_must_be_corrected() {
    let mut node = node("us-1", planned());
    let (request, _) = pushed(&mut node, push(1), 4_000);
    let refusal = refused_by("eu-1", Reason::StaleEpoch, 2);
    node.handle_forwarded(request, Forwarded::Refused(refusal), now(15_900));
    let orders = settle(&mut node, 15_900);
    let pull = Order::PullRecord { peer: NodeIndex(0) };
    assert!(orders.contains(&pull), "{orders:?}");
    let orders = about_requests(settle(&mut node, 16_000));
    let [
        Order::Answer {
            answer: Answer::Refused(refusal),
            ..
        },
    ] = &orders[..]
    else {
        panic!("{orders:?}");
    };
    let words = "global state must be corrected: this node holds v1 (primary au-1), au-1 sent v2 \
                 (primary eu-1)";
    assert_eq!(
        (refusal.reason, refusal.words.as_str()),
        (Reason::HoldTimeout, words)
    );
    assert_eq!(node.disagreements().len(), 1);
}

#[test]
fn what_was_sent_and_not_answered_is_unknown_and_not_sent_again() {
    let mut node = node("us-1", planned());
    let (request, _) = pushed(&mut node, push(1), 4_000);
    node.handle_sent(request);
    node.handle_forwarded(request, Forwarded::Lost, now(4_100));
    let orders = about_requests(settle(&mut node, 4_100));
    assert_eq!(orders.len(), 1);
    let expected = (Reason::ForwardTimeout, Outcome::Unknown);
    assert_eq!(refusal_in(&orders), Some(expected));
}

#[test]
fn a_forward_that_hangs_is_given_up_with_what_is_known_of_it() {
    for (is_sent, expected) in [
        (true, (Reason::ForwardTimeout, Outcome::Unknown)),
        (false, (Reason::HoldTimeout, Outcome::NotAttempted)),
    ] {
        let mut node = node("us-1", planned());
        let (request, _) = pushed(&mut node, push(1), 4_000);
        if is_sent {
            node.handle_sent(request);
        }
        let orders = about_requests(settle(&mut node, 16_000));
        assert_eq!(orders[0], Order::Abandon { id: request });
        assert_eq!(refusal_in(&orders), Some(expected));
    }
}

#[test]
fn who_does_not_want_a_hop_is_told_where_to_go() {
    let mut node = node("us-1", planned());
    let mut write = push(1);
    write.origin = Origin::Client { may_forward: false };
    let (_, orders) = pushed(&mut node, write, 4_000);
    let [
        Order::Answer {
            answer: Answer::Refused(refusal),
            ..
        },
    ] = &orders[..]
    else {
        panic!("{orders:?}");
    };
    assert_eq!(
        (refusal.reason, &refusal.primary),
        (Reason::NotPrimary, &Some(id("au-1")))
    );
}

#[test]
fn what_is_held_back_is_bounded() {
    let limits = Limits::PRODUCTION;
    let mut node = node("eu-1", planned());
    let mut large = push(1);
    large.bytes = limits.region.parked_bytes_max;
    let (_, orders) = pushed(&mut node, large, AT - 2_000);
    assert_eq!(orders, [], "it fits");
    let (_, orders) = pushed(&mut node, push(2), AT - 2_000);
    assert_eq!(
        refusal_in(&orders),
        Some((Reason::HoldFull, Outcome::NotAttempted))
    );
    let mut huge = push(3);
    huge.bytes = limits.push_bytes_max + 1;
    let refusal = node.accept(huge, now(AT - 2_000)).unwrap_err();
    assert_eq!(refusal.reason, Reason::BodyTooLarge);
}

#[test]
fn routes_run_side_by_side_and_are_waited_for_only_until_the_guard() {
    let mut node = node("au-1", planned());
    let write = |_| Write {
        subject: ROUTE,
        digest: None,
        ..push(0)
    };
    let mut running = Vec::new();
    for number in 0..3 {
        let (request, orders) = pushed(&mut node, write(number), AT - 3_500);
        assert!(matches!(orders[..], [Order::Apply { .. }]), "{orders:?}");
        running.push(request);
    }
    settle(&mut node, AT - 3_000);
    assert_eq!(node.phase(ROUTE), Some(Phase::Drain));
    settle(&mut node, AT - 2_000);
    assert_eq!(node.phase(ROUTE), Some(Phase::Sealed));
    for request in running {
        let answer = node.handle_applied(request, Applied::Passed, now(AT));
        assert_eq!(answer, Some(Answer::Pass));
    }
}

#[test]
fn a_peers_push_is_parked_applied_or_refused_and_never_sent_on() {
    let incoming = |epoch| Incoming {
        cluster: id("plant"),
        from: id("us-1"),
        via: vec![id("us-1")],
        hops: 1,
        epoch: Epoch(epoch),
        left: Duration::from_millis(500),
    };
    let peers = |number| Write {
        origin: Origin::Peer,
        ..push(number)
    };
    let mut node = node("eu-1", planned());
    let refused = node
        .receive(&incoming(5), peers(1), now(4_000))
        .unwrap_err();
    assert_eq!(
        (refused.reason, refused.primary),
        (Reason::NotPrimary, Some(id("au-1")))
    );
    settle(&mut node, AT - 2_000);
    let parked = node.receive(&incoming(6), peers(1), now(AT - 2_000));
    assert!(parked.is_ok(), "{parked:?}");
    assert_eq!(about_requests(settle(&mut node, AT - 2_000)), []);
    let orders = about_requests(settle(&mut node, AT - 1_500));
    assert_eq!(
        refusal_in(&orders),
        Some((Reason::HoldTimeout, Outcome::NotAttempted))
    );
    let stale = node
        .receive(&incoming(5), peers(1), now(AT - 2_000))
        .unwrap_err();
    assert_eq!(stale.reason, Reason::StaleEpoch);
    let early = node
        .receive(&incoming(7), peers(1), now(AT - 2_000))
        .unwrap_err();
    assert_eq!(early.reason, Reason::UnknownEpoch);
    let orders = settle(&mut node, AT - 2_000);
    let pull = Order::PullRecord { peer: NodeIndex(2) };
    assert!(
        orders.contains(&pull),
        "its record may be newer: {orders:?}"
    );
}

#[test]
fn a_newer_record_of_a_peer_is_pulled_and_another_name_is_nobody() {
    let mut node = node("us-1", planned());
    let mut newer = planned();
    newer.version = 2;
    hear(
        &mut node,
        told("au-1", &newer, Phase::Active, 5, None),
        4_000,
    );
    let orders = settle(&mut node, 4_300);
    assert!(
        orders.contains(&Order::PullRecord { peer: NodeIndex(0) }),
        "{orders:?}"
    );
    let mut stranger = told("eu-1", &newer, Phase::Active, 6, None);
    stranger.wall = now(0).wall;
    hear(&mut node, stranger, 5_500);
    assert_eq!(phase(&mut node, 5_600), Phase::Replica);
}

#[test]
fn a_seal_is_waited_for_at_the_peer_before_it_is_made() {
    let record = planned();
    let mut node = node("eu-1", record.clone());
    hear(
        &mut node,
        told("au-1", &record, Phase::Active, 5, None),
        AT - 5_000,
    );
    let asks = |orders: Vec<Order>| {
        let ask = |order: &Order| match order {
            Order::Ask(ask) if ask.peer == NodeIndex(0) => Some(ask.after),
            _ => None,
        };
        orders.iter().filter_map(ask).collect::<Vec<_>>()
    };
    assert_eq!(
        asks(settle(&mut node, AT - 4_001)),
        [],
        "a poll after the last"
    );
    assert_eq!(asks(settle(&mut node, AT - 4_000)), [Some((9, 9))]);
}

#[test]
fn a_primary_takes_nothing_from_a_peer() {
    let mut node = node("au-1", planned());
    apply(&mut node, 1, 4_000);
    let there = Head {
        revision: Revision::parse("5-9").unwrap(),
        ..Head::default()
    };
    assert_eq!(node.follow(SLOT, &there), Follow::Keep);
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
