//! `region sites DOC`: the next record, in which regions are new, or have other nodes.
//!
//! For a node that moves, a site that comes, another writer. Who is primary when stays as it is.
//!
//! Never changes a region that is not named, and takes none out: a region that goes keeps its place
//! until no switch leads to it.

use super::new::site_value;
use super::switch::next;
use super::{end, now, plan};
use crate::cli::{Command, Exit, UsageError, explain, path_value};
use std::path::PathBuf;

/// The command.
pub const COMMAND: Command = Command {
    name: "sites",
    usage: "region sites DOC --region NAME=NODE@URL[,NODE@URL]... [--out FILE]",
    summary: "The record after DOC, in which these regions are new or take the places of those of \
              the same name, with all of their nodes; the first one writes.",
    run,
};

fn run(parser: &mut lexopt::Parser) -> Result<Exit, UsageError> {
    use lexopt::prelude::*;
    let (mut file, mut out, mut sites) = (None, None, Vec::new());
    while let Some(argument) = parser.next()? {
        match argument {
            Long("region") => sites.push(site_value(parser)?),
            Long("out") => out = Some(path_value(parser)?),
            Short('h') | Long("help") => return Ok(explain(&COMMAND)),
            Value(path) if file.is_none() => file = Some(PathBuf::from(path)),
            other => return Err(other.unexpected().into()),
        }
    }
    let file = file.ok_or(UsageError::Missing("DOC"))?;
    if sites.is_empty() {
        return Err(UsageError::Missing("--region NAME=NODE@URL"));
    }
    let outcome = next(&file, out.as_deref(), |record, limits| {
        plan::settle(record, &sites, now(), limits)
    });
    Ok(end("sites", outcome))
}
