//! Follows the upstreams: carries out what the sessions order, and tells them what came of it.
//!
//! Owns one task for each socket that is open or being opened, one for each fetch, and the last
//! problem with each upstream, for people. When to do what is decided in `state::session`; how it
//! is said on the wire, in `upstream`; what becomes of a document, in `state::slots`. Slots for
//! which another region is primary follow its writer in the same way: whom, and what becomes of
//! what it has, is `region::replica`'s to say.
//!
//! Never: a borrow of state across a wait; a word to clients, which happens by `Driver::publish`
//! alone, and only for a change of content.
//!
//! Invariant: a task that is not wanted any more is dropped, or carries an id that its session has
//! forgotten, so that nothing that comes late changes anything.

mod first;
mod link;
mod offer;
mod report;
mod told;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use smol::Task;
use smol::lock::{Semaphore, SemaphoreGuard};

use crate::config::Upstreams;
use crate::model::{Role, SlotIndex, SlotKey};
use crate::state::session::{DialId, FetchId, Order, Session};
use crate::state::sessions::Step;
use crate::time::Instant;

use super::driver::Driver;
use super::load::{Loaded, LoadedUpstream};
use super::upstream::{Net, Upstream};

pub use first::{Missing, first_documents};
use link::Link;
pub(super) use offer::read;
pub use report::{lets_go, report};
pub(super) use told::problem;

/// Whom a relay follows, and what goes on with them.
pub struct Follow {
    pub net: Rc<Net>,
    /// Nobody, where all that is followed is another region.
    own: Option<Own>,
    /// Of slots for which another node is primary, that node.
    writers: RefCell<HashMap<SlotIndex, Rc<Upstream>>>,
    links: RefCell<HashMap<(SlotIndex, DialId), Link>>,
    fetches: RefCell<HashMap<(SlotIndex, FetchId), Task<()>>>,
    /// Documents on their way from each upstream: one that hangs does not hold up the other.
    places: [Semaphore; 2],
    /// The same from writers.
    writers_places: Semaphore,
    /// What a switch waits for, apart from the others: a writer that hangs delays no other's term.
    pulls_places: Semaphore,
    problems: RefCell<HashMap<(SlotIndex, Role), Trouble>>,
}

/// The upstreams that the configuration names.
struct Own {
    primary: Rc<Upstream>,
    backup: Option<Rc<Upstream>>,
    /// What is followed until the next start, whatever is configured by then.
    configured: Upstreams,
}

/// The last thing that went wrong with an upstream, for one slot.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// One line: host, problem, what to do.
    pub text: String,
    pub since: Instant,
}

impl Follow {
    /// Whom a configuration gives to follow, if it names anybody. Nothing is asked of them yet.
    pub fn new(loaded: &Loaded, net: &Rc<Net>) -> Option<Follow> {
        let own = own(loaded);
        if own.is_none() && loaded.config.region.is_none() {
            return None;
        }
        let places = || Semaphore::new(net.limits.fetches_max);
        Some(Follow {
            net: net.clone(),
            own,
            writers: RefCell::default(),
            links: RefCell::default(),
            fetches: RefCell::default(),
            places: Role::ALL.map(|_| places()),
            writers_places: places(),
            pulls_places: places(),
            problems: RefCell::default(),
        })
    }

    /// Takes the keys of a configuration that was read again, from now on. A key is for the
    /// upstream beside which it stands: where that is not the one that is followed, which only a
    /// restart changes, its key goes nowhere.
    fn replace_keys(&self, loaded: &Loaded) {
        let Some(own) = &self.own else { return };
        for role in Role::ALL {
            let read = loaded.upstreams.as_ref();
            let read = read.and_then(|upstreams| upstreams.of(role));
            if let (Some(read), Some(followed)) = (read, own.configured.of(role))
                && read.config.is_same_but_key(followed)
            {
                let upstream = own.of(role);
                upstream.replace_key(read.api_key.clone(), &self.net);
            }
        }
    }

    /// Whom `slot` follows in this role: the writer of its region where it has one, else the
    /// upstream; the primary where there is no other.
    pub fn upstream(&self, slot: SlotIndex, role: Role) -> Option<Rc<Upstream>> {
        self.writer(slot).or_else(|| self.own(role).cloned())
    }

    /// The node that is primary for `slot`, where that is another one.
    pub fn writer(&self, slot: SlotIndex) -> Option<Rc<Upstream>> {
        self.writers.borrow().get(&slot).cloned()
    }

    /// The configured upstream in this role; the primary where there is no other.
    pub fn own(&self, role: Role) -> Option<&Rc<Upstream>> {
        self.own.as_ref().map(|own| own.of(role))
    }

    /// The configured upstreams that there are.
    pub fn roles(&self) -> &'static [Role] {
        match &self.own {
            None => &[],
            Some(Own { backup: None, .. }) => &[Role::Primary],
            Some(Own { .. }) => &Role::ALL,
        }
    }

    /// The right to pull what a switch waits for.
    pub async fn place_to_pull(&self) -> SemaphoreGuard<'_> {
        self.pulls_places.acquire().await
    }

    /// From now on `slot` follows this node, or nobody. What its session has ordered so far is let
    /// go of: the next one knows nothing of it.
    pub fn follow_writer(&self, slot: SlotIndex, writer: Option<Rc<Upstream>>) {
        let is_of = |(owner, _): &(SlotIndex, DialId)| *owner == slot;
        let mut links = self.links.borrow_mut();
        for (_, link) in links.extract_if(|key, _| is_of(key)) {
            link.end();
        }
        self.fetches
            .borrow_mut()
            .retain(|(owner, _), _| *owner != slot);
        self.clear_trouble(slot, Role::Primary);
        match writer {
            Some(writer) => self.writers.borrow_mut().insert(slot, writer),
            None => self.writers.borrow_mut().remove(&slot),
        };
    }

    /// What last went wrong with `role` for `slot`, if nothing has gone right since.
    pub fn trouble(&self, slot: SlotIndex, role: Role) -> Option<Trouble> {
        self.problems.borrow().get(&(slot, role)).cloned()
    }

    fn note_trouble(&self, slot: SlotIndex, role: Role, text: String, now: Instant) {
        let mut problems = self.problems.borrow_mut();
        match problems.get_mut(&(slot, role)) {
            Some(trouble) if trouble.text == text => {}
            _ => drop(problems.insert((slot, role), Trouble { text, since: now })),
        }
    }

    fn clear_trouble(&self, slot: SlotIndex, role: Role) {
        self.problems.borrow_mut().remove(&(slot, role));
    }

    /// Lets go of everything, without a word: the process ends.
    pub fn close(&self) {
        self.fetches.borrow_mut().clear();
        for (_, link) in self.links.borrow_mut().drain() {
            link.end();
        }
    }
}

impl Own {
    fn of(&self, role: Role) -> &Rc<Upstream> {
        match (role, &self.backup) {
            (Role::Backup, Some(backup)) => backup,
            _ => &self.primary,
        }
    }
}

fn own(loaded: &Loaded) -> Option<Own> {
    let upstreams = loaded.upstreams.as_ref()?;
    Some(Own {
        primary: upstream(&upstreams.primary),
        backup: upstreams.backup.as_ref().map(upstream),
        configured: loaded.config.upstream.clone()?,
    })
}

fn upstream(loaded: &LoadedUpstream) -> Rc<Upstream> {
    Rc::new(Upstream::new(&loaded.config, loaded.api_key.clone()))
}

/// Tells the session of `slot` what happened.
fn tell(driver: &Driver, slot: SlotIndex, what: impl FnOnce(&mut Session, Instant)) {
    let now = driver.clock.now();
    let mut state = driver.state.borrow_mut();
    state.sessions.tell(slot, |session| what(session, now));
    drop(state);
    driver.wake();
}

pub(super) fn slot_key(driver: &Driver, slot: SlotIndex) -> Option<SlotKey> {
    let state = driver.state.borrow();
    state.slots.of(slot).map(|slot| slot.key.clone())
}

/// Opens the sessions.
pub fn start(driver: &Driver) {
    let now = driver.clock.now();
    tell_all(driver, |session| session.start(now));
}

fn tell_all(driver: &Driver, what: impl Fn(&mut Session)) {
    driver.state.borrow_mut().sessions.tell_all(what);
    driver.wake();
}

/// A configuration was read again: its keys and authorities count from now on, and what was refused
/// is asked for again at once. Somebody has just been at it.
pub fn handle_reload(driver: &Driver, loaded: &Loaded) {
    let Some(follow) = &driver.follow else { return };
    follow.net.forget_authorities();
    follow.replace_keys(loaded);
    let now = driver.clock.now();
    tell_all(driver, |session| session.handle_reload(now));
    if let Some(spool) = driver.state.borrow_mut().events.spool_mut() {
        spool.handle_reload();
    }
    driver.spool_bell.ring();
}

/// Carries out what the sessions want, as far as there is anything.
///
/// Bounded by the number of slots, and by what each session may want at once.
pub fn drain(driver: &Rc<Driver>) {
    let Some(follow) = &driver.follow else { return };
    let now = driver.clock.now();
    loop {
        let step = driver.state.borrow_mut().sessions.poll(now);
        match step {
            None => return,
            Some((slot, Step::Do(order))) => obey(driver, follow, slot, order),
            Some((slot, Step::Say(note))) => told::log(driver, follow, slot, note),
            Some((slot, Step::Live(is_live))) => {
                let mut state = driver.state.borrow_mut();
                state.slots.set_following(slot, is_live);
            }
        }
    }
}

/// Sees whether the time of day was set.
pub fn compare_clocks(driver: &Driver) {
    let (wall, now) = (driver.clock.wall(), driver.clock.now());
    let is_step = driver.state.borrow_mut().sessions.handle_clocks(wall, now);
    if is_step {
        if let Some(follow) = &driver.follow {
            for upstream in Role::ALL.into_iter().filter_map(|role| follow.own(role)) {
                upstream.handle_clock_step(&follow.net);
            }
        }
        driver
            .log
            .note(format_args!("the clock was set; upstreams are tried again"));
    }
}

fn obey(driver: &Rc<Driver>, follow: &Follow, slot: SlotIndex, order: Order) {
    match order {
        Order::Dial { id, role } => {
            let link = link::open(driver, slot, id, role);
            follow.links.borrow_mut().insert((slot, id), link);
        }
        Order::Hangup { id } => {
            let link = follow.links.borrow_mut().remove(&(slot, id));
            if let Some(link) = link {
                link.end();
            }
        }
        Order::Ping { id } => {
            if let Some(link) = follow.links.borrow().get(&(slot, id)) {
                link.ping();
            }
        }
        Order::Fetch { id, role } => {
            let task = driver.task(offer::fetch(driver.clone(), slot, id, role));
            follow.fetches.borrow_mut().insert((slot, id), task);
        }
        Order::Abandon { id } => drop(follow.fetches.borrow_mut().remove(&(slot, id))),
    }
}
