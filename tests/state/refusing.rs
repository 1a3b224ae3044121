//! A disk that refuses: at each step of a write, for each reason, and full or read-only for real.
//!
//! `strace` is put upon a relay that runs and has kept something, so that one call on one file
//! fails, and is taken away again, which is the end of the outage. A file system of the relay's own
//! is filled and made read-only; that takes root. What the machine does not allow is skipped, and
//! says so; every step of it is also held by the model beside the code.

use crate::harness::relay::Relay;
use crate::harness::site::{PROGRAM, Site};
use crate::site::{document, kept, marker, seed, site, wait_kept};
use crate::strace::Injection;
use serde_json::Value;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

const BEGINS: &str = "the state is not kept";
const ENDS: &str = "the state is kept again";

/// Step, the calls that it may be, and what they are about.
const STEPS: [(&str, &str, &str); 5] = [
    ("create", "?open,openat", ".c@e.slot.staffetta-tmp"),
    ("write", "write", ".c@e.slot.staffetta-tmp"),
    ("sync", "fsync", ".c@e.slot.staffetta-tmp"),
    (
        "put in place",
        "?rename,?renameat,renameat2",
        ".c@e.slot.staffetta-tmp",
    ),
    ("sync the folder of", "fsync", ""),
];

/// The system's name of an error, and its words.
const ERRORS: [(&str, &str); 3] = [
    ("EIO", "Input/output error"),
    ("ENOSPC", "No space left on device"),
    ("EROFS", "Read-only file system"),
];

/// Has the relay serve the next document, which it cannot keep: clients have it, the log says why
/// it is not kept, and so does the status.
fn serve_unkept(site: &Site, relay: &Relay, number: usize, cause: &str) {
    site.replace_seed(&seed(number).to_string());
    let mark = relay.log.mark();
    assert_eq!(relay.reload().0, 200, "{cause}");
    let (source, found) = document(relay.address).expect("a document");
    assert_eq!((source.as_str(), marker(&found)), ("seed", number));
    let line = relay.log.wait_from(mark, BEGINS, |line| {
        line.contains(BEGINS).then(|| line.to_owned())
    });
    assert!(line.contains(cause), "{cause}: {line}");
    let (_, status) = relay.ask("GET /status");
    let status: Value = serde_json::from_str(&status).expect("a status document");
    let problem = status["state_dir"]["problem"].to_string();
    assert!(problem.contains(cause), "{cause}: {status}");
    assert_eq!(status["state_dir"]["waiting"], 1, "{cause}: {status}");
    assert_eq!(status["ready"], true, "{cause}");
    let admin = format!("unix:{}", site.scratch.path("admin.sock").display());
    let check = Command::new(PROGRAM)
        .args(["status", "--check", "--admin", &admin])
        .output()
        .expect("the program starts");
    let told = String::from_utf8_lossy(&check.stdout);
    assert_eq!(check.status.code(), Some(1), "{cause}: {told}");
    assert!(told.contains("the state has not been kept for"), "{told}");
}

/// The outage is over: the document is written by and by, and the log has said two things.
fn wait_written(relay: &Relay, mark: usize, file: &Path, number: usize) {
    relay
        .log
        .wait_from(mark, ENDS, |line| line.contains(ENDS).then_some(()));
    let lines = relay.log.all();
    let lines = lines.lines().skip(mark);
    let said: Vec<&str> = lines.filter(|line| line.contains("the state")).collect();
    let is_told_once = said.len() == 2 && said[0].contains(BEGINS) && said[1].contains(ENDS);
    assert!(is_told_once, "{said:#?}");
    assert!(holds(file, number), "{}", relay.log.all());
    let (source, found) = document(relay.address).expect("a document");
    assert_eq!((source.as_str(), marker(&found)), ("seed", number));
    let (_, status) = relay.ask("GET /status");
    let status: Value = serde_json::from_str(&status).expect("a status document");
    assert_eq!(status["problems"], Value::Array(Vec::new()));
}

/// Whether the file is that of this document, whole as far as its end tells.
fn holds(file: &Path, number: usize) -> bool {
    let record = fs::read_to_string(file).expect("it was kept");
    record.contains(&format!("\"{}\"", format!("{number} ").repeat(2_000)))
}

#[test]
fn each_step_of_a_write_may_fail_for_each_reason_and_costs_one_line() {
    thread::scope(|scope| {
        for step in STEPS {
            scope.spawn(move || refuse_at(step));
        }
    });
}

fn refuse_at((step, calls, name): (&str, &str, &str)) {
    let site = site("refusing");
    let relay = Relay::start(&site);
    wait_kept(&relay, 1);
    let live = fs::canonicalize(site.scratch.path("state/live")).expect("it is there");
    let about = match name {
        "" => live,
        name => live.join(name),
    };
    for (turn, (error, words)) in (1..).zip(ERRORS) {
        let fails = format!("error={error}");
        let Some(injection) = Injection::put(&relay, calls, &about, &fails) else {
            return;
        };
        let mark = relay.log.mark();
        serve_unkept(&site, &relay, turn, words);
        let (_, status) = relay.ask("GET /status");
        assert!(status.contains(&format!("cannot {step} ")), "{status}");
        // It is tried again, in silence.
        injection.wait_failed(2);
        injection.take_away();
        wait_written(&relay, mark, &kept(&site), turn);
    }
    assert!(relay.stop().success());
}

/// A command that gives what it runs a small file system on `folder`, and keeps its process id.
fn with_small_disk(folder: &Path) -> Option<Vec<OsString>> {
    let probe = Command::new("unshare")
        .args(["--mount", "true"])
        .stderr(Stdio::null())
        .status();
    if !probe.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: a file system of one's own takes root");
        return None;
    }
    let script = "mount -t tmpfs -o size=256k tmpfs \"$0\" && exec \"$@\"";
    let mut words = ["unshare", "--mount", "--", "sh", "-c", script]
        .map(OsString::from)
        .to_vec();
    words.push(folder.into());
    Some(words)
}

#[test]
fn a_full_and_a_read_only_file_system_are_waited_out() {
    let site = site("full");
    let folder = site.scratch.path("state");
    let Some(through) = with_small_disk(&folder) else {
        return;
    };
    let relay = Relay::start_through(&site, &through);
    wait_kept(&relay, 1);
    let id = relay.child.id().to_string();
    let inside = |path: PathBuf| {
        let path = path.strip_prefix("/").expect("it is absolute").to_owned();
        Path::new("/proc").join(&id).join("root").join(path)
    };
    let file = inside(kept(&site));

    let mark = relay.log.mark();
    let ballast = inside(folder.join("ballast"));
    fs::write(&ballast, vec![0; 1 << 20]).expect_err("the disk is small");
    serve_unkept(&site, &relay, 1, "No space left on device");
    assert!(holds(&file, 0), "the old one stays");
    fs::remove_file(&ballast).expect("it is there");
    wait_written(&relay, mark, &file, 1);

    let remount = |how: &str| {
        let words = ["--target", &id, "--mount", "mount", "-o", how];
        let done = Command::new("nsenter").args(words).arg(&folder).status();
        assert!(done.is_ok_and(|status| status.success()), "{how}");
    };
    let mark = relay.log.mark();
    remount("remount,ro");
    serve_unkept(&site, &relay, 2, "Read-only file system");
    assert!(holds(&file, 1), "the old one stays");
    remount("remount,rw");
    wait_written(&relay, mark, &file, 2);
    assert!(relay.stop().success());
}
