//! What the project consists of: the few things at the top, no trace of the machine it was written
//! on, recipes that explain themselves.

use crate::source::{Source, Violation};
use crate::{Rule, sample};
use std::fs;
use std::path::Path;

pub const RULES: &[Rule] = &[MACHINE, RECIPES];

/// All that may lie at the top of the project.
const TOP_LEVEL: &[&str] = &[
    ".ci",
    ".clippy.toml",
    ".deny.toml",
    ".gitignore",
    ".rustfmt.toml",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "cross",
    "justfile",
    "seeds",
    "src",
    "tests",
];

/// Not the project's: git's own, and what is built.
const NOT_OURS: &[&str] = &[".git", "target"];

/// What lies at the top and should not.
pub fn top_level(root: &Path) -> Vec<Violation> {
    let names = entries(root).into_iter().filter_map(|path| {
        let name = path.file_name()?.to_str()?.to_string();
        let ours = TOP_LEVEL.contains(&name.as_str()) || NOT_OURS.contains(&name.as_str());
        (!ours && !name.ends_with(".swp")).then_some(name)
    });
    let advice = "not at the top of the project: move it into src, cross, seeds or tests";
    names
        .map(|path| Violation {
            path,
            line: 0,
            advice: advice.to_string(),
        })
        .collect()
}

/// Every text file of the project. Rust and recipes are judged by all rules that look at them,
/// the rest (documents, seeds, scripts) by those about text.
pub fn read(root: &Path) -> Vec<Source> {
    let mut sources = Vec::new();
    for name in TOP_LEVEL.iter().filter(|name| **name != "Cargo.lock") {
        walk(root, &root.join(name), &mut sources);
    }
    sources
}

fn walk(root: &Path, path: &Path, sources: &mut Vec<Source>) {
    if path.is_dir() {
        let built = ["target", "__pycache__", "node_modules"];
        for entry in entries(path) {
            if !built.iter().any(|name| entry.ends_with(name)) {
                walk(root, &entry, sources);
            }
        }
    } else if path
        .extension()
        .is_some_and(|extension| extension == "lock")
    {
        // Written by cargo.
    } else if let (Ok(text), Ok(name)) = (fs::read_to_string(path), path.strip_prefix(root)) {
        sources.push(Source::new(&name.to_string_lossy(), &text));
    }
}

fn entries(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("a readable entry").path())
        .collect();
    paths.sort();
    paths
}

const MACHINE: Rule = Rule {
    name: "traces of a machine",
    samples: || {
        let home = concat!("/ro", "ot/");
        let work = concat!("/wo", "rk/");
        vec![
            sample(
                "src/a.rs",
                format!(
                    "let a = \"{home}a\";<--\n// see {work}shared<--\nlet b = \"/etc/staffetta\";"
                ),
            ),
            sample("README.md", format!("Run {work}a.<--\nRun a/{work}b.\n")),
            sample("src/b.rs", concat!("let a = \"/t", "mp/b\";<--\n")),
            sample("tests/b.rs", concat!("let a = \"/t", "mp/b\";\n")),
        ]
    },
    check: |source| {
        let mut traces = vec![
            concat!("/ro", "ot/"),
            concat!("/ho", "me/"),
            concat!("/wo", "rk/"),
            concat!("/Us", "ers/"),
        ];
        if source.ships() {
            traces.push(concat!("/t", "mp/"));
        }
        let begins = |raw: &str, at: usize| {
            !raw[..at].ends_with(|c: char| c.is_alphanumeric() || "/.-_$}*".contains(c))
        };
        let found = source.lines.iter().enumerate().filter(|(_, line)| {
            let mut at = traces
                .iter()
                .flat_map(|trace| line.raw.match_indices(trace));
            at.any(|(at, _)| begins(&line.raw, at))
        });
        let advice = "a path of one machine: take it from the configuration or the environment";
        found
            .map(|(line, _)| source.violation(line, advice))
            .collect()
    },
};

const RECIPES: Rule = Rule {
    name: "recipes",
    samples: || {
        vec![sample(
            "justfile",
            "set shell := [\"bash\", \"-c\"]\n\
             \n\
             # Runs the tests.\n\
             test:\n    cargo test\n\
             \n\
             lint target=\"a\": test<--\n    cargo clippy\n\
             \n\
             # One.\n# Two.\n\
             two:<--\n    true\n\
             \n\
             # Hidden.\n\
             [private]\n\
             hidden: test\n",
        )]
    },
    check: |source| {
        if source.path != "justfile" {
            return Vec::new();
        }
        let is_recipe = |raw: &str| {
            raw.starts_with(|c: char| c.is_ascii_lowercase())
                && raw.contains(':')
                && !raw.contains(":=")
        };
        let commented = |number: usize| {
            let above = source.lines[..number]
                .iter()
                .rev()
                .map(|line| line.raw.as_str());
            above
                .skip_while(|raw| raw.starts_with('['))
                .take_while(|raw| raw.starts_with("# "))
                .count()
        };
        let recipes = source
            .lines
            .iter()
            .enumerate()
            .filter(|(_, line)| is_recipe(&line.raw));
        let advice = "one comment line above each recipe: it is what `just --list` shows";
        let bare = recipes
            .map(|(number, _)| number)
            .filter(|&number| commented(number) != 1);
        bare.map(|number| source.violation(number, advice))
            .collect()
    },
};
