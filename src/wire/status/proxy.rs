//! The reverse proxy as it is told to people: clusters, destinations, and whose clients go where.
//!
//! Owns the shape of that part of the status, and the one judgement about it: a destination that
//! the checks have taken out is a problem, whoever stands in for it. Ids and addresses are those of
//! the configuration; nothing of a request is in here.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Destinations that can stand for each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    pub id: String,
    /// Requests since it was configured, by how each came to its destination.
    pub requests: BTreeMap<String, u64>,
    /// Requests that went to a second destination, because the first could not be connected to.
    pub again: u64,
    /// In the order of the file.
    pub destinations: Vec<Destination>,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Destination {
    pub id: String,
    pub address: String,
    /// Neither check speaks against it.
    pub is_healthy: bool,
    /// What the active check says; null when there is none.
    pub active: Option<String>,
    /// What the passive check says; null when there is none.
    pub passive: Option<String>,
    /// Requests under way.
    pub in_flight: u32,
    pub backup: bool,
    pub draining: bool,
}

impl Cluster {
    /// What is wrong with it, one line for each destination.
    pub(super) fn complaints(&self) -> impl Iterator<Item = String> {
        let unhealthy = self.destinations.iter().filter(|one| !one.is_healthy);
        unhealthy.map(|one| {
            let (cluster, id, address) = (&self.id, &one.id, &one.address);
            format!("destination {id} of {cluster} is unhealthy: {address}")
        })
    }

    /// Short enough for a table: `2 of 3 healthy, 4 requests under way`.
    pub fn in_words(&self) -> String {
        let healthy = self.destinations.iter().filter(|one| one.is_healthy);
        let in_flight = self.destinations.iter().map(|one| u64::from(one.in_flight));
        format!(
            "{} of {} healthy, {} requests under way",
            healthy.count(),
            self.destinations.len(),
            in_flight.sum::<u64>()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_unhealthy_is_told() {
        let destination = |id: &str, is_healthy| Destination {
            id: id.into(),
            address: "http://10.0.0.1".into(),
            is_healthy,
            active: None,
            passive: None,
            in_flight: 2,
            backup: false,
            draining: false,
        };
        let cluster = Cluster {
            id: "plant".into(),
            requests: BTreeMap::new(),
            again: 0,
            destinations: vec![destination("a", true), destination("b", false)],
        };
        assert_eq!(cluster.in_words(), "1 of 2 healthy, 4 requests under way");
        let complaints: Vec<String> = cluster.complaints().collect();
        assert_eq!(
            complaints,
            ["destination b of plant is unhealthy: http://10.0.0.1"]
        );
    }
}
