//! The numbers of region routing.
//!
//! Owns the metrics of this node's part. Labels are names of the record and of the configuration,
//! phases and reasons: bounded by both.

use std::fmt;

use super::Text;
use crate::wire::status::{Peer, Region, Subject};

/// Writes them all; none where there is no region. Bounded by subjects, peers and reasons.
pub(super) fn write(region: Option<&Region>, text: &mut Text<'_>) -> fmt::Result {
    let Some(region) = region else { return Ok(()) };
    text.gauge(
        "region_record_version",
        "Version of the state record that counts; 0: there is none.",
        region.record.unwrap_or(0),
    )?;
    text.gauge(
        "region_clock_trusted",
        "1: the clock may decide who is primary.",
        region.clock_trusted.into(),
    )?;
    text.gauge(
        "region_parked",
        "Writes that are held back.",
        region.parked as u64,
    )?;
    text.gauge(
        "region_orphans",
        "Contents that lost against another node's, and are kept.",
        region.orphans as u64,
    )?;
    text.gauge(
        "region_disagreements",
        "Nodes that go by another record.",
        region.disagreements.len() as u64,
    )?;
    subjects(&region.subjects, text)?;
    peers(&region.peers, text)
}

fn subjects(subjects: &[Subject], text: &mut Text<'_>) -> fmt::Result {
    let phases = subjects.iter().map(|subject| {
        let labels = [
            ("slot", subject.slot.as_str()),
            ("phase", subject.phase.as_str()),
        ];
        (labels, 1)
    });
    text.gauges("region_phase", "What this node is for a slot.", phases)?;
    let all = |value: fn(&Subject) -> u64| {
        let one = move |subject| (slot(subject), value(subject));
        subjects.iter().map(one)
    };
    text.gauges(
        "region_epoch",
        "The term in force.",
        all(|subject| subject.epoch),
    )?;
    text.gauges(
        "region_unsealed_takeover",
        "1: this term was entered without the word of the writer before.",
        all(|subject| subject.unsealed_takeover.into()),
    )
}

fn slot(subject: &Subject) -> [(&str, &str); 1] {
    [("slot", subject.slot.as_str())]
}

fn peers(peers: &[Peer], text: &mut Text<'_>) -> fmt::Result {
    let heard = peers.iter().filter_map(|peer| {
        let heard_s = peer.heard_s?;
        Some(([("peer", peer.node.as_str())], heard_s))
    });
    text.gauges(
        "region_peer_heard_seconds",
        "How long ago a node last answered.",
        heard,
    )?;
    let refusals = peers.iter().flat_map(|peer| {
        let labels = |reason| [("peer", peer.node.as_str()), ("reason", reason)];
        let refusals = peer.refusals.iter();
        refusals.map(move |(reason, count)| (labels(reason.as_str()), *count))
    });
    text.counters(
        "region_refusals",
        "Writes between this node and another that were refused.",
        refusals,
    )
}
