//! The documents of several slots → one seed that gives each of them back.
//!
//! Items that several collections of an environment share stand in the seed once and say which
//! collections they belong to, as they do in the service's own export; environments, collections
//! and segments stand there once too. What has one id must therefore have one content: a flag that
//! differs between two answers was changed between the two requests, and is refused by name.
//!
//! Works on pieces of the text, as the selection of a slot does: what is kept stays byte for byte,
//! but for the `collections` of items. Builds no tree over a document.
//!
//! Invariant: what comes out was read back, and every slot in it is accepted. Its digest is that of
//! the document that went in, unless two collections have their items in contrary orders.

mod union;

use super::document::{DocumentError, ItemKind};
use super::json::{Step, check_without, slice};
use super::seed::Seed;
use crate::limits::Limits;
use crate::model::{SlotKey, Snapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use union::{Entry, Union};

/// A seed made of documents.
#[derive(Debug)]
pub struct Merged {
    pub json: String,
    /// Slots whose items stand in another order than in their document, which changes the digest
    /// and nothing else.
    pub reordered: Vec<SlotKey>,
    /// Slots that a seed of these environments and collections speaks of as well, and holds nothing
    /// for, because they were not among the documents.
    pub empty: Vec<SlotKey>,
}

/// Why there is no seed for these documents.
#[derive(Debug, PartialEq, Eq)]
pub enum MergeError {
    /// No document at all.
    Nothing,
    /// One id, two contents; the slots say in which documents.
    Differs {
        kind: ItemKind,
        id: String,
        slots: [SlotKey; 2],
    },
    /// The documents differ outside of their arrays, of which a seed has room for one.
    DocumentsDiffer { slots: [SlotKey; 2] },
    /// A document has no environment or no collection: no selection has made it.
    NoSlot(SlotKey),
    /// The relay would not serve this slot from what came out.
    Refused(SlotKey, Box<DocumentError>),
}

impl fmt::Display for MergeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MergeError::Nothing => formatter.write_str("there is no document to make a seed of"),
            MergeError::Differs {
                kind,
                id,
                slots: [one, other],
            } => write!(
                formatter,
                "{} `{}` is not the same in {one} and in {other}: it was changed between the two \
                 requests; try again",
                kind.as_str(),
                id.escape_debug()
            ),
            MergeError::DocumentsDiffer {
                slots: [one, other],
            } => write!(
                formatter,
                "the documents of {one} and {other} differ beside their environments, collections \
                 and segments: one seed cannot hold both"
            ),
            MergeError::NoSlot(slot) => write!(formatter, "the document of {slot} is another's"),
            MergeError::Refused(slot, error) => write!(formatter, "{slot}: {error}"),
        }
    }
}

impl std::error::Error for MergeError {}

/// What is known about one environment: itself, and its items.
struct Environment<'a> {
    features: Union<'a>,
    properties: Union<'a>,
}

/// Makes one seed of the documents, which belong to different slots.
///
/// # Errors
/// See [`MergeError`]. Bounded by the length of all documents, and of the seed for each slot.
pub fn merge(documents: &[(SlotKey, Snapshot)], limits: &Limits) -> Result<Merged, MergeError> {
    let json = unite(documents, limits)?;
    let refused = |slot: &SlotKey| {
        let slot = slot.clone();
        move |error| MergeError::Refused(slot, Box::new(error))
    };
    let (first, _) = documents.first().ok_or(MergeError::Nothing)?;
    let seed = Seed::parse(json.as_bytes(), limits).map_err(refused(first))?;
    let mut reordered = Vec::new();
    let mut empty = seed.slots();
    for (slot, document) in documents {
        let again = seed.snapshot(slot, limits).map_err(refused(slot))?;
        if again.digest != document.digest {
            reordered.push(slot.clone());
        }
        empty.remove(slot);
    }
    let empty = empty.into_iter().collect();
    Ok(Merged {
        json,
        reordered,
        empty,
    })
}

fn unite(documents: &[(SlotKey, Snapshot)], limits: &Limits) -> Result<String, MergeError> {
    let depth_max = limits.json_depth_max;
    let mut environments = Union::new(ItemKind::Environment, depth_max);
    let mut collections = Union::new(ItemKind::Collection, depth_max);
    let mut segments = Union::new(ItemKind::Segment, depth_max);
    let mut inner: BTreeMap<String, Environment<'_>> = BTreeMap::new();
    let mut whole = None;
    for (slot, document) in documents {
        let text = str::from_utf8(&document.json).unwrap_or_default();
        let beside = check_without(text, depth_max, is_array).ok();
        let (first, first_beside, _) = whole.get_or_insert((slot, beside, text));
        if *first_beside != beside {
            let slots = [(*first).clone(), slot.clone()];
            return Err(MergeError::DocumentsDiffer { slots });
        }
        let names = [
            ItemKind::Environment,
            ItemKind::Collection,
            ItemKind::Segment,
        ];
        let arrays = slice::members(text, names.map(ItemKind::array)).unwrap_or_default();
        let [own_environments, own_collections, own_segments] = arrays.map(elements);
        let no_slot = || MergeError::NoSlot(slot.clone());
        let environment = own_environments.first().copied().ok_or_else(no_slot)?;
        environments.add(slot, own_environments)?;
        collections.add(slot, own_collections)?;
        segments.add(slot, own_segments)?;
        let names = [ItemKind::Feature, ItemKind::Property].map(ItemKind::array);
        let arrays = slice::members(environment, names).unwrap_or_default();
        let [features, properties] = arrays.map(elements);
        let id = slot.environment.to_string();
        let inner = inner.entry(id).or_insert_with(|| Environment {
            features: Union::new(ItemKind::Feature, depth_max),
            properties: Union::new(ItemKind::Property, depth_max),
        });
        inner.features.add(slot, features)?;
        inner.properties.add(slot, properties)?;
    }
    let (_, _, text) = whole.ok_or(MergeError::Nothing)?;
    let names = names_of(&collections);
    let environments = environments
        .sorted()
        .map(|entry| match inner.get(&*entry.id) {
            Some(inner) => {
                let items = [&inner.features, &inner.properties];
                let items = items.map(|union| union.sorted().map(|item| with_slots(item, &names)));
                let arrays = [ItemKind::Feature, ItemKind::Property].map(ItemKind::array);
                replace(entry.piece, arrays, items.map(array))
            }
            None => entry.piece.to_owned(),
        });
    let plain = |entry: &Entry<'_>| entry.piece.to_owned();
    let arrays = [
        array(environments),
        array(collections.sorted().map(plain)),
        array(segments.sorted().map(plain)),
    ];
    let kinds = [
        ItemKind::Environment,
        ItemKind::Collection,
        ItemKind::Segment,
    ];
    Ok(replace(text, kinds.map(ItemKind::array), arrays))
}

fn is_array(path: &[Step<'_>]) -> bool {
    let arrays = [
        ItemKind::Environment,
        ItemKind::Collection,
        ItemKind::Segment,
    ];
    let arrays = arrays.map(ItemKind::array);
    matches!(path, [Step::Key(key)] if arrays.contains(&key.as_ref()))
}

fn elements(array: Option<&str>) -> Vec<&str> {
    array.and_then(slice::elements).unwrap_or_default()
}

/// For each collection by its id, how an item names it.
fn names_of(collections: &Union<'_>) -> BTreeMap<String, String> {
    let name = |entry: &Entry<'_>| {
        let names = ["collection_id", "name"];
        let [id, name] = slice::members(entry.piece, names).unwrap_or_default();
        let id = id.unwrap_or("\"\"");
        let text = match name {
            Some(name) => format!("{{\"collection_id\":{id},\"name\":{name}}}"),
            None => format!("{{\"collection_id\":{id}}}"),
        };
        (entry.id.to_string(), text)
    };
    collections.sorted().map(name).collect()
}

/// An item that says to which collections it belongs: those in whose documents it was.
fn with_slots(item: &Entry<'_>, names: &BTreeMap<String, String>) -> String {
    let own: BTreeSet<&str> = item
        .slots
        .iter()
        .map(|slot| slot.collection.as_str())
        .collect();
    let own: Vec<&str> = own
        .into_iter()
        .filter_map(|id| names.get(id))
        .map(String::as_str)
        .collect();
    let own = format!("[{}]", own.join(","));
    let [found] = slice::members(item.piece, ["collections"]).unwrap_or_default();
    match found {
        Some(_) => replace(item.piece, ["collections"], [own]),
        // It has at least an id, which the comma separates.
        None => format!(
            "{{\"collections\":{own},{}",
            item.piece.get(1..).unwrap_or_default()
        ),
    }
}

/// One item a line, so that people and their tools can compare two seeds.
fn array(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    match items.is_empty() {
        true => "[]".into(),
        false => format!("[\n{}\n]", items.join(",\n")),
    }
}

/// The object with other values for these keys, which it has.
fn replace<const N: usize>(object: &str, keys: [&str; N], values: [String; N]) -> String {
    let found = slice::members(object, keys).unwrap_or([None; N]);
    let mut edits: Vec<(usize, usize, String)> = Vec::new();
    for (piece, value) in found.into_iter().zip(values) {
        if let Some(piece) = piece {
            let start = slice::offset(object, piece);
            edits.push((start, start + piece.len(), value));
        }
    }
    edits.sort_unstable();
    let mut text = String::new();
    let mut copied = 0;
    for (start, end, value) in &edits {
        text.push_str(object.get(copied..*start).unwrap_or_default());
        text.push_str(value);
        copied = *end;
    }
    text.push_str(object.get(copied..).unwrap_or_default());
    text
}

#[cfg(test)]
mod tests;
