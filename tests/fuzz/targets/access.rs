//! Client keys and tokens, beside a list that is asked naively.
//!
//! Claims: whose credential it is, is what the list says, before and after every reload; an index
//! is never used twice, and one that is gone opens nothing; the memory of tokens is bounded; a
//! right key is served however many wrong ones came, and wrong ones are throttled by the window.

use super::entropy::Entropy;
use staffetta::limits::Limits;
use staffetta::model::{Id, KeyIndex, Reject, SlotIndex};
use staffetta::state::access::{Access, AllowedSlots, LoadedKey, TokenForm};
use staffetta::time::{Duration, Instant};
use std::collections::BTreeSet;

const IDS: [&str; 3] = ["a", "b", "c"];
const SECRETS: [&str; 4] = ["one", "two", "three", "a.one"];
const TOKENS_MAX: usize = 3;
const WRONG_KEYS_MAX: u32 = 3;
const WINDOW: Duration = Duration::from_secs(10);

/// A token is `id.secret` with anything behind a second dot.
const FORM: TokenForm = TokenForm {
    key_id: |token| Id::new(token.split_once('.')?.0),
    is_signed_by: |token, secret| {
        let rest = token.split_once('.').map_or("", |(_, rest)| rest);
        rest.split('.').next().map(str::as_bytes) == Some(secret)
    },
};

struct World {
    access: Access,
    /// Index, id, secret, slots.
    keys: Vec<(KeyIndex, usize, usize, AllowedSlots)>,
    unreadable: usize,
    seen: BTreeSet<KeyIndex>,
    /// When the window of wrong keys began, and how many there were in it.
    wrong: Option<(Instant, u32)>,
    now: Instant,
}

pub fn access(input: &[u8]) {
    let mut entropy = Entropy::new(input);
    let limits = Limits {
        tokens_max: TOKENS_MAX,
        wrong_keys_max: WRONG_KEYS_MAX,
        wrong_keys_window: WINDOW,
        credential_bytes_max: 16,
        token_bytes_max: 12,
        ..Limits::PRODUCTION
    };
    let mut world = World {
        access: Access::new(FORM, &limits),
        keys: Vec::new(),
        unreadable: 0,
        seen: BTreeSet::new(),
        wrong: None,
        now: Instant::from_micros(5),
    };
    while !entropy.is_empty() {
        match entropy.below(6) {
            0 => world.reload(&mut entropy),
            1..=3 => world.ask(&mut entropy),
            4 => world.exchange(&mut entropy),
            _ => world.now = world.now + Duration::from_secs(entropy.below(8) as u64),
        }
        assert!(world.access.tokens_remembered() <= TOKENS_MAX);
        assert_eq!(world.access.keys().len(), world.keys.len());
        world.slots_agree();
    }
}

impl World {
    fn reload(&mut self, entropy: &mut Entropy) {
        let mut loaded: Vec<(usize, usize, AllowedSlots)> = Vec::new();
        for _ in 0..entropy.below(4) {
            let (id, secret) = (entropy.below(IDS.len()), entropy.below(SECRETS.len()));
            // The configuration refuses an id that stands twice.
            if loaded.iter().all(|(other, ..)| *other != id) {
                let slots = match entropy.below(3) {
                    0 => AllowedSlots::All,
                    1 => AllowedSlots::Only(vec![SlotIndex(0), SlotIndex(2)]),
                    _ => AllowedSlots::Only(Vec::new()),
                };
                loaded.push((id, secret, slots));
            }
        }
        self.unreadable = entropy.below(4) / 3;
        let keys = loaded.iter().map(|(id, secret, slots)| LoadedKey {
            id: Id::new(IDS[*id]).expect("an id"),
            secret: SECRETS[*secret].as_bytes().into(),
            slots: slots.clone(),
        });
        let gone = self.access.replace(keys.collect(), self.unreadable);
        let stays = |id, secret| loaded.iter().any(|(i, s, _)| (*i, *s) == (id, secret));
        let left = self
            .keys
            .iter()
            .filter(|(_, id, secret, _)| !stays(*id, *secret));
        let left: BTreeSet<KeyIndex> = left.map(|(index, ..)| *index).collect();
        assert_eq!(BTreeSet::from_iter(gone.iter().copied()), left);
        for index in gone {
            assert!(self.access.key(index).is_none());
            assert_eq!(
                self.access.may_use(index, SlotIndex(0)),
                Err(Reject::WrongKey)
            );
        }
        let before = std::mem::take(&mut self.keys);
        for (id, secret, slots) in loaded {
            let same = before.iter().find(|(_, i, s, _)| (*i, *s) == (id, secret));
            let has = |key: &&staffetta::state::access::Key| {
                key.id().as_str() == IDS[id] && key.secret() == SECRETS[secret].as_bytes()
            };
            let index = self
                .access
                .keys()
                .iter()
                .find(has)
                .expect("it was loaded")
                .index();
            match same {
                Some((before, ..)) => assert_eq!(index, *before, "the index stays"),
                None => assert!(self.seen.insert(index), "an index used twice"),
            }
            self.keys.push((index, id, secret, slots));
        }
    }

    /// The keys that a credential may be: two may have one secret.
    fn owners(&self, credential: &str, is_bearer: bool) -> Vec<KeyIndex> {
        let owns = |(_, id, secret, _): &&(KeyIndex, usize, usize, AllowedSlots)| {
            let token = format!("{}.{}", IDS[*id], SECRETS[*secret]);
            let is_token = credential == token || credential.starts_with(&format!("{token}."));
            let fits = credential.len() <= 12 && !SECRETS[*secret].contains('.');
            credential == SECRETS[*secret] || is_bearer && is_token && fits
        };
        self.keys
            .iter()
            .filter(owns)
            .map(|(index, ..)| *index)
            .collect()
    }

    fn refusal(&self, credential: &str) -> Reject {
        match self.unreadable > 0 && !credential.is_empty() {
            true => Reject::KeysUnreadable,
            false => Reject::WrongKey,
        }
    }

    fn ask(&mut self, entropy: &mut Entropy) {
        let (id, secret) = (
            IDS[entropy.below(IDS.len())],
            SECRETS[entropy.below(SECRETS.len())],
        );
        let credential = match entropy.below(6) {
            0 => secret.to_owned(),
            1 | 2 => format!("{id}.{secret}"),
            3 => format!("{id}.{secret}.{}", entropy.below(9)),
            4 => format!("{id}.{secret}.{}", "x".repeat(entropy.below(20))),
            _ => String::new(),
        };
        let schemes = ["", "Bearer ", "bearer   ", "Basic "];
        let scheme = schemes[entropy.below(schemes.len())];
        let found = self.access.check(&format!("{scheme}{credential}"));
        let owners = match scheme {
            "Basic " => Vec::new(),
            _ => self.owners(&credential, !scheme.is_empty()),
        };
        let credential = if scheme == "Basic " {
            "Basic"
        } else {
            &credential
        };
        match found {
            Ok(index) => assert!(owners.contains(&index), "{scheme}{credential}: {owners:?}"),
            Err(reject) => {
                assert!(owners.is_empty(), "{scheme}{credential} was refused");
                assert_eq!(reject, self.refusal(credential));
            }
        }
    }

    fn exchange(&mut self, entropy: &mut Entropy) {
        let secret = match entropy.below(SECRETS.len() + 2) {
            at if at < SECRETS.len() => SECRETS[at],
            at if at == SECRETS.len() => "",
            _ => "wrong",
        };
        let owners = self.owners(secret, false);
        let is_over = self
            .wrong
            .is_some_and(|(since, count)| count >= WRONG_KEYS_MAX && self.now - since < WINDOW);
        assert_eq!(self.access.is_throttled(self.now), is_over);
        let found = self
            .access
            .exchange(secret, self.now)
            .map(|key| key.index());
        match found {
            Ok(index) => return assert!(owners.contains(&index)),
            Err(Reject::Throttled) => assert!(is_over),
            Err(Reject::WrongKey) => {
                assert!(!is_over && self.refusal(secret) == Reject::WrongKey);
                let current = self.wrong.filter(|(since, _)| self.now - *since < WINDOW);
                self.wrong = Some(match current {
                    Some((since, count)) => (since, count + 1),
                    None => (self.now, 1),
                });
            }
            Err(other) => assert_eq!(other, self.refusal(secret)),
        }
        assert!(owners.is_empty(), "a right key was refused");
    }

    fn slots_agree(&self) {
        for (index, _, _, slots) in &self.keys {
            for slot in [SlotIndex(0), SlotIndex(1), SlotIndex(2)] {
                let allowed = match slots {
                    AllowedSlots::All => true,
                    AllowedSlots::Only(list) => list.contains(&slot),
                };
                let expected = if allowed {
                    Ok(())
                } else {
                    Err(Reject::SlotNotAllowed)
                };
                assert_eq!(self.access.may_use(*index, slot), expected);
            }
        }
    }
}
