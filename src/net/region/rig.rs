//! Several relays of one cluster in memory, for the tests of this room.
//!
//! Owns a relay for each name, made and started by the code of the real start from a config on the
//! disk, with a clock and an executor of its own; what one sends to another goes by pipes. Nothing
//! here waits: a test says what is sent and how much time goes by, lets every task run until none
//! can, and looks at what came of it.
//!
//! The route `/orders` of each is a region's, and leads to a server of its own, which the test
//! plays.
//!
//! A relay that is stopped is not run any more and takes no connection, as after a power cut; one
//! that is parted from another is there, and what they say to each other from then on is lost.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::rc::Rc;

use smol::LocalExecutor;

use crate::config::{Endpoint, Environment};
use crate::limits::{Limits, Region as Bounds};
use crate::net::clock::{Clock, Hands};
use crate::net::connection::{Connection, Door};
use crate::net::disk::Disk;
use crate::net::disk::scratch::Scratch;
use crate::net::driver::Driver;
use crate::net::io::Io;
use crate::net::load::{self, Origin};
use crate::net::log::{Format, Lines, Log};
use crate::net::notify::Notify;
use crate::net::pipe::{self, End, Manners};
use crate::net::upstream::Net;
use crate::net::{http, start};
use crate::time::{Duration, Wall};
use crate::wire::region::pack;

use super::record::{self, Outcome, Refusal};

/// What peers show each other.
pub const PEER_KEY: &str = "a-peer-key-of-thirty-two-letters";
/// What every clock shows at first: 2027-01-15T08:00:00Z.
pub const BEGIN: Wall = Wall::from_unix(1_800_000_000);
/// What the names of relays begin with that have an upstream, which nobody ever reaches.
pub const DELIVERS: &str = "up-";
/// Time goes by in steps, so that what is due happens in its order.
const STEP: Duration = Duration::from_millis(10);

/// The bounds that ship, with less to wait for.
pub const SHORT: Bounds = Bounds {
    settle: Duration::from_millis(300),
    ..Bounds::PRODUCTION
};

/// The same.
pub fn limits() -> Limits {
    Limits {
        region: &SHORT,
        ..Limits::PRODUCTION
    }
}

/// One relay.
pub struct Site {
    pub driver: Rc<Driver>,
    pub lines: Lines,
    pub hands: Hands,
    executor: Rc<LocalExecutor<'static>>,
    is_running: bool,
}

/// All of them.
pub struct Sites {
    names: Vec<&'static str>,
    sites: Rc<RefCell<Vec<Site>>>,
    cuts: Rc<RefCell<Cuts>>,
    asked: Rc<RefCell<VecDeque<(usize, End)>>>,
    limits: Limits,
    scratch: Scratch,
}

/// Pairs that are parted, and what has nobody to read it.
#[derive(Default)]
struct Cuts {
    pairs: BTreeSet<(usize, usize)>,
    lost: Vec<End>,
}

impl Sites {
    /// Relays of these names, without a record. `test` names their folder. The slots `c/e` and
    /// `c/f` are the operator's; the client key is `secret`.
    pub fn new(test: &str, names: &[&'static str]) -> Sites {
        Sites::with(test, names, limits())
    }

    /// The same with other bounds.
    pub fn with(test: &str, names: &[&'static str], limits: Limits) -> Sites {
        let sites = Sites {
            names: names.to_vec(),
            sites: Rc::default(),
            cuts: Rc::default(),
            asked: Rc::default(),
            limits,
            scratch: Scratch::new(test),
        };
        for (index, name) in names.iter().enumerate() {
            // cannot fail: the folder above is new
            std::fs::create_dir(sites.scratch.path(name)).unwrap();
            let site = sites.start(index, BEGIN);
            sites.sites.borrow_mut().push(site);
        }
        for index in 0..names.len() {
            sites.read_own(index);
        }
        sites
    }

    fn start(&self, index: usize, wall: Wall) -> Site {
        let limits = &self.limits;
        let (clock, hands) = Clock::virtual_at(wall);
        let executor = Rc::new(LocalExecutor::new());
        let (log, lines) = Log::memory(clock.clone(), Format::Plain, limits);
        let (disk, lane) = Disk::new(limits);
        executor.spawn(lane.run_here()).detach();
        let mut net = start::net(clock, limits.clone(), disk, &executor);
        self.connect_to_others(&mut net, index);
        let loaded = load::load(self.origin(index), limits);
        // cannot fail: the config is below
        let loaded = loaded.unwrap();
        let log = (log, Notify::default());
        let driver = start::driver(loaded, net, log, executor.clone());
        let task = driver.clone();
        driver.spawn(async move { task.run().await });
        Site {
            driver,
            lines,
            hands,
            executor,
            is_running: true,
        }
    }

    fn origin(&self, index: usize) -> Origin {
        let name = self.names[index];
        let path = self.scratch.path(&format!("{name}.json"));
        let upstream = match name.starts_with(DELIVERS) {
            true => {
                r#""upstream": { "primary": { "url": "http://service.test", "api_key": "k" } },"#
            }
            false => "",
        };
        let config = format!(
            r#"{{
            {upstream}
            "instance": {{ "guid": "g-1" }},
            "client_keys": [ {{ "id": "k", "key": "secret" }} ],
            "slots": [
                {{ "collection": "c", "environment": "e", "source": "operator" }},
                {{ "collection": "c", "environment": "f", "source": "operator" }}
            ],
            "state_dir": {:?},
            "region": {{ "node": "{name}", "trust": "none", "peer_key": "{PEER_KEY}" }},
            "ReverseProxy": {{
                "Routes": {{ "r": {{ "ClusterId": "a", "Match": {{ "Path": "/orders/{{**rest}}" }},
                    "Metadata": {{ "RegionSlot": "orders" }} }} }},
                "Clusters": {{ "a": {{ "Destinations": {{ "d": {{
                    "Address": "http://{name}.app" }} }} }} }}
            }}
            }}"#,
            self.scratch.path(name)
        );
        // cannot fail: the folder is the test's own
        std::fs::write(&path, config).unwrap();
        let environment = Environment::new(&path, None, None);
        Origin { path, environment }
    }

    fn connect_to_others(&self, net: &mut Net, from: usize) {
        let (names, sites, cuts) = (self.names.clone(), self.sites.clone(), self.cuts.clone());
        let asked = self.asked.clone();
        net.pipes = Some(Rc::new(move |endpoint: &Endpoint| {
            let host = endpoint.host.to_string();
            let (near, far) = pipe::pair(Manners {
                capacity_bytes: 1 << 16,
                step_bytes: 1 << 14,
            });
            if host.ends_with(".app") {
                asked.borrow_mut().push_back((from, far));
                return Ok(near);
            }
            let is_its = |name: &&str| host.ends_with(&url_host(name));
            let found = names.iter().position(is_its);
            let to = found.ok_or(io::ErrorKind::NotFound)?;
            let sites = sites.borrow();
            let site = sites.get(to).filter(|site| site.is_running);
            let site = site.ok_or(io::ErrorKind::ConnectionRefused)?;
            let mut cuts = cuts.borrow_mut();
            match cuts.pairs.contains(&pair(from, to)) {
                true => cuts.lost.push(far),
                false => serve(site, Door::Sdk, far),
            }
            Ok(near)
        }));
    }

    /// Has a relay read what is its own on the disk, as at every start.
    fn read_own(&self, index: usize) {
        let driver = self.driver(index);
        let (done, started) = smol::channel::bounded(1);
        let task = driver.clone();
        driver.spawn(async move {
            let outcome = start::content(&task).await;
            // cannot fail: there is one place, for this
            done.try_send(outcome.is_ok()).unwrap();
        });
        self.settle();
        let is_started = started.try_recv() == Ok(true);
        assert!(is_started, "{}", self.names[index]);
    }

    /// The driver of one relay.
    pub fn driver(&self, index: usize) -> Rc<Driver> {
        self.sites.borrow()[index].driver.clone()
    }

    /// What one has logged since the last call.
    pub fn lines(&self, index: usize) -> String {
        self.sites.borrow()[index].lines.take()
    }

    /// Where one keeps its state.
    pub fn folder(&self, index: usize) -> PathBuf {
        self.scratch.path(self.names[index])
    }

    // Time.

    /// Lets one task of one relay run once; `false` when none can.
    pub fn step(&self, index: usize) -> bool {
        let executor = self.sites.borrow()[index].executor.clone();
        executor.try_tick()
    }

    /// Lets every task run until none can.
    pub fn settle(&self) {
        loop {
            let executors: Vec<_> = {
                let sites = self.sites.borrow();
                let running = sites.iter().filter(|site| site.is_running);
                running.map(|site| site.executor.clone()).collect()
            };
            // Not one after the other: all of them are asked each time.
            let ticked = executors.iter().filter(|executor| executor.try_tick());
            if ticked.count() == 0 {
                return;
            }
        }
    }

    /// Lets time go by everywhere, and what is due then happen.
    pub fn advance(&self, duration: Duration) {
        let mut left = duration;
        while !left.is_zero() {
            let step = left.min(STEP);
            left -= step;
            for site in self.sites.borrow().iter() {
                site.hands.advance(step);
                site.driver.wake();
            }
            self.settle();
        }
    }

    /// Sets the wall clock of one relay, as a clock server does.
    pub fn set_wall(&self, index: usize, wall: Wall) {
        self.sites.borrow()[index].hands.set_wall(wall);
    }

    // Faults.

    /// Loses what these two say to each other from now on.
    pub fn cut(&self, one: usize, other: usize) {
        self.cuts.borrow_mut().pairs.insert(pair(one, other));
    }

    /// Lets all reach each other.
    pub fn heal(&self) {
        self.cuts.borrow_mut().pairs.clear();
    }

    /// Ends a relay without a word; its folder is free.
    pub fn stop(&self, index: usize) {
        let site = &mut self.sites.borrow_mut()[index];
        site.is_running = false;
        drop(site.driver.keep.take());
    }

    /// Starts it again, from what its folder holds.
    pub fn restart(&self, index: usize) {
        let wall = self.sites.borrow()[index].driver.clock.wall();
        let site = self.start(index, wall);
        self.sites.borrow_mut()[index] = site;
        self.read_own(index);
    }

    // Requests.

    /// A client that has connected to one relay.
    pub fn connect(&self, index: usize, door: Door) -> End {
        let (near, far) = pipe::pair(Manners {
            capacity_bytes: 1 << 23,
            step_bytes: 1 << 23,
        });
        serve(&self.sites.borrow()[index], door, near);
        far
    }

    /// Sends `bytes` to one relay on a connection of their own; what came back at once.
    pub fn ask(&self, index: usize, door: Door, bytes: &[u8]) -> String {
        let mut client = self.connect(index, door);
        self.send(&mut client, bytes);
        self.read(&mut client)
    }

    /// Sends `bytes`, and lets every task run until none can.
    pub fn send(&self, client: &mut End, bytes: &[u8]) {
        self.send_only(client, bytes);
        self.settle();
    }

    /// Sends `bytes`, and lets nobody run.
    pub fn send_only(&self, client: &mut End, bytes: &[u8]) {
        // cannot fail: a pipe takes all that a test sends
        assert_eq!(client.write(&[IoSlice::new(bytes)]).unwrap(), bytes.len());
    }

    /// What has come back by now; nobody runs.
    pub fn read_only(&self, client: &mut End) -> String {
        let mut buffer = [0; 4096];
        let count = client.read(&mut buffer).unwrap_or(0);
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    }

    /// What has come back.
    pub fn read(&self, client: &mut End) -> String {
        let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = client.read(&mut buffer) {
            answer.extend_from_slice(&buffer[..count]);
            self.settle();
        }
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// The next connection to a server behind a relay: which relay's, and the server's end.
    pub fn accept(&self) -> Option<(usize, End)> {
        self.asked.borrow_mut().pop_front()
    }

    /// Brings a state record to one relay, as its operator does.
    pub fn bring(&self, index: usize, document: &str) -> Result<Outcome, Refusal> {
        let driver = self.driver(index);
        let envelope = pack(document.as_bytes(), None).into_bytes();
        let (done, offered) = smol::channel::bounded(1);
        let task = driver.clone();
        driver.spawn(async move {
            let outcome = record::offer(&task, envelope, record::Origin::Admin).await;
            // cannot fail: there is one place, for this
            done.try_send(outcome).unwrap();
        });
        self.settle();
        // cannot fail: nothing that is waited for takes time here
        offered.try_recv().unwrap()
    }
}

fn serve(site: &Site, door: Door, end: End) {
    let connection = Connection::new(site.driver.clone(), door, Io::new(end));
    site.driver.spawn(http::serve(connection));
}

fn pair(one: usize, other: usize) -> (usize, usize) {
    (one.min(other), one.max(other))
}

/// The host in a node's URL; names below it lead there too.
fn url_host(name: &str) -> String {
    format!("{name}.test")
}

/// A record of a site for each name, the first of which is primary for everything in epoch 5.
/// `switches` is the text of the list.
pub fn document(version: u64, names: &[&str], switches: &str) -> String {
    let regions: Vec<String> = names
        .iter()
        .map(|name| {
            let url = format!("http://{}:7070", url_host(name));
            format!(r#""r-{name}": {{ "writer": "{name}", "nodes": {{ "{name}": "{url}" }} }}"#)
        })
        .collect();
    format!(
        r#"{{
        "schema": "staffetta.region/1", "cluster": "plant", "version": {version},
        "issued_at": "2027-01-15T07:00:00Z",
        "timing": {{ "max_skew_ms": 200, "guard_ms": 200, "grace_ms": 300, "drain_ms": 100,
                     "hold_ms": 2000, "poll_ms": 200 }},
        "regions": {{ {} }},
        "slots": [ {{ "match": {{}}, "primary": "r-{}", "epoch": 5, "switches": [{switches}] }} ]
        }}"#,
        regions.join(", "),
        names[0]
    )
}
