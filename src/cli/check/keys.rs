//! Are the secrets there, and are they secret?
//!
//! Reads every client key and the admin token as the relay would. Never prints one, nor any part of
//! one but its length.

use super::Report;
use crate::config::{Config, Secret, SecretSource};
use crate::limits::Limits;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Shorter keys can be guessed by a client that tries a thousand a second for years.
const SECRET_BYTES_MIN: usize = 16;

/// Permission bits of everybody.
const OTHERS: u32 = 0o007;

/// Looks at every configured secret.
pub fn check(config: &Config, limits: &Limits, report: &mut Report) {
    let mut seen: Vec<(String, Secret)> = Vec::new();
    for (index, key) in config.client_keys.iter().enumerate() {
        let path = format!("$.client_keys[{index}]");
        let Some(secret) = look(&path, ["key", "key_file"], &key.secret, limits, report) else {
            continue;
        };
        // The configuration compares what is written in it; only here are files compared too.
        let twin = seen.iter().find(|(_, other)| *other == secret);
        if let Some((other, _)) = twin {
            report.error(format_args!("{path}: has the same secret as {other}"));
        }
        seen.push((path, secret));
    }
    if let Some(token) = &config.admin.token {
        look("$.admin", ["token", "token_file"], token, limits, report);
    }
}

fn look(
    path: &str,
    [inline, file]: [&str; 2],
    source: &SecretSource,
    limits: &Limits,
    report: &mut Report,
) -> Option<Secret> {
    let (path, secret) = match source {
        SecretSource::Inline(secret) => (format!("{path}.{inline}"), secret.clone()),
        SecretSource::File(name) => {
            let path = format!("{path}.{file}");
            let secret = read(&path, name, limits, report)?;
            (path, secret)
        }
    };
    let length = secret.bytes().len();
    if !secret.is_sendable() {
        report.error(format_args!(
            "{path}: has characters that no header can carry; `staffetta key new` makes a key"
        ));
    } else if length < SECRET_BYTES_MIN {
        report.warning(format_args!(
            "{path}: {length} characters can be guessed; `staffetta key new` makes a key"
        ));
    }
    Some(secret)
}

/// The secret in a file; what hinders is an error.
pub fn read(path: &str, file: &Path, limits: &Limits, report: &mut Report) -> Option<Secret> {
    let bytes = report.read(path, file, limits.credential_bytes_max)?;
    warn_if_open(path, file, report);
    let secret = Secret::new(&bytes);
    if secret.is_none() {
        report.error(format_args!("{path}: {} is empty", file.display()));
    }
    secret
}

/// Says so when every user of the machine may read a secret file.
pub fn warn_if_open(path: &str, file: &Path, report: &mut Report) {
    let Ok(found) = file.metadata() else { return };
    if found.permissions().mode() & OTHERS != 0 {
        let shown = file.display();
        report.warning(format_args!(
            "{path}: every user of this machine may read {shown}; `chmod o= {shown}`"
        ));
    }
}
