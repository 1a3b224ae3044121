//! Region routing, carried out: what `state::region` orders, and what it is told.
//!
//! Owns this node's part in it. [`drain`] is called with every turn of the driver: it takes the
//! orders out of `Routing` and has them carried out, puts notes in the log, and wakes who waits for
//! news. `write` is a push on its way from its arrival to its answer, `record` a state record from
//! wherever it comes to being in force, `store` what is kept of both, `orphans` the content that
//! lost; `ask` and `forward` speak to peers, `serve` answers them, `replica` follows the writer of
//! a slot. `told` is what the log says.
//!
//! Never decides who is primary, and never borrows `routing` across a wait.
//!
//! Invariant: nothing is acted on that was not stored before; whatever changes `routing` goes
//! through [`tell`], so that what follows from it is taken out with the next turn.

pub mod ask;
pub mod forward;
mod orphans;
pub mod peer;
pub mod record;
pub mod replica;
#[cfg(test)]
mod rig;
pub mod routed;
pub mod serve;
pub mod store;
#[cfg(test)]
mod tests;
mod told;
pub mod write;

use std::cell::{Cell, RefCell};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::rc::Rc;

use crate::config::{Config, Secret};
use crate::limits::Limits;
use crate::model::proxy::ReverseProxy;
use crate::model::region::{Heard, Status, Subject};
use crate::model::{Id, SlotIndex};
use crate::state::region::{Now, Order, Routing, Setting, SubjectIndex};
use crate::time::{Instant, WallMs};

use super::clock::Clock;
use super::driver::Driver;
use super::spool::Bell;

/// Numbers that every JSON reader takes exactly.
const BOOT_BITS: u32 = 53;

/// This node's part in region routing.
pub struct Region {
    /// By which records know this node.
    pub name: Id,
    pub routing: RefCell<Routing>,
    /// What is routed; the same order as in `routing`.
    pub subjects: Vec<Subject>,
    /// Another one after each start.
    pub boot: u64,
    pub record: record::Held,
    pub store: store::Store,
    pub writes: write::Writes,
    pub asks: ask::Asks,
    pub forwards: forward::Forwards,
    pub replicas: replica::Replicas,
    pub routed: routed::Routed,
    /// Rung whenever `serial` has risen.
    news: Bell,
    told_serial: Cell<u64>,
    /// Something was told, and what follows from it was not taken out yet.
    is_told: Cell<bool>,
    /// When something is due though nothing is told.
    due: Cell<Option<Instant>>,
}

impl Region {
    /// The part that a configuration gives to this relay, if it gives one. It has nothing to say
    /// until `store::open` has brought back what it gave its word on.
    pub fn new(config: &Config, clock: &Clock, limits: &Limits) -> Option<Region> {
        let region = config.region.as_ref()?;
        let slots = config.slots.iter();
        let slots = slots.filter(|slot| config.operator_slots.contains(slot));
        let routes = config.reverse_proxy.iter();
        let routes = routes.flat_map(ReverseProxy::region_slots);
        let slots = slots.cloned().map(Subject::Slot);
        let subjects = slots.chain(routes.cloned().map(Subject::Route)).collect();
        let boot = RandomState::new().hash_one(std::process::id()) >> (u64::BITS - BOOT_BITS);
        let setting = Setting {
            name: region.node.clone(),
            boot,
            wall_floor: WallMs::default(),
            subjects: Vec::new(),
            has_upstream: config.upstream.is_some(),
            random_seed: boot,
        };
        let routing = Routing::new(setting, Rc::new(limits.clone()), read(clock));
        Some(Region {
            name: region.node.clone(),
            routing: RefCell::new(routing),
            subjects,
            boot,
            record: record::Held::default(),
            store: store::Store::default(),
            writes: write::Writes::default(),
            asks: ask::Asks::default(),
            forwards: forward::Forwards::default(),
            replicas: replica::Replicas::default(),
            routed: routed::Routed::default(),
            news: Bell::default(),
            told_serial: Cell::new(0),
            is_told: Cell::new(true),
            due: Cell::new(None),
        })
    }

    /// Where a subject stands among those that are routed.
    pub fn subject(&self, wanted: &Subject) -> Option<SubjectIndex> {
        let place = self.subjects.iter().position(|subject| subject == wanted)?;
        u16::try_from(place).ok().map(SubjectIndex)
    }

    /// The same for a slot.
    pub fn subject_of(&self, driver: &Driver, slot: SlotIndex) -> Option<SubjectIndex> {
        let state = driver.state.borrow();
        let key = state.slots.of(slot)?.key.clone();
        drop(state);
        self.subject(&Subject::Slot(key))
    }

    /// The slot of a subject; none for a route.
    pub fn slot_of(&self, driver: &Driver, subject: SubjectIndex) -> Option<SlotIndex> {
        match self.subjects.get(usize::from(subject.0))? {
            Subject::Slot(key) => {
                let (collection, environment) = (key.collection.as_str(), key.environment.as_str());
                driver.state.borrow().slots.find(collection, environment)
            }
            Subject::Route(_) => None,
        }
    }

    /// Boot and serial, as peers that wait for news name them.
    pub fn standing(&self) -> (u64, u64) {
        (self.boot, self.routing.borrow().serial())
    }

    /// Rung whenever `standing` has changed.
    pub fn news(&self) -> &Bell {
        &self.news
    }
}

/// Brings back what this node gave its word on, and the record that it was given by. To be called
/// when slots have their first content, and whenever the state folder was looked at again.
pub async fn start(driver: &Rc<Driver>) {
    let Some(region) = &driver.region else { return };
    if region.store.problem().is_none() {
        return;
    }
    store::open(driver).await;
    record::open(driver).await;
}

/// The key that peers show each other, as it was last read.
pub fn peer_key(driver: &Driver) -> Option<Secret> {
    let loaded = driver.loaded.borrow();
    loaded.region.as_ref()?.peer_key.clone()
}

/// Both clocks, read at one time.
pub fn now(driver: &Driver) -> Now {
    read(&driver.clock)
}

fn read(clock: &Clock) -> Now {
    Now {
        instant: clock.now(),
        wall: clock.wall_ms(),
    }
}

/// What this node says of itself. `None` where there is no region.
pub fn status(driver: &Driver) -> Option<Status> {
    let region = driver.region.as_ref()?;
    Some(region.routing.borrow().status(now(driver)))
}

/// What this node has heard of all nodes of its record.
pub fn nodes(driver: &Driver) -> Option<Vec<Heard>> {
    let region = driver.region.as_ref()?;
    Some(region.routing.borrow().nodes(now(driver)))
}

/// Tells `routing` something; what follows from it is done with the next turn. `None` where there
/// is no region.
pub fn tell<T>(driver: &Driver, what: impl FnOnce(&mut Routing, Now) -> T) -> Option<T> {
    let region = driver.region.as_ref()?;
    let now = now(driver);
    let told = what(&mut region.routing.borrow_mut(), now);
    region.is_told.set(true);
    driver.wake();
    Some(told)
}

/// Begins the end: nobody waits here any longer, be it for its turn or for news.
pub fn leave(driver: &Driver) {
    if let Some(region) = &driver.region {
        tell(driver, |routing, _| routing.handle_drain());
        region.news.ring();
    }
}

/// Carries out what is ordered, if anything was told or is due: a relay turns for every client.
///
/// Bounded by the numbers of subjects, requests and peers.
pub fn drain(driver: &Rc<Driver>) {
    let Some(region) = &driver.region else { return };
    write::forget_gone(driver, region);
    routed::forget_over(driver, region);
    record::look(driver, region);
    let is_due = |due| due <= driver.clock.now();
    if !region.is_told.take() && !region.due.get().is_some_and(is_due) {
        return;
    }
    obey_all(driver, region);
    told::log(driver, region);
    let serial = region.routing.borrow().serial();
    if region.told_serial.replace(serial) != serial {
        region.news.ring();
    }
    // A term that begins while its seal is awaited is no news to peers.
    replica::retarget(driver);
    region.due.set(due(driver, region));
}

/// For what is due, and often enough that a clock that was set is seen.
fn due(driver: &Driver, region: &Region) -> Option<Instant> {
    let routing = region.routing.borrow();
    let now = now(driver);
    let look = now.instant + driver.limits.region.look_interval;
    let look = routing.record().map(|_| look);
    let due = routing.poll_timeout(now).map(|(at, _)| at);
    look.into_iter().chain(due).min()
}

/// Carries out all that is ordered.
fn obey_all(driver: &Rc<Driver>, region: &Region) {
    loop {
        let now = now(driver);
        let order = region.routing.borrow_mut().poll_output(now);
        match order {
            Some(order) => obey(driver, region, order),
            None => return,
        }
    }
}

fn obey(driver: &Rc<Driver>, region: &Region, order: Order) {
    let Some(order) = routed::obey(driver, region, order) else {
        return;
    };
    match order {
        Order::Store { subject, mark } => store::keep_mark(driver, region, subject, mark),
        Order::Ask(ask) => ask::ask(driver, ask),
        Order::PullRecord { peer } => ask::pull_record(driver, peer),
        Order::PullHead {
            subject,
            peer,
            revision,
        } => replica::pull(driver, subject, peer, revision),
        Order::Apply { id, head } => write::apply(driver, id, head),
        Order::Forward {
            id,
            peer,
            epoch,
            left,
        } => forward::forward(driver, id, peer, epoch, left),
        Order::Abandon { id } => forward::abandon(driver, id),
        Order::Answer { id, answer } => write::answer(driver, id, answer),
    }
}

/// When `drain` is to be called though nothing happened. Bounded by O(1).
pub fn poll_timeout(driver: &Driver) -> Option<Instant> {
    let region = driver.region.as_ref()?;
    let file = region.record.look_at(driver);
    region.due.get().into_iter().chain(file).min()
}
