//! JSON texts and their digest.
//!
//! Claims: a text is let through exactly when the parser reads it, no key stands twice and it is
//! not too deep; however its content is written, with blanks or without, the digest is the same;
//! any other content has another.

use super::entropy::Entropy;
use super::tree::Tree;
use staffetta::wire::json;

pub const WORDS: &[&str] = &[
    "{}",
    "[]",
    "null",
    "true",
    "\"a\":",
    "\"a\":1,\"a\":2",
    "\"\\ud83d\\ude00\"",
    "\"\\ud83d\"",
    "[[[[[[[]]]]]]]",
    "{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{}}}}}}}",
    ",",
    ":",
    "\r\n",
    "\n",
];

pub fn digest(input: &[u8]) {
    let text = match json::text(input) {
        Ok(text) => text,
        Err(error) => {
            let message = error.to_string();
            assert!(!message.contains('\n'), "{message:?}");
            // White space only, or no text: nothing for any parser.
            let plain = std::str::from_utf8(input).ok();
            assert!(plain.and_then(Tree::parse).is_none());
            return;
        }
    };
    let tree = Tree::parse(text);
    for depth_max in [6, 64] {
        let is_good = tree.as_ref().is_some_and(|tree| {
            let depth = tree.depth();
            !tree.has_duplicate() && depth <= depth_max
        });
        let found = json::check(text, depth_max);
        assert_eq!(found.is_ok(), is_good, "{found:?}: {text:?}");
        let judged = json::judge(text, depth_max);
        assert_eq!(judged, found.as_ref().map(|_| ()).map_err(Clone::clone));
        if let Err(error) = found {
            assert!(error.path.starts_with('$'), "{error:?}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
    let (Some(mut tree), Ok(digest)) = (tree, json::check(text, 64)) else {
        return;
    };
    let compact = json::compact(text);
    assert_eq!(
        json::check(&compact, 64),
        Ok(digest),
        "without blanks: {compact:?}"
    );
    assert_eq!(json::compact(&compact), compact);
    let mut entropy = Entropy::new(input);
    let mut again = String::new();
    tree.write(&mut entropy, &mut again);
    let exact = tree.is_exact();
    let found = json::check(&again, 64).expect("the same content");
    assert!(!exact || found == digest, "written as {again:?}");
    let mut place = input.iter().map(|byte| usize::from(*byte)).sum::<usize>() % 16;
    if exact && tree.change(&mut place) {
        let mut other = String::new();
        tree.write(&mut entropy, &mut other);
        let found = json::check(&other, 64).expect("other content");
        assert_ne!(found, digest, "the digest of {other:?}");
    }
}
