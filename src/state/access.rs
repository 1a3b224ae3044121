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

use crate::limits::Limits;
use crate::model::{Id, KeyIndex, Reject, SlotIndex};
use crate::time::{Duration, Instant};
use ring::digest::{SHA256, digest};
use std::collections::{HashMap, VecDeque};
use std::fmt;
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
    index: KeyIndex,
    digest: [u8; 32],
    loaded: LoadedKey,
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

impl Key {
    fn new(index: KeyIndex, loaded: LoadedKey) -> Key {
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

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens of a form of their own, `<key id>|<secret>|<anything>`: this room does not know the
    /// real one, and the stand-in shows that it does not need to.
    const FORM: TokenForm = TokenForm {
        key_id: |token| Id::new(token.split('|').next()?),
        is_signed_by: |token, secret| token.split('|').nth(1).map(str::as_bytes) == Some(secret),
    };

    fn key(id: &str, secret: &str) -> LoadedKey {
        LoadedKey {
            id: Id::new(id).unwrap(),
            secret: secret.as_bytes().into(),
            slots: AllowedSlots::All,
        }
    }

    fn only(id: &str, secret: &str, slots: &[u16]) -> LoadedKey {
        LoadedKey {
            slots: AllowedSlots::Only(slots.iter().map(|&slot| SlotIndex(slot)).collect()),
            ..key(id, secret)
        }
    }

    fn access(limits: &Limits, keys: &[LoadedKey]) -> Access {
        let mut access = Access::new(FORM, limits);
        assert!(access.replace(keys.to_vec(), 0).is_empty());
        access
    }

    fn two_keys() -> Access {
        access(
            &Limits::PRODUCTION,
            &[key("one", "alpha"), key("two", "beta")],
        )
    }

    #[test]
    fn every_form_of_a_credential_is_taken() {
        let mut access = two_keys();
        for (authorization, index) in [
            ("alpha", 0),
            ("beta", 1),
            ("Bearer alpha", 0),
            ("bearer beta", 1),
            ("BEARER  beta", 1),
            ("Bearer one|alpha|x", 0),
            ("Bearer two|beta|x", 1),
        ] {
            assert_eq!(
                access.check(authorization),
                Ok(KeyIndex(index)),
                "{authorization}"
            );
        }
    }

    #[test]
    fn everything_else_is_a_wrong_key() {
        let mut access = two_keys();
        let long = "a".repeat(Limits::PRODUCTION.credential_bytes_max + 1);
        for authorization in [
            "",
            " ",
            "Bearer",
            "Bearer ",
            "alph",
            "alphaa",
            "ALPHA",
            "alpha ",
            " alpha",
            "Basic alpha",
            "Bearer alpha beta",
            "Bearer one|beta|x",
            "Bearer two|alpha|x",
            "Bearer three|alpha|x",
            // A token without its scheme is nothing that any SDK sends.
            "one|alpha|x",
            long.as_str(),
        ] {
            assert_eq!(
                access.check(authorization),
                Err(Reject::WrongKey),
                "{authorization:?}"
            );
        }
        assert_eq!(access.tokens_remembered(), 0);
    }

    #[test]
    fn nobody_gets_in_without_keys() {
        let mut access = access(&Limits::PRODUCTION, &[]);
        assert_eq!(access.check(""), Err(Reject::WrongKey));
        assert_eq!(access.check("Bearer x"), Err(Reject::WrongKey));
        assert_eq!(
            access.exchange("x", Instant::ORIGIN).map(Key::index),
            Err(Reject::WrongKey)
        );
    }

    #[test]
    fn an_empty_secret_opens_nothing() {
        let mut access = access(&Limits::PRODUCTION, &[key("one", "")]);
        for authorization in ["", " ", "Bearer", "Bearer "] {
            assert_eq!(
                access.check(authorization),
                Err(Reject::WrongKey),
                "{authorization:?}"
            );
        }
    }

    #[test]
    fn an_unknown_key_is_not_wrong_while_one_is_unreadable() {
        let mut access = two_keys();
        access.replace(vec![key("one", "alpha")], 1);
        assert_eq!(access.check("alpha"), Ok(KeyIndex(0)));
        assert_eq!(access.check("beta"), Err(Reject::KeysUnreadable));
        assert_eq!(
            access.check("Bearer two|beta|x"),
            Err(Reject::KeysUnreadable)
        );
        assert_eq!(
            access.check(""),
            Err(Reject::WrongKey),
            "no key at all is no key of ours"
        );
        for _ in 0..100 {
            let answer = access.exchange("beta", Instant::ORIGIN).map(Key::index);
            assert_eq!(answer, Err(Reject::KeysUnreadable));
        }
        assert!(
            !access.is_throttled(Instant::ORIGIN),
            "none of these was a wrong key"
        );
        access.replace(vec![key("one", "alpha")], 0);
        assert_eq!(access.check("beta"), Err(Reject::WrongKey));
    }

    #[test]
    fn a_token_over_its_bound_is_not_even_read() {
        let limits = Limits {
            token_bytes_max: 12,
            ..Limits::PRODUCTION
        };
        let mut access = access(&limits, &[key("one", "alpha")]);
        assert_eq!(access.check("Bearer one|alpha|xx"), Ok(KeyIndex(0)));
        assert_eq!(access.check("Bearer one|alpha|xxx"), Err(Reject::WrongKey));
    }

    #[test]
    fn only_verified_tokens_are_remembered_and_once_each() {
        let mut access = two_keys();
        for number in 0..5_000 {
            let forged = format!("Bearer one|wrong|{number}");
            assert_eq!(access.check(&forged), Err(Reject::WrongKey));
            assert_eq!(access.check("Bearer one|alpha|x"), Ok(KeyIndex(0)));
            assert_eq!(access.check("Bearer alpha"), Ok(KeyIndex(0)));
        }
        assert_eq!(access.tokens_remembered(), 1);
    }

    #[test]
    fn a_remembered_token_is_not_verified_again() {
        let form = TokenForm {
            is_signed_by: |_, _| panic!("verified again"),
            ..FORM
        };
        let mut access = two_keys();
        assert_eq!(access.check("Bearer one|alpha|x"), Ok(KeyIndex(0)));
        access.form = form;
        assert_eq!(access.check("Bearer one|alpha|x"), Ok(KeyIndex(0)));
    }

    #[test]
    fn the_oldest_token_makes_room() {
        let limits = Limits {
            tokens_max: 3,
            ..Limits::PRODUCTION
        };
        let mut access = access(&limits, &[key("one", "alpha")]);
        for number in 0..10 {
            assert!(access.check(&format!("Bearer one|alpha|{number}")).is_ok());
        }
        assert_eq!(access.tokens_remembered(), 3);
        let kept: Vec<&str> = access.order.iter().map(|token| &**token).collect();
        assert_eq!(kept, ["one|alpha|7", "one|alpha|8", "one|alpha|9"]);
        assert!(
            access.check("Bearer one|alpha|0").is_ok(),
            "forgotten is not refused"
        );
    }

    #[test]
    fn a_memory_of_no_tokens_still_lets_them_in() {
        let limits = Limits {
            tokens_max: 0,
            ..Limits::PRODUCTION
        };
        let mut access = access(&limits, &[key("one", "alpha")]);
        assert!(access.check("Bearer one|alpha|x").is_ok());
        assert_eq!(access.tokens_remembered(), 0);
    }

    #[test]
    fn a_removed_key_loses_its_tokens_and_leaves_the_others_alone() {
        let mut access = two_keys();
        assert!(access.check("Bearer one|alpha|x").is_ok());
        assert!(access.check("Bearer two|beta|x").is_ok());
        assert_eq!(access.replace(vec![key("two", "beta")], 0), [KeyIndex(0)]);
        assert_eq!(access.check("Bearer one|alpha|x"), Err(Reject::WrongKey));
        assert_eq!(access.check("alpha"), Err(Reject::WrongKey));
        assert_eq!(access.check("Bearer two|beta|x"), Ok(KeyIndex(1)));
        assert_eq!(access.tokens_remembered(), 1);
        assert_eq!(
            access.may_use(KeyIndex(0), SlotIndex(0)),
            Err(Reject::WrongKey)
        );
    }

    #[test]
    fn old_and_new_secret_work_while_both_are_configured() {
        let mut access = access(&Limits::PRODUCTION, &[key("old", "alpha")]);
        assert!(
            access
                .replace(vec![key("new", "gamma"), key("old", "alpha")], 0)
                .is_empty()
        );
        assert_eq!(access.check("Bearer old|alpha|x"), Ok(KeyIndex(0)));
        assert_eq!(access.check("Bearer new|gamma|x"), Ok(KeyIndex(1)));
        assert_eq!(access.replace(vec![key("new", "gamma")], 0), [KeyIndex(0)]);
        assert_eq!(access.check("Bearer new|gamma|x"), Ok(KeyIndex(1)));
        assert_eq!(access.check("Bearer old|alpha|x"), Err(Reject::WrongKey));
    }

    #[test]
    fn an_index_is_never_used_twice() {
        let mut access = two_keys();
        assert_eq!(
            access.replace(vec![key("one", "alpha"), key("two", "gamma")], 0),
            [KeyIndex(1)]
        );
        assert_eq!(access.check("gamma"), Ok(KeyIndex(2)));
        assert_eq!(access.replace(Vec::new(), 0), [KeyIndex(0), KeyIndex(2)]);
        assert!(access.replace(vec![key("one", "alpha")], 0).is_empty());
        assert_eq!(access.check("alpha"), Ok(KeyIndex(3)));
        let ids: Vec<&str> = access.keys().iter().map(|key| key.id().as_str()).collect();
        assert_eq!(ids, ["one"]);
    }

    #[test]
    fn a_key_may_use_its_slots_and_no_other() {
        let mut access = access(
            &Limits::PRODUCTION,
            &[
                key("all", "a"),
                only("some", "s", &[1, 4, 9]),
                only("none", "n", &[]),
            ],
        );
        let denied = Err(Reject::SlotNotAllowed);
        for (index, slot, answer) in [
            (0, 0, Ok(())),
            (0, 255, Ok(())),
            (1, 1, Ok(())),
            (1, 9, Ok(())),
            (1, 0, denied),
            (1, 5, denied),
            (2, 0, denied),
            (3, 0, Err(Reject::WrongKey)),
        ] {
            assert_eq!(
                access.may_use(KeyIndex(index), SlotIndex(slot)),
                answer,
                "{index} {slot}"
            );
        }
        // A key that stays is held to its new slots at once.
        assert!(access.replace(vec![key("some", "s"), only("all", "a", &[2])], 0) == [KeyIndex(2)]);
        assert_eq!(access.may_use(KeyIndex(1), SlotIndex(5)), Ok(()));
        assert_eq!(access.may_use(KeyIndex(0), SlotIndex(0)), denied);
    }

    #[test]
    fn wrong_keys_are_throttled_for_a_window_and_right_ones_never() {
        let limits = Limits {
            wrong_keys_max: 3,
            wrong_keys_window: Duration::from_secs(10),
            ..Limits::PRODUCTION
        };
        let mut access = access(&limits, &[key("one", "alpha")]);
        let start = Instant::from_micros(5_000_000);
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut exchange = |key: &str, ms: u64| access.exchange(key, at(ms)).map(Key::index);
        for ms in [0, 10, 20] {
            assert_eq!(exchange("wrong", ms), Err(Reject::WrongKey), "at {ms} ms");
        }
        for ms in [30, 5_000, 9_999] {
            assert_eq!(exchange("wrong", ms), Err(Reject::Throttled), "at {ms} ms");
            assert_eq!(exchange("alpha", ms), Ok(KeyIndex(0)), "at {ms} ms");
        }
        assert_eq!(
            exchange("wrong", 10_000),
            Err(Reject::WrongKey),
            "a new window"
        );
        assert!(!access.is_throttled(at(10_000)));
    }

    #[test]
    fn a_few_wrong_keys_now_and_then_are_not_throttled() {
        let limits = Limits {
            wrong_keys_max: 3,
            wrong_keys_window: Duration::from_secs(10),
            ..Limits::PRODUCTION
        };
        let mut access = access(&limits, &[key("one", "alpha")]);
        for step in 0..100 {
            let now = Instant::ORIGIN + Duration::from_secs(5 * step);
            let answer = access.exchange("wrong", now).map(Key::index);
            assert_eq!(answer, Err(Reject::WrongKey), "step {step}");
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        let access = two_keys();
        let printed = format!("{:?} {:?}", access.keys(), key("one", "alpha"));
        let number = format!("{}", b'a');
        assert!(
            printed.contains("one") && !printed.contains("alpha"),
            "{printed}"
        );
        assert!(!printed.contains(&number), "{printed}");
    }

    /// Random keys come and go; the table must agree with a list that knows nothing of speed.
    #[test]
    fn the_table_agrees_with_a_plain_list() {
        let limits = Limits {
            tokens_max: 4,
            ..Limits::PRODUCTION
        };
        let mut access = Access::new(FORM, &limits);
        let mut shadow: Vec<(u64, KeyIndex)> = Vec::new();
        let mut used: Vec<KeyIndex> = Vec::new();
        let mut seed: u64 = 0xacce55;
        for _ in 0..300 {
            let names: Vec<u64> = (0..12)
                .filter(|_| next(&mut seed).is_multiple_of(2))
                .collect();
            let loaded = names
                .iter()
                .map(|name| key(&format!("k{name}"), &format!("s{name}")));
            let gone = access.replace(loaded.collect(), 0);
            let removed = shadow.iter().filter(|(name, _)| !names.contains(name));
            assert_eq!(gone, removed.map(|&(_, index)| index).collect::<Vec<_>>());
            shadow.retain(|(name, _)| names.contains(name));
            for name in 0..12 {
                let token = format!("Bearer k{name}|s{name}|{}", next(&mut seed) % 3);
                let answer = access.check(&token);
                assert_eq!(
                    access.check(&format!("s{name}")),
                    answer,
                    "both forms agree"
                );
                let known = shadow.iter().find(|(other, _)| *other == name);
                match (known, answer) {
                    (Some((_, index)), answer) => assert_eq!(answer, Ok(*index)),
                    (None, Err(reject)) => {
                        assert!(!names.contains(&name) && reject == Reject::WrongKey);
                    }
                    (None, Ok(index)) => {
                        assert!(names.contains(&name) && !used.contains(&index));
                        used.push(index);
                        shadow.push((name, index));
                    }
                }
            }
            shadow.sort_by_key(|&(_, index)| index);
            assert!(access.tokens_remembered() <= 4);
        }
        assert!(used.len() > 500, "keys came and went: {}", used.len());
    }

    /// One step of xorshift64*, a generator that needs nothing but its seed.
    fn next(seed: &mut u64) -> u64 {
        *seed ^= *seed >> 12;
        *seed ^= *seed << 25;
        *seed ^= *seed >> 27;
        seed.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }
}
