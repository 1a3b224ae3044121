//! The file in which a node's word survives a restart, and the record that it was given by.
//!
//! In the form of a slot's record (`wire::keep`): one line of JSON with a checksum over all of it.
//! The state record stands in it as it came, envelope and all, so that it is verified anew at each
//! start, by the keys that are configured then.
//!
//! A word that cannot be read is no word: whoever finds that must not be primary. Never opens a
//! file.

use crate::limits::Limits;
use crate::model::region::{Epoch, Mark, Seal, Subject};
use crate::model::{Id, Revision};
use crate::time::WallMs;
use crate::wire::keep::{KeepError, checked, unchecked};
use serde::{Deserialize, Serialize};

/// The name of the file; no slot's has it, since those end otherwise.
pub const FILE_NAME: &str = "region.node";
/// What one subject takes: its name, two revisions and three epochs.
const WORD_BYTES_MAX: usize = 512;

/// What is kept of region routing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Whose word it is.
    pub node: Id,
    /// What the clock showed when it was last trusted: it cannot show less any more.
    pub trusted_at: WallMs,
    /// The envelope of the state record, as it came.
    pub record: Option<String>,
    /// Another record of its version was seen.
    pub is_conflicted: bool,
    /// Of every subject that ever was routed here.
    pub words: Vec<(Subject, Mark)>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    node: String,
    trusted_at_ms: u64,
    record: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    conflict: bool,
    words: Vec<Word>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Word {
    slot: String,
    floor: u64,
    entered: Option<u64>,
    parent: String,
    unsealed: bool,
    sealed: Option<Sealed>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed {
    epoch: u64,
    head: String,
}

/// Longest file that is read.
pub fn bytes_max(limits: &Limits) -> usize {
    // Escaped in a string of JSON, what JSON is made of takes twice its length.
    let record = 2 * limits.region.record_bytes_max;
    record + 2 * limits.slots_max * WORD_BYTES_MAX + 1024
}

/// Writes the file. Bounded by the record and the number of subjects.
pub fn encode(kept: &Kept) -> Vec<u8> {
    let word = |(subject, mark): &(Subject, Mark)| Word {
        slot: subject.to_string(),
        floor: mark.floor.0,
        entered: mark.entered.map(|epoch| epoch.0),
        parent: mark.parent.to_string(),
        unsealed: mark.is_unsealed,
        sealed: mark.seal.map(|seal| Sealed {
            epoch: seal.epoch.0,
            head: seal.head.to_string(),
        }),
    };
    let line = Line {
        node: kept.node.to_string(),
        trusted_at_ms: kept.trusted_at.as_unix_ms(),
        record: kept.record.clone(),
        conflict: kept.is_conflicted,
        words: kept.words.iter().map(word).collect(),
    };
    // Strings and numbers have no way to fail.
    checked(&serde_json::to_string(&line).unwrap_or_default(), &[])
}

/// Reads the file of `node`. Bounded by the length of `bytes`.
///
/// # Errors
/// Whatever makes it something else than what [`encode`] wrote for this node.
pub fn decode(bytes: &[u8], node: &Id) -> Result<Kept, KeepError> {
    let odd = |problem| KeepError::Header { problem };
    let (line, rest) = unchecked(bytes)?;
    if !rest.is_empty() {
        return Err(odd("something follows it"));
    }
    let line: Line =
        serde_json::from_slice(&line).map_err(|_| odd("a key is missing, unknown or odd"))?;
    if line.node != node.as_str() {
        let found = Id::new(&line.node).ok_or(odd("its node is none"))?;
        let found = found.to_string();
        return Err(KeepError::OtherNode { found });
    }
    let words = line.words.iter().map(word).collect::<Option<_>>();
    Ok(Kept {
        node: node.clone(),
        trusted_at: WallMs::from_unix_ms(line.trusted_at_ms),
        record: line.record,
        is_conflicted: line.conflict,
        words: words.ok_or(odd("a word is none"))?,
    })
}

/// Written only where it is so: files without it are those of a node that saw no such record.
const fn is_false(flag: &bool) -> bool {
    !*flag
}

fn word(word: &Word) -> Option<(Subject, Mark)> {
    let seal = match &word.sealed {
        Some(sealed) => Some(Seal {
            epoch: Epoch(sealed.epoch),
            head: Revision::parse(&sealed.head)?,
        }),
        None => None,
    };
    let mark = Mark {
        floor: Epoch(word.floor),
        entered: word.entered.map(Epoch),
        parent: Revision::parse(&word.parent)?,
        is_unsealed: word.unsealed,
        seal,
    };
    Some((Subject::parse(&word.slot)?, mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Kept {
        let mark = Mark {
            floor: Epoch(6),
            entered: Some(Epoch(5)),
            parent: Revision { epoch: 4, seq: 9 },
            is_unsealed: true,
            seal: Some(Seal {
                epoch: Epoch(5),
                head: Revision { epoch: 5, seq: 3 },
            }),
        };
        Kept {
            node: Id::new("eu-1").unwrap(),
            trusted_at: WallMs::from_unix_ms(1_800_000_000_123),
            record: Some(String::from("{\"document\":\"e30=\"}\n")),
            is_conflicted: true,
            words: vec![
                (Subject::parse("line3/dev").unwrap(), mark),
                (Subject::parse("route:orders").unwrap(), Mark::default()),
            ],
        }
    }

    #[test]
    fn a_word_reads_back_as_it_was_given() {
        for kept in [
            kept(),
            Kept {
                record: None,
                is_conflicted: false,
                words: Vec::new(),
                ..kept()
            },
        ] {
            let bytes = encode(&kept);
            assert!(bytes.len() <= bytes_max(&Limits::PRODUCTION));
            assert_eq!(decode(&bytes, &kept.node), Ok(kept));
        }
    }

    #[test]
    fn a_word_that_is_not_whole_is_none() {
        let kept = kept();
        let bytes = encode(&kept);
        for place in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[place] ^= 1;
            assert!(decode(&flipped, &kept.node).is_err(), "{place}");
            assert!(decode(&bytes[..place], &kept.node).is_err(), "{place}");
        }
        let longer = checked("{\"node\":\"eu-1\"}", b"more");
        assert!(matches!(
            decode(&longer, &kept.node),
            Err(KeepError::Header { .. })
        ));
    }

    #[test]
    fn another_nodes_word_is_not_this_ones() {
        let error = decode(&encode(&kept()), &Id::new("au-1").unwrap()).unwrap_err();
        assert!(error.to_string().contains("node eu-1"), "{error}");
    }

    #[test]
    fn the_largest_file_fits_its_bound() {
        let limits = Limits::PRODUCTION;
        let (name, mark) = ("a".repeat(128), kept().words[0].1);
        let subject = Subject::parse(&format!("{name}/{name}")).unwrap();
        let kept = Kept {
            record: Some("\"".repeat(limits.region.record_bytes_max)),
            words: vec![(subject, mark); limits.slots_max],
            ..kept()
        };
        assert!(encode(&kept).len() <= bytes_max(&limits));
    }
}
