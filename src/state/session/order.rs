//! What a session is told, and what it asks for: nouns without rules.
//!
//! A dial and a fetch each have an id that is never used again, so that whatever comes late, after
//! its socket was hung up or its fetch given up, is known to be late and ignored. That is also why
//! nobody has to wait for the end of something before the next thing is ordered.

use crate::model::Role;
use crate::time::Duration;

/// A dial and the socket that came of it; never used twice within a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DialId(pub(super) u64);

/// A fetch; never used twice within a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FetchId(pub(super) u64);

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Open a WebSocket; answer with `handle_open` or `handle_loss`.
    Dial { id: DialId, role: Role },
    /// End this dial or socket, however far it is. Nothing about it is of interest any more.
    Hangup { id: DialId },
    /// Send a ping on this socket.
    Ping { id: DialId },
    /// Fetch and validate the document; answer with `handle_fetched`.
    Fetch { id: FetchId, role: Role },
    /// Give this fetch up; offer nothing that still comes of it.
    Abandon { id: FetchId },
}

/// What came in on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inbound {
    /// The text `test message`.
    Heartbeat,
    /// Any other text.
    Change,
    /// Anything else: a ping, a pong, a binary message.
    Other,
}

/// Why something did not work, or came to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No connection came about: name, TCP, proxy, TLS, or no answer in time.
    Unreachable,
    /// An answer that says no, or not now.
    Refused { retry_after: Option<Duration> },
    /// 401, 403 or 404. To be said only after a try with a token that was fresh.
    Denied,
    /// The peer closed it, or it broke.
    Closed,
    /// No traffic at all, and no answer to a ping.
    Silent,
    /// Traffic, but no `test message`.
    NoHeartbeat,
    /// What came is no valid document, belongs to a ring of relays, or is no protocol.
    Unusable,
    /// The certificate is not valid yet: our clock is probably not set.
    ClockNotSet,
}

/// Why the session wants to be called again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// A dial is due: a probe, or another try.
    Dial,
    DialTimeout,
    Ping,
    Silence,
    Heartbeat,
    /// A fetch is due: a retry, or the safety net.
    Fetch,
    FetchTimeout,
}
