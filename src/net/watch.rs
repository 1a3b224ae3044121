//! When the seed file is worth reading.
//!
//! Owns: the fingerprint of a file, taken by `stat` through every symlink, and the memory of which
//! one was read last. The timer is the driver's.
//!
//! Never: trusts a time stamp alone. `mv` over the file changes device or inode, a copy in place
//! changes size or times, a swapped symlink leads elsewhere; a missing file is no change at all.
//!
//! Why each change is read twice: the kernel's time stamps stand still for up to 10 ms, so a write
//! in the same moment as our read, of the same length, leaves the fingerprint that we already
//! know. One more read, at the next look, settles it; equal content makes no event. File
//! notification is not used: it misses what happens behind symlinks, mounts and renamed folders.

use crate::net::disk::{self, DiskError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// What `stat` says of a file's identity and content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    device: u64,
    inode: u64,
    size_bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Fingerprint {
    /// Looks at `path`; `None` when there is no such file.
    ///
    /// Errors: the folder cannot be searched, or the medium fails.
    pub fn of(path: &Path) -> Result<Option<Fingerprint>, io::Error> {
        match std::fs::metadata(path) {
            Ok(found) => Ok(Some(Fingerprint {
                device: found.dev(),
                inode: found.ino(),
                size_bytes: found.size(),
                modified: (found.mtime(), found.mtime_nsec()),
                changed: (found.ctime(), found.ctime_nsec()),
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The outcome of [`read_settled`].
#[derive(Debug)]
pub enum Settled {
    /// There is no file.
    Missing,
    /// The file changed under the read: look again at the next tick.
    Unsettled,
    /// The whole file, and the fingerprint that it had before and after.
    Read(Vec<u8>, Fingerprint),
}

/// Reads `path` between two looks that must agree. Blocks: run it in the disk lane.
///
/// A file that is being copied right now may still read as settled; its parser refuses it, and its
/// fingerprint changes with the next byte. Errors as [`disk::read_bounded`]'s.
pub fn read_settled(path: &Path, bytes_max: usize) -> Result<Settled, DiskError> {
    let Some(before) = look(path)? else {
        return Ok(Settled::Missing);
    };
    let Some(bytes) = disk::read_bounded(path, bytes_max)? else {
        return Ok(Settled::Unsettled);
    };
    match look(path)? {
        Some(after) if after == before => Ok(Settled::Read(bytes, after)),
        Some(_) | None => Ok(Settled::Unsettled),
    }
}

fn look(path: &Path) -> Result<Option<Fingerprint>, DiskError> {
    Fingerprint::of(path).map_err(|error| DiskError::new(disk::Step::Look, path, &error))
}

/// Which fingerprint was read last, and whether it is to be read once more.
#[derive(Debug, Default)]
pub struct Watch {
    read: Option<Fingerprint>,
    confirm: bool,
}

impl Watch {
    /// Whether a file with this fingerprint should be read now. A missing file changes nothing.
    pub fn is_due(&self, found: Option<Fingerprint>) -> bool {
        found.is_some() && (self.confirm || found != self.read)
    }

    /// Whether it was this that was read last: one more read of it only settles what it holds.
    pub fn has_read(&self, fingerprint: Fingerprint) -> bool {
        self.read == Some(fingerprint)
    }

    /// Notes that the file was read, whatever its content was worth: a bad one is not read for
    /// ever. After a failed or unsettled read do not call this, and the next look tries again.
    pub fn note_read(&mut self, fingerprint: Fingerprint) {
        self.confirm = self.read != Some(fingerprint);
        self.read = Some(fingerprint);
    }

    /// Forgets everything: the next look reads, as a reload asks for.
    pub fn forget(&mut self) {
        *self = Watch::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::disk::scratch::Scratch;
    use std::fs;

    fn fingerprint(path: &Path) -> Fingerprint {
        Fingerprint::of(path).unwrap().unwrap()
    }

    #[test]
    fn same_size_file_moved_over_it_is_a_change() {
        let scratch = Scratch::new("watch-move");
        let (seed, next) = (scratch.path("seed.json"), scratch.path("next"));
        fs::write(&seed, "aaaa").unwrap();
        fs::write(&next, "bbbb").unwrap();
        let modified = fs::metadata(&seed).unwrap().modified().unwrap();
        fs::File::options()
            .write(true)
            .open(&next)
            .and_then(|file| file.set_modified(modified))
            .unwrap();
        let before = fingerprint(&seed);
        assert_eq!(before, fingerprint(&seed));
        fs::rename(&next, &seed).unwrap();
        assert_ne!(before, fingerprint(&seed));
    }

    #[test]
    fn swapped_symlink_is_a_change() {
        let scratch = Scratch::new("watch-link");
        let (seed, swap) = (scratch.path("seed.json"), scratch.path("swap"));
        for name in ["one", "two"] {
            fs::write(scratch.path(name), "same").unwrap();
        }
        std::os::unix::fs::symlink("one", &seed).unwrap();
        let before = fingerprint(&seed);
        std::os::unix::fs::symlink("two", &swap).unwrap();
        fs::rename(&swap, &seed).unwrap();
        assert_ne!(before, fingerprint(&seed));
    }

    #[test]
    fn missing_and_dangling_files_are_none() {
        let scratch = Scratch::new("watch-none");
        let link = scratch.path("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        assert_eq!(Fingerprint::of(&link).unwrap(), None);
        assert!(matches!(read_settled(&link, 10), Ok(Settled::Missing)));
    }

    #[test]
    fn settled_read_has_the_fingerprint_of_its_bytes() {
        let scratch = Scratch::new("watch-settled");
        let seed = scratch.path("seed.json");
        fs::write(&seed, "{}").unwrap();
        let Ok(Settled::Read(bytes, read)) = read_settled(&seed, 2) else {
            panic!("not settled");
        };
        assert_eq!((bytes.as_slice(), read), (&b"{}"[..], fingerprint(&seed)));
        assert!(read_settled(&seed, 1).is_err());
    }

    #[test]
    fn each_change_is_read_twice_and_then_rests() {
        let scratch = Scratch::new("watch-twice");
        let seed = scratch.path("seed.json");
        let mut watch = Watch::default();
        assert!(!watch.is_due(None));
        for content in ["one", "another"] {
            fs::write(&seed, content).unwrap();
            let found = fingerprint(&seed);
            for is_again in [false, true] {
                assert!(watch.is_due(Some(found)));
                assert_eq!(watch.has_read(found), is_again);
                watch.note_read(found);
            }
            assert!(!watch.is_due(Some(found)));
            assert!(!watch.is_due(None));
        }
        watch.forget();
        assert!(watch.is_due(Some(fingerprint(&seed))));
        assert!(!watch.has_read(fingerprint(&seed)));
    }
}
