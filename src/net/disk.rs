//! Files: the lane that jobs on them wait in, and the few things that are done to files.
//!
//! Owns: the lane for everything that may block on a disk (see `lane`); the atomic write; the
//! bounded read; the lock on the state folder. The functions here block and are called inside a
//! job, or before the loop turns.
//!
//! Never: decides what to write or whether to try again; panics; keeps a thread when idle.
//!
//! Invariants: whatever fails, and whenever the power goes, a file that is written here holds the
//! old bytes or the new ones, whole. Jobs run one at a time in the order in which they were given,
//! which is what keeps the thread pool of the `blocking` crate at one thread.

#[cfg(test)]
pub(super) mod crash_tests;
mod file;
mod medium;

#[cfg(test)]
pub(super) use file::write_on;
#[cfg(test)]
pub(super) use medium::Failing;

pub use super::lane::{Lane, Refused};
pub use file::{
    Access, Identity, Lock, atomic_write, lock, make_folder, read_bounded, remove_leftovers,
};

use super::lane::Jobs;
use crate::limits::Limits;
use rustix::io::Errno;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// Gives jobs to the disk's lane.
#[derive(Clone)]
pub struct Disk(Jobs);

impl Disk {
    /// The disk's lane, with room for `disk_jobs_max` waiting jobs.
    pub fn new(limits: &Limits) -> (Disk, Lane) {
        let (jobs, lane) = Jobs::with_room(limits.disk_jobs_max);
        (Disk(jobs), lane)
    }
}

impl Deref for Disk {
    type Target = Jobs;

    fn deref(&self) -> &Jobs {
        &self.0
    }
}

/// What was being done when it failed. The environment's fault, never ours or a peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Look,
    Open,
    Read,
    Create,
    Write,
    Sync,
    Rename,
    SyncDirectory,
    List,
    Remove,
    Lock,
}

impl Step {
    const fn as_str(self) -> &'static str {
        match self {
            Step::Look => "look at",
            Step::Open => "open",
            Step::Read => "read",
            Step::Create => "create",
            Step::Write => "write",
            Step::Sync => "sync",
            Step::Rename => "put in place",
            Step::SyncDirectory => "sync the folder of",
            Step::List => "list",
            Step::Remove => "remove",
            Step::Lock => "lock",
        }
    }
}

/// Why it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The system's own word for it.
    System(Errno),
    /// A pipe, folder, device or socket where a file was expected.
    NotAFile,
    /// Longer than its bound.
    TooLarge { bytes_max: usize },
    /// Another process holds the lock.
    Taken,
    /// The folder that was locked is not there any more, or another stands in its place.
    Replaced,
    /// The path ends in no file name, so that nothing can stand beside it.
    NoName,
}

/// A file operation that failed: which step, on what, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskError {
    pub step: Step,
    pub path: PathBuf,
    pub problem: Problem,
}

impl DiskError {
    /// The error that the standard library gave for `step` on `path`.
    pub fn new(step: Step, path: &Path, error: &io::Error) -> DiskError {
        let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
        DiskError::because(step, path, Problem::System(errno))
    }

    fn because(step: Step, path: &Path, problem: Problem) -> DiskError {
        let path = path.to_path_buf();
        DiskError {
            step,
            path,
            problem,
        }
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        write!(formatter, "cannot {} {path}: ", self.step.as_str())?;
        match self.problem {
            Problem::System(errno) => errno.fmt(formatter),
            Problem::NotAFile => formatter.write_str("not a regular file"),
            Problem::TooLarge { bytes_max } => write!(formatter, "longer than {bytes_max} bytes"),
            Problem::Taken => formatter.write_str("another relay is running with it"),
            Problem::Replaced => formatter.write_str("it has gone, or another took its place"),
            Problem::NoName => formatter.write_str("no file name"),
        }
    }
}

impl std::error::Error for DiskError {}

/// A folder for one test, removed with it.
#[cfg(test)]
pub(super) mod scratch {
    use std::path::{Path, PathBuf};

    pub struct Scratch(PathBuf);

    impl Scratch {
        pub fn new(test: &str) -> Scratch {
            let name = format!("staffetta-{test}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::create_dir(&folder).unwrap();
            Scratch(folder)
        }

        pub fn folder(&self) -> &Path {
            &self.0
        }

        pub fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }

        pub fn names(&self) -> Vec<String> {
            let mut names: Vec<String> = std::fs::read_dir(&self.0)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
