//! A new configuration for a running relay, all of it or nothing.
//!
//! Owns the order: read everything first (in the disk lane), refuse the whole if any of it is
//! wrong, then swap keys, certificate, tunnels, routes and admin token in one step, then read the
//! seed, which is judged by itself: a bad seed keeps no removed key alive. What cannot change
//! without a restart is named and keeps its old value. No connection is dropped, but those that
//! were opened with a key that is gone.

use std::rc::Rc;

use super::driver::Driver;
use super::follow;
use super::load::{self, LoadError, Loaded};
use super::proxy;
use super::region;
use super::seed;
use super::tunnels::Tunnels;

/// The code for streams whose key was removed: "going away".
pub const CLOSE_KEY_REMOVED: u16 = 1001;

/// What a reload came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The new configuration is in force, all of it.
    pub is_applied: bool,
    /// Every slot has what the seed holds for it, or there is no seed.
    pub is_seed_used: bool,
    /// For people, one line each.
    pub lines: Vec<String>,
}

impl Report {
    /// Whether everything is as the operator wants it.
    pub fn is_good(&self) -> bool {
        self.is_applied && self.is_seed_used
    }
}

/// Reads the configuration again and puts it in force.
pub async fn reload(driver: &Rc<Driver>) -> Report {
    if driver.is_starting_normally() {
        // It would take the seed for content, and tell the service manager that it is ready.
        let line = "the start is not over yet; try again when the relay listens".to_owned();
        driver.log.error(format_args!("reload: {line}"));
        return Report {
            is_applied: false,
            is_seed_used: false,
            lines: vec![line],
        };
    }
    driver.notify.reloading(driver.clock.now());
    // Large and rare: no connection that might ask for it carries it along.
    let report = Box::pin(try_reload(driver)).await;
    for line in &report.lines {
        match report.is_good() {
            true => driver.log.note(format_args!("reload: {line}")),
            false => driver.log.error(format_args!("reload: {line}")),
        }
    }
    driver.count(|counters| match report.is_applied {
        true => counters.reloads += 1,
        false => counters.reloads_refused += 1,
    });
    driver.notify.reloaded(driver);
    report
}

async fn try_reload(driver: &Rc<Driver>) -> Report {
    let refused = |lines| Report {
        is_applied: false,
        is_seed_used: false,
        lines,
    };
    let origin = driver.loaded.borrow().origin.clone();
    let limits = driver.limits.clone();
    let loaded = match driver.disk.run(move || load::load(origin, &limits)).await {
        Ok(Ok(loaded)) => loaded,
        Ok(Err(LoadError::Unreadable(problem))) => return refused(vec![problem]),
        Ok(Err(LoadError::Wrong(errors))) => {
            return refused(errors.iter().map(ToString::to_string).collect());
        }
        Err(_) => {
            return refused(vec![
                "the disk has more to do than it can; try again".into(),
            ]);
        }
    };
    if !loaded.problems.is_empty() {
        return refused(loaded.problems);
    }
    let mut lines = apply(driver, loaded);
    lines.extend(region::record::reload(driver).await);
    seed::forget(driver);
    match seed::read(driver).await {
        Ok(verdict) => {
            lines.push(verdict.to_string());
            let state = driver.state.borrow();
            lines.extend(state.slots.iter().filter_map(|(_, slot)| {
                let refusal = slot.refusal.as_ref()?;
                Some(format!("slot {}: {}", slot.key, refusal.problem))
            }));
            Report {
                is_applied: true,
                is_seed_used: verdict.refused == 0,
                lines,
            }
        }
        Err(problem) => {
            lines.push(format!(
                "the configuration is in force; the seed is not, what is served stays: {problem}"
            ));
            Report {
                is_applied: true,
                is_seed_used: false,
                lines,
            }
        }
    }
}

fn apply(driver: &Rc<Driver>, mut loaded: Loaded) -> Vec<String> {
    let old = driver.loaded.borrow().clone();
    let mut lines: Vec<String> = Vec::new();
    for key in old.config.needs_restart(&loaded.config) {
        lines.push(format!("{key} changed: takes effect at the next start"));
    }
    let now = driver.clock.now();
    loaded.keep_running(&old);
    let mut state = driver.state.borrow_mut();
    let gone = state
        .access
        .replace(loaded.keys_in_use(), loaded.unreadable);
    // A key that is gone may use no slot.
    state.close_not_allowed(CLOSE_KEY_REMOVED);
    state.watch_seed(loaded.config.seed.is_some(), now);
    drop(state);
    lines.push(format!(
        "{} client keys, {} removed",
        loaded.keys.len(),
        gone.len()
    ));
    *driver.tls.borrow_mut() = loaded.tls.clone();
    *driver.tunnels.borrow_mut() = Tunnels::new(&loaded.config);
    follow::handle_reload(driver, &loaded);
    proxy::replace(driver, loaded.config.reverse_proxy.as_ref());
    driver.log.set_level(loaded.config.log.level.into());
    *driver.loaded.borrow_mut() = Rc::new(loaded);
    driver.wake();
    lines
}
