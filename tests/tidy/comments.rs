//! What is written for readers: a header on every file, a line on every public item, and none of
//! the comments that only tell of work not done.

use crate::{Rule, sample};
use std::ops::{Range, RangeInclusive};

pub const RULES: &[Rule] = &[HEADER, DOCUMENTED, LEFTOVERS, BANNERS];

/// A page at most: what does not fit belongs into ARCHITECTURE.
const HEADER_LINES: RangeInclusive<usize> = 4..=30;

const HEADER: Rule = Rule {
    name: "file header",
    samples: || {
        vec![
            sample("src/a.rs", "//! A.<--\n//! B.\n//! C.\nuse b;\n"),
            sample("src/a.rs", "<--\n//! A.\n//! B.\n//! C.\n//! D.\nuse b;\n"),
            sample("src/a/tests.rs", "//! A.\nuse b;\n"),
            sample("src/a/tests.rs", "<--\nuse b;\n"),
            sample("src/a.rs", "//! A.\n//!\n//! B.\n//! C.\nuse b;\n"),
        ]
    },
    check: |source| {
        let headed = source
            .lines
            .iter()
            .take_while(|line| line.raw.starts_with("//!"))
            .count();
        let tests = headed > 0 && source.lines.iter().all(|line| line.is_test);
        let whole = source.path == "src/lib.rs" && headed > *HEADER_LINES.end();
        if !source.ships() || tests || whole || HEADER_LINES.contains(&headed) {
            return Vec::new();
        }
        let advice = format!(
            "{headed} lines of `//!`, {} to {} wanted: what the file owns, what it never does, its \
             invariants",
            HEADER_LINES.start(),
            HEADER_LINES.end()
        );
        vec![source.violation(0, advice)]
    },
};

const DOCUMENTED: Rule = Rule {
    name: "documented items",
    samples: || {
        vec![sample(
            "src/a.rs",
            "pub mod b;\n\
             pub use b::C;\n\
             /// D.\n\
             #[derive(Clone)]\n\
             pub struct D { pub e: u8 }\n\
             pub struct F;<--\n\
             impl F {\n\
                 /// G.\n\
                 pub const fn g() {}\n\
                 pub fn h() {\n\
                 self.h\n\
                 }\n\
                 pub async fn i() {<--\n\
                 a();\n\
                 b();\n\
                 }\n\
             }\n\
             pub(crate) fn j() {}\n\
             #[cfg(test)]\n\
             mod tests { pub fn k() {} }\n",
        )]
    },
    check: |source| {
        // One line of code is said by its name.
        let functions = source.functions();
        let is_short = |range: &Range<usize>, at: usize| {
            let line = |at: usize| source.tokens[at].line;
            range.start > at && line(range.end - 1) - line(at) <= 2
        };
        let items = ["fn", "struct", "enum", "trait", "type", "const", "static"];
        let public = (0..source.tokens.len()).filter(|&at| {
            let next = source.token(at + 1);
            let item = items.contains(&next) || (next == "async" && source.token(at + 2) == "fn");
            let public = source.token(at) == "pub" && item && !source.token_is_test(at);
            public
                && !functions
                    .iter()
                    .any(|range| range.start <= at + 3 && is_short(range, at))
        });
        let bare = public.map(|at| source.tokens[at].line).filter(|&line| {
            let above = source.lines[..line]
                .iter()
                .rev()
                .map(|line| line.raw.trim_start());
            let mut above = above.skip_while(|raw| !raw.starts_with("///") && !ends_item(raw));
            !above.next().is_some_and(|raw| raw.starts_with("///"))
        });
        let advice = "say what it is in `///`: shape, unit, bound, error, and where a rule is from";
        let shipped = bare.filter(|_| source.ships());
        shipped.map(|line| source.violation(line, advice)).collect()
    },
};

/// Whether this line, met on the way up from an item, belongs to something else.
fn ends_item(raw: &str) -> bool {
    raw.is_empty() || raw.ends_with([';', '}', '{']) || raw.starts_with("//!")
}

const LEFTOVERS: Rule = Rule {
    name: "leftovers",
    samples: || {
        vec![sample(
            "tests/a.rs",
            concat!(
                "// TO",
                "DO: later<--\n",
                "/* XX",
                "X */ fn a() {}<--\n",
                "// let a = b;<--\n",
                "// the word `todo` in a sentence; all fine\n",
                "let a = \"FIXME\";\n",
            ),
        )]
    },
    check: |source| {
        let unfinished = ["TODO", "FIXME", "XXX", "HACK"];
        let found = source
            .lines
            .iter()
            .enumerate()
            .filter_map(|(number, line)| {
                let mut words = line.comment.split(|c: char| !c.is_alphanumeric());
                if words.any(|word| unfinished.contains(&word)) {
                    return Some((number, "do it, or file an issue"));
                }
                let text = line.comment.strip_prefix("// ")?.trim();
                let statement =
                    text.ends_with(';') && STATEMENTS.iter().any(|s| text.starts_with(s));
                statement.then_some((number, "delete it: the history keeps what was"))
            });
        found
            .map(|(line, advice)| source.violation(line, advice))
            .collect()
    },
};

/// How code begins that was commented out.
const STATEMENTS: &[&str] = &["let ", "use ", "return ", "self.", "assert", "mod ", "pub "];

const BANNERS: Rule = Rule {
    name: "banners",
    samples: || {
        vec![sample(
            "src/a.rs",
            "// ======<--\n// --- part ---<--\n// a - b -> c\n/// | - | --- |\n",
        )]
    },
    check: |source| {
        let found = source.lines.iter().enumerate().filter(|(_, line)| {
            let text = line.comment.trim_start_matches(['/', '!']).trim();
            let rule = ["===", "---", "***", "###"]
                .iter()
                .any(|rule| text.starts_with(rule));
            rule && !line.comment.starts_with("//!")
        });
        let advice = "no banners: a part that needs a title is a file";
        found
            .map(|(line, _)| source.violation(line, advice))
            .collect()
    },
};
