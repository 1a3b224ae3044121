//! The numbers of the reverse proxy.
//!
//! Owns the metrics of clusters and destinations. Labels are ids of the configuration and the words
//! for how a request came to its destination; nothing of a request, and never a cookie.

use std::fmt;

use super::Text;
use crate::wire::status::{Cluster, Destination};

/// Writes them all. Bounded by the number of destinations.
pub(super) fn write(clusters: &[Cluster], text: &mut Text<'_>) -> fmt::Result {
    let requests = clusters.iter().flat_map(|cluster| {
        let labels = |outcome| [("cluster", cluster.id.as_str()), ("outcome", outcome)];
        let requests = cluster.requests.iter();
        requests.map(move |(outcome, count)| (labels(outcome.as_str()), *count))
    });
    text.counters(
        "forwarded",
        "Requests sent on, by how each came to its destination.",
        requests,
    )?;
    let again = clusters.iter();
    text.counters(
        "forwarded_again",
        "Requests sent to a second destination, because the first could not be connected to.",
        again.map(|cluster| ([("cluster", cluster.id.as_str())], cluster.again)),
    )?;
    let all = |value: fn(&Destination) -> u64| {
        clusters.iter().flat_map(move |cluster| {
            let destinations = cluster.destinations.iter();
            destinations.map(move |destination| {
                let (cluster, destination_id) = (cluster.id.as_str(), destination.id.as_str());
                let labels = [("cluster", cluster), ("destination", destination_id)];
                (labels, value(destination))
            })
        })
    };
    text.gauges(
        "destination_healthy",
        "1: no check speaks against the destination.",
        all(|destination| destination.is_healthy.into()),
    )?;
    text.gauges(
        "destination_in_flight",
        "Requests under way.",
        all(|destination| destination.in_flight.into()),
    )
}
