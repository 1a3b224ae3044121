//! Pushes through the admin listener of a driver in memory, its disk a folder or a model of one.

use super::*;
use crate::net::connection::Door;
use crate::net::disk::crash_tests::{Model, Operation};
use crate::net::disk::scratch::Scratch;
use crate::net::disk::{Access, DiskError, Failing, write_on};
use crate::net::notify::Notify;
use crate::net::pipe::End;
use crate::net::rig::{Rig, content, snapshot};
use crate::state::slots::Adoption;
use crate::wire::keep as record;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const LIMITS: &Limits = &Limits::PRODUCTION;
const FIRST: SlotIndex = SlotIndex(0);

/// A relay whose slot `c/e` is the operator's, and `c/f` is not.
fn relay_of(limits: Limits, folder: &Path) -> Rig {
    let folder = folder.to_owned();
    let rig = Rig::with(limits, Notify::default(), |config| {
        config.state_dir = Some(folder);
        config.operator_slots.insert(config.slots[0].clone());
    });
    let driver = rig.driver.clone();
    rig.driver.spawn(async move {
        keep::open(&driver, keep::Use::Remember).await.unwrap();
    });
    rig.settle();
    rig
}

fn relay(folder: &Path) -> Rig {
    relay_of(LIMITS.clone(), folder)
}

/// Ends a relay: its folder is free again.
fn stop(rig: Rig) {
    drop(rig.driver.keep.take());
}

fn head(fields: &str) -> String {
    format!("PUT /v1/slots/c/e HTTP/1.1\r\nHost: r\r\n{fields}")
}

fn whole(fields: &str, body: &[u8]) -> Vec<u8> {
    let length = format!("Content-Length: {}\r\n\r\n", body.len());
    [head(fields).as_bytes(), length.as_bytes(), body].concat()
}

fn put(rig: &Rig, fields: &str, body: &[u8]) -> String {
    let mut client = rig.connect_by(Door::AdminLocal, 16 << 20);
    rig.exchange(&mut client, &whole(fields, body)).0
}

fn push(rig: &Rig, marker: &str) -> String {
    put(rig, "", content(marker).as_bytes())
}

fn ask(rig: &Rig, line: &str) -> String {
    let mut client = rig.connect(Door::AdminLocal);
    let request = format!("{line} HTTP/1.1\r\nHost: r\r\n\r\n");
    rig.exchange(&mut client, request.as_bytes()).0
}

fn code(answer: &str) -> &str {
    answer.get(9..12).unwrap_or("none")
}

fn etag(answer: &str) -> Option<&str> {
    let line = answer.lines().find_map(|line| line.strip_prefix("etag: "));
    line.map(|tag| tag.trim_matches('"'))
}

/// What SDKs are given: the marker and where it came from.
fn served(rig: &Rig) -> Option<(String, String)> {
    let mut client = rig.connect(Door::Sdk);
    let request = b"GET /apprapp/feature/v1/instances/g-1/config?action=sdkConfig\
        &environment_id=e&collection_id=c HTTP/1.1\r\nHost: r\r\nAuthorization: secret\r\n\r\n";
    let (answer, _) = rig.exchange(&mut client, request);
    let (_, value) = answer.split_once("\"value\":\"")?;
    let lower = answer.to_ascii_lowercase();
    let (_, source) = lower.split_once("x-config-source: ")?;
    Some((
        value.split('"').next()?.to_owned(),
        source.split('\r').next()?.to_owned(),
    ))
}

fn serves(rig: &Rig, marker: &str, source: Source) -> bool {
    served(rig) == Some((marker.to_owned(), source.as_str().to_owned()))
}

#[test]
fn a_push_is_kept_and_served_and_survives_a_restart() {
    let scratch = Scratch::new("push-restart");
    let rig = relay(scratch.folder());
    let empty = ask(&rig, "GET /v1/slots/c/e");
    assert_eq!((code(&empty), etag(&empty)), ("404", None), "{empty}");
    let answer = push(&rig, "one");
    assert_eq!((code(&answer), etag(&answer)), ("200", Some("0-1")));
    assert!(answer.contains(r#""outcome":"applied""#), "{answer}");
    assert!(serves(&rig, "one", Source::Operator));
    let written = fs::read(scratch.path("live/c@e.slot")).unwrap();
    let again = push(&rig, "one");
    assert_eq!((code(&again), etag(&again)), ("200", Some("0-1")));
    assert!(again.contains(r#""outcome":"unchanged""#), "{again}");
    assert_eq!(fs::read(scratch.path("live/c@e.slot")).unwrap(), written);
    push(&rig, "two");
    let shown = ask(&rig, "GET /v1/slots/c/e");
    assert!(
        shown.contains("\"two\"") && etag(&shown) == Some("0-2"),
        "{shown}"
    );
    let (head, body) = (ask(&rig, "HEAD /v1/slots/c/e"), shown.len());
    assert!(code(&head) == "200" && etag(&head) == Some("0-2") && head.len() < body);
    stop(rig);

    // A normal start: nobody else has it.
    let rig = relay(scratch.folder());
    assert!(serves(&rig, "two", Source::Cache));
    let told = crate::net::admin::status::collect(&rig.driver);
    let serves = told.slots[0].serves.as_ref().unwrap();
    assert_eq!(serves.revision.as_deref(), Some("0-2"));
    assert_eq!(serves.pushed_at.as_deref(), Some("2027-01-15T08:00:00Z"));
    let answer = put(&rig, "If-Match: \"0-2\"\r\n", content("three").as_bytes());
    assert_eq!(etag(&answer), Some("0-3"));
}

#[test]
fn subscribers_are_told() {
    let scratch = Scratch::new("push-stream");
    let rig = relay(scratch.folder());
    rig.driver.state.borrow_mut().fanout.open();
    let mut stream = rig.connect(Door::Sdk);
    let subscribe = b"GET /apprapp/feature/v1/instances/g-1/environments/e/sse/subscribe?\
        collection_id=c HTTP/1.1\r\nHost: r\r\nAuthorization: secret\r\n\r\n";
    rig.exchange(&mut stream, subscribe);
    push(&rig, "one");
    let (told, _) = rig.read(&mut stream);
    assert!(String::from_utf8_lossy(&told).contains("\"one\""));
}

#[test]
fn every_form_of_a_body_gives_the_same() {
    let scratch = Scratch::new("push-forms");
    let rig = relay(scratch.folder());
    let text = content("form");
    let gzip = gzip::compress(text.as_bytes());
    let chunked = |body: &[u8]| {
        let mut chunks = Vec::new();
        for piece in body.chunks(7) {
            chunks.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            chunks.extend_from_slice(piece);
            chunks.extend_from_slice(b"\r\n");
        }
        chunks.extend_from_slice(b"0\r\n\r\n");
        chunks
    };
    let framed = |fields: &str, body: Vec<u8>| {
        let fields = head(&format!("{fields}Transfer-Encoding: chunked\r\n\r\n"));
        [fields.as_bytes(), &body].concat()
    };
    let packed = "Content-Encoding: gzip\r\n";
    let mut digests = BTreeSet::new();
    for request in [
        whole("", text.as_bytes()),
        whole("Content-Encoding: identity\r\n", text.as_bytes()),
        whole(packed, &gzip),
        framed("", chunked(text.as_bytes())),
        framed(packed, chunked(&gzip)),
        framed("Content-Encoding: X-GZip\r\n", chunked(&gzip)),
    ] {
        push(&rig, "between");
        let mut client = rig.connect(Door::AdminLocal);
        let (answer, _) = rig.exchange(&mut client, &request);
        assert_eq!(code(&answer), "200", "{answer}");
        assert!(answer.contains("applied"), "{answer}");
        let state = rig.driver.state.borrow();
        let held = state.slots.of(FIRST).unwrap().held.as_ref().unwrap();
        digests.insert((held.snapshot.digest.to_string(), held.snapshot.json.clone()));
    }
    assert_eq!(digests.len(), 1);
}

/// Status, a part of the text, and the request.
fn refusals() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let good = content("good");
    let good = good.as_bytes();
    let bad = content("bad").replace("STRING", "COLOUR");
    let other = content("bad").replace("\"c\"", "\"d\"");
    let bomb = gzip::compress(&vec![b' '; LIMITS.push_bytes_max + 1]);
    let long = vec![b' '; LIMITS.push_bytes_max + 1];
    let chunk = format!("{:x}\r\n", long.len());
    let endless = head("Transfer-Encoding: chunked\r\n\r\n");
    let endless = [endless.as_bytes(), chunk.as_bytes(), &long].concat();
    let to = |path: &str| {
        let text = String::from_utf8(whole("", good)).unwrap();
        text.replace("/v1/slots/c/e", path).into_bytes()
    };
    let gzip = "Content-Encoding: gzip\r\n";
    vec![
        ("422", "COLOUR", whole("", bad.as_bytes())),
        ("422", "no collection `c`", whole("", other.as_bytes())),
        (
            "422",
            "ends in the middle",
            whole("", &good[..good.len() / 2]),
        ),
        ("422", "empty", whole("", b"")),
        ("412", "0-1", whole("If-Match: \"0-0\"\r\n", good)),
        ("412", "0-1", whole("If-Match: \"0-2\"\r\n", good)),
        ("412", "0-1", whole("If-None-Match: *\r\n", good)),
        ("400", "in quotes", whole("If-Match: 0-1\r\n", good)),
        (
            "400",
            "two If-Match",
            whole("If-Match: \"0-1\"\r\nIf-Match: *\r\n", good),
        ),
        ("413", "4194304", whole("", &long)),
        ("413", "4194304", endless),
        ("413", "4194304", whole(gzip, &bomb)),
        ("400", "gzip", whole(gzip, good)),
        ("415", "gzip", whole("Content-Encoding: br\r\n", good)),
        ("409", "is filled by the seed", to("/v1/slots/c/f")),
        ("404", "c/g", to("/v1/slots/c/g")),
        ("404", "COLLECTION", to("/v1/slots/c")),
        ("404", "COLLECTION", to("/v1/slots/c/e/")),
    ]
}

#[test]
fn what_is_refused_changes_neither_what_is_served_nor_the_disk() {
    let scratch = Scratch::new("push-refused");
    let rig = relay(scratch.folder());
    push(&rig, "kept");
    let path = scratch.path("live/c@e.slot");
    let (written, names) = (fs::read(&path).unwrap(), scratch.names());
    for (status, part, request) in refusals() {
        let mut client = rig.connect_by(Door::AdminLocal, 16 << 20);
        let (answer, _) = rig.exchange(&mut client, &request);
        assert_eq!(code(&answer), status, "{part}: {answer}");
        assert!(answer.contains(part), "{part}: {answer}");
        if status == "412" {
            assert_eq!(etag(&answer), Some("0-1"), "{answer}");
        }
        rig.advance(LIMITS.save_retry_max);
        assert!(serves(&rig, "kept", Source::Operator), "{part}");
        assert_eq!(fs::read(&path).unwrap(), written, "{part}");
        assert_eq!(scratch.names(), names, "{part}");
    }
    assert_eq!(etag(&ask(&rig, "GET /v1/slots/c/e")), Some("0-1"));
    let state = rig.driver.state.borrow();
    assert!(state.slots.of(FIRST).unwrap().refusal.is_none());
    assert!(state.counters.pushes == 1 && state.counters.pushes_refused > 10);
}

#[test]
fn over_tcp_reading_and_pushing_need_the_token() {
    let scratch = Scratch::new("push-token");
    let rig = relay(scratch.folder());
    push(&rig, "one");
    for line in ["GET /v1/slots/c/e", "PUT /v1/slots/c/e"] {
        let mut client = rig.connect(Door::AdminTcp);
        let request = format!("{line} HTTP/1.1\r\nHost: r\r\nContent-Length: 0\r\n\r\n");
        let (answer, _) = rig.exchange(&mut client, request.as_bytes());
        assert_eq!(code(&answer), "403", "{answer}");
        assert!(!answer.contains("\"one\""));
    }
    let mut client = rig.connect(Door::Sdk);
    let (answer, _) = rig.exchange(&mut client, &whole("Authorization: secret\r\n", b"{}"));
    assert_eq!(code(&answer), "404", "not for SDKs: {answer}");
}

/// Of pushes that arrive together, each sees what the one before it left.
#[test]
fn pushes_take_turns_and_too_many_are_told_to_come_back() {
    let scratch = Scratch::new("push-turns");
    let limits = Limits {
        pushes_max: 3,
        ..LIMITS.clone()
    };
    let rig = relay_of(limits, scratch.folder());
    push(&rig, "first");
    let mut clients: Vec<End> = (0..5).map(|_| rig.connect(Door::AdminLocal)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let body = content(&number.to_string());
        let request = whole("If-Match: \"0-1\"\r\n", body.as_bytes());
        client.write(&[std::io::IoSlice::new(&request)]).unwrap();
    }
    rig.settle();
    let answers = clients.iter_mut().map(|client| {
        let (answer, _) = rig.read(client);
        String::from_utf8(answer).unwrap()
    });
    let mut codes: Vec<String> = Vec::new();
    for answer in answers {
        if code(&answer) == "503" {
            assert!(answer.contains("\r\nretry-after: 5\r\n"), "{answer}");
        }
        codes.push(code(&answer).to_owned());
    }
    codes.sort();
    assert_eq!(codes.iter().filter(|code| *code == "200").count(), 1);
    assert!(
        codes
            .iter()
            .all(|code| ["200", "412", "503"].contains(&code.as_str())),
        "{codes:?}"
    );
    assert_eq!(etag(&ask(&rig, "GET /v1/slots/c/e")), Some("0-2"));
}

#[test]
fn bodies_that_wait_have_their_own_bounded_room() {
    let scratch = Scratch::new("push-room");
    let limits = Limits {
        pushes_bytes_max: 10_000,
        ..LIMITS.clone()
    };
    let rig = relay_of(limits, scratch.folder());
    let mut stalled = rig.connect(Door::AdminLocal);
    let half = [&whole("", &[b' '; 9_000])[..9_000]].concat();
    assert_eq!(rig.exchange(&mut stalled, &half).0, "");
    let answer = push(&rig, &"x".repeat(2_000));
    assert_eq!(code(&answer), "503", "{answer}");
    drop(stalled);
    rig.settle();
    assert_eq!(code(&push(&rig, &"x".repeat(2_000))), "200");
}

#[test]
fn a_seed_fills_the_slot_until_something_is_pushed() {
    let scratch = Scratch::new("push-seed");
    let rig = relay(scratch.folder());
    rig.driver
        .publish(FIRST, Rc::new(snapshot("seed")), Source::Seed);
    rig.settle();
    let shown = ask(&rig, "GET /v1/slots/c/e");
    assert_eq!(etag(&shown), Some("0-1"), "{shown}");
    rig.driver
        .publish(FIRST, Rc::new(snapshot("newer")), Source::Seed);
    let stale = put(&rig, "If-Match: \"0-1\"\r\n", content("pushed").as_bytes());
    assert_eq!(code(&stale), "412", "the seed was replaced meanwhile");
    let answer = put(&rig, "If-Match: \"0-2\"\r\n", content("pushed").as_bytes());
    assert_eq!(etag(&answer), Some("0-3"));
    assert!(
        kept(&scratch).contains("\"pushed\""),
        "over the seed that was kept"
    );
    rig.driver
        .publish(FIRST, Rc::new(snapshot("newest")), Source::Seed);
    rig.settle();
    assert!(serves(&rig, "pushed", Source::Operator));
}

fn kept(scratch: &Scratch) -> String {
    fs::read_to_string(scratch.path("live/c@e.slot")).unwrap()
}

thread_local! {
    static DRIVER: RefCell<Option<Rc<Driver>>> = const { RefCell::new(None) };
}

/// A disk that takes so long that a seed comes meanwhile.
fn overtaken(path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    let driver = DRIVER.take();
    if let Some(driver) = driver {
        let adoption = driver.publish(FIRST, Rc::new(snapshot("seed")), Source::Seed);
        assert_eq!(adoption, Adoption::Superseded);
    }
    crate::net::disk::atomic_write(path, bytes, Access::Private)
}

#[test]
fn a_seed_that_comes_while_a_push_is_kept_gets_neither_its_revision_nor_its_file() {
    let scratch = Scratch::new("push-overtaken");
    let rig = relay(scratch.folder());
    rig.driver
        .publish(FIRST, Rc::new(snapshot("old")), Source::Seed);
    rig.settle();
    rig.driver.keep.borrow_mut().write = overtaken;
    DRIVER.set(Some(rig.driver.clone()));
    assert_eq!(etag(&push(&rig, "pushed")), Some("0-2"));
    assert!(DRIVER.take().is_none(), "the seed came");
    rig.advance(LIMITS.save_retry_max);
    assert!(serves(&rig, "pushed", Source::Operator));
    assert!(kept(&scratch).contains("\"pushed\""));
    assert!(!rig.driver.state.borrow().saves.is_busy());
}

fn failing<const STEP: usize>(path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    let mut medium = Failing(Failing::STEPS[STEP], rustix::io::Errno::NOSPC);
    write_on(&mut medium, path, bytes, Access::Private)
}

#[test]
fn a_push_that_cannot_be_kept_is_not_served() {
    let broken = [
        failing::<0>,
        failing::<1>,
        failing::<2>,
        failing::<3>,
        failing::<4>,
    ];
    for (step, write) in broken.into_iter().enumerate() {
        let scratch = Scratch::new("push-broken");
        let rig = relay(scratch.folder());
        push(&rig, "kept");
        let good = std::mem::replace(&mut rig.driver.keep.borrow_mut().write, write);
        let answer = push(&rig, "lost");
        assert_eq!(code(&answer), "507", "{answer}");
        assert_eq!(etag(&answer), Some("0-1"), "{answer}");
        assert!(serves(&rig, "kept", Source::Operator), "{step}");
        rig.driver.keep.borrow_mut().write = good;
        rig.advance(LIMITS.save_retry_max);
        stop(rig);
        let rig = relay(scratch.folder());
        assert!(serves(&rig, "kept", Source::Cache), "{step}");
        assert_eq!(etag(&push(&rig, "next")), Some("0-2"), "{step}");
    }
}

#[test]
fn without_a_folder_that_can_be_used_nothing_is_taken() {
    let scratch = Scratch::new("push-nowhere");
    let rig = relay(&scratch.path("missing"));
    let answer = push(&rig, "one");
    assert_eq!(code(&answer), "507", "{answer}");
    assert!(answer.contains("missing"), "{answer}");
    assert_eq!(served(&rig), None);
}

thread_local! {
    static DISK: RefCell<Model> = RefCell::default();
}

fn modelled(path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    DISK.with_borrow_mut(|disk| write_on(disk, path, bytes, Access::Private))
}

/// Pushes, and notes among the operations of the disk when 200 was said. The status.
fn push_and_note(rig: &Rig, number: usize) -> String {
    let mut client = rig.connect(Door::AdminLocal);
    let request = whole("", content(&number.to_string()).as_bytes());
    client.write(&[std::io::IoSlice::new(&request)]).unwrap();
    let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
    while rig.step() {
        let Ok(count) = client.read(&mut buffer) else {
            continue;
        };
        if answer.is_empty() && buffer[..count].starts_with(b"HTTP/1.1 200") {
            let said = Operation::Acknowledge(number);
            DISK.with_borrow_mut(|disk| disk.operations.push(said));
        }
        answer.extend_from_slice(&buffer[..count]);
    }
    code(&String::from_utf8(answer).unwrap()).to_owned()
}

/// Cuts the power behind each operation of some pushes, one of which fails at `step`; every record
/// that a machine may then find, with the number of the newest push that was answered 200.
fn cuts(step: Option<crate::net::disk::Step>) -> BTreeSet<(usize, Option<Vec<u8>>)> {
    let scratch = Scratch::new("push-cut");
    let rig = relay(scratch.folder());
    rig.driver.keep.borrow_mut().write = modelled;
    let folder = scratch.path("live");
    DISK.set(Model::default());
    DISK.with_borrow_mut(|disk| disk.make_folder(&folder).unwrap());
    for number in 1..=4 {
        let fails = step.filter(|_| number == 2);
        DISK.with_borrow_mut(|disk| disk.failing = fails);
        let expected = if fails.is_some() { "507" } else { "200" };
        assert_eq!(push_and_note(&rig, number), expected);
        rig.advance(LIMITS.save_retry_max);
    }
    let path = folder.join("c@e.slot");
    let reboots = DISK.take().reboots().into_iter();
    let reboots = reboots.map(|(answered, mut found)| (answered, found.remove(&path)));
    reboots.collect()
}

#[test]
fn a_power_cut_at_any_moment_costs_no_push_that_was_answered() {
    for step in Failing::STEPS.map(Some).into_iter().chain([None]) {
        let cuts = cuts(step);
        assert!(cuts.len() > 4, "{step:?}");
        for (answered, found) in cuts {
            let Some(bytes) = found else {
                assert_eq!(answered, 0, "{step:?}");
                continue;
            };
            let scratch = Scratch::new("push-reboot");
            fs::create_dir(scratch.path("live")).unwrap();
            fs::write(scratch.path("live/c@e.slot"), &bytes).unwrap();
            let rig = relay(scratch.folder());
            let (marker, _) = served(&rig).expect("a whole record");
            let number: usize = marker.parse().unwrap();
            assert!(number >= answered, "{step:?}: {number} {answered}");
            let key = SlotKey::parse("c/e").unwrap();
            let (kept, _) = record::decode(&bytes, &key, LIMITS).unwrap();
            let next = etag(&push(&rig, "next")).unwrap().to_owned();
            assert_eq!(next, kept.past.revision.next().to_string());
            stop(rig);
        }
    }
}
