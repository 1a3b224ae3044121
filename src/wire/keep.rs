//! The file in which a slot's last known good document survives a restart.
//!
//! A record is one line of JSON (which format, whose, where from, what came before), then the
//! document as it is served. The line begins with the format and a SHA-256 over every byte that
//! follows it, so that one flipped bit anywhere is seen; the digest of the document's content says
//! nothing about white space or about the line.
//!
//! Policy: a record is believed whole or not at all. Beyond the checksum, the document passes
//! through the same reader as a seed: what an older relay found good may be refused by this one,
//! whose SDKs know better.
//!
//! Never opens a file. The name of a slot's file is decided here, because it is part of the format.

use std::fmt;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Deserializer, Serialize};

use super::document::DocumentError;
use super::seed::Seed;
use crate::limits::Limits;
use crate::model::{Digest, Past, Revision, SlotKey, Snapshot, Source};
use crate::time::Wall;

/// What every record of the only format begins with.
const FORMAT: &str = r#"{"format":1,"sha256":""#;
/// What follows the checksum.
const MORE: &str = r#"","#;
const CHECKSUM_BYTES: usize = 64;
/// Longest name of two ids that is used as it is. File systems take 255 bytes, and what is written
/// beside the file takes 15 of them.
const NAME_BYTES_MAX: usize = 200;

/// What is kept of one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub slot: SlotKey,
    /// Digest of the document's canonical content.
    pub digest: Digest,
    /// Who first brought it; never the state folder.
    pub source: Source,
    /// What the clock said when it was kept; for people, and it may be wrong.
    pub saved_at: Wall,
    /// The document's own digest is its newest.
    pub past: Past,
    /// The document as it is served.
    pub document: Bytes,
}

/// The first line, behind its checksum.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    slot: String,
    digest: String,
    source: String,
    saved_at: u64,
    history: Vec<(String, String)>,
    seeds: Vec<String>,
    /// Of slots that are or were the operator's only, so that any relay reads the others.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "given"
    )]
    revision: Option<String>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "given"
    )]
    pushed: Option<u64>,
    /// Of slots that were routed between regions only.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "given"
    )]
    parent: Option<String>,
    bytes: usize,
}

/// A key that stands there has a value: there is one way to leave it out.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// Why a file is no record that can be used. What to do is the same for all: it is set aside, and
/// the next document of the slot makes a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeepError {
    /// No record at all: empty, NUL bytes, half a line, something else.
    NotARecord,
    /// A record of another version of the relay.
    UnknownFormat { format: u64 },
    /// Not the bytes that were written: cut off, or damaged.
    Damaged,
    /// The line is whole and makes no sense.
    Header { problem: &'static str },
    /// The record of another slot: the file was renamed.
    OtherSlot { found: String },
    /// The word of another node: the file was copied, or the node was renamed.
    OtherNode { found: String },
    /// The document is not one that this relay serves.
    Document(DocumentError),
    /// The document is good, and another one than the line says.
    OtherDocument,
}

impl fmt::Display for KeepError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeepError::NotARecord => formatter.write_str("this is no record of a relay"),
            KeepError::UnknownFormat { format } => write!(
                formatter,
                "a record in format {format}, of another version of the relay"
            ),
            KeepError::Damaged => formatter
                .write_str("damaged, or not written whole: check the disk if this happens again"),
            KeepError::Header { problem } => write!(formatter, "the first line is odd: {problem}"),
            KeepError::OtherSlot { found } => {
                write!(formatter, "the record of slot {found}: was it renamed?")
            }
            KeepError::OtherNode { found } => {
                write!(
                    formatter,
                    "the word of node {found}: was it copied, or renamed?"
                )
            }
            KeepError::Document(error) => {
                write!(formatter, "its document is refused: {error}")
            }
            KeepError::OtherDocument => {
                formatter.write_str("its document is another one than it says")
            }
        }
    }
}

impl std::error::Error for KeepError {}

/// The name of a slot's file: both ids, or a digest of them when they are long.
///
/// `@` is part of no id, so that no two slots share a name; on a file system that takes upper and
/// lower case for the same, two slots that differ in nothing else do.
pub fn file_name(slot: &SlotKey) -> String {
    let readable = format!("{}@{}", slot.collection, slot.environment);
    match readable.len() <= NAME_BYTES_MAX {
        true => format!("{readable}.slot"),
        false => {
            let name = HEXLOWER.encode(digest(&SHA256, readable.as_bytes()).as_ref());
            format!("{name}.slot")
        }
    }
}

/// Longest record that is read.
pub fn bytes_max(limits: &Limits) -> usize {
    // Two digests in hex with their source take 90 bytes.
    let lists = (limits.history_digests_max + limits.history_seeds_max) * 96;
    limits.document_bytes_max + lists + 2048
}

/// Writes a record. Bounded by the length of the document.
pub fn encode(record: &Record) -> Vec<u8> {
    let Past {
        adopted,
        seeds,
        revision,
        parent,
        pushed_unix_s,
    } = &record.past;
    let is_operators = *revision > Revision::default();
    let is_routed = is_operators && *parent > Revision::default();
    let known = |(digest, source): &(Digest, Source)| (digest.to_string(), source.as_str().into());
    let header = Header {
        slot: record.slot.to_string(),
        digest: record.digest.to_string(),
        source: record.source.as_str().to_owned(),
        saved_at: record.saved_at.as_unix(),
        history: adopted.iter().map(known).collect(),
        seeds: seeds.iter().map(Digest::to_string).collect(),
        revision: is_operators.then(|| revision.to_string()),
        pushed: pushed_unix_s.filter(|_| is_operators),
        parent: is_routed.then(|| parent.to_string()),
        bytes: record.document.len(),
    };
    // Strings and numbers have no way to fail.
    let line = serde_json::to_string(&header).unwrap_or_default();
    checked(&line, &record.document)
}

/// `line`, an object, with the format and a checksum over all that follows put before its keys, and
/// `rest` below it. Bounded by their lengths.
pub(super) fn checked(line: &str, rest: &[u8]) -> Vec<u8> {
    let mut bytes =
        Vec::with_capacity(FORMAT.len() + CHECKSUM_BYTES + MORE.len() + line.len() + rest.len());
    bytes.extend_from_slice(FORMAT.as_bytes());
    bytes.extend_from_slice(&[b'0'; CHECKSUM_BYTES]);
    let covered = bytes.len();
    bytes.extend_from_slice(MORE.as_bytes());
    bytes.extend_from_slice(line.strip_prefix('{').unwrap_or_default().as_bytes());
    bytes.push(b'\n');
    bytes.extend_from_slice(rest);
    let checksum = HEXLOWER.encode(digest(&SHA256, &bytes[covered..]).as_ref());
    bytes[FORMAT.len()..covered].copy_from_slice(checksum.as_bytes());
    bytes
}

/// What [`checked`] was given: the line, an object again, and what lies below it. Bounded by the
/// length of `bytes`.
///
/// # Errors
/// `NotARecord`, `UnknownFormat`, `Damaged`, or a line that has no end.
pub(super) fn unchecked(bytes: &[u8]) -> Result<(Vec<u8>, &[u8]), KeepError> {
    let Some(rest) = bytes.strip_prefix(FORMAT.as_bytes()) else {
        return Err(foreign(bytes));
    };
    let Some((checksum, covered)) = rest.split_at_checked(CHECKSUM_BYTES) else {
        return Err(KeepError::Damaged);
    };
    if HEXLOWER
        .encode(digest(&SHA256, covered).as_ref())
        .as_bytes()
        != checksum
    {
        return Err(KeepError::Damaged);
    }
    let odd = |problem| KeepError::Header { problem };
    let covered = covered
        .strip_prefix(MORE.as_bytes())
        .ok_or(odd("nothing follows the checksum"))?;
    let end = covered.iter().position(|byte| *byte == b'\n');
    let (line, rest) = covered.split_at(end.ok_or(odd("it has no end"))?);
    Ok(([b"{", line].concat(), rest.get(1..).unwrap_or_default()))
}

/// Reads the record of `slot` and judges its document anew. Bounded by the length of `bytes`.
///
/// # Errors
/// Whatever makes it something else than what [`encode`] wrote for this slot, or a document that
/// no slot may serve.
pub fn decode(
    bytes: &[u8],
    slot: &SlotKey,
    limits: &Limits,
) -> Result<(Record, Snapshot), KeepError> {
    let (line, document) = unchecked(bytes)?;
    let odd = |problem| KeepError::Header { problem };
    let header: Header =
        serde_json::from_slice(&line).map_err(|_| odd("a key is missing, unknown or odd"))?;
    if header.slot != slot.to_string() {
        let found = SlotKey::parse(&header.slot).ok_or(odd("its slot is none"))?;
        let found = found.to_string();
        return Err(KeepError::OtherSlot { found });
    }
    if header.bytes != document.len() {
        return Err(odd("the document is longer or shorter"));
    }
    let record = record(header, slot, document, limits)?;
    let seed = Seed::parse(document, limits).map_err(KeepError::Document)?;
    let snapshot = seed.snapshot(slot, limits).map_err(KeepError::Document)?;
    match snapshot.digest == record.digest {
        true => Ok((record, snapshot)),
        false => Err(KeepError::OtherDocument),
    }
}

fn record(
    header: Header,
    slot: &SlotKey,
    document: &[u8],
    limits: &Limits,
) -> Result<Record, KeepError> {
    let odd = |problem| KeepError::Header { problem };
    let source = |text: &str| match Source::parse(text) {
        None | Some(Source::Cache) => Err(odd("a source is none")),
        Some(source) => Ok(source),
    };
    let digest = |text: &String| parse_digest(text).ok_or(odd("a digest is none"));
    let known = |(digest_text, source_text): &(String, String)| {
        Ok((digest(digest_text)?, source(source_text)?))
    };
    if header.history.len() > limits.history_digests_max
        || header.seeds.len() > limits.history_seeds_max
    {
        return Err(odd("a list is too long"));
    }
    let revision = match header.revision.as_deref().map(Revision::parse) {
        None if header.pushed.is_none() => Revision::default(),
        Some(Some(revision)) if revision > Revision::default() => revision,
        _ => return Err(odd("its revision is none")),
    };
    let parent = match header.parent.as_deref().map(Revision::parse) {
        None => Revision::default(),
        Some(Some(parent)) if parent > Revision::default() && parent < revision => parent,
        _ => return Err(odd("what it was built on is no revision before it")),
    };
    let record = Record {
        slot: slot.clone(),
        digest: digest(&header.digest)?,
        source: source(&header.source)?,
        saved_at: Wall::from_unix(header.saved_at),
        past: Past {
            adopted: header.history.iter().map(known).collect::<Result<_, _>>()?,
            seeds: header.seeds.iter().map(digest).collect::<Result<_, _>>()?,
            revision,
            parent,
            pushed_unix_s: header.pushed,
        },
        document: Bytes::copy_from_slice(document),
    };
    match record.past.adopted.last() {
        Some((newest, _)) if *newest == record.digest => Ok(record),
        Some(_) | None => Err(odd("the history ends with another document")),
    }
}

/// What begins otherwise: a record of another format, or none.
fn foreign(bytes: &[u8]) -> KeepError {
    #[derive(Deserialize)]
    struct Formatted {
        format: u64,
    }
    let line = bytes.split(|byte| *byte == b'\n').next();
    let read = line.map(serde_json::from_slice::<Formatted>);
    match read {
        Some(Ok(Formatted { format })) if format != 1 => KeepError::UnknownFormat { format },
        Some(_) | None => KeepError::NotARecord,
    }
}

fn parse_digest(text: &str) -> Option<Digest> {
    let bytes = HEXLOWER.decode(text.as_bytes()).ok()?;
    bytes.try_into().ok().map(Digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: &Limits = &Limits::PRODUCTION;

    fn slot() -> SlotKey {
        SlotKey::parse("c/e").unwrap()
    }

    fn record() -> Record {
        let seed = include_bytes!("../../seeds/demo.json");
        let slot = SlotKey::parse("inventory/dev").unwrap();
        let seed = Seed::parse(seed, LIMITS).unwrap();
        let snapshot = seed.snapshot(&slot, LIMITS).unwrap();
        Record {
            slot,
            digest: snapshot.digest,
            source: Source::Primary,
            saved_at: Wall::from_unix(1_800_000_000),
            past: Past {
                adopted: vec![
                    (Digest([1; 32]), Source::Seed),
                    (Digest([2; 32]), Source::Backup),
                    (snapshot.digest, Source::Primary),
                ],
                seeds: vec![Digest([1; 32])],
                ..Past::default()
            },
            document: snapshot.json,
        }
    }

    /// The checksum put right after an edit, so that what lies behind it is judged.
    fn mended(edited: &str) -> Vec<u8> {
        let covered = &edited[FORMAT.len() + CHECKSUM_BYTES..];
        let checksum = HEXLOWER.encode(digest(&SHA256, covered.as_bytes()).as_ref());
        format!("{FORMAT}{checksum}{covered}").into_bytes()
    }

    #[test]
    fn a_record_reads_back_with_the_very_bytes_that_were_served() {
        let record = record();
        let bytes = encode(&record);
        assert!(bytes.len() <= bytes_max(LIMITS));
        let (found, snapshot) = decode(&bytes, &record.slot, LIMITS).unwrap();
        assert_eq!(found, record);
        assert_eq!(snapshot.json, record.document);
        assert_eq!(snapshot.digest, record.digest);
    }

    /// What relays wrote before there were pushes is read, and slots without any are written so.
    #[test]
    fn a_revision_is_in_the_record_of_an_operators_slot_only() {
        let mut record = record();
        let text = String::from_utf8(encode(&record)).unwrap();
        assert!(!text.contains("revision") && !text.contains("pushed"));
        record.past.revision = Revision { epoch: 0, seq: 17 };
        let filled = String::from_utf8(encode(&record)).unwrap();
        assert!(filled.contains(r#""revision":"0-17","bytes":"#));
        record.past.pushed_unix_s = Some(1_800_000_000);
        let bytes = encode(&record);
        let (found, _) = decode(&bytes, &record.slot, LIMITS).unwrap();
        assert_eq!(found, record);
        let text = String::from_utf8(bytes).unwrap();
        for (from, to) in [
            (r#""0-17""#, r#""0-0""#),
            (r#""0-17""#, r#""0-017""#),
            (r#""0-17""#, "null"),
            (r#""revision":"0-17","#, ""),
            (r#""pushed":1800000000"#, r#""pushed":null"#),
        ] {
            let edited = text.replacen(from, to, 1);
            let error = decode(&mended(&edited), &record.slot, LIMITS).unwrap_err();
            assert!(matches!(error, KeepError::Header { .. }), "{to}: {error}");
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_seen() {
        let record = record();
        let bytes = encode(&record);
        let end_of_line = bytes.iter().position(|byte| *byte == b'\n').unwrap();
        let places = (0..=end_of_line).chain((end_of_line..bytes.len()).step_by(97));
        for place in places {
            let mut flipped = bytes.clone();
            flipped[place] ^= 1 << (place % 8);
            assert!(decode(&flipped, &record.slot, LIMITS).is_err(), "{place}");
            let cut = decode(&bytes[..place], &record.slot, LIMITS);
            assert!(cut.is_err(), "{place}");
        }
    }

    #[test]
    fn what_is_no_record_is_told_from_what_is_damaged() {
        let record = record();
        let bytes = encode(&record);
        let mut zeros = bytes.clone();
        zeros.fill(0);
        let future = b"{\"format\":2,\"anything\":[]}\nrest";
        for (bytes, expected) in [
            (&b""[..], KeepError::NotARecord),
            (&zeros, KeepError::NotARecord),
            (b"{\"format\":1", KeepError::NotARecord),
            (b"{\"format\":1}", KeepError::NotARecord),
            (future, KeepError::UnknownFormat { format: 2 }),
            (&bytes[..bytes.len() / 2], KeepError::Damaged),
            (&bytes[..FORMAT.len() + 3], KeepError::Damaged),
        ] {
            let error = decode(bytes, &record.slot, LIMITS).unwrap_err();
            assert_eq!(error, expected);
        }
        let error = decode(&bytes, &slot(), LIMITS).unwrap_err();
        assert!(error.to_string().contains("inventory/dev"), "{error}");
    }

    #[test]
    fn a_whole_line_that_makes_no_sense_is_refused() {
        let record = record();
        let text = String::from_utf8(encode(&record)).unwrap();
        let digest = record.digest.to_string();
        for (from, to) in [
            (r#""source":"primary""#, r#""source":"cache""#),
            (r#""source":"primary""#, r#""source":"somebody""#),
            (r#""saved_at":"#, r#""odd":1,"saved_at":"#),
            (r#""bytes":"#, r#""bytes":1"#),
            ("\"backup\"]", "\"cache\"]"),
            (digest.as_str(), "abc"),
            ("\n", ""),
        ] {
            let edited = text.replacen(from, to, 1);
            assert_ne!(edited, text, "{from}");
            let error = decode(&mended(&edited), &record.slot, LIMITS).unwrap_err();
            assert!(matches!(error, KeepError::Header { .. }), "{from}: {error}");
        }
    }

    #[test]
    fn the_document_is_judged_anew() {
        let record = record();
        let text = String::from_utf8(encode(&record)).unwrap();
        let edited = text.replacen("\"feature_id\"", "\"feature_ix\"", 1);
        let error = decode(&mended(&edited), &record.slot, LIMITS).unwrap_err();
        assert!(matches!(error, KeepError::Document(_)), "{error}");
        let edited = text.replacen("\"enabled\":true", "\"enabled\":null", 1);
        assert_ne!(edited, text);
        let mut other = record.clone();
        other.digest = Digest([9; 32]);
        other.past.adopted.push((other.digest, Source::Primary));
        let error = decode(&encode(&other), &record.slot, LIMITS).unwrap_err();
        assert_eq!(error, KeepError::OtherDocument);
    }

    #[test]
    fn names_are_those_of_files_and_of_one_slot_only() {
        let long = "a".repeat(128);
        let name = |text: &str| file_name(&SlotKey::parse(text).unwrap());
        assert_eq!(name("inventory/dev"), "inventory@dev.slot");
        let names = [
            name("../.."),
            name(&format!("{long}/{long}")),
            name(&format!("{long}/{}", "a".repeat(127))),
            name("a-b/c"),
            name("a/b-c"),
        ];
        for (place, name) in names.iter().enumerate() {
            assert!(name.len() <= NAME_BYTES_MAX + 5 && !name.contains('/'));
            assert!(!names[place + 1..].contains(name), "{name}");
        }
    }
}
