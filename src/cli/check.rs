//! `check --config FILE [--seed FILE]`: everything that is wrong, before it matters.
//!
//! Looks at the configuration and at whatever it names: keys, certificate, upstreams, seed, clock,
//! descriptors and memory. Each finding is an error (exit code 78) or a warning (0), one line each,
//! with the file and the JSON path. The relay itself is more lenient: it starts whenever anything
//! can be served, because a gateway that refuses to start helps nobody.
//!
//! Never connects to anybody: whether an upstream answers, `run` finds out.
//!
//! Read next: `keys`, `certificate`, `upstream`, `region`, `machine`, `seed`, one file for each
//! thing that is looked at.

mod certificate;
mod keys;
mod machine;
mod region;
mod seed;
#[cfg(test)]
mod tests;
mod upstream;

use super::run::origin;
use super::{Command, Exit, UsageError, complain, explain, path_value, say};
use crate::config::{CREDENTIALS, Config, Environment};
use crate::limits::Limits;
use crate::net::clock::Clock;
use crate::net::disk::read_bounded;
use crate::time::Wall;
use std::fmt;
use std::path::{Path, PathBuf};

/// The words and the entry of this command.
pub const COMMAND: Command = Command {
    name: "check",
    usage: "check --config FILE [--seed FILE]",
    summary: "Looks for mistakes in the configuration and in the keys, the certificate and the \
              seed that it names; asks no upstream. --seed looks at another seed than the \
              configured one.",
    run,
};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Severity {
    /// The relay would not start, or would not serve somebody.
    Error,
    Warning,
}

/// One thing that was found.
#[derive(Debug)]
struct Finding {
    severity: Severity,
    /// JSON path and text.
    line: String,
}

/// All that was looked at.
struct Report {
    /// The configuration file; every line begins with it.
    file: PathBuf,
    findings: Vec<Finding>,
    /// What was found to be right, for the last lines.
    sound: Vec<String>,
}

impl Report {
    fn new(file: &Path) -> Report {
        Report {
            file: file.to_owned(),
            findings: Vec::new(),
            sound: Vec::new(),
        }
    }

    fn error(&mut self, line: impl fmt::Display) {
        let (severity, line) = (Severity::Error, line.to_string());
        self.findings.push(Finding { severity, line });
    }

    fn warning(&mut self, line: impl fmt::Display) {
        let (severity, line) = (Severity::Warning, line.to_string());
        self.findings.push(Finding { severity, line });
    }

    fn sound(&mut self, line: impl fmt::Display) {
        self.sound.push(line.to_string());
    }

    /// The content of a file that the configuration names at `path`; what hinders is an error. A
    /// credential outside of its unit is none: the configuration has warned of it, and whoever
    /// installs a gateway checks before there is a unit.
    fn read(&mut self, path: &str, file: &Path, bytes_max: usize) -> Option<Vec<u8>> {
        if is_out_of_reach(file) {
            return None;
        }
        let bytes = read_bounded(file, bytes_max);
        match bytes {
            Ok(Some(bytes)) => return Some(bytes),
            Ok(None) => self.error(format_args!("{path}: there is no file {}", file.display())),
            Err(error) => self.error(format_args!("{path}: {error}")),
        }
        None
    }

    fn count(&self, severity: Severity) -> usize {
        let same = |finding: &&Finding| finding.severity == severity;
        self.findings.iter().filter(same).count()
    }

    fn print(&self) -> Exit {
        let file = self.file.display();
        for Finding { severity, line } in &self.findings {
            match severity {
                Severity::Error => complain(format_args!("error: {file}: {line}")),
                Severity::Warning => complain(format_args!("warning: {file}: {line}")),
            }
        }
        for line in &self.sound {
            say(format_args!("ok: {line}"));
        }
        let errors = self.count(Severity::Error);
        let warnings = self.count(Severity::Warning);
        match errors {
            0 => {
                say(format_args!(
                    "ok: no errors, {}",
                    counted(warnings, "warning")
                ));
                Exit::Done
            }
            _ => {
                let errors = counted(errors, "error");
                complain(format_args!("{errors}, {}", counted(warnings, "warning")));
                Exit::Configuration
            }
        }
    }
}

fn run(parser: &mut lexopt::Parser) -> Result<Exit, UsageError> {
    use lexopt::prelude::*;
    let (mut config, mut seed) = (None, None);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("config") => config = Some(path_value(parser)?),
            Long("seed") => seed = Some(path_value(parser)?),
            Short('h') | Long("help") => return Ok(explain(&COMMAND)),
            other => return Err(other.unexpected().into()),
        }
    }
    let config = config.ok_or(UsageError::Missing("--config"))?;
    let origin = origin(config);
    let now = Clock::system().wall();
    let report = check(&origin.path, seed.as_deref(), &origin.environment, now);
    Ok(report.print())
}

fn check(file: &Path, seed: Option<&Path>, environment: &Environment, now: Wall) -> Report {
    let limits = Limits::PRODUCTION;
    let mut report = Report::new(file);
    let text = match read_bounded(file, limits.config_bytes_max) {
        Ok(Some(text)) => text,
        Ok(None) => {
            report.error("there is no such file");
            return report;
        }
        Err(error) => {
            report.error(error);
            return report;
        }
    };
    let config = match Config::parse(&text, environment, &limits) {
        Ok(config) => config,
        Err(errors) => {
            errors.iter().for_each(|error| report.error(error));
            return report;
        }
    };
    for warning in &config.warnings {
        report.warning(warning);
    }
    report.sound(format_args!(
        "config: {}, {}",
        counted(config.slots.len(), "slot"),
        counted(config.client_keys.len(), "client key")
    ));
    keys::check(&config, &limits, &mut report);
    certificate::check(&config, now, &mut report);
    upstream::check(&config, &limits, &mut report);
    region::check(&config, &limits, &mut report);
    let documents = seed::check(&config, seed, &limits, &mut report);
    machine::check(&config, &documents, &limits, now, &mut report);
    report
}

/// Whether only the unit can read it.
fn is_out_of_reach(file: &Path) -> bool {
    let bytes = file.as_os_str().as_encoded_bytes();
    bytes.starts_with(CREDENTIALS.as_bytes())
}

/// `1 slot`, `2 slots`.
fn counted(count: usize, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}
