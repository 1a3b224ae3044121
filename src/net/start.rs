//! From a configuration to a relay that listens.
//!
//! Owns the order of a start. Fast: what was last known good, then the seed, then the listeners;
//! the upstreams are followed behind that. Normal: a document for every slot from an upstream, and
//! only then the listeners. Either way, the first connection that is accepted is served.
//!
//! Never exits for anything that may mend itself, but a normal start whose time is over, and an
//! address that is taken: the unit tries again.

use std::rc::Rc;

use fastrand::Rng;
use smol::LocalExecutor;

use crate::config::Config;
use crate::limits::Limits;
use crate::model::{Role, SlotIndex};
use crate::state::access::TokenForm;
use crate::state::destinations::Destinations;
use crate::state::relay::Relay;
use crate::state::sessions::Sessions;
use crate::wire::iam;

use super::clock::Clock;
use super::disk::Disk;
use super::driver::{Driver, Parts};
use super::follow::{self, Follow};
use super::keep;
use super::lane::Jobs;
use super::load::Loaded;
use super::log::Log;
use super::notify::Notify;
use super::proxy::{self, Proxy};
use super::sockets::{Doors, Inherited};
use super::spool::{self, Place};
use super::upstream::{Net, Resolver};
use super::{RunError, listen, region, seed};

/// What outgoing connections are made with.
pub(super) fn net(clock: Clock, limits: Limits, disk: Disk, executor: &LocalExecutor<'_>) -> Net {
    let (resolver, lane) = Resolver::new(&limits);
    executor.spawn(lane.run()).detach();
    // With room for every document that may be on its way: none is turned away.
    let documents_max = Role::ALL.len() * limits.fetches_max + limits.pushes_max;
    let (work, lane) = Jobs::with_room(documents_max);
    executor.spawn(lane.run()).detach();
    let random_seed = random_seed(&clock);
    let mut net = Net::new(clock, limits, resolver, disk, random_seed);
    net.work = work;
    net
}

fn random_seed(clock: &Clock) -> u64 {
    clock.now().as_micros() ^ u64::from(std::process::id())
}

/// The relay of a configuration, before anything was read or asked.
pub(super) fn driver(
    loaded: Loaded,
    net: Net,
    (log, notify): (Log, Notify),
    executor: Rc<LocalExecutor<'static>>,
) -> Rc<Driver> {
    let (clock, limits, disk) = (net.clock.clone(), net.limits.clone(), net.disk.clone());
    let form = TokenForm {
        key_id: iam::peek_key_id,
        is_signed_by: iam::verify,
    };
    let watches_seed = loaded.config.seed.is_some();
    let slots = loaded.config.slots.clone();
    let mut state = Relay::new(slots, watches_seed, form, &limits, clock.now());
    state
        .access
        .replace(loaded.keys_in_use(), loaded.unreadable);
    let random_seed = random_seed(&clock);
    state.sessions = sessions(&loaded.config, &limits, random_seed);
    give_to_operator(&mut state, &loaded.config);
    state.destinations = Destinations::new(Rng::with_seed(random_seed), &limits);
    let net = Rc::new(net);
    let follow = Follow::new(&loaded, &net);
    let reverse_proxy = loaded.config.reverse_proxy.clone();
    let loaded = Rc::new(loaded);
    let driver = Driver::new(Parts {
        limits,
        clock,
        log,
        notify,
        disk,
        executor,
        state,
        loaded,
        follow,
        proxy: Proxy::new(net),
        random_seed,
    });
    proxy::replace(&driver, reverse_proxy.as_ref());
    driver
}

fn sessions(config: &Config, limits: &Limits, random_seed: u64) -> Sessions {
    let Some(upstreams) = &config.upstream else {
        // Whom a slot follows in another region is in the state record.
        return match config.region {
            Some(_) => Sessions::vacant(config.slots.len()),
            None => Sessions::default(),
        };
    };
    let has_backup = upstreams.backup.is_some();
    let interval = upstreams.retry_primary;
    Sessions::new(
        config.slots.len(),
        has_backup,
        interval,
        limits,
        random_seed,
    )
}

/// Slots that are pushed to follow no upstream; with a region, they follow its writer.
pub(super) fn give_to_operator<P>(state: &mut Relay<P>, config: &Config) {
    for (index, slot) in (0..).map(SlotIndex).zip(&config.slots) {
        if config.operator_slots.contains(slot) {
            state.slots.give_to_operator(index);
            if config.region.is_some() {
                state.slots.route(index);
            }
            state.sessions.leave_out(index);
        }
    }
}

/// Gets content as the configuration says.
pub(super) async fn content(driver: &Rc<Driver>) -> Result<(), RunError> {
    let loaded = driver.loaded.borrow().clone();
    for warning in &loaded.config.warnings {
        driver.log.warn(format_args!("{warning}"));
    }
    for problem in &loaded.problems {
        driver.log.error(format_args!("{problem}"));
    }
    // What was kept comes before the seed, which replaces it only if it is news. A normal start
    // serves none of it: clients get what an upstream holds from their first request on.
    let purpose = match loaded.config.is_normal_start() {
        true => keep::Use::Remember,
        false => keep::Use::Serve,
    };
    keep::open(driver, purpose).await.map_err(RunError::State)?;
    if loaded.config.is_normal_start() {
        first_content(driver).await?;
    } else {
        // A seed that cannot be used is noted where it is found; the relay waits for a better one.
        let _ = seed::read(driver).await;
    }
    region::start(driver).await;
    deliver_events(driver).await;
    driver.state.borrow_mut().fanout.open();
    Ok(())
}

/// Gets content, then listens.
pub(super) async fn start(driver: &Rc<Driver>, inherited: Inherited) -> Result<(), RunError> {
    content(driver).await?;
    let loaded = driver.loaded.borrow().clone();
    let environment = &loaded.origin.environment;
    let doors = Doors::open(&loaded.config, environment, inherited, &driver.limits);
    let doors = doors.map_err(RunError::Socket)?;
    for warning in &doors.warnings {
        driver.log.warn(format_args!("{warning}"));
    }
    let sdk = doors.sdk.into_iter().map(|sdk| (sdk, false));
    let admin = doors.admin.into_iter().map(|admin| (admin, true));
    for (listener, is_admin) in sdk.chain(admin) {
        let what = match (is_admin, loaded.tls.is_some()) {
            (true, _) => "admin",
            (false, true) => "SDK, HTTP and TLS",
            (false, false) => "SDK, HTTP",
        };
        driver
            .log
            .note(format_args!("listening on {listener} ({what})"));
        let socket = listen::prepare(driver, listener).map_err(RunError::Listen)?;
        driver.spawn_listener(listen::accept(driver.clone(), socket, is_admin));
    }
    follow::start(driver);
    Ok(())
}

/// Where there is an upstream or a region, reports are for it, and wait in the state folder.
async fn deliver_events(driver: &Rc<Driver>) {
    if driver.follow.is_none() {
        return;
    }
    let poster = driver.clone();
    spool::start(driver, Place::of(driver), async move |kind, body| {
        follow::report(&poster, kind, body).await
    })
    .await;
}

/// The upstream comes first. The seed is only taken note of: what an upstream says now is newer.
async fn first_content(driver: &Rc<Driver>) -> Result<(), RunError> {
    let missing = follow::first_documents(driver).await;
    missing.map_err(RunError::NoDocument)?;
    set_following(driver, true);
    let _ = seed::read(driver).await;
    set_following(driver, false);
    Ok(())
}

fn set_following(driver: &Driver, is_following: bool) {
    let mut state = driver.state.borrow_mut();
    let followers = state.slots.iter().filter(|(_, slot)| !slot.is_operators());
    let followers: Vec<SlotIndex> = followers.map(|(slot, _)| slot).collect();
    for slot in followers {
        state.slots.set_following(slot, is_following);
    }
}
