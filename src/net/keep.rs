//! The state folder: what of each slot survives a restart.
//!
//! Owns `live` below the configured folder, for one relay at a time: a file for each slot, read
//! once at the start and written whenever state says so, in the disk lane, one write at a time.
//! Files of slots that are not configured (any more) are left alone.
//!
//! Policy: the folder is a convenience of the next start and never a condition of this one. A file
//! that cannot be used is set aside, one for each slot, and the start goes on without it. A folder
//! that is missing or cannot be written costs the memory of a restart and nothing else: the log
//! says it once for each outage, the status as long as it lasts. The one exception is a folder that
//! another relay is using: two of them would overwrite each other's state in silence.
//!
//! Trip: a step of a write that fails. Recovery: a write that works; `state::saves` says when.

use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs as sys;

use crate::limits::Limits;
use crate::model::{Past, SlotIndex, SlotKey, Snapshot, Source};
use crate::state::slots::Slot;
use crate::time::Instant;
use crate::wire::keep as wire;

use super::disk::{self, Access, DiskError, Lock, Problem, Refused, Step};
use super::driver::Driver;
use super::seed;

/// What writes a file; tests have one that fails.
pub type Writer = fn(&Path, &[u8]) -> Result<(), DiskError>;

/// What becomes of the documents that are found at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// They are served until something counts more.
    Serve,
    /// Only what came before is remembered, so that a backup's step back is known for one.
    Remember,
}

/// The folder as it is known.
pub struct Keep {
    /// The folder, once it is locked.
    folder: Option<PathBuf>,
    lock: Option<Lock>,
    pub(super) write: Writer,
    /// Why nothing is kept, and since when.
    pub problem: Option<(String, Instant)>,
    /// Files that were set aside at the start, by their new names.
    pub bad_files: Vec<String>,
    /// When a file was last written.
    pub saved_at: Option<Instant>,
}

impl Default for Keep {
    fn default() -> Keep {
        Keep {
            folder: None,
            lock: None,
            write: |path, bytes| disk::atomic_write(path, bytes, Access::Private),
            problem: None,
            bad_files: Vec::new(),
            saved_at: None,
        }
    }
}

impl Keep {
    /// The folder that is this process's alone, if there is one.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref().filter(|_| self.lock.is_some())
    }
}

/// A folder that was locked, and what was in it for each slot.
struct Opened {
    lock: Lock,
    /// It can be read and not written.
    problem: Option<String>,
    found: Vec<Found>,
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
}

/// Locks the folder and takes up what is in it. To be called once, before the first offer.
///
/// # Errors
/// Another relay is running with the folder. Nothing else ends a start.
pub async fn open(driver: &Rc<Driver>, purpose: Use) -> Result<(), DiskError> {
    let loaded = driver.loaded.borrow().clone();
    let Some(state_dir) = &loaded.config.state_dir else {
        return Ok(());
    };
    let folder = state_dir.join("live");
    let (slots, limits) = (loaded.config.slots.clone(), driver.limits.clone());
    let job = {
        let folder = folder.clone();
        move || open_folder(&folder, &slots, &limits)
    };
    let problem = match driver.disk.run(job).await {
        Ok(Ok(opened)) => {
            {
                let mut keep = driver.keep.borrow_mut();
                keep.folder = Some(folder);
                keep.lock = Some(opened.lock);
            }
            driver.state.borrow_mut().saves.enable();
            for (index, found) in (0..).map(SlotIndex).zip(opened.found) {
                take_up(driver, index, found, purpose);
            }
            opened.problem
        }
        Ok(Err(error)) if error.problem == Problem::Taken => return Err(error),
        Ok(Err(error)) => Some(error.to_string()),
        Err(refused) => Some(refused.to_string()),
    };
    if let Some(problem) = problem {
        note_problem(driver, problem);
    }
    Ok(())
}

/// Blocks: runs in the disk lane.
fn open_folder(folder: &Path, slots: &[SlotKey], limits: &Limits) -> Result<Opened, DiskError> {
    disk::make_folder(folder)?;
    let lock = disk::lock(folder)?;
    let problem = match disk::remove_leftovers(folder) {
        Ok(_) => writable(folder).err(),
        Err(error) => Some(error),
    };
    let found = slots.iter().map(|slot| find(folder, slot, limits));
    Ok(Opened {
        lock,
        problem: problem.map(|error| error.to_string()),
        found: found.collect(),
    })
}

fn writable(folder: &Path) -> Result<(), DiskError> {
    sys::access(folder, sys::Access::WRITE_OK)
        .map_err(|errno| DiskError::new(Step::Write, folder, &errno.into()))
}

fn find(folder: &Path, slot: &SlotKey, limits: &Limits) -> Found {
    let name = wire::file_name(slot);
    let path = folder.join(&name);
    let problem = match disk::read_bounded(&path, wire::bytes_max(limits)) {
        Ok(None) => return Found::Nothing,
        Err(error) => error.to_string(),
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

fn take_up(driver: &Rc<Driver>, index: SlotIndex, found: Found, purpose: Use) {
    match found {
        Found::Nothing => {}
        Found::Bad { name, problem } => {
            let folder = driver.keep.borrow().folder.clone().unwrap_or_default();
            driver.log.error(format_args!(
                "{}: not used, the start goes on without it: {problem}",
                folder.join(&name).display()
            ));
            driver.keep.borrow_mut().bad_files.push(name);
        }
        Found::Kept {
            snapshot,
            source,
            past,
        } => {
            driver.state.borrow_mut().slots.restore(index, &past);
            let is_operators = |driver: &Driver| {
                let state = driver.state.borrow();
                state.slots.of(index).is_some_and(Slot::is_operators)
            };
            // What was pushed here is to be had from nobody else.
            if purpose == Use::Remember && !is_operators(driver) {
                return;
            }
            driver.publish(index, Rc::new(snapshot), Source::Cache);
            if let Some(slot) = driver.state.borrow().slots.of(index) {
                driver.log.note(format_args!(
                    "slot {} serves what was last known good; it came from {}",
                    slot.key,
                    seed::Origin(source)
                ));
            }
        }
    }
}

/// Writes what a slot holds now, in the background, and tells state how that ended.
pub fn save(driver: &Rc<Driver>, index: SlotIndex) {
    let Some((path, record)) = record(driver, index) else {
        let now = driver.clock.now();
        driver
            .state
            .borrow_mut()
            .saves
            .handle_saved(index, true, now);
        return;
    };
    let write = driver.keep.borrow().write;
    let task = driver.clone();
    let (slot, digest) = (record.slot.clone(), record.digest);
    // Queued here and now: a push that is written later has to come to lie over it.
    let queued = driver
        .disk
        .queue(move || write(&path, &wire::encode(&record)));
    driver.spawn(async move {
        let outcome = match queued {
            Ok(written) => match written.recv().await {
                Ok(outcome) => outcome.map_err(|error| error.to_string()),
                Err(_) => Err(Refused::<()>::Ended.to_string()),
            },
            Err(refused) => Err(refused.to_string()),
        };
        let now = task.clock.now();
        let is_kept = outcome.is_ok();
        task.count(|counters| match is_kept {
            true => counters.state_saves += 1,
            false => counters.state_saves_failed += 1,
        });
        match outcome {
            Ok(()) => {
                task.log.debug(format_args!("slot {slot}: kept {digest}"));
                note_success(&task, now);
            }
            Err(problem) => note_problem(&task, problem),
        }
        task.state
            .borrow_mut()
            .saves
            .handle_saved(index, is_kept, now);
        task.wake();
    });
}

/// Why something is not kept.
pub enum NotKept {
    /// Too many jobs wait for the disk.
    Busy,
    /// One line.
    Failed(String),
}

impl fmt::Display for NotKept {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            NotKept::Busy => "the disk has more to do than it can",
            NotKept::Failed(problem) => problem,
        })
    }
}

/// Writes `record` and waits until it is safe. Nobody else may write that slot meanwhile.
///
/// # Errors
/// There is no folder, or the disk has no room for the job or failed. What lies there then is the
/// record or the one before it, whole.
pub async fn write(driver: &Rc<Driver>, record: wire::Record) -> Result<(), NotKept> {
    let folder = driver.keep.borrow().folder().map(Path::to_owned);
    let path = folder
        .unwrap_or_default()
        .join(wire::file_name(&record.slot));
    let (slot, digest) = (record.slot.clone(), record.digest);
    write_file(driver, path, move || wire::encode(&record)).await?;
    let log = &driver.log;
    log.debug(format_args!("slot {slot}: kept {digest}"));
    Ok(())
}

/// Writes what `encode` gives, in the disk lane, and waits until it is safe. The file lies in the
/// folder or beside it, and is nobody else's.
///
/// # Errors
/// As [`write`]'s.
pub async fn write_file(
    driver: &Rc<Driver>,
    path: PathBuf,
    encode: impl FnOnce() -> Vec<u8> + Send + 'static,
) -> Result<(), NotKept> {
    let write = {
        let keep = driver.keep.borrow();
        if keep.folder().is_none() {
            let problem = keep.problem.as_ref().map(|(problem, _)| problem.clone());
            let problem = problem.unwrap_or_else(|| "there is no state folder".to_owned());
            return Err(NotKept::Failed(problem));
        }
        keep.write
    };
    match driver.disk.run(move || write(&path, &encode())).await {
        Ok(Ok(())) => {
            note_success(driver, driver.clock.now());
            Ok(())
        }
        Ok(Err(error)) => {
            note_problem(driver, error.to_string());
            Err(NotKept::Failed(error.to_string()))
        }
        Err(_) => Err(NotKept::Busy),
    }
}

/// What is to be kept of a slot, and where.
fn record(driver: &Driver, index: SlotIndex) -> Option<(PathBuf, wire::Record)> {
    let keep = driver.keep.borrow();
    let state = driver.state.borrow();
    let slot = state.slots.of(index)?;
    let held = slot.held.as_ref()?;
    let record = wire::Record {
        slot: slot.key.clone(),
        digest: held.snapshot.digest,
        source: slot.origin()?,
        saved_at: driver.clock.wall(),
        past: slot.past(),
        document: held.snapshot.json.clone(),
    };
    Some((keep.folder()?.join(wire::file_name(&slot.key)), record))
}

fn note_success(driver: &Driver, now: Instant) {
    let mut keep = driver.keep.borrow_mut();
    keep.saved_at = Some(now);
    if keep.problem.take().is_some() {
        driver.log.note(format_args!("the state is kept again"));
    }
}

/// Notes an outage; says it when it begins.
fn note_problem(driver: &Driver, problem: String) {
    let mut keep = driver.keep.borrow_mut();
    let since = match &keep.problem {
        Some((_, since)) => *since,
        None => {
            driver.log.error(format_args!(
                "the state is not kept, what is served stays, and a restart begins with the seed: \
                 {problem}"
            ));
            driver.clock.now()
        }
    };
    keep.problem = Some((problem, since));
}

#[cfg(test)]
mod tests;
