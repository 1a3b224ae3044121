//! All sites, their clients and their faults; and what must hold.

mod mail;
mod orders;
mod verdict;

use super::links::{Content, Links, Message, Push, Reply, What};
use super::node::{self, Asker, Job, Node, ReplyTo};
use super::plan::{Plan, SPAN_MS, TIMING};
use fastrand::Rng;
use staffetta::limits::Limits;
use staffetta::model::region::{Outcome, Phase, Record};
use staffetta::state::region::{
    Answer, Applied, Follow, Forwarded, Incoming, Note, Order, Origin, RequestId, SubjectIndex,
    Verdict,
};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

const SUBJECTS: u16 = 3;
const ROUTE: u16 = 2;
/// A client hears at the latest so long after the time is up.
const SLACK_US: u64 = 2_000;

enum Event {
    Wake {
        node: usize,
        wake: u64,
    },
    Arrive(Message),
    Disk {
        node: usize,
        boot: u64,
    },
    /// The local server behind a route is done.
    Server {
        node: usize,
        boot: u64,
        id: RequestId,
    },
    Push,
    Follow(usize),
    Expire(usize),
    Crash,
    Restart(usize),
    Cut,
    Heal,
    Bring,
}

/// What came of a world.
#[derive(Default)]
pub struct Told {
    pub overlaps: u64,
    pub entered: u64,
    pub unsealed: u64,
    pub orphans: usize,
    pub refused: u64,
}

pub struct Sites {
    seed: u64,
    random: Rng,
    limits: Rc<Limits>,
    nodes: Vec<Node>,
    links: Links,
    later: Option<Rc<Record>>,
    stalls: bool,
    compares_clocks: bool,
    time_us: u64,
    serial: u64,
    events: BTreeMap<(u64, u64), Event>,
    pushes: u64,
    acknowledged: BTreeSet<Push>,
    applied: BTreeMap<u64, u64>,
    told: Told,
    /// Records differed for a moment: what follows from that is promised by nobody.
    has_differed: bool,
}

impl Sites {
    pub fn new(plan: Plan) -> Sites {
        let record = Rc::new(plan.record);
        let node = |skew: &i64| Node::new(*skew, record.clone());
        let mut sites = Sites {
            seed: plan.seed,
            random: plan.random,
            limits: node::limits(),
            nodes: plan.skews_ms.iter().map(node).collect(),
            links: Links {
                lost: plan.lost,
                ..Links::default()
            },
            later: None,
            stalls: plan.stalls,
            compares_clocks: plan.compares_clocks,
            time_us: 0,
            serial: 0,
            events: BTreeMap::new(),
            pushes: 1,
            acknowledged: BTreeSet::new(),
            applied: BTreeMap::new(),
            told: Told::default(),
            has_differed: false,
        };
        for index in 0..sites.nodes.len() {
            sites.after(0, Event::Restart(index));
            sites.after(1_000, Event::Follow(index));
        }
        for _ in 0..plan.faults {
            let at = sites.random.u64(0..SPAN_MS) * 1_000;
            let event = if sites.random.bool() {
                Event::Crash
            } else {
                Event::Cut
            };
            sites.after(at, event);
        }
        if let Some((at_ms, later)) = plan.later {
            sites.later = Some(Rc::new(later));
            sites.after(at_ms * 1_000, Event::Bring);
        }
        sites.after(1_000_000, Event::Push);
        sites
    }

    /// Lives until writes have ended and all is quiet, and looks.
    pub fn run(mut self) -> Told {
        self.run_until(SPAN_MS * 1_000);
        self.links.heal();
        self.links.lost = 0;
        for index in 0..self.nodes.len() {
            if self.nodes[index].routing.is_none() {
                self.handle(Event::Restart(index));
            }
        }
        self.run_until((SPAN_MS + 2_000) * 1_000);
        self.check();
        self.told.orphans = self.nodes.iter().map(|node| node.disk.orphans.len()).sum();
        self.told
    }

    fn run_until(&mut self, end_us: u64) {
        while let Some(((at, _), event)) = self.events.pop_first() {
            if at > end_us {
                self.serial += 1;
                self.events.insert((at, self.serial), event);
                break;
            }
            self.time_us = at;
            self.handle(event);
            self.count_primaries();
        }
        self.time_us = end_us;
    }

    fn after(&mut self, micros: u64, event: Event) {
        self.serial += 1;
        self.events
            .insert((self.time_us + micros, self.serial), event);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Wake { node, wake } if self.nodes[node].wake == wake => self.drive(node),
            Event::Wake { .. } => {}
            Event::Arrive(message) => self.arrive(message),
            Event::Disk { node, boot } => self.disk_done(node, boot),
            Event::Server { node, boot, id } if self.nodes[node].boot == boot => {
                self.applied(node, id, Applied::Passed);
            }
            Event::Server { .. } => {}
            Event::Push => self.push(),
            Event::Follow(node) => self.follow(node),
            Event::Expire(node) => self.tell(node),
            Event::Crash => self.crash(),
            Event::Restart(node) => {
                let time_us = self.time_us;
                if self.nodes[node].routing.is_none() {
                    self.nodes[node].start(node, &self.limits, time_us);
                }
                self.drive(node);
            }
            Event::Cut => {
                let count = self.nodes.len();
                let one = self.random.usize(0..count);
                for other in 0..count {
                    if other != one && self.random.u32(0..4) > 0 {
                        self.links.cut(one, other);
                    }
                }
                let lasts = self.random.u64(100_000..4_000_000);
                self.after(lasts, Event::Heal);
            }
            Event::Heal => self.links.heal(),
            Event::Bring => {
                let node = self.random.usize(0..self.nodes.len());
                if let Some(later) = self.later.clone() {
                    self.bring(node, later);
                }
            }
        }
    }

    /// Carries out what a node orders, until it has nothing more to say.
    fn drive(&mut self, node: usize) {
        let now = self.nodes[node].now(self.time_us);
        loop {
            let Some(routing) = &mut self.nodes[node].routing else {
                return;
            };
            let Some(order) = routing.poll_output(now) else {
                break;
            };
            self.carry_out(node, order);
        }
        let Some(routing) = &mut self.nodes[node].routing else {
            return;
        };
        while let Some(note) = routing.poll_note() {
            match note {
                Note::Phase { phase, .. } => self.told.entered += u64::from(phase == Phase::Active),
                Note::TakenOver { .. } => self.told.unsealed += 1,
                Note::Contradiction { .. } => panic!("two contents: seed {}", self.seed),
                Note::Refused { .. } | Note::RecordRefused(_) | Note::Tilted { .. } => {}
            }
        }
        if let Some((at, wake)) = routing.poll_timeout(now) {
            assert!(
                at > now.instant,
                "a wake-up for nothing: {wake:?}, seed {}",
                self.seed
            );
            self.nodes[node].wake += 1;
            let wake = self.nodes[node].wake;
            let delay = at.since(now.instant).as_micros() as u64;
            self.after(delay, Event::Wake { node, wake });
        }
        self.tell(node);
    }

    fn push(&mut self) {
        let node = self.random.usize(0..self.nodes.len());
        let push = Push {
            number: self.pushes,
            subject: self.random.u16(0..SUBJECTS),
        };
        self.pushes += 1;
        if self.time_us + 50_000 < SPAN_MS * 1_000 {
            let wait = self.random.u64(20_000..100_000);
            self.after(wait, Event::Push);
        }
        let now = self.nodes[node].now(self.time_us);
        let Some(routing) = &mut self.nodes[node].routing else {
            return;
        };
        let origin = Origin::Client { may_forward: true };
        let write = node::write(push, origin, push.subject == ROUTE);
        match routing.accept(write, now) {
            Ok(id) => {
                let due_us = self.time_us + TIMING.hold.as_micros() as u64;
                let reply_to = ReplyTo::Client { due_us };
                self.nodes[node].requests.insert(id, (push, reply_to));
                self.drive(node);
            }
            Err(_) => self.told.refused += 1,
        }
    }

    fn follow(&mut self, node: usize) {
        for subject in 0..ROUTE {
            let routing = self.nodes[node].routing.as_ref();
            let followed = routing.and_then(|routing| routing.followed(SubjectIndex(subject)));
            if let Some(followed) = followed {
                let is_pull = false;
                self.send(
                    node,
                    usize::from(followed.0),
                    What::Fetch { subject, is_pull },
                );
            }
        }
        let wait = self.random.u64(150_000..350_000);
        self.after(wait, Event::Follow(node));
    }

    fn bring(&mut self, node: usize, record: Rc<Record>) {
        let now = self.nodes[node].now(self.time_us);
        let Node { routing, disk, .. } = &mut self.nodes[node];
        if let Some(routing) = routing
            && routing.judge(&record, now) == Verdict::Adopt
        {
            disk.record = Some(record.clone());
            routing.adopt(record, None, now);
        }
        self.drive(node);
    }

    fn crash(&mut self) {
        let node = self.random.usize(0..self.nodes.len());
        if self.nodes[node].routing.is_none() {
            return;
        }
        let done = self.random.usize(0..=self.nodes[node].jobs.len());
        for push in self.nodes[node].crash(done) {
            *self.applied.entry(push.number).or_default() += 1;
        }
        let down = self.random.u64(50_000..3_500_000);
        self.after(down, Event::Restart(node));
    }
}
