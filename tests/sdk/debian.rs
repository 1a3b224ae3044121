//! What a test needs of the machine beyond cargo and Python, taken from Debian when it is missing.
//!
//! Only root can install, and only where `apt-get` is; elsewhere the test is told what is missing.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

/// Where the program or the file `name` is: a name without a slash is looked up in `PATH`.
pub fn find(name: &str) -> Option<PathBuf> {
    let places = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&places).map(|place| place.join(name));
    places.find(|path| path.exists())
}

/// Makes sure that each program or file is there, from the package beside it when it is not.
pub fn need(wanted: &[(&str, &str)]) -> Result<(), String> {
    // Tests run side by side, and apt-get does not.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().map_err(|error| error.to_string())?;
    let missing = |wanted: &[(&str, &str)]| -> Vec<String> {
        let absent = wanted.iter().filter(|(name, _)| find(name).is_none());
        absent.map(|(_, package)| (*package).to_owned()).collect()
    };
    let packages = missing(wanted);
    if packages.is_empty() {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        return Err(format!("not installed, and only root may: {packages:?}"));
    }
    run(Command::new("apt-get").args(["update", "-qq"]))?;
    run(Command::new("apt-get")
        .args(["install", "-qq", "-y", "--no-install-recommends"])
        .args(&packages)
        .env("DEBIAN_FRONTEND", "noninteractive")
        // What is a service is not started.
        .env("RUNLEVEL", "1"))?;
    match missing(wanted) {
        still if still.is_empty() => Ok(()),
        still => Err(format!("installed, and still not there: {still:?}")),
    }
}

/// Runs `command` to its end; gives what it complained of when it fails.
pub fn run(command: &mut Command) -> Result<(), String> {
    let done = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{command:?}: {}{}",
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr)
        )),
    }
}
