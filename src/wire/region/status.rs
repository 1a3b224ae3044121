//! The document of `GET /v1/region/status`: what nodes tell each other and people; and that of
//! `GET /v1/region/nodes`, one of these for each node, for people.
//!
//! Owns their form, both ways. What cannot be read makes a status of nobody: a peer that is
//! misunderstood is a peer that did not answer. Members that are not known are ignored, so that
//! nodes of two versions understand each other.

use super::moment;
use crate::model::region::{
    Epoch, Head, Heard, PeerStatus, Phase, Seal, Status, Subject, SubjectStatus,
};
use crate::model::{Digest, Id, Revision};
use crate::time::{Duration, WallMs};
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Document {
    node: String,
    cluster: Option<String>,
    boot: u64,
    serial: u64,
    wall_ms: u64,
    clock_trusted: bool,
    record: Option<Held>,
    #[serde(default)]
    upstream: bool,
    parked: usize,
    slots: Vec<Line>,
    peers: Vec<Peer>,
}

#[derive(Serialize, Deserialize)]
struct Held {
    version: u64,
    digest: String,
    signer: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    slot: String,
    phase: String,
    /// Only with the phase `unknown`.
    reason: Option<String>,
    epoch: u64,
    primary: Option<Primary>,
    next: Option<Next>,
    head: String,
    head_digest: String,
    head_parent: String,
    sealed: Option<Sealed>,
    unsealed_takeover: bool,
    orphans: u64,
}

#[derive(Serialize, Deserialize)]
struct Primary {
    region: String,
    writer: String,
}

#[derive(Serialize, Deserialize)]
struct Next {
    at: String,
    to: String,
}

#[derive(Serialize, Deserialize)]
struct Sealed {
    epoch: u64,
    head: String,
}

#[derive(Serialize, Deserialize)]
struct Peer {
    node: String,
    last_ok_ms: Option<u64>,
    offset_ms: Option<i64>,
}

#[derive(Serialize, Deserialize)]
struct Nodes {
    nodes: Vec<Node>,
}

#[derive(Serialize, Deserialize)]
struct Node {
    node: String,
    age_ms: Option<u64>,
    status: Option<Document>,
}

/// The document. Bounded by the subjects and peers of the node.
pub fn write(status: &Status) -> String {
    serde_json::to_string(&document(status)).unwrap_or_default()
}

/// The documents of all nodes, in their order. Bounded by what is kept of them.
pub fn write_nodes(nodes: &[Heard]) -> String {
    let node = |heard: &Heard| Node {
        node: heard.node.to_string(),
        age_ms: heard.last.as_ref().map(|(age, _)| millis(*age)),
        status: heard.last.as_ref().map(|(_, status)| document(status)),
    };
    let nodes = nodes.iter().map(node).collect();
    serde_json::to_string(&Nodes { nodes }).unwrap_or_default()
}

/// Reads what `write_nodes` wrote; `None` if it is nothing of the kind. Bounded by the length of
/// `body`.
pub fn read_nodes(body: &[u8]) -> Option<Vec<Heard>> {
    let nodes: Nodes = serde_json::from_slice(body).ok()?;
    let nodes = nodes.nodes.into_iter().map(|node| {
        let last = match (node.age_ms, node.status) {
            (Some(age_ms), Some(status)) => {
                Some((Duration::from_millis(age_ms), read_document(&status)?))
            }
            _ => None,
        };
        let node = Id::new(&node.node)?;
        Some(Heard { node, last })
    });
    nodes.collect()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn document(status: &Status) -> Document {
    Document {
        node: status.node.to_string(),
        cluster: status.cluster.as_ref().map(Id::to_string),
        boot: status.boot,
        serial: status.serial,
        wall_ms: status.wall.as_unix_ms(),
        clock_trusted: status.is_clock_trusted,
        record: status.record.map(|(version, digest)| Held {
            version,
            digest: digest.to_string(),
            signer: status.signer.clone(),
        }),
        upstream: status.has_upstream,
        parked: status.parked,
        slots: status.subjects.iter().map(line).collect(),
        peers: status.peers.iter().map(peer).collect(),
    }
}

fn line(status: &SubjectStatus) -> Line {
    let reason = match status.phase {
        Phase::Unknown(doubt) => Some(doubt.reason().as_str().to_owned()),
        _ => None,
    };
    Line {
        slot: status.subject.to_string(),
        phase: status.phase.as_str().to_owned(),
        reason,
        epoch: status.epoch.0,
        primary: status.primary.as_ref().map(|(region, writer)| Primary {
            region: region.to_string(),
            writer: writer.to_string(),
        }),
        next: status.next.as_ref().map(|(at, to)| Next {
            at: moment::write(*at),
            to: to.to_string(),
        }),
        head: status.head.revision.to_string(),
        head_digest: status.head.digest.to_string(),
        head_parent: status.head.parent.to_string(),
        sealed: status.seal.map(|seal| Sealed {
            epoch: seal.epoch.0,
            head: seal.head.to_string(),
        }),
        unsealed_takeover: status.is_taken_over_unsealed,
        orphans: status.orphans,
    }
}

fn peer(status: &PeerStatus) -> Peer {
    Peer {
        node: status.node.to_string(),
        last_ok_ms: status.last_ok.map(millis),
        offset_ms: status.offset_ms,
    }
}

/// Reads a peer's status; `None` if it is none. Bounded by the length of `body`, which the caller
/// bounds by `region.status_bytes_max`.
pub fn read(body: &[u8]) -> Option<Status> {
    read_document(&serde_json::from_slice(body).ok()?)
}

fn read_document(document: &Document) -> Option<Status> {
    let record = match &document.record {
        Some(held) => Some((held.version, read_digest(&held.digest)?)),
        None => None,
    };
    let cluster = match &document.cluster {
        Some(cluster) => Some(Id::new(cluster)?),
        None => None,
    };
    Some(Status {
        node: Id::new(&document.node)?,
        cluster,
        boot: document.boot,
        serial: document.serial,
        wall: WallMs::from_unix_ms(document.wall_ms),
        is_clock_trusted: document.clock_trusted,
        record,
        signer: document
            .record
            .as_ref()
            .and_then(|held| held.signer.clone()),
        has_upstream: document.upstream,
        parked: document.parked,
        subjects: document
            .slots
            .iter()
            .map(read_line)
            .collect::<Option<_>>()?,
        peers: document
            .peers
            .iter()
            .map(read_peer)
            .collect::<Option<_>>()?,
    })
}

fn read_line(line: &Line) -> Option<SubjectStatus> {
    let primary = match &line.primary {
        Some(primary) => Some((Id::new(&primary.region)?, Id::new(&primary.writer)?)),
        None => None,
    };
    let next = match &line.next {
        Some(next) => Some((moment::parse(&next.at)?, Id::new(&next.to)?)),
        None => None,
    };
    let seal = match &line.sealed {
        Some(sealed) => Some(Seal {
            epoch: Epoch(sealed.epoch),
            head: Revision::parse(&sealed.head)?,
        }),
        None => None,
    };
    Some(SubjectStatus {
        subject: Subject::parse(&line.slot)?,
        phase: Phase::parse(&line.phase, line.reason.as_deref())?,
        epoch: Epoch(line.epoch),
        primary,
        next,
        head: Head {
            revision: Revision::parse(&line.head)?,
            digest: read_digest(&line.head_digest)?,
            parent: Revision::parse(&line.head_parent)?,
        },
        seal,
        is_taken_over_unsealed: line.unsealed_takeover,
        orphans: line.orphans,
    })
}

fn read_peer(peer: &Peer) -> Option<PeerStatus> {
    Some(PeerStatus {
        node: Id::new(&peer.node)?,
        last_ok: peer.last_ok_ms.map(Duration::from_millis),
        offset_ms: peer.offset_ms,
    })
}

fn read_digest(text: &str) -> Option<Digest> {
    let bytes = HEXLOWER.decode(text.as_bytes()).ok()?;
    bytes.try_into().ok().map(Digest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::region::Doubt;

    fn id(text: &str) -> Id {
        Id::new(text).unwrap()
    }

    fn status() -> Status {
        let subject = |text, phase| SubjectStatus {
            subject: Subject::parse(text).unwrap(),
            phase,
            epoch: Epoch(101),
            primary: Some((id("eu"), id("eu-1"))),
            next: Some((WallMs::from_unix_ms(1_800_000_000_000), id("au"))),
            head: Head {
                revision: Revision::parse("101-7").unwrap(),
                digest: Digest([7; 32]),
                parent: Revision::parse("100-3").unwrap(),
            },
            seal: Some(Seal {
                epoch: Epoch(99),
                head: Revision::parse("99-1").unwrap(),
            }),
            is_taken_over_unsealed: true,
            orphans: 2,
        };
        Status {
            node: id("eu-1"),
            cluster: Some(id("plant-7")),
            boot: 77,
            serial: 12,
            wall: WallMs::from_unix_ms(1_799_999_999_999),
            is_clock_trusted: true,
            record: Some((42, Digest([3; 32]))),
            signer: Some(String::from("62A7085B4B8FE81F")),
            has_upstream: true,
            parked: 3,
            subjects: vec![
                subject("line3/dev", Phase::Drain),
                subject("route:orders", Phase::Unknown(Doubt::Clock)),
            ],
            peers: vec![PeerStatus {
                node: id("au-1"),
                last_ok: Some(Duration::from_millis(120)),
                offset_ms: Some(-35),
            }],
        }
    }

    #[test]
    fn a_status_reads_back_as_what_it_says() {
        assert_eq!(read(write(&status()).as_bytes()), Some(status()));
    }

    #[test]
    fn a_node_without_a_record_has_a_status() {
        let bare = Status {
            cluster: None,
            record: None,
            signer: None,
            subjects: Vec::new(),
            peers: Vec::new(),
            ..status()
        };
        assert_eq!(read(write(&bare).as_bytes()), Some(bare));
    }

    #[test]
    fn nodes_read_back_with_what_was_heard_of_each() {
        let nodes = [
            Heard {
                node: id("eu-1"),
                last: Some((Duration::ZERO, status())),
            },
            Heard {
                node: id("au-1"),
                last: None,
            },
        ];
        let text = write_nodes(&nodes);
        assert_eq!(read_nodes(text.as_bytes()), Some(nodes.to_vec()));
        let torn = text.replacen("\"drain\"", "\"dozing\"", 1);
        assert_eq!(read_nodes(torn.as_bytes()), None);
    }

    #[test]
    fn what_cannot_be_read_is_nobodys_status() {
        let text = write(&status());
        for (from, to) in [
            ("\"drain\"", "\"dozing\""),
            ("\"101-7\"", "\"101\""),
            ("\"line3/dev\"", "\"line3\""),
            ("\"clock_untrusted\"", "\"tired\""),
            ("\"eu-1\"", "\"eu 1\""),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            assert_eq!(read(changed.as_bytes()), None, "{to}");
        }
    }
}
