//! Pushes to the program that ships, by its own commands and over its admin socket: writers that
//! race, and a process that is killed between them.

use crate::harness::PATIENCE;
use crate::harness::relay::Relay;
use crate::harness::site::{PROGRAM, Site};
use crate::site::{document, marker, seed, site};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;

const WRITERS: usize = 4;
const PUSHES: usize = 1_000;
const KILLS: usize = 30;
/// Turns of an empty loop: about as long as a few pushes take.
const PAUSE_MAX: u64 = 2_000_000;

/// The site of one slot, which is the operator's; no seed.
pub fn operators_site(name: &str) -> Site {
    let mut site = site(name);
    site.config["slots"][0]["source"] = json!("operator");
    site.config
        .as_object_mut()
        .expect("a config")
        .remove("seed");
    site
}

/// A document of the slot with some flags, all of them on.
fn flags(ids: &[&str]) -> Value {
    let feature = |id: &&str| {
        json!({
            "feature_id": id, "name": id, "type": "BOOLEAN", "enabled_value": true,
            "disabled_value": false, "enabled": true, "segment_rules": [],
            "rollout_percentage": 100, "collections": [{ "collection_id": "c" }],
        })
    };
    let mut document = seed(0);
    document["environments"][0]["features"] = ids.iter().map(feature).collect();
    document
}

/// A connection to the admin socket that is kept.
pub struct Admin(BufReader<UnixStream>);

pub struct Answer {
    pub status: u16,
    etag: Option<String>,
    body: Vec<u8>,
}

impl Admin {
    pub fn connect(site: &Site) -> Admin {
        Admin::reach(site).expect("a socket")
    }

    /// None when the relay is gone.
    fn reach(site: &Site) -> Option<Admin> {
        let socket = UnixStream::connect(site.scratch.path("admin.sock")).ok()?;
        socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
        Some(Admin(BufReader::new(socket)))
    }

    /// Sends a request for the slot; no answer when the relay is gone.
    pub fn ask(&mut self, method: &str, fields: &str, body: &[u8]) -> Option<Answer> {
        let length = body.len();
        let head = format!(
            "{method} /v1/slots/c/e HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: {length}\r\n\r\n"
        );
        let request = [head.as_bytes(), body].concat();
        self.0.get_mut().write_all(&request).ok()?;
        let mut answer = Answer {
            status: 0,
            etag: None,
            body: Vec::new(),
        };
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).ok().filter(|read| *read > 0)?;
            match line.trim_end().split_once(": ") {
                Some(("etag", tag)) => answer.etag = Some(tag.to_owned()),
                Some(("content-length", digits)) => length = digits.parse().ok()?,
                Some(_) => {}
                None if line == "\r\n" => break,
                None => answer.status = line.get(9..12)?.parse().ok()?,
            }
        }
        answer.body.resize(length, 0);
        self.0.read_exact(&mut answer.body).ok()?;
        Some(answer)
    }
}

fn revision(etag: &str) -> usize {
    let digits = etag
        .strip_prefix("\"0-")
        .and_then(|rest| rest.strip_suffix('"'));
    digits
        .and_then(|digits| digits.parse().ok())
        .expect("a revision")
}

#[test]
fn a_thousand_pushes_of_four_writers_are_each_once_in_the_sequence() {
    let site = operators_site("writers");
    let relay = Relay::start(&site);
    let mut admin = Admin::connect(&site);
    let first = admin.ask(
        "PUT",
        "If-None-Match: *\r\n",
        seed(0).to_string().as_bytes(),
    );
    assert_eq!(first.map(|answer| answer.status), Some(200));
    let write = |writer: usize| {
        let mut admin = Admin::connect(&site);
        let mut etag = "\"0-1\"".to_owned();
        let (mut taken, mut stale) = (Vec::new(), 0);
        while taken.len() < PUSHES / WRITERS {
            let content = 1 + writer * PUSHES + taken.len();
            let condition = format!("If-Match: {etag}\r\n");
            let body = seed(content).to_string();
            let answer = admin
                .ask("PUT", &condition, body.as_bytes())
                .expect("an answer");
            etag = answer.etag.expect("a revision");
            match answer.status {
                200 => taken.push((revision(&etag), content)),
                412 => stale += 1,
                other => panic!("{other}: {}", String::from_utf8_lossy(&answer.body)),
            }
        }
        (taken, stale)
    };
    let (taken, stale) = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || write(writer)))
            .collect();
        let mut all = (Vec::new(), 0);
        for writer in writers {
            let (taken, stale) = writer.join().expect("a writer");
            all.0.extend(taken);
            all.1 += stale;
        }
        all
    });
    let places: BTreeSet<usize> = taken.iter().map(|(place, _)| *place).collect();
    let expected: BTreeSet<usize> = (2..=PUSHES + 1).collect();
    assert_eq!(places, expected, "every one once, and nothing between");
    // Writers that never met would prove nothing.
    assert!(stale > 0);
    let (_, last) = taken.iter().max().expect("pushes");
    let (source, served) = document(relay.address).expect("a document");
    assert_eq!((source.as_str(), marker(&served)), ("operator", *last));
    relay.stop();
    let relay = Relay::start(&site);
    let (source, served) = document(relay.address).expect("a document");
    assert_eq!((source.as_str(), marker(&served)), ("cache", *last));
    relay.stop();
}

#[test]
fn what_was_answered_survives_kills() {
    let site = operators_site("push-kills");
    let mut random = fastrand::Rng::with_seed(7);
    let (mut answered, mut sent) = (0, 0);
    for kill in 0..KILLS {
        let mut relay = Relay::start(&site);
        if kill > 0 {
            let (_, served) = document(relay.address).expect("a document");
            let served = marker(&served);
            assert!(served >= answered && served <= sent, "{served}");
            answered = served;
        }
        let pause = random.u64(0..PAUSE_MAX);
        // Every other relay is killed wherever it is: in its first push, or before it.
        let waits_for = if kill % 2 == 0 { 2 } else { 0 };
        let (tell, told) = mpsc::channel();
        let site = &site;
        let pushing = thread::scope(|scope| {
            let pushing = scope.spawn(move || {
                let (mut answered, mut next) = (answered, sent);
                // It may be killed before anybody has reached it.
                let Some(mut admin) = Admin::reach(site) else {
                    return (answered, next);
                };
                loop {
                    next += 1;
                    let body = seed(next).to_string();
                    match admin.ask("PUT", "", body.as_bytes()) {
                        Some(answer) => {
                            assert_eq!(answer.status, 200);
                            answered = next;
                            // Nobody listens after the first ones.
                            let _ = tell.send(());
                        }
                        None => return (answered, next),
                    }
                }
            });
            for _ in 0..waits_for {
                told.recv().expect("an answer, as nothing is killed yet");
            }
            for _ in 0..pause {
                std::hint::spin_loop();
            }
            relay.child.kill().expect("it runs");
            relay.child.wait().expect("it is our child");
            pushing.join().expect("a writer")
        });
        (answered, sent) = pushing;
    }
    assert!(answered >= KILLS, "{answered}");
}

fn command(site: &Site, words: &[&str]) -> Command {
    let socket = format!("unix:{}", site.scratch.path("admin.sock").display());
    let mut command = Command::new(PROGRAM);
    command
        .args(words)
        .args(["--slot", "c/e", "--admin", &socket]);
    command.stdin(Stdio::null());
    command
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Runs a command and gives its exit code and what it prints.
fn run(site: &Site, words: &[&str]) -> (i32, String) {
    let output = command(site, words).output().expect("the program starts");
    (output.status.code().expect("an exit"), printed(&output))
}

fn write(path: &Path, document: &Value) -> String {
    fs::write(path, document.to_string()).expect("the scratch directory is writable");
    path.to_str().expect("text").to_owned()
}

#[test]
fn toggles_of_different_flags_at_one_time_both_land() {
    let site = operators_site("toggles");
    let relay = Relay::start(&site);
    let ids = ["one", "two", "three"];
    let file = write(&site.scratch.path("new.json"), &flags(&ids));
    let (code, said) = run(&site, &["push", &file, "--yes"]);
    assert_eq!(code, 0, "{said}");
    for round in 0..10 {
        let state = if round % 2 == 0 { "off" } else { "on" };
        let running = ["one", "two"].map(|flag| {
            let mut toggle = command(&site, &["toggle", flag, state, "--yes"]);
            let toggle = toggle.stdout(Stdio::piped()).stderr(Stdio::piped());
            toggle.spawn().expect("the program starts")
        });
        for toggle in running {
            let output = toggle.wait_with_output().expect("it is our child");
            assert!(output.status.success(), "{}", printed(&output));
        }
        let (_, served) = document(relay.address).expect("a document");
        let states = |feature: &Value| feature["enabled"] == (state == "on");
        let features = served["environments"][0]["features"]
            .as_array()
            .expect("flags");
        assert!(features[..2].iter().all(states), "{served}");
        assert_eq!(features[2]["enabled"], true);
    }
    let (_, status) = relay.ask("GET /status");
    let status: Value = serde_json::from_str(&status).expect("a status document");
    assert_eq!(
        status["slots"][0]["serves"]["revision"], "0-21",
        "none lost, none twice"
    );
    relay.stop();
}

#[test]
fn the_commands_say_what_changes_and_how_it_ended() {
    let site = operators_site("push-commands");
    let relay = Relay::start(&site);
    let file = write(&site.scratch.path("new.json"), &flags(&["a", "b"]));
    let file = file.as_str();
    let mut bad = flags(&["a"]);
    bad["environments"][0]["features"][0]["type"] = json!("COLOUR");
    let bad = write(&site.scratch.path("bad.json"), &bad);
    let other = write(&site.scratch.path("other.json"), &flags(&["a", "c"]));
    for (words, code, part) in [
        (&["toggle", "a", "off", "--yes"][..], 1, "no content yet"),
        (&["push", file], 64, "--yes"),
        (&["push", "nowhere.json", "--yes"], 65, "no such file"),
        (&["push", &bad, "--yes"], 65, "COLOUR"),
        (
            &["push", file, "--yes", "--if-match", "0-1"],
            1,
            "no content yet",
        ),
        (&["push", file, "--yes"], 0, "c/e: new, 2 features"),
        (&["push", file, "--yes"], 0, "c/e 0-1: serves this already"),
        (
            &["toggle", "a", "off", "--yes"],
            0,
            "c/e 0-1: ~ feature a: enabled true -> false",
        ),
        (&["toggle", "a", "off"], 0, "c/e 0-2: a is off already"),
        (&["toggle", "a", "on"], 64, "--yes"),
        (&["toggle", "x", "on", "--yes"], 1, "it has a, b"),
        (
            &["push", file, "--yes", "--if-match", "\"0-1\""],
            1,
            "is at revision 0-2",
        ),
        (
            &["push", &other, "--yes", "--if-match", "0-2"],
            0,
            "1 added, 1 removed, 1 changed",
        ),
    ] {
        let (ended, said) = run(&site, words);
        assert_eq!(ended, code, "{words:?}: {said}");
        assert!(said.contains(part), "{words:?}: {said}");
        assert!(code != 64 || said.lines().count() <= 2, "{said}");
    }
    let (_, table) = run_status(&site);
    assert!(table.contains("operator 0-3 of 20"), "{table}");
    relay.stop();
    let (code, said) = run(&site, &["toggle", "a", "on", "--yes"]);
    assert_eq!(code, 1, "{said}");
}

fn run_status(site: &Site) -> (i32, String) {
    let socket = format!("unix:{}", site.scratch.path("admin.sock").display());
    let output = Command::new(PROGRAM)
        .args(["status", "--admin", &socket])
        .output();
    let output = output.expect("the program starts");
    (output.status.code().expect("an exit"), printed(&output))
}

#[test]
fn a_slot_of_another_source_is_refused_with_its_owner() {
    let site = site("push-owner");
    let relay = Relay::start(&site);
    let file = write(&site.scratch.path("new.json"), &flags(&["a"]));
    for words in [
        &["push", &file, "--yes"][..],
        &["toggle", "a", "on", "--yes"],
    ] {
        let (code, said) = run(&site, words);
        assert_eq!(code, 1, "{said}");
        assert!(said.contains("is filled by the seed"), "{said}");
    }
    relay.stop();
}
