//! The head of an answer: status line and header fields, read strictly.
//!
//! Owns the decision what is an answer at all, and how its content is framed. Refused: bare LF,
//! obsolete folding, a length and a coding, two lengths that differ, a coding other than `chunked`,
//! `101` that nobody asked for, a head over its bound. Interim answers are skipped by the caller,
//! who counts them: [`Head::is_interim`].
//!
//! A field that the relay reads is visible ASCII; what it only passes on may hold any byte that
//! HTTP allows. Never allocates, never copies: a [`Head`] borrows from the buffer that was read.
//!
//! Sources: RFC 9112 6.3 for framing, RFC 9110 10.2.3 for `Retry-After`.

use crate::limits::Limits;
use crate::time::{Duration, Wall};
use crate::wire::DecodeError;

use super::Body;
use super::head::{field_text, parse_length, refuse_bare_line_feeds};

/// Most header fields that the parser's table on the stack holds; `Limits::headers_max` is at most
/// this.
const FIELDS_MAX: usize = 64;

/// What was asked, as far as it decides how the answer is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Content, as `GET` and `POST` do.
    Content,
    /// `HEAD`: fields only, whatever they say of content.
    Head,
    /// Another protocol; 101 is an answer to this only.
    Upgrade,
    /// `CONNECT`: behind a 2xx comes what the tunnel carries.
    Tunnel,
}

/// The status that an answer begins with, whatever follows: None while that is not there.
pub fn status_of(buffer: &[u8]) -> Option<u16> {
    // `HTTP/1.1 200`
    let digits = buffer.strip_prefix(b"HTTP/1.")?.get(2..5)?;
    let digit = |status: u16, digit: &u8| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        Some(status * 10 + u16::from(digit))
    };
    digits.iter().try_fold(0, digit)
}

/// The head of an answer.
#[derive(Clone, Debug)]
pub struct Head<'a> {
    pub status: u16,
    pub body: Body,
    /// The connection can take another request once the body was read.
    pub keeps_alive: bool,
    pub content_type: Option<&'a str>,
    /// `Content-Encoding`, where it is not `identity`.
    pub content_encoding: Option<&'a str>,
    pub etag: Option<&'a str>,
    /// The relays that the content came through.
    pub config_path: Option<&'a str>,
    pub location: Option<&'a str>,
    /// `Sec-WebSocket-Accept`, when the head completes a WebSocket upgrade (RFC 6455 4.1).
    pub websocket_accept: Option<&'a str>,
    retry_after: Option<&'a str>,
    /// Bytes of the head in the buffer, the empty line included.
    pub length: usize,
    raw: &'a [u8],
}

impl<'a> Head<'a> {
    /// Reads the head at the start of `buffer`. `None` means that it is not complete yet.
    ///
    /// Bounded by `answer_head_bytes_max`: a longer head is an error even while it is incomplete.
    pub fn parse(
        buffer: &'a [u8],
        asked: Asked,
        limits: &Limits,
    ) -> Result<Option<Head<'a>>, DecodeError> {
        let window = &buffer[..buffer.len().min(limits.answer_head_bytes_max)];
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let table = &mut fields[..limits.headers_max.min(FIELDS_MAX)];
        let mut response = httparse::Response::new(table);
        let length = match response.parse(window) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => {
                refuse_bare_line_feeds(window)?;
                return match window.len() == limits.answer_head_bytes_max {
                    true => Err(DecodeError::HeadTooLarge("head")),
                    false => Ok(None),
                };
            }
            Err(httparse::Error::TooManyHeaders) => {
                return Err(DecodeError::HeadTooLarge("header fields"));
            }
            Err(_) => return Err(DecodeError::Malformed("not an HTTP answer")),
        };
        let raw = &window[..length];
        refuse_bare_line_feeds(raw)?;
        let (Some(status @ 100..), Some(version)) = (response.code, response.version) else {
            return Err(DecodeError::Malformed("status line"));
        };
        let mut collected = Fields::default();
        for field in response.headers.iter() {
            collected.take(field.name, field.value)?;
        }
        let line = (status, version);
        collected.into_head(line, asked, raw, limits).map(Some)
    }

    /// Whether another answer to the same request follows (RFC 9110 15.2).
    pub const fn is_interim(&self) -> bool {
        self.status < 200 && self.status != 101
    }

    /// Whether the content is JSON, whatever its parameters.
    pub fn is_json(&self) -> bool {
        let essence = self.content_type.and_then(|value| value.split(';').next());
        essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
    }

    /// How long the sender wants to be left alone, in seconds or as a date. `now` counts for dates
    /// only; where the clock was never set, a date says nothing.
    ///
    /// Bounded by `retry_after_max`.
    pub fn retry_after(&self, limits: &Limits, now: Wall) -> Option<Duration> {
        let text = self.retry_after?;
        let wait = match text.bytes().all(|byte| byte.is_ascii_digit()) {
            // More digits than a number has are a long time.
            true => Duration::from_secs(text.parse().unwrap_or(u64::MAX)),
            false => {
                let date = httpdate::parse_http_date(text).ok()?;
                let now = now.is_plausible().then(|| now.to_system())?;
                date.duration_since(now).unwrap_or_default()
            }
        };
        Some(wait.min(limits.retry_after_max))
    }

    /// All fields in their order, as they were sent; the name first.
    pub fn fields(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        let lines = self.raw.split(|byte| *byte == b'\n').skip(1);
        lines.filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let name = std::str::from_utf8(&line[..colon]).ok()?;
            Some((name, line[colon + 1..].trim_ascii()))
        })
    }
}

/// What the header fields say, before it is known whether they agree.
#[derive(Default)]
struct Fields<'a> {
    length: Option<u64>,
    chunked: bool,
    close: bool,
    connection_upgrade: bool,
    upgrade_websocket: bool,
    websocket_accept: Option<&'a str>,
    retry_after: Option<&'a str>,
    content_type: Option<&'a str>,
    content_encoding: Option<&'a str>,
    etag: Option<&'a str>,
    config_path: Option<&'a str>,
    location: Option<&'a str>,
}

impl<'a> Fields<'a> {
    fn take(&mut self, name: &str, value: &'a [u8]) -> Result<(), DecodeError> {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        if is("content-length") {
            let length = parse_length(field_text(value)?)?;
            if self.length.is_some_and(|first| first != length) {
                return Err(DecodeError::Malformed("two Content-Length"));
            }
            self.length = Some(length);
        } else if is("transfer-encoding") {
            if self.chunked || !field_text(value)?.eq_ignore_ascii_case("chunked") {
                return Err(DecodeError::Malformed("transfer coding"));
            }
            self.chunked = true;
        } else if is("connection") {
            for token in field_text(value)?.split(',').map(str::trim) {
                self.close |= token.eq_ignore_ascii_case("close");
                self.connection_upgrade |= token.eq_ignore_ascii_case("upgrade");
            }
        } else if is("content-encoding") {
            let coding = field_text(value)?;
            if self.content_encoding.is_some() {
                return Err(DecodeError::Malformed("two Content-Encoding"));
            }
            self.content_encoding = (!coding.eq_ignore_ascii_case("identity")).then_some(coding);
        } else {
            self.take_hint(name, value);
        }
        Ok(())
    }

    /// Fields that no framing depends on: what cannot be read is as good as absent.
    fn take_hint(&mut self, name: &str, value: &'a [u8]) {
        let place = match name.to_ascii_lowercase().as_str() {
            "content-type" => &mut self.content_type,
            "retry-after" => &mut self.retry_after,
            "etag" => &mut self.etag,
            "x-config-path" => &mut self.config_path,
            "location" => &mut self.location,
            "sec-websocket-accept" => &mut self.websocket_accept,
            "upgrade" => {
                let text = field_text(value).unwrap_or("");
                self.upgrade_websocket = text.eq_ignore_ascii_case("websocket");
                return;
            }
            _ => return,
        };
        *place = field_text(value).ok().filter(|text| !text.is_empty());
    }

    fn into_head(
        self,
        (status, version): (u16, u8),
        asked: Asked,
        raw: &'a [u8],
        limits: &Limits,
    ) -> Result<Head<'a>, DecodeError> {
        if status == 101 && asked != Asked::Upgrade {
            return Err(DecodeError::Malformed("101 that was not asked for"));
        }
        let is_bare = status < 200
            || matches!(status, 204 | 304)
            || asked == Asked::Head
            || (asked == Asked::Tunnel && status < 300);
        let body = match (self.length, self.chunked) {
            (Some(_), true) => return Err(DecodeError::Malformed("length and coding")),
            // What a reader of HTTP/1.0 makes of it, another may not.
            (None, true) if version == 0 => return Err(DecodeError::Malformed("transfer coding")),
            _ if is_bare => Body::empty(),
            (None, true) => Body::chunked_answer(limits),
            (Some(length), false) => Body::sized(length),
            (None, false) => Body::until_close(),
        };
        let upgrade = status == 101 && self.connection_upgrade && self.upgrade_websocket;
        Ok(Head {
            status,
            keeps_alive: version == 1 && !self.close && body != Body::until_close(),
            body,
            content_type: self.content_type,
            content_encoding: self.content_encoding,
            etag: self.etag,
            config_path: self.config_path,
            location: self.location,
            websocket_accept: self.websocket_accept.filter(|_| upgrade),
            retry_after: self.retry_after,
            length: raw.len(),
            raw,
        })
    }
}

#[cfg(test)]
mod tests;
