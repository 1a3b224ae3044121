//! What things are called.
//!
//! A name says what a thing is in the words of the field (ARCHITECTURE lists them). The words
//! below say nothing: every struct is data, every function processes, every module is a helper.

use crate::source::{Source, Violation};
use crate::{Rule, sample};

pub const RULES: &[Rule] = &[EMPTY_WORDS, GETTERS];

const EMPTY: &[&str] = &[
    "base",
    "common",
    "data",
    "helper",
    "info",
    "manager",
    "misc",
    "processor",
    "service",
    "stuff",
    "util",
    "utility",
    "wrapper",
];

const ABBREVIATIONS: &[(&str, &str)] = &[
    ("cfg", "config"),
    ("cnt", "count"),
    ("conn", "connection"),
    ("ctx", "context"),
    ("idx", "index"),
    ("mgr", "what it owns"),
    ("msg", "message"),
    ("num", "count"),
    ("pkt", "packet"),
    ("req", "request"),
    ("resp", "response"),
    ("srv", "server"),
    ("svc", "the thing itself"),
    ("tmp", "temporary"),
    ("val", "value"),
];

const EMPTY_WORDS: Rule = Rule {
    name: "names",
    samples: || {
        vec![
            sample("src/net/util.rs", "<--\nfn fan_out() {}"),
            sample(
                "src/net/listen.rs",
                "struct SlotManager;<--\n\
                 enum Database { Info }\n\
                 fn parse_req() {}<--\n\
                 fn request_helpers() {}<--\n\
                 fn on_data(data: &[u8]) { let info = data; }<--\n\
                 mod common;<--\n\
                 use base64::Engine;\n",
            ),
            sample(
                "tests/relay/a.rs",
                "fn a_slot_without_data_waits() {}\nstruct B;",
            ),
        ]
    },
    check: |source| {
        let mut found: Vec<Violation> = Vec::new();
        let file = source
            .path
            .rsplit('/')
            .next()
            .and_then(|name| name.split('.').next());
        let folders = source.path.split('/').rev().skip(1);
        for name in folders.chain(file) {
            found.extend(judge(source, 0, name));
        }
        for at in 1..source.tokens.len() {
            // The names of tests are claims, and claims are sentences.
            let claim = source.token(at - 1) == "fn"
                && (source.token_is_test(at) || source.path.starts_with("tests/"));
            if DECLARES.contains(&source.token(at - 1)) && !claim {
                found.extend(judge(source, source.tokens[at].line, source.token(at)));
            }
        }
        found
    },
};

const GETTERS: Rule = Rule {
    name: "getters",
    samples: || {
        vec![sample(
            "src/a.rs",
            "fn get_slot() {}<--\nfn getter() { map.get_mut(1); }\n\
             // Named by somebody else's trait.\n\
             fn get_id() {}",
        )]
    },
    check: |source| {
        let getters = (1..source.tokens.len())
            .filter(|&at| source.token(at - 1) == "fn" && source.token(at).starts_with("get_"))
            .filter(|&at| {
                !source
                    .reason(source.tokens[at].line)
                    .contains("// Named by ")
            });
        let violation = |at: usize| {
            let shorter = source.token(at).trim_start_matches("get_");
            source.violation(source.tokens[at].line, format!("call it `{shorter}`"))
        };
        getters.map(violation).collect()
    },
};

/// Words behind which a name is declared.
const DECLARES: &[&str] = &["fn", "struct", "enum", "trait", "type", "mod", "union"];

fn judge(source: &Source, line: usize, name: &str) -> Option<Violation> {
    let words = words(name);
    let singular = |word: &str| word.strip_suffix('s').unwrap_or(word).to_string();
    let empty = words
        .iter()
        .find(|word| EMPTY.contains(&word.as_str()) || EMPTY.contains(&singular(word).as_str()));
    if let Some(word) = empty {
        let advice = format!("`{name}`: `{word}` says nothing; name what it holds or decides");
        return Some(source.violation(line, advice));
    }
    let short = ABBREVIATIONS
        .iter()
        .find(|(short, _)| words.iter().any(|word| word == short));
    short.map(|(short, long)| {
        source.violation(line, format!("`{name}`: write `{long}` for `{short}`"))
    })
}

/// `SlotManager` and `slot_manager` are both `slot`, `manager`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in name.chars() {
        if c.is_uppercase() || !c.is_alphanumeric() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
    }
    words
}
