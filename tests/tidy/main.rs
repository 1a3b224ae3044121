//! The house style, as a test that names what to write instead.
//!
//! Owns every rule that a reader of the project may rely on without checking: which room may use
//! which (`imports`), how large things get (`sizes`), what never appears (`bans`), what things are
//! called (`names`), what is documented (`comments`), what the project consists of (`tree`), that
//! the list of what ships is complete (`sbom`), and the numbers that may only be raised by a commit
//! that says why (`ratchets`).
//!
//! Each rule is a pure function over one file and carries its own samples: lines it must find and
//! lines it must leave alone. The rules prove themselves on those before they judge the project,
//! so that a rule that no longer finds anything fails loudly.
//!
//! To add a rule: write the function and its samples, and put it into its module's `RULES`.

mod bans;
mod comments;
mod imports;
mod names;
mod ratchets;
mod sbom;
mod sizes;
mod source;
mod tree;

use source::{Source, Violation};
use std::path::Path;

/// A rule, and the proof that it works.
struct Rule {
    name: &'static str,
    check: fn(&Source) -> Vec<Violation>,
    /// Files in which exactly the lines that bear [`FOUND`] must be found.
    samples: fn() -> Vec<Sample>,
}

struct Sample {
    path: &'static str,
    text: String,
}

fn sample(path: &'static str, text: impl Into<String>) -> Sample {
    Sample {
        path,
        text: text.into(),
    }
}

/// Ends the lines of a sample that a rule must find. Taken away before the rule sees them.
const FOUND: &str = "<--";

fn rules() -> impl Iterator<Item = &'static Rule> {
    let rules = [
        imports::RULES,
        sizes::RULES,
        bans::RULES,
        names::RULES,
        comments::RULES,
    ];
    rules.into_iter().chain([tree::RULES]).flatten()
}

fn prove(rule: &Rule) {
    let (mut finds, mut lines) = (0, 0);
    for Sample { path, text } in (rule.samples)() {
        let planted = text
            .lines()
            .enumerate()
            .filter(|(_, line)| line.ends_with(FOUND));
        let planted: Vec<usize> = planted.map(|(number, _)| number).collect();
        let source = Source::new(path, &text.replace(FOUND, ""));
        let mut found: Vec<usize> = (rule.check)(&source).iter().map(|v| v.line).collect();
        found.dedup();
        assert_eq!(
            found, planted,
            "rule `{}` on the sample {path}:\n{text}",
            rule.name
        );
        finds += planted.len();
        lines += text.lines().count();
    }
    assert!(finds > 0, "rule `{}` has no planted violation", rule.name);
    assert!(
        finds < lines,
        "rule `{}` has no line that it leaves alone",
        rule.name
    );
}

#[test]
fn every_rule_finds_what_is_planted_and_nothing_else() {
    rules().for_each(prove);
}

#[test]
fn the_house_is_tidy() {
    rules().for_each(prove);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = tree::read(root);
    assert!(
        sources.iter().any(|source| source.path == "src/lib.rs"),
        "nothing was read"
    );
    let mut violations = tree::top_level(root);
    for source in &sources {
        violations.extend(rules().flat_map(|rule| (rule.check)(source)));
    }
    let report: Vec<String> = violations.iter().map(Violation::to_string).collect();
    assert!(
        report.is_empty(),
        "{} untidy lines:\n{}",
        report.len(),
        report.join("\n")
    );
}
