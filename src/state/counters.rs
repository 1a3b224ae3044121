//! What happened how often since the process started; shown in status and metrics.
//!
//! Plain numbers that only grow. Nothing decides by them. Names are those of the metrics, without
//! their prefix and suffix.

use crate::model::Reject;

use super::deadlines::Reason;

/// Counts since the start.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Connections taken in.
    pub connections: u64,
    /// Connections over the limit that were told so.
    pub connections_lobby: u64,
    /// Connections closed unheard, because the lobby was full too.
    pub connections_dropped: u64,
    /// Failures of `accept`, for want of descriptors mostly.
    pub accept_failures: u64,
    pub handshakes: u64,
    pub handshakes_failed: u64,
    /// TLS on a listener that has no certificate.
    pub handshakes_refused: u64,
    /// Requests whose head was read.
    pub requests: u64,
    /// Requests that could not be read.
    pub malformed: u64,
    /// Config answers with a document.
    pub documents: u64,
    /// Config answers that were 304.
    pub documents_not_modified: u64,
    /// Tokens issued.
    pub tokens: u64,
    /// Tunnels opened.
    pub tunnels: u64,
    /// Streams opened.
    pub streams: u64,
    /// Snapshots published to subscribers.
    pub publications: u64,
    /// Documents that an operator pushed and that are served.
    pub pushes: u64,
    /// Requests for an operator's slot that were refused.
    pub pushes_refused: u64,
    /// Seed files read.
    pub seeds_read: u64,
    /// Seed files that could not be used as a whole.
    pub seeds_refused: u64,
    /// Reloads that were applied.
    pub reloads: u64,
    /// Reloads that were refused.
    pub reloads_refused: u64,
    /// Documents fetched from an upstream, changed or not.
    pub upstream_fetches: u64,
    /// Fetches that brought none that can be served.
    pub upstream_fetches_failed: u64,
    /// Slots written to the state folder.
    pub state_saves: u64,
    /// Writes to the state folder that failed.
    pub state_saves_failed: u64,
    refusals: [u64; Reject::ALL.len()],
    expiries: [u64; Reason::ALL.len()],
}

impl Counters {
    /// Notes a refusal.
    pub fn refuse(&mut self, reject: Reject) {
        self.refusals[reject as usize] += 1;
    }

    /// Notes a deadline that ended a connection.
    pub fn expire(&mut self, reason: Reason) {
        self.expiries[reason as usize] += 1;
    }

    /// Refusals by kind.
    pub fn refusals(&self) -> impl Iterator<Item = (Reject, u64)> {
        Reject::ALL.into_iter().zip(self.refusals)
    }

    /// Connections ended by a deadline, by which.
    pub fn expiries(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.into_iter().zip(self.expiries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_its_own_number() {
        let mut counters = Counters::default();
        for reject in Reject::ALL {
            counters.refuse(reject);
        }
        counters.refuse(Reject::ALL[Reject::ALL.len() - 1]);
        let counted: Vec<u64> = counters.refusals().map(|(_, count)| count).collect();
        assert!(counted[..counted.len() - 1].iter().all(|count| *count == 1));
        assert_eq!(counted.last(), Some(&2));
    }
}
