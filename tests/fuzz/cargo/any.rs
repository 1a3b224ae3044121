//! Any one of the fuzz targets under libFuzzer: `STAFFETTA_FUZZ_TARGET` names it.
//!
//! `just fuzz TARGET` is the way in. A crash is written below `target/fuzz`; mended, it joins
//! `tests/fuzz/corpus/TARGET`, where the tests on stable find it.

#![no_main]

#[path = "../targets/mod.rs"]
#[expect(dead_code, reason = "words and folders are for the mutations on stable")]
mod targets;

use libfuzzer_sys::fuzz_target;

thread_local! {
    static RUN: fn(&[u8]) = {
        let name = std::env::var("STAFFETTA_FUZZ_TARGET").expect("STAFFETTA_FUZZ_TARGET is set");
        let named = targets::TARGETS.iter().find(|target| target.name == name);
        named.unwrap_or_else(|| panic!("{name} is no target")).run
    };
}

fuzz_target!(|input: &[u8]| RUN.with(|run| run(input)));
