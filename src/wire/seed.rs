//! Seed files: a whole configuration, from which each slot takes its own.
//!
//! A seed is what IBM's export writes and what SDKs take as a bootstrap file: all environments and
//! collections, items that say which collections they belong to. A single answer that an SDK got is
//! the same shape with one of each, and is read by the same code.
//!
//! The syntax of the whole file must be right. Beyond that, a slot is judged by what is its own: a
//! bad flag elsewhere in the file does not take it down.
//!
//! Never opens a file and never keeps a copy: a seed borrows its bytes, a snapshot owns its own.

use super::document::select::Document;
use super::document::{DocumentError, Problem};
use super::json;
use crate::limits::Limits;
use crate::model::{SlotKey, Snapshot};
use std::collections::BTreeSet;

/// A seed that is sound as a file.
pub struct Seed<'a> {
    document: Document<'a>,
}

impl<'a> Seed<'a> {
    /// Reads a seed file. Bounded by `seed_bytes_max`.
    ///
    /// # Errors
    /// Larger than `seed_bytes_max`; no JSON text of one meaning (see [`json`]); `environments`,
    /// `collections` or `segments` missing or no array.
    pub fn parse(bytes: &'a [u8], limits: &Limits) -> Result<Seed<'a>, DocumentError> {
        let bytes_max = limits.seed_bytes_max;
        if bytes.len() > bytes_max {
            return Err(DocumentError {
                item: None,
                path: "$".into(),
                problem: Problem::TooLarge {
                    bytes: bytes.len(),
                    bytes_max,
                },
            });
        }
        let text = json::text(bytes)?;
        json::judge(text, limits.json_depth_max)?;
        let document = Document::cut(text)?;
        Ok(Seed { document })
    }

    /// The slots that the seed speaks of, sorted: every collection in every environment. Whether
    /// what it holds for them can be served is another matter. Bounded by the product of the two.
    pub fn slots(&self) -> BTreeSet<SlotKey> {
        self.document.slots()
    }

    /// What the seed holds for one slot. Bounded by the length of the seed.
    ///
    /// # Errors
    /// The slot's environment or collection is not there or stands there twice; an item of the slot
    /// is one that an SDK would choke on; more than `items_max` items of a kind or
    /// `document_bytes_max` bytes.
    pub fn snapshot(&self, key: &SlotKey, limits: &Limits) -> Result<Snapshot, DocumentError> {
        self.document.snapshot(key, limits)
    }
}

#[cfg(test)]
mod tests;
