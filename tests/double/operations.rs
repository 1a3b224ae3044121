//! What the service does, one function for each operation, and the scripted failures in front.
//!
//! From the protocol as the SDKs use it: a token for an API key, the current form of the document,
//! a socket for each slot, reports of usage and analytics. The legacy form and event streams are
//! for SDKs only and not played.

use super::behaviour::{Answering, Behaviours, Script};
use super::http::{Answer, Framing, Request};
use super::stage::{Stage, now_ms};
use super::{token, usage};
use async_tungstenite::tungstenite::handshake::derive_accept_key;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use std::time::Duration;

/// How long tokens last unless told otherwise, as IBM's do.
const TOKEN_LIFETIME_S: u64 = 3_600;
/// What a portal says instead.
const PORTAL: &str = "<!DOCTYPE html><html><body>Please accept the terms of use.</body></html>";

/// What is to happen on the connection.
pub enum Outcome {
    Answer(Answer),
    /// The head and half of the body, then the end.
    Half(Answer),
    /// A 101, then a socket of this slot.
    Upgrade(Answer, String),
    Silence,
    Noise,
    /// The end, without a word.
    End,
}

/// Who asks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Authorization {
    None,
    Raw,
    Bearer,
    UnknownBearer,
}

impl Authorization {
    /// As the log words it.
    pub fn name(self) -> &'static str {
        match self {
            Authorization::None => "none",
            Authorization::Raw => "raw",
            Authorization::Bearer => "bearer",
            Authorization::UnknownBearer => "unknown bearer",
        }
    }
}

/// Judges the credential of a request.
pub fn authorization(stage: &Stage, request: &Request) -> Authorization {
    let Some(credential) = request.header("Authorization") else {
        return Authorization::None;
    };
    let Some(token) = credential.strip_prefix("Bearer ") else {
        return Authorization::Raw;
    };
    let revoked = stage.look(|state| state.revoked);
    match stage.mint.serial(token, now_ms() / 1_000) {
        Some(serial) if serial > revoked => Authorization::Bearer,
        _ => Authorization::UnknownBearer,
    }
}

enum Operation {
    Token,
    Config { guid: String, slot: String },
    Upgrade { guid: String, slot: String },
    Usage { guid: String },
    Analytics { guid: String },
}

impl Operation {
    fn of(request: &Request) -> Result<Operation, Answer> {
        let path = request.path();
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let (method, operation) = match path[..] {
            ["identity", "token"] => ("POST", Operation::Token),
            ["apprapp", "feature", "v1", "instances", guid, "config"] => {
                if request.query("action").as_deref() != Some("sdkConfig") {
                    return Err(Answer::refusal(400, "action is not sdkConfig"));
                }
                let guid = guid.to_owned();
                (
                    "GET",
                    Operation::Config {
                        guid,
                        slot: slot(request)?,
                    },
                )
            }
            ["apprapp", "wsfeature"] => {
                let guid = request.query("instance_id").unwrap_or_default();
                (
                    "GET",
                    Operation::Upgrade {
                        guid,
                        slot: slot(request)?,
                    },
                )
            }
            ["apprapp", "events", "v1", "instances", guid, "usage"] => (
                "POST",
                Operation::Usage {
                    guid: guid.to_owned(),
                },
            ),
            ["apprapp", "metrics", "v1", "instances", guid, "analytics"] => (
                "POST",
                Operation::Analytics {
                    guid: guid.to_owned(),
                },
            ),
            _ => return Err(Answer::refusal(404, "no such path")),
        };
        match request.method == method {
            true => Ok(operation),
            false => Err(Answer::refusal(405, "not with this method").with("Allow", method)),
        }
    }

    fn guid(&self) -> Option<&str> {
        match self {
            Operation::Token => None,
            Operation::Config { guid, .. }
            | Operation::Upgrade { guid, .. }
            | Operation::Usage { guid }
            | Operation::Analytics { guid } => Some(guid),
        }
    }

    fn slot(&self) -> Option<&str> {
        match self {
            Operation::Config { slot, .. } | Operation::Upgrade { slot, .. } => Some(slot),
            Operation::Token | Operation::Usage { .. } | Operation::Analytics { .. } => None,
        }
    }

    fn script<'a>(&self, behaviours: &'a mut Behaviours) -> &'a mut Script {
        match self {
            Operation::Token => &mut behaviours.token,
            Operation::Config { .. } => &mut behaviours.config,
            Operation::Upgrade { .. } => &mut behaviours.upgrade,
            Operation::Usage { .. } => &mut behaviours.usage,
            Operation::Analytics { .. } => &mut behaviours.analytics,
        }
    }
}

fn slot(request: &Request) -> Result<String, Answer> {
    let ids = (
        request.query("collection_id"),
        request.query("environment_id"),
    );
    match ids {
        (Some(collection), Some(environment)) => Ok(format!("{collection}/{environment}")),
        _ => Err(Answer::refusal(
            400,
            "collection_id or environment_id is missing",
        )),
    }
}

/// Decides about a request. Waits as long as the script says, and counts.
pub fn play(stage: &Stage, request: &Request) -> Outcome {
    let operation = match Operation::of(request) {
        Ok(operation) => operation,
        Err(refusal) => return Outcome::Answer(refusal),
    };
    count_request(stage, &operation);
    let answering = stage.take(operation.slot(), &request.body, |behaviours| {
        operation.script(behaviours)
    });
    stage.pause(Duration::from_millis(answering.delay_ms));
    if answering.silence {
        return Outcome::Silence;
    }
    if answering.noise {
        return Outcome::Noise;
    }
    let (mut answer, slot) = match made_up(&answering) {
        Some(answer) => (answer, None),
        None => perform(stage, request, &operation, &answering),
    };
    for (name, value) in &answering.headers {
        answer = answer.with(name, value);
    }
    if answering.chunked {
        answer.framing = Framing::Chunks;
    }
    match slot {
        _ if answering.drop => Outcome::End,
        _ if answering.truncate => Outcome::Half(answer),
        Some(slot) => Outcome::Upgrade(answer, slot),
        None => Outcome::Answer(answer),
    }
}

fn count_request(stage: &Stage, operation: &Operation) {
    stage.change(|state| match operation {
        Operation::Token => state.counts.token_requests += 1,
        Operation::Config { slot, .. } => state.slot(slot).fetch_requests += 1,
        Operation::Upgrade { slot, .. } => {
            state.counts.upgrades += 1;
            state.slot(slot).upgrades += 1;
        }
        Operation::Usage { .. } | Operation::Analytics { .. } => {}
    });
}

/// The answer that a script gives in place of the service's own.
fn made_up(answering: &Answering) -> Option<Answer> {
    if answering.garbage {
        return Some(Answer::json(200, PORTAL).with("Content-Type", "text/html"));
    }
    if let Some(place) = &answering.redirect {
        return Some(Answer::new(302).with("Location", place));
    }
    let status = answering.status.or(answering.body.as_ref().map(|_| 200))?;
    let answer = match &answering.body {
        Some(body) => Answer::json(status, body.as_str()),
        None => Answer::refusal(status, "as scripted"),
    };
    Some(match answering.retry_after {
        Some(seconds) => answer.with("Retry-After", seconds.to_string()),
        None => answer,
    })
}

/// Does what was asked; a slot with it if the answer is a 101.
fn perform(
    stage: &Stage,
    request: &Request,
    operation: &Operation,
    answering: &Answering,
) -> (Answer, Option<String>) {
    if !matches!(operation, Operation::Token)
        && authorization(stage, request) != Authorization::Bearer
    {
        return (
            Answer::refusal(401, "unauthorized: the token is not valid"),
            None,
        );
    }
    let known = stage.options.guid.as_deref();
    if known.is_some() && operation.guid().is_some_and(|guid| known != Some(guid)) {
        return (Answer::refusal(404, "no such instance"), None);
    }
    match operation {
        Operation::Token => (give_token(stage, request, answering), None),
        Operation::Config { slot, .. } => {
            (give_document(stage, request, slot, answering.plain), None)
        }
        Operation::Upgrade { slot, .. } => upgrade(stage, request, slot, answering),
        Operation::Usage { .. } | Operation::Analytics { .. } => {
            (take_report(stage, request, operation), None)
        }
    }
}

fn give_token(stage: &Stage, request: &Request, answering: &Answering) -> Answer {
    let refuse = |code: &str, message: &str| {
        let body = serde_json::json!({ "errorCode": code, "errorMessage": message, "context": {} });
        Answer::json(400, body.to_string())
    };
    let form = "application/x-www-form-urlencoded";
    let kind = request.header("Content-Type").unwrap_or_default();
    if kind
        .split(';')
        .next()
        .is_none_or(|kind| !kind.trim().eq_ignore_ascii_case(form))
    {
        return refuse("BXNIM0108E", "The request is not a form.");
    }
    let key = match token::asked_for(&String::from_utf8_lossy(&request.body)) {
        Ok(key) => key,
        Err(problem) => return refuse("BXNIM0109E", problem),
    };
    if key.is_empty()
        || stage
            .options
            .api_key
            .as_ref()
            .is_some_and(|known| *known != key)
    {
        return refuse("BXNIM0415E", "Provided API key could not be found.");
    }
    let serial = stage.change(|state| {
        state.counts.tokens += 1;
        state.counts.tokens
    });
    let lifetime_s = answering.lifetime_s.unwrap_or(TOKEN_LIFETIME_S);
    let answer = stage.mint.issue(serial, now_ms() / 1_000, lifetime_s);
    Answer::json(200, answer.to_string()).with("Cache-Control", "no-cache, no-store")
}

fn give_document(stage: &Stage, request: &Request, slot: &str, plain: bool) -> Answer {
    let document = stage.change(|state| {
        let document = state.documents.get(slot).cloned()?;
        let counts = state.slot(slot);
        counts.fetches += 1;
        counts.fetched_ms = Some(now_ms());
        Some(document)
    });
    let Some(document) = document else {
        return Answer::refusal(404, "no such collection or environment");
    };
    if plain || !request.lists("Accept-Encoding", "gzip") {
        return Answer::json(200, document);
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(&document).and_then(|()| encoder.finish());
    let body = written.expect("memory takes what is written to it");
    Answer::json(200, body).with("Content-Encoding", "gzip")
}

fn upgrade(
    stage: &Stage,
    request: &Request,
    slot: &str,
    answering: &Answering,
) -> (Answer, Option<String>) {
    let asks = request.lists("Connection", "upgrade") && request.lists("Upgrade", "websocket");
    let version = request.header("Sec-WebSocket-Version");
    let (true, Some("13"), Some(key)) = (asks, version, request.header("Sec-WebSocket-Key")) else {
        return (Answer::refusal(400, "not a WebSocket handshake"), None);
    };
    if !stage.look(|state| state.documents.contains_key(slot)) {
        return (
            Answer::refusal(404, "no such collection or environment"),
            None,
        );
    }
    if let Some(swap) = &answering.swap_document {
        let document = match swap.document.as_str() {
            Some(text) => text.to_owned(),
            None => swap.document.to_string(),
        };
        stage.set_document(&swap.slot, document);
    }
    let answer = Answer::new(101)
        .with("Upgrade", "websocket")
        .with("Connection", "Upgrade")
        .with("Sec-WebSocket-Accept", derive_accept_key(key.as_bytes()));
    (answer, Some(slot.to_owned()))
}

fn take_report(stage: &Stage, request: &Request, operation: &Operation) -> Answer {
    let kind = request.header("Content-Type").unwrap_or_default();
    if kind
        .split(';')
        .next()
        .is_none_or(|kind| kind.trim() != "application/json")
    {
        return Answer::refusal(400, "the report is not application/json");
    }
    let taken = stage.change(|state| {
        let (totals, counts) = (&mut state.totals, &mut state.counts);
        match operation {
            Operation::Usage { .. } => usage::take_usage(totals, &mut counts.usage, &request.body),
            _ => usage::take_analytics(totals, &mut counts.analytics, &request.body),
        }
    });
    match taken {
        Ok(()) => Answer::new(202),
        Err(problem) => Answer::refusal(400, &problem),
    }
}
