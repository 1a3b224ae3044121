//! Cuts one slot out of a document, by edits to its text.
//!
//! Whatever is kept stays byte for byte: key order, numbers, keys that nobody knows; but for the
//! white space between tokens, which exports are full of and every client would be sent.
//! An element that is not the slot's is taken out of its array together with one comma, so the
//! chosen environment comes to stand at index 0, where JavaScript SDKs look for it. The only thing
//! ever put in is a missing `rollout_percentage`: exports of Lite plans leave it out, Rust SDKs
//! cannot read a feature and cannot evaluate a rule without it, and every other SDK takes its
//! absence for 100.
//!
//! An item keeps its `collections` key, although IBM's answers to SDKs have none: it is harmless to
//! every SDK, older Node SDKs demand it of a bootstrap file, and cutting it would mean that the
//! relay rewrites items. It is left out of the digest: it says nothing that the selection has not
//! done already, and so a seed and the service's own answer, when they say the same, are one
//! content and no change for anybody.
//!
//! Invariant: a text that has nothing to cut and nothing to fill comes back identical.

use super::error::{DocumentError, ItemKind, Problem, quoted};
use super::field::{Field, fields, refusal};
use super::place::Place;
use super::validate::{self, Item};
use crate::limits::Limits;
use crate::model::{Counts, Id, SlotKey, Snapshot};
use crate::wire::json::{self, Step, compact, slice};
use bytes::Bytes;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The three arrays of a document, cut into entries.
pub(in crate::wire) struct Document<'a> {
    text: &'a str,
    environments: Vec<Entry<'a>>,
    collections: Vec<Entry<'a>>,
    segments: Vec<Entry<'a>>,
    segment_ids: BTreeSet<Cow<'a, str>>,
}

/// One element of an array, and its id if it has a readable one. Those that have none are nobody's.
struct Entry<'a> {
    piece: &'a str,
    id: Option<Cow<'a, str>>,
    /// What environments have: cut here, so that no slot walks the environment again.
    features: Option<&'a str>,
    properties: Option<&'a str>,
}

impl<'a> Document<'a> {
    /// Cuts a checked text. Bounded by the length of `text`.
    ///
    /// # Errors
    /// The text is no object, or one of its three arrays is missing or is no array.
    pub fn cut(text: &'a str) -> Result<Document<'a>, DocumentError> {
        let kinds = [
            ItemKind::Environment,
            ItemKind::Collection,
            ItemKind::Segment,
        ];
        let names = kinds.map(ItemKind::array);
        let [environments, collections, segments] = fields(text, &Place::Root, "document", names)?;
        let environments = entries(environments, ItemKind::Environment, "all")?;
        let collections = entries(
            collections,
            ItemKind::Collection,
            "Python, Node, Go and Ruby",
        )?;
        let segments = entries(segments, ItemKind::Segment, "Python, JavaScript and Rust")?;
        let segment_ids = segments.iter().filter_map(|entry| entry.id.clone());
        Ok(Document {
            text,
            environments,
            collections,
            segment_ids: segment_ids.collect(),
            segments,
        })
    }

    /// The slots that the document speaks of, sorted: every collection in every environment, as far
    /// as their ids are any. Bounded by the product of the two.
    pub fn slots(&self) -> BTreeSet<SlotKey> {
        let ids = |entries: &[Entry<'a>]| -> BTreeSet<Id> {
            let ids = entries.iter().filter_map(|entry| entry.id.as_deref());
            ids.filter_map(Id::new).collect()
        };
        let environments = ids(&self.environments);
        let of = |collection: Id| {
            environments.iter().map(move |environment| SlotKey {
                collection: collection.clone(),
                environment: environment.clone(),
            })
        };
        ids(&self.collections).into_iter().flat_map(of).collect()
    }

    /// The snapshot of one slot. Bounded by the length of the text, whatever the slot.
    ///
    /// # Errors
    /// The slot is not in the document, or an SDK would choke on what is there for it.
    pub fn snapshot(&self, key: &SlotKey, limits: &Limits) -> Result<Snapshot, DocumentError> {
        let mut selection = Selection {
            document: self,
            collection: &key.collection,
            limits,
            used: BTreeSet::new(),
            edits: Vec::new(),
        };
        let kind = ItemKind::Environment;
        let (index, environment) = only(kind, &self.environments, &key.environment)?;
        let (collection, _) = only(ItemKind::Collection, &self.collections, &key.collection)?;
        let arrays = Place::Root.key(kind.array());
        let place = arrays.index(index);
        let features = Field::new(&place, ItemKind::Feature.array(), environment.features);
        let properties = Field::new(&place, ItemKind::Property.array(), environment.properties);
        let counts = selection
            .all(features, properties)
            .map_err(|error| error.of(kind, Some(key.environment.as_str())))?;
        selection.keep(self.environments.iter().map(|entry| entry.piece), |at| {
            at == index
        });
        selection.keep(self.collections.iter().map(|entry| entry.piece), |at| {
            at == collection
        });
        selection.finish(counts)
    }
}

fn entries<'a>(
    field: Field<'a, '_>,
    kind: ItemKind,
    readers: &'static str,
) -> Result<Vec<Entry<'a>>, DocumentError> {
    let names = [
        kind.id_key(),
        ItemKind::Feature.array(),
        ItemKind::Property.array(),
    ];
    let entry = |piece| {
        let [id, features, properties] = slice::members(piece, names).unwrap_or_default();
        Entry {
            piece,
            id: id.and_then(slice::string),
            features,
            properties,
        }
    };
    Ok(field.array(readers)?.into_iter().map(entry).collect())
}

/// The one entry that has this id.
fn only<'e, 'a>(
    kind: ItemKind,
    entries: &'e [Entry<'a>],
    id: &Id,
) -> Result<(usize, &'e Entry<'a>), DocumentError> {
    let mut found = entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| entry.id.as_deref() == Some(id.as_str()));
    let place = Place::Root.key(kind.array());
    let Some(first) = found.next() else {
        const SHOWN_MAX: usize = 16;
        let ids = entries.iter().filter_map(|entry| entry.id.as_deref());
        return Err(refusal(
            &place,
            Problem::Absent {
                kind,
                id: id.to_string(),
                present: ids.take(SHOWN_MAX).map(quoted).collect(),
            },
        ));
    };
    match found.next() {
        None => Ok(first),
        Some((index, _)) => {
            let error = refusal(&place.index(index), Problem::Duplicate);
            Err(error.of(kind, Some(id.as_str())))
        }
    }
}

/// A selection in the making: what was used, and how the text is to be edited.
struct Selection<'d, 'a> {
    document: &'d Document<'a>,
    collection: &'d Id,
    limits: &'d Limits,
    used: BTreeSet<Cow<'a, str>>,
    edits: Vec<Edit>,
}

/// Puts `with` in place of the bytes from `start` to `end`.
struct Edit {
    start: usize,
    end: usize,
    with: &'static str,
}

const FILLED: &str = "\"rollout_percentage\":100,";

impl<'a> Selection<'_, 'a> {
    fn all(
        &mut self,
        features: Field<'a, '_>,
        properties: Field<'a, '_>,
    ) -> Result<Counts, DocumentError> {
        Ok(Counts {
            features: self.items(ItemKind::Feature, features)?,
            properties: self.items(ItemKind::Property, properties)?,
            segments: self.segments()?,
        })
    }

    /// Judges and keeps the collection's items of one array; gives their number.
    fn items(&mut self, kind: ItemKind, array: Field<'a, '_>) -> Result<u32, DocumentError> {
        let pieces = array.array("Rust and Python")?;
        let place = array.place();
        let mut kept = vec![false; pieces.len()];
        let mut ids = BTreeSet::new();
        for ((index, piece), kept) in pieces.iter().enumerate().zip(&mut kept) {
            let place = place.index(index);
            let item = Item::cut(kind, piece, &place).map_err(|error| error.of(kind, None))?;
            let name = item.id.given().and_then(slice::string);
            let of_item = |error: DocumentError| error.of(kind, name.as_deref());
            if !belongs(item.collections, self.collection).map_err(of_item)? {
                continue;
            }
            *kept = true;
            let segments = &self.document.segment_ids;
            let valid = item.judge(&|id| segments.contains(id)).map_err(of_item)?;
            if !ids.insert(valid.id) {
                return Err(of_item(refusal(&place, Problem::Duplicate)));
            }
            self.used.extend(valid.segments);
            for object in valid.without_percentage {
                let start = slice::offset(self.document.text, object) + 1;
                self.edits.push(Edit {
                    start,
                    end: start,
                    with: FILLED,
                });
            }
        }
        self.keep(pieces.into_iter(), |at| kept.get(at) == Some(&true));
        self.count(kind, ids.len(), &place)
    }

    /// Judges and keeps the segments that rules of the slot name; gives their number.
    fn segments(&mut self) -> Result<u32, DocumentError> {
        let kind = ItemKind::Segment;
        let document = self.document;
        let place = Place::Root.key(kind.array());
        let mut kept = vec![false; document.segments.len()];
        let mut ids = BTreeSet::new();
        for ((index, entry), kept) in document.segments.iter().enumerate().zip(&mut kept) {
            let Some(id) = entry.id.as_deref().filter(|id| self.used.contains(*id)) else {
                continue;
            };
            let place = place.index(index);
            validate::segment(entry.piece, &place)
                .and_then(|()| match ids.insert(id) {
                    true => Ok(()),
                    false => Err(refusal(&place, Problem::Duplicate)),
                })
                .map_err(|error| error.of(kind, Some(id)))?;
            *kept = true;
        }
        let pieces = document.segments.iter().map(|entry| entry.piece);
        self.keep(pieces, |at| kept.get(at) == Some(&true));
        self.count(kind, ids.len(), &place)
    }

    fn count(&self, kind: ItemKind, count: usize, place: &Place) -> Result<u32, DocumentError> {
        let count_max = self.limits.items_max;
        match u32::try_from(count) {
            Ok(number) if count <= count_max => Ok(number),
            _ => Err(refusal(
                place,
                Problem::TooMany {
                    kind,
                    count,
                    count_max,
                },
            )),
        }
    }

    /// Takes the elements out of an array that `is_kept` does not name by their index.
    fn keep(&mut self, pieces: impl Iterator<Item = &'a str>, is_kept: impl Fn(usize) -> bool) {
        let mut gap: Option<usize> = None;
        let mut after_kept: Option<usize> = None;
        let mut end = 0;
        for (index, piece) in pieces.enumerate() {
            let start = slice::offset(self.document.text, piece);
            end = start + piece.len();
            match (is_kept(index), gap) {
                (true, None) => after_kept = Some(end),
                (true, Some(from)) => {
                    // Behind a kept element the comma before this one stays; in front, none does.
                    let to = if after_kept.is_some() {
                        self.comma_before(start)
                    } else {
                        start
                    };
                    self.remove(from, to);
                    gap = None;
                    after_kept = Some(end);
                }
                (false, None) => gap = Some(after_kept.unwrap_or(start)),
                (false, Some(_)) => {}
            }
        }
        if let Some(from) = gap {
            self.remove(from, end);
        }
    }

    /// Between two elements there is nothing but white space and one comma.
    fn comma_before(&self, start: usize) -> usize {
        let before = self.document.text.get(..start);
        before.and_then(|text| text.rfind(',')).unwrap_or(start)
    }

    fn remove(&mut self, start: usize, end: usize) {
        self.edits.push(Edit {
            start,
            end,
            with: "",
        });
    }

    /// Applies the edits; only here is text copied.
    fn finish(mut self, counts: Counts) -> Result<Snapshot, DocumentError> {
        let text = self.document.text;
        self.edits.sort_by_key(|edit| (edit.start, edit.end));
        let mut pieces = Vec::with_capacity(2 * self.edits.len() + 1);
        let mut copied = 0;
        for edit in &self.edits {
            pieces.push(text.get(copied..edit.start).unwrap_or(""));
            pieces.push(edit.with);
            copied = edit.end;
        }
        pieces.push(text.get(copied..).unwrap_or(""));
        // What has to be copied is copied without the white space; what need not be stays as it is.
        let json = match self.edits.is_empty() {
            true => text.to_owned(),
            false => compact(&pieces.concat()),
        };
        let (bytes, bytes_max) = (json.len(), self.limits.document_bytes_max);
        if bytes > bytes_max {
            return Err(refusal(
                &Place::Root,
                Problem::TooLarge { bytes, bytes_max },
            ));
        }
        let digest = json::check_without(&json, self.limits.json_depth_max, is_membership)?;
        let filled = self.edits.iter().filter(|edit| edit.with == FILLED).count();
        Ok(Snapshot {
            gzip: None,
            json: Bytes::from(json),
            digest,
            counts,
            rollouts_filled: u32::try_from(filled).unwrap_or(u32::MAX),
        })
    }
}

/// Whether a path in a document leads to what a feature or property says about its collections.
fn is_membership(path: &[Step<'_>]) -> bool {
    let [
        Step::Key(top),
        Step::Index(_),
        Step::Key(array),
        Step::Index(_),
        Step::Key(key),
    ] = path
    else {
        return false;
    };
    let [features, properties] = [ItemKind::Feature, ItemKind::Property].map(ItemKind::array);
    top == ItemKind::Environment.array()
        && (array == features || array == properties)
        && key == "collections"
}

/// Whether an item is the collection's; without `collections` it is everybody's.
fn belongs(collections: Field, collection: &Id) -> Result<bool, DocumentError> {
    if collections.is_absent() {
        return Ok(true);
    }
    let place = collections.place();
    let mut belongs = false;
    for (index, piece) in collections.array("Python")?.into_iter().enumerate() {
        let place = place.index(index);
        let [id] = fields(piece, &place, "collections", ["collection_id"])?;
        belongs |= id.string("Rust")? == collection.as_str();
    }
    Ok(belongs)
}
