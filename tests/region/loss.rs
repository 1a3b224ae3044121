//! A primary that is killed: nobody stores in its place before its term is over, and then somebody
//! does, with an alarm; what nobody had fetched comes back as an orphan.

use crate::content::content;
use crate::nodes::{Node, Records, done, from_now, said, three};
use crate::writers::{self, Pushed, Writer, revision_of};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

/// How long after a switch its primary takes over without a seal: guard and grace of the record.
const TAKEOVER: Duration = Duration::from_millis(600);

#[test]
fn a_primary_that_is_killed_is_succeeded_with_an_alarm() {
    let _turn = writers::turn();
    let [au, eu, us] = three();
    let mut records = {
        let nodes = [au, eu, us];
        let records = Records::new(&nodes, "au");
        (records, nodes)
    };
    let nodes = &records.1;
    for node in nodes {
        records.0.import(node);
    }
    nodes[0].wait("the first primary", |slot| slot["phase"] == "active");
    let writers = Writer::start_all(nodes);
    nodes[1].wait("some writes", |slot| {
        revision_of(slot["head"].as_str()).1 > 20
    });
    // Only when all goes: what is left to do before the term is over is to tell of it.
    let at = from_now(Duration::from_secs(6));
    records.0.switch("eu", at);
    records.0.import(&nodes[2]);
    let told = |slot: &Value| slot["next"]["to"] == "eu";
    for node in nodes {
        node.wait("the plan", told);
    }
    nodes[0].relay.signal(Signal::KILL);
    let killed = SystemTime::now();
    assert!(killed < at, "the machine is too slow for this plan");
    let taken = nodes[1].wait("a take-over", |slot| slot["unsealed_takeover"] == true);
    assert!(SystemTime::now() >= at + TAKEOVER, "too early: {taken}");
    nodes[2].wait("writes in the new term", |slot| {
        let (epoch, place) = revision_of(slot["head"].as_str());
        epoch == 2 && place > 20
    });
    let pushed: Vec<Pushed> = writers.into_iter().flat_map(Writer::stop).collect();
    nobody_stored_between(&pushed, killed, at);
    let shown = nodes[1].command(&["region", "show"]);
    assert_eq!(shown.status.code(), Some(1), "{}", said(&shown));
    let shown = said(&shown);
    assert!(
        shown.contains("eu-1 took over in epoch 2 without a word"),
        "{shown}"
    );

    comes_back(records, &pushed);
}

/// Between the kill and the take-over, nobody stored a write. What was begun before the kill may be
/// answered after it, but only by the primary that was: in its own term.
fn nobody_stored_between(pushed: &[Pushed], killed: SystemTime, at: SystemTime) {
    let is_old = |(epoch, _): (u64, u64)| epoch == 1;
    let by_another = |push: &&Pushed| {
        let revision = push.revision;
        revision.is_some_and(|revision| push.began > killed || !is_old(revision))
    };
    let before = pushed.iter().filter(|push| push.ended < at + TAKEOVER);
    let found: Vec<&Pushed> = before.filter(by_another).collect();
    assert!(found.is_empty(), "{found:?}");
    let refused = pushed
        .iter()
        .filter(|push| push.status == Some(503))
        .count();
    let unknown = pushed
        .iter()
        .filter(|push| push.status == Some(504))
        .count();
    println!("refused: {refused}, outcome unknown: {unknown}");
    let revisions: Vec<(u64, u64)> = pushed.iter().filter_map(|push| push.revision).collect();
    let distinct: BTreeSet<&(u64, u64)> = revisions.iter().collect();
    assert_eq!(distinct.len(), revisions.len(), "two writes at one place");
}

/// The old primary learns who has its place, and keeps what nobody had fetched.
fn comes_back((_records, nodes): (Records, [Node; 3]), pushed: &[Pushed]) {
    let parent = revision_of(nodes[1].slot()["head_parent"].as_str());
    let old_term = pushed.iter().filter_map(|push| push.revision);
    let lost = old_term.filter(|revision| revision.0 == 1 && *revision > parent);
    let lost = lost.count();
    println!("made on {parent:?}; {lost} writes of the old term came too late");
    let [au, eu, us] = nodes;
    drop(au.relay);
    let relay = crate::harness::relay::Relay::start(&au.site);
    let au = Node { relay, ..au };
    let head = eu.slot()["head"].clone();
    let back = au.wait("the content of the new term", |slot| {
        slot["head"] == head && slot["phase"] == "replica"
    });
    let orphans = back["orphans"].as_u64().expect("a count");
    assert!(
        lost == 0 || orphans > 0,
        "{lost} writes went without a trace: {back}"
    );
    let mut admin = au.admin();
    let answer = admin.push(&content(7)).expect("an answer");
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(revision_of(answer.revision.as_deref()).0, 2);
    let shown = us.command(&["region", "show"]);
    let table = said(&shown);
    for silent in ["does not answer", "global state"] {
        assert!(!table.contains(silent), "{table}");
    }
    done(&us.command(&["status"]));
}
