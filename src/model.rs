//! The nouns that every room shares.
//!
//! `state` and `wire` know nothing of each other; what passes between them is declared here: which
//! slot, which version of which snapshot, where it came from, and why something was turned away.
//! No rules live here, except what makes a value of one of these types valid.

pub mod casing;
pub mod proxy;
pub mod region;
pub mod report;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An identifier of the service: collection, environment, feature, property or segment.
///
/// Source: the service's own rule for ids (letters, digits, `.`, `-`, `_`). SDKs paste ids into
/// URLs without escaping them, so anything wider would not arrive.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(Box<str>);

impl Id {
    /// Longest id, in bytes. The service's ids are far shorter; the bound keeps paths and logs
    /// small.
    pub const LENGTH_MAX: usize = 128;

    /// Takes `text` if it is an id.
    pub fn new(text: &str) -> Option<Id> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        let fits = (1..=Id::LENGTH_MAX).contains(&text.len());
        (fits && text.bytes().all(legal)).then(|| Id(text.into()))
    }

    /// A made-up id: `bits` in hex, always 16 digits.
    pub fn from_bits(bits: u64) -> Id {
        Id(format!("{bits:016x}").into())
    }

    /// The id as it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The name of a slot: one collection in one environment, the unit that is cached and fanned out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotKey {
    pub collection: Id,
    pub environment: Id,
}

impl SlotKey {
    /// Reads `collection/environment`.
    pub fn parse(text: &str) -> Option<SlotKey> {
        let (collection, environment) = text.split_once('/')?;
        Some(SlotKey {
            collection: Id::new(collection)?,
            environment: Id::new(environment)?,
        })
    }
}

impl fmt::Display for SlotKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.collection, self.environment)
    }
}

/// Position of a slot in the configuration; stable for the life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotIndex(pub u16);

/// Position of a client key in the table of keys of this process; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyIndex(pub u32);

/// Counts the snapshots that a slot has published since the process started, from 1.
///
/// Not a revision of the content: two relays give the same document different versions. What is
/// comparable between processes is the [`Digest`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// SHA-256 over the canonical content of a document: equal for documents that differ in key order
/// or white space only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0 {
            write!(formatter, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// Where a snapshot came from; the value of `X-Config-Source`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The seed file.
    Seed,
    /// The last known good document, from the state folder.
    Cache,
    /// The upstream that is asked first.
    Primary,
    /// The upstream that stands in for it.
    Backup,
    /// Somebody on site, by a push.
    Operator,
}

impl Source {
    /// All of them, in the order of their declaration.
    pub const ALL: [Source; 5] = [
        Source::Seed,
        Source::Cache,
        Source::Primary,
        Source::Backup,
        Source::Operator,
    ];

    /// As it is written in headers, status and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Source::Seed => "seed",
            Source::Cache => "cache",
            Source::Primary => "primary",
            Source::Backup => "backup",
            Source::Operator => "operator",
        }
    }

    /// The source that is written so.
    pub fn parse(text: &str) -> Option<Source> {
        Source::ALL
            .into_iter()
            .find(|source| source.as_str() == text)
    }
}

/// How far the content of an operator's slot has come: the term of whoever may write it, and how
/// often it has changed. Compared in that order; 0-0 is before all content.
///
/// Without regions there is one term, 0. Unlike a [`Version`], a revision survives a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision {
    pub epoch: u64,
    pub seq: u64,
}

impl Revision {
    /// The one that the next change makes.
    pub fn next(self) -> Revision {
        Revision {
            seq: self.seq.saturating_add(1),
            ..self
        }
    }

    /// Reads `epoch-seq`: two numbers as they are printed.
    pub fn parse(text: &str) -> Option<Revision> {
        let number = |text: &str| {
            let is_plain = text == "0" || !text.starts_with('0');
            let is_plain = is_plain && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| is_plain)
        };
        let (epoch, seq) = text.split_once('-')?;
        Some(Revision {
            epoch: number(epoch)?,
            seq: number(seq)?,
        })
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.epoch, self.seq)
    }
}

/// What a slot has adopted and which seeds it was offered, the oldest first: how its memory is kept
/// across a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// Content, and the source that first brought it; never the state folder.
    pub adopted: Vec<(Digest, Source)>,
    /// Content of seeds, adopted or not.
    pub seeds: Vec<Digest>,
    /// 0-0 for a slot that was never the operator's.
    pub revision: Revision,
    /// What the term of `revision` was built on; 0-0 without regions.
    pub parent: Revision,
    /// What the clock said at the last push, in seconds since 1970; `None` while there was none.
    pub pushed_unix_s: Option<u64>,
}

/// Which of the two upstreams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Primary,
    Backup,
}

impl Role {
    /// Both, in the order in which they are asked.
    pub const ALL: [Role; 2] = [Role::Primary, Role::Backup];

    /// As it is written in status, metrics and logs.
    pub const fn as_str(self) -> &'static str {
        self.source().as_str()
    }

    /// Where a snapshot from this upstream came from.
    pub const fn source(self) -> Source {
        match self {
            Role::Primary => Source::Primary,
            Role::Backup => Source::Backup,
        }
    }

    /// The other one.
    pub const fn other(self) -> Role {
        match self {
            Role::Primary => Role::Backup,
            Role::Backup => Role::Primary,
        }
    }
}

/// How many things a snapshot holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub features: u32,
    pub properties: u32,
    pub segments: u32,
}

/// One validated document for one slot. Immutable; everything that is served derives from it.
#[derive(Debug)]
pub struct Snapshot {
    /// The document in the SDK form: the environment at index 0, this collection's features and
    /// properties only, referenced segments only. UTF-8 JSON.
    pub json: Bytes,
    /// `json` in gzip, where it was made ahead because the document is large.
    pub gzip: Option<Bytes>,
    /// Digest of the canonical content of `json`, less what its items say about their collections:
    /// exports have that and answers to SDKs do not.
    pub digest: Digest,
    pub counts: Counts,
    /// How many `rollout_percentage` keys the relay filled in, because the source left them out.
    pub rollouts_filled: u32,
}

/// A decision to turn a request away. Nobody's fault by itself; `wire::reject` maps each to its
/// status, and there is no other place that chooses a status for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// No credential, or one that belongs to no configured key.
    WrongKey,
    /// The key is unknown, but some configured key could not be read: it may be that one.
    KeysUnreadable,
    /// The key is known and may not use this slot.
    SlotNotAllowed,
    /// The path is none of ours.
    UnknownPath,
    /// The path is right and its instance guid is another one's.
    UnknownInstance,
    /// The collection and environment are not configured here.
    UnknownSlot,
    /// The path is ours and the method is not.
    MethodNotAllowed,
    /// The slot is configured and has no snapshot yet.
    NoSnapshot,
    /// Too many wrong keys from this side lately.
    Throttled,
    /// The connection limit is reached.
    Overloaded,
    /// The body is larger than its bound.
    BodyTooLarge,
    /// The body cannot be read as what the path takes.
    MalformedBody,
    /// `CONNECT` to a name that is not on the list.
    TunnelRefused,
    /// The destination of a forwarded request could not be had, or broke off.
    DestinationFailed,
    /// The destination of a forwarded request said nothing in its time.
    DestinationSilent,
}

impl Reject {
    /// All of them, in the order of their declaration.
    pub const ALL: [Reject; 15] = [
        Reject::WrongKey,
        Reject::KeysUnreadable,
        Reject::SlotNotAllowed,
        Reject::UnknownPath,
        Reject::UnknownInstance,
        Reject::UnknownSlot,
        Reject::MethodNotAllowed,
        Reject::NoSnapshot,
        Reject::Throttled,
        Reject::Overloaded,
        Reject::BodyTooLarge,
        Reject::MalformedBody,
        Reject::TunnelRefused,
        Reject::DestinationFailed,
        Reject::DestinationSilent,
    ];

    /// As it is written in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reject::WrongKey => "wrong_key",
            Reject::KeysUnreadable => "keys_unreadable",
            Reject::SlotNotAllowed => "slot_not_allowed",
            Reject::UnknownPath => "unknown_path",
            Reject::UnknownInstance => "unknown_instance",
            Reject::UnknownSlot => "unknown_slot",
            Reject::MethodNotAllowed => "method_not_allowed",
            Reject::NoSnapshot => "no_snapshot",
            Reject::Throttled => "throttled",
            Reject::Overloaded => "overloaded",
            Reject::BodyTooLarge => "body_too_large",
            Reject::MalformedBody => "malformed_body",
            Reject::TunnelRefused => "tunnel_refused",
            Reject::DestinationFailed => "destination_failed",
            Reject::DestinationSilent => "destination_silent",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_what_survives_in_a_url() {
        assert!(Id::new("fast-checkout_1.2").is_some());
        for bad in ["", "a b", "a/b", "a%20", "é", &"x".repeat(129)] {
            assert!(Id::new(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn slot_keys_print_as_they_are_read() {
        let key = SlotKey::parse("inventory/dev").unwrap();
        assert_eq!(key.to_string(), "inventory/dev");
        assert!(SlotKey::parse("inventory").is_none());
        assert!(SlotKey::parse("a/b/c").is_none());
    }

    #[test]
    fn revisions_are_read_in_one_form_and_compared_by_term_first() {
        let revision = |text| Revision::parse(text);
        let printed = revision("3-17").map(|revision| revision.to_string());
        assert_eq!(printed.as_deref(), Some("3-17"));
        for odd in [
            "", "3", "3-", "-3", "03-1", "3-+1", "3-1-1", "0x3-1", "3- 1",
        ] {
            assert_eq!(revision(odd), None, "{odd:?}");
        }
        assert!(revision("1-0") > revision("0-99"));
        assert_eq!(revision("0-9").map(Revision::next), revision("0-10"));
    }
}
