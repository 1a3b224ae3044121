//! One node: what it runs, and what its disk holds.

use super::links::{Content, Push};
use super::plan::{self, BEGIN_MS};
use staffetta::limits::{Limits, Region};
use staffetta::model::Digest;
use staffetta::model::region::{Head, Record};
use staffetta::state::region::{
    AskId, Mark, Now, Origin, Precondition, RequestId, Routing, Setting, SubjectIndex, Write,
};
use staffetta::time::{Duration, Instant, WallMs};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// What survives a crash.
#[derive(Default)]
pub struct Disk {
    pub record: Option<Rc<Record>>,
    pub marks: Vec<Mark>,
    pub contents: Vec<Content>,
    pub orphans: Vec<Vec<u64>>,
}

/// What the disk is doing.
#[derive(Clone)]
pub enum Job {
    Mark {
        subject: SubjectIndex,
        mark: Mark,
    },
    Apply {
        id: RequestId,
        push: Push,
        head: Head,
    },
    Adopt {
        subject: u16,
        is_fork: bool,
        content: Content,
    },
}

/// Where the answer to a request goes.
#[derive(Clone, Copy)]
pub enum ReplyTo {
    Client {
        due_us: u64,
    },
    Peer {
        node: usize,
        boot: u64,
        id: RequestId,
    },
}

pub struct Asker {
    pub node: usize,
    pub boot: u64,
    pub id: AskId,
    pub after: (u64, u64),
    pub until_us: u64,
}

pub struct Node {
    pub skew_ms: i64,
    pub boot: u64,
    pub routing: Option<Routing>,
    pub disk: Disk,
    pub jobs: VecDeque<Job>,
    pub disk_free_us: u64,
    pub requests: BTreeMap<RequestId, (Push, ReplyTo)>,
    pub askers: Vec<Asker>,
    pub wake: u64,
}

impl Node {
    pub fn new(skew_ms: i64, record: Rc<Record>) -> Node {
        let subjects = plan::subjects();
        Node {
            skew_ms,
            boot: 0,
            routing: None,
            disk: Disk {
                record: Some(record),
                marks: subjects.iter().map(|_| Mark::default()).collect(),
                contents: subjects.iter().map(|_| Content::default()).collect(),
                orphans: Vec::new(),
            },
            jobs: VecDeque::new(),
            disk_free_us: 0,
            requests: BTreeMap::new(),
            askers: Vec::new(),
            wake: 0,
        }
    }

    pub fn now(&self, time_us: u64) -> Now {
        let millis = (BEGIN_MS + time_us / 1_000) as i64 + self.skew_ms;
        Now {
            instant: Instant::from_micros(time_us + 1),
            wall: WallMs::from_unix_ms(millis as u64),
        }
    }

    pub fn start(&mut self, index: usize, limits: &Rc<Limits>, time_us: u64) {
        let now = self.now(time_us);
        let record = self.disk.record.clone().expect("records are never lost");
        let stored = self.disk.marks.iter().zip(&self.disk.contents);
        let subjects = plan::subjects().into_iter().zip(stored);
        let setting = Setting {
            name: record.nodes[index].name.clone(),
            boot: self.boot,
            wall_floor: WallMs::from_unix_ms(BEGIN_MS - 100_000),
            subjects: subjects
                .map(|(subject, (mark, content))| (subject, *mark, content.head))
                .collect(),
            has_upstream: false,
            random_seed: index as u64 ^ self.boot << 8,
        };
        let mut routing = Routing::new(setting, limits.clone(), now);
        routing.adopt(record, None, now);
        self.routing = Some(routing);
        self.disk_free_us = time_us;
    }

    /// Dies; the disk had done the first `done` of its jobs.
    pub fn crash(&mut self, done: usize) -> Vec<Push> {
        self.boot += 1;
        self.routing = None;
        self.requests.clear();
        self.askers.clear();
        let jobs: Vec<Job> = self.jobs.drain(..).take(done).collect();
        jobs.into_iter()
            .filter_map(|job| self.disk.perform(job))
            .collect()
    }
}

impl Disk {
    /// Does a job; the push that it stored, if that was it.
    pub fn perform(&mut self, job: Job) -> Option<Push> {
        match job {
            Job::Mark { subject, mark } => {
                self.marks[usize::from(subject.0)] = mark;
                None
            }
            Job::Apply { push, head, .. } => {
                let content = &mut self.contents[usize::from(push.subject)];
                content.pushes.push(push.number);
                content.head = head;
                Some(push)
            }
            Job::Adopt {
                subject,
                is_fork,
                content,
            } => {
                let held = &mut self.contents[usize::from(subject)];
                let before = std::mem::replace(held, content);
                if is_fork {
                    self.orphans.push(before.pushes);
                }
                None
            }
        }
    }
}

/// The content of a push, in short.
pub fn digest(push: Push) -> Digest {
    let mut digest = Digest::default();
    digest.0[..8].copy_from_slice(&push.number.to_le_bytes());
    digest
}

pub fn write(push: Push, origin: Origin, is_route: bool) -> Write {
    Write {
        subject: SubjectIndex(push.subject),
        origin,
        bytes: 1_000,
        digest: (!is_route).then(|| digest(push)),
        precondition: Precondition::None,
        key: Some(push.number.to_string().into()),
    }
}

/// The same bounds, with less to wait for.
pub fn limits() -> Rc<Limits> {
    const SHORT: Region = Region {
        settle: Duration::from_millis(300),
        ask_timeout: Duration::from_millis(400),
        wait: Duration::from_millis(1_000),
        tilt_wait: Duration::from_millis(500),
        ..Region::PRODUCTION
    };
    Rc::new(Limits {
        region: &SHORT,
        ..Limits::PRODUCTION
    })
}
