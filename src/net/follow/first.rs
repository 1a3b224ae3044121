//! The first documents of a normal start: nothing is served before the upstream was asked.
//!
//! Owns the wait, and what is said when it was in vain: which slot, which upstream, why. Whom to
//! ask when is decided by the sessions, as ever.
//!
//! A normal start is for sites where old content is worse than none for a while. It never serves
//! what the state folder or the seed holds, and ends the process when its time is over: the unit
//! starts it again.

use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use crate::model::{Role, SlotIndex, SlotKey};
use crate::net::clock::Alarm;
use crate::net::driver::Driver;
use crate::time::Duration;

/// The slots that got nothing in time, and why: one line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub waited: Duration,
    pub lines: Vec<String>,
}

impl fmt::Display for Missing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "no start: {} slots had no document from any upstream within {} s \
             (start_timeout_s); `start: fast` would serve the seed or what was last known good",
            self.lines.len(),
            self.waited.as_secs()
        )?;
        for line in &self.lines {
            write!(formatter, "\n{line}")?;
        }
        Ok(())
    }
}

/// Fetches a document for every slot.
///
/// # Errors
/// Some slot has none when `start_timeout` is over.
pub async fn first_documents(driver: &Rc<Driver>) -> Result<(), Missing> {
    let now = driver.clock.now();
    let waited = driver.loaded.borrow().config.start_timeout;
    let mut alarm = Alarm::new(driver.clock.clone());
    alarm.set(Some(now + waited));
    // A seed that is looked at meanwhile would be content.
    driver.state.borrow_mut().watch_seed(false, now);
    super::tell_all(driver, |session| session.start_fetching(now));
    let is_complete = poll_fn(|context| {
        if missing(driver).is_empty() {
            return Poll::Ready(true);
        }
        driver.wake_when_adopted(context.waker().clone());
        alarm.poll(context).map(|()| false)
    });
    match is_complete.await {
        true => {
            let watches = driver.loaded.borrow().config.seed.is_some();
            let mut state = driver.state.borrow_mut();
            state.watch_seed(watches, driver.clock.now());
            Ok(())
        }
        false => Err(Missing {
            waited,
            lines: why(driver),
        }),
    }
}

/// The empty slots that an upstream can fill.
fn missing(driver: &Driver) -> Vec<(SlotIndex, SlotKey)> {
    let state = driver.state.borrow();
    let slots = state.slots.iter();
    let missing = slots.filter(|(_, slot)| slot.held.is_none() && !slot.is_operators());
    missing
        .map(|(index, slot)| (index, slot.key.clone()))
        .collect()
}

fn why(driver: &Driver) -> Vec<String> {
    let line = |(index, key)| format!("slot {key}: {}", causes(driver, index));
    missing(driver).into_iter().map(line).collect()
}

fn causes(driver: &Driver, slot: SlotIndex) -> String {
    let Some(follow) = &driver.follow else {
        return String::new();
    };
    let cause = |role| {
        let upstream = follow.own.as_ref()?.configured.of(role)?;
        let text = match follow.trouble(slot, role) {
            Some(trouble) => trouble.text,
            None => format!("{}: no answer in that time", upstream.url),
        };
        Some(format!("{}: {text}", Role::as_str(role)))
    };
    let causes: Vec<String> = Role::ALL.into_iter().filter_map(cause).collect();
    causes.join("; ")
}
