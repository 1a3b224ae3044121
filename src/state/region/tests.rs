//! The machine, step by step: one node, one slot and one route, peers that are played by hand.

mod forward;
mod peer;
mod record;
mod term;
mod write;

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

/// What is to be applied first.
#[track_caller]
fn first_apply(orders: &[Order]) -> (RequestId, Head) {
    match orders.first() {
        Some(Order::Apply { id, head }) => (*id, *head),
        _ => panic!("not applied: {orders:?}"),
    }
}

/// Applies a push at the primary; its revision.
fn apply(node: &mut Routing, number: u8, millis: u64) -> Revision {
    let (_, orders) = pushed(node, push(number), millis);
    let (id, head) = first_apply(&orders);
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
