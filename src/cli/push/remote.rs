//! A slot of the operator, seen through the admin listener: read it, write it, say what changes.
//!
//! Owns what `push` and `toggle` share: their options, the two requests and what their answers mean
//! for the exit code, the one line that shows the change, and the question whether to go on.
//!
//! Never writes without a condition: what nobody has read is not overwritten.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;

use crate::cli::admin::{self, Reply, Request};
use crate::cli::{Exit, UsageError, path_value, slot_value};
use crate::config::{Listen, Secret};
use crate::limits::Limits;
use crate::model::{SlotKey, Snapshot};
use crate::wire::difference::{What, changes};
use crate::wire::push::detail;
use crate::wire::seed::Seed;

/// Changes that the one line names; beyond them it counts.
const NAMED_MAX: usize = 3;

/// How a command ends, and one line for people.
pub type Failure = (Exit, String);

/// The options that both commands take.
#[derive(Default)]
pub struct Options {
    slot: Option<SlotKey>,
    admin: Option<Listen>,
    token_file: Option<PathBuf>,
    /// Nobody is asked.
    pub yes: bool,
}

impl Options {
    /// Takes the option `name`, with its value.
    pub fn take(&mut self, name: &str, parser: &mut lexopt::Parser) -> Result<(), UsageError> {
        match name {
            "slot" => {
                self.slot = Some(slot_value(parser)?);
            }
            "admin" => self.admin = Some(admin::address_value(parser)?),
            "token-file" => self.token_file = Some(path_value(parser)?),
            "yes" => self.yes = true,
            _ => return Err(lexopt::Error::UnexpectedOption(format!("--{name}")).into()),
        }
        Ok(())
    }

    /// The slot that is meant; the inner error is a token that cannot be read.
    pub fn remote(self, limits: &Limits) -> Result<Result<Remote, Failure>, UsageError> {
        let slot = self.slot.ok_or(UsageError::Missing("--slot C/E"))?;
        let token = self.token_file.map(|path| admin::token(&path, limits));
        let token = match token.transpose() {
            Ok(token) => token,
            Err(problem) => return Ok(Err((Exit::Failed, problem))),
        };
        Ok(Ok(Remote {
            address: self.admin.unwrap_or_else(admin::default_address),
            token,
            path: format!("/v1/slots/{slot}"),
            slot,
            limits: limits.clone(),
        }))
    }
}

/// A slot of a running relay.
pub struct Remote {
    address: Listen,
    token: Option<Secret>,
    path: String,
    pub slot: SlotKey,
    pub limits: Limits,
}

/// What it serves.
pub struct Held {
    /// Its revision, in quotes.
    pub etag: String,
    /// The bytes, as they are served.
    pub document: String,
    pub snapshot: Snapshot,
}

/// When a write is meant to count.
pub enum Condition {
    /// The slot is at this entity tag.
    Match(String),
    /// There is nothing yet.
    Empty,
}

/// What became of a write.
pub enum Written {
    /// The slot serves it, at this revision.
    At(String),
    /// The condition does not hold, in one line.
    Stale(String),
}

impl Remote {
    /// What the slot serves, if anything.
    pub fn read(&self) -> Result<Option<Held>, Failure> {
        let reply = self.send("GET", &[], b"")?;
        let odd = || {
            let slot = &self.slot;
            (
                Exit::Failed,
                format!("slot {slot}: the answer of the relay makes no sense"),
            )
        };
        match (reply.status, reply.etag) {
            (404, None) if detail(&reply.body).is_some() => Ok(None),
            (200, Some(etag)) => {
                let document = String::from_utf8(reply.body).map_err(|_| odd())?;
                let snapshot = self.judge(document.as_bytes()).map_err(|_| odd())?;
                Ok(Some(Held {
                    etag,
                    document,
                    snapshot,
                }))
            }
            (200, None) => Err(odd()),
            (status, _) => Err(refused(status, &reply.body)),
        }
    }

    /// Writes what the slot is to serve.
    pub fn write(&self, document: &[u8], condition: &Condition) -> Result<Written, Failure> {
        let condition = match condition {
            Condition::Match(etag) => ("if-match", etag.as_str()),
            Condition::Empty => ("if-none-match", "*"),
        };
        let reply = self.send("PUT", &[condition], document)?;
        let stands = reply.etag.as_deref().unwrap_or("").trim_matches('"');
        match reply.status {
            200 => Ok(Written::At(stands.to_owned())),
            412 => Ok(Written::Stale(refused(412, &reply.body).1)),
            status => Err(refused(status, &reply.body)),
        }
    }

    /// The document as the relay would serve it, or what it would say about it.
    pub fn judge(&self, document: &[u8]) -> Result<Snapshot, String> {
        let seed = Seed::parse(document, &self.limits);
        let snapshot = seed.and_then(|seed| seed.snapshot(&self.slot, &self.limits));
        snapshot.map_err(|error| error.to_string())
    }

    fn send(
        &self,
        method: &'static str,
        fields: &[(&'static str, &str)],
        body: &[u8],
    ) -> Result<Reply, Failure> {
        let request = Request {
            method,
            path: &self.path,
            fields,
            body,
            timeout: self.limits.admin_timeout,
        };
        let reply = admin::send(&self.address, &request, self.token.as_ref(), &self.limits);
        reply.map_err(|error| (Exit::Failed, error.to_string()))
    }
}

/// What the relay says, as it is; a document that it refuses ends with 65.
fn refused(status: u16, body: &[u8]) -> Failure {
    let text = detail(body).unwrap_or_else(|| String::from_utf8_lossy(body).trim().to_owned());
    let exit = match status {
        413 | 422 => Exit::Refused,
        _ => Exit::Failed,
    };
    match text.is_empty() {
        true => (exit, format!("the relay answers {status}")),
        false => (exit, text),
    }
}

/// What a push changes, in one line.
pub fn difference(remote: &Remote, held: Option<&Held>, new: &Snapshot) -> String {
    let slot = &remote.slot;
    let Some(held) = held else {
        let counts = new.counts;
        return format!(
            "{slot}: new, {} features, {} properties, {} segments",
            counts.features, counts.properties, counts.segments
        );
    };
    let revision = held.etag.trim_matches('"');
    let changes = changes(&held.snapshot, new, &remote.limits);
    let named = changes.iter().take(NAMED_MAX).map(ToString::to_string);
    let named = named.collect::<Vec<String>>().join("; ");
    let count =
        |wanted: fn(&What) -> bool| changes.iter().filter(|change| wanted(&change.what)).count();
    match changes.len() {
        0 => format!("{slot} {revision}: serves this already"),
        1 => format!("{slot} {revision}: {named}"),
        all => {
            let more = match all.saturating_sub(NAMED_MAX) {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            format!(
                "{slot} {revision}: {} added, {} removed, {} changed: {named}{more}",
                count(|what| matches!(what, What::Added)),
                count(|what| matches!(what, What::Removed)),
                count(|what| matches!(what, What::Changed(_))),
            )
        }
    }
}

/// Asks whoever sits there whether to go on.
pub fn agrees(slot: &SlotKey) -> Result<bool, Failure> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        let problem = "nobody is there to be asked: --yes goes on without".to_owned();
        return Err((Exit::Usage, problem));
    }
    // Who cannot read the question will not answer it.
    let _ = write!(io::stderr().lock(), "push this to {slot}? [y/N] ");
    let mut answer = String::new();
    let read = stdin.read_line(&mut answer);
    let is_yes = ["y", "yes"].contains(&answer.trim().to_lowercase().as_str());
    Ok(read.is_ok() && is_yes)
}
