//! The SDK as npm has it, installed once under cargo's target directory from pinned hashes.

use crate::debian::{need, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const MANIFEST: &str = include_str!("package.json");
const LOCK: &str = include_str!("package-lock.json");

/// The directory that has the SDK in its `node_modules`, or why there is none.
pub fn installed() -> Result<&'static Path, &'static str> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match FOUND.get_or_init(install) {
        Ok(path) => Ok(path),
        Err(why) => Err(why),
    }
}

/// The SDK's own bundle for pages.
pub fn bundle(installed: &Path) -> PathBuf {
    installed.join("node_modules/ibm-appconfiguration-js-client-sdk/dist/appconfiguration.js")
}

fn install() -> Result<PathBuf, String> {
    need(&[("node", "nodejs"), ("npm", "npm")])?;
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("js-sdk");
    let stamp = directory.join("installed.json");
    if fs::read_to_string(&stamp).is_ok_and(|text| text == LOCK) {
        return Ok(directory);
    }
    let write = |name: &str, text: &str| {
        fs::write(directory.join(name), text).map_err(|error| format!("{name}: {error}"))
    };
    fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
    write("package.json", MANIFEST)?;
    write("package-lock.json", LOCK)?;
    run(Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .current_dir(&directory))?;
    if !bundle(&directory).exists() {
        return Err("npm installed no bundle of the SDK".to_owned());
    }
    write("installed.json", LOCK)?;
    Ok(directory)
}
