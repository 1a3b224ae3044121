//! The relay as it is told to people: the document of `/status`, and the words for it.
//!
//! Owns the shape of that document and the judgement what in it is a problem. `net` fills it in one
//! go; the status page, the metrics and `staffetta status` all read the same one, so that they
//! never tell different stories.
//!
//! Never holds a secret, a client's address, or anything else that a peer sent: ids are those of
//! the configuration, and problems name items of the seed. Ages are whole seconds of the monotonic
//! clock; the time of day appears once, for people, and no age depends on it.
//!
//! A clock that was never set is no problem: an isolated gateway may never learn the time, and the
//! relay needs none. It is one where an upstream's certificate cannot be trusted for it.
//!
//! A problem stands until somebody or something mends it. What is over, or as it should be, and yet
//! worth knowing, is a note: no monitor is alarmed by it for ever.

mod proxy;
mod region;
mod upstream;
mod words;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;

pub use proxy::{Cluster, Destination};
pub use region::{Peer, Region, Subject};
pub use upstream::{Following, Link, LinkPhase, NextDial, Token, Upstream};
#[cfg(test)]
pub(crate) use upstream::{sample_following, sample_upstream};
pub use words::{age_in_words, bytes_in_words};

/// The whole document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Of the relay's program.
    pub version: String,
    pub state: Phase,
    /// Every slot has something to serve; what `/ready` says.
    pub ready: bool,
    /// What is wrong now, one line each; see [`Status::judged`].
    pub problems: Vec<String>,
    /// What is worth knowing and no problem, one line each.
    pub notes: Vec<String>,
    pub uptime_s: u64,
    pub clock: Clock,
    pub instance: Instance,
    /// Null without a configured seed.
    pub seed: Option<Seed>,
    /// The primary, and the backup if there is one; null on an isolated site.
    pub upstreams: Option<Vec<Upstream>>,
    /// Null without a configured `state_dir`.
    pub state_dir: Option<StateDir>,
    /// In the order of the configuration.
    pub slots: Vec<Slot>,
    pub connections: Connections,
    pub keys: Keys,
    /// Whether TLS is spoken on the SDK listener.
    pub tls: bool,
    pub events: Events,
    /// Requests turned away since the start, by reason; reasons that never came up are left out.
    pub refusals: BTreeMap<String, u64>,
    /// Of the reverse proxy, in the order of the file.
    pub clusters: Vec<Cluster>,
    /// Null without a part in region routing.
    #[serde(default)]
    pub region: Option<Region>,
}

/// What the process is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Serving,
    /// On its way out: takes nothing new.
    Draining,
}

/// The time of day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    pub state: ClockState,
    /// RFC 3339, UTC, whole seconds.
    pub time: String,
}

/// Whether the time of day can be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClockState {
    #[serde(rename = "set")]
    Set,
    #[serde(rename = "not set")]
    NotSet,
}

/// Whose place the relay takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    pub guid: String,
    pub region: Option<String>,
}

/// The seed file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seed {
    /// Its path.
    pub file: String,
    /// Seconds since a usable file was last read; null while there was none.
    pub read_s: Option<u64>,
    /// Size of that file.
    pub bytes: u64,
    /// Why the newest file is not used as a whole.
    pub problem: Option<String>,
    /// For how long.
    pub problem_s: Option<u64>,
}

/// The folder in which what is served survives a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateDir {
    /// Its path.
    pub folder: String,
    /// Why nothing is kept; null while all is.
    pub problem: Option<String>,
    /// For how long.
    pub problem_s: Option<u64>,
    /// Seconds since something was last written; null while nothing had to be.
    pub saved_s: Option<u64>,
    /// Slots whose newest content is not written yet.
    pub waiting: usize,
    /// Files that could not be used at the start, and were set aside under these names.
    pub bad_files: Vec<String>,
}

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

/// Connections that are open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    pub sdk: usize,
    /// Over the limit, being told so.
    pub lobby: usize,
    pub admin: usize,
    /// Most SDK connections at once.
    pub limit: usize,
}

/// Client keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys {
    pub configured: usize,
    /// Of those, how many could not be read.
    pub unreadable: usize,
}

/// What clients reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Events {
    /// Reports are counted and let go, because there is nobody to deliver them to.
    pub counted_only: bool,
    /// Entries that wait for delivery, in memory and on the disk; those that are alike are one.
    pub waiting: u64,
    /// What they take in memory.
    pub waiting_bytes: usize,
    /// What they take on the disk.
    pub disk_bytes: u64,
    /// Why memory has to do in place of the disk.
    pub disk_problem: Option<String>,
    /// POSTs that the upstream took, since the start, and entries in them.
    pub delivered: u64,
    pub delivered_entries: u64,
    /// POSTs that it refused for good.
    pub set_aside: u64,
    pub set_aside_entries: u64,
    /// Entries that were lost because memory or disk were full.
    pub dropped_entries: u64,
    /// Delivered POSTs that a power cut at this moment would repeat.
    pub may_repeat: u64,
    pub usage: EventCounts,
    pub analytics: EventCounts,
}

/// Reports of one kind since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventCounts {
    pub reports: u64,
    pub entries: u64,
    /// Reports that could not be read.
    pub malformed: u64,
    /// Entries that could not be read, of reports that could.
    pub malformed_entries: u64,
}

impl Status {
    /// The document with `ready`, `problems` and `notes` worked out. What stands in `problems`
    /// already (it comes from reading the configuration's files) is kept, behind what is more
    /// urgent.
    ///
    /// Bounded by the number of slots.
    pub fn judged(mut self) -> Status {
        let mut problems = Vec::new();
        if self.state == Phase::Draining {
            problems.push("the relay is shutting down".to_owned());
        }
        problems.extend(self.region.iter().flat_map(Region::complaints));
        problems.extend(self.emptiness());
        if self.clock.state == ClockState::NotSet && upstream::is_clock_in_doubt(&self.slots) {
            problems.push(
                "the clock of this machine is not set, and certificates of upstreams are not valid \
                 yet by it: set it, and they are tried again at once"
                    .to_owned(),
            );
        }
        let upstreams = self.upstreams.iter().flatten();
        problems.extend(upstreams.filter_map(Upstream::complaint));
        problems.extend(upstream::complaints(&self.slots));
        problems.extend(self.seed.as_ref().and_then(Seed::complaint));
        problems.extend(self.slots.iter().filter_map(Slot::complaint));
        problems.extend(self.state_dir.as_ref().and_then(StateDir::complaint));
        problems.extend(self.events.complaint());
        problems.extend(self.clusters.iter().flat_map(Cluster::complaints));
        problems.append(&mut self.problems);
        self.ready = self.slots.iter().all(|slot| slot.serves.is_some());
        self.problems = problems;
        self.notes = self.superseded().into_iter().collect();
        self.notes.extend(self.events.notes());
        self.notes
            .extend(self.region.iter().flat_map(Region::notes));
        self
    }

    /// Which slots have nothing, and nobody has said why.
    fn emptiness(&self) -> Option<String> {
        let silent = |slot: &&Slot| slot.serves.is_none() && slot.last_error.is_none();
        let slots = named(self.slots.iter().filter(silent))?;
        let because = match (&self.seed, &self.upstreams) {
            (None, None) => "; no seed is configured",
            _ => "",
        };
        Some(format!(
            "nothing to serve for {slots}: clients wait{because}"
        ))
    }

    fn superseded(&self) -> Option<String> {
        let superseded = |slot: &&Slot| slot.superseded.is_some();
        let slots = named(self.slots.iter().filter(superseded))?;
        Some(format!(
            "the seed is not served for {slots}: what is served counts more; a seed with any \
             change in it is a new one"
        ))
    }

    /// Clients that follow a slot, over all slots.
    pub fn streams(&self) -> u64 {
        self.slots.iter().map(|slot| slot.clients.streams()).sum()
    }
}

/// The slots in a row; `None` without any.
fn named<'a>(slots: impl Iterator<Item = &'a Slot>) -> Option<String> {
    let names: Vec<&str> = slots.map(|slot| slot.slot.as_str()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

impl Events {
    /// Short enough for a line: `40 entries wait, 900 delivered`.
    pub fn in_words(&self) -> String {
        let mut words = format!(
            "{} entries wait, {} delivered",
            self.waiting, self.delivered_entries
        );
        for (count, what) in [
            (self.set_aside_entries, "set aside"),
            (self.dropped_entries, "lost"),
        ] {
            if count > 0 {
                // A string takes everything.
                let _ = write!(words, ", {count} {what}");
            }
        }
        words
    }

    fn complaint(&self) -> Option<String> {
        let problem = self.disk_problem.as_ref()?;
        Some(format!("events wait in memory only: {problem}"))
    }

    /// What was lost, which nobody can mend.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.set_aside > 0 {
            notes.push(format!(
                "{} reports with {} entries were refused by the upstream for good, and left out",
                self.set_aside, self.set_aside_entries
            ));
        }
        if self.dropped_entries > 0 {
            notes.push(format!(
                "{} entries of reports are lost, because memory or disk were full",
                self.dropped_entries
            ));
        }
        notes
    }
}

impl Seed {
    fn complaint(&self) -> Option<String> {
        let problem = self.problem.as_ref()?;
        let age = age_in_words(self.problem_s.unwrap_or(0));
        Some(format!(
            "the seed has been unusable for {age}, what is served stays: {problem}"
        ))
    }
}

impl StateDir {
    /// Short enough for a table: `/var/lib/staffetta, written 12 min ago`.
    pub fn in_words(&self) -> String {
        let written = match (&self.problem, self.saved_s) {
            (Some(_), _) => "not kept".to_owned(),
            (None, Some(saved_s)) => format!("written {} ago", age_in_words(saved_s)),
            (None, None) => "nothing to write so far".to_owned(),
        };
        let aside = match self.bad_files.len() {
            0 => String::new(),
            1 => "; 1 unusable file set aside".to_owned(),
            count => format!("; {count} unusable files set aside"),
        };
        format!("{}, {written}{aside}", self.folder)
    }

    fn complaint(&self) -> Option<String> {
        let problem = self.problem.as_ref()?;
        let age = age_in_words(self.problem_s.unwrap_or(0));
        Some(format!(
            "the state has not been kept for {age}, a restart begins with the seed: {problem}"
        ))
    }
}

impl Slot {
    /// Whether it follows the primary, or has nobody to follow, or has only begun to.
    pub fn is_well_followed(&self) -> bool {
        let following = self.following.as_ref();
        following.is_none_or(|following| !following.is_problem())
    }

    fn complaint(&self) -> Option<String> {
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

#[cfg(test)]
fn sample_served() -> Served {
    Served {
        source: "seed".into(),
        version: 3,
        revision: None,
        pushed_at: None,
        age_s: 754,
        confirmed_s: 20,
        digest: "ab".repeat(32),
        features: 5,
        properties: 2,
        segments: 1,
        bytes: 12_700,
        rollouts_filled: 0,
    }
}

/// A healthy relay with one slot, for the tests of those that show it.
#[cfg(test)]
pub(crate) fn sample() -> Status {
    let status = Status {
        version: "0.1.0".into(),
        state: Phase::Serving,
        ready: false,
        problems: Vec::new(),
        notes: Vec::new(),
        uptime_s: 11_520,
        clock: Clock {
            state: ClockState::Set,
            time: "2026-11-29T22:00:00Z".into(),
        },
        instance: Instance {
            guid: "11111111-2222-3333-4444-555555555555".into(),
            region: Some("us-south".into()),
        },
        seed: Some(Seed {
            file: "/etc/staffetta/seed.json".into(),
            read_s: Some(754),
            bytes: 51_961,
            problem: None,
            problem_s: None,
        }),
        upstreams: None,
        state_dir: Some(StateDir {
            folder: "/var/lib/staffetta".into(),
            problem: None,
            problem_s: None,
            saved_s: Some(754),
            waiting: 0,
            bad_files: Vec::new(),
        }),
        slots: vec![Slot {
            slot: "inventory/dev".into(),
            serves: Some(sample_served()),
            following: None,
            clients: Clients {
                websocket: 2,
                sse: 1,
                ..Clients::default()
            },
            last_error: None,
            superseded: None,
            stale_refused: 0,
        }],
        connections: Connections {
            sdk: 3,
            lobby: 0,
            admin: 1,
            limit: 1024,
        },
        keys: Keys {
            configured: 2,
            unreadable: 0,
        },
        tls: true,
        events: Events::default(),
        refusals: BTreeMap::new(),
        clusters: Vec::new(),
        region: None,
    };
    status.judged()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_reads_back_as_it_was_written() {
        let status = sample();
        let text = serde_json::to_string(&status).unwrap();
        assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), status);
        for part in [
            r#""state":"serving""#,
            r#""clock":{"state":"set","time":"2026-11-29T22:00:00Z"}"#,
            r#""clients":{"websocket":2,"sse":1,"sse_events_only":0,"fetch":0}"#,
            r#""last_error":null"#,
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn a_healthy_relay_has_no_problem_even_without_the_time() {
        let mut status = sample();
        status.clock.state = ClockState::NotSet;
        let status = status.judged();
        assert!(status.ready && status.problems.is_empty(), "{status:?}");
    }

    #[test]
    fn every_kind_of_problem_is_told_in_words() {
        let mut status = sample();
        let mut empty = status.slots[0].clone();
        empty.slot = "payments/prod".into();
        empty.serves = None;
        status.slots.push(empty.clone());
        empty.slot = "payments/dev".into();
        empty.last_error = Some(LastError {
            problem: "not in the seed".into(),
            since_s: 61,
            times: 2,
        });
        status.slots[0].last_error = Some(LastError {
            problem: "feature `x`: no `type`".into(),
            since_s: 5,
            times: 1,
        });
        status.slots.push(empty);
        status.state = Phase::Draining;
        status.seed.as_mut().unwrap().problem = Some("/s: no such file".into());
        status.seed.as_mut().unwrap().problem_s = Some(3_700);
        let state_dir = status.state_dir.as_mut().unwrap();
        state_dir.problem = Some("cannot write /v: full".into());
        state_dir.problem_s = Some(7);
        status.events.disk_problem = Some("cannot write /e: no space".into());
        status.problems = vec!["admin token: /t: is empty".into()];
        let status = status.judged();
        assert!(!status.ready);
        assert_eq!(
            status.problems,
            [
                "the relay is shutting down",
                "nothing to serve for payments/prod: clients wait",
                "the seed has been unusable for 1 h 1 min, what is served stays: /s: no such file",
                "slot inventory/dev has refused newer content for 5 s, version 3 stays: \
                 feature `x`: no `type`",
                "slot payments/dev has refused newer content for 1 min, it serves nothing: \
                 not in the seed",
                "the state has not been kept for 7 s, a restart begins with the seed: \
                 cannot write /v: full",
                "events wait in memory only: cannot write /e: no space",
                "admin token: /t: is empty",
            ]
        );
    }

    #[test]
    fn what_is_over_or_as_it_should_be_is_a_note() {
        let mut status = sample();
        status.slots[0].superseded = Some(SupersededSeed {
            digest: "cd".repeat(32),
            since_s: 9,
        });
        status.events.set_aside = 2;
        status.events.set_aside_entries = 40;
        status.events.dropped_entries = 7;
        let status = status.judged();
        assert_eq!(status.problems, Vec::<String>::new());
        assert_eq!(
            status.notes,
            [
                "the seed is not served for inventory/dev: what is served counts more; a seed \
                 with any change in it is a new one",
                "2 reports with 40 entries were refused by the upstream for good, and left out",
                "7 entries of reports are lost, because memory or disk were full",
            ]
        );
        assert_eq!(status.clone().judged(), status, "judged once or twice");
    }

    #[test]
    fn a_relay_without_a_seed_says_so() {
        let mut status = sample();
        status.seed = None;
        status.slots[0].serves = None;
        let status = status.judged();
        assert_eq!(
            status.problems,
            ["nothing to serve for inventory/dev: clients wait; no seed is configured"]
        );
        let mut status = status;
        status.problems.clear();
        status.upstreams = Some(vec![sample_upstream(crate::model::Role::Primary)]);
        assert_eq!(
            status.judged().problems,
            ["nothing to serve for inventory/dev: clients wait"]
        );
    }

    #[test]
    fn what_was_pushed_is_told_by_its_revision_and_its_time() {
        let mut served = sample().slots[0].serves.clone().unwrap();
        served.source = "cache".into();
        served.revision = Some("0-17".into());
        assert_eq!(served.in_words(), "cache version 3, 12 min old");
        served.pushed_at = Some("2026-11-30T09:12:59Z".into());
        assert_eq!(served.in_words(), "cache 0-17 of 2026-11-30 09:12");
    }

    #[test]
    fn clients_are_named_by_kind() {
        assert_eq!(sample().slots[0].clients.in_words(), "2 WebSocket, 1 SSE");
        assert_eq!(Clients::default().in_words(), "");
    }
}
