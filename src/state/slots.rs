//! What each slot serves, who may replace it, and why not something newer.
//!
//! Policy, without content: whatever comes first. With content that equals what is offered: nothing
//! happens but that it is confirmed; the bytes that are served stay, and no client hears of it.
//! Else by source:
//!
//! * The primary is always followed, back too: a rollback there is a decision of somebody.
//! * A backup is followed but for what is known to be older (`history` says how). One that has
//!   shown what is served is level with it: what it has after that is newer, even if it was served
//!   before, as when somebody turns a flag off again there.
//! * The state folder fills an empty slot, and takes the place of a seed that came first because
//!   the folder was late (`kept` says when).
//! * A seed that was never offered before replaces everything while no upstream is followed; while
//!   one is, it is noted as superseded.
//! * A seed that was offered before is no news: neither a reload nor a restart puts it in the place
//!   of an upstream's document or of the last known good one. Between seeds, the file that is put
//!   there while the relay runs counts.
//! * The operator is always followed, by pushes to slots that are his (`push`); a seed replaces
//!   nothing there once something was pushed.
//!
//! A slot keeps the last good snapshot for as long as the process lives. Nothing empties it: a
//! document that is missing, torn, or wrong for this slot leaves a note (what, since when).
//!
//! Trip: any refusal. Recovery: the next good document, which also clears the note.

mod kept;
mod push;

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::limits::Limits;
use crate::model::{Digest, Past, SlotIndex, SlotKey, Snapshot, Source, Version};
use crate::time::Instant;

use super::history::{History, is_upstream};
use push::Pushes;

/// A snapshot that a slot serves.
#[derive(Clone, Debug)]
pub struct Held {
    pub snapshot: Rc<Snapshot>,
    pub version: Version,
    /// Who brought it to this process.
    pub source: Source,
    /// When its content was adopted.
    pub since: Instant,
    /// When a source last confirmed it, by the same digest.
    pub confirmed: Instant,
    /// Which source that was.
    pub confirmed_by: Source,
}

/// Why the newest offer was not adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// One line: item, path, problem.
    pub problem: String,
    /// When this problem was first seen, of those without a good document in between.
    pub since: Instant,
    /// How often it was refused since then.
    pub times: u64,
}

/// A good seed that is not served, because what is served counts more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superseded {
    pub digest: Digest,
    /// When it was first offered to this process.
    pub since: Instant,
    /// How often it was offered since then.
    pub times: u64,
}

/// One slot.
#[derive(Clone, Debug)]
pub struct Slot {
    pub key: SlotKey,
    pub held: Option<Held>,
    pub refusal: Option<Refusal>,
    /// The seed that lies there and is not served.
    pub superseded: Option<Superseded>,
    /// How often a backup offered what is known to be older.
    pub stale: u64,
    history: History,
    pushes: Pushes,
    /// A session with an upstream is up.
    is_following: bool,
    /// The backup has shown what is served, since that was adopted.
    is_backup_level: bool,
    /// What is held would not be, had the state folder been read first.
    is_premature: bool,
    /// The seed that was last offered to this process.
    seed: Option<Digest>,
    versions: u64,
}

/// What became of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// It is served from now on, as this version: publish it.
    Adopted(Version),
    /// It is what is served already.
    Unchanged,
    /// A backup's document that is known to be older than what an upstream brought since.
    Stale,
    /// What is served counts more than this seed, or than what the state folder holds.
    Superseded,
}

/// All slots of the configuration.
#[derive(Clone, Debug)]
pub struct Slots {
    slots: Vec<Slot>,
    /// Positions in `slots`, by collection and environment.
    sorted: Vec<SlotIndex>,
    /// Slots whose content or memory has changed since it was last taken for keeping.
    unkept: BTreeSet<SlotIndex>,
    limits: Limits,
}

impl Slots {
    /// Empty slots with these keys, in the order of the configuration.
    pub fn new(keys: impl IntoIterator<Item = SlotKey>, limits: &Limits) -> Slots {
        let empty = |key| Slot {
            key,
            held: None,
            refusal: None,
            superseded: None,
            stale: 0,
            history: History::new(limits),
            pushes: Pushes::default(),
            is_following: false,
            is_backup_level: false,
            is_premature: false,
            seed: None,
            versions: 0,
        };
        let slots: Vec<Slot> = keys.into_iter().map(empty).collect();
        let mut sorted: Vec<SlotIndex> = (0..slots.len() as u16).map(SlotIndex).collect();
        sorted.sort_by(|left, right| {
            slots[usize::from(left.0)]
                .key
                .cmp(&slots[usize::from(right.0)].key)
        });
        Slots {
            slots,
            sorted,
            unkept: BTreeSet::new(),
            limits: limits.clone(),
        }
    }

    // Getters.

    /// The slot of a collection and environment.
    ///
    /// Bounded by O(log n).
    pub fn find(&self, collection: &str, environment: &str) -> Option<SlotIndex> {
        let wanted = (collection, environment);
        let order = |index: &SlotIndex| {
            let key = &self.slots[usize::from(index.0)].key;
            (key.collection.as_str(), key.environment.as_str()).cmp(&wanted)
        };
        let place = self.sorted.binary_search_by(order).ok()?;
        self.sorted.get(place).copied()
    }

    /// A slot.
    pub fn of(&self, index: SlotIndex) -> Option<&Slot> {
        self.slots.get(usize::from(index.0))
    }

    /// All slots in the order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = (SlotIndex, &Slot)> {
        (0..).map(SlotIndex).zip(self.slots.iter())
    }

    /// The slots that have nothing to serve.
    pub fn missing(&self) -> impl Iterator<Item = &SlotKey> {
        self.slots
            .iter()
            .filter(|slot| slot.held.is_none())
            .map(|slot| &slot.key)
    }

    // What happened.

    /// A session of the slot with an upstream is up, or no longer is.
    ///
    /// Bounded by O(1).
    pub fn set_following(&mut self, index: SlotIndex, is_following: bool) {
        if let Some(slot) = self.slots.get_mut(usize::from(index.0)) {
            slot.is_following = is_following;
        }
    }

    /// A source offers a valid document.
    ///
    /// Bounded by the bounds of `history`.
    pub fn handle_offer(
        &mut self,
        index: SlotIndex,
        snapshot: Rc<Snapshot>,
        source: Source,
        now: Instant,
    ) -> Adoption {
        let Some(slot) = self.slots.get_mut(usize::from(index.0)) else {
            return Adoption::Unchanged;
        };
        let digest = snapshot.digest;
        if source == Source::Seed && slot.pushes.put_off_seed() {
            return Adoption::Superseded;
        }
        let adoption = match slot.judge(digest, source) {
            Verdict::Adopt => Adoption::Adopted(slot.adopt(snapshot, source, now)),
            Verdict::Confirm => slot.confirm(source, now),
            Verdict::Stale => {
                slot.stale += 1;
                Adoption::Stale
            }
            Verdict::Supersede => Adoption::Superseded,
        };
        let mut is_news = false;
        slot.is_backup_level = match adoption {
            Adoption::Adopted(_) => source == Source::Backup,
            Adoption::Unchanged => slot.is_backup_level || source == Source::Backup,
            Adoption::Stale | Adoption::Superseded => slot.is_backup_level,
        };
        if adoption != Adoption::Stale {
            slot.refusal = None;
        }
        if matches!(adoption, Adoption::Adopted(_)) {
            if source != Source::Cache {
                is_news |= slot.history.adopt(digest, source);
            }
            // A push was kept before it was offered.
            is_news &= !slot.pushes.advance(source);
        }
        if source == Source::Seed {
            is_news |= slot.history.see(digest);
            slot.seed = Some(digest);
            slot.note_superseded(digest, adoption, now);
        }
        if is_news {
            self.unkept.insert(index);
        }
        adoption
    }

    /// A source offers something that cannot be served. Returns whether that is news.
    ///
    /// Bounded by O(1).
    pub fn handle_refusal(&mut self, index: SlotIndex, problem: &str, now: Instant) -> bool {
        let Some(slot) = self.slots.get_mut(usize::from(index.0)) else {
            return false;
        };
        match &mut slot.refusal {
            Some(refusal) if refusal.problem == problem => {
                refusal.times += 1;
                false
            }
            refusal => {
                *refusal = Some(Refusal {
                    problem: problem.to_owned(),
                    since: now,
                    times: 1,
                });
                true
            }
        }
    }

    // What to do next.

    /// A slot whose content or memory is to be kept: see [`Slot::held`] and [`Slot::past`]. Equal
    /// content is nothing to keep. To be called until it answers `None`.
    ///
    /// Bounded by O(log n).
    pub fn poll_keep(&mut self) -> Option<SlotIndex> {
        self.unkept.pop_first()
    }
}

/// What an offer is worth.
enum Verdict {
    Adopt,
    Confirm,
    Stale,
    Supersede,
}

impl Slot {
    /// Whether this is the problem that newer content was last refused for.
    pub fn has_refused(&self, problem: &str) -> bool {
        let refusal = self.refusal.as_ref();
        refusal.is_some_and(|refusal| refusal.problem == problem)
    }

    /// What the slot remembers, as it is to be kept.
    pub fn past(&self) -> Past {
        self.pushes.complete(self.history.past())
    }

    /// Who first brought what is served: never the state folder, but where that lost its memory.
    pub fn origin(&self) -> Option<Source> {
        let held = self.held.as_ref()?;
        match self.history.newest() {
            Some((digest, source)) if held.serves(digest) => Some(source),
            Some(_) | None => Some(held.source),
        }
    }

    fn judge(&self, digest: Digest, source: Source) -> Verdict {
        let Some(held) = &self.held else {
            return Verdict::Adopt;
        };
        if held.serves(digest) {
            return Verdict::Confirm;
        }
        match source {
            Source::Primary | Source::Operator => Verdict::Adopt,
            Source::Backup if !self.is_backup_level && self.history.is_older(digest) => {
                Verdict::Stale
            }
            Source::Backup => Verdict::Adopt,
            Source::Cache if self.is_premature => Verdict::Adopt,
            Source::Cache => Verdict::Supersede,
            Source::Seed if self.takes_seed(held, digest) => Verdict::Adopt,
            Source::Seed => Verdict::Supersede,
        }
    }

    /// Whether a seed replaces what is held.
    fn takes_seed(&self, held: &Held, digest: Digest) -> bool {
        if self.is_following || self.pushes.outrank_seeds() {
            return false;
        }
        if !self.history.has_seen(digest) {
            return true;
        }
        // Seen before. The file of a running relay that held another one was put there by somebody,
        // and replaces seeds; the first one that a process finds may have been there all the time.
        let is_put_there = self.seed.is_some_and(|last| last != digest);
        let is_from_seed = !self.origin().is_some_and(is_upstream);
        is_from_seed && (is_put_there || held.source == Source::Seed)
    }

    fn adopt(&mut self, snapshot: Rc<Snapshot>, source: Source, now: Instant) -> Version {
        self.versions += 1;
        self.is_premature = false;
        let version = Version(self.versions);
        self.held = Some(Held {
            snapshot,
            version,
            source,
            since: now,
            confirmed: now,
            confirmed_by: source,
        });
        version
    }

    fn confirm(&mut self, source: Source, now: Instant) -> Adoption {
        if let Some(held) = &mut self.held {
            held.confirmed = now;
            held.confirmed_by = source;
        }
        self.history.confirm(source);
        Adoption::Unchanged
    }

    /// Keeps the note about the seed that lies there: it is one that is served, or one that is not.
    fn note_superseded(&mut self, digest: Digest, adoption: Adoption, now: Instant) {
        match &mut self.superseded {
            superseded if adoption != Adoption::Superseded => *superseded = None,
            Some(superseded) if superseded.digest == digest => superseded.times += 1,
            superseded => {
                *superseded = Some(Superseded {
                    digest,
                    since: now,
                    times: 1,
                });
            }
        }
    }
}

impl Held {
    fn serves(&self, digest: Digest) -> bool {
        self.snapshot.digest == digest
    }
}

#[cfg(test)]
mod tests;
