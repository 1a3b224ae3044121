//! What the checks say about one destination.
//!
//! Active: the relay asks, and a number of failures in a row make a destination unhealthy; one good
//! answer makes it healthy again. Until there were enough failures the last verdict stays, so a new
//! destination is used before it was ever asked.
//!
//! Passive: requests that fail on the way are counted over a sliding window. A destination with too
//! large a share of them, and enough requests to tell, is unhealthy until its reactivation, which
//! is never before its failures have left the window.
//!
//! Source: YARP's `ConsecutiveFailures` and `TransportFailureRate`. Its window moves by records of
//! a second or more; this one by sixtieths.

use crate::model::proxy::{ActiveCheck, PassiveCheck};
use crate::time::{Duration, Instant};

/// Fewer requests in the window tell nothing.
const REQUESTS_MIN: u32 = 10;
/// Parts of the window.
const PARTS: usize = 60;

/// What a check says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing yet. Used like a healthy one.
    #[default]
    Unknown,
    Healthy,
    Unhealthy,
}

impl Verdict {
    /// As it is written in status and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verdict::Unknown => "unknown",
            Verdict::Healthy => "healthy",
            Verdict::Unhealthy => "unhealthy",
        }
    }
}

/// The active check of one destination.
#[derive(Debug, Default)]
pub struct Active {
    pub verdict: Verdict,
    /// When the next probe begins; `None` while one is under way, and without a check.
    pub due: Option<Instant>,
    /// When the next probe begins at the soonest.
    pub next: Instant,
    failures: u32,
    is_probing: bool,
    number: u32,
}

impl Active {
    /// Begins a probe, and says its number.
    pub fn begin(&mut self, next: Instant) -> u32 {
        self.due = None;
        self.next = next;
        self.is_probing = true;
        self.number
    }

    /// Ends a probe. False for one that was given up meanwhile.
    pub fn end(&mut self, number: u32) -> bool {
        let is_awaited = self.is_probing && self.number == number;
        self.is_probing &= !is_awaited;
        self.number = self.number.wrapping_add(u32::from(is_awaited));
        is_awaited
    }

    /// Whether a probe is under way.
    pub fn is_probing(&self) -> bool {
        self.is_probing
    }

    /// Notes what a probe found.
    pub fn note(&mut self, is_good: bool, check: &ActiveCheck) {
        if is_good {
            self.failures = 0;
            self.verdict = Verdict::Healthy;
            return;
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures >= check.failures {
            self.verdict = Verdict::Unhealthy;
        }
    }

    /// Forgets all that was found, and gives up the probe that is under way. Returns when the next
    /// one was due, and whether there was one under way.
    pub fn reset(&mut self) -> (Option<Instant>, bool) {
        let (due, is_probing) = (self.due, self.is_probing);
        *self = Active {
            number: self.number.wrapping_add(1),
            ..Active::default()
        };
        (due, is_probing)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    all: u32,
    failed: u32,
}

/// The passive check of one destination. Half a kilobyte once a request was noted.
#[derive(Debug, Default)]
pub struct Passive {
    history: Option<Box<History>>,
    has_requests: bool,
    unhealthy_until: Option<Instant>,
}

#[derive(Debug)]
struct History {
    parts: [Count; PARTS],
    /// Which part of time the newest count is for.
    newest: u64,
    sum: Count,
}

impl Passive {
    /// Notes a request that ended. Bounded by the parts of the window.
    pub fn note(&mut self, has_failed: bool, check: &PassiveCheck, window: Duration, now: Instant) {
        let history = self.history.get_or_insert_with(|| {
            Box::new(History {
                parts: [Count::default(); PARTS],
                newest: 0,
                sum: Count::default(),
            })
        });
        self.has_requests = true;
        let is_bad = history.note(has_failed, window, now) >= check.failure_rate;
        if !is_bad {
            self.unhealthy_until = None;
        } else if self.unhealthy_until.is_none_or(|until| until <= now) {
            self.unhealthy_until = Some(now + check.reactivation.max(window));
        }
    }

    /// What is to be thought of the destination now.
    pub fn verdict(&self, now: Instant) -> Verdict {
        match self.unhealthy_until {
            Some(until) if now < until => Verdict::Unhealthy,
            Some(_) => Verdict::Unknown,
            None if self.has_requests => Verdict::Healthy,
            None => Verdict::Unknown,
        }
    }
}

impl History {
    /// Counts a request, and says the share of failures: 0 while there are too few requests.
    fn note(&mut self, has_failed: bool, window: Duration, now: Instant) -> f64 {
        let width = (window.as_micros() as u64 / PARTS as u64).max(1);
        let current = now.as_micros() / width;
        let passed = current.saturating_sub(self.newest).min(PARTS as u64);
        for part in 0..passed {
            // The parts that time went by are emptied for what comes.
            let place = ((current - part) % PARTS as u64) as usize;
            let gone = std::mem::take(&mut self.parts[place]);
            self.sum.all -= gone.all;
            self.sum.failed -= gone.failed;
        }
        self.newest = self.newest.max(current);
        let failed = u32::from(has_failed);
        let newest = &mut self.parts[(self.newest % PARTS as u64) as usize];
        for count in [newest, &mut self.sum] {
            count.all = count.all.saturating_add(1);
            count.failed = count.failed.saturating_add(failed);
        }
        match self.sum.all < REQUESTS_MIN {
            true => 0.0,
            false => f64::from(self.sum.failed) / f64::from(self.sum.all),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(60);
    const CHECK: PassiveCheck = PassiveCheck {
        reactivation: Duration::from_secs(30),
        failure_rate: 0.3,
    };

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(seconds)
    }

    fn noted(passive: &mut Passive, good: u32, bad: u32, now: Instant) -> Verdict {
        for has_failed in
            std::iter::repeat_n(false, good as usize).chain(std::iter::repeat_n(true, bad as usize))
        {
            passive.note(has_failed, &CHECK, WINDOW, now);
        }
        passive.verdict(now)
    }

    #[test]
    fn failures_in_a_row_count_and_one_good_answer_ends_them() {
        let check = ActiveCheck {
            interval: Duration::from_secs(15),
            timeout: Duration::from_secs(10),
            path: "".into(),
            query: "".into(),
            failures: 2,
        };
        let mut active = Active::default();
        let mut verdicts = Vec::new();
        for is_good in [false, true, false, false, false, true] {
            active.note(is_good, &check);
            verdicts.push(active.verdict);
        }
        use Verdict::{Healthy, Unhealthy, Unknown};
        assert_eq!(
            verdicts,
            [Unknown, Healthy, Healthy, Unhealthy, Unhealthy, Healthy]
        );
    }

    #[test]
    fn a_probe_that_was_given_up_ends_nothing() {
        let mut active = Active::default();
        let number = active.begin(at(1));
        assert!(active.is_probing());
        assert_eq!(active.reset(), (None, true));
        assert!(!active.end(number));
        let number = active.begin(at(2));
        assert!(active.end(number) && !active.end(number));
    }

    #[test]
    fn few_requests_tell_nothing() {
        let mut passive = Passive::default();
        assert_eq!(passive.verdict(at(0)), Verdict::Unknown);
        assert_eq!(noted(&mut passive, 0, 9, at(1)), Verdict::Healthy);
        assert_eq!(noted(&mut passive, 0, 1, at(1)), Verdict::Unhealthy);
    }

    #[test]
    fn the_share_of_failures_decides() {
        let mut passive = Passive::default();
        assert_eq!(noted(&mut passive, 10, 4, at(1)), Verdict::Healthy);
        assert_eq!(noted(&mut passive, 0, 1, at(1)), Verdict::Unhealthy);
        assert_eq!(noted(&mut passive, 3, 0, at(1)), Verdict::Healthy);
    }

    #[test]
    fn what_left_the_window_is_forgotten() {
        let mut passive = Passive::default();
        noted(&mut passive, 7, 0, at(1));
        assert_eq!(noted(&mut passive, 0, 2, at(60)), Verdict::Healthy);
        // The good ones left; these are the tenth and more.
        assert_eq!(noted(&mut passive, 0, 8, at(62)), Verdict::Unhealthy);
        assert_eq!(noted(&mut passive, 0, 9, at(500)), Verdict::Healthy);
    }

    #[test]
    fn reactivation_waits_for_the_window() {
        let mut passive = Passive::default();
        assert_eq!(noted(&mut passive, 0, 10, at(1)), Verdict::Unhealthy);
        assert_eq!(noted(&mut passive, 0, 1, at(9)), Verdict::Unhealthy);
        assert_eq!(passive.verdict(at(60)), Verdict::Unhealthy);
        assert_eq!(passive.verdict(at(61)), Verdict::Unknown);
        assert_eq!(noted(&mut passive, 1, 0, at(70)), Verdict::Healthy);
    }
}
