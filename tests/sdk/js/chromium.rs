//! Chromium as Debian has it, without a window, a profile or a thought for the outside world.

use crate::debian::{find, need};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const BROWSER: &str = "chromium";

/// Keeps it from looking up its maker's hosts at every start, and from opening UDP to the relay.
const QUIET: &[&str] = &[
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-component-update",
    "--disable-background-networking",
    "--log-level=3",
    "--no-first-run",
    "--no-proxy-server",
    "--enable-logging=stderr",
];

/// The browser, or why there is none.
pub fn found() -> Result<&'static Path, &'static str> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let look = || {
        need(&[(BROWSER, "chromium")])?;
        find(BROWSER).ok_or_else(|| format!("no {BROWSER}"))
    };
    match FOUND.get_or_init(look) {
        Ok(path) => Ok(path),
        Err(why) => Err(why),
    }
}

/// The command that shows `address` in a browser whose profile is the empty directory `profile`.
pub fn command(browser: &Path, profile: &Path, address: &str) -> Vec<OsString> {
    let mut words = vec![OsString::from(browser)];
    words.extend(QUIET.iter().map(OsString::from));
    if rustix::process::geteuid().is_root() {
        // Its own sandbox refuses to work for root, as in a container.
        words.push("--no-sandbox".into());
    }
    words.push(format!("--user-data-dir={}", profile.display()).into());
    words.push(address.into());
    words
}
