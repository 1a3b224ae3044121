//! Instants and durations that cannot read a clock.
//!
//! Owns the kinds of time that the relay knows: a monotonic [`Instant`] for every deadline, a
//! [`Wall`] time that is only ever shown to people and peers, and a [`WallMs`] for the one thing
//! that several sites have to do at one time: to change the primary region. None of them has a
//! `now()`: the clock is read in `net::clock` and handed to everybody else as an argument, so that
//! a simulation can be the clock.
//!
//! Invariant: wall time never decides when something happens, because gateways start in 1970 and
//! jump forward when a clock server is found. The one exception is `state::region`, which first
//! decides whether the clock may be trusted.

use std::ops::{Add, Sub};
pub use std::time::Duration;

/// A point on the monotonic clock, in microseconds since an arbitrary origin before the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The origin of the clock: no instant is before it.
    pub const ORIGIN: Instant = Instant(0);

    /// The instant that lies `micros` microseconds after the origin.
    pub const fn from_micros(micros: u64) -> Instant {
        Instant(micros)
    }

    /// Microseconds since the origin.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Time that went by since `earlier`; zero when `earlier` is not earlier.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_add(micros))
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.since(earlier)
    }
}

/// A wall-clock time in whole seconds since 1970-01-01T00:00:00Z, for output only.
///
/// 64 bits wide on every target, so that a 32-bit gateway has no 2038.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wall(u64);

impl Wall {
    /// A clock that shows less than this was never set: 2024-01-01T00:00:00Z, before the relay
    /// existed.
    pub const PLAUSIBLE: Wall = Wall(1_704_067_200);

    /// The time `seconds` after 1970; times before 1970 are not representable and read as 1970.
    pub const fn from_unix(seconds: u64) -> Wall {
        Wall(seconds)
    }

    /// Seconds since 1970.
    pub const fn as_unix(self) -> u64 {
        self.0
    }

    /// Whether the clock can have been set at all (gateways without a battery start in 1970).
    pub const fn is_plausible(self) -> bool {
        self.0 >= Wall::PLAUSIBLE.0
    }

    /// The same as the standard library's type, which the date formatters take.
    pub fn to_system(self) -> std::time::SystemTime {
        std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(self.0)
    }
}

/// A wall-clock time in whole milliseconds since 1970-01-01T00:00:00Z: when a state record says
/// that something happens, and what a peer's clock shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallMs(u64);

impl WallMs {
    /// The time `millis` milliseconds after 1970.
    pub const fn from_unix_ms(millis: u64) -> WallMs {
        WallMs(millis)
    }

    /// Milliseconds since 1970.
    pub const fn as_unix_ms(self) -> u64 {
        self.0
    }

    /// Time that went by since `earlier`; zero when `earlier` is not earlier.
    pub const fn since(self, earlier: WallMs) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// How far apart two times are, whichever is the earlier.
    pub const fn distance(self, other: WallMs) -> Duration {
        Duration::from_millis(self.0.abs_diff(other.0))
    }

    /// The same as the standard library's type, which the date formatters take.
    pub fn to_system(self) -> std::time::SystemTime {
        std::time::SystemTime::UNIX_EPOCH + Duration::from_millis(self.0)
    }

    /// From what the date readers give; `None` before 1970.
    pub fn from_system(time: std::time::SystemTime) -> Option<WallMs> {
        let since = time.duration_since(std::time::SystemTime::UNIX_EPOCH);
        since.ok().map(|since| WallMs(millis(since)))
    }
}

impl Add<Duration> for WallMs {
    type Output = WallMs;

    fn add(self, duration: Duration) -> WallMs {
        WallMs(self.0.saturating_add(millis(duration)))
    }
}

impl Sub<Duration> for WallMs {
    type Output = WallMs;

    fn sub(self, duration: Duration) -> WallMs {
        WallMs(self.0.saturating_sub(millis(duration)))
    }
}

/// A duration in whole milliseconds.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_runs_backwards() {
        let early = Instant::from_micros(5);
        let late = early + Duration::from_millis(2);
        assert_eq!(late - early, Duration::from_millis(2));
        assert_eq!(early - late, Duration::ZERO);
    }

    #[test]
    fn far_deadlines_saturate() {
        let end = Instant::from_micros(u64::MAX - 1) + Duration::from_secs(9);
        assert_eq!(end.as_micros(), u64::MAX);
    }

    #[test]
    fn a_clock_at_1970_is_not_plausible() {
        assert!(!Wall::from_unix(0).is_plausible());
        assert!(Wall::from_unix(1_800_000_000).is_plausible());
    }

    #[test]
    fn times_of_a_record_saturate_at_both_ends() {
        let hour = Duration::from_secs(3600);
        let early = WallMs::from_unix_ms(5);
        assert_eq!(early - hour, WallMs::from_unix_ms(0));
        assert_eq!((early + hour).since(early), hour);
        assert_eq!(early.distance(early + hour), hour);
        let end = WallMs::from_unix_ms(u64::MAX);
        assert_eq!(end + hour, end);
    }
}
