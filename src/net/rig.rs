//! A driver and its clients in memory, for the tests of this room.
//!
//! Owns a driver of two slots, whose clock the test moves, and the far ends of its clients' pipes.
//! Nothing here waits: a test says what is sent, lets every task run until none can, and looks at
//! what came back.

use std::rc::Rc;

use smol::LocalExecutor;

use crate::config::{Config, Environment};
use crate::limits::Limits;
use crate::model::{SlotKey, Snapshot};
use crate::state::access::{AllowedSlots, LoadedKey, TokenForm};
use crate::state::relay::Relay;
use crate::time::{Duration, Wall};
use crate::wire::iam;
use crate::wire::seed::Seed;

use super::clock::{Clock, Hands};
use super::connection::{Connection, Door};
use super::disk::Disk;
use super::driver::{Driver, Parts};
use super::http;
use super::io::Io;
use super::load::{Loaded, Origin};
use super::log::{Format, Lines, Log};
use super::notify::Notify;
use super::pipe::{self, End, Manners};
use super::proxy::Proxy;
use super::start;
use super::upstream::{Net, Resolver};

const CONFIG: &[u8] = br#"{
    "instance": { "guid": "g-1" },
    "client_keys": [ { "id": "k", "key": "secret" } ],
    "slots": [
        { "collection": "c", "environment": "e" },
        { "collection": "c", "environment": "f" }
    ]
}"#;

/// A document that the slot `c/e` can be made of: one property, of this value.
pub fn content(marker: &str) -> String {
    format!(
        r#"{{"environments":[{{"environment_id":"e","name":"E","features":[],"properties":[
        {{"property_id":"p","name":"P","type":"STRING","format":"TEXT","value":"{marker}",
        "segment_rules":[]}}]}}],"collections":[{{"collection_id":"c","name":"C"}}],
        "segments":[]}}"#
    )
}

/// What `c/e` is made of such a document.
pub fn snapshot(marker: &str) -> Snapshot {
    let (text, limits) = (content(marker), Limits::PRODUCTION);
    // cannot fail: it is right there
    let key = SlotKey::parse("c/e").unwrap();
    // cannot fail: it is above
    let seed = Seed::parse(text.as_bytes(), &limits).unwrap();
    // cannot fail: it has the slot
    seed.snapshot(&key, &limits).unwrap()
}

/// A driver that runs whenever it is let.
pub struct Rig {
    pub driver: Rc<Driver>,
    pub lines: Lines,
    executor: Rc<LocalExecutor<'static>>,
    hands: Hands,
}

impl Rig {
    /// A relay of the slots `c/e` and `c/f` without content, and the client key `secret`.
    pub fn new(limits: Limits) -> Rig {
        Rig::with(limits, Notify::default(), |_| {})
    }

    /// The same with a service manager.
    pub fn watched(limits: Limits, notify: Notify) -> Rig {
        Rig::with(limits, notify, |_| {})
    }

    /// The same, with a configuration that is edited first.
    pub fn with(limits: Limits, notify: Notify, edit: impl FnOnce(&mut Config)) -> Rig {
        let (clock, hands) = Clock::virtual_at(Wall::from_unix(1_800_000_000));
        let executor = Rc::new(LocalExecutor::new());
        let (log, lines) = Log::memory(clock.clone(), Format::Plain, &limits);
        let environment = Environment::default();
        // cannot fail: it is right there
        let mut config = Config::parse(CONFIG, &environment, &limits).unwrap();
        edit(&mut config);
        let keys = vec![LoadedKey {
            id: config.client_keys[0].id.clone(),
            secret: (*b"secret").into(),
            slots: AllowedSlots::All,
        }];
        let form = TokenForm {
            key_id: iam::peek_key_id,
            is_signed_by: iam::verify,
        };
        let mut state = Relay::new(config.slots.clone(), false, form, &limits, clock.now());
        state.access.replace(keys.clone(), 0);
        start::give_to_operator(&mut state, &config);
        let origin = Origin {
            path: "config.json".into(),
            environment,
        };
        let loaded = Loaded {
            origin,
            config,
            keys,
            unreadable: 0,
            tls: None,
            admin_token: None,
            upstreams: None,
            region: None,
            problems: Vec::new(),
        };
        let (disk, lane) = Disk::new(&limits);
        executor.spawn(lane.run_here()).detach();
        let (resolver, _) = Resolver::new(&limits);
        let net = Net::new(clock.clone(), limits.clone(), resolver, disk.clone(), 1);
        let driver = Driver::new(Parts {
            disk,
            limits,
            clock,
            log,
            notify,
            executor: executor.clone(),
            state,
            loaded: Rc::new(loaded),
            follow: None,
            proxy: Proxy::new(Rc::new(net)),
            random_seed: 1,
        });
        let task = driver.clone();
        driver.spawn(async move { task.run().await });
        Rig {
            driver,
            lines,
            executor,
            hands,
        }
    }

    /// A client that has connected, and whose socket takes what it is given.
    pub fn connect(&self, door: Door) -> End {
        self.connect_by(door, 1 << 20)
    }

    /// A client whose socket takes so many bytes before they are read.
    pub fn connect_by(&self, door: Door, capacity_bytes: usize) -> End {
        let (near, far) = pipe::pair(Manners {
            capacity_bytes,
            step_bytes: capacity_bytes,
        });
        let io = Io::new(near);
        let connection = Connection::new(self.driver.clone(), door, io);
        self.driver.spawn(http::serve(connection));
        far
    }

    /// Lets every task run until none can.
    pub fn settle(&self) {
        while self.step() {}
    }

    /// Lets one task run once; `false` when none can.
    pub fn step(&self) -> bool {
        self.executor.try_tick()
    }

    /// Lets time go by, and what is due then happen.
    pub fn advance(&self, duration: Duration) {
        self.hands.advance(duration);
        self.driver.wake();
        self.settle();
    }

    /// Sends `bytes`; what came back, and whether the relay ended the connection.
    pub fn exchange(&self, client: &mut End, bytes: &[u8]) -> (String, bool) {
        let (answer, ended) = self.exchange_bytes(client, bytes);
        (String::from_utf8_lossy(&answer).into_owned(), ended)
    }

    /// The same for what is no text.
    pub fn exchange_bytes(&self, client: &mut End, bytes: &[u8]) -> (Vec<u8>, bool) {
        // cannot fail: tests send what fits, to a relay that reads
        client.write(&[std::io::IoSlice::new(bytes)]).unwrap();
        self.settle();
        self.read(client)
    }

    /// Reads until nothing more comes: that, and whether the relay ended the connection.
    pub fn read(&self, client: &mut End) -> (Vec<u8>, bool) {
        let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            match client.read(&mut buffer) {
                Ok(count) if count > 0 => answer.extend_from_slice(&buffer[..count]),
                end => return (answer, end.is_ok()),
            }
            self.settle();
        }
    }
}
