//! What a session shows of itself, to status and metrics.
//!
//! Getters only: what is followed and since when, whether its content is known to be current, and
//! what became of each upstream. Nothing decides by it, and nothing here can be mutated through.

use super::{Loss, Session};
use crate::model::Role;
use crate::time::Instant;

/// How far a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No socket.
    Down,
    /// On the way to a 101.
    Dialing,
    /// A socket is open.
    Open,
}

/// The link to one upstream, as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkView {
    pub phase: Phase,
    /// Dials since the start.
    pub dials: u64,
    /// Open links that were lost since the start.
    pub losses: u64,
    /// Why the last dial or link ended, and when. Stays when it is mended.
    pub last_loss: Option<(Loss, Instant)>,
}

impl Session {
    /// Which upstream is followed.
    pub fn active(&self) -> Option<Role> {
        self.active
    }

    /// Since when that is so.
    pub fn active_since(&self) -> Instant {
        self.active_since
    }

    /// Whether nothing can have changed unseen: a link is open, a document was fetched since it
    /// opened, and no fetch has failed after that.
    pub fn is_live(&self) -> bool {
        let link = self.active.map(|role| &self.links[role as usize]);
        let is_proven = link
            .and_then(|link| link.open())
            .is_some_and(|open| open.is_proven);
        is_proven && self.lane.failure.is_none()
    }

    /// When a document was last fetched, from whomever.
    pub fn fetched(&self) -> Option<Instant> {
        self.lane.fetched
    }

    /// How the last fetch failed that is not made good yet.
    pub fn fetch_failure(&self) -> Option<Loss> {
        self.lane.failure
    }

    /// Whom the next dial goes to, and when, if nothing else happens.
    pub fn next_dial_at(&self) -> Option<(Role, Instant)> {
        self.next_dial()
    }

    /// The link to `role`.
    pub fn link(&self, role: Role) -> LinkView {
        let link = &self.links[role as usize];
        let phase = match (link.is_down(), link.is_dialing()) {
            (true, _) => Phase::Down,
            (_, true) => Phase::Dialing,
            _ => Phase::Open,
        };
        LinkView {
            phase,
            dials: link.dials,
            losses: link.losses,
            last_loss: link.last_loss,
        }
    }
}
