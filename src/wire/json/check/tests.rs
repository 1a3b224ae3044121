//! Claims about [`check`](super::check()): what it refuses, where it says so, and what its digest
//! does and does not depend on.
//!
//! The property tests generate values from a small seeded generator and print them in two ways:
//! shuffled and spaced one way or another, or with one scalar changed.

use super::*;

const DEPTH_MAX: usize = 16;

/// With a digest and without, in the same words.
fn refused(text: &str) -> JsonError {
    let error = check(text, DEPTH_MAX).unwrap_err();
    assert_eq!(judge(text, DEPTH_MAX), Err(error.clone()));
    error
}

fn digest_of(text: &str) -> Digest {
    assert_eq!(judge(text, DEPTH_MAX), Ok(()));
    check(text, DEPTH_MAX).unwrap()
}

#[test]
fn duplicate_keys_are_refused_with_their_place() {
    let error = refused(r#"{"a": [0, {"b": 1, "c": 2, "\u0062": 3}]}"#);
    assert_eq!(error.path, "$.a[1]");
    assert_eq!(error.problem, JsonProblem::DuplicateKey { key: "b".into() });
    assert_eq!(error.position.map(|(line, _)| line), Some(1));
}

#[test]
fn the_same_key_in_two_objects_is_fine() {
    assert!(check(r#"[{"a":1},{"a":{"a":2}}]"#, DEPTH_MAX).is_ok());
}

#[test]
fn nesting_is_bounded_exactly() {
    let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(check(&nested(DEPTH_MAX), DEPTH_MAX).is_ok());
    let depth_max = DEPTH_MAX;
    let error = refused(&nested(DEPTH_MAX + 1));
    assert_eq!(error.problem, JsonProblem::TooDeep { depth_max });
    assert!(check(&"[".repeat(100_000), DEPTH_MAX).is_err());
    assert!(check(&"{\"a\":".repeat(100_000), DEPTH_MAX).is_err());
}

#[test]
fn numbers_beyond_the_doubles_are_refused() {
    let error = refused(r#"{"a": {"b": 1e999}}"#);
    assert_eq!(error.problem, JsonProblem::NumberTooLarge);
    assert_eq!(error.path, "$.a.b");
    assert!(matches!(refused("NaN").problem, JsonProblem::Syntax { .. }));
}

#[test]
fn a_torn_text_is_told_from_a_wrong_one() {
    let whole = r#"{"a":[1,"two",{"b":null}],"c":1.5e3,"d":true}"#;
    for cut in 1..whole.len() {
        assert_eq!(
            refused(&whole[..cut]).problem,
            JsonProblem::Truncated,
            "{cut}"
        );
    }
    assert_eq!(refused("{} {}").problem, JsonProblem::Trailing);
    let wrong = refused("{\"a\":1,\n\"b\" 2}");
    assert!(matches!(wrong.problem, JsonProblem::Syntax { .. }));
    assert_eq!(wrong.position, Some((2, 5)));
    assert!(
        wrong.to_string().contains("expected `:` at line 2"),
        "{wrong}"
    );
}

#[test]
fn odd_keys_are_quoted_in_paths() {
    assert_eq!(
        refused(r#"{"a b": [{"c.d": tru"#).path,
        r#"$["a b"][0]["c.d"]"#
    );
}

#[test]
fn one_number_has_one_digest() {
    for same in [
        ["1", "1.0"],
        ["100", "1e2"],
        ["0", "-0"],
        ["0.5", "5e-1"],
        ["-3", "-3.0"],
    ] {
        assert_eq!(digest_of(same[0]), digest_of(same[1]), "{same:?}");
    }
    let pairs = [
        ["9007199254740992", "9007199254740993"],
        ["18446744073709551615", "18446744073709551614"],
        ["1", "\"1\""],
        ["0", "null"],
        ["[1,2]", "[2,1]"],
        ["[[1],2]", "[[1,2]]"],
        ["[]", "{}"],
        ["[\"ab\",\"c\"]", "[\"a\",\"bc\"]"],
        [r#"{"a":"b"}"#, r#"{"a":["b"]}"#],
    ];
    for different in pairs {
        assert_ne!(
            digest_of(different[0]),
            digest_of(different[1]),
            "{different:?}"
        );
    }
}

#[test]
fn escapes_do_not_count() {
    assert_eq!(
        digest_of(r#"{"\u0061":"\u00e9\/"}"#),
        digest_of(r#"{"a":"é/"}"#)
    );
}

/// xorshift64*: enough to vary test values, and the same on every machine.
struct Generator(u64);

impl Generator {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }
}

enum Tree {
    Scalar(String),
    Array(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

fn tree(generator: &mut Generator, depth: u64) -> Tree {
    let length = generator.below(5);
    match generator.below(4 + depth) {
        0 => Tree::Scalar(format!("{}", generator.below(1 << 30))),
        1 => Tree::Scalar(format!("\"t{}\"", generator.below(99))),
        2 => Tree::Scalar(["true", "false", "null", "-1.25"][generator.below(4) as usize].into()),
        3 => Tree::Scalar(format!("{}.5", generator.below(1000))),
        choice if choice % 2 == 0 => {
            Tree::Array((0..length).map(|_| tree(generator, depth - 1)).collect())
        }
        _ => Tree::Object(
            (0..length)
                .map(|index| (format!("k{index}"), tree(generator, depth - 1)))
                .collect(),
        ),
    }
}

fn print(tree: &Tree, generator: &mut Generator, out: &mut String) {
    let space = |generator: &mut Generator, out: &mut String| {
        out.push_str(["", " ", "\n\t", "\r\n"][generator.below(4) as usize]);
    };
    space(generator, out);
    match tree {
        Tree::Scalar(text) => out.push_str(text),
        Tree::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                print(item, generator, out);
            }
            out.push(']');
        }
        Tree::Object(members) => {
            out.push('{');
            let mut order: Vec<_> = members.iter().collect();
            for index in (1..order.len()).rev() {
                order.swap(index, generator.below(index as u64 + 1) as usize);
            }
            for (index, (key, value)) in order.into_iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                out.push_str(&format!("\"{key}\":"));
                print(value, generator, out);
            }
            out.push('}');
        }
    }
    space(generator, out);
}

/// Changes the scalar that `countdown` reaches; true once it is done.
fn change(tree: &mut Tree, countdown: &mut u64) -> bool {
    match tree {
        Tree::Scalar(text) if *countdown == 0 => {
            *text = format!("\"changed {}\"", text.replace('"', "'"));
            true
        }
        Tree::Scalar(_) => {
            *countdown -= 1;
            false
        }
        Tree::Array(items) => items.iter_mut().any(|item| change(item, countdown)),
        Tree::Object(members) => members
            .iter_mut()
            .any(|(_, value)| change(value, countdown)),
    }
}

#[test]
fn the_digest_is_the_content_and_nothing_else() {
    let mut scalars = 0;
    for seed in 1..400 {
        let mut generator = Generator(seed * 0x9e37_79b9);
        let mut value = tree(&mut generator, 6);
        let [mut one, mut other] = [String::new(), String::new()];
        print(&value, &mut generator, &mut one);
        print(&value, &mut generator, &mut other);
        let digest = digest_of(&one);
        assert_eq!(digest, digest_of(&other), "seed {seed}:\n{one}\n{other}");
        if change(&mut value, &mut generator.below(6)) {
            scalars += 1;
            let mut changed = String::new();
            print(&value, &mut generator, &mut changed);
            assert_ne!(
                digest,
                digest_of(&changed),
                "seed {seed}:\n{one}\n{changed}"
            );
        }
    }
    assert!(
        scalars > 100,
        "only {scalars} values had a scalar to change"
    );
}

#[test]
fn members_that_are_left_out_are_judged_and_do_not_count() {
    fn is_left_out(path: &[Step<'_>]) -> bool {
        matches!(path, [Step::Key(_), Step::Key(key)] if key == "x")
    }
    let without = |text: &str| check_without(text, 64, is_left_out);
    let plain = check(r#"{"a":{"y":1}}"#, 64);
    assert!(plain.is_ok());
    for same in [
        r#"{"a":{"x":[1,{}],"y":1}}"#,
        r#"{"a":{"y":1,"\u0078":null}}"#,
    ] {
        assert_eq!(without(same), plain, "{same}");
        assert_ne!(check(same, 64), plain, "{same}");
    }
    // One level up or down it counts.
    for other in [r#"{"a":{"y":1},"x":1}"#, r#"{"a":{"y":{"x":1}}}"#] {
        assert_ne!(without(other), plain, "{other}");
    }
    assert!(without(r#"{"a":{"x":1,"x":1,"y":1}}"#).is_err());
    assert!(without(r#"{"a":{"x":1e999,"y":1}}"#).is_err());
}
