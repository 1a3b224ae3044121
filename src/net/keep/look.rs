//! What is in the state folder: read at the start, and again for as long as some of it is unknown.
//!
//! Owns the order: make the folder, lock it, clean up, read the file of each slot, tell state. A
//! file whose content cannot be used is set aside, one for each slot, and the slot begins anew. A
//! file that cannot be *read* may be as good as ever: it is left alone, nothing is written over it,
//! and it is tried again, as is a folder on a card that is mounted late.
//!
//! Policy: a start waits for the first look and for no other, and goes on whatever it finds. The
//! one exception is a folder that another relay is using: two of them would overwrite each other's
//! state in silence.
//!
//! Trip: a folder or a file that cannot be had. Recovery: a look that finds all; `state::saves`
//! says when to look.

use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;

use rustix::fs as sys;

use crate::limits::Limits;
use crate::model::{Past, SlotIndex, SlotKey, Snapshot, Source};
use crate::net::disk::{self, DiskError, Lock, Problem, Step};
use crate::net::driver::Driver;
use crate::net::{region, seed, spool};
use crate::state::slots::{Adoption, Slot};
use crate::wire::keep as wire;

/// What becomes of the documents that are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// They are served until something counts more.
    Serve,
    /// Only what came before is remembered, so that a backup's step back is known for one.
    Remember,
}

/// What a look gave.
struct Looked {
    /// The folder was not locked before.
    lock: Option<Lock>,
    /// It can be read and not written.
    problem: Option<String>,
    found: Vec<(SlotIndex, Found)>,
}

enum Found {
    Nothing,
    Kept {
        snapshot: Snapshot,
        source: Source,
        past: Past,
    },
    Bad {
        name: String,
        problem: String,
    },
    /// Nobody knows.
    Unreadable(String),
}

/// Locks the folder and takes up what is in it. To be called once, before the first offer.
///
/// # Errors
/// Another relay is running with the folder. Nothing else ends a start.
pub async fn open(driver: &Rc<Driver>, purpose: Use) -> Result<(), DiskError> {
    if driver.loaded.borrow().config.state_dir.is_none() {
        return Ok(());
    }
    driver.keep.borrow_mut().purpose = purpose;
    let all = all(driver);
    driver.state.borrow_mut().saves.begin_look(all);
    match look(driver).await {
        Ok(_) => Ok(()),
        Err(Failure::Disk(error)) if error.problem == Problem::Taken => Err(error),
        Err(failure) => {
            note_failure(driver, &failure);
            Ok(())
        }
    }
}

/// Looks again for what is not known yet, in the background.
pub fn look_again(driver: &Rc<Driver>) {
    let task = driver.clone();
    driver.spawn(async move {
        match look(&task).await {
            Ok(is_new) => {
                spool::move_to_disk(&task).await;
                if is_new {
                    region::store::keep_again(&task).await;
                }
                region::start(&task).await;
            }
            Err(failure) => note_failure(&task, &failure),
        }
        task.wake();
    });
}

/// The folder is gone: it is looked for, and nothing is known of it.
pub(super) fn handle_loss(driver: &Driver) {
    let (all, now) = (all(driver), driver.clock.now());
    driver.state.borrow_mut().saves.handle_looked(all, now);
}

fn all(driver: &Driver) -> BTreeSet<SlotIndex> {
    let state = driver.state.borrow();
    state.slots.iter().map(|(index, _)| index).collect()
}

/// Why a look has found nothing at all.
enum Failure {
    Disk(DiskError),
    /// One line.
    Lane(String),
}

fn note_failure(driver: &Driver, failure: &Failure) {
    let problem = match failure {
        Failure::Disk(error) => error.to_string(),
        Failure::Lane(problem) => problem.clone(),
    };
    super::note_problem(driver, problem);
    let now = driver.clock.now();
    let mut state = driver.state.borrow_mut();
    let unread = state.saves.unread().clone();
    state.saves.handle_looked(unread, now);
}

/// Returns whether the folder was locked with this look.
async fn look(driver: &Rc<Driver>) -> Result<bool, Failure> {
    let loaded = driver.loaded.borrow().clone();
    let Some(state_dir) = &loaded.config.state_dir else {
        return Ok(false);
    };
    let folder = state_dir.join("live");
    let is_locked = driver.keep.borrow().lock.is_some();
    let unread = unread(driver);
    let job = {
        let (folder, limits) = (folder.clone(), driver.limits.clone());
        move || match is_locked {
            true => Ok(find_all(&folder, unread, &limits)),
            false => open_folder(&folder, unread, &limits),
        }
    };
    let looked = match driver.disk.run(job).await {
        Ok(Ok(looked)) => looked,
        Ok(Err(error)) => return Err(Failure::Disk(error)),
        Err(refused) => return Err(Failure::Lane(refused.to_string())),
    };
    if let Some(lock) = looked.lock {
        let mut keep = driver.keep.borrow_mut();
        keep.folder = Some(folder);
        keep.lock = Some(lock);
    }
    match looked.problem {
        Some(problem) => super::note_problem(driver, problem),
        None if !is_locked => super::note_recovery(driver),
        None => {}
    }
    take_up_all(driver, looked.found);
    Ok(!is_locked)
}

fn unread(driver: &Driver) -> Vec<(SlotIndex, SlotKey)> {
    let state = driver.state.borrow();
    let unread = state.saves.unread().iter();
    let with_key = |index: &SlotIndex| Some((*index, state.slots.of(*index)?.key.clone()));
    unread.filter_map(with_key).collect()
}

/// Blocks: runs in the disk lane.
fn open_folder(
    folder: &Path,
    slots: Vec<(SlotIndex, SlotKey)>,
    limits: &Limits,
) -> Result<Looked, DiskError> {
    disk::make_folder(folder)?;
    let lock = disk::lock(folder)?;
    let problem = match disk::remove_leftovers(folder) {
        Ok(_) => writable(folder).err(),
        Err(error) => Some(error),
    };
    Ok(Looked {
        lock: Some(lock),
        problem: problem.map(|error| error.to_string()),
        ..find_all(folder, slots, limits)
    })
}

fn writable(folder: &Path) -> Result<(), DiskError> {
    sys::access(folder, sys::Access::WRITE_OK)
        .map_err(|errno| DiskError::new(Step::Write, folder, &errno.into()))
}

/// Blocks: runs in the disk lane.
fn find_all(folder: &Path, slots: Vec<(SlotIndex, SlotKey)>, limits: &Limits) -> Looked {
    let slots = slots.into_iter();
    let found = slots.map(|(index, slot)| (index, find(folder, &slot, limits)));
    Looked {
        lock: None,
        problem: None,
        found: found.collect(),
    }
}

fn find(folder: &Path, slot: &SlotKey, limits: &Limits) -> Found {
    let name = wire::file_name(slot);
    let path = folder.join(&name);
    let problem = match disk::read_bounded(&path, wire::bytes_max(limits)) {
        Ok(None) => return Found::Nothing,
        Err(error) => match error.problem {
            Problem::System(_) => return Found::Unreadable(error.to_string()),
            _ => error.to_string(),
        },
        Ok(Some(bytes)) => match wire::decode(&bytes, slot, limits) {
            Err(error) => error.to_string(),
            Ok((record, snapshot)) => {
                return Found::Kept {
                    snapshot: seed::packed(snapshot, limits),
                    source: record.source,
                    past: record.past,
                };
            }
        },
    };
    // The one before it goes: what is to be looked at is the newest, and a card has an end.
    let aside = folder.join(format!("{name}.bad"));
    match sys::rename(&path, &aside) {
        Ok(()) => Found::Bad {
            name: format!("{name}.bad"),
            problem,
        },
        Err(errno) => Found::Bad {
            name,
            problem: format!("{problem}; it cannot be set aside: {errno}"),
        },
    }
}

fn take_up_all(driver: &Rc<Driver>, found: Vec<(SlotIndex, Found)>) {
    let is_unreadable = |found: &Found| matches!(found, Found::Unreadable(_));
    let unread = found.iter().filter(|(_, found)| is_unreadable(found));
    let unread: BTreeSet<SlotIndex> = unread.map(|(index, _)| *index).collect();
    let now = driver.clock.now();
    driver.state.borrow_mut().saves.handle_looked(unread, now);
    let mut unreadable = None;
    for (index, found) in found {
        match found {
            Found::Nothing => want(driver, index),
            Found::Unreadable(problem) => unreadable = unreadable.or(Some(problem)),
            Found::Bad { name, problem } => {
                note_bad(driver, name, &problem);
                want(driver, index);
            }
            Found::Kept {
                snapshot,
                source,
                past,
            } => take_up(driver, index, snapshot, source, &past),
        }
    }
    note_unreadable(driver, unreadable);
}

/// What the slot holds is to be kept, if it holds anything yet.
fn want(driver: &Driver, index: SlotIndex) {
    let mut state = driver.state.borrow_mut();
    let held = state.slots.of(index).map(|slot| slot.held.is_some());
    if held == Some(true) {
        state.saves.want(index);
    }
}

fn take_up(driver: &Rc<Driver>, index: SlotIndex, snapshot: Snapshot, source: Source, past: &Past) {
    let (is_operators, is_late) = {
        let mut state = driver.state.borrow_mut();
        let slot = state.slots.of(index);
        let is_late = slot.is_some_and(|slot| slot.held.is_some());
        let is_operators = slot.is_some_and(Slot::is_operators);
        state.slots.restore(index, past);
        (is_operators, is_late)
    };
    // What was pushed here is to be had from nobody else.
    if driver.keep.borrow().purpose == Use::Remember && !is_operators {
        return;
    }
    let adoption = driver.publish(index, Rc::new(snapshot), Source::Cache);
    if !matches!(adoption, Adoption::Adopted(_)) {
        return;
    }
    if let Some(slot) = driver.state.borrow().slots.of(index) {
        driver.log.note(format_args!(
            "slot {} serves what was last known good; it came from {}",
            slot.key,
            seed::Origin(source)
        ));
    }
    if is_late {
        region::store::handle_content(driver, index);
        // The seed that gave way is noted as superseded when it is read again.
        seed::forget(driver);
    }
}

fn note_bad(driver: &Driver, name: String, problem: &str) {
    let mut keep = driver.keep.borrow_mut();
    let folder = keep.folder.clone().unwrap_or_default();
    driver.log.error(format_args!(
        "{}: not used, the start goes on without it: {problem}",
        folder.join(&name).display()
    ));
    keep.bad_files.push(name);
}

/// Notes that a file cannot be read, or that all can; says it when that is news.
fn note_unreadable(driver: &Driver, problem: Option<String>) {
    let mut keep = driver.keep.borrow_mut();
    match (problem, keep.unreadable.take()) {
        (None, None) => {}
        (None, Some(_)) => driver
            .log
            .note(format_args!("all of the state folder can be read")),
        (Some(problem), Some((_, since))) => keep.unreadable = Some((problem, since)),
        (Some(problem), None) => {
            driver.log.error(format_args!(
                "{problem}; the file is left alone and tried again, and its slot is not kept \
                 until then"
            ));
            keep.unreadable = Some((problem, driver.clock.now()));
        }
    }
}
