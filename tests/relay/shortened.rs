//! A relay process whose limits are shorter than those that ship.
//!
//! The command line has no way to shorten a deadline, and shall have none. So a test of deadlines
//! runs twice: once as the test, and once, started by itself under its own name, as the relay of
//! that test. That keeps it a process of its own, with its own memory, signals and threads.

use crate::harness::relay::{Relay, with_the_thread};
use crate::harness::site::Site;
use staffetta::limits::Limits;
use staffetta::net::clock::Clock;
use staffetta::net::load::{Origin, load};
use staffetta::net::log::{Format, Level, Log};
use staffetta::net::sockets::Inherited;
use staffetta::net::{Control, Setup, run};
use std::ffi::OsString;
use std::path::PathBuf;

/// Where a test that is to be the relay finds its configuration.
const CONFIG: &str = "STAFFETTA_TEST_RELAY";

/// Starts the relay of `site` with `limits`. `test` is the path of the calling test, which must
/// call this first: in the second process it serves until it is told to end, and gives nothing.
pub fn start(test: &str, limits: Limits, site: impl FnOnce() -> Site) -> Option<(Site, Relay)> {
    if serves(limits) {
        return None;
    }
    let site = site();
    let relay = start_through(test, &site, Vec::new());
    Some((site, relay))
}

/// Whether this is the second process; then it has served with `limits` and is to end.
pub fn serves(limits: Limits) -> bool {
    let config = std::env::var_os(CONFIG);
    let is_relay = config.is_some();
    if let Some(config) = config {
        serve(config.into(), limits);
    }
    is_relay
}

/// The second half of [`start`], by the command `through`; [`serves`] is its first.
pub fn start_through(test: &str, site: &Site, through: Vec<OsString>) -> Relay {
    let mut words = through;
    words.extend(with_the_thread());
    words.push(
        std::env::current_exe()
            .expect("the test program has a path")
            .into(),
    );
    words.extend([test, "--exact", "--nocapture"].map(OsString::from));
    let config = (CONFIG, site.write_config().into());
    Relay::start_by(site, &words, &[config])
}

fn serve(path: PathBuf, limits: Limits) {
    let directory = path.parent().expect("a file has a directory").to_owned();
    let mut origin = Origin {
        path,
        environment: Default::default(),
    };
    origin.environment.config_directory = directory;
    let loaded = match load(origin, &limits) {
        Ok(loaded) => loaded,
        Err(error) => panic!("{error:?}"),
    };
    let clock = Clock::system();
    let setup = Setup {
        log: Log::stderr(clock.clone(), Format::Plain, Level::Debug, &limits),
        loaded,
        limits,
        clock,
        inherited: Inherited::default(),
        control: Control::Signals,
    };
    if let Err(error) = run(setup) {
        panic!("{error}");
    }
}
