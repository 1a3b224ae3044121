//! What a proxy changes in heads on their way through.
//!
//! Owns which fields go on: none that belong to one connection (RFC 9110 7.6.1, the fields that
//! `Connection` names, and YARP's own list), none that tell of the way but ours. Framing is never
//! copied: a request goes on with the length or coding that was understood here, an answer with
//! the one that [`Framing`] says, so that two readers cannot part a message differently.
//!
//! `X-Forwarded-*` are set, not extended, as YARP does: what a client claims about the way is
//! dropped, and so is what only relays of one cluster say to each other (`region::peer`). `Expect`
//! stays here: the relay answers 100 by itself once it wants the content, and drops the
//! destination's own 1xx but 101. Trailers are refused with 501 where a request announces them;
//! those of an answer are dropped, which RFC 9110 6.5.1 allows.

use super::DecodeError;
use super::http::{Head, Method, Target};
use super::region::peer;
use crate::model::proxy::Address;

/// The end of content in chunks.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
/// What a client with `Expect` is told once its content is wanted.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// What the relay calls itself in `Via`.
const VIA: &str = "via: 1.1 staffetta\r\n";

/// Fields of one connection; names in lower case. Those of YARP's list that are fields of requests
/// or answers at all; `host`, lengths and codings are written anew.
const HOP_BY_HOP: [&str; 18] = [
    "alpn",
    "alt-svc",
    "close",
    "connection",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "proxy-features",
    "proxy-instruction",
    "security-scheme",
    "te",
    "trailer",
    "transfer-encoding",
    "content-length",
    "upgrade",
];

/// Fields of a request that are written anew, or answered here.
const REWRITTEN: [&str; 5] = [
    "expect",
    "forwarded",
    "host",
    "upgrade-insecure-requests",
    "x-forwarded-prefix",
];

/// Fields of a request that tell of its client, and are written anew too.
const WAY: [&str; 3] = ["x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"];

/// Where a request goes on to, and where it came from.
#[derive(Clone, Copy, Debug)]
pub struct Onward<'a> {
    pub address: &'a Address,
    /// What `Host` says there, if not the address.
    pub host: Option<&'a str>,
    /// The client's IP address as text; `None` on a Unix socket.
    pub client: Option<&'a str>,
    pub is_tls: bool,
    pub hop: Hop<'a>,
}

/// Between whom a request goes on.
#[derive(Clone, Copy, Debug)]
pub enum Hop<'a> {
    /// From a client to a server.
    Server,
    /// From a client to another node, which is told this. It sees the client's `Authorization`
    /// under another name, since its own holds the peer key.
    ToPeer(&'a [(&'static str, String)]),
    /// From another node to a server: as the client has sent it there.
    FromPeer,
}

impl Hop<'_> {
    /// What a field is called behind the relay; `None` = it stays here.
    fn name(self, name: &str) -> Option<&str> {
        let is = |own: &str| name.eq_ignore_ascii_case(own);
        let is_rewritten = REWRITTEN.iter().any(|own| is(own));
        let is_way = WAY.iter().any(|own| is(own));
        match self {
            Hop::ToPeer(_) if is("authorization") => Some(peer::AUTHORIZATION),
            Hop::FromPeer if is(peer::AUTHORIZATION) => Some("authorization"),
            Hop::FromPeer if is("authorization") => None,
            // What the node before has said of its client's way still holds.
            Hop::FromPeer if is_way => Some(name),
            _ => (!is_rewritten && !is_way && !peer::is_reserved(name)).then_some(name),
        }
    }
}

/// The fields of a head that [`Head::parse`] has taken: names and values, in order.
///
/// Bounded by the length of the head.
pub fn fields(head: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    let text = std::str::from_utf8(head).unwrap_or_default();
    let lines = text.trim_start_matches("\r\n").split("\r\n").skip(1);
    lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((name, value.trim_matches([' ', '\t'])))
    })
}

/// The head that goes to the destination. `raw` begins with the head that `head` was read from.
///
/// Errors: 501 for announced trailers, which would not arrive. Bounded by the length of the head.
pub fn request(raw: &[u8], head: &Head<'_>, onward: Onward<'_>) -> Result<Vec<u8>, DecodeError> {
    let raw = raw.get(..head.length).unwrap_or(raw);
    let named = connection_names(fields(raw));
    let mut out = Vec::with_capacity(raw.len() + 256);
    let target = match head.target {
        Target::Path(path) => path,
        Target::Authority(_) => return Err(DecodeError::Unsupported(501, "method")),
    };
    let method = http_types::Method::from(head.method);
    push(
        &mut out,
        &[
            method.as_ref(),
            " ",
            &onward.address.path,
            target,
            " HTTP/1.1\r\n",
        ],
    );
    let authority = onward.address.authority();
    push(
        &mut out,
        &["host: ", onward.host.unwrap_or(&authority), "\r\n"],
    );
    for (name, value) in fields(raw) {
        if name.eq_ignore_ascii_case("trailer") {
            return Err(DecodeError::Unsupported(501, "trailers"));
        }
        if let Some(kept) = onward.hop.name(name).filter(|_| goes_on(name, &named)) {
            push(&mut out, &[kept, ": ", value, "\r\n"]);
        }
    }
    push_way(&mut out, head, onward);
    push_request_framing(&mut out, head);
    out.extend_from_slice(b"\r\n");
    Ok(out)
}

fn push_way(out: &mut Vec<u8>, head: &Head<'_>, onward: Onward<'_>) {
    if !matches!(onward.hop, Hop::FromPeer) {
        if let Some(client) = onward.client {
            push(out, &["x-forwarded-for: ", client, "\r\n"]);
        }
        let scheme = if onward.is_tls { "https" } else { "http" };
        push(out, &["x-forwarded-proto: ", scheme, "\r\n"]);
        push(out, &["x-forwarded-host: ", head.host, "\r\n"]);
    }
    match onward.hop {
        Hop::ToPeer(told) => {
            for (name, value) in told {
                push(out, &[name, ": ", value, "\r\n"]);
            }
        }
        Hop::Server | Hop::FromPeer => push(out, &[VIA]),
    }
}

fn push_request_framing(out: &mut Vec<u8>, head: &Head<'_>) {
    if head.websocket_key.is_some() {
        push(out, &["connection: upgrade\r\nupgrade: websocket\r\n"]);
    }
    let takes_content = matches!(head.method, Method::Post | Method::Put | Method::Patch);
    match head.body.remaining() {
        None => push(out, &["transfer-encoding: chunked\r\n"]),
        Some(0) if !takes_content => {}
        Some(length) => push(out, &["content-length: ", &length.to_string(), "\r\n"]),
    }
}

/// How the content of an answer reaches the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is none; the length, if any, tells of what a GET would get (HEAD, 304).
    Absent(Option<u64>),
    Length(u64),
    Chunked,
    /// 101: what follows is not HTTP.
    Tunnel,
}

impl Framing {
    /// What an answer of `status` to `method` has, when the destination announced `length` or
    /// chunks, or neither: then its content ends with its connection, and the client's must not.
    ///
    /// Source: RFC 9112 6.3.
    pub fn of(method: Method, status: u16, length: Option<u64>) -> Framing {
        match (status, length) {
            (101, _) => Framing::Tunnel,
            (100..=199 | 204, _) => Framing::Absent(None),
            (304, length) => Framing::Absent(length),
            (_, length) if method == Method::Head => Framing::Absent(length),
            (_, Some(length)) => Framing::Length(length),
            (_, None) => Framing::Chunked,
        }
    }
}

/// What the relay adds to an answer.
#[derive(Clone, Copy, Debug)]
pub struct Added<'a> {
    /// The value of `Set-Cookie` that binds the client, behind those of the destination.
    pub set_cookie: Option<&'a str>,
    /// The value of `Date`, for a destination that has no clock.
    pub date: &'a str,
    /// The connection ends after this answer.
    pub close: bool,
}

/// The head that goes to the client, from the fields of the destination's answer.
///
/// Errors: a field that cannot be sent on is the destination's fault; the client gets 502. Bounded
/// by the length of the fields.
pub fn response<'a, I>(
    status: u16,
    fields: I,
    framing: Framing,
    added: Added<'_>,
) -> Result<Vec<u8>, DecodeError>
where
    I: Iterator<Item = (&'a str, &'a [u8])> + Clone,
{
    let text = |(name, value): (&'a str, &'a [u8])| {
        let value = std::str::from_utf8(value).unwrap_or_default();
        (name, value)
    };
    let named = connection_names(fields.clone().map(text));
    let mut out = Vec::with_capacity(512);
    let reason = http_types::StatusCode::try_from(status);
    let reason = reason.map_or("", |status| status.canonical_reason());
    push(
        &mut out,
        &["HTTP/1.1 ", &status.to_string(), " ", reason, "\r\n"],
    );
    let mut has_date = false;
    for (name, value) in fields {
        let is_sendable = !value.iter().any(|byte| b"\r\n\0".contains(byte))
            && !name.is_empty()
            && name.bytes().all(super::affinity::cookie::is_token);
        if !is_sendable {
            return Err(DecodeError::Malformed("field of the answer"));
        }
        has_date |= name.eq_ignore_ascii_case("date");
        if goes_on(name, &named) {
            push(&mut out, &[name, ": "]);
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
    }
    if !has_date {
        push(&mut out, &["date: ", added.date, "\r\n"]);
    }
    push(&mut out, &[VIA]);
    if let Some(set_cookie) = added.set_cookie {
        push(&mut out, &["set-cookie: ", set_cookie, "\r\n"]);
    }
    match framing {
        Framing::Tunnel => push(&mut out, &["connection: upgrade\r\nupgrade: websocket\r\n"]),
        Framing::Chunked => push(&mut out, &["transfer-encoding: chunked\r\n"]),
        Framing::Length(length) | Framing::Absent(Some(length)) => {
            push(&mut out, &["content-length: ", &length.to_string(), "\r\n"]);
        }
        Framing::Absent(None) => {}
    }
    if added.close && framing != Framing::Tunnel {
        push(&mut out, &["connection: close\r\n"]);
    }
    out.extend_from_slice(b"\r\n");
    Ok(out)
}

/// What goes in front of `length` bytes of a chunk; behind them goes a line end.
pub fn chunk_line(length: usize) -> String {
    format!("{length:x}\r\n")
}

fn goes_on(name: &str, named: &[&str]) -> bool {
    let is = |own: &&str| name.eq_ignore_ascii_case(own);
    !HOP_BY_HOP.iter().any(is) && !named.iter().any(is)
}

/// The fields that a message's `Connection` names as belonging to the connection.
fn connection_names<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<&'a str> {
    let lists = fields.filter(|(name, _)| name.eq_ignore_ascii_case("connection"));
    let names = lists.flat_map(|(_, list)| list.split(',').map(str::trim));
    names.filter(|name| !name.is_empty()).collect()
}

fn push(out: &mut Vec<u8>, parts: &[&str]) {
    for part in parts {
        out.extend_from_slice(part.as_bytes());
    }
}

#[cfg(test)]
mod tests;
