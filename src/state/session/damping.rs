//! When a primary that keeps falling over is gone back to.
//!
//! Policy: a primary may fail now and then, and is gone back to as soon as a probe finds it usable.
//! One that was lost three times within ten minutes is left alone for longer, 30 s and then 60 s,
//! because each return costs every slot a handshake and a fetch. Nothing is hidden from clients by
//! going back late: the backup serves.
//!
//! Trip: `damping_losses` within `damping_window`. Recovery: time alone.

use crate::limits::Limits;
use crate::time::{Duration, Instant};
use heapless::Deque;

/// Losses that are remembered: with more the wait does not grow any further.
const REMEMBERED: usize = 8;

/// The losses of a primary.
#[derive(Debug)]
pub(super) struct Damping {
    losses: Deque<Instant, REMEMBERED>,
    losses_max: usize,
    window: Duration,
    wait_max: Duration,
}

impl Damping {
    pub(super) fn new(limits: &Limits) -> Damping {
        Damping {
            losses: Deque::new(),
            losses_max: limits.damping_losses.min(REMEMBERED),
            window: limits.damping_window,
            wait_max: limits.damping_wait_max,
        }
    }

    /// The primary was lost. Returns how long it is left alone, at least; zero mostly.
    pub(super) fn handle_loss(&mut self, now: Instant) -> Duration {
        if self.losses.is_full() {
            self.losses.pop_front();
        }
        // Cannot be full: the oldest just left.
        let _ = self.losses.push_back(now);
        let recent = |at: &&Instant| now.since(**at) < self.window;
        let recent = self.losses.iter().filter(recent).count();
        match recent.checked_sub(self.losses_max) {
            None => Duration::ZERO,
            Some(0) => self.wait_max / 2,
            Some(_) => self.wait_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(seconds: &[u64]) -> Vec<u64> {
        let mut damping = Damping::new(&Limits::PRODUCTION);
        let mut lose = |at: &u64| {
            let at = Instant::ORIGIN + Duration::from_secs(*at);
            damping.handle_loss(at).as_secs()
        };
        seconds.iter().map(&mut lose).collect()
    }

    #[test]
    fn the_third_loss_within_ten_minutes_delays_the_return() {
        assert_eq!(waits(&[0, 100, 200, 300, 400]), [0, 0, 30, 60, 60]);
    }

    #[test]
    fn losses_far_apart_delay_nothing() {
        assert_eq!(waits(&[0, 599, 1198, 1797]), [0, 0, 0, 0]);
        assert_eq!(waits(&[0, 10, 20, 630]), [0, 0, 30, 0]);
    }
}
