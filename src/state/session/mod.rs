//! Following one slot at one of two upstreams.
//!
//! A session says when to open which socket, when to fetch from whom, when a link is lost and when
//! to go back. It never sees a byte: it is told what happened, in nouns, and answers with orders.
//! Call order: `handle_*`, then `poll_output` and `poll_note` until they answer `None`, then wait
//! until `poll_timeout` or for the next thing to happen.
//!
//! Policy: the primary is followed wherever it is usable. Trip: its link is lost, its dial fails or
//! it refuses our key; then the backup is dialled at once. A configuration GET that fails while
//! the socket is fine is no trip: the backup is asked that once. Recovery: every `probe_interval`
//! the primary is dialled and has to answer a fetch with a document that validates; only then is it
//! followed, and the backup hung up after that, so that no change falls between the two. A probe
//! that fails or hangs touches nothing. With neither there, they are dialled in turn, by one
//! back-off for both (`seek`).
//!
//! Every link that opens is followed by a fetch: what changed between the last fetch and the link
//! was announced to nobody. Changes of content are all that clients ever see of this.

mod damping;
mod failover;
mod lane;
mod link;
mod notes;
mod order;
mod seek;
#[cfg(test)]
mod tests;
mod view;

pub use notes::Note;
pub use order::{DialId, FetchId, Inbound, Loss, Order, Wake};
pub use view::{LinkView, Phase};

use crate::limits::Limits;
use crate::model::Role;
use crate::time::{Duration, Instant};
use damping::Damping;
use fastrand::Rng;
use heapless::Deque;
use lane::{Flight, Lane, Purpose};
use link::Link;
use notes::Notes;
use seek::Seek;

/// What differs between sessions.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub has_backup: bool,
    /// From one probe of the primary to the next.
    pub probe_interval: Duration,
    /// How much later the first probe of an outage comes; another for each slot, at most
    /// `stagger_max`.
    pub stagger: Duration,
}

/// Follows one slot.
#[derive(Debug)]
pub struct Session {
    setting: Setting,
    random: Rng,
    /// Counts dials, links and fetches, so that their order can be told.
    serial: u64,
    is_started: bool,
    links: [Link; 2],
    active: Option<Role>,
    active_since: Instant,
    seek: Seek,
    /// While the backup is followed, the primary is not dialled before this.
    probe_at: Instant,
    damping: Damping,
    lane: Lane,
    hangups: Deque<DialId, 2>,
    notes: Notes,
    link_stable: Duration,
    fetch_timeout: Duration,
    refetch_cap: Duration,
    refresh_interval: Duration,
    retry_after_max: Duration,
}

impl Session {
    /// A session that does nothing until it is started.
    pub fn new(setting: Setting, limits: &Limits, random_seed: u64) -> Session {
        let dial_timeout = limits.session_dial_timeout.min(setting.probe_interval);
        Session {
            random: Rng::with_seed(random_seed),
            serial: 0,
            is_started: false,
            links: [(); 2].map(|()| Link::new(dial_timeout, limits)),
            active: None,
            active_since: Instant::ORIGIN,
            seek: Seek::new(setting.has_backup, limits),
            probe_at: Instant::ORIGIN,
            damping: Damping::new(limits),
            lane: Lane::new(limits),
            hangups: Deque::new(),
            notes: Notes::default(),
            link_stable: limits.link_stable,
            fetch_timeout: limits.session_fetch_timeout,
            refetch_cap: limits.refetch_cap,
            refresh_interval: limits.refresh_interval,
            retry_after_max: limits.retry_after_max,
            setting,
        }
    }

    /// Begins to fetch, from the primary and then from the backup, until a document was had. Opens
    /// no socket: for a start that listens only when it has content. Bounded by O(1).
    pub fn start_fetching(&mut self, now: Instant) {
        self.lane.want(now);
    }

    /// Begins to follow. Also fetches at once where nothing was fetched so far, so that content
    /// comes even while sockets fail. A second call changes nothing. Bounded by O(1).
    pub fn start(&mut self, now: Instant) {
        if self.is_started {
            return;
        }
        self.is_started = true;
        self.active_since = now;
        self.seek.hurry(Role::Primary, now);
        if self.lane.fetched.is_none() {
            self.lane.want(now);
        }
    }

    // What happened.

    /// 101 came for this dial. Bounded by O(1).
    pub fn handle_open(&mut self, id: DialId, now: Instant) {
        let Some(role) = self.role_of(id) else {
            return;
        };
        self.serial += 1;
        if !self.links[role as usize].handle_open(id, self.serial, now) {
            return;
        }
        if self.active.is_none() {
            self.follow(role, now);
        }
    }

    /// Something came in on this socket. Bounded by O(1).
    pub fn handle_inbound(&mut self, id: DialId, what: Inbound, now: Instant) {
        let Some(role) = self.role_of(id) else {
            return;
        };
        let link = &mut self.links[role as usize];
        link.handle_inbound(what, now);
        let Some(open) = link.open_mut().filter(|_| what == Inbound::Change) else {
            return;
        };
        if self.active != Some(role) {
            open.is_changed = true;
            return;
        }
        self.lane.want(now);
        if role == Role::Primary && self.setting.has_backup && self.lane.hold(role) > now {
            self.lane.is_fallback_due = true;
        }
    }

    /// Something besides the socket says that there is news at the primary. Bounded by O(1).
    pub fn handle_news(&mut self, now: Instant) {
        self.lane.want(now);
    }

    /// The primary was just reached in another way: whatever was not, for want of an answer, is
    /// tried again at once. Bounded by O(1).
    pub fn handle_reached(&mut self, now: Instant) {
        if self.active.is_none() {
            self.seek.hurry(Role::Primary, now);
        }
        if self.lane.failure.is_some() {
            self.lane.want(now);
        }
    }

    /// This dial failed, or its socket came to an end. Bounded by O(1).
    pub fn handle_loss(&mut self, id: DialId, loss: Loss, now: Instant) {
        if let Some(role) = self.role_of(id) {
            self.lose(role, loss, now);
        }
    }

    /// This fetch came back; `Ok`: with a valid document, which was offered to the slot. Bounded by
    /// O(1).
    pub fn handle_fetched(&mut self, id: FetchId, outcome: Result<(), Loss>, now: Instant) {
        let Some(flight) = self.lane.land(id) else {
            return;
        };
        match outcome {
            Ok(()) => self.handle_document(flight, now),
            Err(loss) => self.handle_fetch_failure(flight, loss, now),
        }
    }

    /// The wall clock was set: what failed for the want of it is tried again at once. Bounded by
    /// O(1).
    pub fn handle_clock_jump(&mut self, now: Instant) {
        self.try_again(Loss::ClockNotSet, now);
    }

    /// Somebody changed a key, or what a key may do: what was refused is tried again at once.
    /// Bounded by O(1).
    pub fn handle_reload(&mut self, now: Instant) {
        self.try_again(Loss::Denied, now);
    }

    fn try_again(&mut self, what: Loss, now: Instant) {
        for role in Role::ALL.into_iter().rev() {
            let link = &mut self.links[role as usize];
            if !link.is_down() || link.last_loss.is_none_or(|(loss, _)| loss != what) {
                continue;
            }
            if what == Loss::Denied {
                link.denied.reset();
                link.not_before = now;
            }
            match self.active {
                None => self.seek.hurry(role, now),
                Some(_) => self.probe_at = self.probe_at.min(now),
            }
        }
        if self.lane.failure == Some(what) {
            self.lane.want_at_once(now);
        }
    }

    // What to do next.

    /// The next order. To be called until it answers `None`. Bounded by O(1).
    pub fn poll_output(&mut self, now: Instant) -> Option<Order> {
        self.expire(now);
        if let Some(id) = self.hangups.pop_front() {
            return Some(Order::Hangup { id });
        }
        if let Some(id) = self.lane.poll_abandoned() {
            return Some(Order::Abandon { id });
        }
        for link in &mut self.links {
            if let Some(id) = link.poll_ping(now) {
                return Some(Order::Ping { id });
            }
        }
        if let Some((role, at)) = self.next_dial()
            && at <= now
        {
            self.serial += 1;
            let id = DialId(self.serial);
            self.links[role as usize].dial(id, now);
            return Some(Order::Dial { id, role });
        }
        let (role, purpose, at) = self.next_fetch()?;
        if at > now {
            return None;
        }
        self.serial += 1;
        let id = FetchId(self.serial);
        let timeout = match purpose {
            Purpose::Follow => self.fetch_timeout,
            Purpose::Probe | Purpose::Fallback => {
                self.fetch_timeout.min(self.setting.probe_interval)
            }
        };
        let flight = Flight {
            id,
            role,
            purpose,
            deadline: now + timeout,
        };
        self.lane.begin(flight, now);
        Some(Order::Fetch { id, role })
    }

    /// When to call `poll_output` again though nothing happened, and why.
    pub fn poll_timeout(&self) -> Option<(Instant, Wake)> {
        let [primary, backup] = &self.links;
        let links = primary.deadlines().into_iter().chain(backup.deadlines());
        let dial = self.next_dial().map(|(_, at)| (at, Wake::Dial));
        let fetch = self.next_fetch().map(|(_, _, at)| (at, Wake::Fetch));
        let flights = [self.lane.flight, self.lane.probe].into_iter().flatten();
        let timeouts = flights.map(|flight| (flight.deadline, Wake::FetchTimeout));
        let all = links.chain([dial, fetch]).flatten().chain(timeouts);
        all.min_by_key(|(at, _)| *at)
    }

    /// The next thing worth a line in the log.
    pub fn poll_note(&mut self) -> Option<Note> {
        self.notes.poll()
    }

    fn role_of(&self, id: DialId) -> Option<Role> {
        let is_meant = |role: &Role| self.links[*role as usize].id() == Some(id);
        Role::ALL.into_iter().find(is_meant)
    }

    /// What nobody answered in time.
    fn expire(&mut self, now: Instant) {
        for role in Role::ALL {
            if let Some(loss) = self.links[role as usize].expired(now) {
                self.hang_up(role, loss, now);
            }
        }
        let is_over = |flight: &Flight| flight.deadline <= now;
        if self.lane.probe.as_ref().is_some_and(is_over) {
            self.hang_up(Role::Primary, Loss::Unreachable, now);
        }
        if self.lane.flight.as_ref().is_some_and(is_over)
            && let Some(flight) = self.lane.abandon()
        {
            self.handle_fetch_failure(flight, Loss::Unreachable, now);
        }
    }

    /// The primary is open beside the backup, and has to show that it is usable.
    fn is_probe_waiting(&self) -> bool {
        self.active == Some(Role::Backup)
            && self.links[Role::Primary as usize].open().is_some()
            && self.lane.probe.is_none()
    }

    fn next_dial(&self) -> Option<(Role, Instant)> {
        if !self.is_started || self.links.iter().any(Link::is_dialing) {
            return None;
        }
        let primary = &self.links[Role::Primary as usize];
        match self.active {
            Some(Role::Primary) => None,
            Some(Role::Backup) if primary.is_down() => {
                let hold = self.lane.hold(Role::Primary);
                let at = self.probe_at.max(primary.not_before).max(hold);
                Some((Role::Primary, at))
            }
            Some(Role::Backup) => None,
            None => Some(self.seek.next(&self.links)),
        }
    }

    fn next_fetch(&self) -> Option<(Role, Purpose, Instant)> {
        let probe = (Role::Primary, Purpose::Probe, self.active_since);
        let probe = self.is_probe_waiting().then_some(probe);
        if probe.is_some() || self.lane.flight.is_some() {
            return probe;
        }
        let role = self.active.unwrap_or(Role::Primary);
        let follow = self.lane.due(role).map(|at| (role, Purpose::Follow, at));
        let fallback = (Role::Backup, Purpose::Fallback, self.lane.fallback_at());
        let fallback = self.lane.is_fallback_due.then_some(fallback);
        // Of two that are due at one time the fallback comes first: the other has just failed.
        let all = [fallback, follow].into_iter().flatten();
        all.min_by_key(|(_, _, at)| *at)
    }

    fn handle_document(&mut self, flight: Flight, now: Instant) {
        self.lane.fetched = Some(now);
        let link = &mut self.links[flight.role as usize];
        link.denied.reset();
        if let Some(open) = link.open_mut() {
            open.is_proven |= open.serial < flight.id.0;
        }
        match flight.purpose {
            Purpose::Probe => self.go_back(now),
            Purpose::Follow => self.lane.settle(&mut self.random, now),
            // Without a link, the fetch after the next 101 will ask the primary again.
            Purpose::Fallback if self.active.is_none() => {
                self.lane.settle_whole(&mut self.random, now);
            }
            Purpose::Fallback => {}
        }
    }

    fn handle_fetch_failure(&mut self, flight: Flight, loss: Loss, now: Instant) {
        let role = flight.role;
        if let Loss::Refused {
            retry_after: Some(wait),
        } = loss
        {
            self.lane
                .set_hold(role, now + wait.min(self.retry_after_max));
        }
        let is_open = self.links[role as usize].open().is_some();
        match flight.purpose {
            Purpose::Probe => self.hang_up(Role::Primary, loss, now),
            Purpose::Follow => {
                // Without a link there is no hurry, unless a start waits for the document.
                let cap = match self.active.is_some() || !self.is_started {
                    true => self.refetch_cap,
                    false => self.refresh_interval,
                };
                self.lane.retry(loss, cap, &mut self.random, now);
                self.lane.is_fallback_due = role == Role::Primary && self.setting.has_backup;
                if loss == Loss::Denied && is_open {
                    self.hang_up(role, loss, now);
                }
            }
            Purpose::Fallback => {}
        }
    }
}
