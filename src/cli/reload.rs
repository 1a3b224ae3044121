//! `staffetta reload`: makes the running relay read its configuration and seed again.
//!
//! Owns nothing but the question and how the verdict is passed on: what was applied on standard
//! output, what was refused on standard error, and the exit code that a script goes by. The relay
//! decides; a refused reload has changed nothing there.

use std::path::PathBuf;

use super::admin::{Request, address_value, default_address, send, token};
use super::{Command, Exit, UsageError, complain, explain, path_value, say};
use crate::config::Listen;
use crate::limits::Limits;

/// The command.
pub const COMMAND: Command = Command {
    name: "reload",
    usage: "reload [--admin ADDR] [--token-file FILE]",
    summary: "Makes the running relay read configuration, keys and seed again.",
    run,
};

fn run(parser: &mut lexopt::Parser) -> Result<Exit, UsageError> {
    use lexopt::prelude::*;
    let (mut admin, mut token_file) = (None, None);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("admin") => admin = Some(address_value(parser)?),
            Long("token-file") => token_file = Some(path_value(parser)?),
            Short('h') | Long("help") => return Ok(explain(&COMMAND)),
            other => return Err(other.unexpected().into()),
        }
    }
    let address = admin.unwrap_or_else(default_address);
    Ok(reload(&address, token_file, &Limits::PRODUCTION))
}

fn reload(address: &Listen, token_file: Option<PathBuf>, limits: &Limits) -> Exit {
    let token = token_file.map(|path| token(&path, limits));
    let token = match token.transpose() {
        Ok(token) => token,
        Err(problem) => {
            complain(format_args!("staffetta reload: {problem}"));
            return Exit::Failed;
        }
    };
    let request = Request {
        method: "POST",
        path: "/reload",
        fields: &[],
        body: b"",
        timeout: limits.reload_timeout,
    };
    let reply = match send(address, &request, token.as_ref(), limits) {
        Ok(reply) => reply,
        Err(error) => {
            complain(format_args!("staffetta reload: {error}"));
            return Exit::Failed;
        }
    };
    let is_applied = reply.status == 200;
    for line in reply.lines() {
        match is_applied {
            true => say(format_args!("{line}")),
            false => complain(format_args!("{line}")),
        }
    }
    match is_applied {
        true => Exit::Done,
        false => {
            complain(format_args!("staffetta reload: refused"));
            Exit::Failed
        }
    }
}
