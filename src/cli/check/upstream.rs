//! Is there everything that the upstreams are asked with?
//!
//! Looks at keys, authorities and the folder that keeps what they sent. Asks nobody: an upstream
//! that does not answer now may answer when the relay starts, and the other way round.

use super::keys::read;
use super::{Report, Severity, is_out_of_reach};
use crate::config::{Config, Secret, SecretSource, UpstreamConfig};
use crate::limits::Limits;
use crate::model::Role;
use crate::net::load::authorities;

/// Looks at both upstreams, if there are any.
pub fn check(config: &Config, limits: &Limits, report: &mut Report) {
    let Some(upstreams) = &config.upstream else {
        return;
    };
    for role in Role::ALL {
        let Some(upstream) = upstreams.of(role) else {
            continue;
        };
        let errors = report.count(Severity::Error);
        check_one(role, upstream, limits, report);
        if report.count(Severity::Error) == errors {
            let (role, url, guid) = (role.as_str(), &upstream.url, &upstream.guid);
            report.sound(format_args!("{role}: {url}, instance {guid} (not asked)"));
        }
    }
    if let Some(folder) = &config.state_dir
        && !folder.is_dir()
    {
        let folder = folder.display();
        report.warning(format_args!(
            "$.state_dir: there is no folder {folder}: what the upstream sends is not kept"
        ));
    }
}

fn check_one(role: Role, upstream: &UpstreamConfig, limits: &Limits, report: &mut Report) {
    let path = format!("$.upstream.{}", role.as_str());
    let key_path = match upstream.api_key {
        SecretSource::Inline(_) => format!("{path}.api_key"),
        SecretSource::File(_) => format!("{path}.api_key_file"),
    };
    let key = match &upstream.api_key {
        SecretSource::Inline(key) => Some(key.clone()),
        SecretSource::File(file) => read(&key_path, file, limits, report),
    };
    if key.is_some_and(|key: Secret| !key.is_sendable()) {
        report.error(format_args!(
            "{key_path}: holds a space or a byte outside ASCII, which no API key has"
        ));
    }
    if let Some(file) = &upstream.ca_file
        && !is_out_of_reach(file)
        && let Err(problem) = authorities(file, limits)
    {
        report.error(format_args!("{path}.ca_file: {problem}"));
    }
}
