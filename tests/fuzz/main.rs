//! Fuzz targets, run on stable for a bounded time: every decoder, and the operations of `state`.
//!
//! A target (`targets`) is a plain function over bytes that panics when a claim does not hold. Here
//! each runs on its corpus, whole and in prefixes, and then on mutations of it (`mutate`),
//! which come from a seed that counts up from [`FIRST_SEED`]: the same run twice is the same run. A
//! failure prints the target, the seed and the input in hex; the input, mended, joins the corpus as
//! a file.
//!
//! `STAFFETTA_FUZZ_SECONDS` gives each target that long, without an end of seeds. The same targets
//! run under libFuzzer by the recipe `just fuzz TARGET`.

mod mutate;
mod targets;

use mutate::{Corpus, Mutator};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};
use targets::{TARGETS, Target};

/// The first of the seeds; that of the n-th mutation is n more.
const FIRST_SEED: u64 = 1;
/// Mutations of one target where no time was asked for: enough to find each bug that was planted.
const MUTATIONS: u64 = 4_000;
/// What one target may take for them on a slow machine.
const PATIENCE: Duration = Duration::from_millis(800);
/// Prefixes of one file that are tried.
const PREFIXES: usize = 64;

fn corpus(target: &Target) -> Corpus {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut inputs = files(&root.join("tests/fuzz/corpus").join(target.name));
    let own = inputs.len();
    assert!(own > 0, "{} has no corpus", target.name);
    for folder in target.folders {
        inputs.extend(files(&root.join(folder)));
    }
    Corpus {
        inputs,
        own,
        words: target.words,
    }
}

fn files(folder: &Path) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let paths = entries.map(|entry| entry.expect("a readable entry").path());
    let mut paths: Vec<_> = paths.collect();
    paths.sort();
    let read = |path| fs::read(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    paths.into_iter().map(read).collect()
}

fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

/// Runs `target` once; what it panics with is followed by what is needed to do it again.
fn hold(target: &Target, input: &[u8], origin: &str) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.run)(input))) {
        let (name, hex) = (target.name, hex(input));
        eprintln!(
            "target {name}, {origin}, {} bytes of input in hex:\n{hex}",
            input.len()
        );
        std::panic::resume_unwind(panic);
    }
}

fn campaign(name: &str) {
    let target = TARGETS
        .iter()
        .find(|target| target.name == name)
        .expect(name);
    let corpus = corpus(target);
    for input in &corpus.inputs {
        hold(target, input, "corpus");
        let step = input.len().div_ceil(PREFIXES).max(1);
        for end in (0..input.len()).step_by(step) {
            hold(target, &input[..end], "prefix of a corpus file");
        }
    }
    let asked = std::env::var("STAFFETTA_FUZZ_SECONDS").ok();
    let asked = asked.map(|seconds| seconds.parse().expect("STAFFETTA_FUZZ_SECONDS is a number"));
    let (mutations, patience) = match asked {
        Some(seconds) => (u64::MAX, Duration::from_secs(seconds)),
        None => (MUTATIONS, PATIENCE),
    };
    let start = Instant::now();
    for seed in (FIRST_SEED..).take_while(|seed| seed - FIRST_SEED < mutations) {
        if start.elapsed() > patience {
            break;
        }
        let input = Mutator::new(&corpus, seed).input();
        hold(target, &input, &format!("seed {seed}"));
    }
}

macro_rules! run_each {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                campaign(stringify!($name));
            }
        )*

        #[test]
        fn every_target_runs() {
            let listed = [$(stringify!($name)),*];
            let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(listed.as_slice(), known);
        }
    };
}

run_each! {
    http_head http_body http_answer websocket sse ibm_path percent iam_token iam_form
    json_digest seed keep_record gzip usage_entries spool_log config etag_names x509 cookie
    route timespan region_record region_envelope region_peer region_status region_problem
    region_target state_fanout state_deadlines state_slab state_access state_spool state_slots
    state_destinations state_relay state_session
}
