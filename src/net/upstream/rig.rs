//! An upstream in memory, for the tests of this room.
//!
//! Owns a [`Net`] whose connections are pipes and whose clock the test moves. Nothing here waits: a
//! test takes the far end of a connection, looks at what was asked, says what is answered, and lets
//! every task run until none can.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::io::IoSlice;
use std::rc::Rc;

use smol::{LocalExecutor, Task};

use crate::config::{Endpoint, Secret, SecretSource, UpstreamConfig};
use crate::limits::Limits;
use crate::model::{Id, SlotKey};
use crate::net::clock::{Clock, Hands};
use crate::net::disk::Disk;
use crate::net::pipe::{self, End, Manners};
use crate::time::{Duration, Wall};

use super::client::{Net, Trust, Upstream};
use super::dial::Way;
use super::resolve::Resolver;

/// What connects, and the far ends of its connections.
pub struct Rig {
    pub net: Rc<Net>,
    pub executor: Rc<LocalExecutor<'static>>,
    pub hands: Hands,
    accepted: Rc<RefCell<VecDeque<(String, End)>>>,
}

impl Rig {
    /// Pipes that carry everything at once.
    pub fn new() -> Rig {
        Rig::with(Limits::PRODUCTION, 1 << 20)
    }

    /// Pipes that move `step_bytes` at a time.
    pub fn with(limits: Limits, step_bytes: usize) -> Rig {
        let (clock, hands) = Clock::virtual_at(Wall::from_unix(1_796_004_000));
        let executor = Rc::new(LocalExecutor::new());
        let (disk, disk_lane) = Disk::new(&limits);
        let (resolver, name_lane) = Resolver::new(&limits);
        executor.spawn(disk_lane.run()).detach();
        executor.spawn(name_lane.run()).detach();
        let accepted: Rc<RefCell<VecDeque<(String, End)>>> = Rc::default();
        let arriving = accepted.clone();
        let mut net = Net::new(clock, limits, resolver, disk, 1);
        net.pipes = Some(Rc::new(move |endpoint: &Endpoint| {
            let (near, far) = pipe::pair(Manners {
                capacity_bytes: 1 << 20,
                step_bytes,
            });
            let mut arriving = arriving.borrow_mut();
            arriving.push_back((endpoint.to_string(), far));
            Ok(near)
        }));
        Rig {
            net: Rc::new(net),
            executor,
            hands,
            accepted,
        }
    }

    /// Starts `work`, and lets every task run until none can.
    pub fn start<T: 'static>(&self, work: impl Future<Output = T> + 'static) -> Task<T> {
        let task = self.executor.spawn(work);
        self.settle();
        task
    }

    /// Lets every task run until none can.
    pub fn settle(&self) {
        while self.executor.try_tick() {}
    }

    /// Lets time go by, and what is due then happen.
    pub fn advance(&self, duration: Duration) {
        self.hands.advance(duration);
        self.settle();
    }

    /// The next connection that was made: where to, and its far end.
    pub fn accept(&self) -> (String, End) {
        self.try_accept().expect("a connection") // cannot fail: tests know what connects
    }

    /// The same, if there is one.
    pub fn try_accept(&self) -> Option<(String, End)> {
        self.accepted.borrow_mut().pop_front()
    }

    /// What was sent to `end` so far, as text.
    pub fn hear(&self, end: &mut End) -> String {
        String::from_utf8_lossy(&self.hear_bytes(end)).into_owned()
    }

    /// The same for what is no text.
    pub fn hear_bytes(&self, end: &mut End) -> Vec<u8> {
        let (mut heard, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = end.read(&mut buffer) {
            heard.extend_from_slice(&buffer[..count]);
            self.settle();
        }
        heard
    }

    /// Sends all of `bytes`.
    pub fn say(&self, end: &mut End, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let Ok(count) = end.write(&[IoSlice::new(rest)]) else {
                return;
            };
            rest = &rest[count..];
            self.settle();
        }
    }

    /// What `task` came to.
    pub fn take<T>(&self, task: Task<T>) -> T {
        assert!(task.is_finished(), "it still waits");
        smol::block_on(task)
    }
}

/// The way to `url` without a proxy.
pub fn way(url: &str) -> Way {
    Way {
        endpoint: Endpoint::parse(url).unwrap(), // cannot fail: tests write whole URLs
        proxy: None,
        trust: Trust::System,
    }
}

/// An upstream at `url`, as it is configured.
pub fn setting(url: &str) -> UpstreamConfig {
    let key = Secret::new(b"a key").unwrap(); // cannot fail: it is not empty
    UpstreamConfig {
        url: Endpoint::parse(url).unwrap(), // cannot fail: tests write whole URLs
        guid: Id::new("g-1").unwrap(),      // cannot fail: that is an id
        api_key: SecretSource::Inline(key),
        iam_url: None,
        ca_file: None,
        proxy: None,
    }
}

/// An upstream at `url`.
pub fn upstream(url: &str) -> Rc<Upstream> {
    Rc::new(Upstream::new(&setting(url), Secret::new(b"a key")))
}

/// The slot that tests ask for.
pub fn slot() -> SlotKey {
    SlotKey::parse("c/e").unwrap() // cannot fail: that is a slot
}
