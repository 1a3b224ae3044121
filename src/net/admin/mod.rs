//! The admin listener: what operators, monitors and scrapers ask.
//!
//! Owns its paths, their methods, and who may ask for what: over the Unix socket everything, since
//! its file mode has let the asker in; over TCP everything that only reads, and commands with the
//! admin token. The documents of slots, read or pushed, are behind the token too: they are no
//! status. Answers are for people and carry no CORS permission: no web page reads them.
//!
//! `/live` says that the loop turns; `/ready` that every slot has something to serve (a stale
//! snapshot is still one). The rest shows the one document that `status` gathers.

mod metrics;
mod page;
pub mod status;

use std::rc::Rc;

use ring::digest::{SHA256, digest};
use subtle::ConstantTimeEq;

use crate::model::{Reject, SlotKey};
use crate::wire::http::response::Answer;
use crate::wire::http::{Head, Method, Target};
use crate::wire::region as region_wire;
use crate::wire::region::target;
use crate::wire::reject;

use super::connection::{Connection, Door};
use super::driver::Driver;
use super::log::Cause;
use super::push::{self, Asked, Push};
use super::region;
use super::reload;
use super::route::{Action, Wanted};

/// Where the documents of slots are.
const SLOTS: &str = "/v1/slots/";

/// What an admin asks for that changes something.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    Reload,
    Push(Box<Push>),
    /// A state record.
    Record,
}

/// What is behind a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resource<'a> {
    Live,
    Ready,
    Status,
    Metrics,
    Page,
    Reload,
    /// `collection/environment`.
    Slot(&'a str),
    RegionStatus,
    RegionState,
    RegionNodes,
}

impl<'a> Resource<'a> {
    fn find(target: &'a str) -> Option<Resource<'a>> {
        let path = target.split_once('?').map_or(target, |(path, _)| path);
        if let Some(slot) = path.strip_prefix(SLOTS) {
            return Some(Resource::Slot(slot));
        }
        Some(match path {
            "/live" => Resource::Live,
            "/ready" => Resource::Ready,
            "/status" => Resource::Status,
            "/metrics" => Resource::Metrics,
            "/" => Resource::Page,
            "/reload" => Resource::Reload,
            target::STATUS => Resource::RegionStatus,
            target::STATE => Resource::RegionState,
            target::NODES => Resource::RegionNodes,
            _ => return None,
        })
    }

    /// The value of `Allow`.
    fn methods(self) -> &'static str {
        match self {
            Resource::Reload => "POST",
            Resource::Slot(_) | Resource::RegionState => "GET, HEAD, PUT",
            _ => "GET, HEAD",
        }
    }

    fn takes(self, method: Method) -> bool {
        match self {
            Resource::Reload => method == Method::Post,
            Resource::Slot(_) | Resource::RegionState => {
                matches!(method, Method::Get | Method::Head | Method::Put)
            }
            _ => matches!(method, Method::Get | Method::Head),
        }
    }
}

/// Decides about a request on an admin listener.
pub fn decide(connection: &Rc<Connection>, head: &Head<'_>) -> Action {
    let driver = &connection.driver;
    let found = match head.target {
        Target::Path(target) => Resource::find(target),
        Target::Authority(_) => None,
    };
    let Some(resource) = found else {
        let text = "not here; there are / /live /ready /status /metrics, POST /reload, \
                    /v1/slots/COLLECTION/ENVIRONMENT, and /v1/region/ status nodes state\n";
        return Action::Answer(refuse(driver, Reject::UnknownPath, text));
    };
    if !resource.takes(head.method) {
        let methods = resource.methods();
        let text = format!("this path takes {methods}\n");
        let answer = refuse(driver, Reject::MethodNotAllowed, &text).with("allow", methods);
        return Action::Answer(answer);
    }
    let answer = match resource {
        Resource::Live => Answer::text(200, "live\n"),
        Resource::Ready => ready(driver),
        Resource::Status => status_document(driver),
        Resource::Metrics => metrics(driver),
        Resource::Page => page(driver),
        Resource::Reload => match may_command(connection, head) {
            Ok(()) => return Action::Body(Wanted::Admin(Command::Reload)),
            Err(answer) => answer,
        },
        Resource::Slot(name) => match may_command(connection, head) {
            Ok(()) => match slot(driver, name, head) {
                Asked::Push(push) => {
                    return Action::Body(Wanted::Admin(Command::Push(Box::new(push))));
                }
                Asked::Answer(answer) => answer,
            },
            Err(answer) => answer,
        },
        Resource::RegionStatus => region_status(driver),
        Resource::RegionNodes => region_nodes(driver),
        Resource::RegionState => match may_command(connection, head) {
            Ok(()) if head.method == Method::Put => {
                return Action::Body(Wanted::Admin(Command::Record));
            }
            Ok(()) => state_record(driver),
            Err(answer) => answer,
        },
    };
    Action::Answer(answer.with("cache-control", "no-store"))
}

fn slot(driver: &Driver, name: &str, head: &Head<'_>) -> Asked {
    let key = SlotKey::parse(name);
    let found = key.as_ref().and_then(|key| {
        let (collection, environment) = (key.collection.as_str(), key.environment.as_str());
        driver.state.borrow().slots.find(collection, environment)
    });
    match (found, key) {
        (Some(slot), _) => push::decide(driver, slot, head),
        (None, Some(key)) => {
            let text =
                format!("slot {key} is not configured here: see /status for those that are\n");
            Asked::Answer(refuse(driver, Reject::UnknownSlot, &text))
        }
        (None, None) => {
            let text = "a slot is named COLLECTION/ENVIRONMENT\n";
            Asked::Answer(refuse(driver, Reject::UnknownSlot, text))
        }
    }
}

/// Does what was asked for.
pub async fn run(driver: &Rc<Driver>, command: Command, body: Vec<u8>) -> Answer {
    match command {
        Command::Push(push) => {
            let answer = push::run(driver, *push, body).await;
            answer.with("cache-control", "no-store")
        }
        Command::Record => {
            // Rare: no connection that might bring one carries it along.
            let answer = Box::pin(region::record::put(driver, body)).await;
            answer.with("cache-control", "no-store")
        }
        Command::Reload => {
            let report = reload::reload(driver).await;
            let status = if report.is_good() { 200 } else { 422 };
            Answer::text(status, report.lines.join("\n") + "\n")
        }
    }
}

/// What this node says of region routing.
fn region_status(driver: &Driver) -> Answer {
    match region::status(driver) {
        Some(status) => Answer::json(200, region_wire::status::write(&status) + "\n"),
        None => no_region(driver),
    }
}

/// What this node has heard of all nodes of its record.
fn region_nodes(driver: &Driver) -> Answer {
    match region::nodes(driver) {
        Some(nodes) => Answer::json(200, region_wire::status::write_nodes(&nodes) + "\n"),
        None => no_region(driver),
    }
}

/// The state record that counts, in the very bytes that were brought.
fn state_record(driver: &Driver) -> Answer {
    match region::record::bytes(driver) {
        Some(bytes) => Answer::json(200, bytes.to_vec()),
        None if driver.region.is_some() => refuse(
            driver,
            Reject::UnknownPath,
            "no state record counts here yet\n",
        ),
        None => no_region(driver),
    }
}

fn no_region(driver: &Driver) -> Answer {
    let text = "this relay has no part in region routing: its config has no `region`\n";
    refuse(driver, Reject::UnknownPath, text)
}

/// Counts a refusal and words it for people.
fn refuse(driver: &Driver, reject: Reject, text: &str) -> Answer {
    driver.count(|counters| counters.refuse(reject));
    Answer::text(reject::refusal(reject).status, text)
}

fn may_command(connection: &Connection, head: &Head<'_>) -> Result<(), Answer> {
    let driver = &connection.driver;
    match connection.door {
        Door::AdminLocal => return Ok(()),
        Door::AdminTcp | Door::Sdk | Door::Lobby => {}
    }
    let loaded = driver.loaded.borrow();
    let Some(token) = &loaded.admin_token else {
        let text = "commands over TCP need a token and none is loaded: configure \
                    admin.token_file, or use the Unix socket\n";
        return Err(Answer::text(403, text));
    };
    let given = head.authorization.and_then(bearer).unwrap_or("");
    if is_same(token.bytes(), given.as_bytes()) {
        return Ok(());
    }
    driver.log.limited(
        Cause::WrongKey,
        driver.clock.now(),
        format_args!("a command came to the admin listener without the admin token"),
    );
    let text = "this command needs `Authorization: Bearer` with the admin token\n";
    Err(refuse(driver, Reject::WrongKey, text).with("www-authenticate", "Bearer"))
}

/// What follows the scheme `Bearer`, which is written in any case.
pub fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    let is_bearer = scheme.eq_ignore_ascii_case("Bearer");
    is_bearer.then(|| token.trim_start_matches(' '))
}

/// Compares in constant time, over digests, so that lengths do not show either.
pub fn is_same(left: &[u8], right: &[u8]) -> bool {
    let (left, right) = (digest(&SHA256, left), digest(&SHA256, right));
    left.as_ref().ct_eq(right.as_ref()).into()
}

fn ready(driver: &Driver) -> Answer {
    let missing: Vec<String> = driver
        .state
        .borrow()
        .slots
        .missing()
        .map(SlotKey::to_string)
        .collect();
    match missing.is_empty() {
        true => Answer::text(200, "ready\n"),
        false => Answer::text(503, format!("no snapshot for: {}\n", missing.join(", "))),
    }
}

fn status_document(driver: &Driver) -> Answer {
    match serde_json::to_vec(&status::collect(driver)) {
        Ok(mut document) => {
            // For those who ask in a terminal.
            document.push(b'\n');
            Answer::json(200, document)
        }
        // Strings, numbers and string keys: there is nothing in it that JSON cannot hold.
        Err(error) => Answer::text(500, format!("the status cannot be written: {error}\n")),
    }
}

fn metrics(driver: &Driver) -> Answer {
    let status = status::collect(driver);
    let started_s = driver
        .clock
        .wall()
        .as_unix()
        .saturating_sub(status.uptime_s);
    let state = driver.state.borrow();
    let scrape = metrics::Scrape {
        status,
        counters: state.counters.clone(),
        evictions: state.fanout.evictions(),
        started_s,
    };
    Answer::new(200)
        .with("content-type", metrics::CONTENT_TYPE)
        .with_body(scrape.encode())
}

fn page(driver: &Driver) -> Answer {
    Answer::new(200)
        .with("content-type", "text/html; charset=utf-8")
        .with("content-security-policy", page::POLICY)
        .with("x-content-type-options", "nosniff")
        .with("referrer-policy", "no-referrer")
        .with_body(page::render(&status::collect(driver)))
}
