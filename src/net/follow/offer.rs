//! A document from an upstream, from the request to the slot.
//!
//! Owns the order: fetch, see where it came through, read it as strictly as a seed, offer it. Large
//! documents are read on the lane for work, small ones right here: neither waits for the disk,
//! which may hang, and must not keep a change from clients.
//!
//! Never holds more documents at once than `fetches_max` of each upstream: a change that concerns
//! all slots is announced to all of them at once. Never offers anything of a fetch that was given
//! up: its task is dropped.

use std::rc::Rc;

use crate::limits::Limits;
use crate::model::{Role, SlotIndex, SlotKey, Snapshot};
use crate::net::driver::Driver;
use crate::net::region::replica;
use crate::net::seed::{note_adoption, packed, refuse};
use crate::state::session::{FetchId, Loss};
use crate::state::slots::Adoption;
use crate::wire::path::Path;
use crate::wire::seed::Seed;

use super::Follow;

/// Fetches the document of `slot` from `role`, offers it, and tells the session.
pub(super) async fn fetch(driver: Rc<Driver>, slot: SlotIndex, id: FetchId, role: Role) {
    let Some(follow) = &driver.follow else { return };
    let outcome = match follow.writer(slot) {
        Some(_) => {
            let _place = follow.writers_places.acquire().await;
            replica::fetch(&driver, slot).await
        }
        None => try_fetch(&driver, follow, slot, role).await,
    };
    let task = follow.fetches.borrow_mut().remove(&(slot, id));
    if let Some(task) = task {
        // It is this very task.
        task.detach();
    }
    let outcome = match outcome {
        Ok(()) => {
            follow.clear_trouble(slot, role);
            Ok(())
        }
        Err((loss, text)) => {
            follow.note_trouble(slot, role, text, driver.clock.now());
            Err(loss)
        }
    };
    driver.count(|counters| match outcome {
        Ok(()) => counters.upstream_fetches += 1,
        Err(_) => counters.upstream_fetches_failed += 1,
    });
    super::tell(&driver, slot, |session, now| {
        session.handle_fetched(id, outcome, now)
    });
}

async fn try_fetch(
    driver: &Rc<Driver>,
    follow: &Follow,
    slot: SlotIndex,
    role: Role,
) -> Result<(), (Loss, String)> {
    let Some(key) = super::slot_key(driver, slot) else {
        return Ok(());
    };
    let Some(upstream) = follow.own(role) else {
        return Ok(());
    };
    let unusable = |problem: String| {
        refuse(driver, slot, role.as_str(), &problem);
        (
            Loss::Unusable,
            format!("{}: {problem}", upstream.endpoint()),
        )
    };
    let place = follow.places[role as usize].acquire().await;
    let fetched = upstream.config(&follow.net, &key).await;
    let answer = fetched.map_err(|error| (error.loss(), error.to_string()))?;
    let nodes_max = driver.limits.path_nodes_max;
    let path = Path::parse(answer.path.as_deref(), &driver.node, nodes_max);
    let path = path.map_err(|error| unusable(error.to_string()))?;
    let snapshot = read(driver, key, answer.bytes).await?;
    drop(place);
    let snapshot = snapshot.map_err(unusable)?;
    match driver.publish(slot, Rc::new(snapshot), role.source()) {
        Adoption::Adopted(_) => note_adoption(driver, slot),
        Adoption::Unchanged => {}
        // What is served did not come this way.
        Adoption::Stale | Adoption::Superseded => {
            note_stale(driver, slot);
            return Ok(());
        }
    }
    driver.note_path(slot, &path);
    Ok(())
}

/// Says the first time that an upstream is behind; status counts the others.
fn note_stale(driver: &Driver, index: SlotIndex) {
    let state = driver.state.borrow();
    if let Some(slot) = state.slots.of(index).filter(|slot| slot.stale == 1) {
        driver.log.note(format_args!(
            "slot {}: the backup is behind what is served, which stays",
            slot.key
        ));
    }
}

/// Judges the document; the inner error is what is wrong with it.
pub(in crate::net) async fn read(
    driver: &Rc<Driver>,
    key: SlotKey,
    bytes: Vec<u8>,
) -> Result<Result<Snapshot, String>, (Loss, String)> {
    let limits = driver.limits.clone();
    if bytes.len() <= limits.packed_on_loop_bytes_max {
        return Ok(judge(&bytes, &key, &limits));
    }
    let work = &driver.proxy.net.work;
    let job = work.run(move || judge(&bytes, &key, &limits));
    let busy = |_| (Loss::Unreachable, "the relay has too much to do".to_owned());
    job.await.map_err(busy)
}

fn judge(bytes: &[u8], key: &SlotKey, limits: &Limits) -> Result<Snapshot, String> {
    let document = Seed::parse(bytes, limits);
    let snapshot = document.and_then(|document| document.snapshot(key, limits));
    match snapshot {
        Ok(snapshot) => Ok(packed(snapshot, limits)),
        Err(error) => Err(error.to_string()),
    }
}
