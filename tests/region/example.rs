//! What the README tells people to type, typed: three sites on one machine, records signed with
//! Debian's minisign, a day of fifteen seconds, and a planned switch.
//!
//! Where minisign cannot be had the test says so loudly and passes, unless `CI` is `true`: there a
//! skipped test is a failed one.

use crate::debian;
use crate::harness::lines::Lines;
use crate::harness::relay::with_the_thread;
use crate::harness::site::{PROGRAM, Scratch};
use crate::nodes::staffetta;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const README: &str = include_str!("../../README.md");
const SEED: &str = include_str!("../../seeds/demo.json");
/// The network of the example; a test has one of its own, since others may run beside it.
const NETWORK: &str = "127.7.0.";
const OVER: &str = "the example is over";
/// It takes its time...
const EXAMPLE_MAX: Duration = Duration::from_secs(120);
/// ...and the switch that it plans is half a minute ahead.
const SECONDS_MAX: usize = 60;

/// The lines of all shell blocks from one heading up to another.
fn script(from: &str, to: &str) -> String {
    let (_, section) = README.split_once(from).expect("the first heading");
    let (section, _) = section.split_once(to).expect("the second heading");
    let blocks = section.split("```sh\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap_or_default());
    blocks.collect()
}

/// Says that something is skipped where nobody can miss it; fails when skipping is not allowed.
fn skip(why: &str) {
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "not skipped in CI: {why}"
    );
    // Not `eprintln`: the test runner would keep it to itself while the test passes.
    let _ = writeln!(
        std::io::stderr(),
        "\n*** SKIPPED the example of the README: {why}\n"
    );
}

/// A shell and all that it has started.
struct Shell(Child);

impl Drop for Shell {
    fn drop(&mut self) {
        // Its input ends, and so does it; what it started ends by its trap.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Runs `script`; then waits, with its relays, until it is dropped.
fn run(script: &str, folder: &Path) -> (Shell, Lines, Lines) {
    let path = std::env::var("PATH").unwrap_or_default();
    let program = Path::new(PROGRAM).parent().expect("a folder").display();
    let ends = format!("echo \"{OVER}\"\nread -r line\n");
    let script = format!("set -eu\ntrap 'kill $(jobs -p)' EXIT\n{script}\n{ends}");
    let mut words = with_the_thread();
    words.extend(["bash", "-c", &script].map(Into::into));
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .current_dir(folder)
        .env_clear()
        .env("PATH", format!("{program}:{path}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell");
    let said = Lines::of("the example", child.stdout.take().expect("it is piped"));
    let told = Lines::of("the example", child.stderr.take().expect("it is piped"));
    (Shell(child), said, told)
}

#[test]
fn the_example_of_the_readme_works_as_it_is_typed() {
    if let Err(why) = debian::need(&[("minisign", "minisign"), ("bash", "bash")]) {
        return skip(&why);
    }
    let scratch = Scratch::new("example");
    let folder = scratch.path("");
    fs::write(scratch.path("seed.json"), SEED).expect("the scratch directory is writable");
    let number = std::process::id();
    let network = format!("127.{}.{}.", 100 + number / 250 % 100, number % 250);
    let script = script("### Three sites, step by step", "### A site that is lost");
    assert!(script.contains(NETWORK), "{script}");
    let (_shell, said, told) = run(&script.replace(NETWORK, &network), &folder);
    let over = |line: &str| (line == OVER).then_some(());
    let over = said.find_within(EXAMPLE_MAX, 0, over);
    let logs = || {
        let read = |node: &str| fs::read_to_string(scratch.path(node).join("log"));
        ["au-1", "eu-1", "us-1"]
            .map(|node| read(node).unwrap_or_default())
            .join("\n")
    };
    assert!(over.is_some(), "{}\n{}\n{}", said.all(), told.all(), logs());
    for expected in [
        "a signed record; nodes verify the signature",
        "and so on",
        "payments/prod: new, ",
        "payments/prod is at revision ",
    ] {
        assert!(
            said.all().contains(expected),
            "{expected} in\n{}",
            said.all()
        );
    }
    // The switch was planned; it comes, and all agree about it.
    let socket = format!("unix:{}", scratch.path("us-1/admin.sock").display());
    let mut shown = String::new();
    for _ in 0..SECONDS_MAX {
        let output = staffetta(&["region", "show", "--admin", &socket]);
        shown = String::from_utf8_lossy(&output.stdout).into_owned();
        if is_settled(&shown) {
            break;
        }
        // Time itself is waited for: the switch has its own.
        std::thread::sleep(Duration::from_secs(1));
    }
    assert!(is_settled(&shown), "{shown}\n{}", logs());
}

/// Whether the second record holds everywhere, and its switch is over.
fn is_settled(shown: &str) -> bool {
    let is_here = |node: &str| {
        let mut lines = shown.lines();
        lines.any(|line| line.starts_with(node) && line.contains("  v2 "))
    };
    // Nothing follows on it: the rotation is over too.
    let last = "everything else\n  now                   eu, epoch ";
    let after = shown
        .split_once(last)
        .and_then(|(_, rest)| rest.split_once('\n'));
    after.is_some_and(|(_, rest)| rest.starts_with("\nNODE"))
        && ["au-1", "eu-1", "us-1"].into_iter().all(is_here)
        && shown.contains("All nodes agree.")
}
