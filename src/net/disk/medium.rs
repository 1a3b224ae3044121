//! What a disk is asked for, one step at a time.
//!
//! The atomic write is a sequence of these steps, and its promise rests on their order. So the
//! steps are a trait: the system's own are below, a test has one that fails at a step, and the
//! crash model beside this file records them and asks what a power cut would leave of each prefix.

use super::Access;
use rustix::fs::{self as sys, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

/// A file system. Every step ends or fails as a whole; a write that fails may have written a part.
pub trait Medium {
    /// A file that is being written.
    type Open;

    /// Removes a file.
    fn remove(&mut self, path: &Path) -> Result<(), Errno>;
    /// Makes a file that is not there yet.
    fn create(&mut self, path: &Path, access: Access) -> Result<Self::Open, Errno>;
    /// Appends to it.
    fn write(&mut self, file: &mut Self::Open, bytes: &[u8]) -> Result<(), Errno>;
    /// Waits until its bytes are safe.
    fn sync(&mut self, file: &mut Self::Open) -> Result<(), Errno>;
    /// Gives a file another name, in place of what had it.
    fn rename(&mut self, from: &Path, to: &Path) -> Result<(), Errno>;
    /// Waits until the names in a folder are safe.
    fn sync_folder(&mut self, folder: &Path) -> Result<(), Errno>;
    /// Makes a folder for its owner alone.
    fn make_folder(&mut self, path: &Path) -> Result<(), Errno>;
}

/// The machine's own file system.
#[derive(Debug)]
pub struct System;

impl Medium for System {
    type Open = File;

    fn remove(&mut self, path: &Path) -> Result<(), Errno> {
        sys::unlink(path)
    }

    fn create(&mut self, path: &Path, access: Access) -> Result<File, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = sys::open(path, flags, Access::Private.mode())?;
        if access != Access::Private {
            sys::fchmod(&file, access.mode())?;
        }
        Ok(File::from(file))
    }

    fn write(&mut self, file: &mut File, bytes: &[u8]) -> Result<(), Errno> {
        file.write_all(bytes).map_err(errno)
    }

    fn sync(&mut self, file: &mut File) -> Result<(), Errno> {
        file.sync_all().map_err(errno)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
        sys::rename(from, to)
    }

    fn sync_folder(&mut self, folder: &Path) -> Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = sys::open(folder, flags, Mode::empty())?;
        match sys::fsync(&opened) {
            // Some network and FUSE file systems have no such thing as syncing a folder.
            Ok(()) | Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    fn make_folder(&mut self, path: &Path) -> Result<(), Errno> {
        sys::mkdir(path, Mode::RWXU)
    }
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// The machine's own, with one step that fails.
#[cfg(test)]
pub struct Failing(pub super::Step, pub Errno);

#[cfg(test)]
mod failing {
    use super::super::Step;
    use super::*;

    impl Failing {
        /// The steps of a write.
        pub const STEPS: [Step; 5] = [
            Step::Create,
            Step::Write,
            Step::Sync,
            Step::Rename,
            Step::SyncDirectory,
        ];

        fn enter(&self, step: Step) -> Result<(), Errno> {
            match step == self.0 {
                true => Err(self.1),
                false => Ok(()),
            }
        }
    }

    impl Medium for Failing {
        type Open = File;

        fn remove(&mut self, path: &Path) -> Result<(), Errno> {
            System.remove(path)
        }

        fn create(&mut self, path: &Path, access: Access) -> Result<File, Errno> {
            self.enter(Step::Create)?;
            System.create(path, access)
        }

        fn write(&mut self, file: &mut File, bytes: &[u8]) -> Result<(), Errno> {
            let outcome = self.enter(Step::Write);
            // A disk that fills up takes what still fits.
            let fits = if outcome.is_ok() {
                bytes.len()
            } else {
                bytes.len() / 2
            };
            System.write(file, &bytes[..fits])?;
            outcome
        }

        fn sync(&mut self, file: &mut File) -> Result<(), Errno> {
            self.enter(Step::Sync)?;
            System.sync(file)
        }

        fn rename(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
            self.enter(Step::Rename)?;
            System.rename(from, to)
        }

        fn sync_folder(&mut self, folder: &Path) -> Result<(), Errno> {
            self.enter(Step::SyncDirectory)?;
            System.sync_folder(folder)
        }

        fn make_folder(&mut self, path: &Path) -> Result<(), Errno> {
            System.make_folder(path)
        }
    }
}
