//! What a power cut leaves: a file system in memory that records what it is asked for.
//!
//! The model promises less than any file system that the relay runs on. Bytes are safe once their
//! file was synced, names once their folder was, and nothing else is: of what came since, any part
//! may have reached the disk, in any order. A file whose bytes did not may be empty, cut off, or as
//! long as it should be and full of zeros, as found in the field.
//!
//! [`Model::reboots`] is every disk that a machine may find when it comes back, for a cut behind
//! each operation; with it comes the number of the newest write that was acknowledged before.

use super::file::{make_folder_on, write_on};
use super::medium::Medium;
use super::{Access, DiskError, Step};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What was asked for. Files are numbered in the order of their making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Create(PathBuf, usize),
    Write(usize, Vec<u8>),
    Sync(usize),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    SyncFolder(PathBuf),
    MakeFolder(PathBuf),
    /// The writer was told that this write is done.
    Acknowledge(usize),
}

/// What a machine finds: the content of each file that can be reached.
pub type Found = BTreeMap<PathBuf, Vec<u8>>;

/// The file system.
#[derive(Default)]
pub struct Model {
    pub operations: Vec<Operation>,
    names: BTreeSet<PathBuf>,
    files: usize,
    written: usize,
    /// The step that fails next, once.
    pub failing: Option<Step>,
}

impl Model {
    /// As [`super::make_folder`].
    pub fn make_folder(&mut self, path: &Path) -> Result<(), DiskError> {
        make_folder_on(self, path)
    }

    /// As [`super::atomic_write`]; what went well is acknowledged under the number of the write.
    pub fn write(&mut self, path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
        let outcome = write_on(self, path, bytes, Access::Private);
        self.written += 1;
        if outcome.is_ok() {
            self.operations.push(Operation::Acknowledge(self.written));
        }
        outcome
    }

    /// Every disk that may be found after a cut, with the newest acknowledged write, 0 for none.
    pub fn reboots(&self) -> Vec<(usize, Found)> {
        let mut reboots = Vec::new();
        for end in 0..=self.operations.len() {
            let operations = &self.operations[..end];
            let acknowledged = operations
                .iter()
                .rev()
                .find_map(|operation| match operation {
                    Operation::Acknowledge(write) => Some(*write),
                    _ => None,
                });
            for found in Disk::after(operations).reboots() {
                reboots.push((acknowledged.unwrap_or(0), found));
            }
        }
        reboots
    }

    fn enter(&mut self, step: Step) -> Result<(), Errno> {
        match self.failing == Some(step) {
            true => {
                self.failing = None;
                Err(Errno::IO)
            }
            false => Ok(()),
        }
    }
}

impl Medium for Model {
    type Open = usize;

    fn remove(&mut self, path: &Path) -> Result<(), Errno> {
        if !self.names.remove(path) {
            return Err(Errno::NOENT);
        }
        self.operations.push(Operation::Remove(path.to_owned()));
        Ok(())
    }

    fn create(&mut self, path: &Path, _: Access) -> Result<usize, Errno> {
        self.enter(Step::Create)?;
        assert!(self.names.insert(path.to_owned()), "made twice: {path:?}");
        self.files += 1;
        let made = Operation::Create(path.to_owned(), self.files);
        self.operations.push(made);
        Ok(self.files)
    }

    fn write(&mut self, file: &mut usize, bytes: &[u8]) -> Result<(), Errno> {
        let outcome = self.enter(Step::Write);
        let fits = if outcome.is_ok() {
            bytes.len()
        } else {
            bytes.len() / 2
        };
        self.operations
            .push(Operation::Write(*file, bytes[..fits].to_vec()));
        outcome
    }

    fn sync(&mut self, file: &mut usize) -> Result<(), Errno> {
        self.enter(Step::Sync)?;
        self.operations.push(Operation::Sync(*file));
        Ok(())
    }

    fn rename(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
        self.enter(Step::Rename)?;
        assert!(self.names.remove(from), "renamed and not there: {from:?}");
        self.names.insert(to.to_owned());
        let renamed = Operation::Rename(from.to_owned(), to.to_owned());
        self.operations.push(renamed);
        Ok(())
    }

    fn sync_folder(&mut self, folder: &Path) -> Result<(), Errno> {
        self.enter(Step::SyncDirectory)?;
        self.operations
            .push(Operation::SyncFolder(folder.to_owned()));
        Ok(())
    }

    fn make_folder(&mut self, path: &Path) -> Result<(), Errno> {
        self.operations.push(Operation::MakeFolder(path.to_owned()));
        Ok(())
    }
}

/// A change of names that is not safe yet.
#[derive(Clone, Debug)]
enum Change {
    Name(PathBuf, usize),
    Move(PathBuf, PathBuf, usize),
    Forget(PathBuf),
    Folder(PathBuf),
}

impl Change {
    fn folder(&self) -> Option<&Path> {
        match self {
            Change::Name(path, _)
            | Change::Move(_, path, _)
            | Change::Forget(path)
            | Change::Folder(path) => path.parent(),
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>, folders: &mut BTreeSet<PathBuf>) {
        match self {
            Change::Name(path, file) => drop(names.insert(path.clone(), *file)),
            Change::Move(from, to, file) => {
                names.remove(from);
                names.insert(to.clone(), *file);
            }
            Change::Forget(path) => drop(names.remove(path)),
            Change::Folder(path) => drop(folders.insert(path.clone())),
        }
    }
}

/// Bytes of one file: all of them, and those that are safe.
#[derive(Clone, Debug, Default)]
struct Bytes {
    all: Vec<u8>,
    safe: Vec<u8>,
}

/// What is safe, and what is not yet.
#[derive(Default)]
struct Disk {
    names: BTreeMap<PathBuf, usize>,
    folders: BTreeSet<PathBuf>,
    pending: Vec<Change>,
    files: BTreeMap<usize, Bytes>,
}

impl Disk {
    fn after(operations: &[Operation]) -> Disk {
        let mut disk = Disk::default();
        let mut names = BTreeMap::new();
        for operation in operations {
            match operation {
                Operation::Create(path, file) => {
                    names.insert(path.clone(), *file);
                    disk.files.insert(*file, Bytes::default());
                    disk.pending.push(Change::Name(path.clone(), *file));
                }
                Operation::Write(file, bytes) => {
                    let file = disk.files.get_mut(file).unwrap();
                    file.all.extend_from_slice(bytes);
                }
                Operation::Sync(file) => {
                    let file = disk.files.get_mut(file).unwrap();
                    file.safe = file.all.clone();
                }
                Operation::Rename(from, to) => {
                    let file = names.remove(from).unwrap();
                    names.insert(to.clone(), file);
                    let change = Change::Move(from.clone(), to.clone(), file);
                    disk.pending.push(change);
                }
                Operation::Remove(path) => {
                    names.remove(path);
                    disk.pending.push(Change::Forget(path.clone()));
                }
                Operation::MakeFolder(path) => disk.pending.push(Change::Folder(path.clone())),
                Operation::SyncFolder(folder) => {
                    let pending = std::mem::take(&mut disk.pending);
                    let (safe, others) = pending
                        .into_iter()
                        .partition(|change| change.folder() == Some(folder));
                    disk.pending = others;
                    let safe: Vec<Change> = safe;
                    for change in safe {
                        change.apply(&mut disk.names, &mut disk.folders);
                    }
                }
                Operation::Acknowledge(_) => {}
            }
        }
        disk
    }

    fn reboots(&self) -> Vec<Found> {
        let mut found = Vec::new();
        for changes in selections(&self.pending) {
            let (mut names, mut folders) = (self.names.clone(), self.folders.clone());
            for change in changes {
                change.apply(&mut names, &mut folders);
            }
            // What lies in a folder that was lost is lost with it.
            names.retain(|path, _| path.parent().is_some_and(|folder| folders.contains(folder)));
            let mut disks = vec![Found::new()];
            for (path, file) in names {
                let contents = self.files[&file].after_a_cut();
                disks = disks
                    .iter()
                    .flat_map(|disk| {
                        contents.iter().map(|content| {
                            let mut disk = disk.clone();
                            disk.insert(path.clone(), content.clone());
                            disk
                        })
                    })
                    .collect();
            }
            found.append(&mut disks);
        }
        found
    }
}

impl Bytes {
    fn after_a_cut(&self) -> Vec<Vec<u8>> {
        if self.all == self.safe {
            return vec![self.safe.clone()];
        }
        vec![
            self.safe.clone(),
            self.all[..self.all.len() / 2].to_vec(),
            vec![0; self.all.len()],
            self.all.clone(),
        ]
    }
}

/// Every choice of some of `changes`, in every order.
fn selections(changes: &[Change]) -> Vec<Vec<Change>> {
    let mut selections = vec![Vec::new()];
    for (place, first) in changes.iter().enumerate() {
        let mut others = changes.to_vec();
        others.remove(place);
        for mut rest in self::selections(&others) {
            rest.insert(0, first.clone());
            selections.push(rest);
        }
    }
    selections
}

#[cfg(test)]
mod tests {
    use super::super::medium::Failing;
    use super::*;

    const FOLDER: &str = "/state/live";

    fn content(write: usize) -> Vec<u8> {
        vec![b'0' + write as u8; 8]
    }

    /// A folder and three writes to one file, of which the second fails at `failing`.
    fn written(failing: Option<Step>) -> Model {
        let mut model = Model::default();
        model.make_folder(Path::new(FOLDER)).unwrap();
        let path = Path::new(FOLDER).join("a");
        for write in 1..=3 {
            model.failing = failing.filter(|_| write == 2);
            let outcome = model.write(&path, &content(write));
            assert_eq!(outcome.is_err(), write == 2 && failing.is_some());
        }
        model
    }

    /// What is wrong with a disk that was found: torn, or older than was acknowledged.
    fn wrong(acknowledged: usize, found: &Found) -> bool {
        match found.get(&Path::new(FOLDER).join("a")) {
            None => acknowledged > 0,
            Some(bytes) => !(acknowledged.max(1)..=3).any(|write| content(write) == *bytes),
        }
    }

    fn without(model: &Model, left_out: impl Fn(&Operation) -> bool) -> usize {
        let operations = model.operations.iter();
        let bad = Model {
            operations: operations.filter(|next| !left_out(next)).cloned().collect(),
            ..Model::default()
        };
        let reboots = bad.reboots();
        reboots
            .iter()
            .filter(|(acknowledged, found)| wrong(*acknowledged, found))
            .count()
    }

    #[test]
    fn a_cut_at_any_moment_leaves_old_or_new_and_what_was_acknowledged() {
        for failing in Failing::STEPS.map(Some).into_iter().chain([None]) {
            let reboots = written(failing).reboots();
            assert!(reboots.len() > 30, "{}", reboots.len());
            for (acknowledged, found) in reboots {
                assert!(!wrong(acknowledged, &found), "{failing:?}: {found:?}");
            }
        }
    }

    #[test]
    fn the_model_sees_each_step_that_is_left_out() {
        let model = written(None);
        let (folder, above) = (Path::new(FOLDER), Path::new("/state"));
        assert_eq!(without(&model, |_| false), 0);
        assert!(without(&model, |next| matches!(next, Operation::Sync(_))) > 0);
        for lost in [folder, above] {
            let synced = |next: &Operation| *next == Operation::SyncFolder(lost.to_owned());
            assert!(without(&model, synced) > 0, "{lost:?}");
        }
    }

    #[test]
    fn a_write_is_synced_renamed_and_its_folder_synced() {
        let model = written(None);
        let (name, unfinished) = ("/state/live/a", "/state/live/.a.staffetta-tmp");
        let expected = [
            Operation::Create(unfinished.into(), 1),
            Operation::Write(1, content(1)),
            Operation::Sync(1),
            Operation::Rename(unfinished.into(), name.into()),
            Operation::SyncFolder(FOLDER.into()),
            Operation::Acknowledge(1),
        ];
        assert_eq!(model.operations[2..8], expected);
    }
}
