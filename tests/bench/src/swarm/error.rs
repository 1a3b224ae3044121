//! Why a swarm cannot go on.
//!
//! Every reason ends the measurement: a figure of fewer clients than were asked for, or of a round
//! that was cut short, is worse than none.

use crate::client::ClientError;
use std::fmt;
use std::io;

/// Why the swarm cannot go on.
#[derive(Debug)]
pub enum SwarmError {
    Client(usize, ClientError),
    /// The change could not be asked for.
    Reload(ClientError),
    /// Not all clients were set up in time; so many were.
    NotReady(usize),
    System(io::Error),
    /// A round was asked for, and the plan has no way to make a change.
    NoRounds,
}

impl From<io::Error> for SwarmError {
    fn from(error: io::Error) -> SwarmError {
        SwarmError::System(error)
    }
}

impl From<rustix::io::Errno> for SwarmError {
    fn from(error: rustix::io::Errno) -> SwarmError {
        SwarmError::System(error.into())
    }
}

impl fmt::Display for SwarmError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SwarmError::Client(number, error) => write!(formatter, "client {number}: {error}"),
            SwarmError::Reload(error) => write!(formatter, "asking for a change: {error}"),
            SwarmError::NotReady(ready) => write!(formatter, "only {ready} clients are set up"),
            SwarmError::System(error) => error.fmt(formatter),
            SwarmError::NoRounds => formatter.write_str("a round needs streams and a way"),
        }
    }
}
