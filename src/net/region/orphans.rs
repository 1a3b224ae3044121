//! Content that lost: two nodes wrote one slot, and the other one's counts.
//!
//! Owns the folder `orphans` beside the live one. What lies in it is a slot's record as
//! `wire::keep` writes it, under the name of the slot and the digest of the content: people look at
//! it, and push what they want of it again.
//!
//! Never deletes anything. When the folder is full, no fork is taken: the slot keeps what it has,
//! which is the only place where that still is.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::limits::Region as Bounds;
use crate::model::SlotIndex;
use crate::net::driver::Driver;
use crate::net::keep;
use crate::net::push;
use crate::wire::keep as slot_file;

use super::Region;

/// Digits of the digest in a name: two contents of one slot do not share them by chance.
const DIGITS: usize = 16;

fn folder(driver: &Driver) -> Option<PathBuf> {
    let keep = driver.keep.borrow();
    let live = keep.folder()?;
    Some(live.with_file_name("orphans"))
}

/// Counts what lies there.
pub async fn count(driver: &Rc<Driver>, region: &Region) {
    let Some(folder) = folder(driver) else { return };
    if let Ok((files, _)) = driver.disk.run(move || lying(&folder)).await {
        region.store.orphans.set(files);
    }
}

/// Files in the folder, and their bytes. Blocks: runs in the disk lane.
fn lying(folder: &Path) -> (usize, u64) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| entry.metadata().map_or(0, |found| found.len()));
    sizes.fold((0, 0), |(files, bytes), size| (files + 1, bytes + size))
}

/// Puts what a slot serves there.
///
/// # Errors
/// One line: the folder is full, or the disk failed.
pub async fn keep(driver: &Rc<Driver>, region: &Region, slot: SlotIndex) -> Result<(), String> {
    let folder = folder(driver).ok_or("there is no state folder")?;
    let record = {
        let state = driver.state.borrow();
        let found = state.slots.of(slot);
        let shown = found.and_then(|slot| Some((slot.held.clone()?, slot.past())));
        drop(state);
        shown.and_then(|(held, past)| push::record(driver, slot, &held.snapshot, past))
    };
    let Some(record) = record else {
        return Ok(());
    };
    let stem = slot_file::file_name(&record.slot);
    let stem = stem.strip_suffix(".slot").unwrap_or(&stem);
    let digest = record.digest.to_string();
    let digits = digest.get(..DIGITS).unwrap_or(&digest);
    let path = folder.join(format!("{stem}@{digits}.orphan"));
    let bounds = driver.limits.region;
    let made = driver.disk.run({
        let path = path.clone();
        move || prepare(&folder, &path, bounds)
    });
    let files = made.await.map_err(|refused| refused.to_string())??;
    keep::write_file(driver, path.clone(), move || slot_file::encode(&record))
        .await
        .map_err(|not_kept| not_kept.to_string())?;
    region.store.orphans.set(files);
    driver.log.error(format_args!(
        "region: another node's content counts, and what this one held is kept: {}",
        path.display()
    ));
    Ok(())
}

/// Makes room for one more; how many there are then. Blocks: runs in the disk lane.
fn prepare(folder: &Path, path: &Path, bounds: &Bounds) -> Result<usize, String> {
    crate::net::disk::make_folder(folder).map_err(|error| error.to_string())?;
    let (files, bytes) = lying(folder);
    if path.exists() {
        return Ok(files);
    }
    match files < bounds.orphans_max && bytes < bounds.orphans_bytes_max {
        true => Ok(files + 1),
        false => Err(format!(
            "{} is full ({files} files): look at what lies there, and move it away",
            folder.display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::disk::scratch::Scratch;

    const FEW: Bounds = Bounds {
        orphans_max: 2,
        orphans_bytes_max: 100,
        ..Bounds::PRODUCTION
    };

    #[test]
    fn a_full_folder_takes_no_more_and_loses_nothing() {
        let scratch = Scratch::new("orphans-full");
        let folder = scratch.path("orphans");
        let path = |name: &str| folder.join(name);
        for (name, files) in [("a", Ok(1)), ("a", Ok(1)), ("b", Ok(2))] {
            assert_eq!(prepare(&folder, &path(name), &FEW), files);
            std::fs::write(path(name), "kept").unwrap();
        }
        let full = prepare(&folder, &path("c"), &FEW).unwrap_err();
        assert!(full.contains("is full (2 files)"), "{full}");
        assert_eq!(prepare(&folder, &path("b"), &FEW), Ok(2), "the same again");
        std::fs::remove_file(path("a")).unwrap();
        std::fs::write(path("b"), "x".repeat(100)).unwrap();
        assert!(prepare(&folder, &path("c"), &FEW).is_err(), "by bytes");
        assert_eq!(lying(&folder), (1, 100));
    }
}
