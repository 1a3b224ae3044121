//! Replicas: several relays in memory, through switches, cuts and restarts.

use std::io::Error;
use std::path::Path;
use std::rc::Rc;

use futures_lite::future::poll_once;

use crate::model::region::{Head, Phase, SubjectStatus};
use crate::model::report::ReportKind;
use crate::model::{Revision, SlotIndex, SlotKey, Source};
use crate::net::connection::Door;
use crate::net::disk::{DiskError, Step};
use crate::net::follow;
use crate::net::pipe::End;
use crate::net::region::rig::{PEER_KEY, Sites, document};
use crate::net::region::{now, store};
use crate::net::rig::content;
use crate::state::region::SubjectIndex;
use crate::state::spool::Outcome;
use crate::time::Duration;
use crate::wire::seed::Seed;

const NAMES: [&str; 3] = ["au-1", "eu-1", "us-1"];
const AU: usize = 0;
const EU: usize = 1;
const US: usize = 2;
const SLOT: SlotIndex = SlotIndex(0);
const SECOND: Duration = Duration::from_secs(1);
/// What hangs is given up by then.
const OUTAGE: Duration = Duration::from_secs(20);
/// Twenty seconds after the beginning, `eu-1` is primary.
const SWITCH: &str = r#"{ "at": "2027-01-15T08:00:20Z", "to": "r-eu-1", "epoch": 6 }"#;

/// Three relays of one record, the first of which is primary; what they have to ask is asked.
fn sites(test: &str, switches: &str) -> Sites {
    let sites = Sites::new(test, &NAMES);
    for index in 0..NAMES.len() {
        sites.bring(index, &document(1, &NAMES, switches)).unwrap();
    }
    sites.advance(SECOND * 2);
    sites
}

/// Pushes to `c/e` by way of a relay; the status of the answer.
fn push(sites: &Sites, index: usize, marker: &str) -> String {
    let body = content(marker);
    let request = format!(
        "PUT /v1/slots/c/e HTTP/1.1\r\nHost: r\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut client = sites.connect(index, Door::AdminLocal);
    sites.send(&mut client, request.as_bytes());
    sites.advance(Duration::from_millis(300));
    let answer = sites.read(&mut client);
    answer.get(9..12).unwrap_or("none").to_owned()
}

/// What SDKs are given.
fn served(sites: &Sites, index: usize) -> Option<String> {
    let request = b"GET /apprapp/feature/v1/instances/g-1/config?action=sdkConfig\
        &environment_id=e&collection_id=c HTTP/1.1\r\nHost: r\r\nAuthorization: secret\r\n\r\n";
    let answer = sites.ask(index, Door::Sdk, request);
    let (_, value) = answer.split_once("\"value\":\"")?;
    Some(value.split('"').next()?.to_owned())
}

fn all_serve(sites: &Sites, marker: &str) -> bool {
    let serves = |index| served(sites, index).as_deref() == Some(marker);
    (0..NAMES.len()).all(serves)
}

/// Revision and parent as each relay tells them of `c/e`.
fn heads(sites: &Sites) -> Vec<String> {
    let head = |index| {
        let head = stands(sites, index).head;
        format!("{} {}", head.revision, head.parent)
    };
    (0..NAMES.len()).map(head).collect()
}

fn stands(sites: &Sites, index: usize) -> SubjectStatus {
    let driver = sites.driver(index);
    let region = driver.region.as_ref().unwrap();
    let mut status = region.routing.borrow().status(now(&driver));
    status.subjects.remove(0)
}

/// Whom a relay follows for `c/e`.
fn follows(sites: &Sites, index: usize) -> Option<String> {
    super::writer_of(&sites.driver(index), SLOT).map(|node| node.to_string())
}

/// Whether a relay's session for `c/e` has all that there is.
fn is_live(sites: &Sites, index: usize) -> bool {
    let driver = sites.driver(index);
    let state = driver.state.borrow();
    let session = state.sessions.of(SLOT);
    session.is_some_and(|session| session.is_live())
}

/// An event stream for `c/e` that has been greeted.
fn subscriber(sites: &Sites, index: usize) -> End {
    let subscribe = b"GET /apprapp/feature/v1/instances/g-1/environments/e/sse/subscribe?\
        collection_id=c HTTP/1.1\r\nHost: r\r\nAuthorization: secret\r\n\r\n";
    sites.driver(index).state.borrow_mut().fanout.open();
    let mut client = sites.connect(index, Door::Sdk);
    sites.send(&mut client, subscribe);
    sites.read(&mut client);
    client
}

/// The events that have come since the last call, by the markers of their content.
fn heard(sites: &Sites, client: &mut End) -> Vec<String> {
    let text = sites.read(client);
    let events = text
        .split("\"value\\\":\\\"")
        .flat_map(|text| text.split("\"value\":\""))
        .skip(1);
    let marker = |event: &str| event.split(['"', '\\']).next().unwrap_or("").to_owned();
    events.map(marker).collect()
}

#[test]
fn replicas_serve_what_the_primary_took_and_clients_hear_of_changes_only() {
    let sites = sites("replica-follow", "");
    assert_eq!(follows(&sites, AU), None);
    for replica in [EU, US] {
        assert_eq!(follows(&sites, replica).as_deref(), Some("au-1"));
    }
    assert_eq!(push(&sites, AU, "one"), "200");
    assert!(all_serve(&sites, "one"));
    assert_eq!(heads(&sites), ["5-1 0-0"; 3]);
    assert!(is_live(&sites, EU) && !is_live(&sites, AU));
    let mut client = subscriber(&sites, EU);
    assert_eq!(push(&sites, AU, "two"), "200");
    assert_eq!(heard(&sites, &mut client), ["two"]);
    assert_eq!(push(&sites, AU, "two"), "200");
    sites.cut(AU, EU);
    sites.advance(SECOND * 5);
    sites.heal();
    sites.advance(SECOND * 5);
    assert!(heard(&sites, &mut client).is_empty());
    assert_eq!(heads(&sites), ["5-2 0-0"; 3]);
}

#[test]
fn a_slot_follows_the_next_primary_which_had_all_before_it_began() {
    let sites = sites("replica-switch", SWITCH);
    assert_eq!(push(&sites, AU, "one"), "200");
    let mut client = subscriber(&sites, US);
    let phase = |index| stands(&sites, index).phase;
    while phase(EU) != Phase::Active {
        sites.advance(Duration::from_millis(10));
        let (head, phase) = (stands(&sites, EU).head, phase(EU));
        assert!(phase != Phase::Active || head.revision.to_string() == "5-1");
    }
    assert!(!stands(&sites, EU).is_taken_over_unsealed);
    sites.advance(SECOND * 2);
    assert_eq!(follows(&sites, EU), None, "it is the writer itself");
    assert_eq!(follows(&sites, AU).as_deref(), Some("eu-1"));
    assert_eq!(follows(&sites, US).as_deref(), Some("eu-1"));
    assert!(
        heard(&sites, &mut client).is_empty(),
        "a switch changes no content"
    );
    assert_eq!(push(&sites, EU, "two"), "200");
    assert!(all_serve(&sites, "two"));
    assert_eq!(heads(&sites), ["6-1 5-1"; 3]);
    assert_eq!(heard(&sites, &mut client), ["two"]);
}

#[test]
fn nobody_has_a_socket_to_itself() {
    let sites = sites("replica-self", SWITCH);
    let sessions = |index: usize| {
        let driver = sites.driver(index);
        let state = driver.state.borrow();
        !state.sessions.is_empty()
    };
    assert!(!sessions(AU) && sessions(EU) && sessions(US));
    sites.advance(SECOND * 22);
    assert!(sessions(AU) && !sessions(EU) && sessions(US));
}

#[test]
fn what_the_winner_was_not_built_on_is_an_orphan() {
    let sites = sites("replica-fork", SWITCH);
    assert_eq!(push(&sites, AU, "one"), "200");
    sites.cut(AU, EU);
    sites.cut(AU, US);
    assert_eq!(push(&sites, AU, "lost"), "200");
    assert_eq!(served(&sites, US).as_deref(), Some("one"));
    sites.advance(SECOND * 22);
    assert!(stands(&sites, EU).is_taken_over_unsealed);
    assert_eq!(push(&sites, EU, "two"), "200");
    assert_eq!(served(&sites, AU).as_deref(), Some("lost"));
    let mut client = subscriber(&sites, AU);
    sites.heal();
    sites.advance(OUTAGE);
    assert!(all_serve(&sites, "two"));
    assert_eq!(heads(&sites), ["6-1 5-1"; 3]);
    assert_eq!(heard(&sites, &mut client), ["two"]);
    let orphans: Vec<u64> = (0..3).map(|index| stands(&sites, index).orphans).collect();
    assert_eq!(orphans, [1, 0, 0]);
}

#[test]
fn a_term_without_a_seal_is_known_everywhere_before_its_first_write() {
    let sites = sites("replica-unsealed", SWITCH);
    assert_eq!(push(&sites, AU, "one"), "200");
    sites.stop(AU);
    sites.advance(SECOND * 22);
    sites.restart(AU);
    sites.advance(SECOND * 3);
    assert_eq!(heads(&sites), ["6-0 5-1"; 3]);
    assert!(all_serve(&sites, "one"));
}

#[test]
fn a_replica_that_starts_again_has_what_it_had_and_catches_up() {
    let sites = sites("replica-restart", "");
    assert_eq!(push(&sites, AU, "one"), "200");
    sites.stop(EU);
    assert_eq!(push(&sites, AU, "two"), "200");
    sites.cut(AU, EU);
    sites.restart(EU);
    assert_eq!(served(&sites, EU).as_deref(), Some("one"));
    let head = stands(&sites, EU).head;
    assert_eq!(head.revision.to_string(), "5-1");
    sites.heal();
    sites.advance(OUTAGE);
    assert!(all_serve(&sites, "two"));
}

#[test]
fn sites_that_had_seeds_of_their_own_come_to_the_primarys_and_keep_no_orphans() {
    let sites = Sites::new("replica-seeds", &NAMES);
    for (index, name) in NAMES.into_iter().enumerate() {
        let driver = sites.driver(index);
        let text = content(name);
        let seed = Seed::parse(text.as_bytes(), &driver.limits).unwrap();
        let snapshot = seed.snapshot(&SlotKey::parse("c/e").unwrap(), &driver.limits);
        driver.publish(SLOT, Rc::new(snapshot.unwrap()), Source::Seed);
        store::handle_content(&driver, SLOT);
        assert_eq!(served(&sites, index).as_deref(), Some(name));
    }
    for index in 0..NAMES.len() {
        sites.bring(index, &document(1, &NAMES, "")).unwrap();
    }
    sites.advance(SECOND * 2);
    assert!(all_serve(&sites, "au-1"));
    assert_eq!(heads(&sites), ["0-1 0-0"; 3]);
    let orphans: Vec<u64> = (0..3).map(|index| stands(&sites, index).orphans).collect();
    assert_eq!(orphans, [0; 3]);
    assert_eq!(push(&sites, EU, "one"), "200");
    assert_eq!(heads(&sites), ["5-1 0-1"; 3]);
}

#[test]
fn what_cannot_be_kept_is_not_served_and_is_tried_again() {
    let sites = sites("replica-disk", "");
    assert_eq!(push(&sites, AU, "one"), "200");
    let driver = sites.driver(EU);
    let fail =
        |path: &Path, _: &[u8]| Err(DiskError::new(Step::Write, path, &Error::other("full")));
    let write = std::mem::replace(&mut driver.keep.borrow_mut().write, fail);
    assert_eq!(push(&sites, AU, "two"), "200");
    sites.advance(SECOND * 2);
    assert_eq!(served(&sites, EU).as_deref(), Some("one"));
    assert_eq!(heads(&sites), ["5-2 0-0", "5-1 0-0", "5-2 0-0"]);
    assert!(!is_live(&sites, EU));
    driver.keep.borrow_mut().write = write;
    sites.advance(SECOND * 5);
    assert!(all_serve(&sites, "two") && is_live(&sites, EU));
}

#[test]
fn what_is_to_be_adopted_is_answered_though_its_fetch_was_given_up() {
    let sites = sites("replica-given-up", "");
    let driver = sites.driver(EU);
    let (text, key) = (content("one"), SlotKey::parse("c/e").unwrap());
    let seed = Seed::parse(text.as_bytes(), &driver.limits).unwrap();
    let snapshot = seed.snapshot(&key, &driver.limits).unwrap();
    let there = Head {
        revision: Revision { epoch: 5, seq: 1 },
        digest: snapshot.digest,
        parent: Revision::default(),
    };
    let task = driver.clone();
    driver.spawn(async move {
        let offer = super::offer(&task, SLOT, SubjectIndex(0), snapshot, there);
        assert!(poll_once(offer).await.is_none());
    });
    sites.settle();
    assert_eq!(stands(&sites, EU).head, there);
    assert_eq!(served(&sites, EU).as_deref(), Some("one"));
}

/// Reports usage of `c/e` for a relay; what came of it.
fn report(sites: &Sites, index: usize) -> Outcome {
    let body = r#"{"collection_id":"c","environment_id":"e","usages":[{"feature_id":"f",
        "entity_id":"u","segment_id":null,"evaluation_time":"2027-01-15T08:00:00Z","count":3}]}"#;
    let (done, outcome) = smol::channel::bounded(1);
    let driver = sites.driver(index);
    let task = driver.clone();
    driver.spawn(async move {
        let outcome = follow::report(&task, ReportKind::Usage, body.into()).await;
        done.try_send(outcome).unwrap();
    });
    sites.settle();
    outcome.try_recv().unwrap()
}

fn reports(sites: &Sites, index: usize) -> u64 {
    let driver = sites.driver(index);
    let state = driver.state.borrow();
    state.events.counts(ReportKind::Usage).reports
}

#[test]
fn reports_of_a_node_without_an_upstream_go_to_the_writer_that_has_one() {
    let names = ["up-1", "eu-1", "us-1"];
    let switch = SWITCH.replace("r-eu-1", "r-us-1");
    let sites = Sites::new("replica-events", &names);
    for index in 0..names.len() {
        sites.bring(index, &document(1, &names, &switch)).unwrap();
    }
    let lets_go = |index| follow::lets_go(&sites.driver(index));
    sites.advance(SECOND * 2);
    assert_eq!(report(&sites, EU), Outcome::Delivered);
    assert_eq!([AU, EU, US].map(|index| reports(&sites, index)), [1, 0, 0]);
    assert!(![AU, EU, US].map(lets_go).contains(&true));
    sites.advance(SECOND * 20);
    assert_eq!(follows(&sites, EU).as_deref(), Some("us-1"));
    for waits in [EU, US] {
        assert_eq!(report(&sites, waits), Outcome::Later(None), "{waits}");
    }
    assert_eq!([AU, EU, US].map(|index| reports(&sites, index)), [1, 0, 0]);
}

#[test]
fn where_no_node_delivers_reports_are_let_go() {
    let sites = Sites::new("replica-isolated", &NAMES);
    let lets_go = |index| follow::lets_go(&sites.driver(index));
    assert_eq!([AU, EU, US].map(lets_go), [false; 3], "nobody was heard");
    sites.stop(US);
    for index in [AU, EU] {
        sites.bring(index, &document(1, &NAMES, "")).unwrap();
    }
    sites.advance(SECOND * 2);
    assert_eq!([AU, EU].map(lets_go), [false; 2], "us-1 may have one");
    sites.restart(US);
    sites.advance(SECOND * 8);
    assert_eq!([AU, EU].map(lets_go), [true; 2]);
}

#[test]
fn a_wrong_peer_key_is_no_key_to_the_socket() {
    let sites = sites("replica-key", "");
    let upgrade = |key: &str| {
        format!(
            "GET /apprapp/wsfeature?instance_id=g-1&collection_id=c&environment_id=e HTTP/1.1\r\n\
             Host: r\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer {key}\r\n\r\n"
        )
    };
    assert!(!push(&sites, AU, "one").is_empty());
    let open = sites.ask(AU, Door::Sdk, upgrade(PEER_KEY).as_bytes());
    assert!(open.starts_with("HTTP/1.1 101 "), "{open}");
    let other = PEER_KEY.to_uppercase();
    let closed = sites.ask(AU, Door::Sdk, upgrade(&other).as_bytes());
    assert!(closed.starts_with("HTTP/1.1 401 "), "{closed}");
    let index = SubjectIndex(0);
    let driver = sites.driver(AU);
    let region = driver.region.as_ref().unwrap();
    assert_eq!(region.routing.borrow().phase(index), Some(Phase::Active));
}
