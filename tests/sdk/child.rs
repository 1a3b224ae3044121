//! An application process that says what it sees: one JSON object a line on its output, the word
//! under `event`. Commands are words, one a line on its input.
//!
//! Ends with the test: its input closes, and whatever is left is killed by its own id.

use crate::harness::PATIENCE;
use crate::harness::lines::Lines;
use crate::harness::relay::with_the_thread;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::ffi::OsString;
use std::io::Write;
use std::process::{Child as Process, Command, Stdio};
use std::time::Duration;

/// A running application.
pub struct Child {
    process: Process,
    /// What it says.
    pub said: Said,
    /// What it logs.
    pub log: Lines,
}

impl Child {
    /// Runs `words` (inside what `through` enters) with `environment` and no other variable.
    pub fn start(
        through: &[OsString],
        words: impl IntoIterator<Item = OsString>,
        environment: &[(&str, OsString)],
    ) -> Child {
        let mut all = through.to_vec();
        all.extend(with_the_thread());
        all.extend(words);
        let mut process = Command::new(&all[0])
            .args(&all[1..])
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{all:?}: {error}"));
        let said = process.stdout.take().expect("stdout is piped");
        let log = process.stderr.take().expect("stderr is piped");
        Child {
            process,
            said: Said(Lines::of("application", said)),
            log: Lines::of("SDK", log),
        }
    }

    /// Sends the word `command`. Gives the place from which to wait for what comes of it.
    pub fn send(&mut self, command: &str) -> usize {
        let mark = self.said.mark();
        let input = self.process.stdin.as_mut().expect("stdin is piped");
        writeln!(input, "{command}").expect("the application reads");
        mark
    }

    /// Waits for `event` from `mark` on.
    pub fn wait(&self, mark: usize, event: &str) -> Value {
        let found = self.said.find(mark, event, PATIENCE, |_| true);
        found.unwrap_or_else(|| panic!("no {event:?}; it logged\n{}", self.log.all()))
    }

    /// Sends the word `command` and waits for the answer `event`.
    pub fn ask(&mut self, command: &str, event: &str) -> Value {
        let mark = self.send(command);
        self.wait(mark, event)
    }

    /// Asks the process to end, and waits until it and all that it started have done so.
    pub fn end(mut self) {
        kill_process(Pid::from_child(&self.process), Signal::TERM).expect("nobody waited for it");
        self.process.wait().expect("it is our child");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Already ended children are refused by both calls; there is nobody to tell.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The events that an application has said.
pub struct Said(pub Lines);

impl Said {
    /// A place to wait from.
    pub fn mark(&self) -> usize {
        self.0.mark()
    }

    /// The first `event` from `mark` on that `holds`, if one comes in `patience`.
    pub fn find(
        &self,
        mark: usize,
        event: &str,
        patience: Duration,
        holds: impl Fn(&Value) -> bool,
    ) -> Option<Value> {
        self.0.find_within(patience, mark, |line| {
            let said: Value = serde_json::from_str(line).ok()?;
            (said["event"] == event && holds(&said)).then_some(said)
        })
    }

    /// Every `event` so far.
    pub fn every(&self, event: &str) -> Vec<Value> {
        let all = self.0.all();
        let said = all
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        said.filter(|said: &Value| said["event"] == event).collect()
    }
}
