//! `staffetta push`: gives a slot a new document, on the box.
//!
//! Owns the order: judge the file here, as the relay would; read what the slot serves; say in one
//! line what changes; ask, unless `--yes` was given; push on the condition that the slot is still
//! as it was shown. A slot that has changed meanwhile is not overwritten: whoever pushes whole
//! documents has to look again, where `toggle` can simply do it once more.

mod remote;

use std::path::{Path, PathBuf};

use super::{Command, Exit, UsageError, complain, explain, say};
use crate::limits::Limits;
use crate::model::Revision;
use crate::net::disk::read_bounded;
use crate::wire::push::etag;
use crate::wire::seed::Seed;

pub use remote::{Condition, Failure, Options, Remote, Written, agrees, difference};

/// The command.
pub const COMMAND: Command = Command {
    name: "push",
    usage: "push --slot C/E FILE [--if-match ETAG] [--yes] [--admin ADDR] [--token-file FILE]",
    summary: "Gives a slot of the operator a new document, which survives a restart.",
    run,
};

fn run(parser: &mut lexopt::Parser) -> Result<Exit, UsageError> {
    use lexopt::prelude::*;
    let (mut options, mut file, mut if_match) = (Options::default(), None, None);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("if-match") => if_match = Some(revision_value(parser)?),
            Short('h') | Long("help") => return Ok(explain(&COMMAND)),
            Value(path) if file.is_none() => file = Some(PathBuf::from(path)),
            Long(name) => {
                let name = name.to_owned();
                options.take(&name, parser)?;
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let file = file.ok_or(UsageError::Missing("FILE"))?;
    let limits = Limits::PRODUCTION;
    let is_agreed = options.yes;
    let remote = match options.remote(&limits)? {
        Ok(remote) => remote,
        Err(failure) => return Ok(end(failure)),
    };
    Ok(push(&remote, &file, if_match, is_agreed).unwrap_or_else(end))
}

fn end((exit, problem): Failure) -> Exit {
    complain(format_args!("staffetta push: {problem}"));
    exit
}

/// An entity tag, with or without its quotes.
fn revision_value(parser: &mut lexopt::Parser) -> Result<Revision, UsageError> {
    let value = parser.value()?.to_string_lossy().into_owned();
    Revision::parse(value.trim_matches('"')).ok_or(UsageError::BadValue {
        option: "--if-match",
        value,
        wanted: "a revision, as 0-17",
    })
}

fn push(
    remote: &Remote,
    file: &Path,
    if_match: Option<Revision>,
    is_agreed: bool,
) -> Result<Exit, Failure> {
    let shown = file.display();
    let bytes = match read_bounded(file, remote.limits.seed_bytes_max) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Err((Exit::Refused, format!("{shown}: no such file"))),
        Err(error) => return Err((Exit::Refused, error.to_string())),
    };
    let snapshot = Seed::parse(&bytes, &remote.limits)
        .and_then(|seed| seed.snapshot(&remote.slot, &remote.limits))
        .map_err(|error| (Exit::Refused, format!("{shown}: {}: {error}", remote.slot)))?;
    let held = remote.read()?;
    let condition = match (if_match, &held) {
        (Some(revision), _) => Condition::Match(etag(revision)),
        (None, Some(held)) => Condition::Match(held.etag.clone()),
        (None, None) => Condition::Empty,
    };
    let old = held.as_ref().map(|held| &held.snapshot);
    let line = difference(remote, held.as_ref(), &snapshot);
    say(format_args!("{line}"));
    if old.is_some_and(|old| old.digest == snapshot.digest) && if_match.is_none() {
        return Ok(Exit::Done);
    }
    if !is_agreed && !agrees(&remote.slot)? {
        return Ok(Exit::Failed);
    }
    match remote.write(&snapshot.json, &condition)? {
        Written::At(revision) => {
            say(format_args!("{} is at revision {revision}", remote.slot));
            Ok(Exit::Done)
        }
        Written::Stale(problem) => Err((Exit::Failed, problem)),
    }
}
