//! How long to wait before trying again: the one back-off of the relay.
//!
//! Policy: the wait doubles from `first` to `cap`, and each is drawn anew, so that what failed
//! together does not come back together. While it grows it is drawn from its upper half. At the cap
//! it varies by a 128th only: the phases are spread by then, and what a dead day costs can be
//! counted, however the dice fall.
//!
//! Trip: a failure. Recovery: [`Backoff::reset`], by whoever knows what success is. It holds no
//! instant and no generator: when to try again is its owner's, and so is the randomness.

use fastrand::Rng;

use crate::time::Duration;

/// A growing wait.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    cap: Duration,
    attempts: u32,
}

impl Backoff {
    /// Waits from `first` to `cap`.
    pub fn new(first: Duration, cap: Duration) -> Backoff {
        Backoff {
            first,
            cap,
            attempts: 0,
        }
    }

    /// The next wait, at most the cap. Bounded by O(1).
    pub fn next_delay(&mut self, random: &mut Rng) -> Duration {
        self.next_delay_within(self.cap, random)
    }

    /// The next wait under another cap than its own, for an owner whose patience changes.
    ///
    /// Bounded by O(1).
    pub fn next_delay_within(&mut self, cap: Duration, random: &mut Rng) -> Duration {
        let factor = 1u32.checked_shl(self.attempts).unwrap_or(u32::MAX);
        self.attempts = self.attempts.saturating_add(1);
        let full = self.first.saturating_mul(factor).min(cap);
        let part = if full < cap { full / 2 } else { full / 128 };
        full - part.mul_f64(random.f64())
    }

    /// Waits since the last reset.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// It worked: the next wait is the first again.
    pub fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_secs(5);
    const CAP: Duration = Duration::from_secs(300);

    #[test]
    fn waits_double_to_the_cap_and_start_again_after_a_success() {
        let mut backoff = Backoff::new(FIRST, CAP);
        let mut random = Rng::with_seed(1);
        for full in [5, 10, 20, 40, 80, 160] {
            let delay = backoff.next_delay(&mut random);
            let full = Duration::from_secs(full);
            assert!(delay <= full && delay * 2 >= full, "{delay:?} of {full:?}");
        }
        for _ in 0..200 {
            let delay = backoff.next_delay(&mut random);
            assert!(delay <= CAP && delay > CAP - CAP / 100, "{delay:?}");
        }
        backoff.reset();
        assert!(backoff.next_delay(&mut random) <= FIRST);
    }

    #[test]
    fn two_that_failed_together_do_not_come_back_together() {
        let whole = |seed| {
            let mut backoff = Backoff::new(FIRST, CAP);
            let mut random = Rng::with_seed(seed);
            (0..7).map(|_| backoff.next_delay(&mut random)).sum()
        };
        let mut sums: Vec<Duration> = (0..100).map(whole).collect();
        sums.sort_unstable();
        assert!(sums[90] - sums[10] > Duration::from_secs(30));
    }

    #[test]
    fn the_cap_may_shrink_while_it_waits() {
        let mut backoff = Backoff::new(FIRST, CAP);
        let mut random = Rng::with_seed(1);
        for _ in 0..40 {
            backoff.next_delay(&mut random);
        }
        let delay = backoff.next_delay_within(FIRST, &mut random);
        assert!(delay <= FIRST, "{delay:?}");
    }
}
