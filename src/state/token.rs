//! The relay's own token for one upstream: when to ask for another, and when not to.
//!
//! Policy, that of IBM's SDKs: a token is replaced after 80 % of its life and no longer used
//! `token_margin` before its end; after IAM gave none it is left alone for `token_retry`, or for as
//! long as it says. An IAM that was not reached said nothing: whoever needs the token has a
//! back-off of his own, and an outage must not last longer for clients than it did. While the token
//! that is held is good, a failure costs nothing but the next attempt. A token that an upstream
//! refuses is replaced once: a fresh one that is refused as well is not at fault.
//!
//! Never: sees a key, or knows where IAM is. Whoever drives it lets one request be under way at a
//! time.

use std::rc::Rc;

use crate::limits::Limits;
use crate::time::{Duration, Instant};

/// The token of one upstream.
#[derive(Debug, Default)]
pub struct Token {
    held: Option<Held>,
    /// IAM is not asked before this.
    not_before: Instant,
}

struct Held {
    text: Rc<str>,
    since: Instant,
    refresh_at: Instant,
    ends_at: Instant,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Held(masked)")
    }
}

/// What to do for a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Use this one.
    Use(Rc<str>),
    /// Ask for another; this one is good should that fail.
    Refresh(Rc<str>),
    /// Ask: there is none.
    Ask,
    /// There is none, and IAM is left alone until then.
    Wait(Instant),
}

impl Token {
    /// What to do now. Bounded by a few comparisons.
    pub fn poll(&self, now: Instant) -> Next {
        let may_ask = now >= self.not_before;
        match self.held.as_ref().filter(|held| now < held.ends_at) {
            Some(held) if now >= held.refresh_at && may_ask => Next::Refresh(held.text.clone()),
            Some(held) => Next::Use(held.text.clone()),
            None if may_ask => Next::Ask,
            None => Next::Wait(self.not_before),
        }
    }

    /// IAM gave a token that lasts for `lifetime`. One that would end at once is used all the same:
    /// to ask for every request helps nobody.
    pub fn handle_granted(
        &mut self,
        text: &str,
        lifetime: Duration,
        limits: &Limits,
        now: Instant,
    ) {
        let lifetime = lifetime.max(limits.token_retry + limits.token_margin);
        self.held = Some(Held {
            text: text.into(),
            since: now,
            refresh_at: now + lifetime / 5 * 4,
            ends_at: now + lifetime.saturating_sub(limits.token_margin),
        });
        self.not_before = now;
    }

    /// IAM gave none.
    pub fn handle_failed(&mut self, retry_after: Option<Duration>, limits: &Limits, now: Instant) {
        self.not_before = now + retry_after.unwrap_or_default().max(limits.token_retry);
    }

    /// IAM was not reached.
    pub fn handle_unreached(&mut self, limits: &Limits, now: Instant) {
        self.not_before = now + limits.token_unreached_retry;
    }

    /// What kept IAM from being reached is over.
    pub fn hurry(&mut self, now: Instant) {
        self.not_before = now;
    }

    /// The upstream refused `text` with 401. Whether it is worth asking for another: not when this
    /// one is fresh, or was replaced meanwhile by one that is.
    pub fn handle_refused(&mut self, text: &str, limits: &Limits, now: Instant) -> bool {
        match &self.held {
            Some(held) if &*held.text != text => true,
            Some(held) if now.since(held.since) < limits.token_retry => false,
            Some(_) | None => {
                self.held = None;
                true
            }
        }
    }

    /// Another key: what was had by the old one, and the wait after its failures, are over.
    pub fn forget(&mut self, now: Instant) {
        self.held = None;
        self.not_before = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits::PRODUCTION;

    fn at(seconds: u64) -> Instant {
        Instant::from_micros(1_000_000 * (1_000 + seconds))
    }

    fn granted() -> Token {
        let mut token = Token::default();
        assert_eq!(token.poll(at(0)), Next::Ask);
        token.handle_granted("t", Duration::from_secs(3600), &LIMITS, at(0));
        token
    }

    #[test]
    fn a_token_is_replaced_after_four_fifths_and_ends_before_its_end() {
        let mut token = granted();
        assert_eq!(token.poll(at(2879)), Next::Use("t".into()));
        assert_eq!(token.poll(at(2880)), Next::Refresh("t".into()));
        assert_eq!(token.poll(at(3589)), Next::Refresh("t".into()));
        assert_eq!(token.poll(at(3590)), Next::Ask);
        token.handle_granted("u", Duration::from_secs(3600), &LIMITS, at(3590));
        assert_eq!(token.poll(at(3591)), Next::Use("u".into()));
    }

    #[test]
    fn failures_are_paced_and_cost_nothing_while_a_token_is_good() {
        let mut token = granted();
        token.handle_failed(None, &LIMITS, at(2880));
        assert_eq!(token.poll(at(2939)), Next::Use("t".into()));
        assert_eq!(token.poll(at(2940)), Next::Refresh("t".into()));
        token.handle_failed(Some(Duration::from_secs(700)), &LIMITS, at(3000));
        assert_eq!(token.poll(at(3589)), Next::Use("t".into()));
        assert_eq!(token.poll(at(3590)), Next::Wait(at(3700)));
        assert_eq!(token.poll(at(3700)), Next::Ask);
        token.handle_failed(Some(Duration::ZERO), &LIMITS, at(3700));
        assert_eq!(token.poll(at(3759)), Next::Wait(at(3760)));
        token.forget(at(3759));
        assert_eq!(token.poll(at(3759)), Next::Ask);
    }

    #[test]
    fn an_outage_lasts_no_longer_for_want_of_a_token() {
        let mut token = Token::default();
        token.handle_unreached(&LIMITS, at(0));
        assert_eq!(token.poll(at(1)), Next::Wait(at(2)), "slots share it");
        assert_eq!(token.poll(at(2)), Next::Ask);
        token.handle_unreached(&LIMITS, at(2));
        token.hurry(at(3));
        assert_eq!(token.poll(at(3)), Next::Ask);
    }

    #[test]
    fn a_refused_token_is_replaced_once() {
        let mut token = granted();
        assert!(!token.handle_refused("t", &LIMITS, at(59)));
        assert_eq!(token.poll(at(59)), Next::Use("t".into()));
        assert!(token.handle_refused("t", &LIMITS, at(60)));
        assert_eq!(token.poll(at(60)), Next::Ask);
        token.handle_granted("u", Duration::from_secs(3600), &LIMITS, at(61));
        // Whoever still used the old one may try the new one.
        assert!(token.handle_refused("t", &LIMITS, at(62)));
        assert_eq!(token.poll(at(62)), Next::Use("u".into()));
        assert!(!token.handle_refused("u", &LIMITS, at(63)));
    }

    #[test]
    fn a_token_that_ends_at_once_is_not_asked_for_each_time() {
        let mut token = Token::default();
        token.handle_granted("t", Duration::ZERO, &LIMITS, at(0));
        assert_eq!(token.poll(at(55)), Next::Use("t".into()));
        assert_eq!(token.poll(at(70)), Next::Ask);
    }
}
