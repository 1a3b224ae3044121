//! What never appears, and what to write in its place.
//!
//! Most bans have no exception. One thread needs no `Arc` and no lock, but rustls and the blocking
//! lanes demand some: where such a type is brought in, a plain comment on the line (or on a line of
//! its own above) gives the reason, and counts for the file. `unwrap` and `expect` say in a comment
//! that begins `cannot fail:` why they hold; there is no other excuse for them.

use crate::source::{Source, paths};
use crate::{Rule, sample};

pub const RULES: &[Rule] = &[SHARED, STATIC, THREADS, PANIC, WORDS, PRINT, IGNORE, SLEEP];

/// Types that only a second thread needs.
const SHARED_TYPES: &[&str] = &[
    "Arc", "Barrier", "Condvar", "LazyLock", "Mutex", "Once", "OnceLock", "RwLock", "atomic",
    "mpsc",
];

const SHARED: Rule = Rule {
    name: "shared state",
    samples: || {
        vec![
            sample(
                "src/net/tls.rs",
                "use std::sync::Arc; // rustls takes its configuration in nothing else\n\
                 use std::{sync::{Mutex, Weak}, rc::Rc};<--\n\
                 // The resolver lane answers from its own thread.\n\
                 use std::sync::atomic::AtomicBool;\n\
                 /// Not a reason.\n\
                 fn a(b: std::sync::RwLock<u8>) { Arc::new(b) }<--\n\
                 #[cfg(test)]\n\
                 use std::sync::OnceLock;",
            ),
            sample("tests/relay.rs", "use std::sync::Arc;"),
        ]
    },
    check: |source| {
        let advice = "one thread needs none of it: use `Rc`, `Cell`, `RefCell`; where rustls or a \
                      lane demands it, say so in a comment on this line";
        let brought_in = paths(source).into_iter().filter(|(line, path)| {
            let from_std = matches!(path[0].as_str(), "std" | "core" | "sync" | "smol");
            from_std
                && path
                    .iter()
                    .any(|word| SHARED_TYPES.contains(&word.as_str()))
                && ships(source, *line)
                && !has_reason(source, *line)
        });
        brought_in
            .map(|(line, _)| source.violation(line, advice))
            .collect()
    },
};

const STATIC: Rule = Rule {
    name: "statics with state",
    samples: || {
        vec![sample(
            "src/a.rs",
            "static TABLE: [u8; 2] = [1, 2];\n\
             fn a(b: &'static str) {}\n\
             static mut COUNT: u8 = 0;<--\n\
             static SEEN: RefCell<u8> = RefCell::new(0);<--\n\
             static GATE: OnceLock<u8> = OnceLock::new(); // rustls asks for a global\n\
             thread_local! { static A: u8 = 0 }<--\n",
        )]
    },
    check: |source| {
        let advice = "pass the value to who needs it: the driver owns all state";
        let changes = ["Atomic", "Cell", "Lazy", "Lock", "Mutex", "Once"];
        let found = (0..source.tokens.len()).filter(|&at| {
            let declared = (at..source.tokens.len()).map(|next| source.token(next));
            let mut kind = declared.take_while(|word| *word != "=" && *word != ";");
            match source.token(at) {
                "thread_local" => true,
                "static" if at > 0 && source.token(at - 1) == "'" => false,
                "static" if source.token(at + 1) == "mut" => true,
                "static" => kind.any(|word| changes.iter().any(|change| word.contains(change))),
                _ => false,
            }
        });
        let lines = found.map(|at| source.tokens[at].line);
        lines
            .filter(|&line| ships(source, line) && !has_reason(source, line))
            .map(|line| source.violation(line, advice))
            .collect()
    },
};

const THREADS: Rule = Rule {
    name: "threads",
    samples: || {
        vec![sample(
            "src/net/a.rs",
            "smol::unblock(job).await;<--\n\
             smol::unblock(job).await; // the disk lane: one job at a time\n\
             std::thread::spawn(a);<--\n\
             executor.spawn(a);\n",
        )]
    },
    check: |source| {
        let advice = "give the job to a lane: this starts a thread; a lane says so in a comment";
        let starts = (0..source.tokens.len()).filter(|&at| {
            let thread = source.token(at) == "thread" && source.token(at + 1) == "::";
            source.token(at) == "unblock" || (thread && source.token(at + 2) == "spawn")
        });
        starts
            .map(|at| source.tokens[at].line)
            .filter(|&line| ships(source, line) && !has_reason(source, line))
            .map(|line| source.violation(line, advice))
            .collect()
    },
};

const PANIC: Rule = Rule {
    name: "panics",
    samples: || {
        vec![sample(
            "src/wire/a.rs",
            "fn a() { b.unwrap(); }<--\n\
             fn c() { d.expect(\"\"); }<--\n\
             fn e() { f.unwrap(); } // cannot fail: f was just filled\n\
             // cannot fail: the range is in bounds\n\
             fn g() { h.unwrap(); }\n\
             fn i() { j.unwrap_or(0); }\n\
             fn k() { unreachable!() }<--\n\
             #[expect(dead_code)]\n\
             struct L;\n\
             #[cfg(test)]\n\
             mod tests { fn m() { n.unwrap() } }\n",
        )]
    },
    check: |source| {
        let advice = "a panic ends the relay: return an error, or say `// cannot fail: …` here";
        let macros = ["panic", "unreachable", "unimplemented", "todo"];
        let panics = |at: usize| match source.token(at) {
            "unwrap" | "expect" => {
                at > 0 && source.token(at - 1) == "." && source.token(at + 1) == "("
            }
            word => macros.contains(&word) && source.token(at + 1) == "!",
        };
        let lines = (0..source.tokens.len()).filter(|&at| panics(at));
        lines
            .map(|at| source.tokens[at].line)
            .filter(|&line| {
                ships(source, line) && !source.reason(line).contains("// cannot fail: ")
            })
            .map(|line| source.violation(line, advice))
            .collect()
    },
};

/// Runs of tokens, and what to write instead.
const BANNED: &[(&[&str], &str)] = &[
    (
        &["smol", "::", "spawn"],
        "spawn on the driver's `LocalExecutor`: this one has threads",
    ),
    (
        &["unbounded"],
        "use a bounded queue, and decide what happens when it is full",
    ),
    (
        &["unbounded_channel"],
        "use a bounded queue, and decide what happens when it is full",
    ),
    (
        &["dyn", "Error"],
        "use an error type that says whose fault it is",
    ),
    (&["anyhow"], "use an error type that says whose fault it is"),
    (&["allow", "(", "dead_code"], "delete what nobody uses"),
    (&["allow", "(", "unused"], "delete what nobody uses"),
];

const WORDS: Rule = Rule {
    name: "words",
    samples: || {
        vec![sample(
            "src/net/a.rs",
            "smol::spawn(a);<--\n\
             executor.spawn(a);\n\
             let (a, b) = async_channel::unbounded();<--\n\
             #[allow(dead_code)]<--\n\
             let a: Box<dyn Error> = b;<--\n\
             let a = \"unbounded\"; // unbounded\n",
        )]
    },
    check: |source| {
        let banned = |at: usize| {
            let same = |words: &[&str]| {
                words
                    .iter()
                    .enumerate()
                    .all(|(index, word)| source.token(at + index) == *word)
            };
            let (_, advice) = BANNED.iter().find(|(words, _)| same(words))?;
            let line = source.tokens[at].line;
            ships(source, line).then(|| source.violation(line, *advice))
        };
        (0..source.tokens.len()).filter_map(banned).collect()
    },
};

const PRINT: Rule = Rule {
    name: "printing",
    samples: || {
        vec![
            sample(
                "src/cli/check.rs",
                "println!(\"a\");<--\n\
                 eprint!(\"a\");<--\n\
                 dbg!(a);<--\n\
                 writeln!(out, \"println!\")?;\n",
            ),
            sample("tests/sdk.rs", "eprintln!(\"skipped\");"),
        ]
    },
    check: |source| {
        let advice = "`writeln!` to a stream that you were given, and handle its error: this \
                      panics when the pipe is closed. The relay itself logs through `net::log`";
        let macros = ["println", "eprintln", "print", "eprint", "dbg"];
        let prints = (0..source.tokens.len())
            .filter(|&at| macros.contains(&source.token(at)) && source.token(at + 1) == "!");
        prints
            .map(|at| source.tokens[at].line)
            .filter(|&line| ships(source, line))
            .map(|line| source.violation(line, advice))
            .collect()
    },
};

const IGNORE: Rule = Rule {
    name: "ignored tests",
    samples: || {
        vec![sample(
            "tests/a.rs",
            "#[ignore = \"slow\"]<--\n#[test]\nfn a(ignore: u8) {}\n",
        )]
    },
    check: |source| {
        let advice = "delete the test or mend it: what is ignored is not held";
        let attribute = ["#", "[", "ignore"];
        let found = (0..source.tokens.len()).filter(|&at| {
            attribute
                .iter()
                .enumerate()
                .all(|(index, word)| source.token(at + index) == *word)
        });
        found
            .map(|at| source.violation(source.tokens[at].line, advice))
            .collect()
    },
};

const SLEEP: Rule = Rule {
    name: "sleeping tests",
    samples: || {
        vec![
            sample(
                "tests/relay/a.rs",
                "std::thread::sleep(a);<--\n\
                 // A client that reads slowly is what is tested here.\n\
                 thread::sleep(a);\n",
            ),
            sample("tests/bench/swarm/src/main.rs", "std::thread::sleep(a);\n"),
        ]
    },
    check: |source| {
        let advice = "wait for what you wait for, under one deadline; if time itself is what is \
                      tested, say so in a comment";
        let found = (0..source.tokens.len())
            .filter(|&at| source.token(at) == "sleep" && source.token(at + 1) == "(");
        found
            .map(|at| source.tokens[at].line)
            .filter(|&line| !source.path.starts_with("tests/bench/") && !has_reason(source, line))
            .map(|line| source.violation(line, advice))
            .collect()
    },
};

/// Whether `line` is part of what ships.
fn ships(source: &Source, line: usize) -> bool {
    source.ships() && !source.lines[line].is_test
}

/// A comment of at least three words.
fn has_reason(source: &Source, line: usize) -> bool {
    source.reason(line).split_whitespace().count() > 3
}
