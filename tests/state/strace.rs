//! The real program under `strace`, which watches its calls, holds them up, or has them fail.

use crate::harness::PATIENCE;
use crate::harness::lines::Lines;
use crate::harness::relay::{Relay, with_the_thread};
use crate::harness::site::Site;
use rustix::process::{Pid, Signal, kill_process};
use std::cell::Cell;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A command that runs another one, keeps its process id, and does `what`; none without `strace`.
pub fn strace(site: &Site, what: &[&str]) -> Option<Vec<OsString>> {
    let path = "/usr/bin/strace";
    let mut probe = Command::new(path);
    let probe = probe.args(["-D", "-o", "/dev/null", "/bin/true"]);
    let works = probe.stderr(Stdio::null()).status();
    if !works.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: {path} is missing or may not watch: install strace");
        return None;
    }
    let mut words: Vec<OsString> = [path, "-D", "-f", "-q", "-y", "-o"]
        .map(Into::into)
        .to_vec();
    words.push(site.scratch.path("calls").into());
    words.extend(what.iter().map(OsString::from));
    words.push("--".into());
    Some(words)
}

/// Does something to calls of a running relay, until it is taken away or the relay ends.
pub struct Injection {
    strace: Child,
    told: Lines,
}

impl Injection {
    /// Does `what` to `calls` about `path`; none where there is no `strace`, or where it may not
    /// watch another process.
    pub fn put(relay: &Relay, calls: &str, path: &Path, what: &str) -> Option<Injection> {
        let id = relay.child.id().to_string();
        let mut words = with_the_thread();
        words.extend(["/usr/bin/strace", "-f", "-p", &id, "-P"].map(OsString::from));
        words.push(path.into());
        words.push(format!("-etrace={calls}").into());
        words.push(format!("-einject={calls}:{what}").into());
        let strace = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let injection = strace.ok().and_then(|mut strace| {
            let told = Lines::of("strace", strace.stderr.take().expect("stderr is piped"));
            let attached = |line: &str| line.contains(" attached").then_some(());
            told.find_within(PATIENCE, 0, attached)?;
            Some(Injection { strace, told })
        });
        if injection.is_none() {
            eprintln!("SKIPPED: strace is missing or may not watch: install it, or be root");
        }
        injection
    }

    /// Waits until so many calls have failed.
    pub fn wait_failed(&self, count: usize) {
        let failed = Cell::new(0);
        self.told.wait_from(0, "a call that fails", |line| {
            failed.set(failed.get() + usize::from(line.contains("(INJECTED)")));
            (failed.get() == count).then_some(())
        });
    }

    /// The relay is left alone again.
    pub fn take_away(mut self) {
        let id = Pid::from_child(&self.strace);
        kill_process(id, Signal::TERM).expect("it was not waited for yet");
        self.strace.wait().expect("it is our child");
    }
}
