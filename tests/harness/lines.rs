//! Lines that a child process prints, for waiting on.
//!
//! A thread reads the child's pipe to its end, so that the child never blocks on a full one; the
//! test waits on a condition variable. Lines are kept, so a line that came before the wait counts
//! unless the test asks from a later place.

use super::PATIENCE;
use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

#[derive(Default)]
struct Printed {
    lines: Vec<String>,
    ended: bool,
}

/// All lines of one pipe so far.
#[derive(Clone)]
pub struct Lines {
    name: &'static str,
    shared: Arc<(Mutex<Printed>, Condvar)>,
}

impl Lines {
    /// Reads `pipe` to its end on a thread of its own. `name` is for failures.
    pub fn of(name: &'static str, pipe: impl Read + Send + 'static) -> Lines {
        let shared = Arc::new((Mutex::new(Printed::default()), Condvar::new()));
        let writer = Arc::clone(&shared);
        std::thread::spawn(move || {
            let mut reader = BufReader::new(pipe);
            let mut line = Vec::new();
            while reader
                .read_until(b'\n', &mut line)
                .is_ok_and(|length| length > 0)
            {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                line.clear();
                writer.0.lock().expect("no holder panics").lines.push(text);
                writer.1.notify_all();
            }
            writer.0.lock().expect("no holder panics").ended = true;
            writer.1.notify_all();
        });
        Lines { name, shared }
    }

    /// How many lines there are: a place to wait from.
    pub fn mark(&self) -> usize {
        self.printed().lines.len()
    }

    /// Waits for the first line from `mark` on of which `pick` makes something.
    ///
    /// Panics with all lines when the deadline passes or the child ends first.
    pub fn wait_from<T>(&self, mark: usize, what: &str, pick: impl Fn(&str) -> Option<T>) -> T {
        match self.find_within(PATIENCE, mark, pick) {
            Some(found) => found,
            None => panic!(
                "{}: no line with {what}; it printed\n{}",
                self.name,
                self.all()
            ),
        }
    }

    /// As [`Lines::wait_from`] for a line that holds `text`, from the beginning.
    pub fn wait_for(&self, text: &str) {
        self.wait_from(0, text, |line| line.contains(text).then_some(()));
    }

    /// The first line from `mark` on of which `pick` makes something, if one comes in `patience`.
    pub fn find_within<T>(
        &self,
        patience: Duration,
        mark: usize,
        pick: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let deadline = Instant::now() + patience;
        let mut next = mark;
        let mut printed = self.printed();
        loop {
            while let Some(line) = printed.lines.get(next) {
                next += 1;
                if let Some(found) = pick(line) {
                    return Some(found);
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if printed.ended || left.is_zero() {
                return None;
            }
            printed = self
                .shared
                .1
                .wait_timeout(printed, left)
                .expect("no holder panics")
                .0;
        }
    }

    /// Every line so far, for failures.
    pub fn all(&self) -> String {
        self.printed().lines.join("\n")
    }

    fn printed(&self) -> std::sync::MutexGuard<'_, Printed> {
        self.shared.0.lock().expect("no holder panics")
    }
}
