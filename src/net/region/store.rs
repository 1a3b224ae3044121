//! What of region routing survives a restart: the record, this node's word on each subject, and the
//! heads of its slots.
//!
//! Owns one file in the state folder for the record and the words, and the folder of the orphans.
//! The heads lie in the slots' own files, with their content (`net::keep`). Words that are to be
//! stored at one time are one write, since a switch may concern all slots at once.
//!
//! Policy: without its memory a node is primary for nothing. A folder that cannot be used, a file
//! that cannot be read or is another node's, a slot that holds less than the term began with that
//! this node has not sealed: then no record counts, which is said in log and status, until a
//! restart finds it mended. A word that is on the disk and was said not to be is harmless: it is
//! tried again, and a restart in between goes by it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use smol::lock::{Semaphore, SemaphoreGuard};

use crate::limits::Limits;
use crate::model::region::{Head, Mark, Subject};
use crate::model::{Id, Revision, SlotIndex, SlotKey, Snapshot, Source};
use crate::net::disk;
use crate::net::driver::Driver;
use crate::net::keep::{self, NotKept};
use crate::net::{push, seed};
use crate::state::region::{Routing, Setting, SubjectIndex};
use crate::state::slots::Slot;
use crate::time::{Wall, WallMs};
use crate::wire::keep as slot_file;
use crate::wire::region::keep as file;

use super::{Region, now, orphans, tell};

/// The file as it is known.
pub struct Store {
    kept: RefCell<Kept>,
    /// Words that wait for the write after the one that runs.
    pending: RefCell<BTreeMap<SubjectIndex, Mark>>,
    is_writing: Cell<bool>,
    /// Held by whoever changes the file.
    turn: Semaphore,
    /// Why this node has no memory.
    problem: RefCell<Option<String>>,
    /// Orphans that lie in their folder.
    pub orphans: Cell<usize>,
}

/// What lies on the disk.
#[derive(Clone, Default)]
struct Kept {
    trusted_at: WallMs,
    record: Option<Rc<[u8]>>,
    is_conflicted: bool,
    words: BTreeMap<Subject, Mark>,
}

impl From<file::Kept> for Kept {
    fn from(found: file::Kept) -> Kept {
        Kept {
            trusted_at: found.trusted_at,
            record: found.record.map(|record| record.into_bytes().into()),
            is_conflicted: found.is_conflicted,
            words: found.words.into_iter().collect(),
        }
    }
}

impl Default for Store {
    fn default() -> Store {
        Store {
            kept: RefCell::default(),
            pending: RefCell::default(),
            is_writing: Cell::new(false),
            turn: Semaphore::new(1),
            problem: RefCell::new(Some(String::from("the start is not over yet"))),
            orphans: Cell::new(0),
        }
    }
}

impl Store {
    /// Why no record can count, if none can.
    pub fn problem(&self) -> Option<String> {
        self.problem.borrow().clone()
    }

    /// The right to change the file; words wait meanwhile.
    pub(super) async fn turn(&self) -> SemaphoreGuard<'_> {
        self.turn.acquire().await
    }

    /// The envelope of the record that lies there.
    pub(super) fn record(&self) -> Option<Rc<[u8]>> {
        self.kept.borrow().record.clone()
    }

    /// Another record of its version was seen.
    pub(super) fn is_conflicted(&self) -> bool {
        self.kept.borrow().is_conflicted
    }
}

/// Brings back what this node gave its word on, unless that was done. To be called when the slots
/// have their first content, before anybody is served, and again when the folder was looked at
/// again: a card that is mounted late.
pub async fn open(driver: &Rc<Driver>) {
    let Some(region) = &driver.region else { return };
    let before = region.store.problem();
    if before.is_none() {
        return;
    }
    let name = region.name.clone();
    let found = match path(driver) {
        Ok(path) => read(driver, path, name).await,
        Err(problem) => Err(problem),
    };
    let found = found.and_then(|kept| {
        let missing = unread_content(driver, region).or_else(|| lost_content(driver, &kept));
        missing.map_or(Ok(kept), Err)
    });
    let kept = match found {
        Ok(kept) => {
            *region.store.problem.borrow_mut() = None;
            kept
        }
        Err(problem) => {
            if before.as_ref() != Some(&problem) {
                driver.log.error(format_args!(
                    "region: no state record counts, and every write is refused: {problem}"
                ));
            }
            *region.store.problem.borrow_mut() = Some(problem);
            Kept::default()
        }
    };
    let mut routing = routing(driver, region, &kept);
    // What came in since the last turn is refused, as all before it: there is no record yet.
    super::obey_all(driver, region);
    tell(driver, |before, _| {
        routing.count_on(before);
        *before = routing;
    });
    *region.store.kept.borrow_mut() = kept;
    orphans::count(driver, region).await;
}

fn path(driver: &Driver) -> Result<PathBuf, String> {
    let keep = driver.keep.borrow();
    let problem = || keep.problem.as_ref().map(|(problem, _)| problem.clone());
    let folder = keep
        .folder()
        .ok_or_else(|| problem().unwrap_or_else(|| String::from("there is no state folder")))?;
    Ok(folder.join(file::FILE_NAME))
}

async fn read(driver: &Driver, path: PathBuf, node: Id) -> Result<Kept, String> {
    let limits = driver.limits.clone();
    let job = move || find(&path, &node, &limits);
    let found = driver.disk.run(job).await;
    let found = found.map_err(|refused| refused.to_string())??;
    Ok(found.map(Kept::from).unwrap_or_default())
}

/// Blocks: runs in the disk lane.
fn find(path: &Path, node: &Id, limits: &Limits) -> Result<Option<file::Kept>, String> {
    let bytes = match disk::read_bounded(path, file::bytes_max(limits)) {
        Ok(None) => return Ok(None),
        Ok(Some(bytes)) => bytes,
        Err(error) => return Err(error.to_string()),
    };
    file::decode(&bytes, node).map(Some).map_err(|error| {
        format!(
            "{}: {error}; put it aside when another node is primary for all that this one was",
            path.display()
        )
    })
}

/// A slot whose file cannot be read for now: nobody knows how far its content has come.
fn unread_content(driver: &Driver, region: &Region) -> Option<String> {
    let state = driver.state.borrow();
    let keys = state.saves.unread().iter();
    let mut keys = keys.filter_map(|index| Some(&state.slots.of(*index)?.key));
    let is_routed = |key: &&SlotKey| region.subject(&Subject::Slot((*key).clone())).is_some();
    let key = keys.find(is_routed)?;
    Some(format!("the file of slot {key} cannot be read"))
}

/// A slot whose content is lost although this node may still write it: it may be nowhere else, and
/// its revisions would be given out twice. A slot that had nothing when the term began is known to
/// have lost something only by a file that is there.
fn lost_content(driver: &Driver, kept: &Kept) -> Option<String> {
    let keep = driver.keep.borrow();
    let lost = kept.words.iter().find_map(|(subject, mark)| {
        let Subject::Slot(slot) = subject else {
            return None;
        };
        let epoch = mark.open_term()?;
        let name = slot_file::file_name(slot);
        let is_bad = |bad: &&String| bad.strip_suffix(".bad").unwrap_or(bad) == name;
        let problem = match keep.bad_files.iter().find(is_bad) {
            Some(bad) => format!("{bad} cannot be used"),
            None if is_behind(&head(driver, subject), mark) => format!("{name} is not there"),
            None => return None,
        };
        Some((slot, epoch, problem))
    });
    let (slot, epoch, problem) = lost?;
    Some(format!(
        "{problem}, and this node is primary for {slot} in term {epoch}: put a copy of it back, or \
         {} aside when another node is primary",
        file::FILE_NAME
    ))
}

/// Whether a slot holds less than its term began with.
fn is_behind(held: &Head, mark: &Mark) -> bool {
    let (held, begun) = (held.revision, mark.parent);
    // What was taken over without a seal is held under the revision that it had before.
    let is_same_content = begun.seq == 0 && held > Revision::default();
    held < begun && !is_same_content
}

fn routing(driver: &Driver, region: &Region, kept: &Kept) -> Routing {
    let subjects = region.subjects.iter().map(|subject| {
        let mark = kept.words.get(subject).copied().unwrap_or_default();
        (subject.clone(), mark, head(driver, subject))
    });
    let built = WallMs::from_unix_ms(Wall::PLAUSIBLE.as_unix() * 1_000);
    let setting = Setting {
        name: region.name.clone(),
        boot: region.boot,
        wall_floor: built.max(kept.trusted_at),
        subjects: subjects.collect(),
        has_upstream: driver.loaded.borrow().config.upstream.is_some(),
        random_seed: region.boot,
    };
    Routing::new(setting, Rc::new(driver.limits.clone()), now(driver))
}

/// What the store holds of a slot; of a route, nothing.
fn head(driver: &Driver, subject: &Subject) -> Head {
    let Subject::Slot(key) = subject else {
        return Head::default();
    };
    let state = driver.state.borrow();
    let slots = &state.slots;
    let found = slots.find(key.collection.as_str(), key.environment.as_str());
    let slot = found.and_then(|slot| slots.of(slot));
    slot.and_then(head_of).unwrap_or_default()
}

fn head_of(slot: &Slot) -> Option<Head> {
    Some(Head {
        revision: slot.revision()?,
        digest: slot.held.as_ref()?.snapshot.digest,
        parent: slot.parent(),
    })
}

/// A seed, or a state folder that came late, gave a slot its content: that is a head too.
pub fn handle_content(driver: &Driver, slot: SlotIndex) {
    let Some(region) = &driver.region else { return };
    let Some(subject) = region.subject_of(driver, slot) else {
        return;
    };
    let state = driver.state.borrow();
    let head = state.slots.of(slot).and_then(head_of);
    drop(state);
    if let Some(head) = head {
        tell(driver, |routing, now| {
            routing.handle_content(subject, head, now);
        });
    }
}

/// Stores a word, and says whether it is.
pub fn keep_mark(driver: &Rc<Driver>, region: &Region, subject: SubjectIndex, mark: Mark) {
    region.store.pending.borrow_mut().insert(subject, mark);
    if !region.store.is_writing.replace(true) {
        let task = driver.clone();
        driver.spawn(async move { keep_marks(&task).await });
    }
}

async fn keep_marks(driver: &Rc<Driver>) {
    let Some(region) = &driver.region else { return };
    loop {
        let turn = region.store.turn().await;
        let batch = region.store.pending.take();
        if batch.is_empty() {
            region.store.is_writing.set(false);
            return;
        }
        let mut next = region.store.kept.borrow().clone();
        for (index, mark) in &batch {
            if let Some(subject) = region.subjects.get(usize::from(index.0)) {
                next.words.insert(subject.clone(), *mark);
            }
        }
        let is_stored = write(driver, region, next).await.is_ok();
        drop(turn);
        tell(driver, |routing, now| {
            for index in batch.into_keys() {
                routing.handle_mark(index, is_stored, now);
            }
        });
    }
}

/// Takes back the words that were ordered and lie on no disk yet, because another record is about
/// to count: what still holds under that one is ordered again. Whoever calls has the turn.
pub(super) fn take_back_marks(driver: &Driver, region: &Region) {
    let ordered = region.store.pending.take();
    tell(driver, |routing, now| {
        for index in ordered.into_keys() {
            routing.handle_mark(index, false, now);
        }
    });
}

/// Stores a record. Whoever calls has the turn.
///
/// # Errors
/// It may be there or not; the one before it then still counts.
pub(super) async fn keep_record(
    driver: &Rc<Driver>,
    region: &Region,
    record: Rc<[u8]>,
) -> Result<(), String> {
    let next = Kept {
        record: Some(record),
        is_conflicted: false,
        ..region.store.kept.borrow().clone()
    };
    write(driver, region, next).await
}

/// Stores that another record of this one's version was seen. Whoever calls has the turn. If the
/// disk does not take it, it is known until a restart.
pub(super) async fn keep_conflict(driver: &Rc<Driver>, region: &Region) {
    if region.store.is_conflicted() {
        return;
    }
    let next = Kept {
        is_conflicted: true,
        ..region.store.kept.borrow().clone()
    };
    // Log and status say why the disk takes nothing.
    let _ = write(driver, region, next).await;
}

/// Stores all of it again, in a folder that came in the place of another.
pub async fn keep_again(driver: &Rc<Driver>) {
    let Some(region) = &driver.region else { return };
    if region.store.problem().is_some() {
        return;
    }
    let _turn = region.store.turn().await;
    let kept = region.store.kept.borrow().clone();
    // Log and status say why the disk takes nothing; the next word is another attempt.
    let _ = write(driver, region, kept).await;
}

async fn write(driver: &Rc<Driver>, region: &Region, mut next: Kept) -> Result<(), String> {
    let now = now(driver);
    if region.routing.borrow().status(now).is_clock_trusted {
        next.trusted_at = next.trusted_at.max(now.wall);
    }
    let record = next.record.as_ref();
    let text = |bytes: &Rc<[u8]>| String::from_utf8_lossy(bytes).into_owned();
    let words = next.words.iter();
    let kept = file::Kept {
        node: region.name.clone(),
        trusted_at: next.trusted_at,
        record: record.map(text),
        is_conflicted: next.is_conflicted,
        words: words
            .map(|(subject, mark)| (subject.clone(), *mark))
            .collect(),
    };
    let path = path(driver)?;
    keep::write_file(driver, path, move || file::encode(&kept))
        .await
        .map_err(|not_kept| not_kept.to_string())?;
    *region.store.kept.borrow_mut() = next;
    Ok(())
}

/// Takes a peer's content for a slot, as `Follow::Adopt` says: what it replaces goes to the orphans
/// if `is_fork`; then it is kept, served, and `routing` is told by `handle_head`, whatever came of
/// it.
pub async fn adopt(
    driver: &Rc<Driver>,
    subject: SubjectIndex,
    snapshot: Snapshot,
    head: Head,
    is_fork: bool,
) {
    let taken = take(driver, subject, snapshot, head, is_fork).await;
    if let Err(problem) = &taken {
        driver.log.limited(
            crate::net::log::Cause::Disk,
            driver.clock.now(),
            format_args!("region: a peer's content is not taken: {problem}"),
        );
    }
    let is_fork = is_fork && taken.is_ok();
    tell(driver, |routing, now| {
        routing.handle_head(subject, taken.ok().map(|()| head), is_fork, now);
    });
}

async fn take(
    driver: &Rc<Driver>,
    subject: SubjectIndex,
    snapshot: Snapshot,
    head: Head,
    is_fork: bool,
) -> Result<(), String> {
    let region = driver.region.as_ref();
    let slot = region.and_then(|region| region.slot_of(driver, subject));
    let (Some(region), Some(slot)) = (region, slot) else {
        return Err(String::from("it is for no slot of this relay"));
    };
    if is_fork {
        orphans::keep(driver, region, slot).await?;
    }
    let kept = settle(driver, slot, Rc::new(snapshot), head).await;
    kept.map_err(|not_kept| not_kept.to_string())
}

/// Keeps content at the place that it was given, and then serves it.
///
/// # Errors
/// It is not kept for certain; what was served stays.
pub(super) async fn settle(
    driver: &Rc<Driver>,
    slot: SlotIndex,
    snapshot: Rc<Snapshot>,
    head: Head,
) -> Result<(), NotKept> {
    let _turn = driver.pushes.turn().await;
    let place = (head.revision, head.parent);
    let wall = driver.clock.wall();
    let past = {
        let mut state = driver.state.borrow_mut();
        let past = state
            .slots
            .begin_push_at(slot, snapshot.digest, place, wall);
        state.saves.hold_back(slot);
        past
    };
    let record = past.and_then(|past| push::record(driver, slot, &snapshot, past));
    let kept = match record {
        Some(record) => keep::write(driver, slot, record).await,
        None => Err(NotKept::Busy),
    };
    if kept.is_ok() {
        driver.publish(slot, snapshot, Source::Operator);
    }
    push::end(driver, slot, kept.is_ok());
    if kept.is_ok() {
        seed::note_adoption(driver, slot);
    }
    kept
}
