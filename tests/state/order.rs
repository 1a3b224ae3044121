//! The system calls of a write, in the order that survives a power cut.
//!
//! `strace` watches the program that ships. Where it is missing, or may not watch, the tests say so
//! and check nothing; the order is also held by the model beside the code.

use crate::harness::PATIENCE;
use crate::harness::relay::Relay;
use crate::harness::site::Site;
use crate::push::{Admin, operators_site};
use crate::site::{seed, site, wait_kept};
use crate::strace::strace;
use std::fs;
use std::time::Instant;

/// What `strace` wrote about a process that has ended.
fn calls(site: &Site) -> String {
    let patience = Instant::now() + PATIENCE;
    loop {
        let text = fs::read_to_string(site.scratch.path("calls")).expect("strace writes");
        if text.contains("+++ exited with 0 +++") {
            return text;
        }
        assert!(Instant::now() < patience, "strace does not end:\n{text}");
        std::thread::yield_now();
    }
}

/// The call and what it is about, of a line that concerns the state folder.
fn step(line: &str) -> Option<&'static str> {
    let call = line.split_once(' ')?.1.trim_start();
    let of = |name: &str, about: &str| call.starts_with(name) && call.contains(about);
    let steps = [
        (
            "create",
            of("open", "O_CREAT") && call.contains(".c@e.slot.staffetta-tmp"),
        ),
        ("write", of("write(", ".c@e.slot.staffetta-tmp>")),
        ("sync", of("fsync(", ".c@e.slot.staffetta-tmp>")),
        (
            "rename",
            of("rename", ".c@e.slot.staffetta-tmp\"") && call.contains("/c@e.slot\""),
        ),
        ("sync folder", of("fsync(", "/state/live>")),
        ("sync above", of("fsync(", "/state>")),
    ];
    steps
        .into_iter()
        .find_map(|(name, is_it)| is_it.then_some(name))
}

#[test]
fn a_write_is_synced_renamed_and_its_folder_synced() {
    let site = site("order");
    let calls_of = "-etrace=?open,openat,write,fsync,rename,renameat,renameat2";
    let Some(through) = strace(&site, &[calls_of]) else {
        return;
    };
    let relay = Relay::start_through(&site, &through);
    wait_kept(&relay, 1);
    site.replace_seed(&seed(1).to_string());
    assert_eq!(relay.reload().0, 200);
    wait_kept(&relay, 2);
    relay.stop();
    let text = calls(&site);
    let mut steps: Vec<&str> = text.lines().filter_map(step).collect();
    // One write may take several calls.
    steps.dedup();
    let write = ["create", "write", "sync", "rename", "sync folder"];
    let expected = [&["sync above"][..], &write, &write].concat();
    assert_eq!(steps, expected, "{text}");
}

/// Whoever reads 200 may pull the plug.
#[test]
fn a_push_is_answered_when_its_folder_is_synced() {
    let site = operators_site("push-order");
    let calls_of = "-etrace=?open,openat,write,writev,sendto,sendmsg,fsync,rename,renameat,\
                    renameat2";
    let Some(through) = strace(&site, &[calls_of]) else {
        return;
    };
    let relay = Relay::start_through(&site, &through);
    for number in 1..=3 {
        let answer = Admin::connect(&site).ask("PUT", "", seed(number).to_string().as_bytes());
        assert_eq!(answer.map(|answer| answer.status), Some(200));
    }
    relay.stop();
    let text = calls(&site);
    let answered = |line: &&str| line.contains("HTTP/1.1 200").then_some("answer");
    let mut steps: Vec<&str> = text
        .lines()
        .filter_map(|line| step(line).or(answered(&line)))
        .collect();
    steps.dedup();
    let push = ["create", "write", "sync", "rename", "sync folder", "answer"];
    let expected = [&["sync above"][..], &push, &push, &push].concat();
    assert_eq!(steps, expected, "{text}");
}
