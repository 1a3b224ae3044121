//! What a session orders, carried out in the model, and judged at once.
//!
//! Claims: nobody is dialled before a back-off, a `Retry-After` or a probe interval is over, nor
//! asked before a `Retry-After`; ids go up; nothing is hung up or given up that was not ordered;
//! the backup is hung up for a primary that answered, or because it is lost; nothing spins.

use staffetta::model::Role;
use staffetta::state::session::{DialId, FetchId, Order};
use staffetta::time::Duration;

use super::{Event, Failover, LATENCY_MAX, Socket};

/// Orders within one second of virtual time: a storm of changes makes ten fetches.
const ORDERS_PER_SECOND_MAX: u32 = 45;

impl Failover {
    pub(super) fn drain(&mut self) {
        while let Some(order) = self.session.poll_output(self.now) {
            self.obey(order);
        }
        while self.session.poll_note().is_some() {}
        let timeout = self.session.poll_timeout();
        let is_later = timeout.is_none_or(|(at, _)| at > self.now);
        assert!(is_later, "{}: would spin at {timeout:?}", self.tell());
    }

    fn obey(&mut self, order: Order) {
        let second = self.now.as_micros() / 1_000_000;
        if self.shadow.second != second {
            self.shadow.second = second;
            self.shadow.orders_in_second = 0;
        }
        self.shadow.orders_in_second += 1;
        let count = self.shadow.orders_in_second;
        assert!(count <= ORDERS_PER_SECOND_MAX, "{}: hot", self.tell());
        match order {
            Order::Dial { id, role } => self.dial(id, role),
            Order::Hangup { id } => self.hang_up(id),
            Order::Ping { id } => {
                assert!(
                    self.sockets[&id].is_open,
                    "{}: a ping too early",
                    self.tell()
                );
                self.plan(Event::Pong(id), LATENCY_MAX);
            }
            Order::Fetch { id, role } => self.fetch(id, role),
            Order::Abandon { id } => {
                let fetch = self.fetches.remove(&id);
                assert!(fetch.is_some(), "{}: abandons nothing", self.tell());
            }
        }
    }

    fn hang_up(&mut self, id: DialId) {
        let socket = self.sockets.remove(&id);
        let socket = socket.unwrap_or_else(|| panic!("{}: whom?", self.tell()));
        let is_active = |other: &&Socket| Some(other.role) == self.session.active();
        let successor = self.sockets.values().find(is_active);
        if !socket.is_open {
            self.note_end(socket);
        } else if socket.role == Role::Primary {
            // A probe that failed, or a link that was followed: the longer wait is allowed.
            self.shadow.primary_losses.push(self.now);
        } else if let Some(primary) = successor {
            // Or the backup was given up for lost, and what is left has to do.
            let loss = self.session.link(Role::Backup).last_loss;
            let is_lost = loss.is_some_and(|(_, at)| at == self.now);
            let is_usable = primary.since <= self.shadow.fetched_from_primary;
            let tell = "went back to what it never tried";
            assert!(is_usable || is_lost, "{}: {tell}", self.tell());
        }
    }

    fn dial(&mut self, id: DialId, role: Role) {
        self.shadow.dials += 1;
        assert!(
            self.shadow.last_dial < Some(id),
            "{}: an old id",
            self.tell()
        );
        self.shadow.last_dial = Some(id);
        assert!(self.has_backup || role == Role::Primary);
        let hold = self.upstreams[role as usize].upgrade_hold;
        assert!(hold <= self.now, "{}: before Retry-After", self.tell());
        if self.session.active() == Some(Role::Backup) {
            let least = self.shadow.probed.map(|at| at + self.limits.probe_interval);
            let is_paced = least.is_none_or(|least| least <= self.now);
            assert!(is_paced, "{}: probes too often", self.tell());
            self.shadow.probed = Some(self.now);
        } else {
            let least = self.shadow.failed + self.least_wait();
            assert!(least <= self.now, "{}: before its back-off", self.tell());
            self.shadow.probed = None;
        }
        let socket = Socket {
            role,
            is_open: false,
            since: self.now,
            is_zombie: false,
            has_missed: false,
        };
        self.sockets.insert(id, socket);
        self.plan(Event::Upgrade(id), LATENCY_MAX);
    }

    /// What has to lie between the dial that failed last and the next, with nothing followed.
    fn least_wait(&self) -> Duration {
        let free = u32::from(self.has_backup);
        let Some(step) = self.shadow.failed_dials.checked_sub(free + 1) else {
            return Duration::ZERO;
        };
        let doubled = self.limits.backoff_first * 2u32.pow(step.min(10));
        if doubled < self.limits.backoff_cap {
            doubled / 2
        } else {
            self.limits.backoff_cap * 99 / 100
        }
    }

    fn fetch(&mut self, id: FetchId, role: Role) {
        assert!(
            self.shadow.last_fetch < Some(id),
            "{}: an old id",
            self.tell()
        );
        self.shadow.last_fetch = Some(id);
        let hold = self.upstreams[role as usize].get_hold;
        assert!(hold <= self.now, "{}: before Retry-After", self.tell());
        self.fetches.insert(id, (role, self.now));
        self.plan(Event::Get(id), LATENCY_MAX);
    }
}
