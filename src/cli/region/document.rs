//! Records in files: a document as it is signed, or the envelope that nodes pass on.
//!
//! Owns how a file is told to be one or the other, and how a document is given out: on standard
//! output, or whole into a file. What is read here is sound in itself; whether nodes take it is
//! theirs to say.

use super::Failure;
use crate::cli::{Exit, complain, say};
use crate::limits::Limits;
use crate::model::region::Record;
use crate::net::disk::{Access, atomic_write, read_bounded};
use crate::wire::region::{self, Envelope, RecordError, RecordProblem};
use std::path::Path;

/// What a file holds.
pub struct Found {
    pub record: Record,
    /// The file, as it is.
    pub bytes: Vec<u8>,
    /// The envelope, unless it is a bare document.
    pub envelope: Option<Envelope>,
}

/// Reads a document or an envelope. Bounded by `region.record_bytes_max`.
///
/// # Errors
/// What is wrong with it, as the line for people.
pub fn read(path: &Path, limits: &Limits) -> Result<Found, Failure> {
    let bytes = content(path, limits)?;
    let refused = |error: RecordError| (Exit::Refused, format!("{}: {error}", path.display()));
    let envelope = match region::unpack(&bytes, limits) {
        Ok(envelope) => Some(envelope),
        // Without its first key it is no envelope, and may be a document.
        Err(error) if error.problem == RecordProblem::Missing => None,
        Err(error) => return Err(refused(error)),
    };
    let document = envelope.as_ref().map(|envelope| &envelope.document);
    let record = region::read(document.unwrap_or(&bytes), limits).map_err(refused)?;
    Ok(Found {
        record,
        bytes,
        envelope,
    })
}

/// The bytes of a file that holds a record or a part of one.
pub fn content(path: &Path, limits: &Limits) -> Result<Vec<u8>, Failure> {
    match read_bounded(path, limits.region.record_bytes_max) {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err((Exit::Refused, format!("{}: no such file", path.display()))),
        Err(error) => Err((Exit::Refused, error.to_string())),
    }
}

/// Gives a text out: to the file, or on standard output, where nothing else is said.
pub fn give(text: &str, out: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = out else {
        say(format_args!("{}", text.trim_end()));
        return Ok(());
    };
    let written = atomic_write(path, text.as_bytes(), Access::Public);
    written.map_err(|error| (Exit::Failed, error.to_string()))
}

/// What is to be known of a document, where its text is not.
pub fn tell(words: &[String]) {
    for line in words {
        complain(format_args!("{line}"));
    }
}
