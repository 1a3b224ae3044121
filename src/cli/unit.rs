//! `staffetta unit`: how systemd is to run the relay with a configuration.
//!
//! Owns the sums behind the unit's `Memory*`, `LimitNOFILE` and `TimeoutStartSec`, and prints them
//! as a drop-in; the unit that ships has the values of the default configuration. Says, too, which
//! profile fits (with a network or without one), and which addresses the socket unit is to listen
//! on, so that whoever installs a gateway need not read JSON with `grep`.
//!
//! Never opens what the configuration names: keys and certificates need not be there.
//!
//! The kernel counts against a unit what the relay itself does not hold: what sockets have not sent
//! yet, and for a moment the pages of a file that is read. So a unit needs more than
//! `limits.memory`, and is slowed down before it is ended.

mod socket;

use std::fmt;
use std::path::{Path, PathBuf};

use super::run::origin;
use super::{Command, Exit, UsageError, complain, explain, path_value, say};
use crate::config::Config;
use crate::limits::Limits;
use crate::net::load::{LoadError, read_config};

/// Where the drop-in belongs.
const DROP_IN: &str = "/etc/systemd/system/staffetta.service.d/limits.conf";

/// From the point where the kernel reclaims to the point where it kills.
const HEADROOM_BYTES: u64 = 8 * MIB;

/// From the relay's own patience with a start to systemd's.
const START_MARGIN_S: u64 = 60;

/// `LimitNOFILE` of the unit that ships. A drop-in hides that line, so it says no less: it is
/// enough for what may be configured later beside the default connections (256 slots with two
/// upstreams, a region, routes), and descriptors that are not used cost nothing.
const DESCRIPTORS_SHIPPED: u64 = 4096;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// The command.
pub const COMMAND: Command = Command {
    name: "unit",
    usage: "unit --config FILE [--profile | --socket]",
    summary: "Prints the limits of the systemd unit that fit a configuration, as a drop-in; \
              --socket prints one with its addresses for the socket unit; --profile says whether \
              it needs a network (online) or not (air-gap).",
    run,
};

/// What is asked about a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Limits,
    Profile,
    Socket,
}

fn run(parser: &mut lexopt::Parser) -> Result<Exit, UsageError> {
    use lexopt::prelude::*;
    let (mut config, mut form) = (None, Form::Limits);
    while let Some(argument) = parser.next()? {
        match (argument, form) {
            (Long("config"), _) => config = Some(path_value(parser)?),
            (Long("profile"), Form::Limits | Form::Profile) => form = Form::Profile,
            (Long("socket"), Form::Limits | Form::Socket) => form = Form::Socket,
            (Short('h') | Long("help"), _) => return Ok(explain(&COMMAND)),
            (other, _) => return Err(other.unexpected().into()),
        }
    }
    let config = config.ok_or(UsageError::Missing("--config FILE"))?;
    Ok(print(config, form))
}

fn print(path: PathBuf, form: Form) -> Exit {
    let limits = Limits::PRODUCTION;
    // What is relative in it starts at its folder, and systemd knows no working directory.
    let absolute = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
    let config = match read_config(&origin(absolute.clone()), &limits) {
        Ok(config) => config,
        Err(LoadError::Unreadable(problem)) => {
            complain(format_args!("staffetta unit: {problem}"));
            return Exit::Failed;
        }
        Err(LoadError::Wrong(errors)) => {
            for error in errors {
                complain(format_args!("{}: {error}", path.display()));
            }
            return Exit::Configuration;
        }
    };
    let text = match form {
        Form::Limits => Ok(limits_drop_in(&absolute, UnitLimits::of(&config, &limits))),
        Form::Profile => Ok(profile(&config).to_owned()),
        Form::Socket => socket::drop_in(&absolute, &config.listen),
    };
    match text {
        Ok(text) => {
            say(format_args!("{text}"));
            Exit::Done
        }
        Err(problem) => {
            complain(format_args!("staffetta unit: {problem}"));
            Exit::Failed
        }
    }
}

/// `online` where connections are opened: to upstreams, other regions, the servers behind a reverse
/// proxy.
fn profile(config: &Config) -> &'static str {
    let calls_nobody =
        config.upstream.is_none() && config.region.is_none() && config.reverse_proxy.is_none();
    if calls_nobody { "air-gap" } else { "online" }
}

fn limits_drop_in(path: &Path, limits: UnitLimits) -> String {
    let path = path.display();
    format!(
        "# {DROP_IN}\n\
         # Made by `staffetta unit --config {path}`; make it anew after a\n\
         # change there of limits, start_timeout_s, slots, upstream, region or ReverseProxy.\n\
         [Service]\n{limits}"
    )
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
            descriptors: limits.descriptors(&config.load()).max(DESCRIPTORS_SHIPPED),
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

    fn config(more: &str) -> Config {
        let text = format!(
            r#"{{"instance": {{"guid": "11111111-2222-3333-4444-555555555555"}},
                 "slots": [{{"collection": "c", "environment": "e", "source": "operator"}}],
                 "state_dir": "s", {more}}}"#
        );
        let environment = Environment::default();
        Config::parse(text.as_bytes(), &environment, &Limits::PRODUCTION).unwrap()
    }

    fn of(limits: &str) -> UnitLimits {
        let config = config(&format!(r#""limits": {limits}"#));
        UnitLimits::of(&config, &Limits::PRODUCTION)
    }

    #[test]
    fn whoever_opens_connections_needs_a_network() {
        let routes = r#""ReverseProxy": {
            "Routes": {"r": {"ClusterId": "c", "Match": {"Path": "/{**rest}"}}},
            "Clusters": {"c": {"Destinations": {"d": {"Address": "http://10.0.0.11:80"}}}}}"#;
        let upstream = r#""upstream": {"primary": {
            "url": "https://relay.example", "api_key_file": "not-there"}}"#;
        let region = r#""region": {
            "node": "eu-1", "peer_key_file": "not-there", "trust": "none"}"#;
        for (more, expected) in [
            (r#""seed": {"file": "not-there"}"#, "air-gap"),
            (r#"/* no "upstream" here */ "limits": {}"#, "air-gap"),
            (upstream, "online"),
            (region, "online"),
            (routes, "online"),
        ] {
            assert_eq!(profile(&config(more)), expected, "{more}");
        }
    }

    #[test]
    fn what_the_configuration_names_need_not_be_there() {
        let name = format!("staffetta-unit-{}.json", std::process::id());
        let path = std::env::temp_dir().join(name);
        let text = r#"{"instance": {"guid": "11111111-2222-3333-4444-555555555555"},
            "slots": [{"collection": "c", "environment": "e"}],
            "client_keys": [{"id": "k", "key_file": "${CREDENTIALS_DIRECTORY}/key"}],
            "tls": {"cert": "relay.crt", "key": "relay.key"}}"#;
        for form in [Form::Limits, Form::Profile, Form::Socket] {
            assert_eq!(print(path.clone(), form), Exit::Failed);
        }
        std::fs::write(&path, text).unwrap();
        for form in [Form::Limits, Form::Profile, Form::Socket] {
            assert_eq!(print(path.clone(), form), Exit::Done);
        }
        std::fs::write(&path, "{}").unwrap();
        assert_eq!(print(path.clone(), Form::Profile), Exit::Configuration);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn the_unit_that_ships_fits_the_default_configuration() {
        let unit = include_str!("../../cross/units/staffetta.service");
        for line in of("{}").to_string().lines() {
            assert!(unit.lines().any(|have| have == line), "{line}");
        }
    }

    #[test]
    fn the_unit_that_ships_has_descriptors_for_whatever_is_configured_beside() {
        let limits = &Limits::PRODUCTION;
        let most = MemoryLoad {
            connections: limits.connections_max,
            slots: limits.slots_max,
            upstreams: 2,
            replicas: limits.slots_max,
            forwards: true,
            ..MemoryLoad::default()
        };
        assert!(DESCRIPTORS_SHIPPED >= limits.descriptors(&most));
    }

    #[test]
    fn what_sockets_hold_comes_on_top_of_what_the_relay_may() {
        let small = of(r#"{"connections": 64, "memory": "8MiB"}"#);
        assert_eq!(
            small.to_string(),
            "MemoryHigh=9M\nMemoryMax=17M\nLimitNOFILE=4096\nTimeoutStartSec=180"
        );
        let large = of(r#"{"connections": 4096, "memory": "256MiB"}"#);
        assert_eq!(large.high_bytes, (256 + 64) * MIB);
        assert!(large.descriptors > 4096, "{large}");
    }
}
