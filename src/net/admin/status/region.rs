//! What is shown of region routing.
//!
//! Gathers what `state::region` says of this node and of those that disagree with it. What in it is
//! a problem is decided in `wire::status`, and nothing is decided here.

use std::collections::BTreeMap;

use crate::model::region::{Disagreement, Phase, SubjectStatus};
use crate::net::driver::Driver;
use crate::net::region;
use crate::time::Instant;
use crate::wire::status;

/// This node's part; `None` where it has none. Bounded by subjects, peers and reasons.
pub(super) fn region(driver: &Driver, now: Instant) -> Option<status::Region> {
    let part = driver.region.as_ref()?;
    let found = region::status(driver)?;
    let problem = part.record.problem();
    let routing = part.routing.borrow();
    let refusals = |node: &str| {
        let all = routing
            .refusals()
            .filter(|(peer, ..)| peer.as_str() == node);
        let all = all.map(|(_, reason, count)| (reason.as_str().to_owned(), count));
        all.collect::<BTreeMap<String, u64>>()
    };
    let peers = found.peers.iter().map(|peer| status::Peer {
        node: peer.node.to_string(),
        heard_s: peer.last_ok.map(|age| age.as_secs()),
        offset_ms: peer.offset_ms,
        refusals: refusals(peer.node.as_str()),
    });
    Some(status::Region {
        node: found.node.to_string(),
        cluster: found.cluster.as_ref().map(ToString::to_string),
        record: found.record.map(|(version, _)| version),
        signer: found.signer.clone(),
        memory_problem: part.store.problem(),
        record_problem_s: problem.as_ref().map(|(_, since)| (now - *since).as_secs()),
        record_problem: problem.map(|(problem, _)| problem),
        clock_trusted: found.is_clock_trusted,
        parked: found.parked,
        orphans: part.store.orphans.get(),
        subjects: found.subjects.iter().map(subject).collect(),
        peers: peers.collect(),
        disagreements: routing
            .disagreements()
            .iter()
            .map(Disagreement::to_string)
            .collect(),
    })
}

fn subject(found: &SubjectStatus) -> status::Subject {
    let (region, writer) = found.primary.clone().unzip();
    status::Subject {
        slot: found.subject.to_string(),
        phase: found.phase.as_str().to_owned(),
        reason: match found.phase {
            Phase::Unknown(doubt) => Some(doubt.reason().as_str().to_owned()),
            _ => None,
        },
        epoch: found.epoch.0,
        primary: region.map(|region| region.to_string()),
        writer: writer.map(|writer| writer.to_string()),
        head: found.head.revision.to_string(),
        unsealed_takeover: found.is_taken_over_unsealed,
    }
}
