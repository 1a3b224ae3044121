//! `staffetta region`: state records for people to sign, and a picture of all nodes.
//!
//! Owns the choice between the words and what they share. `new`, `switch`, `rotate` and `sites`
//! print a document, `pack` puts document and signature into one record, `import` hands it to the
//! relay on this box, `show` says what a file means, or how all nodes are. `plan` makes records and
//! `table` compares nodes; both are pure.
//!
//! Never signs anything: the key of a site's state stays off the gateways.

mod document;
mod entry;
mod import;
mod new;
mod pack;
pub mod plan;
mod rotate;
mod show;
mod sites;
mod switch;
pub mod table;
mod words;

use super::{Command, Exit, UsageError, complain, explain, say};
use crate::config::nearest;
use crate::net::clock::Clock;
use crate::time::WallMs;

/// The words and the entry of this command.
pub const COMMAND: Command = Command {
    name: "region",
    usage: "region new|switch|rotate|sites|pack|show|import ...",
    summary: "Makes the records that say which region is primary for what, hands them to the \
              relay, and shows whether all nodes agree; `region --help` has the rest.",
    run,
};

/// One for each word.
const WORDS: &[Command] = &[
    new::COMMAND,
    switch::COMMAND,
    rotate::COMMAND,
    sites::COMMAND,
    pack::COMMAND,
    show::COMMAND,
    import::COMMAND,
];

/// How a command ends, and one line for people.
type Failure = (Exit, String);

fn run(parser: &mut lexopt::Parser) -> Result<Exit, UsageError> {
    use lexopt::prelude::*;
    let word = match parser.next()? {
        Some(Value(word)) => word.to_string_lossy().into_owned(),
        Some(Short('h') | Long("help")) => return Ok(explain_all()),
        Some(other) => return Err(other.unexpected().into()),
        None => {
            return Err(UsageError::Missing(
                "`new`, `switch`, `show` or another word",
            ));
        }
    };
    let Some(command) = WORDS.iter().find(|command| command.name == word) else {
        let names: Vec<&str> = WORDS.iter().map(|command| command.name).collect();
        let nearest = nearest(&word, &names);
        return Err(UsageError::UnknownCommand { word, nearest });
    };
    let outcome = (command.run)(parser);
    Ok(outcome.unwrap_or_else(|error| {
        complain(format_args!("staffetta region {word}: {error}"));
        complain(format_args!("usage: staffetta {}", command.usage));
        Exit::Usage
    }))
}

fn explain_all() -> Exit {
    explain(&COMMAND);
    for command in WORDS {
        say(format_args!(
            "\n  {}\n      {}",
            command.usage, command.summary
        ));
    }
    Exit::Done
}

/// How the word `name` ends.
fn end(name: &str, outcome: Result<Exit, Failure>) -> Exit {
    outcome.unwrap_or_else(|(exit, problem)| {
        complain(format_args!("staffetta region {name}: {problem}"));
        exit
    })
}

/// The time at which a record is made, to the second.
fn now() -> WallMs {
    let seconds = Clock::system().wall().as_unix();
    WallMs::from_unix_ms(seconds.saturating_mul(1000))
}
