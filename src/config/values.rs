//! Text → the value that it stands for, for every kind of text that a key takes.
//!
//! Pure functions without a path: who calls them knows the place and notes the problem there. No
//! value is looked up, opened or resolved here.

use super::error::Problem;
use super::{Environment, Listen, Secret};
use crate::model::Id;
use std::path::PathBuf;

/// What `sun_path` holds on Linux, less its end.
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// Longest host name in DNS.
const HOST_NAME_BYTES_MAX: usize = 253;

/// An identifier of the service.
pub fn id(text: &str) -> Result<Id, Problem> {
    Id::new(text).ok_or(Problem::NotAnId)
}

/// A key or token that stands in the file itself.
pub fn inline_secret(text: &str) -> Result<Secret, Problem> {
    let instead = "`staffetta key new` makes a key";
    let secret = Secret::new(text.as_bytes()).ok_or(Problem::Empty { instead })?;
    match secret.is_sendable() {
        true => Ok(secret),
        false => Err(Problem::NotSendable),
    }
}

/// `ADDRESS:PORT` or `unix:PATH`.
pub fn address(text: &str, environment: &Environment) -> Result<Listen, Problem> {
    if let Some(path) = text.strip_prefix("unix:") {
        let path = plain_path(path, environment)?;
        let bytes_max = SOCKET_PATH_BYTES_MAX;
        return match path.as_os_str().len() <= bytes_max {
            true => Ok(Listen::Unix(path)),
            false => Err(Problem::SocketPathTooLong { bytes_max }),
        };
    }
    text.parse()
        .map(Listen::Tcp)
        .map_err(|_| Problem::NotAnAddress)
}

/// A path; a relative one starts at the file's own folder.
pub fn plain_path(text: &str, environment: &Environment) -> Result<PathBuf, Problem> {
    if text.is_empty() {
        let instead = "write a path";
        return Err(Problem::Empty { instead });
    }
    if text.contains("${") {
        return Err(Problem::UnknownVariable);
    }
    Ok(environment.config_directory.join(text))
}

/// `32MiB`, `512 KiB`, `1GiB` or bare bytes.
pub fn bytes(text: &str) -> Result<u64, Problem> {
    const UNITS: [(&str, u64); 3] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    let unit = UNITS.iter().find_map(|(name, factor)| {
        let number = text.strip_suffix(name)?;
        Some((number.trim_end(), *factor))
    });
    let (number, factor) = unit.unwrap_or((text, 1));
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| number.parse::<u64>().ok()).flatten();
    number
        .and_then(|number| number.checked_mul(factor))
        .ok_or(Problem::NotASize)
}

/// A host name, in lower case.
pub fn host_name(text: &str) -> Result<String, Problem> {
    let label = |label: &str| {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        (1..=63).contains(&label.len()) && label.bytes().all(legal)
    };
    match text.len() <= HOST_NAME_BYTES_MAX && text.split('.').all(label) {
        true => Ok(text.to_ascii_lowercase()),
        false => Err(Problem::NotAHostName),
    }
}
