//! What has to hold after every step, and once nothing is wrong any more.
//!
//! The time until a session has to be back is a sum of what was promised and of what lies in its
//! way when the faults end: a `Retry-After`, a refused key, damping, a socket that is dead without
//! a word, a GET that hangs, a back-off. With the backup followed and none of these it is 20 s.

use std::cmp::Reverse;

use staffetta::model::Role;
use staffetta::time::{Duration, Instant};

use super::{Event, Failover, LATENCY_MAX, Socket};

impl Failover {
    fn open(&self, role: Role) -> usize {
        let is_open = |socket: &&Socket| socket.role == role && socket.is_open;
        self.sockets.values().filter(is_open).count()
    }

    pub(super) fn check(&self) {
        let active = self.session.active();
        let (primary, backup) = (self.open(Role::Primary), self.open(Role::Backup));
        let is_probe = active == Some(Role::Backup);
        assert!(backup <= 1 && primary <= 1, "{}: a second", self.tell());
        assert!(primary + backup <= 1 || is_probe, "{}: two", self.tell());
        let followed = active.map_or(0, |role| self.open(role));
        assert_eq!(followed, usize::from(active.is_some()), "{}", self.tell());
        let fetches = self.fetches.len();
        let primary = self
            .fetches
            .values()
            .filter(|(role, _)| *role == Role::Primary);
        let is_probe = is_probe && primary.count() == 1;
        assert!(
            fetches <= 1 || (fetches == 2 && is_probe),
            "{}",
            self.tell()
        );
    }

    /// Back where it belongs, with what there is.
    pub(super) fn is_whole(&self) -> bool {
        self.session.active() == Some(Role::Primary)
            && self.session.is_live()
            && self.open(Role::Backup) == 0
            && self.sockets.len() == 1
            && self.sockets.values().all(|socket| !socket.is_zombie)
            && self.served == self.upstreams[0].version
            && self.shadow.fetched >= self.shadow.changed
    }

    /// Until when it has to be so, now that nothing is wrong any more.
    pub(super) fn return_due(&mut self) -> Instant {
        self.events
            .retain(|Reverse((_, _, event))| !matches!(event, Event::Publish | Event::Fault(_)));
        let limits = &self.limits;
        let promised = limits.probe_interval + limits.stagger_max + LATENCY_MAX * 3;
        let mut due = self.now + promised;
        let primary = &self.upstreams[0];
        due = due.max(primary.upgrade_hold + promised);
        due = due.max(primary.get_hold + promised);
        if let Some(denied) = primary.denied {
            due = due.max(denied + limits.denied_cap + promised);
        }
        // Damping.
        let recent = |at: &&Instant| self.now.since(**at) < limits.damping_window;
        let losses = self.shadow.primary_losses.iter().filter(recent).count();
        if losses >= limits.damping_losses {
            let wait = limits.damping_wait_max + limits.stagger_max;
            due = due.max(self.now + wait + promised);
        }
        // A socket that is dead and does not say so; a GET that hangs, and its retry.
        let active = self.session.active();
        let is_dead = |socket: &Socket| socket.is_zombie && Some(socket.role) == active;
        if self.sockets.values().any(is_dead) {
            due = due + limits.silence_timeout;
        }
        if active == Some(Role::Primary) {
            due = due + limits.session_fetch_timeout + limits.refetch_cap;
        }
        // Nothing to follow: the longest back-off, after a dial that hangs.
        if active.is_none() {
            due = due + limits.backoff_cap + limits.session_dial_timeout;
        }
        due
    }

    /// Nothing more happens once it is whole.
    pub(super) fn stay(&mut self) {
        let dials = self.shadow.dials;
        let end = self.now + Duration::from_secs(300);
        while self.step(end) {
            assert_eq!(
                self.session.active(),
                Some(Role::Primary),
                "{}",
                self.tell()
            );
        }
        assert!(self.is_whole(), "{}: did not stay", self.tell());
        assert_eq!(self.shadow.dials, dials, "{}: dials again", self.tell());
    }

    pub(super) fn tell(&self) -> String {
        format!(
            "seed {}, backup {}, at {:?}, faults {:?}, serving {} of {}, sockets {:?}, {:?}",
            self.seed,
            self.has_backup,
            self.now,
            self.upstreams.each_ref().map(|upstream| upstream.fault),
            self.served,
            self.upstreams[0].version,
            self.sockets,
            self.session,
        )
    }
}
