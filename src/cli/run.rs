//! `staffetta run`: the relay in the foreground.
//!
//! Owns the start of the process: what is read before there is a log, and which of the ways to fail
//! ends in which exit code. Only a configuration that makes no sense is 78, which tells systemd not
//! to start it again; everything that may mend itself (a file that is not there yet, an address
//! that is taken) is 1, and the unit tries again.

use std::path::PathBuf;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{Command, Exit, UsageError, complain, only_config};
use crate::config::{Environment, LogFormat};
use crate::limits::Limits;
use crate::net::clock::Clock;
use crate::net::load::{LoadError, Loaded, Origin, load};
use crate::net::log::{Format, Level, Log};
use crate::net::notify::Notify;
use crate::net::sockets::Inherited;
use crate::net::{Control, Setup};

/// The command.
pub const COMMAND: Command = Command {
    name: "run",
    usage: "run --config FILE",
    summary: "Runs the relay in the foreground; it logs to standard error.",
    run,
};

fn run(parser: &mut lexopt::Parser) -> Result<Exit, UsageError> {
    let config = only_config(parser, &COMMAND)?;
    Ok(config.map_or(Exit::Done, start))
}

/// Where the configuration at `path` finds what it names.
pub fn origin(path: PathBuf) -> Origin {
    let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
    let runtime = std::env::var("RUNTIME_DIRECTORY").ok();
    // As other programs do: the variable in small letters wins.
    let proxy = |small, large| std::env::var(small).or_else(|_| std::env::var(large)).ok();
    let environment = Environment::new(&path, credentials, runtime.as_deref()).with_proxy(
        proxy("https_proxy", "HTTPS_PROXY"),
        proxy("no_proxy", "NO_PROXY"),
    );
    Origin { path, environment }
}

fn start(path: PathBuf) -> Exit {
    let limits = Limits::PRODUCTION;
    let inherited = match Inherited::take() {
        Ok(inherited) => inherited,
        Err(error) => {
            give_up(&error.to_string());
            return Exit::Failed;
        }
    };
    let loaded = match load(origin(path.clone()), &limits) {
        Ok(loaded) => loaded,
        Err(LoadError::Unreadable(problem)) => {
            give_up(&problem);
            return Exit::Failed;
        }
        Err(LoadError::Wrong(errors)) => {
            for error in errors {
                give_up(&format!("{}: {error}", path.display()));
            }
            return Exit::Configuration;
        }
    };
    let clock = Clock::system();
    let log = log(&loaded, clock.clone(), &limits);
    let config = &loaded.config;
    raise_descriptors(limits.descriptors(&config.load()), &log);
    let setup = Setup {
        loaded,
        limits,
        clock,
        log,
        inherited,
        control: Control::Signals,
    };
    match crate::net::run(setup) {
        Ok(()) => Exit::Done,
        Err(error) => {
            give_up(&error.to_string());
            Exit::Failed
        }
    }
}

/// Says why the process ends: to the journal as an error, to people as a line, and to the service
/// manager, which shows the last such line as the unit's status.
fn give_up(why: &str) {
    let limits = Limits::PRODUCTION;
    match Format::detect() {
        Format::Journal => {
            let log = Log::stderr(Clock::system(), Format::Journal, Level::Error, &limits);
            log.error(format_args!("{why}"));
        }
        Format::Plain | Format::Json => complain(format_args!("staffetta: {why}")),
    }
    Notify::from_environment().fail(why);
}

/// Lets the process have as many descriptors as its connections need, as far as it may.
fn raise_descriptors(needed: u64, log: &Log) {
    let found = getrlimit(Resource::Nofile);
    if found.current.is_none_or(|current| current >= needed) {
        return;
    }
    let reached = found.maximum.map_or(needed, |maximum| maximum.min(needed));
    let raised = Rlimit {
        current: Some(reached),
        maximum: found.maximum,
    };
    if setrlimit(Resource::Nofile, raised).is_err() || reached < needed {
        log.warn(format_args!(
            "{needed} descriptors are needed for limits.connections and fewer are allowed: raise \
             the unit's LimitNOFILE"
        ));
    }
}

fn log(loaded: &Loaded, clock: Clock, limits: &Limits) -> Log {
    let format = match loaded.config.log.format {
        LogFormat::Auto => Format::detect(),
        LogFormat::Plain => Format::Plain,
        LogFormat::Json => Format::Json,
        LogFormat::Journal => Format::Journal,
    };
    Log::stderr(clock, format, loaded.config.log.level.into(), limits)
}
