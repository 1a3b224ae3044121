//! The head of a request: request line and header fields, read strictly.
//!
//! Owns the decision what is a request at all. Refused with 400: bare LF, obsolete folding, white
//! space before a colon, bytes outside visible ASCII, `Host` missing, doubled or odd, two lengths,
//! a length and a coding, a length that is not plain digits. With 431: a head over its bound. With
//! 501: a method or transfer coding that is not ours. With 505: another version than 1.1, except
//! for `CONNECT`, which a Python client sends as HTTP/1.0 without a `Host`.
//!
//! Never allocates, never copies: a [`Head`] borrows from the buffer that was read.

use crate::limits::Limits;
use crate::wire::DecodeError;

use super::Body;

/// Most header fields that the parser's table on the stack holds; `Limits::headers_max` is at most
/// this.
const FIELDS_MAX: usize = 64;

/// Methods that the relay knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Patch,
    Options,
    Connect,
}

impl Method {
    fn parse(text: &str) -> Option<Method> {
        Some(match text {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "POST" => Method::Post,
            "PUT" => Method::Put,
            "DELETE" => Method::Delete,
            "PATCH" => Method::Patch,
            "OPTIONS" => Method::Options,
            "CONNECT" => Method::Connect,
            _ => return None,
        })
    }
}

/// What the request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// Path and query; of an absolute-form target, the part behind the authority.
    Path(&'a str),
    /// `host:port` of a `CONNECT`.
    Authority(&'a str),
}

/// A request head. Text is visible ASCII throughout.
#[derive(Clone, Debug)]
pub struct Head<'a> {
    pub method: Method,
    pub target: Target<'a>,
    /// The value of `Host`; empty only for `CONNECT`.
    pub host: &'a str,
    pub body: Body,
    /// `Expect: 100-continue` was sent.
    pub expects_continue: bool,
    /// The connection ends after the answer.
    pub close: bool,
    /// `Sec-WebSocket-Key`, when the head is a complete WebSocket upgrade (RFC 6455 4.2.1).
    pub websocket_key: Option<&'a str>,
    pub authorization: Option<&'a str>,
    pub user_agent: &'a str,
    /// `gzip` was offered in `Accept-Encoding` with a weight above zero.
    pub accepts_gzip: bool,
    pub if_match: Option<&'a str>,
    pub if_none_match: Option<&'a str>,
    /// `Idempotency-Key`: the name of a push.
    pub idempotency_key: Option<&'a str>,
    /// `X-Relay-No-Forward: 1`: a write that is not to be sent on to another relay.
    pub stays_here: bool,
    /// The body's `Content-Encoding`, where it is not `identity`.
    pub content_encoding: Option<&'a str>,
    /// Bytes of the head in the buffer, the empty line included.
    pub length: usize,
    /// All of them, for what only some requests are asked about (`wire::forward::fields`).
    pub raw: &'a [u8],
}

impl<'a> Head<'a> {
    /// Reads the head at the start of `buffer`. `None` means that it is not complete yet.
    ///
    /// Bounded by `head_bytes_max`: a longer head is an error even while it is incomplete.
    pub fn parse(buffer: &'a [u8], limits: &Limits) -> Result<Option<Head<'a>>, DecodeError> {
        let window = &buffer[..buffer.len().min(limits.head_bytes_max)];
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let table = &mut fields[..limits.headers_max.min(FIELDS_MAX)];
        let mut request = httparse::Request::new(table);
        let parsed = request.parse(window);
        // The parser takes a bare LF. Where the head ends is its word: a body may hold any byte.
        match parsed {
            Ok(httparse::Status::Complete(length)) => refuse_bare_line_feeds(&window[..length])?,
            Ok(httparse::Status::Partial) => refuse_bare_line_feeds(window)?,
            Err(_) => {}
        }
        let length = match parsed {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if window.len() == limits.head_bytes_max => {
                return Err(DecodeError::HeadTooLarge("head"));
            }
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => {
                return Err(DecodeError::HeadTooLarge("header fields"));
            }
            Err(httparse::Error::Version) => {
                return Err(DecodeError::Unsupported(505, "HTTP version"));
            }
            Err(_) => return Err(DecodeError::Malformed("request head")),
        };
        let line = (request.method, request.path, request.version);
        let (Some(method), Some(target), Some(version)) = line else {
            return Err(DecodeError::Malformed("request line"));
        };
        let method = Method::parse(method).ok_or(DecodeError::Unsupported(501, "method"))?;
        if version != 1 && method != Method::Connect {
            return Err(DecodeError::Unsupported(505, "HTTP version"));
        }
        let target = parse_target(method, target)?;
        let mut collected = Fields::default();
        for field in request.headers.iter() {
            collected.take(field.name, field_text(field.value)?)?;
        }
        collected
            .into_head(method, target, &window[..length])
            .map(Some)
    }
}

/// A line ends in CR LF; a parser that also took LF would see other heads than the next one.
pub(super) fn refuse_bare_line_feeds(head: &[u8]) -> Result<(), DecodeError> {
    let mut previous = 0;
    for &byte in head {
        if byte == b'\n' && previous != b'\r' {
            return Err(DecodeError::Malformed("bare line feed"));
        }
        previous = byte;
    }
    Ok(())
}

pub(super) fn field_text(value: &[u8]) -> Result<&str, DecodeError> {
    let legal = |&byte: &u8| byte == b'\t' || (0x20..0x7f).contains(&byte);
    if !value.iter().all(legal) {
        return Err(DecodeError::Malformed("header value outside ASCII"));
    }
    let text = std::str::from_utf8(value);
    let text = text.map_err(|_| DecodeError::Malformed("header value"))?;
    Ok(text.trim_matches([' ', '\t']))
}

fn parse_target(method: Method, target: &str) -> Result<Target<'_>, DecodeError> {
    let legal = |byte: u8| (0x21..0x7f).contains(&byte) && byte != b'#';
    if !target.bytes().all(legal) {
        return Err(DecodeError::Malformed("target"));
    }
    if method == Method::Connect {
        let authority = is_authority(target) && target.contains(':');
        return match authority {
            true => Ok(Target::Authority(target)),
            false => Err(DecodeError::Malformed("CONNECT takes host:port")),
        };
    }
    if target.starts_with('/') {
        return Ok(Target::Path(target));
    }
    let scheme = ["http://", "https://"].iter().find(|scheme| {
        let start = target.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    });
    let Some(scheme) = scheme else {
        return Err(DecodeError::Malformed("target"));
    };
    let rest = &target[scheme.len()..];
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    if !is_authority(&rest[..end]) {
        return Err(DecodeError::Malformed("target"));
    }
    match &rest[end..] {
        "" => Ok(Target::Path("/")),
        path if path.starts_with('/') => Ok(Target::Path(path)),
        _ => Err(DecodeError::Malformed("target")),
    }
}

/// A host with an optional port. No user information: it would hide the host from a reader.
fn is_authority(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte);
    !text.is_empty() && text.bytes().all(legal)
}

/// What the header fields say, before it is known whether they agree.
#[derive(Default)]
struct Fields<'a> {
    host: Option<&'a str>,
    length: Option<u64>,
    chunked: bool,
    expects_continue: bool,
    close: bool,
    connection_upgrade: bool,
    upgrade_websocket: bool,
    websocket_key: Option<&'a str>,
    websocket_version_13: bool,
    authorization: Option<&'a str>,
    user_agent: &'a str,
    accepts_gzip: bool,
    if_match: Option<&'a str>,
    if_none_match: Option<&'a str>,
    idempotency_key: Option<&'a str>,
    stays_here: bool,
    content_encoding: Option<&'a str>,
}

impl<'a> Fields<'a> {
    fn take(&mut self, name: &str, value: &'a str) -> Result<(), DecodeError> {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        if is("host") {
            if self.host.replace(value).is_some() || !is_authority(value) {
                return Err(DecodeError::Malformed("Host"));
            }
        } else if is("content-length") {
            let length = parse_length(value)?;
            if self.length.replace(length).is_some() {
                return Err(DecodeError::Malformed("two Content-Length"));
            }
        } else if is("transfer-encoding") {
            if self.chunked || !value.eq_ignore_ascii_case("chunked") {
                return Err(DecodeError::Unsupported(501, "transfer coding"));
            }
            self.chunked = true;
        } else if is("expect") {
            if !value.eq_ignore_ascii_case("100-continue") {
                return Err(DecodeError::Unsupported(417, "expectation"));
            }
            self.expects_continue = true;
        } else if is("connection") {
            for token in value.split(',').map(str::trim) {
                self.close |= token.eq_ignore_ascii_case("close");
                self.connection_upgrade |= token.eq_ignore_ascii_case("upgrade");
            }
        } else if is("authorization") {
            if self.authorization.replace(value).is_some() {
                return Err(DecodeError::Malformed("two Authorization"));
            }
        } else if is("if-match") {
            // What is overwritten depends on it.
            if self.if_match.replace(value).is_some() {
                return Err(DecodeError::Malformed("two If-Match"));
            }
        } else {
            self.take_hint(name, value);
        }
        Ok(())
    }

    /// Fields that no framing and no access depends on: what cannot be read is as good as absent.
    fn take_hint(&mut self, name: &str, value: &'a str) {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        if is("upgrade") {
            self.upgrade_websocket = value.eq_ignore_ascii_case("websocket");
        } else if is("sec-websocket-key") {
            self.websocket_key = Some(value);
        } else if is("sec-websocket-version") {
            self.websocket_version_13 = value == "13";
        } else if is("user-agent") {
            self.user_agent = value;
        } else if is("accept-encoding") {
            self.accepts_gzip |= offers_gzip(value);
        } else if is("if-none-match") {
            self.if_none_match = Some(value);
        } else if is("idempotency-key") {
            self.idempotency_key = Some(value);
        } else if is("x-relay-no-forward") {
            self.stays_here |= value == "1";
        } else if is("content-encoding") {
            self.content_encoding = (!value.eq_ignore_ascii_case("identity")).then_some(value);
        }
    }

    fn into_head(
        self,
        method: Method,
        target: Target<'a>,
        raw: &'a [u8],
    ) -> Result<Head<'a>, DecodeError> {
        let body = match (self.length, self.chunked) {
            (Some(_), true) => return Err(DecodeError::Malformed("length and coding")),
            (_, true) => Body::chunked(),
            (None | Some(0), false) => Body::empty(),
            (Some(length), false) => Body::sized(length),
        };
        let host = match self.host {
            Some(host) => host,
            None if method == Method::Connect => "",
            None => return Err(DecodeError::Malformed("no Host")),
        };
        let upgrade = self.connection_upgrade && self.upgrade_websocket;
        let complete = upgrade && self.websocket_version_13 && method == Method::Get;
        let websocket_key = self.websocket_key.filter(|key| complete && key.len() == 24);
        Ok(Head {
            method,
            target,
            host,
            body,
            expects_continue: self.expects_continue,
            close: self.close,
            websocket_key,
            authorization: self.authorization,
            user_agent: self.user_agent,
            accepts_gzip: self.accepts_gzip,
            if_match: self.if_match,
            if_none_match: self.if_none_match,
            idempotency_key: self.idempotency_key,
            stays_here: self.stays_here,
            content_encoding: self.content_encoding,
            length: raw.len(),
            raw,
        })
    }
}

/// Plain digits only: no sign, no list, no more than any body could have.
pub(super) fn parse_length(value: &str) -> Result<u64, DecodeError> {
    let digits = (1..=18).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_digit());
    let length = if digits { value.parse().ok() } else { None };
    length.ok_or(DecodeError::Malformed("Content-Length"))
}

/// Whether a list of codings offers gzip (RFC 9110 12.5.3): `gzip`, `x-gzip` or `*`, weight above
/// 0.
fn offers_gzip(value: &str) -> bool {
    let mut any = false;
    for coding in value.split(',') {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or("");
        let refused = parts.any(|part| {
            let weight = part.strip_prefix("q=").or_else(|| part.strip_prefix("Q="));
            weight.is_some_and(|weight| weight.bytes().all(|byte| b"0.".contains(&byte)))
        });
        if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") {
            return !refused;
        }
        any |= name == "*" && !refused;
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &[u8]) -> Result<Option<Head<'_>>, DecodeError> {
        Head::parse(text, &Limits::PRODUCTION)
    }

    fn status(text: &[u8]) -> u16 {
        parse(text)
            .expect_err(&String::from_utf8_lossy(text))
            .status()
    }

    #[test]
    fn an_ordinary_head_is_read_and_the_rest_left_alone() {
        let text = b"GET /a?b=c HTTP/1.1\r\nHost: relay:7070\r\nAccept-Encoding: gzip, deflate\r\n\
            Authorization: Bearer x\r\nConnection: keep-alive\r\n\r\nrest\n";
        let head = parse(text).unwrap().unwrap();
        assert_eq!(head.target, Target::Path("/a?b=c"));
        assert_eq!(head.authorization, Some("Bearer x"));
        assert!(head.accepts_gzip && !head.close && head.body.is_end());
        assert_eq!(&text[head.length..], b"rest\n");
    }

    #[test]
    fn every_prefix_of_a_head_is_incomplete_and_never_an_error() {
        let text = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n";
        for end in 0..text.len() {
            assert!(parse(&text[..end]).unwrap().is_none(), "at {end}");
        }
        assert!(parse(text).unwrap().is_some());
    }

    #[test]
    fn ambiguous_heads_are_refused() {
        for (text, want) in [
            (&b"GET /a HTTP/1.1\nHost: a\n\n"[..], 400),
            (b"GET /a HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", 400),
            (b"\r\n\r\nGET /a HTTP/1.1\nHost: a\n\n", 400),
            (b"\r\n\r\nGET /a HTTP/1.1\nHo", 400),
            (b"GET /a HTTP/1.1\r\nHost: a\r\nX: \xc3\xa9\r\n\r\n", 400),
            (b"GET /a HTTP/1.1\r\nHost: a\r\nX: y\r\n folded\r\n\r\n", 400),
            (b"GET /a HTTP/1.1\r\nHost : a\r\n\r\n", 400),
            (b"GET /a HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n", 400),
            (b"GET /a HTTP/1.1\r\n\r\n", 400),
            (b"GET /a HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
            (b"GET /a HTTP/1.1\r\nHost: u@evil/x?#\r\n\r\n", 400),
            (b"GET /a HTTP/1.1\r\nHost:\r\n\r\n", 400),
            (b"GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            (b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            (b"GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            (b"GET /a HTTP/1.0\r\nHost: a\r\n\r\n", 505),
            (b"GET /a HTTP/2.0\r\nHost: a\r\n\r\n", 505),
            (b"BREW /a HTTP/1.1\r\nHost: a\r\n\r\n", 501),
            (b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
            (b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\n", 400),
            (b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\n", 400),
            (b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: -3\r\n\r\n", 400),
            (b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", 400),
            (b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            (b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
            (b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", 501),
            (b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n", 501),
            (b"POST /a HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n", 417),
        ] {
            assert_eq!(status(text), want, "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn heads_over_their_bound_are_refused_even_without_an_end() {
        let mut text = b"GET /a HTTP/1.1\r\nHost: a\r\nX: ".to_vec();
        text.resize(8 * 1024, b'x');
        assert_eq!(status(&text), 431);
        let many: String = (0..65).map(|n| format!("X{n}: y\r\n")).collect();
        assert_eq!(
            status(format!("GET / HTTP/1.1\r\n{many}\r\n").as_bytes()),
            431
        );
    }

    #[test]
    fn connect_may_be_old_and_without_a_host() {
        let head = parse(b"CONNECT iam.cloud.ibm.com:443 HTTP/1.0\r\n\r\n")
            .unwrap()
            .unwrap();
        assert_eq!(head.target, Target::Authority("iam.cloud.ibm.com:443"));
        assert_eq!(status(b"CONNECT /a HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    }

    #[test]
    fn absolute_targets_lose_their_authority() {
        let head = parse(b"GET HTTP://relay:1/x?y HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap()
            .unwrap();
        assert_eq!(head.target, Target::Path("/x?y"));
        let head = parse(b"GET http://relay HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap()
            .unwrap();
        assert_eq!(head.target, Target::Path("/"));
    }

    #[test]
    fn an_upgrade_counts_only_when_complete() {
        let whole = "GET /w HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        assert!(
            parse(whole.as_bytes())
                .unwrap()
                .unwrap()
                .websocket_key
                .is_some()
        );
        for part in [
            "Upgrade: websocket\r\n",
            "Sec-WebSocket-Version: 13\r\n",
            ": Upgrade",
        ] {
            let less = whole.replacen(part, if part.starts_with(':') { ": close" } else { "" }, 1);
            assert!(
                parse(less.as_bytes())
                    .unwrap()
                    .unwrap()
                    .websocket_key
                    .is_none(),
                "{part}"
            );
        }
    }

    #[test]
    fn close_is_found_among_other_tokens() {
        let head = parse(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: TE, Close\r\n\r\n");
        assert!(head.unwrap().unwrap().close);
    }

    #[test]
    fn gzip_is_taken_only_where_it_is_offered() {
        for (value, want) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("*", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000, *", false),
            ("identity", false),
            ("br, *;q=0", false),
        ] {
            assert_eq!(offers_gzip(value), want, "{value}");
        }
    }
}
