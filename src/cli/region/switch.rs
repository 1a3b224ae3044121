//! `region switch DOC`: the next record, in which another region is primary from a time on.
//!
//! The document goes to standard output or into a file, and what it means in words to standard
//! error, so that people read it before they sign. `DOC` is what was signed last, or the record
//! that a node holds: never an older one, since the version is counted from there.

use super::plan::{self, Change, Planned};
use super::{Failure, document, end, entry, now};
use crate::cli::{Command, Exit, UsageError, explain, path_value};
use crate::limits::Limits;
use crate::model::region::Record;
use std::path::{Path, PathBuf};

/// The command.
pub const COMMAND: Command = Command {
    name: "switch",
    usage: "region switch DOC --slot C/E|--route NAME|--all --to REGION --at TIME [--out FILE]",
    summary: "The record after DOC (a document or a packed record), in which REGION becomes \
              primary at TIME (UTC, as 2026-07-01T06:00:00Z). A rotation ends with it.",
    run,
};

fn run(parser: &mut lexopt::Parser) -> Result<Exit, UsageError> {
    use lexopt::prelude::*;
    let (mut file, mut matching, mut to, mut at) = (None, None, None, None);
    let mut out = None;
    while let Some(argument) = parser.next()? {
        match argument {
            Long("to") => to = Some(entry::id_value("--to", parser)?),
            Long("at") => at = Some(entry::time_value("--at", parser)?),
            Long("out") => out = Some(path_value(parser)?),
            Short('h') | Long("help") => return Ok(explain(&COMMAND)),
            Value(path) if file.is_none() => file = Some(PathBuf::from(path)),
            Long(name) => {
                let name = name.to_owned();
                if !entry::take(&name, parser, &mut matching)? {
                    return Err(lexopt::Error::UnexpectedOption(format!("--{name}")).into());
                }
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let file = file.ok_or(UsageError::Missing("DOC"))?;
    let change = Change {
        matching: matching.ok_or(UsageError::Missing("--slot C/E, --route NAME or --all"))?,
        to: to.ok_or(UsageError::Missing("--to REGION"))?,
        at: at.ok_or(UsageError::Missing("--at TIME"))?,
        issued_at: now(),
    };
    let outcome = next(&file, out.as_deref(), |record, limits| {
        plan::switch(record, &change, limits)
    });
    Ok(end("switch", outcome))
}

/// Reads a record, makes the next one of it and gives that out.
pub fn next(
    file: &Path,
    out: Option<&Path>,
    make: impl FnOnce(&Record, &Limits) -> Result<Planned, plan::PlanError>,
) -> Result<Exit, Failure> {
    let limits = Limits::PRODUCTION;
    let found = document::read(file, &limits)?;
    let planned =
        make(&found.record, &limits).map_err(|error| (Exit::Refused, error.to_string()))?;
    document::give(&planned.text, out)?;
    document::tell(&planned.words);
    Ok(Exit::Done)
}
