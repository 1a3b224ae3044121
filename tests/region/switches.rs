//! Planned switches under writes: nothing that was answered 200 is lost, and nobody is disturbed.

use crate::content::{content, marker};
use crate::followers::{Follower, changes, websocket};
use crate::nodes::{DRAIN, HOLD, Node, PATIENT, REGIONS, Records, from_now, three};
use crate::site::document;
use crate::writers::{self, Pushed, WRITERS, Writer, revision_of};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// From one switch to the next: what the timings of these tests allow, and a little more.
const SPACING: Duration = Duration::from_millis(6200);
/// Longest time without a write that is answered, around a switch: a write is held for so long and
/// no longer.
const GAP_MAX: Duration = HOLD;
/// Who is primary next, from switch to switch.
const NEXT: [&str; 3] = ["eu", "us", "au"];
/// The document that ends the test.
const LAST: usize = 99;

/// Of each term, what its own writer says about it.
#[derive(Default)]
struct Terms {
    /// The head that was sealed.
    sealed: BTreeMap<u64, (u64, u64)>,
    /// What its first write was made on.
    parents: BTreeMap<u64, (u64, u64)>,
}

impl Terms {
    fn look(&mut self, slot: &Value) {
        let revision = |value: &Value| revision_of(value.as_str());
        let (head, parent) = (revision(&slot["head"]), revision(&slot["head_parent"]));
        assert_ne!(slot["unsealed_takeover"], true, "no seal in time: {slot}");
        let known = *self.parents.entry(head.0).or_insert(parent);
        assert_eq!(known, parent, "two parents of term {}: {slot}", head.0);
        if let Some(epoch) = slot["sealed"]["epoch"].as_u64() {
            let head = revision(&slot["sealed"]["head"]);
            let known = *self.sealed.entry(epoch).or_insert(head);
            assert_eq!(known, head, "two seals of term {epoch}: {slot}");
        }
    }
}

/// Every write that was answered is on the way to the last head: within a term by its place, and
/// from term to term because the next one was made on the seal.
fn none_is_lost(pushed: &[Pushed], terms: &Terms) {
    let mut places: BTreeMap<(u64, u64), usize> = BTreeMap::new();
    let mut unknown = 0;
    for push in pushed {
        match push.revision {
            Some(revision) => {
                let other = places.insert(revision, push.marker);
                assert_eq!(other, None, "two writes at {revision:?}");
            }
            None => {
                println!("{}: {:?}, {}", push.marker, push.lasted, push.body);
                // Whoever is told that nothing was tried, or that nobody knows, has lost nothing.
                // None is told so before its time is over.
                let is_said = |outcome| push.body.contains(&format!("\"outcome\":\"{outcome}\""));
                let least = match is_said("unknown") {
                    true => DRAIN,
                    false => HOLD,
                };
                unknown += usize::from(is_said("unknown"));
                let is_told = is_said("unknown") || is_said("not-attempted");
                assert!(is_told && push.lasted >= least, "{push:?}");
            }
        }
    }
    // What can be under way: one write of each writer at each switch.
    let most = REGIONS.len() * WRITERS * NEXT.len();
    assert!(unknown <= most, "{unknown} of {}", pushed.len());
    let last_term = places.keys().next_back().expect("writes").0;
    for (revision, marker) in &places {
        let (epoch, place) = *revision;
        if epoch == last_term {
            continue;
        }
        let sealed = terms.sealed.get(&epoch);
        let sealed = sealed.unwrap_or_else(|| panic!("nobody has sealed term {epoch}"));
        assert!(
            (epoch, place) <= *sealed,
            "{marker} at {revision:?}, sealed at {sealed:?}"
        );
        let on = terms.parents.get(&(epoch + 1));
        assert_eq!(on, Some(sealed), "term {} was made on it", epoch + 1);
    }
}

/// The longest time without an answered write, some of it around `at`.
fn gap(pushed: &[Pushed], at: SystemTime) -> Duration {
    let mut times: Vec<SystemTime> = pushed.iter().map(|push| push.ended).collect();
    times.sort();
    let around = |(one, next): &(&SystemTime, &SystemTime)| {
        **next + SPACING / 3 > at && **one < at + SPACING / 3
    };
    let pairs = times.iter().zip(times.iter().skip(1)).filter(around);
    let gaps = pairs.filter_map(|(one, next)| next.duration_since(*one).ok());
    gaps.max().expect("writes around the switch")
}

fn look_at_all(nodes: &[Node], terms: &mut Terms) {
    for node in nodes {
        terms.look(&node.slot());
    }
}

#[test]
fn planned_switches_lose_no_write_and_disturb_no_client() {
    let _turn = writers::turn();
    let nodes = three();
    let mut records = Records::timed(&nodes, "au", PATIENT);
    for node in &nodes {
        records.import(node);
    }
    nodes[0].wait("the first primary", |slot| slot["phase"] == "active");
    let mut admin = nodes[0].admin();
    let first = admin.push(&content(1)).expect("an answer");
    assert_eq!(
        (first.status, first.revision.as_deref()),
        (200, Some("1-1")),
        "{}",
        first.body
    );
    for node in &nodes {
        node.wait("the first content", |slot| slot["head"] == "1-1");
    }
    let followers = nodes.each_ref().map(|node| Follower::start(node, LAST));
    let sockets = nodes.each_ref().map(|node| websocket(&node.relay));

    let start = from_now(Duration::from_secs(3));
    let switches: Vec<SystemTime> = (0..3).map(|number| start + SPACING * number).collect();
    for (at, to) in switches.iter().zip(NEXT) {
        records.switch(to, *at);
    }
    // One node is told; it tells the others.
    records.import(&nodes[1]);
    let begun = SystemTime::now();
    let writers = Writer::start_all(&nodes);
    let mut terms = Terms::default();
    let end = switches[2] + SPACING / 2;
    while SystemTime::now() < end {
        look_at_all(&nodes, &mut terms);
    }
    let pushed: Vec<Pushed> = writers.into_iter().flat_map(Writer::stop).collect();
    look_at_all(&nodes, &mut terms);
    none_is_lost(&pushed, &terms);
    let lasted = end
        .duration_since(begun)
        .expect("an end after the beginning");
    let rate = pushed.len() as f64 / lasted.as_secs_f64();
    for (at, to) in switches.iter().zip(NEXT) {
        let gap = gap(&pushed, *at);
        println!("to {to}: longest gap {} ms", gap.as_millis());
        assert!(gap < GAP_MAX, "to {to}: {gap:?} without an answer");
    }
    println!("{} writes, {rate:.0} a second", pushed.len());

    let last = admin.push(&content(LAST)).expect("an answer");
    assert_eq!(last.status, 200, "{}", last.body);
    let head = last.revision.expect("a revision");
    assert_eq!(revision_of(Some(&head)).0, 4, "three switches later");
    for (node, region) in nodes.iter().zip(REGIONS) {
        node.wait("the last content", |slot| slot["head"] == head.as_str());
        let (_, served) = document(node.relay.address).expect("a document");
        assert_eq!(marker(&served), LAST, "{region}");
    }
    undisturbed(&pushed, followers, sockets);
    nodes[2].wait_until_all_agree();
    for node in nodes {
        assert!(node.relay.stop().success());
    }
}

/// What clients saw is what was pushed, in the order of its revisions, over one connection.
fn undisturbed(
    pushed: &[Pushed],
    followers: [Follower; 3],
    sockets: [crate::stream::WebSocket; 3],
) {
    let mut revisions: BTreeMap<usize, Option<(u64, u64)>> = pushed
        .iter()
        .map(|push| (push.marker, push.revision))
        .collect();
    revisions.extend([(1, Some((1, 1))), (LAST, Some((u64::MAX, 0)))]);
    for follower in followers {
        let (node, seen) = follower.seen();
        let known = |marker| *revisions.get(marker).expect("what somebody pushed");
        let places: Vec<(u64, u64)> = seen.iter().filter_map(known).collect();
        assert!(places.is_sorted(), "{node}: {places:?}");
        assert!(places.len() > 10, "{node} followed nothing: {places:?}");
    }
    for socket in sockets {
        assert!(changes(socket) > 0);
    }
}
