//! The only owner of state: mutate, drain, arm.
//!
//! Tasks tell the driver what happened through its small methods, which change state and wake it.
//! [`Driver::run`] is the one place that takes work out of state: it resets what is over its time,
//! looks at the seed, has slots written down, carries out what upstreams and destinations are to be
//! asked (`follow`, `proxy`, `region`), hands new frames to the sockets (`streams`), then sets one
//! timer and waits. Nobody else may.
//!
//! Invariant: no borrow of `state` is held across a wait or while a method of the driver is called.

mod streams;

use std::cell::{Cell, RefCell};
use std::collections::hash_map::RandomState;
use std::future::{Future, poll_fn};
use std::hash::BuildHasher as _;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};

use futures_lite::future::yield_now;
use smol::lock::Semaphore;
use smol::{LocalExecutor, Task};

use crate::limits::Limits;
use crate::model::{Id, Reject, SlotIndex, Snapshot, Source};
use crate::state::counters::Counters;
use crate::state::deadlines::Reason;
use crate::state::relay::{Due, Relay};
use crate::state::slab::Key;
use crate::state::slots::Adoption;
use crate::time::Instant;
use crate::wire::frame::Frame;
use crate::wire::http::response::Answer;
use crate::wire::path::Path;
use crate::wire::publication::Publication;
use crate::wire::{reject, sse, websocket};

use super::clock::{Alarm, Clock};
use super::connection::{Connection, Door};
use super::disk::Disk;
use super::follow::{self, Follow};
use super::io::Spare;
use super::keep::{self, Keep};
use super::load::Loaded;
use super::log::{Cause, Log, Untrusted};
use super::notify::Notify;
use super::proxy::{self, Proxy};
use super::push::Pushes;
use super::region::{self, Region};
use super::seed;
use super::spool::Bell;
use super::tls::ServerTls;
use super::tunnels::Tunnels;

pub use streams::Place;
use streams::Writer;

/// Bytes that one read moves at most; one buffer for all connections.
const SCRATCH_BYTES: usize = 16 * 1024;

/// Frames that are the same for every client and never change.
pub struct Frames {
    /// The WebSocket heartbeat.
    pub heartbeat: Rc<Frame>,
    /// The WebSocket change text.
    pub change: Rc<Frame>,
    /// The event stream's heartbeat.
    pub comment: Rc<Frame>,
    /// The event stream's end.
    pub end: Rc<Frame>,
}

/// Connections that are open, by the door they came in by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Open {
    pub sdk: usize,
    pub lobby: usize,
    pub admin: usize,
}

/// The owner of everything.
pub struct Driver {
    pub limits: Limits,
    pub clock: Clock,
    pub log: Log,
    pub notify: Notify,
    pub disk: Disk,
    /// Rung when there may be something to do for the spool.
    pub spool_bell: Bell,
    pub state: RefCell<Relay<Publication>>,
    pub seed: RefCell<seed::Seed>,
    pub keep: RefCell<Keep>,
    pub loaded: RefCell<Rc<Loaded>>,
    pub guid: Id,
    /// What this relay is called by other relays, for as long as it runs.
    pub node: Id,
    pub tunnels: RefCell<Tunnels>,
    pub tls: RefCell<Option<ServerTls>>,
    pub frames: Frames,
    /// Nobody, on an isolated site.
    pub follow: Option<Follow>,
    /// Without routes, where there is no reverse proxy.
    pub proxy: Proxy,
    /// `None` = every write is for this relay.
    pub region: Option<Region>,
    pub handshakes: Semaphore,
    /// For TLS sessions that are written to.
    pub spare: Spare,
    pub scratch: RefCell<Box<[u8]>>,
    pub started: Instant,
    /// Bytes of all request bodies that are being read, but for pushes.
    pub body_bytes: Cell<usize>,
    pub pushes: Pushes,
    listeners: RefCell<Vec<Task<()>>>,
    executor: Rc<LocalExecutor<'static>>,
    connections: RefCell<Vec<Option<Weak<Connection>>>>,
    writers: RefCell<Vec<Option<Writer>>>,
    /// For each slot, the field that names the relays between its content and the origin.
    path_fields: RefCell<Vec<Rc<str>>>,
    gone: Cell<Vec<Key>>,
    left: Cell<Vec<Key>>,
    open: Cell<Open>,
    waker: Cell<Option<Waker>>,
    adopted: Cell<Option<Waker>>,
    woken: Cell<bool>,
    draining: Cell<bool>,
    turns: Cell<u64>,
    random: RefCell<fastrand::Rng>,
}

/// What a driver is made of.
pub struct Parts {
    pub limits: Limits,
    pub clock: Clock,
    pub log: Log,
    pub notify: Notify,
    pub disk: Disk,
    pub executor: Rc<LocalExecutor<'static>>,
    pub state: Relay<Publication>,
    pub loaded: Rc<Loaded>,
    pub follow: Option<Follow>,
    pub proxy: Proxy,
    pub random_seed: u64,
}

impl Driver {
    /// A driver that has not run yet.
    pub fn new(parts: Parts) -> Rc<Driver> {
        let Parts {
            limits,
            clock,
            log,
            notify,
            disk,
            executor,
            state,
            loaded,
            follow,
            proxy,
            random_seed,
        } = parts;
        let node = node();
        let own = Rc::<str>::from(Path::default().field(&node));
        let region = Region::new(&loaded.config, &clock, &limits);
        Rc::new(Driver {
            region,
            path_fields: RefCell::new(vec![own; loaded.config.slots.len()]),
            node,
            handshakes: Semaphore::new(limits.handshakes_max),
            spare: Spare::new(&limits),
            started: clock.now(),
            limits,
            clock,
            log,
            notify,
            disk,
            spool_bell: Bell::default(),
            state: RefCell::new(state),
            seed: RefCell::new(seed::Seed::default()),
            keep: RefCell::default(),
            guid: loaded.config.instance.guid.clone(),
            tunnels: RefCell::new(Tunnels::new(&loaded.config)),
            tls: RefCell::new(loaded.tls.clone()),
            loaded: RefCell::new(loaded),
            follow,
            proxy,
            frames: Frames {
                heartbeat: websocket::heartbeat().into(),
                change: websocket::change().into(),
                comment: sse::heartbeat().into(),
                end: sse::end().into(),
            },
            scratch: RefCell::new(vec![0; SCRATCH_BYTES].into()),
            executor,
            body_bytes: Cell::new(0),
            pushes: Pushes::default(),
            listeners: RefCell::default(),
            connections: RefCell::default(),
            writers: RefCell::default(),
            gone: Cell::default(),
            left: Cell::default(),
            open: Cell::default(),
            waker: Cell::default(),
            adopted: Cell::default(),
            woken: Cell::new(false),
            draining: Cell::new(false),
            turns: Cell::new(0),
            random: RefCell::new(fastrand::Rng::with_seed(random_seed)),
        })
    }

    // What tasks tell.

    /// Lets the driver take its next turn.
    pub fn wake(&self) {
        self.woken.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Runs a task beside the others.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.task(task).detach();
    }

    /// The same for a task that there is one of for each client: the executor is compiled once
    /// more for its kind, and each does without an allocation of its own.
    pub fn spawn_for_client(&self, task: impl Future<Output = ()> + 'static) {
        self.executor.spawn(task).detach();
    }

    /// Runs a task for as long as what it gives back is kept.
    pub fn task(&self, task: impl Future<Output = ()> + 'static) -> Task<()> {
        // Of one type, whatever runs in it: each type would bring an executor of some kilobytes.
        let task: Pin<Box<dyn Future<Output = ()>>> = Box::pin(task);
        self.executor.spawn(task)
    }

    /// Runs a task that ends when the relay begins to.
    pub fn spawn_listener(&self, task: impl Future<Output = ()> + 'static) {
        self.listeners.borrow_mut().push(self.task(task));
    }

    /// Notes something in the counters.
    pub fn count(&self, note: impl FnOnce(&mut Counters)) {
        note(&mut self.state.borrow_mut().counters);
    }

    /// Counts a refusal and gives its answer.
    pub fn refuse(&self, reject: Reject) -> Answer {
        self.count(|counters| counters.refuse(reject));
        reject::answer(reject, self.limits.retry_after)
    }

    /// A client asks for another instance: a mistake in its configuration or in ours.
    pub fn note_wrong_instance(&self, guid: &str) {
        self.log.limited(
            Cause::UnknownInstance,
            self.clock.now(),
            format_args!(
                "a client asks for instance {}, this relay serves {}: compare `instance.guid` with \
                 the guid that the SDK is given",
                Untrusted(guid.as_bytes()),
                self.guid
            ),
        );
    }

    /// Whether the relay is on its way out.
    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Turns of the loop so far: they stand still when it hangs.
    pub fn turns(&self) -> u64 {
        self.turns.get()
    }

    /// Whether nothing may be served yet but what an upstream holds.
    pub fn is_starting_normally(&self) -> bool {
        let listens = !self.listeners.borrow().is_empty();
        !listens && !self.is_draining() && self.loaded.borrow().config.is_normal_start()
    }

    /// Whether every listener is accepted from; on the way out there is none.
    pub fn is_accepting(&self) -> bool {
        !self.listeners.borrow().iter().any(Task::is_finished)
    }

    /// Whether nobody is left to wait for, the disk included.
    fn is_drained(&self) -> bool {
        let is_saving = self.state.borrow().saves.is_busy();
        self.is_draining() && self.open() == Open::default() && !is_saving
    }

    /// Begins the end. Listeners are closed first: a refused connection is tried again by every
    /// SDK, while an event stream takes any refusal in HTTP for final.
    pub fn drain(&self) {
        self.draining.set(true);
        drop(self.listeners.take());
        if let Some(follow) = &self.follow {
            follow.close();
        }
        region::leave(self);
        self.proxy.pool.clear();
        self.state.borrow_mut().drain(self.clock.now());
        self.notify.stopping(self);
        self.wake();
    }

    /// A number below `bound`, not a secret; 0 for 0.
    pub fn random_below(&self, bound: u64) -> u64 {
        self.random.borrow_mut().u64(0..bound.max(1))
    }

    // Connections.

    /// Connections that are open.
    pub fn open(&self) -> Open {
        self.open.get()
    }

    /// Counts a connection that came in.
    pub fn enter(&self, door: Door) {
        self.change_open(door, |count| count + 1);
        self.count(|counters| match door {
            Door::Lobby => counters.connections_lobby += 1,
            Door::Sdk | Door::AdminTcp | Door::AdminLocal => counters.connections += 1,
        });
    }

    /// Counts a connection that went. Called from a `Drop`: borrows nothing.
    pub fn leave(&self, door: Door, key: Key) {
        self.change_open(door, |count| count.saturating_sub(1));
        push(&self.gone, key);
        self.wake();
    }

    fn change_open(&self, door: Door, change: impl Fn(usize) -> usize) {
        let mut open = self.open.get();
        match door {
            Door::Sdk => open.sdk = change(open.sdk),
            Door::Lobby => open.lobby = change(open.lobby),
            Door::AdminTcp | Door::AdminLocal => open.admin = change(open.admin),
        }
        self.open.set(open);
    }

    /// Lets the deadline of `key` reset this connection.
    pub fn watch(&self, key: Key, connection: &Rc<Connection>) {
        put(
            &mut self.connections.borrow_mut(),
            key,
            Rc::downgrade(connection),
        );
    }

    /// Offers a document to a slot; what is adopted goes to its subscribers with the next turn.
    pub fn publish(&self, slot: SlotIndex, snapshot: Rc<Snapshot>, source: Source) -> Adoption {
        let now = self.clock.now();
        let mut state = self.state.borrow_mut();
        let adoption = state
            .slots
            .handle_offer(slot, snapshot.clone(), source, now);
        if let Adoption::Adopted(version) = adoption {
            let publication = Rc::new(Publication::new(version, source, snapshot));
            state.counters.publications += 1;
            state.fanout.publish(slot, version, publication, now);
        }
        drop(state);
        if let Some(waker) = self.adopted.take() {
            waker.wake();
        }
        // What is not adopted may still be worth keeping.
        self.wake();
        adoption
    }

    /// The field that tells a relay behind this one where a slot's content came through.
    pub fn path_field(&self, slot: SlotIndex) -> Rc<str> {
        let fields = self.path_fields.borrow();
        fields.get(usize::from(slot.0)).cloned().unwrap_or_default()
    }

    /// Notes where a slot's content came through. No client hears of it: it is no change.
    pub fn note_path(&self, slot: SlotIndex, path: &Path) {
        if let Some(field) = self.path_fields.borrow_mut().get_mut(usize::from(slot.0)) {
            *field = path.field(&self.node).into();
        }
    }

    /// Wakes `waker` when some slot adopts a document; one at a time waits for that.
    pub fn wake_when_adopted(&self, waker: Waker) {
        self.adopted.set(Some(waker));
    }

    // The loop.

    /// Takes turns until the drain window is over or nobody is left to wait for.
    pub async fn run(self: &Rc<Driver>) {
        let mut alarm = Alarm::new(self.clock.clone());
        loop {
            if self.turn() || self.is_drained() {
                return;
            }
            self.broadcast().await;
            let due = self.state.borrow().poll_timeout().map(|(at, _)| at);
            let routed = region::poll_timeout(self);
            alarm.set(due.into_iter().chain(routed).min());
            let mut has_waited = false;
            poll_fn(|context| {
                if self.woken.take() {
                    return Poll::Ready(());
                }
                self.waker.set(Some(context.waker().clone()));
                let outcome = alarm.poll(context);
                has_waited |= outcome.is_pending();
                outcome
            })
            .await;
            if !has_waited {
                // Whatever is due again already, the other tasks have their turn first.
                yield_now().await;
            }
        }
    }

    /// Does what is due; `true` when it is time to leave.
    fn turn(self: &Rc<Driver>) -> bool {
        self.turns.set(self.turns.get().wrapping_add(1));
        for key in self.gone.take() {
            self.state.borrow_mut().deadlines.remove(key);
            take(&mut self.connections.borrow_mut(), key);
        }
        for key in self.left.take() {
            self.state.borrow_mut().fanout.unsubscribe(key);
            // Dropped behind the borrow: with it may go the connection.
            let writer = take(&mut self.writers.borrow_mut(), key);
            drop(writer);
        }
        let now = self.clock.now();
        loop {
            let due = self.state.borrow_mut().poll_due(now);
            match due {
                None => break,
                Some(Due::Leave) => return true,
                Some(Due::LookAtSeed) => seed::look(self),
                Some(Due::CompareClocks) => follow::compare_clocks(self),
                Some(Due::Save(index)) => keep::save(self, index),
                Some(Due::LookAtFolder) => keep::look_again(self),
                Some(Due::Reset(key, reason)) => {
                    let connections = self.connections.borrow();
                    let place = connections.get(key.place()).and_then(Option::as_ref);
                    if let Some(connection) = place.and_then(Weak::upgrade) {
                        match reason {
                            // It has been given all that it asked for, perhaps not yet arrived.
                            Reason::Idle if connection.io().is_quiet() => connection.io().end(),
                            // Its next request has come: the task reads it yet.
                            Reason::Idle => connection.arm(Reason::Head),
                            Reason::Activity => connection.expire(),
                            _ => connection.io().reset(),
                        }
                    }
                }
            }
        }
        if !self.is_draining() {
            follow::drain(self);
            proxy::drain(self);
        }
        region::drain(self);
        self.log.sweep(now);
        false
    }
}

/// A name that no other relay has: 64 random bits, in hex. It need not outlive the process, and it
/// is no secret.
fn node() -> Id {
    Id::from_bits(RandomState::new().hash_one(std::process::id()))
}

fn push(list: &Cell<Vec<Key>>, key: Key) {
    let mut keys = list.take();
    keys.push(key);
    list.set(keys);
}

fn take<T>(table: &mut [Option<T>], key: Key) -> Option<T> {
    table.get_mut(key.place()).and_then(Option::take)
}

fn put<T>(table: &mut Vec<Option<T>>, key: Key, value: T) {
    if table.len() <= key.place() {
        table.resize_with(key.place() + 1, || None);
    }
    table[key.place()] = Some(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::rig::Rig;
    use crate::time::Duration;
    use std::io::IoSlice;

    #[test]
    fn what_is_always_due_does_not_keep_others_from_their_turns() {
        let limits = Limits {
            heartbeat_interval: Duration::ZERO,
            ..Limits::PRODUCTION
        };
        let rig = Rig::new(limits);
        let answered = |request: &[u8], status: &[u8]| {
            let mut client = rig.connect(Door::Sdk);
            client.write(&[IoSlice::new(request)]).unwrap();
            let mut answer = [0; 12];
            let is_answered = (0..1_000).any(|_| {
                rig.step();
                client.read(&mut answer).is_ok_and(|count| count > 0)
            });
            assert!(is_answered && answer == status);
            client
        };
        // A stream, whose heartbeat is due again as soon as it is out.
        let _stream = answered(
            b"GET /apprapp/feature/v1/instances/g-1/environments/e/sse/subscribe?collection_id=c\
            &events_only=true HTTP/1.1\r\nHost: r\r\nAuthorization: secret\r\n\r\n",
            b"HTTP/1.1 200",
        );
        answered(b"GET / HTTP/1.1\r\nHost: r\r\n\r\n", b"HTTP/1.1 404");
    }

    #[test]
    fn an_idle_connection_is_ended_and_keeps_its_last_answer() {
        let rig = Rig::new(Limits::PRODUCTION);
        let mut client = rig.connect(Door::Sdk);
        let request = b"GET / HTTP/1.1\r\nHost: r\r\n\r\n";
        client.write(&[IoSlice::new(request)]).unwrap();
        rig.settle();
        rig.advance(rig.driver.limits.idle_timeout);
        let (answer, ended) = rig.read(&mut client);
        assert!(answer.starts_with(b"HTTP/1.1 404 ") && ended);
        assert_eq!(rig.driver.open(), Open::default());
    }

    #[test]
    fn a_request_that_has_come_is_answered_before_its_connection_ends() {
        let rig = Rig::new(Limits::PRODUCTION);
        let mut clients = [Door::Sdk; 2].map(|door| rig.connect(door));
        let request = b"GET / HTTP/1.1\r\nHost: r\r\n\r\n";
        for client in &mut clients {
            let (answer, ended) = rig.exchange_bytes(client, request);
            assert!(answer.starts_with(b"HTTP/1.1 404 ") && !ended);
        }
        // The first asks again; its task has not had its turn when the end begins.
        clients[0].write(&[IoSlice::new(request)]).unwrap();
        rig.driver.drain();
        rig.driver.turn();
        rig.settle();
        let [asked, idle] = &mut clients;
        let (answer, ended) = rig.read(asked);
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 404 ") && answer.contains("connection: close"));
        assert!(ended, "{answer}");
        assert_eq!(rig.read(idle), (Vec::new(), true));
    }
}
