//! A session between two modelled upstreams that fail in every way, on a virtual clock.
//!
//! The session is the real one and pure; everything around it is a model. After every step: at most
//! one socket is open beside one that is being probed, nobody is dialled or asked before the time,
//! nothing spins. And once the faults end, the session is back on the primary with the newest
//! document in the time that was promised. A failure prints its seed; `SIM_SEED=n` runs it alone.

mod claims;
mod orders;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use staffetta::limits::Limits;
use staffetta::model::Role;
use staffetta::state::session::{DialId, FetchId, Inbound, Loss, Session, Setting};
use staffetta::time::{Duration, Instant};

use crate::upstream::{Fault, Upstream};

/// Sockets of the model answer and die within this.
const LATENCY_MAX: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Upgrade(DialId),
    GiveUpDial(DialId),
    Drop(DialId),
    /// The same, if its upstream still drops what it accepts.
    DropIfFaulty(DialId),
    Change(DialId),
    Beat(DialId),
    Pong(DialId),
    Get(FetchId),
    Document(FetchId, u64),
    Publish,
    Copy(u64),
    Fault(Role),
}

#[derive(Clone, Copy, Debug)]
struct Socket {
    role: Role,
    is_open: bool,
    /// When it was dialled, and then when it opened.
    since: Instant,
    /// Dead, and nobody says so.
    is_zombie: bool,
    /// A change is on its way through a network that lets nothing through.
    has_missed: bool,
}

/// One run.
pub struct Failover {
    seed: u64,
    random: fastrand::Rng,
    limits: Limits,
    has_backup: bool,
    session: Session,
    now: Instant,
    events: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    scheduled: u64,
    upstreams: [Upstream; 2],
    sockets: BTreeMap<DialId, Socket>,
    fetches: BTreeMap<FetchId, (Role, Instant)>,
    /// What was served at any time, and is now.
    known: BTreeSet<u64>,
    served: u64,
    shadow: Shadow,
}

/// What the claims need to know of the past.
#[derive(Default)]
struct Shadow {
    last_dial: Option<DialId>,
    last_fetch: Option<FetchId>,
    /// Dials that failed since a link was open, and when the last of them did.
    failed_dials: u32,
    failed: Instant,
    probed: Option<Instant>,
    primary_losses: Vec<Instant>,
    /// The last change that came on the link that was followed.
    changed: Instant,
    /// When the last fetch began that succeeded, and the last from the primary.
    fetched: Instant,
    fetched_from_primary: Instant,
    second: u64,
    orders_in_second: u32,
    dials: u32,
}

impl Failover {
    pub fn new(seed: u64, has_backup: bool) -> Failover {
        let mut random = fastrand::Rng::with_seed(seed);
        let limits = Limits::PRODUCTION;
        let stagger = limits.stagger_max.mul_f64(random.f64());
        let setting = Setting {
            has_backup,
            probe_interval: limits.probe_interval,
            stagger,
        };
        Failover {
            seed,
            session: Session::new(setting, &limits, random.u64(..)),
            random,
            limits,
            has_backup,
            now: Instant::ORIGIN + Duration::from_secs(1_000),
            events: BinaryHeap::new(),
            scheduled: 0,
            upstreams: Role::ALL.map(|_| Upstream::new()),
            sockets: BTreeMap::new(),
            fetches: BTreeMap::new(),
            known: BTreeSet::new(),
            served: 0,
            shadow: Shadow::default(),
        }
    }

    /// Faults for some minutes, then none: the session has to come back in time, and stay.
    pub fn run(mut self) {
        let end = self.now + Duration::from_secs(self.random.u64(60..900));
        self.plan(Event::Publish, Duration::ZERO);
        for role in Role::ALL {
            self.plan(Event::Fault(role), Duration::from_secs(30));
        }
        self.start();
        while self.step(end) {}
        for role in Role::ALL {
            self.set_fault(role, Fault::Whole);
        }
        // What kept still for nearly too long is heard again.
        for id in self.sockets.keys().copied().collect::<Vec<_>>() {
            self.hear(id, Inbound::Heartbeat);
        }
        let due = self.return_due();
        self.drain();
        while !self.is_whole() {
            assert!(self.step(due), "{}: not back by {due:?}", self.tell());
        }
        self.stay();
    }

    /// A day on which both upstreams are dead, each in its own way and a new one now and then.
    pub fn dead_day(mut self, is_begun: bool) {
        self.start();
        if is_begun {
            let begun = self.now + Duration::from_secs(200);
            while self.step(begun) {}
        }
        self.shadow.dials = 0;
        for _ in 0..24 {
            for role in Role::ALL {
                let dead = std::iter::repeat_with(|| Fault::random(&mut self.random));
                let dead = dead
                    .filter(|fault| fault.is_dead())
                    .take(1)
                    .collect::<Vec<_>>();
                self.set_fault(role, dead[0]);
                for socket in self.sockets.values_mut() {
                    socket.is_zombie |= socket.is_open;
                }
            }
            self.drain();
            let hour = self.now + Duration::from_secs(3_600);
            while self.step(hour) {}
        }
        let dials = self.shadow.dials;
        assert!(dials <= 300, "{}: {dials} dials", self.tell());
        assert!(dials >= 50, "{}: {dials} dials only", self.tell());
    }

    // The world.

    fn start(&mut self) {
        self.session.start(self.now);
        self.drain();
        self.check();
    }

    /// The next thing that happens, unless that is after `end`.
    fn step(&mut self, end: Instant) -> bool {
        let event = self.events.peek().map(|Reverse((at, ..))| *at);
        let timeout = self.session.poll_timeout().map(|(at, _)| at);
        let next = event.into_iter().chain(timeout).min();
        let Some(at) = next.filter(|at| *at <= end) else {
            self.now = end;
            return false;
        };
        self.now = at;
        if event == Some(at)
            && let Some(Reverse((_, _, event))) = self.events.pop()
        {
            self.happen(event);
        }
        self.drain();
        self.check();
        true
    }

    fn plan(&mut self, event: Event, within: Duration) {
        let after = within.mul_f64(self.random.f64());
        self.plan_after(event, after);
    }

    fn plan_after(&mut self, event: Event, after: Duration) {
        self.scheduled += 1;
        let entry = (self.now + after, self.scheduled, event);
        self.events.push(Reverse(entry));
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Upgrade(id) => self.upgrade(id),
            Event::GiveUpDial(id) => {
                if self.sockets.get(&id).is_some_and(|socket| !socket.is_open) {
                    self.lose(id, Loss::Unreachable);
                }
            }
            Event::Drop(id) => self.lose(id, Loss::Closed),
            Event::DropIfFaulty(id) => {
                let role = self.role_of(id);
                let fault = role.map(|role| self.upstreams[role as usize].fault);
                if fault == Some(Fault::Dropping) {
                    self.lose(id, Loss::Closed);
                }
            }
            Event::Change(id) => {
                let is_news = self.session.active() == self.role_of(id);
                if self.hear(id, Inbound::Change) && is_news {
                    self.shadow.changed = self.now;
                }
            }
            Event::Beat(id) => {
                let socket = self.sockets.get(&id).copied();
                let fault = socket.map(|socket| self.upstreams[socket.role as usize].fault);
                if fault != Some(Fault::NoHeartbeat) {
                    self.hear(id, Inbound::Heartbeat);
                }
                if socket.is_some() {
                    self.plan_after(Event::Beat(id), Duration::from_secs(25));
                }
            }
            Event::Pong(id) => {
                self.hear(id, Inbound::Other);
            }
            Event::Get(id) => self.get(id),
            Event::Document(id, version) => self.document(id, Ok(version)),
            Event::Publish => self.publish(),
            Event::Copy(version) => self.copy(Role::Backup, version),
            Event::Fault(role) => {
                let fault = Fault::random(&mut self.random);
                self.set_fault(role, fault);
                self.plan(Event::Fault(role), Duration::from_secs(90));
            }
        }
    }

    fn role_of(&self, id: DialId) -> Option<Role> {
        self.sockets.get(&id).map(|socket| socket.role)
    }

    fn upgrade(&mut self, id: DialId) {
        let Some(role) = self.role_of(id) else {
            // It was hung up; an answer that was on its way already changes nothing.
            self.session.handle_open(id, self.now);
            return;
        };
        let upstream = &mut self.upstreams[role as usize];
        match upstream.upgrade(self.now) {
            Some(Ok(())) => {
                if let Some(socket) = self.sockets.get_mut(&id) {
                    socket.is_open = true;
                    socket.since = self.now;
                }
                if upstream.fault == Fault::Dropping {
                    self.plan(Event::DropIfFaulty(id), Duration::from_secs(8));
                }
                self.plan_after(Event::Beat(id), Duration::from_secs(25));
                self.shadow.failed_dials = 0;
                self.session.handle_open(id, self.now);
            }
            Some(Err(loss)) => self.lose(id, loss),
            // Sometimes it is the dialler that gives up.
            None if self.random.bool() => {
                self.plan_after(Event::GiveUpDial(id), Duration::from_secs(10));
            }
            None => {}
        }
    }

    fn lose(&mut self, id: DialId, loss: Loss) {
        if let Some(socket) = self.sockets.remove(&id) {
            self.note_end(socket);
        }
        self.session.handle_loss(id, loss, self.now);
    }

    fn note_end(&mut self, socket: Socket) {
        let active = self.session.active();
        if !socket.is_open {
            // A probe is no search.
            if active.is_none() {
                self.shadow.failed_dials += 1;
                self.shadow.failed = self.now;
            }
        } else if socket.role == Role::Primary && active == Some(Role::Primary) {
            self.shadow.primary_losses.push(self.now);
        }
    }

    /// Something comes through, or not.
    fn hear(&mut self, id: DialId, what: Inbound) -> bool {
        let Some(socket) = self.sockets.get_mut(&id) else {
            self.session.handle_inbound(id, what, self.now);
            return false;
        };
        let is_mute = self.upstreams[socket.role as usize].fault.is_mute();
        if socket.is_zombie || is_mute || !socket.is_open {
            socket.has_missed |= what == Inbound::Change;
            return false;
        }
        self.session.handle_inbound(id, what, self.now);
        true
    }

    fn get(&mut self, id: FetchId) {
        let Some((role, _)) = self.fetches.get(&id).copied() else {
            return;
        };
        let answer = self.upstreams[role as usize].get(&mut self.random, self.now);
        match answer {
            Some((after, Ok(version))) => self.plan_after(Event::Document(id, version), after),
            Some((_, Err(loss))) => self.document(id, Err(loss)),
            None => {}
        }
    }

    fn document(&mut self, id: FetchId, outcome: Result<u64, Loss>) {
        let fetch = self.fetches.remove(&id);
        if let (Some((role, began)), Ok(version)) = (fetch, outcome) {
            self.shadow.fetched = self.shadow.fetched.max(began);
            if role == Role::Primary {
                self.shadow.fetched_from_primary = began;
            }
            // Stale protection, by what was served before.
            if role == Role::Primary || !self.known.contains(&version) {
                self.known.insert(version);
                self.served = version;
            }
        }
        self.session
            .handle_fetched(id, outcome.map(|_| ()), self.now);
    }

    fn publish(&mut self) {
        let version = self.upstreams[0].version + 1;
        self.copy(Role::Primary, version);
        self.plan(Event::Copy(version), Duration::from_secs(20));
        if self.random.u8(..) < 64 {
            self.upstreams[0].fails_left = 3;
        }
        let pause = if self.random.u8(..) < 40 { 1 } else { 60 };
        self.plan(Event::Publish, Duration::from_secs(pause));
    }

    fn copy(&mut self, role: Role, version: u64) {
        let upstream = &mut self.upstreams[role as usize];
        upstream.version = upstream.version.max(version);
        let told = self
            .sockets
            .iter()
            .filter(|(_, socket)| socket.role == role);
        for id in told.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.plan(Event::Change(id), LATENCY_MAX);
        }
    }

    fn set_fault(&mut self, role: Role, fault: Fault) {
        let upstream = &mut self.upstreams[role as usize];
        let was = std::mem::replace(&mut upstream.fault, fault);
        upstream.fails_left = self.random.u32(1..5);
        let sockets = self.sockets.iter_mut();
        let sockets = sockets.filter(|(_, socket)| socket.role == role && socket.is_open);
        let mut plans = Vec::new();
        for (id, socket) in sockets {
            match fault {
                Fault::Killed => {
                    socket.is_zombie = true;
                    plans.push((Event::Drop(*id), LATENCY_MAX));
                }
                Fault::TcpOnly => socket.is_zombie = true,
                Fault::Dropping => {
                    plans.push((Event::DropIfFaulty(*id), Duration::from_secs(8)));
                }
                _ if socket.has_missed && !fault.is_mute() => {
                    socket.has_missed = false;
                    plans.push((Event::Change(*id), LATENCY_MAX));
                }
                _ => {}
            }
        }
        for (event, within) in plans {
            self.plan(event, within);
        }
        if was == Fault::ClockNotSet && fault != Fault::ClockNotSet {
            self.shadow.failed_dials = 0;
            self.shadow.probed = None;
            self.session.handle_clock_jump(self.now);
        }
    }
}
