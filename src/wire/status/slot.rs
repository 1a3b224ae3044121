//! What one slot serves, and to how many, as it is told to people.
//!
//! Owns a slot's row of the document and its words. That newer content was refused is a problem
//! until good content comes; what was good before stays served, and is said to.
//!
//! Never says how its content is followed; that is `upstream`.

use super::{Following, age_in_words};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// One collection in one environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// `collection/environment`.
    pub slot: String,
    /// Null while there is nothing to serve.
    pub serves: Option<Served>,
    /// Null on an isolated site, and of an operator's slot.
    pub following: Option<Following>,
    pub clients: Clients,
    /// Why the newest offer was refused; null once a good one came.
    pub last_error: Option<LastError>,
    /// A good seed lies there and is not served, because what is served counts more.
    pub superseded: Option<SupersededSeed>,
    /// How often a backup offered what is known to be older.
    pub stale_refused: u64,
}

/// What a slot serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// Where it came from; the value of `X-Config-Source`.
    pub source: String,
    /// Counts from 1 since the process started.
    pub version: u64,
    /// Of an operator's slot: how far its content has come, over restarts. Null for others.
    pub revision: Option<String>,
    /// RFC 3339, UTC: what the clock said at the last push to it. Null while there was none.
    pub pushed_at: Option<String>,
    /// Seconds since its content was adopted.
    pub age_s: u64,
    /// Seconds since a source last held the same content.
    pub confirmed_s: u64,
    /// SHA-256 of the canonical content, in hex: equal on relays that serve the same.
    pub digest: String,
    pub features: u32,
    pub properties: u32,
    pub segments: u32,
    /// Size of the document.
    pub bytes: u64,
    /// Rollout percentages that the relay filled in.
    pub rollouts_filled: u32,
}

/// A seed that waits for nothing: only one with a change in it would be news.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SupersededSeed {
    /// SHA-256 of its canonical content, in hex.
    pub digest: String,
    /// Seconds since it was first found.
    pub since_s: u64,
}

/// Clients of one slot that are connected now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clients {
    pub websocket: u32,
    pub sse: u32,
    pub sse_events_only: u32,
    /// Config answers that are being written to slow readers.
    pub fetch: u32,
}

/// A refusal that stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastError {
    /// Item, path, problem.
    pub problem: String,
    /// Seconds since it was first seen.
    pub since_s: u64,
    /// How often it came up since then.
    pub times: u64,
}

impl Slot {
    /// Whether it follows the primary, or has nobody to follow, or has only begun to.
    pub fn is_well_followed(&self) -> bool {
        let following = self.following.as_ref();
        following.is_none_or(|following| !following.is_problem())
    }

    pub(super) fn complaint(&self) -> Option<String> {
        let LastError {
            problem, since_s, ..
        } = self.last_error.as_ref()?;
        let stays = match &self.serves {
            Some(served) => format!("version {} stays", served.version),
            None => "it serves nothing".to_owned(),
        };
        let (slot, age) = (&self.slot, age_in_words(*since_s));
        Some(format!(
            "slot {slot} has refused newer content for {age}, {stays}: {problem}"
        ))
    }
}

impl Served {
    /// Short enough for a table: `seed version 3, 12 min old`, `operator 0-17 of 2026-11-30 09:12`.
    pub fn in_words(&self) -> String {
        let Served {
            source, version, ..
        } = self;
        let (Some(revision), Some(pushed_at)) = (&self.revision, &self.pushed_at) else {
            let age = age_in_words(self.age_s);
            return format!("{source} version {version}, {age} old");
        };
        let to_the_minute = pushed_at.get(..16).unwrap_or(pushed_at);
        let moment = to_the_minute.replace('T', " ");
        format!("{source} {revision} of {moment}")
    }
}

impl Clients {
    /// Those that follow the slot.
    pub fn streams(&self) -> u64 {
        u64::from(self.websocket) + u64::from(self.sse) + u64::from(self.sse_events_only)
    }

    /// `2 WebSocket, 1 SSE`; empty when there is nobody.
    pub fn in_words(&self) -> String {
        let kinds = [
            (self.websocket, "WebSocket"),
            (self.sse, "SSE"),
            (self.sse_events_only, "SSE events only"),
            (self.fetch, "slow fetch"),
        ];
        let mut words = String::new();
        for (count, kind) in kinds.into_iter().filter(|(count, _)| *count > 0) {
            let comma = if words.is_empty() { "" } else { ", " };
            // A string takes everything.
            let _ = write!(words, "{comma}{count} {kind}");
        }
        words
    }
}
