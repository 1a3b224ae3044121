//! The log: one line an event, to stderr, and never a reason for the relay to stop.
//!
//! Owns: levels, the three formats, the escape of everything that is not printable ASCII, and the
//! bound on lines of one cause. A value that is passed around; there is no global logger.
//!
//! Never: panics, waits or fails. A closed stderr costs the line. A stderr that takes no more (a
//! pipe nobody reads, a terminal that was stopped, a journal that hangs) is asked by `poll` before
//! each line and costs the line too; the next line that gets through is preceded by how many were
//! lost. Stderr is not made non-blocking for that, because the flag belongs to the open file, which
//! the shell that started the relay shares. A line is shorter than `PIPE_BUF`, so that a pipe with
//! room takes it whole. Only a regular file on a hanging disk can still hold the relay up.
//!
//! Invariant: one call is at most one line, whatever bytes its arguments hold.

mod limiter;
mod line;

pub use limiter::Cause;
pub use line::{Format, Untrusted};

use crate::config::LogLevel;
use crate::limits::Limits;
use crate::net::clock::Clock;
use crate::time::Instant;
use limiter::{Limiter, Verdict};
use line::Line;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::cell::{Cell, RefCell};
use std::fmt::Arguments;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

/// How much a line matters. Lines above the configured level are not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something does not work, and somebody has to do something.
    Error,
    /// Something is not as it should be, and the relay goes on.
    Warn,
    /// What an operator wants to see once: starts, seeds adopted, reloads. `info` in the config.
    Note,
    /// What a developer wants to see.
    Debug,
}

impl From<LogLevel> for Level {
    fn from(level: LogLevel) -> Level {
        match level {
            LogLevel::Error => Level::Error,
            LogLevel::Warn => Level::Warn,
            LogLevel::Info => Level::Note,
            LogLevel::Debug => Level::Debug,
        }
    }
}

/// The log. Clones are the same log; stays on the thread of the loop.
#[derive(Clone)]
pub struct Log(Rc<Shared>);

struct Shared {
    clock: Clock,
    format: Format,
    level: Cell<Level>,
    limiter: RefCell<Limiter>,
    sink: Sink,
    /// Lines that stderr did not take since the last one that it took.
    lost: Cell<u64>,
}

enum Sink {
    Stderr(std::io::Stderr),
    Memory(Lines),
}

/// What a log that writes to memory has written; for tests.
#[derive(Clone, Debug, Default)]
pub struct Lines(Rc<RefCell<Vec<u8>>>);

impl Lines {
    /// Everything written since the last call.
    pub fn take(&self) -> String {
        String::from_utf8_lossy(&self.0.take()).into_owned()
    }
}

impl Log {
    /// A log to stderr.
    pub fn stderr(clock: Clock, format: Format, level: Level, limits: &Limits) -> Log {
        let sink = Sink::Stderr(std::io::stderr());
        Log::with(sink, clock, format, level, limits)
    }

    /// A log that a test can read, at level `Debug`. It grows without bound.
    pub fn memory(clock: Clock, format: Format, limits: &Limits) -> (Log, Lines) {
        let lines = Lines::default();
        let sink = Sink::Memory(lines.clone());
        (Log::with(sink, clock, format, Level::Debug, limits), lines)
    }

    fn with(sink: Sink, clock: Clock, format: Format, level: Level, limits: &Limits) -> Log {
        Log(Rc::new(Shared {
            clock,
            format,
            level: Cell::new(level),
            limiter: RefCell::new(Limiter::new(limits.log_interval)),
            sink,
            lost: Cell::new(0),
        }))
    }

    /// Writes an error.
    pub fn error(&self, text: Arguments<'_>) {
        self.write(Level::Error, text);
    }

    /// Writes a warning.
    pub fn warn(&self, text: Arguments<'_>) {
        self.write(Level::Warn, text);
    }

    /// Writes what the config calls `info`.
    pub fn note(&self, text: Arguments<'_>) {
        self.write(Level::Note, text);
    }

    /// Writes a line for developers.
    pub fn debug(&self, text: Arguments<'_>) {
        self.write(Level::Debug, text);
    }

    /// Writes at most one line of `cause` per `log_interval`; what is left out is counted, and the
    /// count follows with the next line of that cause or with the next [`Log::sweep`].
    pub fn limited(&self, cause: Cause, now: Instant, text: Arguments<'_>) {
        if cause.level() > self.0.level.get() {
            return;
        }
        let verdict = self.0.limiter.borrow_mut().admit(cause, now);
        match verdict {
            Verdict::Write => self.write(cause.level(), text),
            Verdict::WriteAfter(count) => {
                self.write_count(cause, count);
                self.write(cause.level(), text);
            }
            Verdict::Leave => {}
        }
    }

    /// Writes the counts of limited lines whose interval is over. For a housekeeping tick.
    /// Bounded by the number of causes.
    pub fn sweep(&self, now: Instant) {
        for cause in Cause::ALL {
            let due = self.0.limiter.borrow_mut().settle(cause, now);
            if let Some(count) = due {
                self.write_count(cause, count);
            }
        }
    }

    /// Changes the level, as a reload does.
    pub fn set_level(&self, level: Level) {
        self.0.level.set(level);
    }

    fn write_count(&self, cause: Cause, count: u64) {
        let text = format_args!("{}: ...and {count} more like it", cause.as_str());
        self.write(cause.level(), text);
    }

    fn write(&self, level: Level, text: Arguments<'_>) {
        let shared = &self.0;
        if level > shared.level.get() {
            return;
        }
        let wall = shared.clock.wall();
        let lost = shared.lost.get();
        if lost > 0 {
            let text = format_args!("{lost} log lines lost: stderr did not take them");
            if !shared
                .sink
                .put(&Line::new(shared.format, Level::Warn, wall, text))
            {
                shared.lost.set(lost.saturating_add(1));
                return;
            }
            shared.lost.set(0);
        }
        if !shared
            .sink
            .put(&Line::new(shared.format, level, wall, text))
        {
            shared.lost.set(shared.lost.get().saturating_add(1));
        }
    }
}

impl Sink {
    /// Whether the line was taken whole.
    fn put(&self, line: &Line) -> bool {
        match self {
            Sink::Stderr(stderr) => put_if_ready(stderr.as_fd(), line.as_bytes()),
            Sink::Memory(lines) => {
                lines.0.borrow_mut().extend_from_slice(line.as_bytes());
                true
            }
        }
    }
}

/// Writes `bytes` as far as `descriptor` takes them without waiting.
fn put_if_ready(descriptor: BorrowedFd<'_>, bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while !rest.is_empty() {
        let mut asked = [PollFd::from_borrowed_fd(descriptor, PollFlags::OUT)];
        let at_once = Timespec::default();
        if poll(&mut asked, Some(&at_once)) != Ok(1) {
            return false;
        }
        match rustix::io::write(descriptor, rest) {
            Ok(0) | Err(_) => return false,
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Duration, Wall};
    use std::io::Read as _;

    fn memory(format: Format) -> (Log, Lines, Clock, crate::net::clock::Hands) {
        let (clock, hands) = Clock::virtual_at(Wall::from_unix(1_785_542_400));
        let (log, lines) = Log::memory(clock.clone(), format, &Limits::PRODUCTION);
        (log, lines, clock, hands)
    }

    #[test]
    fn each_format_says_when_how_bad_and_what() {
        for (format, expected) in [
            (
                Format::Plain,
                "2026-08-01T00:00:00Z warn  seed \"a\" refused\n",
            ),
            (Format::Journal, "<4>seed \"a\" refused\n"),
            (
                Format::Json,
                "{\"time\":\"2026-08-01T00:00:00Z\",\"level\":\"warn\",\
                 \"text\":\"seed \\\"a\\\" refused\"}\n",
            ),
        ] {
            let (log, lines, ..) = memory(format);
            log.warn(format_args!("seed {:?} refused", "a"));
            assert_eq!(lines.take(), expected);
        }
    }

    #[test]
    fn lines_above_the_level_are_left_out_until_it_changes() {
        let (log, lines, clock, _) = memory(Format::Journal);
        log.set_level(Level::Error);
        log.warn(format_args!("one"));
        log.limited(Cause::Accept, clock.now(), format_args!("two"));
        log.error(format_args!("three"));
        log.set_level(Level::Debug);
        log.debug(format_args!("four"));
        log.note(format_args!("five"));
        assert_eq!(lines.take(), "<3>three\n<7>four\n<6>five\n");
    }

    #[test]
    fn one_cause_writes_one_line_an_interval_and_counts_the_rest() {
        let (log, lines, clock, hands) = memory(Format::Journal);
        let interval = Limits::PRODUCTION.log_interval;
        let accept = |log: &Log| {
            log.limited(Cause::Accept, clock.now(), format_args!("accept failed"));
        };
        for _ in 0..41 {
            accept(&log);
        }
        log.limited(Cause::WrongKey, clock.now(), format_args!("other cause"));
        assert_eq!(lines.take(), "<4>accept failed\n<4>other cause\n");
        hands.advance(interval);
        accept(&log);
        let counted = "<4>accept: ...and 40 more like it\n<4>accept failed\n";
        assert_eq!(lines.take(), counted);
        accept(&log);
        log.sweep(clock.now());
        assert_eq!(lines.take(), "");
        hands.advance(interval + Duration::from_millis(1));
        log.sweep(clock.now());
        assert_eq!(lines.take(), "<4>accept: ...and 1 more like it\n");
        log.sweep(clock.now());
        assert_eq!(lines.take(), "");
    }

    #[test]
    fn full_pipe_costs_lines_and_no_time() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let line = [b'x'; 1000];
        let mut taken = 0;
        while put_if_ready(writer.as_fd(), &line) {
            taken += 1;
            assert!(taken < 10_000, "the pipe never fills");
        }
        assert!(taken > 0);
        let mut room = vec![0; 8 * 1024];
        reader.read_exact(&mut room).unwrap();
        assert!(put_if_ready(writer.as_fd(), &line));
    }

    #[test]
    fn reader_that_has_gone_costs_the_line() {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert!(!put_if_ready(writer.as_fd(), b"line\n"));
    }
}
