//! `staffetta unit`: the limits of the systemd unit that fit a configuration.
//!
//! Owns the sums behind the unit's `Memory*`, `LimitNOFILE` and `TimeoutStartSec`, and prints them
//! as a drop-in. The unit that ships has the values of the default configuration.
//!
//! The kernel counts against a unit what the relay itself does not hold: what sockets have not sent
//! yet, and for a moment the pages of a file that is read. So a unit needs more than
//! `limits.memory`, and is slowed down before it is ended.

use std::fmt;
use std::path::PathBuf;

use super::run::origin;
use super::{Command, Exit, UsageError, complain, only_config, say};
use crate::config::Config;
use crate::limits::Limits;
use crate::net::load::{LoadError, load};

/// Where the drop-in belongs.
const DROP_IN: &str = "/etc/systemd/system/staffetta.service.d/limits.conf";

/// From the point where the kernel reclaims to the point where it kills.
const HEADROOM_BYTES: u64 = 8 * MIB;

/// From the relay's own patience with a start to systemd's.
const START_MARGIN_S: u64 = 60;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// The command.
pub const COMMAND: Command = Command {
    name: "unit",
    usage: "unit --config FILE",
    summary: "Prints the limits of the systemd unit that fit a configuration, as a drop-in.",
    run,
};

fn run(parser: &mut lexopt::Parser) -> Result<Exit, UsageError> {
    let config = only_config(parser, &COMMAND)?;
    Ok(config.map_or(Exit::Done, print))
}

fn print(path: PathBuf) -> Exit {
    let limits = Limits::PRODUCTION;
    match load(origin(path.clone()), &limits) {
        Ok(loaded) => {
            let path = path.display();
            say(format_args!("# {DROP_IN}"));
            say(format_args!(
                "# Made by `staffetta unit --config {path}`; make it anew when"
            ));
            say(format_args!(
                "# limits.memory, limits.connections or start_timeout_s change there."
            ));
            say(format_args!(
                "[Service]\n{}",
                UnitLimits::of(&loaded.config, &limits)
            ));
            Exit::Done
        }
        Err(LoadError::Unreadable(problem)) => {
            complain(format_args!("staffetta unit: {problem}"));
            Exit::Failed
        }
        Err(LoadError::Wrong(errors)) => {
            for error in errors {
                complain(format_args!("{}: {error}", path.display()));
            }
            Exit::Configuration
        }
    }
}

/// What a unit is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UnitLimits {
    /// Above this the kernel reclaims, and slows the relay down.
    high_bytes: u64,
    /// Above this it ends the relay.
    memory_bytes_max: u64,
    descriptors: u64,
    /// A normal start may wait for its upstream so long.
    start_s: u64,
}

impl UnitLimits {
    fn of(config: &Config, limits: &Limits) -> UnitLimits {
        let connections = config.limits.connections;
        let sockets = (connections as u64).saturating_mul(u64::from(limits.socket_notsent_bytes));
        let high_bytes = (config.limits.memory_bytes as u64).saturating_add(sockets);
        UnitLimits {
            high_bytes,
            memory_bytes_max: high_bytes.saturating_add(HEADROOM_BYTES),
            descriptors: limits.descriptors(&config.load()),
            start_s: config
                .start_timeout
                .as_secs()
                .saturating_add(START_MARGIN_S),
        }
    }
}

impl fmt::Display for UnitLimits {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = |bytes: u64| bytes.div_ceil(MIB);
        writeln!(formatter, "MemoryHigh={}M", mebibytes(self.high_bytes))?;
        writeln!(formatter, "MemoryMax={}M", mebibytes(self.memory_bytes_max))?;
        writeln!(formatter, "LimitNOFILE={}", self.descriptors)?;
        write!(formatter, "TimeoutStartSec={}", self.start_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Environment;
    use crate::limits::MemoryLoad;

    fn of(limits: &str) -> UnitLimits {
        let text = format!(
            r#"{{"instance": {{"guid": "11111111-2222-3333-4444-555555555555"}},
                 "slots": [{{"collection": "c", "environment": "e"}}], "limits": {limits}}}"#
        );
        let production = &Limits::PRODUCTION;
        let config = Config::parse(text.as_bytes(), &Environment::default(), production).unwrap();
        UnitLimits::of(&config, production)
    }

    #[test]
    fn the_unit_that_ships_fits_the_default_configuration() {
        let unit = include_str!("../../cross/units/staffetta.service");
        let text = of("{}").to_string();
        for line in text.lines().filter(|line| !line.starts_with("LimitNOFILE")) {
            assert!(unit.lines().any(|have| have == line), "{line}");
        }
    }

    #[test]
    fn the_unit_that_ships_has_descriptors_for_whatever_is_configured_beside() {
        let unit = include_str!("../../cross/units/staffetta.service");
        let mut found = unit
            .lines()
            .filter_map(|line| line.strip_prefix("LimitNOFILE="));
        let shipped = found.next().and_then(|text| text.parse::<u64>().ok());
        let limits = &Limits::PRODUCTION;
        let most = MemoryLoad {
            connections: limits.connections_max,
            slots: limits.slots_max,
            upstreams: 2,
            replicas: limits.slots_max,
            forwards: true,
            ..MemoryLoad::default()
        };
        assert!(shipped.unwrap() >= limits.descriptors(&most));
    }

    #[test]
    fn what_sockets_hold_comes_on_top_of_what_the_relay_may() {
        let small = of(r#"{"connections": 64, "memory": "8MiB"}"#);
        assert_eq!(
            small.to_string(),
            "MemoryHigh=9M\nMemoryMax=17M\nLimitNOFILE=208\nTimeoutStartSec=180"
        );
        let large = of(r#"{"connections": 4096, "memory": "256MiB"}"#);
        assert_eq!(large.high_bytes, (256 + 64) * MIB);
    }
}
