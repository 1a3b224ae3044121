//! At most one line of a cause per interval.
//!
//! Owns: the causes that the outside can repeat at will, and the arithmetic of the lines that are
//! left out. An outage or an attack costs two lines a minute, and flash that lasts.
//!
//! Never: writes, or reads a clock. Bounded by the number of causes.

use super::Level;
use crate::time::{Duration, Instant};

/// What can happen as often as somebody else likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A connection could not be accepted: mostly no descriptors left.
    Accept,
    /// Connections over the limit.
    ConnectionsFull,
    /// A request that cannot be read.
    Malformed,
    /// A TLS handshake that failed.
    Handshake,
    /// An unknown key or token.
    WrongKey,
    /// A path of ours with another instance's guid.
    UnknownInstance,
    /// `CONNECT` to a name that is not on the list.
    TunnelRefused,
    /// A client that stopped reading.
    Stalled,
    /// Usage or analytics that had to be dropped.
    EventsDropped,
    /// A destination of the reverse proxy that could not be had, or broke off.
    DestinationFailed,
    /// A cluster of the reverse proxy that had no destination for a request.
    NoDestination,
    /// A write that was sent on to a peer, which had no answer to it.
    ForwardFailed,
    /// What peers and clocks do to region routing.
    Region,
    /// A state record that does not count.
    StateRecord,
    /// A file that could not be read or written.
    Disk,
}

impl Cause {
    /// Every cause, in the order of its place in the table.
    pub(super) const ALL: [Cause; Cause::COUNT] = [
        Cause::Accept,
        Cause::ConnectionsFull,
        Cause::Malformed,
        Cause::Handshake,
        Cause::WrongKey,
        Cause::UnknownInstance,
        Cause::TunnelRefused,
        Cause::Stalled,
        Cause::EventsDropped,
        Cause::DestinationFailed,
        Cause::NoDestination,
        Cause::ForwardFailed,
        Cause::Region,
        Cause::StateRecord,
        Cause::Disk,
    ];

    const COUNT: usize = Cause::Disk as usize + 1;

    /// How much a line of this cause matters: peers' faults are notes, the box's own are warnings.
    pub const fn level(self) -> Level {
        match self {
            Cause::Malformed | Cause::Handshake | Cause::TunnelRefused => Level::Note,
            Cause::Accept | Cause::ConnectionsFull | Cause::WrongKey => Level::Warn,
            Cause::UnknownInstance | Cause::Stalled | Cause::EventsDropped => Level::Warn,
            Cause::DestinationFailed | Cause::NoDestination => Level::Warn,
            Cause::ForwardFailed | Cause::Region => Level::Warn,
            Cause::Disk | Cause::StateRecord => Level::Error,
        }
    }

    /// As a line about the ones left out calls it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Cause::Accept => "accept",
            Cause::ConnectionsFull => "connections full",
            Cause::Malformed => "malformed request",
            Cause::Handshake => "TLS handshake",
            Cause::WrongKey => "wrong key",
            Cause::UnknownInstance => "unknown instance",
            Cause::TunnelRefused => "tunnel refused",
            Cause::Stalled => "stalled client",
            Cause::EventsDropped => "events dropped",
            Cause::DestinationFailed => "destination failed",
            Cause::NoDestination => "no destination",
            Cause::ForwardFailed => "write not sent on",
            Cause::Region => "region routing",
            Cause::StateRecord => "state record",
            Cause::Disk => "disk",
        }
    }
}

/// What becomes of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Write,
    /// After a line that counts those left out.
    WriteAfter(u64),
    Leave,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    written: Option<Instant>,
    left_out: u64,
}

/// When each cause was last written, and what was left out since.
pub(super) struct Limiter {
    interval: Duration,
    entries: [Entry; Cause::COUNT],
}

impl Limiter {
    pub(super) fn new(interval: Duration) -> Limiter {
        let entries = [Entry::default(); Cause::COUNT];
        Limiter { interval, entries }
    }

    /// Decides about one line of `cause`.
    pub(super) fn admit(&mut self, cause: Cause, now: Instant) -> Verdict {
        let interval = self.interval;
        let Some(entry) = self.entries.get_mut(cause as usize) else {
            return Verdict::Write;
        };
        match entry.written {
            Some(written) if now.since(written) < interval => {
                entry.left_out = entry.left_out.saturating_add(1);
                Verdict::Leave
            }
            Some(_) | None => {
                entry.written = Some(now);
                match std::mem::take(&mut entry.left_out) {
                    0 => Verdict::Write,
                    count => Verdict::WriteAfter(count),
                }
            }
        }
    }

    /// How many lines of `cause` were left out in an interval that is over, once. The count is a
    /// line of its own, so that a new interval begins with it.
    pub(super) fn settle(&mut self, cause: Cause, now: Instant) -> Option<u64> {
        let interval = self.interval;
        let entry = self.entries.get_mut(cause as usize)?;
        let over = entry
            .written
            .is_some_and(|written| now.since(written) >= interval);
        if !over || entry.left_out == 0 {
            return None;
        }
        entry.written = Some(now);
        Some(std::mem::take(&mut entry.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Instant {
        Instant::from_micros(1) + Duration::from_secs(seconds)
    }

    #[test]
    fn every_cause_has_its_own_place() {
        for (place, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, place, "{cause:?}");
        }
    }

    #[test]
    fn steady_stream_writes_once_an_interval_and_loses_no_count() {
        let mut limiter = Limiter::new(INTERVAL);
        let (mut written, mut counted) = (0, 0);
        for second in 0..600 {
            match limiter.admit(Cause::WrongKey, at(second)) {
                Verdict::Write => written += 1,
                Verdict::WriteAfter(count) => {
                    written += 1;
                    counted += count;
                }
                Verdict::Leave => {}
            }
        }
        counted += limiter.settle(Cause::WrongKey, at(700)).unwrap();
        assert_eq!(written, 10);
        assert_eq!(written + counted, 600);
    }

    #[test]
    fn causes_do_not_silence_each_other() {
        let mut limiter = Limiter::new(INTERVAL);
        for cause in Cause::ALL {
            assert_eq!(limiter.admit(cause, at(0)), Verdict::Write);
            assert_eq!(limiter.admit(cause, at(1)), Verdict::Leave);
        }
    }

    #[test]
    fn sweep_reports_once_and_starts_a_new_interval() {
        let mut limiter = Limiter::new(INTERVAL);
        for second in [0, 1, 2] {
            limiter.admit(Cause::Disk, at(second));
        }
        assert_eq!(limiter.settle(Cause::Disk, at(59)), None);
        assert_eq!(limiter.settle(Cause::Disk, at(60)), Some(2));
        assert_eq!(limiter.settle(Cause::Disk, at(61)), None);
        assert_eq!(limiter.admit(Cause::Disk, at(62)), Verdict::Leave);
        assert_eq!(limiter.admit(Cause::Disk, at(120)), Verdict::WriteAfter(1));
    }
}
