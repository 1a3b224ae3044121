//! A request on its way to somebody, before anybody has it, and its content from then on.
//!
//! Owns what is taken out of a head: what decides about the answer, the cookie of the cluster, how
//! the content is read. Of the content it holds what came with the head, checked as it is read, so
//! that what cannot be read reaches nobody.
//!
//! Never sends anything: that is `exchange`'s.

use crate::net::connection::Connection;
use crate::time::Instant;
use crate::wire::DecodeError;
use crate::wire::affinity::cookie;
use crate::wire::forward;
use crate::wire::http::response::Answer;
use crate::wire::http::{Body, Head, Method};

use super::Call;
use super::forward::Served;
use super::rest::Rest;

/// What of a request decides about its answer.
#[derive(Clone, Copy, Debug)]
pub struct Outline {
    pub method: Method,
    pub is_upgrade: bool,
    /// The client's connection ends after the answer.
    pub close: bool,
}

/// The content of a request on its way.
pub struct Content {
    body: Body,
    is_chunked: bool,
}

impl Content {
    /// The content that `body` says how to read; it goes on framed as it came.
    pub fn new(body: Body) -> Content {
        Content {
            is_chunked: body.remaining().is_none(),
            body,
        }
    }

    /// Whether all of it was read.
    pub fn is_read(&self) -> bool {
        self.body.is_end()
    }

    /// Moves what `buffer` has of it to `up`. Answers whether there was anything. Bounded by the
    /// length of `buffer`.
    pub fn take(
        &mut self,
        buffer: &mut Vec<u8>,
        up: &mut Rest,
        connection: &Connection,
    ) -> Result<bool, DecodeError> {
        if self.body.is_end() {
            return Ok(false);
        }
        let is_chunked = self.is_chunked;
        let limits = &connection.driver.limits;
        let consumed = self.body.decode_all(buffer, limits, |bytes| {
            match is_chunked {
                true => up.push_chunk(bytes),
                false => up.push(bytes),
            }
            Ok(())
        })?;
        buffer.drain(..consumed);
        if self.body.is_end() && is_chunked {
            up.push(forward::LAST_CHUNK);
        }
        Ok(consumed > 0)
    }
}

/// What a head says, beside what goes on.
pub struct Taken {
    pub outline: Outline,
    pub content: Content,
    pub expects_continue: bool,
}

/// A request that nobody has yet.
pub struct Request {
    /// Its own bytes.
    pub head: Vec<u8>,
    pub taken: Taken,
    pub cookie: Option<String>,
    /// Of the content, what is here already.
    pub up: Rest,
    pub began: Instant,
}

impl Request {
    /// Takes a head that was read before, and the cookie that came with it.
    ///
    /// # Errors
    /// It is no head after all.
    pub fn read(
        raw: Vec<u8>,
        call: &Call,
        connection: &Connection,
        close: bool,
    ) -> Result<Request, DecodeError> {
        let head = Head::parse(&raw, &connection.driver.limits)?;
        let head = head.ok_or(DecodeError::Malformed("request head"))?;
        let cookie = call.affinity().and_then(|affinity| {
            let fields = forward::fields(&raw);
            let lines = fields.filter(|(name, _)| name.eq_ignore_ascii_case("cookie"));
            let value = cookie::read(lines.map(|(_, line)| line), &affinity.cookie_name)?;
            Some(value.into_owned())
        });
        let taken = Taken {
            outline: Outline {
                method: head.method,
                is_upgrade: head.websocket_key.is_some(),
                close,
            },
            content: Content::new(head.body.clone()),
            expects_continue: head.expects_continue,
        };
        Ok(Request {
            taken,
            cookie,
            up: Rest::default(),
            began: connection.driver.clock.now(),
            head: raw,
        })
    }

    /// Whether its client sends no content until it is asked for it.
    pub fn is_awaited(&self) -> bool {
        self.taken.expects_continue && self.up.is_empty() && !self.taken.content.is_read()
    }

    /// An answer of the relay's own.
    pub fn own(&self, answer: Answer) -> Served {
        Served::Answer {
            answer,
            is_whole: self.taken.content.is_read(),
        }
    }

    /// What an exchange is made of, behind the head.
    pub fn into_parts(self) -> (Outline, Content, Rest) {
        (self.taken.outline, self.taken.content, self.up)
    }
}
