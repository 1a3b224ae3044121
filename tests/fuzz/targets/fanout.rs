//! Operations of the fan-out, beside clients that keep their own books.
//!
//! Claims: a client gets the newest content and nothing older, its registration first and once, its
//! control frames in order and at most one of a kind, and nothing after its close; once everything
//! that was said to be ready has been written, nobody is behind; no more snapshots are alive than
//! the bound, and who is evicted for that wrote the oldest; gauges are the real numbers; a stale
//! key does nothing.

use super::entropy::Entropy;
use bytes::Bytes;
use staffetta::limits::Limits;
use staffetta::model::{KeyIndex, SlotIndex, Version};
use staffetta::state::fanout::{Control, Fanout, Kind, Next, SubscribersFull, Subscription};
use staffetta::state::slab::Key;
use staffetta::time::{Duration, Instant};
use std::collections::BTreeSet;
use std::rc::Rc;

const SLOTS: usize = 2;
const CLIENTS_MAX: usize = 12;
const GRACE: Duration = Duration::from_secs(30);

/// What a client's connection is doing.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Writing {
    Nothing,
    Frame,
    Document(u64),
}

struct Client {
    key: Key,
    slot: usize,
    kind: Kind,
    credential: u32,
    /// The newest version that it has, or fetches by itself.
    knows: u64,
    registered: bool,
    controls: Vec<Control>,
    writing: Writing,
    /// Its close came out, or it was evicted.
    is_over: bool,
}

impl Client {
    fn is_closing(&self) -> bool {
        let closes = |control: &Control| matches!(control, Control::Close(_));
        self.is_over || self.controls.iter().any(closes)
    }

    /// Takes a control frame in: a later one takes the place of an earlier one of its kind, and
    /// each kind has its place in the order.
    fn expect(&mut self, control: Control) {
        if self.is_closing() {
            return;
        }
        let kind = std::mem::discriminant(&control);
        let same = |other: &&mut Control| std::mem::discriminant(*other) == kind;
        match self.controls.iter_mut().find(same) {
            Some(place) => *place = control,
            None => self.controls.push(control),
        }
        self.controls.sort_by_key(|control| match control {
            Control::Pong(_) => 0,
            Control::Heartbeat => 1,
            Control::Close(_) => 2,
        });
    }
}

/// The newest of a slot, and when it last changed.
#[derive(Clone, Copy, Default)]
struct Topic {
    newest: u64,
    changed: Option<Instant>,
}

struct World {
    fanout: Fanout<u64>,
    topics: [Topic; SLOTS],
    clients: Vec<Client>,
    stale: Vec<Key>,
    evictions: u64,
    alive_max: usize,
    now: Instant,
}

pub fn fanout(input: &[u8]) {
    let mut entropy = Entropy::new(input);
    let alive_max = 2 + entropy.below(3);
    let limits = Limits {
        connections_max: CLIENTS_MAX,
        fanout_batch: 0,
        snapshots_alive_max: alive_max,
        change_grace: GRACE,
        ..Limits::PRODUCTION
    };
    let mut world = World {
        fanout: Fanout::new(SLOTS, &limits),
        topics: Default::default(),
        clients: Vec::new(),
        stale: Vec::new(),
        evictions: 0,
        alive_max,
        now: Instant::from_micros(1),
    };
    while !entropy.is_empty() {
        world.step(&mut entropy);
        world.books_agree();
    }
    world.quiet();
}

impl World {
    fn step(&mut self, entropy: &mut Entropy) {
        match entropy.below(16) {
            0..=2 => self.subscribe(entropy),
            3..=5 => self.publish(entropy.below(SLOTS)),
            6 => self.hold(entropy.below(SLOTS)),
            7 => self.leave(entropy),
            8 => {
                self.fanout.heartbeat();
                let streams = self
                    .clients
                    .iter_mut()
                    .filter(|client| client.kind != Kind::Fetch);
                streams.for_each(|client| client.expect(Control::Heartbeat));
            }
            9 => self.pong(entropy),
            10 => self.close(entropy),
            11 => {
                if let Some(key) = self.fanout.poll_dirty() {
                    self.wake(key);
                }
            }
            12 | 13 => self.finish(entropy.below(CLIENTS_MAX)),
            14 if entropy.flag() => {
                self.fanout.open();
                self.topics
                    .iter_mut()
                    .for_each(|topic| topic.changed = None);
            }
            14 => self.now = self.now + Duration::from_secs(entropy.below(40) as u64),
            _ => self.stale_keys_do_nothing(),
        }
    }

    fn subscribe(&mut self, entropy: &mut Entropy) {
        let slot = entropy.below(SLOTS);
        let kind = Kind::ALL[entropy.below(3)];
        let credential = entropy.below(3) as u32;
        let greet = entropy.flag();
        let subscription = Subscription {
            slot: SlotIndex(slot as u16),
            kind,
            key: KeyIndex(credential),
            greet,
        };
        let found = self.fanout.subscribe(subscription, self.now);
        if self.clients.len() == CLIENTS_MAX {
            return assert_eq!(found, Err(SubscribersFull));
        }
        let topic = self.topics[slot];
        let is_fresh = topic.changed.is_some_and(|at| self.now - at < GRACE);
        let fetched = kind == Kind::WebSocket && !greet && !is_fresh;
        let knows = if fetched { topic.newest } else { 0 };
        self.join(found, slot, kind, credential, knows);
    }

    fn hold(&mut self, slot: usize) {
        let newest = self.topics[slot].newest;
        if newest == 0 {
            return;
        }
        let found = self
            .fanout
            .hold(SlotIndex(slot as u16), Version(newest), KeyIndex(0));
        if self.clients.len() == CLIENTS_MAX {
            return assert_eq!(found, Err(SubscribersFull));
        }
        self.join(found, slot, Kind::Fetch, 0, newest);
        if let Some(client) = self.clients.last_mut() {
            client.writing = Writing::Document(newest);
        }
    }

    fn join(
        &mut self,
        key: Result<Key, SubscribersFull>,
        slot: usize,
        kind: Kind,
        credential: u32,
        knows: u64,
    ) {
        self.clients.push(Client {
            key: key.expect("a place"),
            slot,
            kind,
            credential,
            knows,
            registered: false,
            controls: Vec::new(),
            writing: Writing::Nothing,
            is_over: false,
        });
    }

    fn publish(&mut self, slot: usize) {
        let topic = &mut self.topics[slot];
        topic.changed = Some(self.now);
        topic.newest += 1;
        let (newest, index) = (topic.newest, SlotIndex(slot as u16));
        self.fanout
            .publish(index, Version(newest), Rc::new(newest), self.now);
        assert_eq!(
            self.fanout.newest(index).map(|published| **published),
            Some(newest)
        );
        let mut evicted = BTreeSet::new();
        while let Some(key) = self.fanout.poll_evicted() {
            let client = self.clients.iter_mut().find(|client| client.key == key);
            let client = client.expect("an evicted client is there");
            assert_eq!(client.slot, slot, "evicted from another slot");
            let Writing::Document(version) = client.writing else {
                panic!("evicted while it wrote {:?}", client.writing);
            };
            client.is_over = true;
            client.writing = Writing::Nothing;
            evicted.insert(version);
            self.evictions += 1;
        }
        let alive = self.alive(slot);
        assert!(alive.len() <= self.alive_max, "{alive:?} are alive");
        assert!(
            evicted.is_empty() || alive.len() == self.alive_max,
            "evicted for nothing"
        );
        assert!(
            evicted
                .iter()
                .all(|old| alive.iter().all(|kept| old < kept)),
            "not the oldest"
        );
        assert_eq!(self.fanout.evictions(), self.evictions);
    }

    /// The newest of a slot and all that are being written.
    fn alive(&self, slot: usize) -> BTreeSet<u64> {
        let writing = self.clients.iter().filter(|client| client.slot == slot);
        let versions = writing.filter_map(|client| match client.writing {
            Writing::Document(version) => Some(version),
            _ => None,
        });
        versions.chain([self.topics[slot].newest]).collect()
    }

    fn leave(&mut self, entropy: &mut Entropy) {
        if self.clients.is_empty() {
            return;
        }
        let gone = self.clients.swap_remove(entropy.below(self.clients.len()));
        self.fanout.unsubscribe(gone.key);
        self.stale.push(gone.key);
    }

    fn pong(&mut self, entropy: &mut Entropy) {
        let payload = Bytes::copy_from_slice(entropy.take(1));
        let at = entropy.below(CLIENTS_MAX);
        if let Some(client) = self.clients.get_mut(at) {
            self.fanout.pong(client.key, payload.clone());
            client.expect(Control::Pong(payload));
        }
    }

    fn close(&mut self, entropy: &mut Entropy) {
        let code = 1000 + entropy.below(14) as u16;
        match entropy.below(3) {
            0 => {
                let at = entropy.below(CLIENTS_MAX);
                if let Some(client) = self.clients.get_mut(at) {
                    self.fanout.close(client.key, code);
                    client.expect(Control::Close(code));
                }
            }
            1 => {
                let (slot, credential) = (entropy.below(SLOTS), entropy.below(3) as u32);
                self.fanout.close_where(
                    |index, key| usize::from(index.0) == slot && key.0 == credential,
                    code,
                );
                for client in &mut self.clients {
                    if client.slot == slot && client.credential == credential {
                        client.expect(Control::Close(code));
                    }
                }
            }
            _ => {
                let count = entropy.below(CLIENTS_MAX);
                let left = self.fanout.close_some(count, code);
                let mut open: Vec<&mut Client> = self.clients.iter_mut().collect();
                open.retain(|client| !client.is_closing() && client.kind != Kind::Fetch);
                assert_eq!(left, open.len().saturating_sub(count));
                // Whom it takes is its own choice: the first of the table.
                open.sort_by_key(|client| client.key.place());
                let closing = open.into_iter().take(count);
                closing.for_each(|client| client.expect(Control::Close(code)));
            }
        }
    }

    /// A client is told that there may be something: it pulls if it writes nothing.
    fn wake(&mut self, key: Key) {
        let at = self.clients.iter().position(|client| client.key == key);
        let at = at.expect("no key of somebody who left comes up");
        if self.clients[at].writing == Writing::Nothing {
            self.pull(at);
        }
    }

    /// The frame of a client is out: it pulls the next.
    fn finish(&mut self, at: usize) {
        let Some(client) = self.clients.get(at) else {
            return;
        };
        if client.writing != Writing::Nothing && client.kind != Kind::Fetch {
            self.pull(at);
        }
    }

    fn pull(&mut self, at: usize) {
        let client = &mut self.clients[at];
        let found = self.fanout.next(client.key);
        client.writing = Writing::Nothing;
        let newest = self.topics[client.slot].newest;
        if client.is_over || client.kind == Kind::Fetch {
            return assert_eq!(found, None, "after the end");
        }
        if !client.controls.is_empty() {
            let control = client.controls.remove(0);
            client.is_over = matches!(control, Control::Close(_));
            assert_eq!(self.fanout.is_closed(client.key), client.is_over);
            client.writing = Writing::Frame;
            return assert_eq!(found, Some(Next::Control(control)));
        }
        if client.knows == newest {
            return assert_eq!(found, None, "nothing new");
        }
        client.knows = newest;
        let is_first = !std::mem::replace(&mut client.registered, true);
        client.writing = match client.kind {
            Kind::Sse => Writing::Document(newest),
            _ => Writing::Frame,
        };
        match found {
            Some(Next::Registration(version)) => assert!(is_first && *version == newest),
            Some(Next::Change(version)) => assert!(!is_first && *version == newest),
            other => panic!("{other:?} in place of version {newest}"),
        }
    }

    fn stale_keys_do_nothing(&mut self) {
        for key in &self.stale {
            assert_eq!(self.fanout.next(*key), None);
            assert!(self.fanout.is_closed(*key));
            self.fanout.pong(*key, Bytes::from_static(b"stale"));
            self.fanout.close(*key, 1011);
            self.fanout.unsubscribe(*key);
        }
    }

    fn books_agree(&self) {
        assert_eq!(self.fanout.count(), self.clients.len());
        for slot in 0..SLOTS {
            let gauges = self.fanout.gauges(SlotIndex(slot as u16));
            for (kind, gauge) in Kind::ALL.into_iter().zip(gauges) {
                let here = |client: &&Client| client.slot == slot && client.kind == kind;
                assert_eq!(gauge as usize, self.clients.iter().filter(here).count());
            }
            assert!(self.alive(slot).len() <= self.alive_max);
        }
    }

    /// All that is ready is written, in whatever order it comes up.
    fn quiet(&mut self) {
        while let Some(key) = self.fanout.poll_dirty() {
            self.wake(key);
            (0..self.clients.len()).for_each(|at| self.finish(at));
        }
        while self
            .clients
            .iter()
            .any(|client| client.writing != Writing::Nothing)
        {
            self.clients.retain(|client| client.kind != Kind::Fetch);
            (0..self.clients.len()).for_each(|at| self.finish(at));
        }
        for client in self
            .clients
            .iter()
            .filter(|client| client.kind != Kind::Fetch)
        {
            let newest = self.topics[client.slot].newest;
            let is_done = client.is_over || client.controls.is_empty() && client.knows == newest;
            assert!(
                is_done,
                "a {:?} is behind: {} of {newest}",
                client.kind, client.knows
            );
        }
    }
}
