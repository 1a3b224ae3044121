//! Is there everything that a part in region routing takes?
//!
//! Reads peer key, authorities and record by the code that the relay reads them with. Asks no peer,
//! and does not know which record counts where a relay runs: a file may be older than that, and is
//! sound all the same.

use super::{Report, is_out_of_reach, keys};
use crate::config::{Config, RecordTrust, Region, SecretSource};
use crate::limits::Limits;
use crate::model::region::{Node, Record};
use crate::net::load::authorities;
use crate::wire::region::{RecordError, Signer, read, unpack};
use std::path::Path;

/// Looks at the part in region routing, if there is one.
pub fn check(config: &Config, limits: &Limits, report: &mut Report) {
    let Some(region) = &config.region else {
        return;
    };
    check_key(region, limits, report);
    if let Some(file) = &region.ca_file
        && !is_out_of_reach(file)
        && let Err(problem) = authorities(file, limits)
    {
        report.error(format_args!("$.region.ca_file: {problem}"));
    }
    if let Some(file) = &region.record {
        check_record(region, file, limits, report);
    }
}

fn check_key(region: &Region, limits: &Limits, report: &mut Report) {
    // The configuration has judged one that stands in it.
    let SecretSource::File(file) = &region.peer_key else {
        return;
    };
    let path = "$.region.peer_key_file";
    let Some(key) = keys::read(path, file, limits, report) else {
        return;
    };
    let bytes_min = limits.region.peer_key_bytes_min;
    if key.bytes().len() < bytes_min || !key.is_sendable() {
        report.error(format_args!(
            "{path}: at least {bytes_min} letters, digits or signs, without spaces; \
             `staffetta key new` makes a key"
        ));
    }
}

fn check_record(region: &Region, file: &Path, limits: &Limits, report: &mut Report) {
    let path = "$.region.record";
    let Some(bytes) = report.read(path, file, limits.region.record_bytes_max) else {
        return;
    };
    let record = match sound(region, &bytes, limits) {
        Ok(record) => record,
        Err(error) => return report.error(format_args!("{path}: {}: {error}", file.display())),
    };
    let (cluster, version) = (&record.cluster, record.version);
    report.sound(format_args!(
        "state record: v{version} of cluster {cluster}, {} nodes (not asked)",
        record.nodes.len()
    ));
    if record.find_node(&region.node).is_none() {
        report.warning(format_args!(
            "$.region.node: the record has no node {}: this one forwards, and is never primary",
            region.node
        ));
    }
    let in_the_open = |node: &&Node| node.url.starts_with("http://");
    let names = record.nodes.iter().filter(in_the_open);
    let names: Vec<&str> = names.map(|node| node.name.as_str()).collect();
    if !names.is_empty() {
        report.warning(format_args!(
            "{path}: without TLS the peer key and all that is written can be read along the way: \
             {}",
            names.join(", ")
        ));
    }
}

fn sound(region: &Region, bytes: &[u8], limits: &Limits) -> Result<Record, RecordError> {
    let envelope = unpack(bytes, limits)?;
    if let RecordTrust::Signed(keys) = &region.trust {
        let signers: Vec<Signer> = keys.iter().filter_map(|key| Signer::parse(key)).collect();
        envelope.verify(&signers)?;
    }
    read(&envelope.document, limits)
}
