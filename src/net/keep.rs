//! The state folder: what of each slot survives a restart.
//!
//! Owns `live` below the configured folder, for one relay at a time: a file for each slot, read
//! once (`look`) and written whenever state says so, in the disk lane, one write at a time. Files
//! of slots that are not configured (any more) are left alone.
//!
//! Policy: the folder is a convenience of the next start and never a condition of this one. A
//! folder that is missing or cannot be written costs the memory of a restart and nothing else: the
//! log says it once for each outage, the status as long as it lasts. Nothing is written over what
//! was not read, nor into another folder that took the place of the one that was locked.
//!
//! Trip: a step of a write that fails. Recovery: a write that works; `state::saves` says when.

mod look;

use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::model::SlotIndex;
use crate::time::Instant;
use crate::wire::keep as wire;

use super::disk::{self, Access, DiskError, Identity, Lock, Problem, Refused};
use super::driver::Driver;

pub use look::{Use, look_again, open};

/// What writes a file; tests have one that fails.
pub type Writer = fn(&Path, &[u8]) -> Result<(), DiskError>;

/// The folder as it is known.
pub struct Keep {
    /// The folder, once it is locked.
    folder: Option<PathBuf>,
    lock: Option<Lock>,
    purpose: Use,
    pub(super) write: Writer,
    /// Why nothing is kept, and since when.
    pub problem: Option<(String, Instant)>,
    /// Why some file is neither read nor written, and since when.
    pub unreadable: Option<(String, Instant)>,
    /// Files that were set aside, by their new names.
    pub bad_files: Vec<String>,
    /// When a file was last written.
    pub saved_at: Option<Instant>,
}

impl Default for Keep {
    fn default() -> Keep {
        Keep {
            folder: None,
            lock: None,
            purpose: Use::Serve,
            write: |path, bytes| disk::atomic_write(path, bytes, Access::Private),
            problem: None,
            unreadable: None,
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

    /// The same, and what it is known again by.
    fn locked(&self) -> Option<(PathBuf, Identity)> {
        let folder = self.folder()?.to_owned();
        Some((folder, self.lock.as_ref()?.identity))
    }
}

/// A write that was made ready. Blocks when it is done: for the disk lane.
struct Order {
    folder: PathBuf,
    identity: Identity,
    write: Writer,
    record: wire::Record,
}

impl Order {
    fn carry_out(&self) -> Result<(), DiskError> {
        self.identity.check(&self.folder)?;
        let path = self.folder.join(wire::file_name(&self.record.slot));
        (self.write)(&path, &wire::encode(&self.record))
    }
}

/// Writes what a slot holds now, in the background, and tells state how that ended.
pub fn save(driver: &Rc<Driver>, index: SlotIndex) {
    let Some(order) = order(driver, index) else {
        let now = driver.clock.now();
        driver
            .state
            .borrow_mut()
            .saves
            .handle_saved(index, true, now);
        return;
    };
    let task = driver.clone();
    let (slot, digest) = (order.record.slot.clone(), order.record.digest);
    // Queued here and now: a push that is written later has to come to lie over it.
    let queued = driver.disk.queue(move || order.carry_out());
    driver.spawn(async move {
        let outcome = match queued {
            Ok(written) => match written.recv().await {
                Ok(outcome) => outcome.map_err(|error| failed(&task, &error)),
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
/// There is no folder, or the slot's file cannot be read, or the disk has no room for the job or
/// failed. What lies there then is the record or the one before it, whole.
pub async fn write(
    driver: &Rc<Driver>,
    index: SlotIndex,
    record: wire::Record,
) -> Result<(), NotKept> {
    let folder = driver.keep.borrow().folder().map(Path::to_owned);
    let is_unread = driver.state.borrow().saves.unread().contains(&index);
    let Some(folder) = folder.filter(|_| !is_unread) else {
        return Err(nowhere(driver));
    };
    let path = folder.join(wire::file_name(&record.slot));
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
/// There is no folder, or the disk has no room for the job or failed.
pub async fn write_file(
    driver: &Rc<Driver>,
    path: PathBuf,
    encode: impl FnOnce() -> Vec<u8> + Send + 'static,
) -> Result<(), NotKept> {
    let found = {
        let keep = driver.keep.borrow();
        keep.locked()
            .map(|(folder, identity)| (folder, identity, keep.write))
    };
    let Some((folder, identity, write)) = found else {
        return Err(nowhere(driver));
    };
    let job = move || {
        identity.check(&folder)?;
        write(&path, &encode())
    };
    match driver.disk.run(job).await {
        Ok(Ok(())) => {
            note_success(driver, driver.clock.now());
            Ok(())
        }
        Ok(Err(error)) => {
            let problem = failed(driver, &error);
            note_problem(driver, problem.clone());
            driver.wake();
            Err(NotKept::Failed(problem))
        }
        Err(_) => Err(NotKept::Busy),
    }
}

/// Why there is nowhere to write to.
fn nowhere(driver: &Driver) -> NotKept {
    let keep = driver.keep.borrow();
    let problem = keep.problem.as_ref().or(keep.unreadable.as_ref());
    let problem = problem.map(|(problem, _)| problem.clone());
    NotKept::Failed(problem.unwrap_or_else(|| "there is no state folder".to_owned()))
}

/// What is to be kept of a slot, and where.
fn order(driver: &Driver, index: SlotIndex) -> Option<Order> {
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
    let (folder, identity) = keep.locked()?;
    Some(Order {
        folder,
        identity,
        write: keep.write,
        record,
    })
}

/// A write has failed: why, in one line. Where it was for want of the folder, that is looked for.
fn failed(driver: &Driver, error: &DiskError) -> String {
    if error.problem == Problem::Replaced {
        driver.keep.borrow_mut().lock = None;
        look::handle_loss(driver);
    }
    error.to_string()
}

fn note_success(driver: &Driver, now: Instant) {
    driver.keep.borrow_mut().saved_at = Some(now);
    note_recovery(driver);
}

/// Notes the end of an outage, and says it.
fn note_recovery(driver: &Driver) {
    if driver.keep.borrow_mut().problem.take().is_some() {
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
