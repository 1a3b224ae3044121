//! From one upstream to the other, and back.
//!
//! What the policy in `mod` comes to: which link is followed from now on, what a loss leads to, and
//! when the primary is tried again. The order of things matters here. A new link is followed before
//! the old one is hung up, and what was in flight for the old one is given up, because its document
//! may be older than the one that comes.
//!
//! Never decides when to dial with nothing to follow (`seek`), nor when to fetch (`lane`).

use super::link::Ended;
use super::{Loss, Session};
use crate::model::Role;
use crate::time::Instant;

impl Session {
    /// `role`, whose link is open, is the one from now on.
    pub(super) fn follow(&mut self, role: Role, now: Instant) {
        if let Some(id) = self.links[role.other() as usize].close() {
            // Cannot be full: each link is hung up once, and then dialled anew by `poll_output`.
            let _ = self.hangups.push_back(id);
        }
        self.active = Some(role);
        self.active_since = now;
        let open = self.links[role as usize].open();
        let is_changed = open.is_some_and(|open| open.is_changed);
        if role == Role::Primary && self.lane.promote_probe() {
            if is_changed {
                self.lane.want(now);
            }
        } else {
            // What is in flight began before the link.
            self.lane.abandon();
            self.lane.want_at_once(now);
        }
        match (role, self.links[Role::Primary as usize].last_loss) {
            (Role::Primary, _) => self.notes.on_primary(),
            (Role::Backup, Some((loss, _))) => self.notes.on_backup(loss),
            (Role::Backup, None) => {}
        }
    }

    /// The probe found the primary usable: make, then break.
    pub(super) fn go_back(&mut self, now: Instant) {
        let open = self.links[Role::Primary as usize].open();
        let is_changed = open.is_some_and(|open| open.is_changed);
        // What the backup announced meanwhile may be newer than what the probe fetched.
        let is_behind = is_changed || self.lane.is_wanted(now);
        self.follow(Role::Primary, now);
        if !is_behind {
            self.lane.settle_whole(&mut self.random, now);
        }
    }

    /// Gives a dial or link up from our side.
    pub(super) fn hang_up(&mut self, role: Role, loss: Loss, now: Instant) {
        if let Some(id) = self.links[role as usize].id() {
            // Cannot be full: each link is hung up once, and then dialled anew by `poll_output`.
            let _ = self.hangups.push_back(id);
            self.lose(role, loss, now);
        }
    }

    /// A dial or link is no more.
    pub(super) fn lose(&mut self, role: Role, loss: Loss, now: Instant) {
        let Some(ended) = self.links[role as usize].end(loss, now) else {
            return;
        };
        let was_active = self.active == Some(role);
        let is_stable = |since: Instant| was_active && now.since(since) >= self.link_stable;
        if matches!(ended, Ended::Open(since) if is_stable(since)) {
            self.seek.reset();
            self.links[role.other() as usize].failed = None;
        }
        self.rest(role, loss, now);
        if role == Role::Primary {
            self.schedule_probe(was_active, now);
        }
        if was_active {
            self.active = None;
            self.active_since = now;
            if self.lane.abandon().is_some() {
                self.lane.want(now);
            }
            self.lane.rest(&mut self.random, now);
        } else if role == Role::Primary {
            self.lane.abandon_probe();
        }
        if self.active.is_none() {
            self.find_another(role, ended, loss, now);
        }
    }

    /// Nothing is followed, and `lost` has just ended.
    fn find_another(&mut self, lost: Role, ended: Ended, loss: Loss, now: Instant) {
        let other = lost.other();
        if self.links[other as usize].open().is_some() {
            // A primary that was being probed is better than nothing.
            self.follow(other, now);
        } else if !self.links[other as usize].is_dialing() {
            let was_open = matches!(ended, Ended::Open(_));
            let other = &self.links[other as usize];
            if !self.seek.turn(lost, was_open, other, &mut self.random, now) {
                self.notes.all_down(loss);
            }
        }
    }

    /// How long an upstream is left alone, because of what it said.
    fn rest(&mut self, role: Role, loss: Loss, now: Instant) {
        let link = &mut self.links[role as usize];
        match loss {
            Loss::Refused {
                retry_after: Some(wait),
            } => link.not_before = now + wait.min(self.retry_after_max),
            Loss::Denied => {
                link.not_before = now + link.denied.next_delay(&mut self.random);
                self.notes.denied(role);
            }
            _ => {}
        }
    }

    /// When the primary, which has just failed, is to be probed if the backup is followed by then.
    fn schedule_probe(&mut self, was_active: bool, now: Instant) {
        let interval = self.setting.probe_interval;
        self.probe_at = if was_active {
            let damping = self.damping.handle_loss(now);
            now + interval.max(damping) + self.setting.stagger
        } else if self.active == Some(Role::Backup) {
            self.links[Role::Primary as usize].dialed + interval
        } else {
            now + interval + self.setting.stagger
        };
    }
}
