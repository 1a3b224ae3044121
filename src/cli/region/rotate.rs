//! `region rotate DOC`: the next record, in which regions take turns from a time on.
//!
//! What `switch` is for one change, this is for all that follow: follow the sun without a new
//! record every day. A rotation that is there already is replaced.

use super::plan::{self, Rotate, Turns};
use super::switch::next;
use super::{end, entry, now};
use crate::cli::{Command, Exit, UsageError, explain, path_value};
use crate::time::{Duration, WallMs};
use std::path::PathBuf;

/// The command.
pub const COMMAND: Command = Command {
    name: "rotate",
    usage: "region rotate DOC --slot C/E|--route NAME|--all --turns HH:MM=REGION,... \
            [--period SECONDS] [--from TIME] [--out FILE]",
    summary: "The record after DOC, in which regions take turns each day (or each period), from \
              the next midnight in UTC (or TIME) on.",
    run,
};

/// Turns as they come from the command line, in pieces.
#[derive(Default)]
pub struct Options {
    turns: Option<String>,
    period: Option<u64>,
    from: Option<WallMs>,
}

impl Options {
    /// Takes the option `name`, if it is one of these.
    pub fn take(&mut self, name: &str, parser: &mut lexopt::Parser) -> Result<bool, UsageError> {
        match name {
            "turns" => self.turns = Some(entry::text_value(parser)?),
            "period" => {
                let value = entry::text_value(parser)?;
                let seconds = value.parse().ok().filter(|seconds| *seconds > 0);
                self.period = Some(seconds.ok_or(UsageError::BadValue {
                    option: "--period",
                    value,
                    wanted: "seconds",
                })?);
            }
            "from" => self.from = Some(entry::time_value("--from", parser)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The turns and when they begin; none where none were asked for.
    pub fn turns(self, now: WallMs) -> Result<Option<(Turns, WallMs)>, UsageError> {
        const DAY_S: u64 = 86_400;
        let Some(text) = self.turns else {
            return match (self.period, self.from) {
                (None, None) => Ok(None),
                _ => Err(UsageError::Missing("--turns HH:MM=REGION,...")),
            };
        };
        let period = Duration::from_secs(self.period.unwrap_or(DAY_S));
        let turns = Turns::parse(&text, period).ok_or(UsageError::BadValue {
            option: "--turns",
            value: text,
            wanted: "HH:MM=REGION,HH:MM=REGION,... in UTC",
        })?;
        let from = self.from.or_else(|| turns.next_period(now));
        let from = from.ok_or(UsageError::Missing(
            "--from TIME, when the first period begins",
        ))?;
        Ok(Some((turns, from)))
    }
}

fn run(parser: &mut lexopt::Parser) -> Result<Exit, UsageError> {
    use lexopt::prelude::*;
    let (mut file, mut matching, mut out) = (None, None, None);
    let mut options = Options::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("out") => out = Some(path_value(parser)?),
            Short('h') | Long("help") => return Ok(explain(&COMMAND)),
            Value(path) if file.is_none() => file = Some(PathBuf::from(path)),
            Long(name) => {
                let name = name.to_owned();
                let is_taken = options.take(&name, parser)?;
                if !is_taken && !entry::take(&name, parser, &mut matching)? {
                    return Err(lexopt::Error::UnexpectedOption(format!("--{name}")).into());
                }
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let file = file.ok_or(UsageError::Missing("DOC"))?;
    let matching = matching.ok_or(UsageError::Missing("--slot C/E, --route NAME or --all"))?;
    let issued_at = now();
    let turns = options.turns(issued_at)?;
    let (turns, from) = turns.ok_or(UsageError::Missing("--turns HH:MM=REGION,..."))?;
    let change = Rotate {
        matching,
        turns,
        from,
        issued_at,
    };
    let outcome = next(&file, out.as_deref(), |record, limits| {
        plan::rotate(record, &change, limits)
    });
    Ok(end("rotate", outcome))
}
