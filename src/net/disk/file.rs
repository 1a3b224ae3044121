//! What is done to one file: read it within a bound, replace it whole, lock it.
//!
//! Owns: the order of write, sync, rename, sync that survives a power cut, and the names of the
//! files that are not finished yet.
//!
//! Never: waits for a pipe, opens a device, follows a link that was planted in place of a file that
//! it creates, leaves a half-written file under a name that anybody reads.
//!
//! Everything here blocks: it belongs in a job of the lane, or before the loop turns.

use super::medium::{Medium, System};
use super::{DiskError, Problem, Step};
use rustix::fs::{self as sys, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// What ends the name of a file that is not finished yet.
const UNFINISHED: &str = ".staffetta-tmp";

/// Who may read a file that the relay writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The owner alone (0600).
    Private,
    /// Everybody (0644): certificates.
    Public,
}

impl Access {
    pub(super) const fn mode(self) -> Mode {
        match self {
            Access::Private => Mode::RUSR.union(Mode::WUSR),
            Access::Public => Mode::RUSR
                .union(Mode::WUSR)
                .union(Mode::RGRP)
                .union(Mode::ROTH),
        }
    }
}

/// Reads a regular file of at most `bytes_max` bytes; `None` when there is none.
///
/// Symlinks are followed. A pipe or device is refused before it is opened, because opening one can
/// wait for ever or start something. Errors: the system's, `NotAFile`, `TooLarge`.
/// Bounded by `bytes_max + 1` bytes of memory and reading.
pub fn read_bounded(path: &Path, bytes_max: usize) -> Result<Option<Vec<u8>>, DiskError> {
    let failed = |step, errno| DiskError::because(step, path, Problem::System(errno));
    let not_a_file = || DiskError::because(Step::Open, path, Problem::NotAFile);
    match sys::stat(path) {
        Ok(found) if is_regular(&found) => {}
        Ok(_) => return Err(not_a_file()),
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(failed(Step::Look, errno)),
    }
    // The file may have been swapped since it was looked at: no waiting, and a second look.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    // Reading is no reason to write the time of it to the card. Only the owner may ask for that.
    let opened = match sys::open(path, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => sys::open(path, flags, Mode::empty()),
        opened => opened,
    };
    let file = match opened {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(failed(Step::Open, errno)),
    };
    let found = sys::fstat(&file).map_err(|errno| failed(Step::Look, errno))?;
    if !is_regular(&found) {
        return Err(not_a_file());
    }
    let expected = usize::try_from(found.st_size).unwrap_or(0);
    let mut bytes = Vec::with_capacity(expected.min(bytes_max).saturating_add(1));
    let one_more = u64::try_from(bytes_max).map_or(u64::MAX, |max| max.saturating_add(1));
    File::from(file)
        .take(one_more)
        .read_to_end(&mut bytes)
        .map_err(|error| DiskError::new(Step::Read, path, &error))?;
    if bytes.len() > bytes_max {
        let problem = Problem::TooLarge { bytes_max };
        return Err(DiskError::because(Step::Read, path, problem));
    }
    Ok(Some(bytes))
}

fn is_regular(found: &sys::Stat) -> bool {
    sys::FileType::from_raw_mode(found.st_mode).is_file()
}

/// Replaces `path` by a file that holds `bytes`, or leaves it as it is.
///
/// The new file is written beside the old one, synced, renamed over it, and the folder is synced:
/// what a reader finds is the old content or the new, at every moment and after a power cut. After
/// `Ok` it is the new one. An error of [`Step::SyncDirectory`] means that the new one is in place
/// and that a power cut may still undo it; any other error, that the old one is. Its folder must
/// exist. A symlink at `path` is replaced, not followed.
pub fn atomic_write(path: &Path, bytes: &[u8], access: Access) -> Result<(), DiskError> {
    write_on(&mut System, path, bytes, access)
}

/// Makes the folder `path`, for its owner alone, in one that exists; or takes what is there.
///
/// After `Ok` it is there after a power cut too: what is synced in a folder is lost with it.
pub fn make_folder(path: &Path) -> Result<(), DiskError> {
    make_folder_on(&mut System, path)
}

/// [`atomic_write`] on any medium.
pub(in crate::net) fn write_on(
    medium: &mut impl Medium,
    path: &Path,
    bytes: &[u8],
    access: Access,
) -> Result<(), DiskError> {
    let (folder, unfinished) = beside(path)?;
    let outcome = write_in_steps(medium, path, (&folder, &unfinished), bytes, access);
    if outcome.is_err() {
        // Best effort: the next write to this path, or the next start, removes it too.
        let _ = medium.remove(&unfinished);
    }
    outcome
}

/// [`make_folder`] on any medium.
pub(super) fn make_folder_on(medium: &mut impl Medium, path: &Path) -> Result<(), DiskError> {
    let failed = |step, errno| DiskError::because(step, path, Problem::System(errno));
    match medium.make_folder(path) {
        // Who made it may not have come to sync it.
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(failed(Step::Create, errno)),
    }
    medium
        .sync_folder(&folder_of(path))
        .map_err(|errno| failed(Step::SyncDirectory, errno))
}

/// The folder of `path`, and the name under which its next content is written.
fn beside(path: &Path) -> Result<(PathBuf, PathBuf), DiskError> {
    let no_name = || DiskError::because(Step::Create, path, Problem::NoName);
    let mut name = OsString::from(".");
    name.push(path.file_name().ok_or_else(no_name)?);
    name.push(UNFINISHED);
    let folder = folder_of(path);
    let unfinished = folder.join(name);
    Ok((folder, unfinished))
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
        Some(_) | None => PathBuf::from("."),
    }
}

/// The steps of [`atomic_write`]. What fails stays where it is: [`write_on`] cleans up.
fn write_in_steps(
    medium: &mut impl Medium,
    path: &Path,
    (folder, unfinished): (&Path, &Path),
    bytes: &[u8],
    access: Access,
) -> Result<(), DiskError> {
    let failed = |step| move |errno| DiskError::because(step, path, Problem::System(errno));
    // One name per target, so that what crashes leave behind cannot pile up. Whatever stands there
    // is removed and not opened: it may be a link.
    match medium.remove(unfinished) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(failed(Step::Create)(errno)),
    }
    let mut file = medium
        .create(unfinished, access)
        .map_err(failed(Step::Create))?;
    medium
        .write(&mut file, bytes)
        .map_err(failed(Step::Write))?;
    medium.sync(&mut file).map_err(failed(Step::Sync))?;
    drop(file);
    medium
        .rename(unfinished, path)
        .map_err(failed(Step::Rename))?;
    medium
        .sync_folder(folder)
        .map_err(failed(Step::SyncDirectory))
}

/// Removes what writes that a crash or a power cut ended have left in `folder`; says how many.
///
/// For the start, with the folder locked, before the first write. Bounded by the folder's entries.
pub fn remove_leftovers(folder: &Path) -> Result<usize, DiskError> {
    let listing = |error: std::io::Error| DiskError::new(Step::List, folder, &error);
    let mut removed = 0;
    for entry in std::fs::read_dir(folder).map_err(listing)? {
        let entry = entry.map_err(listing)?;
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        if !name.starts_with(b".") || !name.ends_with(UNFINISHED.as_bytes()) {
            continue;
        }
        let path = entry.path();
        std::fs::remove_file(&path).map_err(|error| DiskError::new(Step::Remove, &path, &error))?;
        removed += 1;
    }
    Ok(removed)
}

/// A lock on a state folder, held as long as this lives; the kernel lets go of it with the process.
#[derive(Debug)]
pub struct Lock {
    _folder: OwnedFd,
    /// What was locked, to know it again by.
    pub identity: Identity,
}

/// Which folder stands under a name: its device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity(u64, u64);

impl Identity {
    fn of(found: &sys::Stat) -> Identity {
        Identity(found.st_dev, found.st_ino)
    }

    /// Sees whether it is still this one that stands at `folder`.
    ///
    /// Errors: `Replaced` when it has gone, or another one was mounted or put over it; the
    /// system's.
    pub fn check(self, folder: &Path) -> Result<(), DiskError> {
        let failed = |problem| DiskError::because(Step::Look, folder, problem);
        match sys::stat(folder) {
            Ok(found) if Identity::of(&found) == self => Ok(()),
            Ok(_) | Err(Errno::NOENT) => Err(failed(Problem::Replaced)),
            Err(errno) => Err(failed(Problem::System(errno))),
        }
    }
}

/// Locks `folder` for this process. No file is made for it: what cannot be written can be locked.
///
/// Errors: `Taken` when another process has it; the system's when the folder is missing, or lies on
/// a file system without such locks.
pub fn lock(folder: &Path) -> Result<Lock, DiskError> {
    let failed = |problem| DiskError::because(Step::Lock, folder, problem);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened =
        sys::open(folder, flags, Mode::empty()).map_err(|errno| failed(Problem::System(errno)))?;
    match sys::flock(&opened, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => match sys::fstat(&opened) {
            Ok(found) => Ok(Lock {
                _folder: opened,
                identity: Identity::of(&found),
            }),
            Err(errno) => Err(failed(Problem::System(errno))),
        },
        Err(Errno::WOULDBLOCK) => Err(failed(Problem::Taken)),
        Err(errno) => Err(failed(Problem::System(errno))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::medium::Failing;
    use super::super::scratch::Scratch;
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    /// Writes `new` to `path` with `failing` failing, and cleans nothing up: a crash at that step.
    fn crash(path: &Path, failing: Step) -> Result<(), DiskError> {
        let (folder, unfinished) = beside(path).unwrap();
        let mut medium = Failing(failing, Errno::NOSPC);
        let beside = (folder.as_path(), unfinished.as_path());
        write_in_steps(&mut medium, path, beside, b"new", Access::Private)
    }

    #[test]
    fn write_that_fails_anywhere_leaves_old_or_new_and_nothing_else() {
        for failing in Failing::STEPS {
            let scratch = Scratch::new("disk-steps");
            let path = scratch.path("state.json");
            fs::write(&path, "old").unwrap();
            let error = crash(&path, failing).unwrap_err();
            assert_eq!(error.step, failing);
            let left = fs::read_to_string(&path).unwrap();
            let expected = match failing {
                Step::SyncDirectory => "new",
                _ => "old",
            };
            assert_eq!(left, expected, "{failing:?}");
            remove_leftovers(scratch.folder()).unwrap();
            assert_eq!(scratch.names(), ["state.json"], "{failing:?}");
            atomic_write(&path, b"newer", Access::Private).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "newer");
        }
    }

    #[test]
    fn refused_rename_cleans_up_after_itself() {
        let scratch = Scratch::new("disk-rename");
        let path = scratch.path("folder");
        fs::create_dir(&path).unwrap();
        let error = atomic_write(&path, b"new", Access::Private).unwrap_err();
        assert_eq!(
            (error.step, error.problem),
            (Step::Rename, Problem::System(Errno::ISDIR))
        );
        assert_eq!(scratch.names(), ["folder"]);
    }

    #[test]
    fn missing_folder_and_missing_name_are_typed_errors() {
        let scratch = Scratch::new("disk-missing");
        let path = scratch.path("nowhere/state.json");
        let error = atomic_write(&path, b"new", Access::Private).unwrap_err();
        let missing = Problem::System(Errno::NOENT);
        assert_eq!((error.step, error.problem), (Step::Create, missing));
        assert!(error.to_string().contains("nowhere/state.json"), "{error}");
        let error = atomic_write(Path::new("/"), b"new", Access::Private).unwrap_err();
        assert_eq!(error.problem, Problem::NoName);
    }

    #[test]
    fn mode_is_what_was_asked_and_a_planted_link_is_not_followed() {
        let scratch = Scratch::new("disk-mode");
        let (path, victim) = (scratch.path("relay.crt"), scratch.path("victim"));
        fs::write(&victim, "untouched").unwrap();
        let (_, unfinished) = beside(&path).unwrap();
        std::os::unix::fs::symlink(&victim, &unfinished).unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        for (access, mode) in [(Access::Private, 0o600), (Access::Public, 0o644)] {
            atomic_write(&path, b"new", access).unwrap();
            let found = fs::symlink_metadata(&path).unwrap();
            assert!(found.is_file());
            assert_eq!(found.permissions().mode() & 0o777, mode);
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
    }

    #[test]
    fn leftovers_are_removed_and_other_files_stay() {
        let scratch = Scratch::new("disk-leftovers");
        let path = scratch.path("state.json");
        crash(&path, Step::Rename).unwrap_err();
        fs::write(scratch.path("kept.staffetta-tmp"), "").unwrap();
        fs::write(scratch.path(".kept"), "").unwrap();
        assert_eq!(remove_leftovers(scratch.folder()), Ok(1));
        assert_eq!(scratch.names(), [".kept", "kept.staffetta-tmp"]);
    }

    #[test]
    fn only_regular_files_within_the_bound_are_read() {
        let scratch = Scratch::new("disk-read");
        let path = scratch.path("seed.json");
        assert_eq!(read_bounded(&path, 3), Ok(None));
        fs::write(&path, "1234").unwrap();
        assert_eq!(read_bounded(&path, 4), Ok(Some(b"1234".to_vec())));
        assert_eq!(
            read_bounded(&path, 3).unwrap_err().problem,
            Problem::TooLarge { bytes_max: 3 }
        );
        for other in [scratch.folder(), Path::new("/dev/zero")] {
            let error = read_bounded(other, 3).unwrap_err();
            assert_eq!(error.problem, Problem::NotAFile, "{error}");
        }
        let beneath = read_bounded(&path.join("beneath"), 3).unwrap_err();
        assert_eq!(beneath.problem, Problem::System(Errno::NOTDIR));
    }

    #[test]
    fn pipe_nobody_writes_to_is_refused_at_once() {
        let scratch = Scratch::new("disk-pipe");
        let path = scratch.path("pipe");
        sys::mknodat(sys::CWD, &path, sys::FileType::Fifo, Mode::RUSR, 0).unwrap();
        let (done, waited) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(read_bounded(&path, 3)));
        let read = waited.recv_timeout(std::time::Duration::from_secs(10));
        assert_eq!(read.unwrap().unwrap_err().problem, Problem::NotAFile);
    }

    #[test]
    fn folder_is_known_again_and_not_another_in_its_place() {
        let scratch = Scratch::new("disk-identity");
        let folder = scratch.path("live");
        fs::create_dir(&folder).unwrap();
        let identity = lock(&folder).unwrap().identity;
        assert_eq!(identity.check(&folder), Ok(()));
        fs::rename(&folder, scratch.path("moved")).unwrap();
        let problem = || identity.check(&folder).unwrap_err().problem;
        assert_eq!(problem(), Problem::Replaced);
        fs::create_dir(&folder).unwrap();
        assert_eq!(problem(), Problem::Replaced);
    }

    #[test]
    fn folder_is_locked_once_and_free_again_afterwards() {
        let scratch = Scratch::new("disk-lock");
        let held = lock(scratch.folder()).unwrap();
        let error = lock(scratch.folder()).unwrap_err();
        assert_eq!(error.problem, Problem::Taken);
        drop(held);
        assert!(lock(scratch.folder()).is_ok());
        assert!(scratch.names().is_empty());
        let error = lock(&scratch.path("nowhere")).unwrap_err();
        assert_eq!(error.problem, Problem::System(Errno::NOENT));
    }
}
