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

mod events;
mod proxy;
mod region;
#[cfg(test)]
mod sample;
mod slot;
#[cfg(test)]
mod tests;
mod upstream;
mod words;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use events::{EventCounts, Events};
pub use proxy::{Cluster, Destination};
pub use region::{Peer, Region, Subject};
#[cfg(test)]
pub(crate) use sample::{sample, sample_following, sample_upstream};
pub use slot::{Clients, LastError, Served, Slot, SupersededSeed};
pub use upstream::{Following, Link, LinkPhase, NextDial, Token, Upstream};
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
