//! One driver, its clock, and its clients.

use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use smol::LocalExecutor;

use staffetta::config::Environment;
use staffetta::limits::Limits;
use staffetta::model::{Counts, Digest, SlotIndex, Snapshot, Source};
use staffetta::net::clock::{Clock, Hands};
use staffetta::net::connection::{Connection, Door};
use staffetta::net::disk::Disk;
use staffetta::net::driver::{Driver, Parts};
use staffetta::net::http;
use staffetta::net::io::Io;
use staffetta::net::load::{Loaded, Origin};
use staffetta::net::log::{Format, Log};
use staffetta::net::notify::Notify;
use staffetta::net::pipe::{self, Manners};
use staffetta::net::proxy::Proxy;
use staffetta::net::stream;
use staffetta::net::tls;
use staffetta::net::upstream::{Net, Resolver};
use staffetta::state::access::{AllowedSlots, LoadedKey, TokenForm};
use staffetta::state::relay::Relay;
use staffetta::time::{Duration, Wall};
use staffetta::wire::iam;

use crate::client::{Client, Kind};

const SLOT: SlotIndex = SlotIndex(0);

const CONFIG: &str = r#"{
    "instance": { "guid": "g-1" },
    "client_keys": [ { "id": "k", "key": "secret" } ],
    "slots": [ { "collection": "c", "environment": "e" } ]
}"#;

/// One run.
pub struct World {
    seed: u64,
    random: fastrand::Rng,
    executor: Rc<LocalExecutor<'static>>,
    driver: Rc<Driver>,
    hands: Hands,
    trust: Option<rustls::pki_types::CertificateDer<'static>>,
    clients: Vec<Client>,
    published: u64,
}

impl World {
    /// A world of this seed; its clients speak TLS or not.
    pub fn new(seed: u64, speaks_tls: bool) -> World {
        let (clock, hands) = Clock::virtual_at(Wall::from_unix(1_800_000_000));
        let limits = Limits::PRODUCTION;
        let executor = Rc::new(LocalExecutor::new());
        let (log, _) = Log::memory(clock.clone(), Format::Plain, &limits);
        let environment = Environment::default();
        let config = staffetta::config::Config::parse(CONFIG.as_bytes(), &environment, &limits);
        let config = config.expect("the config of the simulation is right");
        let key = &config.client_keys[0];
        let keys = vec![LoadedKey {
            id: key.id.clone(),
            secret: (*b"secret").into(),
            slots: AllowedSlots::All,
        }];
        let form = TokenForm {
            key_id: iam::peek_key_id,
            is_signed_by: iam::verify,
        };
        let mut state = Relay::new(config.slots.clone(), false, form, &limits, clock.now());
        state.access.replace(keys.clone(), 0);
        let (tls, trust) = match speaks_tls {
            true => certificate(),
            false => (None, None),
        };
        let loaded = Rc::new(Loaded {
            origin: Origin {
                path: "config.json".into(),
                environment,
            },
            config,
            keys,
            unreadable: 0,
            tls,
            admin_token: None,
            upstreams: None,
            region: None,
            problems: Vec::new(),
        });
        let (disk, _lane) = Disk::new(&limits);
        let (resolver, _) = Resolver::new(&limits);
        let net = Net::new(clock.clone(), limits.clone(), resolver, disk.clone(), seed);
        let parts = Parts {
            limits,
            clock,
            log,
            notify: Notify::default(),
            disk,
            executor: executor.clone(),
            state,
            loaded,
            follow: None,
            proxy: Proxy::new(Rc::new(net)),
            random_seed: seed,
        };
        let driver = Driver::new(parts);
        let task = driver.clone();
        driver.spawn(async move { task.run().await });
        World {
            seed,
            random: fastrand::Rng::with_seed(seed),
            executor,
            driver,
            hands,
            trust,
            clients: Vec::new(),
            published: 0,
        }
    }

    /// Lives through random events, then lets everything come to rest and looks.
    pub fn run(mut self) {
        for _ in 0..self.random.usize(20..120) {
            self.step();
        }
        self.rest();
        self.check();
        self.leave_all();
    }

    fn step(&mut self) {
        match self.random.u32(0..100) {
            0..15 => self.join(),
            15..30 => self.publish(),
            30..35 => self.advance(),
            35..42 => self.one_client(|client, _| client.vanish()),
            42..50 => self.one_client(|client, _| client.ping()),
            50..52 => self.one_client(|client, _| client.close()),
            52..80 => self.one_client(|client, random| {
                client.read(random.usize(1..4_000));
            }),
            _ => self.tick(),
        }
        self.tick_some();
    }

    fn join(&mut self) {
        if self.clients.len() < 12 {
            let kind = self.random.choice(Kind::ALL).expect("there are kinds");
            let manners = self.manners();
            self.connect(kind, manners);
        }
    }

    fn manners(&mut self) -> Manners {
        let step_bytes = match self.random.bool() {
            true => 1 + self.random.usize(0..7),
            false => 1 + self.random.usize(0..3_000),
        };
        Manners {
            capacity_bytes: 1 + self.random.usize(0..5_000),
            step_bytes,
        }
    }

    fn connect(&mut self, kind: Kind, manners: Manners) {
        let (near, far) = pipe::pair(manners);
        let io = Io::new(near);
        let connection = Connection::new(self.driver.clone(), Door::Sdk, io);
        self.driver.spawn(http::serve(connection));
        self.clients
            .push(Client::new(kind, far, self.trust.clone(), self.published));
    }

    fn publish(&mut self) {
        self.published += 1;
        let json: Bytes = document(self.published, &mut self.random).into();
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&self.published.to_be_bytes());
        let snapshot = Snapshot {
            gzip: None,
            json,
            digest: Digest(digest),
            counts: Counts::default(),
            rollouts_filled: 0,
        };
        self.driver.publish(SLOT, Rc::new(snapshot), Source::Seed);
        for client in &mut self.clients {
            client.note_publication();
        }
    }

    fn advance(&mut self) {
        self.hands
            .advance(Duration::from_millis(self.random.u64(1..9_000)));
        self.driver.wake();
    }

    fn one_client(&mut self, act: impl Fn(&mut Client, &mut fastrand::Rng)) {
        if !self.clients.is_empty() {
            let number = self.random.usize(..self.clients.len());
            act(&mut self.clients[number], &mut self.random);
        }
    }

    fn tick(&mut self) {
        self.executor.try_tick();
    }

    fn tick_some(&mut self) {
        for _ in 0..self.random.usize(0..6) {
            self.tick();
        }
    }

    /// Everybody reads what comes until nothing moves any more.
    fn rest(&mut self) {
        for _ in 0..2_000_000 {
            let ticked = self.executor.try_tick();
            let mut moved = false;
            for client in &mut self.clients {
                moved |= client.read(usize::MAX) > 0;
            }
            if !ticked && !moved {
                return;
            }
        }
        panic!("seed {}: the world never comes to rest", self.seed);
    }

    fn check(&self) {
        for (number, client) in self.clients.iter().enumerate() {
            if let Err(problem) = client.check(self.published) {
                panic!(
                    "seed {}: client {number} ({:?}): {problem}",
                    self.seed, client.kind
                );
            }
        }
        let resets = self
            .clients
            .iter()
            .filter(|client| client.was_reset())
            .count() as u64;
        let reasons = self.expired() + self.driver.state.borrow().fanout.evictions();
        assert!(
            resets <= reasons,
            "seed {}: {resets} resets for {reasons} reasons",
            self.seed
        );
        let there = self
            .clients
            .iter()
            .filter(|client| client.is_streaming())
            .count();
        let counted = self.driver.state.borrow().fanout.count();
        assert_eq!(
            there, counted,
            "seed {}: the gauges are the real number",
            self.seed
        );
    }

    fn expired(&self) -> u64 {
        let state = self.driver.state.borrow();
        state.counters.expiries().map(|(_, count)| count).sum()
    }

    fn leave_all(mut self) {
        self.clients.clear();
        self.settle();
        let state = self.driver.state.borrow();
        assert_eq!(
            state.fanout.count(),
            0,
            "seed {}: nobody is left",
            self.seed
        );
        let open = self.driver.open();
        assert_eq!(
            (open.sdk, open.lobby, open.admin),
            (0, 0, 0),
            "seed {}",
            self.seed
        );
    }

    fn settle(&self) {
        while self.executor.try_tick() {}
    }

    /// Serves one client for `polls` polls of its task, cancels the task, and looks what is left.
    pub fn cancel_after(mut self, polls: usize) {
        self.publish();
        let kind = self.random.choice(Kind::ALL).expect("there are kinds");
        let manners = self.manners();
        let (near, far) = pipe::pair(manners);
        let connection = Connection::new(self.driver.clone(), Door::Sdk, Io::new(near));
        let mut client = Client::new(kind, far, None, 0);
        let mut task = Box::pin(serve_whole(connection));
        for _ in 0..polls {
            let poll = pin!(&mut task).poll(&mut Context::from_waker(Waker::noop()));
            client.read(self.random.usize(1..500));
            if self.random.u8(0..8) == 0 {
                self.publish();
                client.note_publication();
            }
            self.tick_some();
            if let Poll::Ready(()) = poll {
                break;
            }
        }
        drop(task);
        self.settle();
        self.publish();
        self.settle();
        assert_eq!(
            self.driver.state.borrow().fanout.count(),
            0,
            "seed {}",
            self.seed
        );
        assert_eq!(
            self.driver.open().sdk,
            0,
            "seed {} after {polls} polls",
            self.seed
        );
    }

    /// One client stops reading; the rest go on.
    pub fn stall(mut self) {
        for _ in 0..4 {
            let manners = Manners {
                capacity_bytes: 2_000,
                step_bytes: 700,
            };
            self.connect(Kind::Sse, manners);
        }
        self.publish();
        self.rest();
        let limits = Limits::PRODUCTION;
        for _ in 0..3 {
            self.publish();
            self.settle();
            for client in &mut self.clients[1..] {
                client.read(usize::MAX);
            }
            while self.executor.try_tick() {
                for client in &mut self.clients[1..] {
                    client.read(usize::MAX);
                }
            }
        }
        self.hands
            .advance(limits.stall_timeout - Duration::from_secs(1));
        self.driver.wake();
        self.rest_but_first();
        assert_eq!(self.expired(), 0, "seed {}: not before its time", self.seed);
        self.hands.advance(Duration::from_secs(2));
        self.driver.wake();
        self.rest_but_first();
        assert_eq!(
            self.expired(),
            1,
            "seed {}: exactly the stuck one",
            self.seed
        );
        assert_eq!(
            self.driver.state.borrow().fanout.count(),
            3,
            "seed {}",
            self.seed
        );
        for client in &self.clients[1..] {
            assert_eq!(client.check(self.published), Ok(()), "seed {}", self.seed);
        }
    }

    fn rest_but_first(&mut self) {
        loop {
            let ticked = self.executor.try_tick();
            let moved: usize = self.clients[1..]
                .iter_mut()
                .map(|c| c.read(usize::MAX))
                .sum();
            if !ticked && moved == 0 {
                return;
            }
        }
    }
}

/// Serves a connection in one task, its stream too, so that all of it can be cancelled.
async fn serve_whole(connection: Rc<Connection>) {
    if let Ok(Some(upgrade)) = http::serve_requests(&connection).await {
        stream::open(connection, upgrade).await;
    }
}

/// A document that names its version and ends with it too, so that a torn one shows.
fn document(version: u64, random: &mut fastrand::Rng) -> String {
    let filler = "x".repeat(random.usize(0..6_000));
    format!("{{\"version\":{version},\"filler\":\"{filler}\",\"end\":{version}}}")
}

type Certificate = (
    Option<tls::ServerTls>,
    Option<rustls::pki_types::CertificateDer<'static>>,
);

fn certificate() -> Certificate {
    let made = rcgen::generate_simple_self_signed(["relay.test".to_owned()]).expect("rcgen works");
    let (cert, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let files = (std::path::Path::new("cert"), std::path::Path::new("key"));
    let config = tls::server_config((files.0, cert.as_bytes()), (files.1, key.as_bytes()));
    (
        Some(config.expect("the certificate is right")),
        Some(made.cert.der().clone()),
    )
}
