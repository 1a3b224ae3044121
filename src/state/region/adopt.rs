//! Which record counts: the highest version that was validly signed, and nothing else.
//!
//! There is no vote and no consensus. A record is compared with the one that is held and with the
//! terms that this node has given its word on; one that is refused changes nothing but what is
//! shown. Two records of one version are an operator's mistake that no node can resolve: the one
//! that is held stays, and writes wait until a higher version says which was meant.
//!
//! Never: reads or verifies a document. That was done by whoever made the [`Record`].

use super::schedule;
use crate::model::Id;
use crate::model::region::{Epoch, Record, Subject};
use crate::time::WallMs;
use std::fmt;

/// What is to be done with a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is to be stored, and then adopted.
    Adopt,
    /// It is the one that is held.
    Same,
    /// It is refused.
    Refuse(Objection),
}

/// Why a record is refused although it is sound in itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Objection {
    /// It belongs to another cluster.
    OtherCluster { held: Id, found: Id },
    /// It is older than the one that is held (409).
    LowerVersion { held: u64, found: u64 },
    /// The same version with other bytes: from now on nobody can know which was meant.
    Conflict { version: u64 },
    /// It would bring a term back that is over.
    BelowFloor {
        subject: Subject,
        floor: Epoch,
        found: Epoch,
    },
    /// It gives the term that is in force to another writer.
    EpochReused { subject: Subject, epoch: Epoch },
}

impl fmt::Display for Objection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Objection::OtherCluster { held, found } => {
                write!(
                    formatter,
                    "the record is for cluster {found}, this node is in {held}"
                )
            }
            Objection::LowerVersion { held, found } => {
                write!(
                    formatter,
                    "version {found} is older than version {held}, which is held"
                )
            }
            Objection::Conflict { version } => write!(
                formatter,
                "another record of version {version} is held: sign a higher version"
            ),
            Objection::BelowFloor {
                subject,
                floor,
                found,
            } => write!(
                formatter,
                "epoch {found} would be in force for {subject}, where epoch {floor} was already"
            ),
            Objection::EpochReused { subject, epoch } => write!(
                formatter,
                "epoch {epoch} is in force for {subject} with another writer: give the change an \
                 epoch of its own"
            ),
        }
    }
}

/// What this node goes by for one subject.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'g> {
    pub subject: &'g Subject,
    pub floor: Epoch,
    /// The epoch in force and its writer, where there is a record.
    pub in_force: Option<(Epoch, &'g Id)>,
}

/// Judges `found`, which is sound in itself, against the record that is held. Bounded by subjects
/// times the switches of their classes.
pub fn judge<'g>(
    held: Option<&Record>,
    found: &Record,
    grounds: impl Iterator<Item = Ground<'g>>,
    wall: WallMs,
) -> Verdict {
    if let Some(held) = held {
        if held.cluster != found.cluster {
            let (held, found) = (held.cluster.clone(), found.cluster.clone());
            return Verdict::Refuse(Objection::OtherCluster { held, found });
        }
        let versions = (held.version, found.version);
        match held.version.cmp(&found.version) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal if held.digest == found.digest => return Verdict::Same,
            std::cmp::Ordering::Equal => {
                let version = found.version;
                return Verdict::Refuse(Objection::Conflict { version });
            }
            std::cmp::Ordering::Greater => {
                let (held, found) = versions;
                return Verdict::Refuse(Objection::LowerVersion { held, found });
            }
        }
    }
    let mut objections = grounds.filter_map(|ground| object(found, &ground, wall));
    objections.next().map_or(Verdict::Adopt, Verdict::Refuse)
}

fn object(found: &Record, ground: &Ground<'_>, wall: WallMs) -> Option<Objection> {
    let class = found.class_of(ground.subject)?;
    let subject = || ground.subject.clone();
    let now = schedule::term_at(class, wall).epoch;
    if now < ground.floor && schedule::term_of(class, ground.floor).is_none() {
        return Some(Objection::BelowFloor {
            subject: subject(),
            floor: ground.floor,
            found: now,
        });
    }
    let (epoch, writer) = ground.in_force?;
    let again = schedule::term_of(class, epoch)?;
    let is_other = found.node_name(again.seat.writer) != writer.as_str();
    is_other.then(|| Objection::EpochReused {
        subject: subject(),
        epoch,
    })
}
