//! The known word that a mistyped one was meant to be.
//!
//! Serves unknown keys and unknown commands. Bounded by the lengths of the words, which both come
//! from one command line or one configuration file.

/// The one of `known` that is closest to `word`, if any is close enough to be worth naming.
///
/// Close enough is a third of the word's letters mistyped, left out or added; case does not count.
pub fn nearest(word: &str, known: &[&'static str]) -> Option<&'static str> {
    let distances = known.iter().map(|name| (distance(word, name), *name));
    let (edits, name) = distances.min_by_key(|(edits, _)| *edits)?;
    let edits_max = name.len().div_ceil(3);
    (edits <= edits_max && edits < name.len()).then_some(name)
}

/// Levenshtein's edit distance over bytes, with one row kept.
fn distance(left: &str, right: &str) -> usize {
    let right = right.as_bytes();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, from) in left.bytes().enumerate() {
        let mut diagonal = index;
        let mut beside = index + 1;
        for (cell, to) in row.iter_mut().skip(1).zip(right) {
            let substituted = diagonal + usize::from(!from.eq_ignore_ascii_case(to));
            diagonal = *cell;
            *cell = substituted.min(diagonal + 1).min(beside + 1);
            beside = *cell;
        }
        if let Some(first) = row.first_mut() {
            *first = index + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_levenshteins() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("Listen", "listen"), 0);
    }

    #[test]
    fn typing_errors_find_their_word_and_strangers_do_not() {
        let known = ["listen", "limits", "log"];
        assert_eq!(nearest("lisen", &known), Some("listen"));
        assert_eq!(nearest("LIMIT", &known), Some("limits"));
        assert_eq!(nearest("zzz", &known), None);
        assert_eq!(nearest("", &known), None);
    }
}
