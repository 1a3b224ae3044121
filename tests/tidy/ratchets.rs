//! Numbers that may only be raised by a commit that says why.
//!
//! Each is exact: when a number falls, lower it here, so that it cannot quietly rise again. Sizes
//! of futures are held by clippy (`future-size-threshold`), the size of each artefact by the table
//! in `cross/targets`.

use std::process::Command;

/// Crates linked into the relay on Linux, itself included.
const CRATES_SHIPPED: usize = 149;

#[test]
fn shipped_crates_do_not_grow_unnoticed() {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--locked",
            "--offline",
            "--edges",
            "normal",
            "--prefix",
            "none",
        ])
        .args(["--target", "x86_64-unknown-linux-gnu", "--format", "{p}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let listing = String::from_utf8_lossy(&output.stdout);
    let mut crates: Vec<&str> = listing
        .lines()
        .map(|line| line.trim_end_matches(" (*)"))
        .filter(|line| !line.is_empty())
        .collect();
    crates.sort_unstable();
    crates.dedup();
    assert_eq!(
        crates.len(),
        CRATES_SHIPPED,
        "crates shipped. A new one needs a line in ARCHITECTURE (what we would write otherwise, \
         what it costs in bytes) and a commit that raises this number; fewer: lower it.\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
