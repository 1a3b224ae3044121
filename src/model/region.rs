//! The nouns of region routing: who is primary for what, when that changes, and who says so.
//!
//! A record comes out of `wire::region`, which refuses whatever does not fit together, and is read
//! by `state::region`, which decides by it. Between them lie these types only. What is primary at
//! which time is no noun: that is `state::region::schedule`.
//!
//! Invariant, for every [`Record`] that `wire::region` made: each [`Seat`] is a region of the
//! record and that region's own writer, so that nobody has to look one up and fail.

mod refusal;

pub use refusal::{Belief, Disagreement, Outcome, Reason, Refusal};

use super::{Digest, Id, Revision, SlotKey};
use crate::time::{Duration, WallMs};
use std::fmt;

/// The number of a primary's term, the fencing token: greater is later, and wins everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// What a node's store holds of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub revision: Revision,
    pub digest: Digest,
    /// The revision that the first write of this term was made on.
    pub parent: Revision,
}

/// A writer's word that it will never write in this term again, and what it had written by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    pub epoch: Epoch,
    pub head: Revision,
}

/// Position of a region in its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionIndex(pub u16);

/// Position of a node in its record, over all regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub u16);

/// A region as the primary one, and its writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seat {
    pub region: RegionIndex,
    pub writer: NodeIndex,
}

/// What a node has given its word on for one subject; stored before it is acted on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// No earlier term is ever in force here again.
    pub floor: Epoch,
    /// The last term in which this node was primary.
    pub entered: Option<Epoch>,
    /// What it was built on.
    pub parent: Revision,
    /// It was entered without a seal.
    pub is_unsealed: bool,
    /// The last word that this node will write no more.
    pub seal: Option<Seal>,
}

impl Mark {
    /// The term in which this node may still write.
    pub fn open_term(&self) -> Option<Epoch> {
        let is_open = |epoch: &Epoch| self.seal.is_none_or(|seal| seal.epoch < *epoch);
        self.entered.filter(is_open)
    }
}

/// The signed document that says who is primary for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub cluster: Id,
    pub version: u64,
    /// SHA-256 over the document's bytes.
    pub digest: Digest,
    pub issued_at: WallMs,
    pub timing: Timing,
    pub regions: Vec<Region>,
    pub nodes: Vec<Node>,
    pub classes: Vec<SlotClass>,
}

impl Record {
    /// The name of a region of this record.
    pub fn region_name(&self, index: RegionIndex) -> &str {
        let region = self.regions.get(usize::from(index.0));
        region.map_or("?", |region| region.name.as_str())
    }

    /// A node of this record.
    pub fn node(&self, index: NodeIndex) -> Option<&Node> {
        self.nodes.get(usize::from(index.0))
    }

    /// The name of a node of this record.
    pub fn node_name(&self, index: NodeIndex) -> &str {
        self.node(index).map_or("?", |node| node.name.as_str())
    }

    /// Where the node of this name stands.
    pub fn find_node(&self, name: &Id) -> Option<NodeIndex> {
        let index = self.nodes.iter().position(|node| node.name == *name)?;
        u16::try_from(index).ok().map(NodeIndex)
    }

    /// The first entry that matches; records have one that matches everything. Bounded by the
    /// number of classes.
    pub fn class_of(&self, subject: &Subject) -> Option<&SlotClass> {
        self.classes.iter().find(|class| class.matching.is(subject))
    }
}

/// How long what takes, the same at every node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Clocks that differ by more are not trusted.
    pub max_skew: Duration,
    /// What a switch leaves for clocks that differ; at least `max_skew`.
    pub guard: Duration,
    /// How much longer the next primary waits for a seal.
    pub grace: Duration,
    /// How long before `guard` the primary begins to hold writes back.
    pub drain: Duration,
    /// How long a write may be held.
    pub hold: Duration,
    /// From one look at a peer to the next.
    pub poll: Duration,
}

impl Timing {
    /// How far apart switches have to be: one must be over before the next begins.
    pub fn spacing_min(&self) -> Duration {
        self.guard * 2 + self.grace + self.hold + self.drain
    }
}

/// A site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    pub name: Id,
    pub writer: NodeIndex,
}

/// One relay of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub name: Id,
    /// Where its peers reach it: `http://` or `https://`, host and port.
    pub url: String,
    pub region: RegionIndex,
}

/// Which slots and routes, and who is primary for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotClass {
    pub matching: Matching,
    pub primary: Seat,
    pub epoch: Epoch,
    /// In the order of their times and epochs, which both rise.
    pub switches: Vec<Switch>,
    pub rotation: Option<Rotation>,
}

/// What an entry of a record is about. What is absent matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matching {
    pub collection: Option<Id>,
    pub environment: Option<Id>,
    pub route: Option<Id>,
}

impl Matching {
    /// Whether nothing is asked for.
    pub fn is_catch_all(&self) -> bool {
        *self == Matching::default()
    }

    /// Whether `subject` is meant.
    pub fn is(&self, subject: &Subject) -> bool {
        let fits =
            |wanted: &Option<Id>, found: Option<&Id>| wanted.is_none() || wanted.as_ref() == found;
        let (slot, route) = match subject {
            Subject::Slot(slot) => (Some(slot), None),
            Subject::Route(route) => (None, Some(route)),
        };
        fits(&self.collection, slot.map(|slot| &slot.collection))
            && fits(&self.environment, slot.map(|slot| &slot.environment))
            && fits(&self.route, route)
    }
}

impl fmt::Display for Matching {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let any = |id: &Option<Id>| id.as_ref().map_or("*", Id::as_str).to_owned();
        match &self.route {
            _ if self.is_catch_all() => formatter.write_str("everything else"),
            Some(route) => write!(formatter, "route:{route}"),
            None => write!(
                formatter,
                "{}/{}",
                any(&self.collection),
                any(&self.environment)
            ),
        }
    }
}

/// A planned change of the primary region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    pub at: WallMs,
    pub to: Seat,
    pub epoch: Epoch,
}

/// Changes that come again every period: follow the sun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    pub anchor: WallMs,
    pub period: Duration,
    /// Of the first leg; each leg after it has one more.
    pub epoch_first: Epoch,
    /// At least one, in the order of their offsets, which are below the period.
    pub legs: Vec<Leg>,
}

/// A part of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    pub offset: Duration,
    pub to: Seat,
}

/// What a region can be primary for: a slot, or the routes of one name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    Slot(SlotKey),
    /// `Metadata.RegionSlot` of the routes.
    Route(Id),
}

impl Subject {
    /// Reads `collection/environment` or `route:name`.
    pub fn parse(text: &str) -> Option<Subject> {
        match text.strip_prefix("route:") {
            Some(name) => Id::new(name).map(Subject::Route),
            None => SlotKey::parse(text).map(Subject::Slot),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Slot(slot) => slot.fmt(formatter),
            Subject::Route(name) => write!(formatter, "route:{name}"),
        }
    }
}

/// What a node does with a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It cannot know who is primary, and refuses.
    Unknown(Doubt),
    /// Another node is primary: it forwards.
    Replica,
    /// It is the next primary: it holds writes back until it may begin.
    Hold,
    /// It is primary: it applies.
    Active,
    /// It is primary for a moment longer: it ends what runs and holds the rest back.
    Drain,
    /// It was primary, and has given its word: it forwards.
    Sealed,
}

impl Phase {
    /// As it is written in status, metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Phase::Unknown(_) => "unknown",
            Phase::Replica => "replica",
            Phase::Hold => "hold",
            Phase::Active => "active",
            Phase::Drain => "drain",
            Phase::Sealed => "sealed",
        }
    }

    /// The reverse of `as_str` and the reason that goes with it.
    pub fn parse(text: &str, reason: Option<&str>) -> Option<Phase> {
        let doubt = reason.and_then(|reason| {
            let named = |doubt: &Doubt| doubt.reason().as_str() == reason;
            Doubt::ALL.into_iter().find(named)
        });
        let plain = [
            Phase::Replica,
            Phase::Hold,
            Phase::Active,
            Phase::Drain,
            Phase::Sealed,
        ];
        match text {
            "unknown" => doubt.map(Phase::Unknown),
            _ => plain.into_iter().find(|phase| phase.as_str() == text),
        }
    }
}

/// Why a node cannot know who is primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// There is no state record.
    NoRecord,
    /// Two records of one version.
    Conflict,
    /// The record is older than what this node has seen.
    OldRecord,
    /// The process has just started, and peers may know a newer record.
    Starting,
    /// The wall clock was set a moment ago.
    Tilt,
    /// The wall clock is not to be trusted, and a switch is pending.
    Clock,
}

impl Doubt {
    /// All of them, in the order of their declaration.
    pub const ALL: [Doubt; 6] = [
        Doubt::NoRecord,
        Doubt::Conflict,
        Doubt::OldRecord,
        Doubt::Starting,
        Doubt::Tilt,
        Doubt::Clock,
    ];

    /// The reason of the refusal that follows from it.
    pub const fn reason(self) -> Reason {
        match self {
            Doubt::NoRecord => Reason::NoRecord,
            Doubt::Conflict => Reason::StateConflict,
            Doubt::OldRecord => Reason::OldRecord,
            Doubt::Starting => Reason::Starting,
            Doubt::Tilt => Reason::ClockTilted,
            Doubt::Clock => Reason::ClockUntrusted,
        }
    }
}

/// What a node tells its peers and people of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub node: Id,
    pub cluster: Option<Id>,
    /// Another one after each start.
    pub boot: u64,
    /// Rises with every change of what is said below, within one boot.
    pub serial: u64,
    /// What its clock shows.
    pub wall: WallMs,
    pub is_clock_trusted: bool,
    /// Version and digest of the record.
    pub record: Option<(u64, Digest)>,
    /// The id of the key that signed it; absent for one that nobody signed.
    pub signer: Option<String>,
    /// It has an upstream of its own, and delivers reports.
    pub has_upstream: bool,
    pub parked: usize,
    pub subjects: Vec<SubjectStatus>,
    pub peers: Vec<PeerStatus>,
}

/// What a node does for one subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectStatus {
    pub subject: Subject,
    pub phase: Phase,
    pub epoch: Epoch,
    /// The primary region and its writer, as this node believes.
    pub primary: Option<(Id, Id)>,
    /// When, and to which region, the next switch is.
    pub next: Option<(WallMs, Id)>,
    pub head: Head,
    pub seal: Option<Seal>,
    pub is_taken_over_unsealed: bool,
    pub orphans: u64,
}

/// What a node knows of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    pub node: Id,
    /// How long ago it answered.
    pub last_ok: Option<Duration>,
    /// Its clock against ours, in milliseconds: positive is ahead.
    pub offset_ms: Option<i64>,
}

/// A node, and what was heard of it last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    pub node: Id,
    /// How long ago it said so, and what; absent before it has answered once.
    pub last: Option<(Duration, Status)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_and_routes_match_only_what_names_them() {
        let slot = Subject::parse("line3/dev").unwrap();
        let route = Subject::parse("route:orders").unwrap();
        let collection = Matching {
            collection: Id::new("line3"),
            ..Matching::default()
        };
        assert!(collection.is(&slot) && !collection.is(&route));
        let orders = Matching {
            route: Id::new("orders"),
            ..Matching::default()
        };
        assert!(orders.is(&route) && !orders.is(&slot));
        assert!(Matching::default().is(&slot) && Matching::default().is(&route));
    }

    #[test]
    fn words_read_back_as_what_they_say() {
        for reason in Reason::ALL {
            assert_eq!(Reason::parse(reason.as_str()), Some(reason));
        }
        for outcome in Outcome::ALL {
            assert_eq!(Outcome::parse(outcome.as_str()), Some(outcome));
        }
        for doubt in Doubt::ALL {
            let phase = Phase::Unknown(doubt);
            let reason = doubt.reason().as_str();
            assert_eq!(Phase::parse(phase.as_str(), Some(reason)), Some(phase));
        }
        assert_eq!(Phase::parse("hold", None), Some(Phase::Hold));
        assert_eq!(Phase::parse("unknown", None), None);
    }
}
