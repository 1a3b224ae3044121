//! What peers ask of this node, on the SDK listener.
//!
//! Owns the paths `/v1/region/*` and `/v1/slots/*` there. They answer the peer key and nobody else:
//! to others they are what they are on a relay without regions. What a peer may have is the status
//! (at once, or when it is another one than it knows), the state record, a slot's content with the
//! head that it is, and what became of a write that it has sent on.
//!
//! The headers by which a write is sent on mean something here only: everywhere else they are a
//! client's words about itself, which nobody reads.
//!
//! Invariant: every answer to a write says what became of it, so that the node that sent it on can
//! tell this node's answers from those of whatever lies between the two.

use std::rc::Rc;

use crate::limits::Limits;
use crate::model::SlotIndex;
use crate::model::region::{Outcome, Subject};
use crate::net::admin;
use crate::net::clock::Alarm;
use crate::net::connection::{Connection, Door};
use crate::net::driver::Driver;
use crate::net::log::Cause;
use crate::net::push::{self, Asked, Push};
use crate::net::route::{Action, Wanted};
use crate::state::region::Incoming;
use crate::time::Instant;
use crate::wire::http::response::Answer;
use crate::wire::http::{self, Head, Method};
use crate::wire::push::etag;
use crate::wire::region::peer::{self, PeerHead};
use crate::wire::region::status;
use crate::wire::region::target::{self, Question, Target};
use crate::wire::{DecodeError, forward};

use super::write::{self, Arrival};
use super::{Region, now, peer_key, record, tell};

/// What is done for a peer behind its request.
pub enum Command {
    /// Tell it the status when it is another one than it knows.
    Tell(Question),
    /// Take a write that it has sent on.
    Write(Box<PeerWrite>),
}

/// A write of a peer whose head was read.
pub struct PeerWrite {
    push: Push,
    incoming: Incoming,
    /// When it came: what is left of its time runs from there.
    arrived: Instant,
}

impl Command {
    /// The longest body that is taken.
    pub fn bytes_max(&self, limits: &Limits) -> usize {
        match self {
            Command::Tell(_) => limits.head_bytes_max,
            Command::Write(_) => limits.push_bytes_max,
        }
    }

    /// A body over its bound.
    pub fn too_large(&self, driver: &Driver) -> Answer {
        match self {
            Command::Tell(_) => Answer::new(413),
            Command::Write(write) => told(write.push.too_large(driver)),
        }
    }

    /// No room for its body beside the others.
    pub fn crowded(&self, driver: &Driver) -> Answer {
        match self {
            Command::Tell(_) => Answer::new(503),
            Command::Write(write) => told(write.push.crowded(driver)),
        }
    }
}

/// Decides about a request that may be a peer's; `None` where it is none.
pub fn decide(connection: &Rc<Connection>, head: &Head<'_>) -> Option<Action> {
    let driver = &connection.driver;
    let region = driver.region.as_ref()?;
    let http::Target::Path(text) = head.target else {
        return None;
    };
    if !target::is_meant(text) {
        return None;
    }
    if !is_peer(driver, head) {
        driver.log.limited(
            Cause::WrongKey,
            driver.clock.now(),
            format_args!("what only peers may ask came without the peer key"),
        );
        return None;
    }
    let asked = Target::parse(text);
    let action = match (asked, head.method) {
        (None, _) => Action::Answer(Answer::text(404, "nothing is here for peers\n")),
        (Some(Target::Status(question)), Method::Get | Method::Head) => match question.after {
            Some(_) => Action::Body(Wanted::Peer(Command::Tell(question))),
            None => Action::Answer(status_of(driver, region)),
        },
        (Some(Target::State), Method::Get | Method::Head) => Action::Answer(state_of(driver)),
        (Some(Target::Slot(slot)), method) => {
            let (collection, environment) = (slot.collection.as_str(), slot.environment.as_str());
            let found = driver.state.borrow().slots.find(collection, environment);
            match (found, method) {
                (None, _) => Action::Answer(told(Answer::text(404, "no such slot here\n"))),
                (Some(slot), Method::Get | Method::Head) => {
                    Action::Answer(show(driver, region, slot))
                }
                (Some(slot), Method::Put) => take(connection, slot, head),
                (Some(_), _) => Action::Answer(not_allowed("GET, HEAD, PUT")),
            }
        }
        (Some(Target::Status(_) | Target::State), _) => Action::Answer(not_allowed("GET, HEAD")),
    };
    Some(action)
}

/// Whether a request shows the peer key; compared in constant time.
pub fn is_peer(driver: &Driver, head: &Head<'_>) -> bool {
    let given = head.authorization.and_then(admin::bearer).unwrap_or("");
    peer_key(driver).is_some_and(|key| admin::is_same(key.bytes(), given.as_bytes()))
}

fn not_allowed(methods: &'static str) -> Answer {
    Answer::text(405, format!("this path takes {methods}\n")).with("allow", methods)
}

fn status_of(driver: &Driver, region: &Region) -> Answer {
    let status = region.routing.borrow().status(now(driver));
    Answer::json(200, status::write(&status)).with("cache-control", "no-store")
}

fn state_of(driver: &Driver) -> Answer {
    match record::bytes(driver) {
        Some(bytes) => Answer::json(200, bytes.to_vec()).with("cache-control", "no-store"),
        None => Answer::text(404, "this node holds no state record\n"),
    }
}

/// A slot's content with the head that it is.
fn show(driver: &Driver, region: &Region, slot: SlotIndex) -> Answer {
    let state = driver.state.borrow();
    let Some(slot) = state.slots.of(slot) else {
        return Answer::new(404);
    };
    let Some(subject) = region.subject(&Subject::Slot(slot.key.clone())) else {
        return Answer::text(
            404,
            "this slot is no operator's here: each node fills it by itself\n",
        );
    };
    let Some(held) = &slot.held else {
        return Answer::new(204);
    };
    let head = region.routing.borrow().head(subject);
    // Not by the revision: a term that was entered without a seal has one of its own.
    match head.filter(|head| head.digest == held.snapshot.digest) {
        Some(head) => Answer::json(200, held.snapshot.json.to_vec())
            .with("etag", etag(head.revision))
            .with(peer::PARENT, head.parent.to_string())
            .with("cache-control", "no-store"),
        // What is being kept at this moment is shown when it counts.
        None => Answer::text(503, "this slot is between two revisions: retry\n"),
    }
}

/// Decides about a write that a peer has sent on.
fn take(connection: &Connection, slot: SlotIndex, head: &Head<'_>) -> Action {
    let driver = &connection.driver;
    if connection.door == Door::Lobby {
        let crowded = Answer::text(503, "too many connections: retry\n");
        let retry_s = driver.limits.retry_after.as_secs().max(1);
        return Action::Answer(told(crowded.with("retry-after", retry_s.to_string())));
    }
    let incoming = match incoming(head) {
        Ok(incoming) => incoming,
        Err(fault) => {
            let text = format!("a write comes here from a peer only: {}\n", fault.what());
            return Action::Answer(told(Answer::text(fault.status(), text)));
        }
    };
    // The rows that are about nodes come before what is wrong with the push itself.
    let subject = driver.region.as_ref();
    let subject = subject.and_then(|region| region.subject_of(driver, slot));
    let admitted = subject.and_then(|subject| {
        tell(driver, |routing, now| {
            routing.admit(&incoming, subject, now)
        })
    });
    if let Some(Err(refusal)) = admitted {
        return Action::Answer(write::refused(driver, slot, &refusal));
    }
    match push::decide(driver, slot, head) {
        Asked::Answer(answer) => Action::Answer(told(answer)),
        Asked::Push(push) => Action::Body(Wanted::Peer(Command::Write(Box::new(PeerWrite {
            push,
            incoming,
            arrived: driver.clock.now(),
        })))),
    }
}

/// What a peer says about a request that it sends on.
///
/// # Errors
/// It says nothing, or what it says cannot be read.
pub fn incoming(head: &Head<'_>) -> Result<Incoming, DecodeError> {
    let fields = || forward::fields(head.raw);
    let missing = DecodeError::Malformed("its headers are missing");
    let said = PeerHead::parse(fields())?.ok_or(missing)?;
    let via = fields().filter(|(name, _)| name.eq_ignore_ascii_case("via"));
    Ok(Incoming {
        cluster: said.cluster,
        from: said.from,
        via: via.flat_map(|(_, value)| peer::via_names(value)).collect(),
        hops: said.hops,
        epoch: said.epoch,
        left: said.left,
    })
}

/// Does what a peer has asked for, once its body was read.
pub async fn run(driver: &Rc<Driver>, command: Command, body: Vec<u8>) -> Answer {
    match command {
        Command::Tell(question) => tell_news(driver, question).await,
        Command::Write(peer) => {
            let PeerWrite {
                push,
                mut incoming,
                arrived,
            } = *peer;
            let spent = driver.clock.now() - arrived;
            incoming.left = incoming.left.saturating_sub(spent);
            let arrival = Arrival::Peer(incoming, push.key.clone());
            // Large, and not for the connections of clients.
            told(Box::pin(write::write(driver, arrival, push, body)).await)
        }
    }
}

/// The status, once it is another one than the peer knows or it has waited long enough.
///
/// Bounded by `region.wait`.
async fn tell_news(driver: &Rc<Driver>, question: Question) -> Answer {
    let Some(region) = &driver.region else {
        return Answer::new(404);
    };
    let until = driver.clock.now() + question.wait.min(driver.limits.region.wait);
    let mut alarm = Alarm::new(driver.clock.clone());
    alarm.set(Some(until));
    while Some(region.standing()) == question.after
        && driver.clock.now() < until
        && !driver.is_draining()
    {
        region.news().next(&mut alarm).await;
    }
    status_of(driver, region)
}

/// The answer to a write, which says what became of it; where it does not yet, its status does.
fn told(answer: Answer) -> Answer {
    if answer.fields.iter().any(|(name, _)| *name == peer::OUTCOME) {
        return answer;
    }
    let outcome = match answer.status {
        200..300 => Outcome::Applied,
        400..500 | 503 => Outcome::NotAttempted,
        _ => Outcome::Unknown,
    };
    answer.with(peer::OUTCOME, outcome.as_str())
}
