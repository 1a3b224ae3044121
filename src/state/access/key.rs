//! A client key: as it was loaded, and as it is known from then on.
//!
//! Owns the secret, its digest and the slots that it opens. Whoever prints a key prints neither
//! secret nor digest.
//!
//! Never judges a credential: `access` compares, over all keys and in constant time.

use crate::model::{Id, KeyIndex, SlotIndex};
use ring::digest::{SHA256, digest};
use std::fmt;

/// A client key as it was loaded from the configuration.
#[derive(Clone, PartialEq, Eq)]
pub struct LoadedKey {
    pub id: Id,
    /// Never empty: an empty secret is an absent one.
    pub secret: Box<[u8]>,
    pub slots: AllowedSlots,
}

/// The slots that a key may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedSlots {
    /// Every one, those of a later configuration included.
    All,
    /// These only, in ascending order.
    Only(Vec<SlotIndex>),
}

/// A client key in use.
pub struct Key {
    pub(super) index: KeyIndex,
    pub(super) digest: [u8; 32],
    pub(super) loaded: LoadedKey,
}

impl Key {
    pub(super) fn new(index: KeyIndex, loaded: LoadedKey) -> Key {
        Key {
            index,
            digest: sha256(&loaded.secret),
            loaded,
        }
    }

    /// Its index in this process.
    pub fn index(&self) -> KeyIndex {
        self.index
    }

    /// Its name in the configuration; what a token's `kid` says.
    pub fn id(&self) -> &Id {
        &self.loaded.id
    }

    /// What tokens are signed with.
    pub fn secret(&self) -> &[u8] {
        &self.loaded.secret
    }

    /// The slots that it may use.
    pub fn slots(&self) -> &AllowedSlots {
        &self.loaded.slots
    }
}

impl fmt::Debug for LoadedKey {
    /// Without the secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LoadedKey")
            .field("id", &self.id)
            .field("slots", &self.slots)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Key {
    /// Without the secret and its digest.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Key")
            .field("index", &self.index)
            .field("loaded", &self.loaded)
            .finish_non_exhaustive()
    }
}

/// What raw keys are compared by.
pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}
