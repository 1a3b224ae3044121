//! Who may ask: the client keys, the tokens that were seen to be theirs, and the slots of each.
//!
//! Owns the table of loaded keys, the bounded memory of verified tokens, and the count of wrong
//! keys. It reads no file (keys come in loaded) and knows no token format (the two functions of
//! [`TokenForm`] come in from outside).
//!
//! Why so careful with 401: IBM's server SDKs stop for good on one. So a credential is called wrong
//! only while every configured key is loaded; while one is unreadable, an unknown credential may be
//! that key's, and the answer is one that passes.
//!
//! Why a right key is never throttled: the limit is one for all clients, and some SDKs do not come
//! back from a refused token. If wrong keys could use it up, one mistyped key would lock everybody
//! out. It paces the answers to wrong keys and nothing else.
//!
//! Invariants: a [`KeyIndex`] is never used twice; a remembered token belongs to a loaded key;
//! only a credential that was verified is remembered, so whoever has no key cannot fill the
//! memory. Raw keys are compared in constant time, over their digests (lengths do not show) and
//! over all keys.

mod key;
#[cfg(test)]
mod tests;

pub use key::{AllowedSlots, Key, LoadedKey};

use crate::limits::Limits;
use crate::model::{Id, KeyIndex, Reject, SlotIndex};
use crate::time::{Duration, Instant};
use key::sha256;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use subtle::{ConditionallySelectable, ConstantTimeEq};

/// How tokens are read; `wire::iam` has both functions.
#[derive(Clone, Copy)]
pub struct TokenForm {
    /// The key that a token claims to come from, unverified.
    pub key_id: fn(&str) -> Option<Id>,
    /// Whether a token was signed with a secret; constant time.
    pub is_signed_by: fn(&str, &[u8]) -> bool,
}

/// The access table. Feed it keys with [`Access::replace`]; ask it with [`Access::check`] and
/// [`Access::may_use`], and on the token path with [`Access::exchange`].
pub struct Access {
    form: TokenForm,
    /// In ascending order of their index. At most `keys_max`, which the configuration holds.
    keys: Vec<Key>,
    next_index: u32,
    unreadable: usize,
    /// Verified tokens and whose they are; `order` has the same ones, oldest first.
    tokens: HashMap<Rc<str>, KeyIndex>,
    order: VecDeque<Rc<str>>,
    wrong_keys: WrongKeys,
    tokens_max: usize,
    token_bytes_max: usize,
    credential_bytes_max: usize,
}

impl Access {
    /// A table without keys, which lets nobody in.
    pub fn new(form: TokenForm, limits: &Limits) -> Access {
        Access {
            form,
            keys: Vec::new(),
            next_index: 0,
            unreadable: 0,
            tokens: HashMap::new(),
            order: VecDeque::new(),
            wrong_keys: WrongKeys::new(limits),
            tokens_max: limits.tokens_max,
            token_bytes_max: limits.token_bytes_max,
            credential_bytes_max: limits.credential_bytes_max,
        }
    }

    /// Takes the keys of a (re)loaded configuration, `unreadable` of whose keys could not be read.
    ///
    /// A key with the id and secret of a present one keeps its index; its slots may have changed,
    /// so open streams must be asked about again with [`Access::may_use`]. Answers the indices
    /// that are gone: their streams end, and their tokens are forgotten here. Bounded by the
    /// numbers of keys and of remembered tokens.
    pub fn replace(&mut self, loaded: Vec<LoadedKey>, unreadable: usize) -> Vec<KeyIndex> {
        let mut gone = std::mem::take(&mut self.keys);
        for loaded in loaded {
            let same = gone
                .iter()
                .position(|key| key.loaded.id == loaded.id && key.loaded.secret == loaded.secret);
            let index = match same {
                Some(position) => gone.remove(position).index,
                None => self.unused_index(),
            };
            self.keys.push(Key::new(index, loaded));
        }
        self.keys.sort_by_key(|key| key.index);
        self.unreadable = unreadable;
        let gone: Vec<KeyIndex> = gone.into_iter().map(|key| key.index).collect();
        self.tokens.retain(|_, key| !gone.contains(key));
        self.order.retain(|token| self.tokens.contains_key(token));
        self.check_invariants();
        gone
    }

    /// Whose credential `authorization` is: the value of the header, empty when there is none.
    ///
    /// Takes `Bearer <token>`, `Bearer <client key>` and the bare client key that browsers send. A
    /// token that was seen before costs one look into a hash map. Refuses with `WrongKey` or
    /// `KeysUnreadable`. Bounded by `keys_max` and `credential_bytes_max`.
    pub fn check(&mut self, authorization: &str) -> Result<KeyIndex, Reject> {
        let bearer = bearer(authorization);
        if let Some(&index) = bearer.and_then(|token| self.tokens.get(token)) {
            return Ok(index);
        }
        let credential = bearer.unwrap_or(authorization);
        if let Some(key) = self.key_of(credential) {
            return Ok(key.index);
        }
        if let Some(token) = bearer
            && let Some(index) = self.signer_of(token)
        {
            self.remember(token, index);
            return Ok(index);
        }
        Err(self.refusal(credential))
    }

    /// The key whose secret is `api_key`, for the token path.
    ///
    /// Refuses with `WrongKey`, with `Throttled` once there were too many of those, or with
    /// `KeysUnreadable`. A right key is served even then (see above). Bounded by `keys_max` and
    /// `credential_bytes_max`.
    pub fn exchange(&mut self, api_key: &str, now: Instant) -> Result<&Key, Reject> {
        match self.key_of(api_key).map(|key| key.index) {
            Some(index) => self.key(index).ok_or(Reject::WrongKey),
            None => match self.refusal(api_key) {
                Reject::WrongKey if self.wrong_keys.is_over(now) => Err(Reject::Throttled),
                Reject::WrongKey => {
                    self.wrong_keys.handle_wrong_key(now);
                    Err(Reject::WrongKey)
                }
                other => Err(other),
            },
        }
    }

    /// Whether the next wrong key on the token path is answered with `Throttled`.
    pub fn is_throttled(&self, now: Instant) -> bool {
        self.wrong_keys.is_over(now)
    }

    /// Whether the key may use the slot: `SlotNotAllowed` if not, `WrongKey` if the key is gone.
    pub fn may_use(&self, key: KeyIndex, slot: SlotIndex) -> Result<(), Reject> {
        match self.key(key).map(|key| &key.loaded.slots) {
            Some(AllowedSlots::All) => Ok(()),
            Some(AllowedSlots::Only(slots)) if slots.binary_search(&slot).is_ok() => Ok(()),
            Some(AllowedSlots::Only(_)) => Err(Reject::SlotNotAllowed),
            None => Err(Reject::WrongKey),
        }
    }

    /// The key of that index, unless it is gone.
    pub fn key(&self, index: KeyIndex) -> Option<&Key> {
        let position = self
            .keys
            .binary_search_by_key(&index, |key| key.index)
            .ok()?;
        self.keys.get(position)
    }

    /// The loaded keys, in ascending order of their index.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// How many configured keys could not be read.
    pub fn unreadable(&self) -> usize {
        self.unreadable
    }

    /// How many verified tokens are remembered.
    pub fn tokens_remembered(&self) -> usize {
        self.tokens.len()
    }

    fn unused_index(&mut self) -> KeyIndex {
        let index = KeyIndex(self.next_index);
        // Four billion keys in one process's life; at the end the last index would be shared.
        self.next_index = self.next_index.saturating_add(1);
        index
    }

    /// The key whose secret is `credential`. Looks at all of them, whatever it finds.
    fn key_of(&self, credential: &str) -> Option<&Key> {
        if credential.is_empty() || credential.len() > self.credential_bytes_max {
            return None;
        }
        let credential = sha256(credential.as_bytes());
        let nobody = u32::MAX;
        let mut found = nobody;
        for (position, key) in (0..nobody).zip(&self.keys) {
            let equal = key.digest.as_slice().ct_eq(credential.as_slice());
            found.conditional_assign(&position, equal);
        }
        self.keys.get(usize::try_from(found).ok()?)
    }

    /// The key that `token` names and is signed by.
    fn signer_of(&self, token: &str) -> Option<KeyIndex> {
        if token.len() > self.token_bytes_max {
            return None;
        }
        let id = (self.form.key_id)(token)?;
        self.keys
            .iter()
            .filter(|key| key.loaded.id == id)
            .find(|key| (self.form.is_signed_by)(token, &key.loaded.secret))
            .map(|key| key.index)
    }

    fn remember(&mut self, token: &str, index: KeyIndex) {
        if self.tokens_max == 0 {
            return;
        }
        if self.order.len() >= self.tokens_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.tokens.remove(&oldest);
        }
        let token: Rc<str> = token.into();
        self.tokens.insert(Rc::clone(&token), index);
        self.order.push_back(token);
        self.check_invariants();
    }

    fn refusal(&self, credential: &str) -> Reject {
        if self.unreadable > 0 && !credential.is_empty() {
            Reject::KeysUnreadable
        } else {
            Reject::WrongKey
        }
    }

    fn check_invariants(&self) {
        debug_assert_eq!(self.tokens.len(), self.order.len());
        debug_assert!(self.order.len() <= self.tokens_max);
        debug_assert!(self.keys.is_sorted_by_key(|key| key.index));
    }
}

/// Counts wrong keys in windows that begin with the first one.
struct WrongKeys {
    since: Instant,
    count: u32,
    count_max: u32,
    window: Duration,
}

impl WrongKeys {
    fn new(limits: &Limits) -> WrongKeys {
        WrongKeys {
            since: Instant::ORIGIN,
            count: 0,
            count_max: limits.wrong_keys_max,
            window: limits.wrong_keys_window,
        }
    }

    fn handle_wrong_key(&mut self, now: Instant) {
        if self.count == 0 || now.since(self.since) >= self.window {
            self.since = now;
            self.count = 0;
        }
        self.count = self.count.saturating_add(1);
    }

    fn is_over(&self, now: Instant) -> bool {
        self.count >= self.count_max && now.since(self.since) < self.window
    }
}

/// What follows the scheme `Bearer`, which is written in any case.
fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, credential) = authorization.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("Bearer")
        .then(|| credential.trim_start_matches(' '))
}
