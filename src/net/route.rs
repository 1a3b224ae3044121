//! Which request gets what, on the SDK listener.
//!
//! Owns the order of the questions: is it a peer's, is it ours (path, instance, slot), may this
//! method, who asks, may they, is there something to give. Decides at once, without waiting, and
//! answers with an [`Action`] that owns what it needs. The rules themselves live elsewhere: paths
//! in `wire::ibm`, keys in `state::access`, statuses in `wire::reject`.
//!
//! Never a redirect, and never a refusal of events from a client that is known: what SDKs do with
//! any answer but 202 costs more than the event.

use std::rc::Rc;

use ring::rand::SecureRandom;

use crate::limits::Limits;
use crate::model::report::ReportKind;
use crate::model::{KeyIndex, Reject, SlotIndex};
use crate::state::fanout::Kind;
use crate::wire::http::response::Answer;
use crate::wire::http::{Head, Method, Target};
use crate::wire::ibm::{self, Path};
use crate::wire::publication::{self, Form};
use crate::wire::reject::refusal;
use crate::wire::{cors, gzip, iam, websocket};

use super::admin;
use super::connection::{Connection, Door};
use super::document::{Ask, Document};
use super::driver::Driver;
use super::log::{Cause, Untrusted};
use super::proxy::{self, Call};
use super::region::serve;
use super::spool;
use super::stream::{Greeting, Opening};

/// What to do about a request.
pub enum Action {
    Answer(Answer),
    Document(Document),
    Stream(Opening),
    /// Answer a `CONNECT`, then speak TLS on the same connection.
    Tunnel,
    /// Read the body first, then ask [`with_body`].
    Body(Wanted),
    /// Send it on to another server.
    Forward(Call),
    /// End the connection without a word: the one refusal that a browser's event stream survives.
    Drop,
}

/// What the body is for.
pub enum Wanted {
    Token,
    Events { kind: ReportKind, compressed: bool },
    Admin(admin::Command),
    Peer(serve::Command),
}

impl Wanted {
    /// The longest body that is taken.
    pub fn bytes_max(&self, limits: &Limits) -> usize {
        match self {
            Wanted::Token => limits.credential_bytes_max,
            Wanted::Events { .. } => limits.body_bytes_max,
            Wanted::Admin(admin::Command::Push(_)) => limits.push_bytes_max,
            Wanted::Admin(admin::Command::Record) => limits.region.record_bytes_max,
            Wanted::Admin(admin::Command::Reload) => limits.body_bytes_max,
            Wanted::Peer(command) => command.bytes_max(limits),
        }
    }
}

/// Decides about a request whose head was read.
pub fn decide(connection: &Rc<Connection>, head: &Head<'_>) -> Action {
    let driver = &connection.driver;
    match connection.door {
        Door::AdminTcp | Door::AdminLocal => return admin::decide(connection, head),
        Door::Sdk | Door::Lobby => {}
    }
    if let Some(action) = serve::decide(connection, head) {
        return action;
    }
    let path = match head.target {
        Target::Authority(authority) => return tunnel(connection, authority),
        Target::Path(target) => ibm::parse(target),
    };
    if !path.as_ref().is_some_and(|path| is_own(driver, path))
        && let Some(action) = proxy::decide(connection, head, path.as_ref().is_some_and(is_stream))
    {
        return action;
    }
    let Some(path) = path else {
        return refused(driver, Reject::UnknownPath);
    };
    // A preflight is about the path, not about what it names: only if it is allowed can a page see
    // what is wrong with the request itself.
    if head.method == Method::Options && path.takes(Method::Options) {
        return Action::Answer(preflight());
    }
    let decided = match connection.door {
        Door::Lobby => Err(Reject::Overloaded),
        _ => decide_path(connection, head, &path),
    };
    match decided {
        Ok(action) => action,
        // Every answer but 200 is final for a browser's event stream, and a lost connection is not:
        // what passes by itself is not said to it.
        Err(reject) if is_stream(&path) && refusal(reject).retry_after => {
            driver.count(|counters| counters.refuse(reject));
            Action::Drop
        }
        Err(Reject::MethodNotAllowed) => {
            let answer = driver.refuse(Reject::MethodNotAllowed);
            Action::Answer(answer.with("allow", path.methods()))
        }
        Err(reject) => refused(driver, reject),
    }
}

fn refused(driver: &Driver, reject: Reject) -> Action {
    Action::Answer(driver.refuse(reject))
}

/// Whether a path of the service is about this relay's own instance and slots. A relay without
/// slots has none of its own: it goes before others.
fn is_own(driver: &Driver, path: &Path<'_>) -> bool {
    let slots = &driver.state.borrow().slots;
    let is_named = |(collection, environment)| slots.find(collection, environment).is_some();
    slots.iter().next().is_some()
        && path.guid().is_none_or(|guid| guid == driver.guid.as_str())
        && path.slot().is_none_or(is_named)
}

fn is_stream(path: &Path<'_>) -> bool {
    matches!(path, Path::Subscribe { .. })
}

fn tunnel(connection: &Rc<Connection>, authority: &str) -> Action {
    let driver = &connection.driver;
    if connection.door == Door::Lobby {
        // Not 403: Python's SDK looks for those digits in its proxy's words, and stops for good.
        return refused(driver, Reject::Overloaded);
    }
    let inside = connection.io().is_tls();
    let allowed = !inside && driver.tunnels.borrow().allows(authority);
    let has_tls = driver.tls.borrow().is_some();
    if allowed && !has_tls && driver.loaded.borrow().config.tls.is_some() {
        // The certificate may yet be read; every refusal in HTTP would be final for some SDK.
        return Action::Drop;
    }
    if !allowed || !has_tls {
        driver.log.limited(
            Cause::TunnelRefused,
            driver.clock.now(),
            format_args!(
                "CONNECT to {} refused: the relay answers for its own service's host names only; \
             `connect.allow` adds more, and `tls` must be configured",
                Untrusted(authority.as_bytes())
            ),
        );
        return refused(driver, Reject::TunnelRefused);
    }
    driver.count(|counters| counters.tunnels += 1);
    Action::Tunnel
}

fn decide_path(
    connection: &Rc<Connection>,
    head: &Head<'_>,
    path: &Path<'_>,
) -> Result<Action, Reject> {
    let driver = &connection.driver;
    if path.guid().is_some_and(|guid| guid != driver.guid.as_str()) {
        driver.note_wrong_instance(path.guid().unwrap_or(""));
        return Err(Reject::UnknownInstance);
    }
    let slot = match path.slot() {
        None => None,
        Some((collection, environment)) => {
            let found = driver.state.borrow().slots.find(collection, environment);
            Some(found.ok_or(Reject::UnknownSlot)?)
        }
    };
    if !takes(path, head.method) {
        return Err(Reject::MethodNotAllowed);
    }
    if matches!(path, Path::Token) {
        return Ok(Action::Body(Wanted::Token));
    }
    let mut state = driver.state.borrow_mut();
    let key = state.access.check(head.authorization.unwrap_or(""))?;
    match slot {
        Some(slot) => {
            state.access.may_use(key, slot)?;
            drop(state);
            serve_slot(driver, head, path, slot, key)
        }
        None => Ok(Action::Body(Wanted::Events {
            kind: match path {
                Path::Analytics { .. } => ReportKind::Analytics,
                _ => ReportKind::Usage,
            },
            compressed: head.content_encoding.is_some_and(|coding| {
                coding.eq_ignore_ascii_case("gzip") || coding.eq_ignore_ascii_case("x-gzip")
            }),
        })),
    }
}

fn takes(path: &Path<'_>, method: Method) -> bool {
    match method {
        Method::Head => matches!(path, Path::Config { .. } | Path::LegacyConfig { .. }),
        Method::Options => false,
        method => path.takes(method),
    }
}

fn serve_slot(
    driver: &Driver,
    head: &Head<'_>,
    path: &Path<'_>,
    slot: SlotIndex,
    key: KeyIndex,
) -> Result<Action, Reject> {
    let opening = |kind, greet, greeting| {
        Ok(Action::Stream(Opening {
            slot,
            key,
            kind,
            greet,
            greeting,
        }))
    };
    match path {
        Path::WebSocket { .. } => {
            let Some(accept) = head.websocket_key else {
                return Ok(Action::Answer(upgrade()));
            };
            let greet = ibm::wants_change_text(head.user_agent);
            opening(
                Kind::WebSocket,
                greet,
                Greeting::WebSocket(websocket::accept(accept)),
            )
        }
        Path::Subscribe {
            events_only: true, ..
        } => opening(Kind::SseEventsOnly, false, Greeting::Sse),
        Path::Subscribe { .. } => opening(Kind::Sse, false, Greeting::Sse),
        Path::LegacyConfig { .. } => document(driver, head, slot, key, Form::Flat),
        _ => document(driver, head, slot, key, Form::Current),
    }
}

/// The answer to a change-socket request that is no complete upgrade (RFC 9110 15.5.22).
fn upgrade() -> Answer {
    let body = "{\"status_code\":426,\"message\":\"this path takes a WebSocket upgrade\"}";
    with_fields(
        Answer::json(426, body).with("upgrade", "websocket"),
        &[cors::ANSWER],
    )
}

fn document(
    driver: &Driver,
    head: &Head<'_>,
    slot: SlotIndex,
    key: KeyIndex,
    form: Form,
) -> Result<Action, Reject> {
    let mut state = driver.state.borrow_mut();
    let publication = state
        .fanout
        .newest(slot)
        .cloned()
        .ok_or(Reject::NoSnapshot)?;
    let now = driver.clock.now();
    let held = state.slots.of(slot).and_then(|slot| slot.held.as_ref());
    let age_s = held
        .map(|held| (now - held.confirmed).as_secs())
        .unwrap_or_default();
    let compressed = head.accepts_gzip;
    let not_modified = head.if_none_match.is_some_and(|condition| {
        publication::names(condition, &publication.answer(form, compressed).etag)
    });
    match not_modified {
        true => state.counters.documents_not_modified += 1,
        false => state.counters.documents += 1,
    }
    let ask = Ask {
        slot,
        key,
        form,
        compressed,
        head_only: head.method == Method::Head,
        age_s,
    };
    Ok(Action::Document(Document {
        ask,
        publication,
        not_modified,
    }))
}

/// Answers a request whose body was read.
pub async fn with_body(connection: &Rc<Connection>, wanted: Wanted, body: Vec<u8>) -> Answer {
    let driver = &connection.driver;
    match wanted {
        Wanted::Token => token(driver, &body),
        Wanted::Events { kind, compressed } => {
            // What may be waited for is the disk, not the peer.
            connection.disarm();
            take_events(driver, kind, compressed, body).await
        }
        Wanted::Admin(command) => {
            // What is waited for is the disk, not the peer.
            connection.disarm();
            admin::run(driver, command, body).await
        }
        Wanted::Peer(command) => {
            // What is waited for is the disk, another peer, or news.
            connection.disarm();
            serve::run(driver, command, body).await
        }
    }
}

/// The answer that every SDK wants for events: 202, whatever became of them.
pub fn accepted() -> Answer {
    with_fields(Answer::new(202), &[cors::ANSWER])
}

fn preflight() -> Answer {
    with_fields(Answer::new(204), &cors::PREFLIGHT)
}

fn with_fields(answer: Answer, fields: &[(&'static str, &'static str)]) -> Answer {
    fields
        .iter()
        .fold(answer, |answer, (name, value)| answer.with(name, *value))
}

fn token(driver: &Driver, body: &[u8]) -> Answer {
    let Ok(api_key) = iam::parse_form(body, &driver.limits) else {
        driver.count(|counters| counters.refuse(Reject::MalformedBody));
        return Answer::json(iam::ERROR_STATUS, iam::error_body());
    };
    let mut jti = [0; 16];
    if ring::rand::SystemRandom::new().fill(&mut jti).is_err() {
        return driver.refuse(Reject::Overloaded);
    }
    let mut state = driver.state.borrow_mut();
    let now = driver.clock.now();
    let issued = state.access.exchange(&api_key, now).map(|key| {
        let iat = driver.clock.wall();
        let token = iam::issue(key.secret(), key.id(), iat, &jti);
        iam::answer(&token, iat)
    });
    match issued {
        Ok(answer) => {
            state.counters.tokens += 1;
            Answer::json(200, answer).with("cache-control", "no-store")
        }
        Err(Reject::WrongKey) => {
            state.counters.refuse(Reject::WrongKey);
            Answer::json(iam::ERROR_STATUS, iam::error_body())
        }
        Err(reject) => {
            drop(state);
            driver.refuse(reject)
        }
    }
}

async fn take_events(driver: &Driver, kind: ReportKind, compressed: bool, body: Vec<u8>) -> Answer {
    let inflated = match compressed {
        true => gzip::inflate(&body, driver.limits.inflated_bytes_max).ok(),
        false => Some(body),
    };
    match inflated {
        Some(body) => spool::accept(driver, kind, &body).await,
        None => driver.state.borrow_mut().events.handle_malformed(kind),
    }
    accepted()
}

#[cfg(test)]
mod tests {
    use crate::limits::Limits;
    use crate::net::connection::Door;
    use crate::net::rig::Rig;

    const SUBSCRIBE: &str =
        "/apprapp/feature/v1/instances/g-1/environments/e/sse/subscribe?collection_id=c";

    fn ask(rig: &Rig, door: Door, line: &str, key: &str) -> (String, bool) {
        let request = format!("{line} HTTP/1.1\r\nHost: r\r\nAuthorization: {key}\r\n\r\n");
        rig.exchange(&mut rig.connect(door), request.as_bytes())
    }

    #[test]
    fn a_preflight_is_allowed_whatever_the_request_will_hear() {
        let rig = Rig::new(Limits::PRODUCTION);
        for path in [
            SUBSCRIBE.to_owned(),
            SUBSCRIBE.replace("g-1", "other"),
            format!("{SUBSCRIBE}x"),
        ] {
            for door in [Door::Sdk, Door::Lobby] {
                let (answer, _) = ask(&rig, door, &format!("OPTIONS {path}"), "");
                assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
            }
        }
        let (answer, _) = ask(&rig, Door::Sdk, &format!("GET {SUBSCRIBE}x"), "secret");
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    }

    #[test]
    fn an_event_stream_never_hears_what_passes_by_itself() {
        let rig = Rig::new(Limits::PRODUCTION);
        let get = format!("GET {SUBSCRIBE}");
        let dropped = (String::new(), true);
        assert_eq!(ask(&rig, Door::Lobby, &get, "secret"), dropped);
        assert!(
            ask(&rig, Door::Sdk, &get, "wrong")
                .0
                .starts_with("HTTP/1.1 401 ")
        );
        rig.driver.state.borrow_mut().access.replace(Vec::new(), 1);
        assert_eq!(ask(&rig, Door::Sdk, &get, "wrong"), dropped);
        let socket = "GET /apprapp/wsfeature?instance_id=g-1&collection_id=c&environment_id=e";
        assert!(
            ask(&rig, Door::Sdk, socket, "wrong")
                .0
                .starts_with("HTTP/1.1 503 ")
        );
    }

    #[test]
    fn a_tunnel_over_the_limit_is_told_to_come_back() {
        let rig = Rig::new(Limits::PRODUCTION);
        let connect = "CONNECT iam.cloud.ibm.com:443";
        let (answer, _) = ask(&rig, Door::Lobby, connect, "");
        assert!(
            answer.starts_with("HTTP/1.1 503 ") && answer.contains("retry-after"),
            "{answer}"
        );
        let (answer, _) = ask(&rig, Door::Sdk, "CONNECT example.com:443", "");
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    }
}
