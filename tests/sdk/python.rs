//! The real Python SDK, installed once under cargo's target directory from pinned hashes.
//!
//! Where it cannot be had (no Python, no package index) the tests that need it say so loudly and
//! pass, unless `CI` is `true`: there a skipped test is a failed one.

use crate::debian::run;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const REQUIREMENTS: &str = include_str!("requirements.txt");

/// The interpreter that has the SDK; none when the test is to be skipped.
pub fn interpreter() -> Option<&'static Path> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match FOUND.get_or_init(install) {
        Ok(path) => Some(path),
        Err(why) => {
            skip(&format!("the Python SDK is not there: {why}"));
            None
        }
    }
}

/// Says that something is skipped where nobody can miss it; fails when skipping is not allowed.
pub fn skip(why: &str) {
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "not skipped in CI: {why}"
    );
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    // Not `eprintln`: the test runner would keep it to itself while the test passes.
    let _ = writeln!(std::io::stderr(), "\n*** SKIPPED {name}: {why}\n");
}

fn install() -> Result<PathBuf, String> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-sdk");
    let interpreter = directory.join("bin/python");
    let installed = directory.join("installed.txt");
    if fs::read_to_string(&installed).is_ok_and(|text| text == REQUIREMENTS) {
        return Ok(interpreter);
    }
    let _ = fs::remove_dir_all(&directory);
    run(Command::new("python3")
        .arg("-m")
        .arg("venv")
        .arg(&directory))?;
    let listed = directory.join("requirements.txt");
    fs::write(&listed, REQUIREMENTS).map_err(|error| error.to_string())?;
    run(Command::new(&interpreter)
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ])
        .args([
            "--require-hashes",
            "--only-binary",
            ":all:",
            "--requirement",
        ])
        .arg(&listed))?;
    fs::write(&installed, REQUIREMENTS).map_err(|error| error.to_string())?;
    Ok(interpreter)
}
