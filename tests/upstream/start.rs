//! How a relay starts when its upstream does not answer.

use crate::double::Double;
use crate::harness::PATIENCE;
use crate::harness::lines::Lines;
use crate::harness::relay::{Relay, with_the_thread};
use crate::harness::site::{PROGRAM, Site};
use crate::place::{SLOTS, double, get, mark, site, until_marked};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A relay that may never listen.
struct Starting {
    child: Child,
    log: Lines,
}

impl Starting {
    fn begin(site: &Site) -> Starting {
        let mut words = with_the_thread();
        words.extend([PROGRAM, "run", "--config"].map(OsString::from));
        words.push(site.write_config().into());
        let child = Command::new(&words[0])
            .args(&words[1..])
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.expect("the relay's program starts");
        let log = Lines::of("relay", child.stderr.take().expect("stderr is piped"));
        Starting { child, log }
    }

    /// Waits for the end; gives all that it said.
    fn end(mut self) -> (ExitStatus, String) {
        // Its pipe ends with it.
        let never = |_: &str| None::<()>;
        self.log.find_within(PATIENCE, 0, never);
        if self.child.try_wait().ok().flatten().is_none() {
            let _ = self.child.kill();
        }
        let status = self.child.wait().expect("it is our child");
        (status, self.log.all())
    }
}

fn silent(node: &str) -> Double {
    let upstream = double(node, "upstream");
    let orders = json!({ "tcp": { "accept_only": true } });
    upstream.behave(&orders).expect("known behaviours");
    upstream
}

#[test]
fn a_normal_start_with_dead_upstreams_says_what_is_missing_and_ends() {
    let (primary, backup) = (double("primary", "upstream"), silent("backup"));
    let refuse = json!({ "tcp": { "refuse": true } });
    primary.behave(&refuse).expect("known behaviours");
    let mut site = site("dead", "fast", &primary, Some(&backup));
    // Long enough for a seed to be looked at, if it were.
    site.config["start"] = json!("normal");
    site.config["start_timeout_s"] = json!(3);
    let begun = Instant::now();
    let (status, log) = Starting::begin(&site).end();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(begun.elapsed() >= Duration::from_secs(3), "{log}");
    assert!(!log.contains("listening"), "{log}");
    for slot in SLOTS {
        let line = log
            .lines()
            .find(|line| line.contains(&format!("slot {slot}: ")));
        let line = line.unwrap_or_else(|| panic!("nothing of {slot}: {log}"));
        let port = |double: &Double| double.address.port().to_string();
        let (first, second) = (port(&primary), port(&backup));
        // The other one has not even answered yet.
        for part in ["primary", &first, "refused", "backup", &second, "no answer"] {
            assert!(line.contains(part), "no {part:?}: {line}");
        }
    }
}

#[test]
fn a_normal_start_never_serves_the_seed() {
    let upstream = double("primary", "upstream");
    let mut site = site("normal", "fast", &upstream, None);
    site.config["start"] = json!("normal");
    let relay = Relay::start(&site);
    for slot in SLOTS {
        assert_eq!(mark(&relay, slot), "upstream");
    }
    assert!(relay.stop().success());
}

#[test]
fn a_normal_start_takes_what_the_backup_has() {
    let (primary, backup) = (silent("primary"), double("backup", "upstream"));
    primary
        .behave(&json!({ "tcp": { "refuse": true } }))
        .expect("known behaviours");
    let site = site("second", "normal", &primary, Some(&backup));
    let relay = Relay::start(&site);
    assert_eq!(mark(&relay, "shop/dev"), "upstream");
    assert_eq!(
        get(&relay, "shop/dev").head.header("x-config-source"),
        Some("backup")
    );
    assert!(relay.stop().success());
}

#[test]
fn a_reload_does_not_make_a_normal_start_take_the_seed() {
    let upstream = silent("primary");
    let mut site = site("hurried", "fast", &upstream, None);
    site.config["start"] = json!("normal");
    site.config["start_timeout_s"] = json!(2);
    let starting = Starting::begin(&site);
    let begun = upstream.wait_until(PATIENCE, |counts| counts.connections > 0);
    assert!(begun.is_some(), "nobody asked: {}", starting.log.all());
    let id = Pid::from_child(&starting.child);
    kill_process(id, Signal::HUP).expect("it has not been waited for yet");
    let (status, log) = starting.end();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(
        log.contains("the start is not over yet") && !log.contains("listening"),
        "{log}"
    );
}

#[test]
fn a_normal_start_ends_when_it_is_told_to() {
    let upstream = silent("primary");
    let site = site("told", "normal", &upstream, None);
    let starting = Starting::begin(&site);
    let begun = upstream.wait_until(PATIENCE, |counts| counts.connections > 0);
    assert!(begun.is_some(), "nobody asked: {}", starting.log.all());
    let asked = Instant::now();
    let id = Pid::from_child(&starting.child);
    kill_process(id, Signal::TERM).expect("it has not been waited for yet");
    let (status, log) = starting.end();
    assert!(status.success(), "{status}: {log}");
    assert!(log.contains("ended") && !log.contains("listening"), "{log}");
    println!("ended after {:?}", asked.elapsed());
}

#[test]
fn a_fast_start_waits_for_no_upstream() {
    let upstream = silent("primary");
    let begun = Instant::now();
    let site = site("fast", "fast", &upstream, None);
    let relay = Relay::start(&site);
    let answer = get(&relay, "shop/dev");
    println!("served {:?} after the start", begun.elapsed());
    assert_eq!(answer.head.header("x-config-source"), Some("seed"));
    // It was served while the upstream was silent, and follows it as soon as it is not.
    let asked = upstream.wait_until(PATIENCE, |counts| counts.connections > 0);
    assert!(asked.is_some_and(|counts| counts.requests == 0));
    let (status, body) = relay.ask("GET /ready");
    assert_eq!(status, 200, "{body}");
    upstream
        .behave(&json!({ "tcp": null }))
        .expect("known behaviours");
    until_marked(&relay, "shop/dev", "upstream");
    assert!(relay.stop().success());
}

#[test]
fn a_fast_start_without_its_seed_serves_what_comes() {
    let upstream = double("primary", "upstream");
    let mut site = site("seedless", "fast", &upstream, None);
    let absent = site.scratch.path("absent.json");
    site.config["seed"]["file"] = Value::from(absent.display().to_string());
    let relay = Relay::start(&site);
    let opened = upstream.wait_until(PATIENCE, |counts| counts.sockets_open == 4);
    assert!(opened.is_some(), "{}", relay.log.all());
    // Until then its answers are 503.
    let deadline = Instant::now() + PATIENCE;
    while get(&relay, "shop/dev").status() != 200 {
        assert!(Instant::now() < deadline, "{}", relay.log.all());
    }
    assert_eq!(mark(&relay, "shop/dev"), "upstream");
    assert!(relay.stop().success());
}
