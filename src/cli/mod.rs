//! Commands: talk to people.
//!
//! Owns: which commands there are, what their words mean, the exit codes, and how lines reach the
//! terminal. A command is one file with a [`Command`] in it; the help text is made of these.
//!
//! Never panics over a closed pipe: [`say`] and [`complain`] ignore what they cannot write, where
//! `println!` would abort the relay when the journal goes away.

mod admin;
pub mod cert;
pub mod check;
pub mod key;
pub mod push;
pub mod region;
pub mod reload;
pub mod run;
pub mod seed;
pub mod status;
pub mod toggle;
pub mod unit;

use crate::config::nearest;
use crate::model::SlotKey;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Done,
    Failed,
    /// Two things that were compared differ; the number that `diff` has for it.
    Different,
    /// The command line makes no sense.
    Usage,
    /// A seed or record was refused.
    Refused,
    /// The configuration cannot be used; systemd is told not to restart on this one.
    Configuration,
}

impl Exit {
    /// The number, after `sysexits.h` where it has one.
    pub const fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed | Exit::Different => 1,
            Exit::Usage => 64,
            Exit::Refused => 65,
            Exit::Configuration => 78,
        }
    }
}

/// One command of the binary.
pub struct Command {
    pub name: &'static str,
    /// Its own words and options, as they are typed.
    pub usage: &'static str,
    /// One line for the list.
    pub summary: &'static str,
    pub run: fn(&mut lexopt::Parser) -> Result<Exit, UsageError>,
}

const COMMANDS: &[Command] = &[
    run::COMMAND,
    check::COMMAND,
    status::COMMAND,
    reload::COMMAND,
    push::COMMAND,
    toggle::COMMAND,
    cert::COMMAND,
    key::COMMAND,
    seed::COMMAND,
    region::COMMAND,
    unit::COMMAND,
];

/// What is wrong with the command line.
#[derive(Debug)]
pub enum UsageError {
    /// An option that is unknown or lacks its value, or a word too many.
    Parser(lexopt::Error),
    UnknownCommand {
        word: String,
        nearest: Option<&'static str>,
    },
    /// A command, or a word of one, that must be there.
    Missing(&'static str),
    /// A value that the option cannot take.
    BadValue {
        option: &'static str,
        value: String,
        wanted: &'static str,
    },
}

impl From<lexopt::Error> for UsageError {
    fn from(error: lexopt::Error) -> UsageError {
        UsageError::Parser(error)
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UsageError::Parser(error) => error.fmt(f),
            UsageError::UnknownCommand {
                word,
                nearest: Some(name),
            } => write!(f, "no command `{word}`; did you mean `{name}`?"),
            UsageError::UnknownCommand {
                word,
                nearest: None,
            } => write!(f, "no command `{word}`"),
            UsageError::Missing(what) => write!(f, "{what} is missing"),
            UsageError::BadValue {
                option,
                value,
                wanted,
            } => write!(f, "{option} takes {wanted}, and not `{value}`"),
        }
    }
}

/// Runs the command that `arguments` name; the first of them is the program's own name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut parser = lexopt::Parser::from_iter(arguments);
    ExitCode::from(dispatch(&mut parser).code())
}

fn dispatch(parser: &mut lexopt::Parser) -> Exit {
    let outcome = match select(parser) {
        Ok(Selected::Command(command)) => {
            let outcome = (command.run)(parser);
            return outcome.unwrap_or_else(|error| {
                complain(format_args!("staffetta {}: {error}", command.name));
                complain(format_args!("usage: staffetta {}", command.usage));
                Exit::Usage
            });
        }
        Ok(Selected::Help) => {
            say(format_args!("{}", help()));
            Ok(Exit::Done)
        }
        Ok(Selected::Version) => {
            say(format_args!("staffetta {}", env!("CARGO_PKG_VERSION")));
            Ok(Exit::Done)
        }
        Err(error) => Err(error),
    };
    outcome.unwrap_or_else(|error| {
        complain(format_args!("staffetta: {error}"));
        complain(format_args!("`staffetta --help` lists the commands"));
        Exit::Usage
    })
}

enum Selected {
    Command(&'static Command),
    Help,
    Version,
}

fn select(parser: &mut lexopt::Parser) -> Result<Selected, UsageError> {
    use lexopt::prelude::*;
    match parser.next()? {
        Some(Short('h') | Long("help")) => Ok(Selected::Help),
        Some(Short('V') | Long("version")) => Ok(Selected::Version),
        Some(Value(word)) => {
            let word = word.to_string_lossy().into_owned();
            if word == "help" {
                return Ok(Selected::Help);
            }
            let command = COMMANDS.iter().find(|command| command.name == word);
            command.map(Selected::Command).ok_or_else(|| {
                let names: Vec<&str> = COMMANDS.iter().map(|command| command.name).collect();
                let nearest = nearest(&word, &names);
                UsageError::UnknownCommand { word, nearest }
            })
        }
        Some(other) => Err(other.unexpected().into()),
        None => Err(UsageError::Missing("a command")),
    }
}

fn help() -> String {
    let mut text = String::from(
        "Staffetta, a relay for IBM Cloud App Configuration SDKs\n\nusage: staffetta COMMAND ...\n",
    );
    for command in COMMANDS {
        text.push_str(&format!(
            "\n  {}\n      {}\n",
            command.usage, command.summary
        ));
    }
    let codes =
        "\nexit codes: 0 ok, 1 failed or different, 64 usage, 65 refused input, 78 configuration";
    text + codes
}

/// The help of one command, for its `--help`.
pub fn explain(command: &Command) -> Exit {
    let Command { usage, summary, .. } = command;
    say(format_args!("usage: staffetta {usage}\n\n{summary}"));
    Exit::Done
}

/// A path from the command line.
pub fn path_value(parser: &mut lexopt::Parser) -> Result<PathBuf, UsageError> {
    Ok(PathBuf::from(parser.value()?))
}

/// The value of `--slot`.
pub fn slot_value(parser: &mut lexopt::Parser) -> Result<SlotKey, UsageError> {
    let value = parser.value()?.to_string_lossy().into_owned();
    SlotKey::parse(&value).ok_or(UsageError::BadValue {
        option: "--slot",
        value,
        wanted: "COLLECTION/ENVIRONMENT",
    })
}

/// The rest of the line of a command whose one option is `--config FILE`; none where it asked for
/// the help, which is then given.
pub fn only_config(
    parser: &mut lexopt::Parser,
    command: &Command,
) -> Result<Option<PathBuf>, UsageError> {
    use lexopt::prelude::*;
    let mut config = None;
    while let Some(argument) = parser.next()? {
        match argument {
            Long("config") => config = Some(path_value(parser)?),
            Short('h') | Long("help") => {
                explain(command);
                return Ok(None);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    config.map(Some).ok_or(UsageError::Missing("--config FILE"))
}

/// A line for the reader of the answer, on standard output.
pub fn say(line: fmt::Arguments<'_>) {
    // Whoever closed the pipe does not want the line.
    let _ = writeln!(io::stdout().lock(), "{line}");
}

/// A line about what went wrong, on standard error.
pub fn complain(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(words: &[&str]) -> Result<Selected, String> {
        let words = ["staffetta"].iter().chain(words);
        let mut parser = lexopt::Parser::from_iter(words);
        select(&mut parser).map_err(|error| error.to_string())
    }

    #[test]
    fn mistyped_commands_are_answered_with_the_nearest() {
        for (word, text) in [
            ("chek", "no command `chek`; did you mean `check`?"),
            ("certs", "no command `certs`; did you mean `cert`?"),
            ("zzzzzz", "no command `zzzzzz`"),
        ] {
            assert_eq!(selected(&[word]).err().as_deref(), Some(text));
        }
        assert_eq!(selected(&[]).err().as_deref(), Some("a command is missing"));
        assert!(selected(&["--zzz"]).is_err());
    }

    #[test]
    fn every_command_is_found_and_explained() {
        let help = help();
        for command in COMMANDS {
            assert!(matches!(
                selected(&[command.name]),
                Ok(Selected::Command(_))
            ));
            assert!(command.usage.starts_with(command.name));
            assert!(help.contains(command.summary));
        }
    }

    #[test]
    fn mistakes_on_the_command_line_exit_with_64() {
        for words in [
            &["check"][..],
            &["check", "--zzz"],
            &["key"],
            &["key", "old"],
            &["cert"],
            &["seed"],
            &["seed", "dif"],
            &["seed", "pull", "--config", "one"],
            &["seed", "pull", "--from", "other"],
            &["seed", "diff", "one"],
            &["seed", "diff", "one", "two", "three"],
            &["seed", "diff", "one", "two", "--slot", "three"],
            &["push", "file"],
            &["push", "--slot", "c/e"],
            &["push", "--slot", "c", "file"],
            &["push", "--slot", "c/e", "file", "--if-match", "x"],
            &["push", "--slot", "c/e", "file", "--zzz"],
            &["toggle", "flag", "--slot", "c/e"],
            &["toggle", "flag", "up", "--slot", "c/e"],
            &["toggle", "flag", "on"],
            &["region"],
            &["region", "swich", "doc"],
            &["region", "new", "--cluster", "c", "--primary", "a"],
            &["region", "new", "--region", "a=a-1"],
            &["region", "switch", "doc", "--all", "--to", "eu"],
            &[
                "region", "switch", "doc", "--all", "--at", "noon", "--to", "eu",
            ],
            &[
                "region",
                "switch",
                "doc",
                "--to",
                "eu",
                "--at",
                "2026-07-01T06:00:00Z",
            ],
            &["region", "rotate", "doc", "--all", "--turns", "8=eu"],
            &["region", "sites", "doc"],
            &["region", "pack", "doc"],
            &["region", "pack", "doc", "signature", "--unsigned"],
            &["region", "show", "one", "two"],
            &["region", "import"],
        ] {
            let words = ["staffetta"].iter().chain(words);
            let mut parser = lexopt::Parser::from_iter(words);
            assert_eq!(dispatch(&mut parser).code(), 64);
        }
    }
}
