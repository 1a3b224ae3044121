//! One socket to one upstream: whether it is there, and whether it is alive.
//!
//! Owns the times that tell the one from the other. A peer that went away without a word looks like
//! one that has nothing to say, so a quiet link is pinged, and one that stays quiet is lost; and
//! because some proxies answer pings for the peer behind them, a link without `test message` is
//! lost as well, however lively it is otherwise (Node's and Ruby's SDKs do the same after 120 s).
//!
//! Never decides what follows from a loss: that is the session's.

use super::{DialId, Inbound, Loss, Wake};
use crate::limits::Limits;
use crate::state::backoff::Backoff;
use crate::time::{Duration, Instant};

/// A socket that is open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) id: DialId,
    /// What was dialled or fetched later has a greater serial.
    pub(super) serial: u64,
    pub(super) since: Instant,
    heard: Instant,
    heartbeat: Instant,
    is_pinged: bool,
    /// A document was fetched since it opened.
    pub(super) is_proven: bool,
    /// A change was announced before the link was the one that is followed.
    pub(super) is_changed: bool,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Down,
    Dialing(DialId),
    Open(Open),
}

/// What a link was when it ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ended {
    /// Never opened.
    Dial,
    /// Open since that time.
    Open(Instant),
}

/// The socket of one upstream, now and before.
#[derive(Debug)]
pub(super) struct Link {
    phase: Phase,
    /// When its present dial, or the last, was ordered.
    pub(super) dialed: Instant,
    /// Not to be dialled before: it said so, or refused our key.
    pub(super) not_before: Instant,
    pub(super) denied: Backoff,
    /// When it last failed, of those failures without a stable link since.
    pub(super) failed: Option<Instant>,
    pub(super) last_loss: Option<(Loss, Instant)>,
    pub(super) dials: u64,
    pub(super) losses: u64,
    ping_after: Duration,
    silence_timeout: Duration,
    heartbeat_timeout: Duration,
    dial_timeout: Duration,
}

impl Link {
    pub(super) fn new(dial_timeout: Duration, limits: &Limits) -> Link {
        Link {
            phase: Phase::Down,
            dialed: Instant::ORIGIN,
            not_before: Instant::ORIGIN,
            denied: Backoff::new(limits.denied_first, limits.denied_cap),
            failed: None,
            last_loss: None,
            dials: 0,
            losses: 0,
            ping_after: limits.ping_after,
            silence_timeout: limits.silence_timeout,
            heartbeat_timeout: limits.heartbeat_timeout,
            dial_timeout,
        }
    }

    pub(super) fn is_down(&self) -> bool {
        matches!(self.phase, Phase::Down)
    }

    pub(super) fn is_dialing(&self) -> bool {
        matches!(self.phase, Phase::Dialing(_))
    }

    pub(super) fn open(&self) -> Option<&Open> {
        match &self.phase {
            Phase::Open(open) => Some(open),
            Phase::Down | Phase::Dialing(_) => None,
        }
    }

    pub(super) fn open_mut(&mut self) -> Option<&mut Open> {
        match &mut self.phase {
            Phase::Open(open) => Some(open),
            Phase::Down | Phase::Dialing(_) => None,
        }
    }

    /// The generation of what is there, if anything is.
    pub(super) fn id(&self) -> Option<DialId> {
        match self.phase {
            Phase::Down => None,
            Phase::Dialing(id) => Some(id),
            Phase::Open(open) => Some(open.id),
        }
    }

    pub(super) fn dial(&mut self, id: DialId, now: Instant) {
        self.phase = Phase::Dialing(id);
        self.dialed = now;
        self.dials += 1;
    }

    /// 101 came. Returns whether it was waited for.
    pub(super) fn handle_open(&mut self, id: DialId, serial: u64, now: Instant) -> bool {
        match self.phase {
            Phase::Dialing(dialed) if dialed == id => {
                self.phase = Phase::Open(Open {
                    id,
                    serial,
                    since: now,
                    heard: now,
                    heartbeat: now,
                    is_pinged: false,
                    is_proven: false,
                    is_changed: false,
                });
                true
            }
            _ => false,
        }
    }

    pub(super) fn handle_inbound(&mut self, what: Inbound, now: Instant) {
        if let Phase::Open(open) = &mut self.phase {
            open.heard = now;
            open.is_pinged = false;
            if what == Inbound::Heartbeat {
                open.heartbeat = now;
            }
        }
    }

    /// It is over, and this is why.
    pub(super) fn end(&mut self, loss: Loss, now: Instant) -> Option<Ended> {
        let ended = match self.phase {
            Phase::Down => return None,
            Phase::Dialing(_) => Ended::Dial,
            Phase::Open(open) => Ended::Open(open.since),
        };
        if matches!(ended, Ended::Open(_)) {
            self.losses += 1;
        }
        self.last_loss = Some((loss, now));
        self.failed = Some(now);
        self.phase = Phase::Down;
        Some(ended)
    }

    /// It is over because it is not needed any more.
    pub(super) fn close(&mut self) -> Option<DialId> {
        let id = self.id();
        self.phase = Phase::Down;
        id
    }

    /// The link that has been quiet for long enough to be pinged. Asks once.
    pub(super) fn poll_ping(&mut self, now: Instant) -> Option<DialId> {
        let open = self.open()?;
        if open.is_pinged || now < open.heard + self.ping_after {
            return None;
        }
        let open = self.open_mut()?;
        open.is_pinged = true;
        Some(open.id)
    }

    /// Why it has to be given up by now, if it has.
    pub(super) fn expired(&self, now: Instant) -> Option<Loss> {
        self.deadlines()
            .into_iter()
            .flatten()
            .filter(|(at, _)| *at <= now)
            .find_map(|(_, wake)| match wake {
                Wake::DialTimeout => Some(Loss::Unreachable),
                Wake::Silence => Some(Loss::Silent),
                Wake::Heartbeat => Some(Loss::NoHeartbeat),
                Wake::Ping | Wake::Dial | Wake::Fetch | Wake::FetchTimeout => None,
            })
    }

    /// What comes next if nothing else happens.
    pub(super) fn deadlines(&self) -> [Option<(Instant, Wake)>; 3] {
        match &self.phase {
            Phase::Down => [None; 3],
            Phase::Dialing(_) => {
                let timeout = self.dialed + self.dial_timeout;
                [Some((timeout, Wake::DialTimeout)), None, None]
            }
            Phase::Open(open) => {
                let ping = (open.heard + self.ping_after, Wake::Ping);
                [
                    (!open.is_pinged).then_some(ping),
                    Some((open.heard + self.silence_timeout, Wake::Silence)),
                    Some((open.heartbeat + self.heartbeat_timeout, Wake::Heartbeat)),
                ]
            }
        }
    }
}
