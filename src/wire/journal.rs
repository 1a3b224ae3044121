//! The lines of the event spool.
//!
//! A line is `kind entries checksum body`: a letter, how many entries the body holds, CRC-32 over
//! these and the body, and the body as it could be posted. So a file of the spool can be read by
//! people, and what is read back goes through the same reader as what came from clients. The mark,
//! which says what was delivered, is a line as well.
//!
//! Invariant: a line that was cut short, at whatever byte, is no line; nor is one of NUL bytes.

use crate::model::report::{Entry, ReportKind};
use serde::{Deserialize, Serialize};

use super::usage;

/// Longest head of a line: letter, ten digits, eight digits, spaces, and the line's end.
pub const OVERHEAD_BYTES: usize = 24;

const MARK: u8 = b'm';

/// A report as it stands in the spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    pub kind: ReportKind,
    pub entries: u32,
    /// What `usage::Report` reads.
    pub body: &'a str,
    /// Bytes of the whole line, its end included.
    pub bytes: usize,
}

/// A place in the spool: between two lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// Entries that were ever written before it.
    pub entry: u64,
    /// The file: its first entry, counted the same way.
    pub segment: u64,
    /// Bytes from its beginning.
    pub offset: u64,
}

/// How far the spool was delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// All before it.
    pub start: Place,
    /// Of what lies between `start` and `end`, summed again and cut into batches...
    pub end: Place,
    /// ...so many batches.
    pub done: u32,
}

/// A report as a line.
pub fn encode(kind: ReportKind, envelope: &str, entries: &[Entry]) -> String {
    let letter = match kind {
        ReportKind::Usage => b'u',
        ReportKind::Analytics => b'a',
    };
    let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
    line(letter, count, &usage::body(envelope, entries))
}

/// The line at the beginning of `bytes`; `None` when no whole one stands there.
///
/// Bounded by the length of the line.
pub fn decode(bytes: &[u8]) -> Option<Line<'_>> {
    let (letter, entries, body, bytes) = split(bytes)?;
    let kind = match letter {
        b'u' => ReportKind::Usage,
        b'a' => ReportKind::Analytics,
        _ => return None,
    };
    Some(Line {
        kind,
        entries,
        body,
        bytes,
    })
}

/// The file that says what was delivered.
pub fn encode_mark(mark: &Mark) -> String {
    // Numbers under fixed names: there is nothing in it to fail on.
    let body = serde_json::to_string(mark).unwrap_or_default();
    line(MARK, 0, &body)
}

/// Reads it; `None` for anything but one whole mark.
pub fn decode_mark(bytes: &[u8]) -> Option<Mark> {
    let (letter, _, body, length) = split(bytes)?;
    let whole = letter == MARK && length == bytes.len();
    serde_json::from_str(body).ok().filter(|_| whole)
}

fn line(letter: u8, entries: u32, body: &str) -> String {
    head(letter, entries, body) + body + "\n"
}

fn head(letter: u8, entries: u32, body: &str) -> String {
    let sum = checksum(letter, entries, body);
    format!("{} {entries} {sum:08x} ", letter as char)
}

fn split(bytes: &[u8]) -> Option<(u8, u32, &str, usize)> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let text = std::str::from_utf8(bytes.get(..end)?).ok()?;
    let mut parts = text.splitn(4, ' ');
    let letter = parts.next().filter(|letter| letter.len() == 1)?;
    let letter = *letter.as_bytes().first()?;
    let entries = parts.next()?.parse().ok()?;
    let body = parts.nth(1)?;
    // A count in other digits, or with a sign, is not what was written either.
    let is_whole = text.starts_with(&head(letter, entries, body));
    is_whole.then_some((letter, entries, body, end + 1))
}

fn checksum(letter: u8, entries: u32, body: &str) -> u32 {
    let mut sum = flate2::Crc::new();
    sum.update(&[letter]);
    sum.update(&entries.to_be_bytes());
    sum.update(body.as_bytes());
    sum.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> Entry {
        let text = text.into();
        Entry { text, sum: None }
    }

    #[test]
    fn a_line_reads_back_as_it_was_written() {
        let (one, two) = (entry("{\"a\":1}"), entry("{\"b\":\"é\"}"));
        let first = encode(ReportKind::Analytics, "\"type\":\"t\"", &[one, two]);
        let second = encode(ReportKind::Usage, "", &[]);
        let both = format!("{first}{second}");
        let read = decode(both.as_bytes()).unwrap();
        assert_eq!(read.kind, ReportKind::Analytics);
        assert_eq!(read.body, r#"{"type":"t","usages":[{"a":1},{"b":"é"}]}"#);
        assert_eq!((read.entries, read.bytes), (2, first.len()));
        assert!(first.len() <= read.body.len() + OVERHEAD_BYTES);
        let read = decode(&both.as_bytes()[read.bytes..]).unwrap();
        assert_eq!((read.kind, read.entries), (ReportKind::Usage, 0));
    }

    #[test]
    fn what_was_cut_or_changed_is_no_line() {
        let line = encode(ReportKind::Usage, "\"a\":1", &[entry("{}")]);
        for end in 0..line.len() {
            assert_eq!(decode(&line.as_bytes()[..end]), None, "{end}");
            for bit in 0..8 {
                let mut changed = line.clone().into_bytes();
                changed[end] ^= 1 << bit;
                assert_eq!(decode(&changed), None, "byte {end}, bit {bit}");
            }
        }
        assert_eq!(decode(&[0; 100]), None);
    }

    #[test]
    fn a_mark_is_one_whole_line() {
        let place = |entry| Place {
            entry,
            segment: 7,
            offset: u64::MAX,
        };
        let mark = Mark {
            start: place(7),
            end: place(u64::MAX),
            done: 3,
        };
        let text = encode_mark(&mark);
        assert_eq!(decode_mark(text.as_bytes()), Some(mark));
        for other in [
            "",
            "\n",
            "m 0 00000000 {}\n",
            &text[1..],
            &format!("{text}x"),
        ] {
            assert_eq!(decode_mark(other.as_bytes()), None, "{other:?}");
        }
        assert_eq!(decode(text.as_bytes()), None);
        assert!(decode_mark(encode(ReportKind::Usage, "", &[]).as_bytes()).is_none());
    }
}
