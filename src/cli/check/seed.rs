//! Does the seed have sound data for every slot?
//!
//! Reads the seed by the code that the relay reads it with, so that what passes here is served.
//! Changes nothing, and a relay that runs does not notice.

use super::Report;
use crate::config::Config;
use crate::limits::Limits;
use crate::wire::seed::Seed;
use std::path::Path;

/// How large the documents are that will be served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Documents {
    /// The seed file itself.
    pub seed_bytes: usize,
    /// The documents of all slots together.
    pub document_bytes: usize,
    /// The largest of them.
    pub largest_document_bytes: usize,
}

/// Looks at `instead` in place of the configured seed, if it is given.
pub fn check(
    config: &Config,
    instead: Option<&Path>,
    limits: &Limits,
    report: &mut Report,
) -> Documents {
    let mut documents = Documents::default();
    let configured = config.seed.as_ref().map(|seed| seed.file.as_path());
    let Some(file) = instead.or(configured) else {
        return documents;
    };
    let path = if instead.is_some() {
        "--seed"
    } else {
        "$.seed.file"
    };
    let shown = file.display();
    let Some(bytes) = report.read(path, file, limits.seed_bytes_max) else {
        return documents;
    };
    documents.seed_bytes = bytes.len();
    let seed = match Seed::parse(&bytes, limits) {
        Ok(seed) => seed,
        Err(error) => {
            report.error(format_args!("{path}: {shown}: {error}"));
            return documents;
        }
    };
    let spoken_of = seed.slots();
    for (index, key) in config.slots.iter().enumerate() {
        if config.operator_slots.contains(key) && !spoken_of.contains(key) {
            report.sound(format_args!("slot {key}: not in the seed, and need not be"));
            continue;
        }
        match seed.snapshot(key, limits) {
            Ok(snapshot) => {
                let (counts, bytes) = (snapshot.counts, snapshot.json.len());
                documents.document_bytes += bytes;
                documents.largest_document_bytes = documents.largest_document_bytes.max(bytes);
                report.sound(format_args!(
                    "slot {key}: {} features, {} properties, {} segments, {bytes} bytes",
                    counts.features, counts.properties, counts.segments,
                ));
            }
            Err(error) => report.error(format_args!("$.slots[{index}]: {key}: {shown}: {error}")),
        }
    }
    documents
}
