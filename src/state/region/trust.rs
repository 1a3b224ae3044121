//! Whether the wall clock may decide who is primary.
//!
//! It is trusted when it shows a time that can be (not before the program was built, the record
//! issued and the newest file stored) and does not differ by more than the record's `max_skew` from
//! most of the peers that were heard lately. Peers that are not heard have no say: a site that is
//! cut off goes by its own clock.
//!
//! Trip: the wall clock moves by more than `region.tilt_jump` against the monotonic one within
//! `region.tilt_window`. It was set, or the machine was suspended; then nobody is primary by it for
//! `region.tilt_wait`. Recovery: that wait, counted from the last jump.

use crate::limits::Limits;
use crate::time::{Duration, Instant, WallMs};

/// The two clocks, read at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    pub instant: Instant,
    pub wall: WallMs,
}

/// A peer's clock against ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// Positive: the peer is ahead.
    pub millis: i64,
    /// By how much that may be wrong: half of the time that the answer took.
    pub error: Duration,
    pub at: Instant,
}

impl Offset {
    /// From an answer that shows `wall` to a question that was asked at `asked`.
    pub fn measured(wall: WallMs, asked: Instant, now: Now) -> Offset {
        let error = now.instant.since(asked) / 2;
        let then = now.wall - error;
        let magnitude = i64::try_from(wall.distance(then).as_millis()).unwrap_or(i64::MAX);
        Offset {
            millis: if wall < then { -magnitude } else { magnitude },
            error,
            at: now.instant,
        }
    }

    fn is_within(&self, bound: Duration) -> bool {
        let magnitude = Duration::from_millis(self.millis.unsigned_abs());
        magnitude <= bound + self.error
    }
}

/// What is known of the clock.
#[derive(Debug)]
pub struct Trust {
    /// The wall clock cannot show less.
    floor: WallMs,
    /// Where both stood when they were last compared.
    reference: Option<Now>,
    tilted_until: Option<Instant>,
    jump: Duration,
    window: Duration,
    wait: Duration,
    fresh: Duration,
}

impl Trust {
    /// `floor` is the date of the build or of the newest stored file, whichever is later.
    pub fn new(floor: WallMs, limits: &Limits) -> Trust {
        Trust {
            floor,
            reference: None,
            tilted_until: None,
            jump: limits.region.tilt_jump,
            window: limits.region.tilt_window,
            wait: limits.region.tilt_wait,
            fresh: limits.region.offset_fresh,
        }
    }

    /// Something was signed or stored at `time`: no clock can show less from now on.
    pub fn raise_floor(&mut self, time: WallMs) {
        self.floor = self.floor.max(time);
    }

    /// Compares the two clocks; to be called before every decision. Returns whether a jump was
    /// found. Bounded by O(1).
    pub fn observe(&mut self, now: Now) -> bool {
        let Some(before) = self.reference else {
            self.reference = Some(now);
            return false;
        };
        let elapsed = now.instant.since(before.instant);
        let has_jumped = now.wall.distance(before.wall + elapsed) > self.jump;
        if has_jumped {
            self.tilted_until = Some(now.instant + self.wait);
        }
        if has_jumped || elapsed >= self.window {
            self.reference = Some(now);
        }
        has_jumped
    }

    /// Whether the clock was set a moment ago.
    pub fn is_tilted(&self, now: Instant) -> bool {
        self.tilted_until.is_some_and(|until| now < until)
    }

    /// When the tilt is over, while there is one.
    pub fn tilted_until(&self, now: Instant) -> Option<Instant> {
        self.tilted_until.filter(|until| now < *until)
    }

    /// Whether the clock shows a time that can be, and most of `peers` agree. Bounded by their
    /// number.
    pub fn is_trusted(
        &self,
        peers: impl Iterator<Item = Offset>,
        max_skew: Duration,
        now: Now,
    ) -> bool {
        if now.wall < self.floor {
            return false;
        }
        let fresh = |offset: &Offset| now.instant.since(offset.at) <= self.fresh;
        let agree = |(all, near): (usize, usize), offset: Offset| {
            (all + 1, near + usize::from(offset.is_within(max_skew)))
        };
        let (all, near) = peers.filter(fresh).fold((0, 0), agree);
        near * 2 > all || all == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SKEW: Duration = Duration::from_secs(2);

    fn now(instant_ms: u64, wall_ms: u64) -> Now {
        Now {
            instant: Instant::from_micros(instant_ms * 1000),
            wall: WallMs::from_unix_ms(wall_ms),
        }
    }

    fn trust() -> Trust {
        Trust::new(WallMs::from_unix_ms(1_000_000), &Limits::PRODUCTION)
    }

    fn offset(millis: i64) -> Offset {
        Offset {
            millis,
            error: Duration::ZERO,
            at: Instant::from_micros(1),
        }
    }

    #[test]
    fn a_clock_before_what_must_have_been_is_not_trusted() {
        let mut trust = trust();
        let none = std::iter::empty;
        assert!(!trust.is_trusted(none(), SKEW, now(1, 999_999)));
        assert!(trust.is_trusted(none(), SKEW, now(1, 1_000_000)));
        trust.raise_floor(WallMs::from_unix_ms(2_000_000));
        assert!(!trust.is_trusted(none(), SKEW, now(1, 1_000_000)));
    }

    #[test]
    fn most_of_the_peers_have_to_agree() {
        let trust = trust();
        let judge = |offsets: &[i64]| {
            let peers = offsets.iter().map(|millis| offset(*millis));
            trust.is_trusted(peers, SKEW, now(1, 1_000_000))
        };
        assert!(judge(&[0, 2_000, -9_000]));
        assert!(!judge(&[0, 2_001]));
        assert!(!judge(&[-3_000]));
    }

    #[test]
    fn a_peer_that_was_not_heard_for_long_has_no_say() {
        let late = now(70_000, 1_070_000);
        assert!(trust().is_trusted([offset(90_000)].into_iter(), SKEW, late));
    }

    #[test]
    fn a_slow_answer_is_no_offset() {
        let asked = Instant::from_micros(0);
        let measured = Offset::measured(
            WallMs::from_unix_ms(1_000_000),
            asked,
            now(6_000, 1_000_000),
        );
        assert_eq!(measured.millis, 3_000);
        assert!(measured.is_within(SKEW));
        let wrong = Offset::measured(WallMs::from_unix_ms(900_000), asked, now(10, 1_000_000));
        assert!(!wrong.is_within(SKEW));
    }

    #[test]
    fn a_jump_tilts_for_its_wait_and_slewing_does_not() {
        let mut trust = trust();
        assert!(!trust.observe(now(0, 1_000_000)));
        assert!(!trust.observe(now(30_000, 1_031_000)));
        assert!(trust.observe(now(31_000, 1_040_000)));
        assert!(trust.is_tilted(now(60_999, 0).instant));
        assert!(!trust.is_tilted(now(61_000, 0).instant));
        assert!(!trust.observe(now(32_000, 1_041_000)));
    }

    #[test]
    fn a_jump_back_is_a_jump() {
        let mut trust = trust();
        trust.observe(now(0, 1_000_000));
        assert!(trust.observe(now(1, 0)));
    }

    #[test]
    fn an_hour_of_slewing_is_no_jump() {
        let mut trust = trust();
        for second in 0..3_600 {
            let wall = 1_000_000 + second * 1_000 + second / 2;
            assert!(!trust.observe(now(second * 1_000, wall)), "{second}");
        }
    }
}
