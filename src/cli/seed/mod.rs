//! `seed diff`, `seed pull`: seeds on their way to a site.
//!
//! Owns the choice between the two and what they share. Neither asks a running relay, and neither
//! writes anything but the one file that it was told to.

pub mod diff;
pub mod pull;

use super::{Command, Exit, UsageError, explain};
use crate::config::nearest;

/// The words and the entry of this command.
pub const COMMAND: Command = Command {
    name: "seed",
    usage: "seed diff OLD NEW [--slot C/E]... | seed pull --config FILE --out FILE [--from ROLE]",
    summary: "diff shows what changes from one seed to another: added (+), removed (-) and \
              changed (~) flags, properties and segments, slot by slot; it exits with 0 when \
              nothing does, with 1 when something does. pull makes a seed of what the primary (or \
              --from backup) serves for the slots of a config.",
    run,
};

const WORDS: [&str; 2] = ["diff", "pull"];

fn run(parser: &mut lexopt::Parser) -> Result<Exit, UsageError> {
    use lexopt::prelude::*;
    match parser.next()? {
        Some(Value(word)) if word == "diff" => diff::run(parser),
        Some(Value(word)) if word == "pull" => pull::run(parser),
        Some(Short('h') | Long("help")) => Ok(explain(&COMMAND)),
        Some(Value(word)) => {
            let word = word.to_string_lossy().into_owned();
            let nearest = nearest(&word, &WORDS);
            Err(UsageError::UnknownCommand { word, nearest })
        }
        Some(other) => Err(other.unexpected().into()),
        None => Err(UsageError::Missing("`diff` or `pull`")),
    }
}
