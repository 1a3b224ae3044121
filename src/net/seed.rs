//! The seed file: when it is read, and what becomes of it.
//!
//! Owns the read (in the disk lane, parsing included, so that a large seed on a slow card holds
//! nobody up) and the hand-over to state. One read at a time. A file that cannot be used as a
//! whole, or not for a slot, changes nothing but the notes in status and log.

use std::path::Path;
use std::rc::Rc;

use crate::limits::Limits;
use crate::model::{Revision, SlotIndex, SlotKey, Snapshot, Source};
use crate::state::slots::Adoption;
use crate::time::Instant;
use crate::wire::{gzip, seed as wire};

use super::driver::Driver;
use super::region;
use super::watch::{Fingerprint, Settled, Watch, read_settled};

/// What is known about the file.
#[derive(Debug, Default)]
pub struct Seed {
    watch: Watch,
    reading: bool,
    /// When a usable file was last read.
    pub read_at: Option<Instant>,
    /// Its size in bytes.
    pub bytes: usize,
    /// Why the newest file is not used as a whole, and since when.
    pub problem: Option<(String, Instant)>,
    /// The problem is that the file cannot be seen; it goes when the file can.
    is_out_of_sight: bool,
}

/// What one read gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Slots that serve something new.
    pub adopted: usize,
    /// Slots whose content did not change.
    pub unchanged: usize,
    /// Slots that serve what counts more than this file.
    pub superseded: usize,
    /// Slots for which the file holds nothing usable.
    pub refused: usize,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Verdict {
            adopted,
            unchanged,
            superseded,
            refused,
        } = self;
        write!(
            formatter,
            "seed: {adopted} slots changed, {unchanged} unchanged, "
        )?;
        if *superseded > 0 {
            write!(formatter, "{superseded} superseded, ")?;
        }
        write!(formatter, "{refused} refused")
    }
}

/// A file's content: its size, and for each slot a document or the reason why not.
struct Content {
    bytes: usize,
    fingerprint: Fingerprint,
    offers: Result<Vec<Offer>, String>,
}

/// `None` for a slot of the operator that the file does not speak of: it need not.
type Offer = Option<Result<Snapshot, String>>;

enum Found {
    Missing,
    Unsettled,
    Unreadable(String),
    Content(Content),
}

/// Looks whether the file has changed, and reads it in the background if it has.
pub fn look(driver: &Rc<Driver>) {
    let loaded = driver.loaded.borrow().clone();
    let Some(seed) = &loaded.config.seed else {
        return;
    };
    let found = Fingerprint::of(&seed.file);
    let mut state = driver.seed.borrow_mut();
    match found {
        Ok(None) => {
            let problem = format!("{}: no such file", seed.file.display());
            note_problem(driver, &mut state, problem);
            state.is_out_of_sight = true;
        }
        Err(error) => {
            let problem = format!("{}: {error}", seed.file.display());
            note_problem(driver, &mut state, problem);
            state.is_out_of_sight = true;
        }
        Ok(found) if state.watch.is_due(found) && !state.reading => {
            drop(state);
            let task = driver.clone();
            driver.spawn(async move {
                // What it found is in status and log.
                let _ = read(&task).await;
            });
        }
        // The file that could not be seen is back, and is the one that is served.
        Ok(_) if !state.reading && state.is_out_of_sight => {
            state.problem = None;
            state.is_out_of_sight = false;
        }
        Ok(_) => {}
    }
}

/// Reads the file at the next look, or now by [`read`], even if it seems unchanged.
pub fn forget(driver: &Driver) {
    driver.seed.borrow_mut().watch.forget();
}

/// Reads the file now and adopts what it holds. The error is one line for an operator.
pub async fn read(driver: &Rc<Driver>) -> Result<Verdict, String> {
    let loaded = driver.loaded.borrow().clone();
    let Some(seed) = &loaded.config.seed else {
        return Ok(Verdict::default());
    };
    driver.seed.borrow_mut().reading = true;
    let (path, limits) = (seed.file.clone(), driver.limits.clone());
    let operators = &loaded.config.operator_slots;
    let slots = loaded.config.slots.iter();
    let slots: Vec<(SlotKey, bool)> = slots
        .map(|slot| (slot.clone(), operators.contains(slot)))
        .collect();
    let found = driver.disk.run(move || find(&path, &slots, &limits)).await;
    let mut state = driver.seed.borrow_mut();
    state.reading = false;
    let problem = match found {
        Err(_) => "the disk has more to do than it can; the seed is read at the next look".into(),
        Ok(Found::Missing) => format!("{}: no such file", seed.file.display()),
        Ok(Found::Unsettled) => {
            format!(
                "{}: is being written; it is read at the next look",
                seed.file.display()
            )
        }
        Ok(Found::Unreadable(problem)) => problem,
        Ok(Found::Content(content)) => {
            let is_again = state.watch.has_read(content.fingerprint);
            state.watch.note_read(content.fingerprint);
            driver.count(|counters| counters.seeds_read += 1);
            match content.offers {
                Ok(offers) => {
                    state.problem = None;
                    state.read_at = Some(driver.clock.now());
                    state.bytes = content.bytes;
                    drop(state);
                    return Ok(adopt(driver, offers, is_again));
                }
                Err(problem) => {
                    driver.count(|counters| counters.seeds_refused += 1);
                    format!("{}: {problem}", seed.file.display())
                }
            }
        }
    };
    note_problem(driver, &mut state, problem.clone());
    Err(problem)
}

/// Reads and parses, for slots that are the operator's or are not. Blocks: runs in the disk lane.
fn find(path: &Path, slots: &[(SlotKey, bool)], limits: &Limits) -> Found {
    let (bytes, fingerprint) = match read_settled(path, limits.seed_bytes_max) {
        Ok(Settled::Missing) => return Found::Missing,
        Ok(Settled::Unsettled) => return Found::Unsettled,
        Err(error) => return Found::Unreadable(error.to_string()),
        Ok(Settled::Read(bytes, fingerprint)) => (bytes, fingerprint),
    };
    let offers = wire::Seed::parse(&bytes, limits).map_err(|error| error.to_string());
    let offers = offers.map(|seed| {
        let spoken_of = seed.slots();
        let offer = |(key, is_operators): &(SlotKey, bool)| {
            if *is_operators && !spoken_of.contains(key) {
                return None;
            }
            Some(match seed.snapshot(key, limits) {
                Ok(snapshot) => Ok(packed(snapshot, limits)),
                Err(error) => Err(error.to_string()),
            })
        };
        slots.iter().map(offer).collect()
    });
    Found::Content(Content {
        bytes: bytes.len(),
        fingerprint,
        offers,
    })
}

/// Packs a large document where it holds nobody up; a small one is packed when it is asked for.
pub(super) fn packed(snapshot: Snapshot, limits: &Limits) -> Snapshot {
    let is_large = snapshot.json.len() > limits.packed_on_loop_bytes_max;
    let gzip = is_large.then(|| gzip::compress(&snapshot.json));
    Snapshot { gzip, ..snapshot }
}

/// Hands over what a file holds; `is_again` when it is the one that was read before.
fn adopt(driver: &Driver, offers: Vec<Offer>, is_again: bool) -> Verdict {
    let mut verdict = Verdict::default();
    for (index, offer) in (0..).map(SlotIndex).zip(offers) {
        let Some(offer) = offer else { continue };
        match offer {
            Ok(snapshot) => match driver.publish(index, Rc::new(snapshot), Source::Seed) {
                Adoption::Adopted(_) => {
                    verdict.adopted += 1;
                    note_adoption(driver, index);
                    region::store::handle_content(driver, index);
                }
                Adoption::Unchanged => verdict.unchanged += 1,
                Adoption::Stale | Adoption::Superseded => {
                    verdict.superseded += 1;
                    note_superseded(driver, index);
                }
            },
            Err(problem) => {
                verdict.refused += 1;
                // A change is read twice, but was made once.
                if is_again && has_refused(driver, index, &problem) {
                    continue;
                }
                refuse(driver, index, Source::Seed.as_str(), &problem);
            }
        }
    }
    verdict
}

/// Says in the log what a slot serves now.
pub(super) fn note_adoption(driver: &Driver, index: SlotIndex) {
    let state = driver.state.borrow();
    let Some(slot) = state.slots.of(index) else {
        return;
    };
    let Some(held) = &slot.held else { return };
    let counts = held.snapshot.counts;
    driver.log.note(format_args!(
        "slot {} serves version {}{} from {}: {} features, {} properties, {} segments{}",
        slot.key,
        held.version,
        At(slot.revision()),
        Origin(held.source),
        counts.features,
        counts.properties,
        counts.segments,
        Filled(held.snapshot.rollouts_filled)
    ));
}

/// Where an operator's slot stands, in a sentence.
struct At(Option<Revision>);

impl std::fmt::Display for At {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(revision) => write!(formatter, ", revision {revision},"),
            None => Ok(()),
        }
    }
}

/// Who brought a document, in a sentence.
pub(super) struct Origin(pub Source);

impl std::fmt::Display for Origin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self.0 {
            Source::Seed => "the seed",
            Source::Cache => "what was last known good",
            Source::Primary => "the primary",
            Source::Backup => "the backup",
            Source::Operator => "the operator",
        })
    }
}

/// Says once of each seed that it is not served, and what to do if it is to be.
fn note_superseded(driver: &Driver, index: SlotIndex) {
    let state = driver.state.borrow();
    let Some(slot) = state.slots.of(index) else {
        return;
    };
    let (Some(held), Some(superseded)) = (&slot.held, slot.superseded) else {
        return;
    };
    if superseded.times == 1 {
        let origin = slot.origin().unwrap_or(held.source);
        let why = match slot.pushed_at() {
            Some(_) => "it was pushed to, and is the operator's from then on",
            None if slot.is_routed() => {
                "a region is primary for it, and a seed is its first content only"
            }
            None => {
                "the seed was seen before, or an upstream is followed; a seed with other content \
                 is new"
            }
        };
        driver.log.note(format_args!(
            "slot {} keeps version {}, from {}: {why}",
            slot.key,
            held.version,
            Origin(origin)
        ));
    }
}

/// Says how many keys the relay added to a document, if any.
struct Filled(u32);

impl std::fmt::Display for Filled {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            0 => Ok(()),
            count => write!(formatter, "; {count} missing rollout percentages filled in"),
        }
    }
}

fn has_refused(driver: &Driver, index: SlotIndex, problem: &str) -> bool {
    let state = driver.state.borrow();
    let slot = state.slots.of(index);
    slot.is_some_and(|slot| slot.has_refused(problem))
}

/// Notes what is wrong with a document for a slot; `from` is who offered it.
pub(super) fn refuse(driver: &Driver, index: SlotIndex, from: &str, problem: &str) {
    let now = driver.clock.now();
    let mut state = driver.state.borrow_mut();
    if !state.slots.handle_refusal(index, problem, now) {
        return;
    }
    let Some(slot) = state.slots.of(index) else {
        return;
    };
    let keeps = match &slot.held {
        Some(held) => format!("version {} stays", held.version),
        None => "it serves nothing".to_owned(),
    };
    // Said once for each slot and problem; how often the file changes is the operator's own doing.
    driver.log.error(format_args!(
        "slot {}: the document of the {from} is refused, {keeps}: {problem}",
        slot.key
    ));
}

/// Notes what is wrong with the file as a whole; says it once, not at every look.
fn note_problem(driver: &Driver, seed: &mut Seed, problem: String) {
    let now = driver.clock.now();
    let is_news = seed
        .problem
        .as_ref()
        .is_none_or(|(known, _)| *known != problem);
    seed.is_out_of_sight = false;
    if is_news {
        driver.log.warn(format_args!(
            "seed not used, what is served stays: {problem}"
        ));
        seed.problem = Some((problem, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SeedFile;
    use crate::net::disk::scratch::Scratch;
    use crate::net::notify::Notify;
    use crate::net::rig::{Rig, content};
    use std::fs;

    #[test]
    fn each_refused_slot_is_named_once() {
        let rig = Rig::new(Limits::PRODUCTION);
        for _ in 0..2 {
            refuse(&rig.driver, SlotIndex(0), "seed", "no such collection");
            refuse(&rig.driver, SlotIndex(1), "seed", "flag `a` has no type");
        }
        let lines = rig.lines.take();
        assert_eq!(lines.lines().count(), 2, "{lines}");
        assert!(
            lines.contains("slot c/e") && lines.contains("flag `a` has no type"),
            "{lines}"
        );
    }

    #[test]
    fn a_refused_file_counts_once_for_each_change_and_each_reload() {
        let scratch = Scratch::new("seed-refused");
        let file = scratch.path("seed.json");
        let rig = Rig::with(Limits::PRODUCTION, Notify::default(), |config| {
            config.seed = Some(SeedFile { file: file.clone() });
        });
        let looked = || {
            look(&rig.driver);
            rig.settle();
            let state = rig.driver.state.borrow();
            let refusal = state.slots.of(SlotIndex(1)).unwrap().refusal.as_ref();
            refusal.unwrap().times
        };
        // It holds nothing for the second slot.
        fs::write(&file, content("one")).unwrap();
        assert_eq!([looked(), looked(), looked()], [1, 1, 1]);
        fs::write(&file, content("another")).unwrap();
        assert_eq!([looked(), looked(), looked()], [2, 2, 2]);
        forget(&rig.driver);
        assert_eq!([looked(), looked(), looked()], [3, 3, 3]);
        let read = rig.driver.state.borrow().counters.seeds_read;
        assert_eq!(read, 6, "each of them twice");
    }
}
