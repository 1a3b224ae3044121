//! What one round of fan-out took.
//!
//! Owns the line by which the recipes learn it: names and whole numbers, times in microseconds
//! since the change was asked for.

use std::fmt;
use std::time::Duration;

/// The times of one round, from the moment the change was asked for.
#[derive(Debug, Default)]
pub struct Round {
    /// Living clients at the start.
    pub clients: usize,
    pub changed: usize,
    pub refetched: usize,
    /// Clients that saw more changes than there were.
    pub extra: usize,
    /// The answer to the request for the change.
    pub answer: Option<Duration>,
    /// The first byte at any client.
    pub first: Option<Duration>,
    /// The change whole at the last client.
    pub last: Duration,
    /// The document fetched by the last client.
    pub refetch: Duration,
    /// Bytes read by all clients.
    pub bytes: u64,
}

impl fmt::Display for Round {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "round clients={} changed={} refetched={} extra={} answer_us={} first_us={} \
             last_us={} refetch_us={} bytes={}",
            self.clients,
            self.changed,
            self.refetched,
            self.extra,
            self.answer.unwrap_or_default().as_micros(),
            self.first.unwrap_or_default().as_micros(),
            self.last.as_micros(),
            self.refetch.as_micros(),
            self.bytes,
        )
    }
}
