//! Whose credential is taken, what is remembered of it, and who is kept waiting.

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
