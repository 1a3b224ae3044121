//! A system that trusts the site's own authority, for one process.
//!
//! Whom the relay trusts as a destination is the system's to say, in a file. The process gets a
//! view of its own of the file system, in which that file is the bundle that `staffetta cert` made.
//! Needs root or unprivileged user namespaces; nothing is left behind.

use std::ffi::OsString;
use std::process::Command;

use crate::harness::site::certificates;
use crate::python::skip;

/// Debian's file of authorities.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The command that runs what follows it in such a system, keeping its process id; `None` when the
/// test is to be skipped.
pub fn trusting() -> Option<Vec<OsString>> {
    let attempts: [&[&str]; 2] = [&["--mount"], &["--user", "--map-root-user", "--mount"]];
    let script = format!("mount --bind \"$0\" {AUTHORITIES} && exec \"$@\"");
    let mut complaints = String::new();
    for attempt in attempts {
        let mut words = vec![OsString::from("unshare")];
        words.extend(attempt.iter().map(OsString::from));
        words.extend(["--", "sh", "-c", &script].map(OsString::from));
        words.push(certificates().join("bundle.crt").into());
        let tried = Command::new(&words[0])
            .args(&words[1..])
            .arg("true")
            .output();
        match tried {
            Ok(done) if done.status.success() => return Some(words),
            Ok(done) => complaints += &String::from_utf8_lossy(&done.stderr),
            Err(error) => complaints += &error.to_string(),
        }
    }
    skip(&format!(
        "{AUTHORITIES} cannot be another file: {complaints}"
    ));
    None
}
