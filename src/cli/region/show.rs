//! `region show`: all nodes as one table, or what a file says.
//!
//! The relay on this box is asked for what it has heard of every node: it can reach them, and has
//! their key. So the picture is the one of this node; what it has not heard is said to be so, and
//! another node may have another picture. Ends with 1 if something must be corrected.

use super::import::{Options, STATE, file_and_options};
use super::table::{disagreements, table};
use super::{Failure, document, end, now, words};
use crate::cli::admin::{Reply, Request};
use crate::cli::{Command, Exit, UsageError, explain, say};
use crate::limits::Limits;
use crate::model::region::Heard;
use crate::wire::push::detail;
use crate::wire::region::status::read_nodes;
use crate::wire::region::{self, Envelope};
use std::path::Path;

/// The command.
pub const COMMAND: Command = Command {
    name: "show",
    usage: "region show [FILE] [--admin ADDR] [--token-file FILE]",
    summary: "What a document or record says; without FILE, the record of the running relay, all \
              nodes in one table, and in words what does not agree, with 1 if anything does not.",
    run,
};

/// Where what was heard of all nodes is.
const NODES: &str = "/v1/region/nodes";

fn run(parser: &mut lexopt::Parser) -> Result<Exit, UsageError> {
    let Some((file, options)) = file_and_options(parser)? else {
        return Ok(explain(&COMMAND));
    };
    let limits = Limits::PRODUCTION;
    let outcome = match &file {
        Some(file) => show_file(file, &limits),
        None => show_nodes(&options, &limits),
    };
    Ok(end("show", outcome))
}

fn show_file(file: &Path, limits: &Limits) -> Result<Exit, Failure> {
    let found = document::read(file, limits)?;
    let form = match &found.envelope {
        None => "a document, to be signed and packed",
        Some(Envelope {
            signature: None, ..
        }) => "a record that nobody has signed",
        Some(_) => "a signed record; nodes verify the signature",
    };
    say(format_args!("{form}"));
    for line in words::lines(&found.record, now()) {
        say(format_args!("{line}"));
    }
    Ok(Exit::Done)
}

fn show_nodes(options: &Options, limits: &Limits) -> Result<Exit, Failure> {
    let nodes = ask(options, NODES, limits)?;
    let odd = || {
        let line = "the answer of the relay makes no sense: is it of this version?";
        (Exit::Failed, line.to_owned())
    };
    let nodes = match nodes.status {
        200 => read_nodes(&nodes.body).ok_or_else(odd)?,
        status => return Err(refused(status, &nodes)),
    };
    let state = ask(options, STATE, limits)?;
    match state.status {
        200 => {
            let envelope = region::unpack(&state.body, limits).map_err(|_| odd())?;
            let record = region::read(&envelope.document, limits).map_err(|_| odd())?;
            for line in words::lines(&record, now()) {
                say(format_args!("{line}"));
            }
        }
        404 => say(format_args!("no record yet: `region import` brings one")),
        status => return Err(refused(status, &state)),
    }
    say(format_args!(""));
    Ok(print(&nodes, limits))
}

/// Everything that was heard, and what does not agree.
fn print(nodes: &[Heard], limits: &Limits) -> Exit {
    for line in table(nodes) {
        say(format_args!("{line}"));
    }
    // A question may wait at a peer for this long before it is answered.
    let fresh = limits.region.wait + limits.region.ask_timeout;
    let words = disagreements(nodes, fresh);
    say(format_args!(""));
    if words.is_empty() {
        say(format_args!("All nodes agree."));
        return Exit::Done;
    }
    for line in words {
        say(format_args!("- {line}"));
    }
    Exit::Different
}

fn ask(options: &Options, path: &'static str, limits: &Limits) -> Result<Reply, Failure> {
    let request = Request {
        method: "GET",
        path,
        fields: &[],
        body: b"",
        timeout: limits.admin_timeout,
    };
    options.send(&request, limits)
}

fn refused(status: u16, reply: &Reply) -> Failure {
    let text = detail(&reply.body);
    let text = text.unwrap_or_else(|| String::from_utf8_lossy(&reply.body).trim().to_owned());
    let line = match text.is_empty() {
        true => format!("the relay answers {status}"),
        false => text,
    };
    (Exit::Failed, line)
}
