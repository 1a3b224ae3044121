//! `staffetta toggle`: switches one flag, on the box.
//!
//! Reads what the slot serves, changes the one word, and pushes it on the condition that nobody
//! else has changed the slot meanwhile. If somebody has, it reads again and does the same to that,
//! once: two people who switch different flags both get what they want.

use super::push::{Condition, Failure, Options, Remote, Written, agrees, difference};
use super::{Command, Exit, UsageError, complain, explain, say};
use crate::limits::Limits;
use crate::wire::toggle::toggle;

/// The command.
pub const COMMAND: Command = Command {
    name: "toggle",
    usage: "toggle FLAG on|off --slot C/E [--yes] [--admin ADDR] [--token-file FILE]",
    summary: "Switches a flag in a slot of the operator, which survives a restart.",
    run,
};

/// Once, and once more if somebody else was faster.
const TRIES: usize = 2;

fn run(parser: &mut lexopt::Parser) -> Result<Exit, UsageError> {
    use lexopt::prelude::*;
    let (mut options, mut words) = (Options::default(), Vec::new());
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(explain(&COMMAND)),
            Value(word) if words.len() < 2 => words.push(word.to_string_lossy().into_owned()),
            Long(name) => {
                let name = name.to_owned();
                options.take(&name, parser)?;
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let [flag, state] =
        <[String; 2]>::try_from(words).map_err(|_| UsageError::Missing("FLAG on|off"))?;
    let is_on = match state.as_str() {
        "on" => true,
        "off" => false,
        _ => {
            return Err(UsageError::BadValue {
                option: "the second word",
                value: state,
                wanted: "on or off",
            });
        }
    };
    let is_agreed = options.yes;
    let remote = match options.remote(&Limits::PRODUCTION)? {
        Ok(remote) => remote,
        Err(failure) => return Ok(end(failure)),
    };
    Ok(switch(&remote, &flag, is_on, is_agreed).unwrap_or_else(end))
}

fn end((exit, problem): Failure) -> Exit {
    complain(format_args!("staffetta toggle: {problem}"));
    exit
}

fn switch(remote: &Remote, flag: &str, is_on: bool, yes: bool) -> Result<Exit, Failure> {
    let (slot, mut is_agreed) = (&remote.slot, yes);
    let mut stale = String::new();
    for _ in 0..TRIES {
        let Some(held) = remote.read()? else {
            let problem = format!("slot {slot} has no content yet, and no flag to switch");
            return Err((Exit::Failed, problem));
        };
        let edited = toggle(&held.document, flag, is_on)
            .map_err(|error| (Exit::Failed, format!("slot {slot}: {error}")))?;
        let Some(edited) = edited else {
            let state = if is_on { "on" } else { "off" };
            let revision = held.etag.trim_matches('"');
            say(format_args!("{slot} {revision}: {flag} is {state} already"));
            return Ok(Exit::Done);
        };
        let snapshot = remote
            .judge(edited.as_bytes())
            .map_err(|error| (Exit::Refused, error))?;
        let line = difference(remote, Some(&held), &snapshot);
        say(format_args!("{line}"));
        if !is_agreed && !agrees(slot)? {
            return Ok(Exit::Failed);
        }
        is_agreed = true;
        match remote.write(edited.as_bytes(), &Condition::Match(held.etag))? {
            Written::At(revision) => {
                say(format_args!("{slot} is at revision {revision}"));
                return Ok(Exit::Done);
            }
            Written::Stale(problem) => stale = problem,
        }
    }
    Err((Exit::Failed, stale))
}
