//! Upper case, one character in and one out, as .NET's `ToUpperInvariant` has it.
//!
//! Owns when two names are the same but for the case of their letters: ids of clusters, routes and
//! destinations, and the text that an affinity cookie is the hash of. The rule is Unicode's simple
//! mapping without the dotless i, as .NET 8 with Unicode 15 has it; the whole table is under
//! `tests/affinity`. No normalisation, no locale.
//!
//! One character depends on how a .NET host was built: U+017F, the long s. [`LONG_S`] is refused
//! in ids for that.

/// `S` on a host with Unicode tables, itself on one that was built without.
pub const LONG_S: char = '\u{17f}';

/// Pairs that Unicode got after version 15: .NET 8 leaves their small letters alone.
const NEWER: [(char, char); 10] = [
    ('\u{19b}', '\u{19b}'),
    ('\u{264}', '\u{264}'),
    ('\u{1c8a}', '\u{1c8a}'),
    ('\u{a7cd}', '\u{a7cd}'),
    ('\u{a7cf}', '\u{a7cf}'),
    ('\u{a7d3}', '\u{a7d3}'),
    ('\u{a7d5}', '\u{a7d5}'),
    ('\u{a7db}', '\u{a7db}'),
    ('\u{10d70}', '\u{10d85}'),
    ('\u{16ebb}', '\u{16ed3}'),
];

/// The one character that stands for `letter` in upper case. Bounded by O(1).
pub fn upper(letter: char) -> char {
    if letter.is_ascii() {
        return letter.to_ascii_uppercase();
    }
    let is_newer = NEWER
        .iter()
        .any(|(from, to)| (*from..=*to).contains(&letter));
    if letter == '\u{131}' || is_newer {
        return letter;
    }
    let simple = match letter {
        // The full mapping writes the iota apart; the simple one is the title case.
        '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => 8,
        '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => 9,
        _ => 0,
    };
    if simple > 0 {
        return char::from_u32(letter as u32 + simple).unwrap_or(letter);
    }
    let mut full = letter.to_uppercase();
    match (full.next(), full.next()) {
        (Some(only), None) => only,
        _ => letter,
    }
}

/// `text` in upper case. Bounded by its length.
pub fn upper_text(text: &str) -> String {
    text.chars().map(upper).collect()
}

/// Whether the two differ in nothing but the case of letters. Bounded by their length.
pub fn same(one: &str, other: &str) -> bool {
    one.chars().map(upper).eq(other.chars().map(upper))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// First, last, step and distance of each run of letters.
    const TABLE: &str = include_str!("../../tests/affinity/upper.txt");

    fn table() -> BTreeMap<u32, u32> {
        let mut table = BTreeMap::new();
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split(' ').collect();
            let code = |word: &str| u32::from_str_radix(word, 16).unwrap();
            let step: usize = words[2].parse().unwrap();
            let distance: i64 = words[3].parse().unwrap();
            for letter in (code(words[0])..=code(words[1])).step_by(step) {
                let upper = u32::try_from(i64::from(letter) + distance).unwrap();
                table.insert(letter, upper);
            }
        }
        table
    }

    #[test]
    fn every_code_point_is_as_the_table_has_it() {
        let table = table();
        assert_eq!(table.len(), 1449);
        for letter in (0..=0x10_ffff).filter_map(char::from_u32) {
            let want = table.get(&(letter as u32)).copied();
            let found = upper(letter) as u32;
            assert_eq!(
                found,
                want.unwrap_or(letter as u32),
                "U+{:04X}",
                letter as u32
            );
        }
    }

    #[test]
    fn names_are_the_same_but_for_case_and_nothing_else() {
        for (one, other) in [
            ("dest-A", "DEST-a"),
            ("ς", "σ"),
            ("µ", "μ"),
            ("ǆ", "ǅ"),
            ("𐐨", "𐐀"),
        ] {
            assert!(same(one, other), "{one} {other}");
        }
        for (one, other) in [
            ("straße", "STRASSE"),
            ("ı", "i"),
            ("İ", "i"),
            ("é", "e\u{301}"),
        ] {
            assert!(!same(one, other), "{one} {other}");
        }
    }
}
