//! Arrays of items of one kind → one array in which each item stands once.
//!
//! Owns the two questions that come up: are two items with one id the same (or somebody changed it
//! in between), and in which order do all of them stand. The order is one that agrees with every
//! array, if there is such an order: a digest depends on it.

use super::MergeError;
use crate::model::{Digest, SlotKey};
use crate::wire::document::ItemKind;
use crate::wire::json::{Step, check_without, slice};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// An item, and in whose documents it was.
pub struct Entry<'a> {
    pub id: Cow<'a, str>,
    /// Its text in the first document that had it.
    pub piece: &'a str,
    pub slots: Vec<&'a SlotKey>,
    /// Of what must be the same everywhere.
    digest: Option<Digest>,
    /// Who comes later, in some array right behind it.
    next: Vec<usize>,
    /// How often it is such a next one.
    earlier: usize,
}

/// Items of one kind.
pub struct Union<'a> {
    kind: ItemKind,
    depth_max: usize,
    entries: Vec<Entry<'a>>,
    by_id: BTreeMap<String, usize>,
}

impl<'a> Union<'a> {
    /// No items yet; `depth_max` as in `json::check`.
    pub fn new(kind: ItemKind, depth_max: usize) -> Union<'a> {
        Union {
            kind,
            depth_max,
            entries: Vec::new(),
            by_id: BTreeMap::new(),
        }
    }

    /// Adds the items of one array; those without a readable id are nobody's and stay out.
    ///
    /// # Errors
    /// An item is there already with another content. Bounded by the length of the items.
    pub fn add(&mut self, slot: &'a SlotKey, pieces: Vec<&'a str>) -> Result<(), MergeError> {
        let mut before: Option<usize> = None;
        for piece in pieces {
            let [id] = slice::members(piece, [self.kind.id_key()]).unwrap_or_default();
            let Some(id) = id.and_then(slice::string) else {
                continue;
            };
            let index = self.enter(slot, id, piece)?;
            if let Some(entry) = before.and_then(|before| self.entries.get_mut(before)) {
                entry.next.push(index);
                self.entries
                    .get_mut(index)
                    .into_iter()
                    .for_each(|entry| entry.earlier += 1);
            }
            before = Some(index);
        }
        Ok(())
    }

    fn enter(
        &mut self,
        slot: &'a SlotKey,
        id: Cow<'a, str>,
        piece: &'a str,
    ) -> Result<usize, MergeError> {
        let is_left_out = match self.kind {
            ItemKind::Environment => is_item_array,
            ItemKind::Feature | ItemKind::Property => is_membership,
            ItemKind::Collection | ItemKind::Segment => is_nothing,
        };
        let digest = check_without(piece, self.depth_max, is_left_out).ok();
        let known = self.by_id.get(id.as_ref()).copied();
        let known = known.and_then(|index| Some((index, self.entries.get_mut(index)?)));
        match known {
            Some((index, entry)) if entry.digest == digest => {
                entry.slots.push(slot);
                Ok(index)
            }
            Some((_, entry)) => {
                let first = entry.slots.first().copied().unwrap_or(slot);
                Err(MergeError::Differs {
                    kind: self.kind,
                    id: id.into_owned(),
                    slots: [first.clone(), slot.clone()],
                })
            }
            None => {
                let index = self.entries.len();
                self.by_id.insert(id.to_string(), index);
                self.entries.push(Entry {
                    id,
                    piece,
                    slots: vec![slot],
                    digest,
                    next: Vec::new(),
                    earlier: 0,
                });
                Ok(index)
            }
        }
    }

    /// The items in an order that agrees with all arrays; where these contradict each other, with
    /// those that came first. Bounded by the items of all arrays, times the logarithm.
    pub fn sorted(&self) -> impl Iterator<Item = &Entry<'a>> {
        let mut earlier: Vec<usize> = self.entries.iter().map(|entry| entry.earlier).collect();
        let mut left: BTreeSet<usize> = (0..self.entries.len()).collect();
        let is_first = |index: &usize| earlier.get(*index) == Some(&0);
        let mut ready: BTreeSet<usize> = left.iter().copied().filter(is_first).collect();
        let mut order = Vec::with_capacity(self.entries.len());
        while let Some(index) = ready.pop_first().or_else(|| left.first().copied()) {
            left.remove(&index);
            let Some(entry) = self.entries.get(index) else {
                continue;
            };
            order.push(entry);
            for next in &entry.next {
                let Some(count) = earlier.get_mut(*next) else {
                    continue;
                };
                *count = count.saturating_sub(1);
                if *count == 0 && left.contains(next) {
                    ready.insert(*next);
                }
            }
        }
        order.into_iter()
    }
}

fn is_item_array(path: &[Step<'_>]) -> bool {
    let arrays = [ItemKind::Feature, ItemKind::Property].map(ItemKind::array);
    matches!(path, [Step::Key(key)] if arrays.contains(&key.as_ref()))
}

fn is_membership(path: &[Step<'_>]) -> bool {
    matches!(path, [Step::Key(key)] if key == "collections")
}

fn is_nothing(_: &[Step<'_>]) -> bool {
    false
}
