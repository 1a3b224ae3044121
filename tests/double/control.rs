//! The control port: the methods of [`Stage`] as small JSON requests, for scripts in any language.
//!
//! | request | does |
//! | --- | --- |
//! | `PUT /documents/{C}/{E}` | sets the document to the body; `?notify=1` tells the sockets |
//! | `DELETE /documents/{C}/{E}` | takes it away |
//! | `POST /notify/{C}/{E}` | tells the sockets, in the body's words if it has any |
//! | `POST /behave` | changes how it fails, see `behaviour` |
//! | `POST /kill_sockets`, `/kill_connections`, `/revoke_tokens` | does that |
//! | `GET /counts` | the counts; `?after=N` waits until `changes` is more than N, at most 10 s |
//! | `GET /counts/{C}/{E}` | the counts of one slot |
//! | `GET /totals` | usage and analytics entry by entry |
//! | `GET /log` | the last requests, one JSON object a line |

use super::http::{Answer, Request};
use super::stage::Stage;
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;

/// How long an answer waits for a change.
const PATIENCE: Duration = Duration::from_secs(10);

/// Does what a request asks.
pub fn answer(stage: &Stage, request: &Request) -> Answer {
    let path = request.path();
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    match (request.method.as_str(), &path[..]) {
        ("PUT", ["documents", collection, environment]) => {
            let slot = format!("{collection}/{environment}");
            stage.set_document(&slot, request.body.clone());
            let told = match request.query("notify").as_deref() {
                Some("1") => stage.notify(&slot, None),
                _ => 0,
            };
            done(json!({ "told": told }))
        }
        ("DELETE", ["documents", collection, environment]) => {
            stage.remove_document(&format!("{collection}/{environment}"));
            done(json!({}))
        }
        ("POST", ["notify", collection, environment]) => {
            let text = String::from_utf8_lossy(&request.body);
            let text = Some(&*text).filter(|text| !text.is_empty());
            let told = stage.notify(&format!("{collection}/{environment}"), text);
            done(json!({ "told": told }))
        }
        ("POST", ["behave"]) => behave(stage, &request.body),
        ("POST", ["kill_sockets"]) => {
            stage.kill_sockets();
            done(json!({}))
        }
        ("POST", ["kill_connections"]) => {
            stage.kill_connections();
            done(json!({}))
        }
        ("POST", ["revoke_tokens"]) => {
            stage.revoke_tokens();
            done(json!({}))
        }
        ("GET", ["counts"]) => counts(stage, request),
        ("GET", ["counts", collection, environment]) => {
            done(stage.counts().slot(&format!("{collection}/{environment}")))
        }
        ("GET", ["totals"]) => done(stage.totals()),
        ("GET", ["log"]) => {
            let mut lines = String::new();
            for logged in stage.log() {
                lines += &text(logged);
                lines.push('\n');
            }
            Answer::json(200, lines).with("Content-Type", "application/x-ndjson")
        }
        _ => refused(404, "no such order"),
    }
}

fn behave(stage: &Stage, body: &[u8]) -> Answer {
    let orders: Result<Value, _> = serde_json::from_slice(body);
    let obeyed = orders
        .map_err(|error| error.to_string())
        .and_then(|orders| stage.behave(&orders));
    match obeyed {
        Ok(()) => done(json!({})),
        Err(problem) => refused(400, &problem),
    }
}

fn counts(stage: &Stage, request: &Request) -> Answer {
    let Some(after) = request.query("after") else {
        return done(stage.counts());
    };
    let Ok(after) = after.parse::<u64>() else {
        return refused(400, "`after` is no number");
    };
    let changed = stage.wait_until(PATIENCE, |counts| counts.changes > after);
    done(changed.unwrap_or_else(|| stage.counts()))
}

fn done(result: impl Serialize) -> Answer {
    Answer::json(200, text(result))
}

fn refused(status: u16, problem: &str) -> Answer {
    Answer::json(status, text(json!({ "problem": problem })))
}

fn text(value: impl Serialize) -> String {
    serde_json::to_string(&value).expect("plain structs with text for keys")
}
