//! Bytes to types and back, pure.
//!
//! Every decoder of the relay lives here: it takes bytes that somebody else read and gives values
//! of our own types, or a [`DecodeError`]. Nothing here waits, reads a clock or panics on input;
//! nothing here decides what the relay does next (that is `state`), and the two rooms know nothing
//! of each other.
//!
//! Read `http` first: it is what stands between a hostile network and everything else.

pub mod affinity;
pub mod cors;
pub mod difference;
pub mod document;
pub mod forward;
pub mod frame;
pub mod gzip;
pub mod http;
pub mod iam;
pub mod ibm;
pub mod journal;
pub mod json;
pub mod keep;
pub mod merge;
pub mod path;
pub mod percent;
pub mod publication;
pub mod push;
pub mod region;
pub mod reject;
pub mod route;
pub mod seed;
pub mod sse;
pub mod status;
pub mod toggle;
pub mod usage;
pub mod websocket;
pub mod x509;

use std::fmt;

/// What is wrong with bytes that a peer sent. Always the peer's fault; counted, answered with a 4xx
/// or a close code, and never logged with its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Not HTTP, or HTTP that different readers could read differently.
    Malformed(&'static str),
    /// A request head over its bound.
    HeadTooLarge(&'static str),
    /// A body, or what it unpacks to, over its bound.
    BodyTooLarge,
    /// Legal and not supported; the status says which.
    Unsupported(u16, &'static str),
}

impl DecodeError {
    /// The HTTP status for it: 400, 413 or 431, or the one that the error itself carries.
    pub const fn status(&self) -> u16 {
        match self {
            DecodeError::Malformed(_) => 400,
            DecodeError::HeadTooLarge(_) => 431,
            DecodeError::BodyTooLarge => 413,
            DecodeError::Unsupported(status, _) => *status,
        }
    }

    /// What was wrong, in words that go into the answer.
    pub const fn what(&self) -> &'static str {
        match self {
            DecodeError::Malformed(what) => what,
            DecodeError::HeadTooLarge(what) => what,
            DecodeError::BodyTooLarge => "body",
            DecodeError::Unsupported(_, what) => what,
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Malformed(what) => write!(formatter, "malformed: {what}"),
            DecodeError::HeadTooLarge(what) => write!(formatter, "too large: {what}"),
            DecodeError::BodyTooLarge => write!(formatter, "too large: body"),
            DecodeError::Unsupported(_, what) => write!(formatter, "not supported: {what}"),
        }
    }
}
