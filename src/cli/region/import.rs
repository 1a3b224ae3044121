//! `region import FILE`: hands a record to the relay on this box, which passes it on.
//!
//! Reads it first, as the relay will: what is wrong in itself is said without asking anybody. The
//! relay decides; what it refuses has changed nothing.

use super::{Failure, document, end};
use crate::cli::admin::{self, Request};
use crate::cli::{Command, Exit, UsageError, explain, path_value, say};
use crate::config::Listen;
use crate::limits::Limits;
use crate::wire::push::detail;
use std::path::{Path, PathBuf};

/// The command.
pub const COMMAND: Command = Command {
    name: "import",
    usage: "region import FILE [--admin ADDR] [--token-file FILE]",
    summary: "Hands a packed record to the running relay, which verifies it and passes it on to \
              the other nodes; 65 says that it was refused.",
    run,
};

/// Where records are.
pub const STATE: &str = "/v1/region/state";

fn run(parser: &mut lexopt::Parser) -> Result<Exit, UsageError> {
    let Some((file, options)) = file_and_options(parser)? else {
        return Ok(explain(&COMMAND));
    };
    let file = file.ok_or(UsageError::Missing("FILE"))?;
    Ok(end("import", import(&file, &options, &Limits::PRODUCTION)))
}

/// A file and how the relay is reached; nothing where only help is wanted.
pub fn file_and_options(
    parser: &mut lexopt::Parser,
) -> Result<Option<(Option<PathBuf>, Options)>, UsageError> {
    use lexopt::prelude::*;
    let (mut file, mut options) = (None, Options::default());
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Value(path) if file.is_none() => file = Some(PathBuf::from(path)),
            Long(name) => {
                let name = name.to_owned();
                options.take(&name, parser)?;
            }
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Some((file, options)))
}

/// How the relay is reached.
#[derive(Default)]
pub struct Options {
    admin: Option<Listen>,
    token_file: Option<PathBuf>,
}

impl Options {
    /// Takes the option `name`, with its value.
    pub fn take(&mut self, name: &str, parser: &mut lexopt::Parser) -> Result<(), UsageError> {
        match name {
            "admin" => self.admin = Some(admin::address_value(parser)?),
            "token-file" => self.token_file = Some(path_value(parser)?),
            _ => return Err(lexopt::Error::UnexpectedOption(format!("--{name}")).into()),
        }
        Ok(())
    }

    /// Asks the relay.
    pub fn send(&self, request: &Request<'_>, limits: &Limits) -> Result<admin::Reply, Failure> {
        let token = self.token_file.as_deref();
        let token = token.map(|path| admin::token(path, limits)).transpose();
        let token = token.map_err(|problem| (Exit::Failed, problem))?;
        let address = self.admin.clone();
        let address = address.unwrap_or_else(admin::default_address);
        let reply = admin::send(&address, request, token.as_ref(), limits);
        reply.map_err(|error| (Exit::Failed, error.to_string()))
    }
}

fn import(file: &Path, options: &Options, limits: &Limits) -> Result<Exit, Failure> {
    let found = document::read(file, limits)?;
    if found.envelope.is_none() {
        let line = format!(
            "{}: a document, not a record: `region pack` makes one of it and its signature",
            file.display()
        );
        return Err((Exit::Refused, line));
    }
    let request = Request {
        method: "PUT",
        path: STATE,
        fields: &[("content-type", "application/json")],
        body: &found.bytes,
        timeout: limits.admin_timeout,
    };
    let reply = options.send(&request, limits)?;
    if reply.status == 200 {
        say(format_args!(
            "{}",
            verdict(&reply.body, found.record.version)
        ));
        return Ok(Exit::Done);
    }
    let text = detail(&reply.body);
    let text = text.unwrap_or_else(|| String::from_utf8_lossy(&reply.body).trim().to_owned());
    let exit = match reply.status {
        400 | 409 | 413 | 422 => Exit::Refused,
        _ => Exit::Failed,
    };
    Err((exit, text))
}

/// What became of a record that counts.
fn verdict(body: &[u8], version: u64) -> String {
    let body: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let is_same = body.is_some_and(|body| body["outcome"] == "same");
    match is_same {
        true => format!("version {version} counts already"),
        false => format!("version {version} counts from now on"),
    }
}
