//! One line of the log, laid out and made harmless.
//!
//! Owns: the three formats, and the escape of every character that is not printable ASCII, so that
//! no peer, file or seed can start a line of its own, colour a terminal or turn text around.
//!
//! Never: allocates, or grows past [`LINE_BYTES_MAX`]; what does not fit is cut and says so.
//!
//! Invariant: a line ends with its only newline, and in JSON it is one whole object.

use super::Level;
use crate::net::clock;
use crate::time::Wall;
use std::fmt::{self, Arguments, Write as _};
use std::os::fd::AsFd;

/// The longest line. Half of `PIPE_BUF`, so that a pipe that has room at all takes it whole.
pub(super) const LINE_BYTES_MAX: usize = 2048;

/// What the end of a cut line takes: `..."}` and the newline.
const TAIL_BYTES: usize = 6;

/// The longest text of a peer that a line shows.
const UNTRUSTED_BYTES_MAX: usize = 120;

/// How lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people: time, level, text.
    Plain,
    /// For systemd's journal, which has the time: priority, text.
    Journal,
    /// For collectors: one object a line with `time`, `level`, `text`.
    Json,
}

impl Format {
    /// `Journal` when stderr is the journal's own socket, else `Plain`.
    ///
    /// `JOURNAL_STREAM` names that socket by device and inode; children inherit the variable even
    /// when their stderr goes elsewhere, so both are compared.
    pub fn detect() -> Format {
        let named = std::env::var("JOURNAL_STREAM").unwrap_or_default();
        match is_stream(&named, std::io::stderr()) {
            true => Format::Journal,
            false => Format::Plain,
        }
    }
}

fn is_stream(named: &str, descriptor: impl AsFd) -> bool {
    let Some((device, inode)) = named.split_once(':') else {
        return false;
    };
    let named = (device.parse::<u64>().ok(), inode.parse::<u64>().ok());
    rustix::fs::fstat(descriptor)
        .is_ok_and(|found| named == (Some(found.st_dev), Some(found.st_ino)))
}

impl Level {
    /// syslog's number, which the journal reads as `<N>`.
    const fn priority(self) -> u8 {
        match self {
            Level::Error => 3,
            Level::Warn => 4,
            Level::Note => 6,
            Level::Debug => 7,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Note => "info",
            Level::Debug => "debug",
        }
    }
}

/// A finished line.
pub(super) struct Line {
    bytes: [u8; LINE_BYTES_MAX],
    length: usize,
}

impl Line {
    pub(super) fn new(format: Format, level: Level, wall: Wall, text: Arguments<'_>) -> Line {
        let mut line = Line {
            bytes: [0; LINE_BYTES_MAX],
            length: 0,
        };
        let time = humantime::format_rfc3339_seconds(clock::writable(wall).to_system());
        // The heads fit, always; if ever one did not, the line would be cut like any other.
        let _ = match format {
            Format::Plain => write!(line, "{time} {:5} ", level.as_str()),
            Format::Journal => write!(line, "<{}>", level.priority()),
            Format::Json => {
                let level = level.as_str();
                write!(line, r#"{{"time":"{time}","level":"{level}","text":""#)
            }
        };
        let in_json = format == Format::Json;
        let mut escaping = Escaping {
            line: &mut line,
            in_json,
        };
        if escaping.write_fmt(text).is_err() {
            line.end(b"...");
        }
        if in_json {
            line.end(b"\"}");
        }
        line.end(b"\n");
        line
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Appends what there is room for, up to `bytes_max` of the whole line.
    fn append(&mut self, bytes: &[u8], bytes_max: usize) -> fmt::Result {
        let end = self.length.saturating_add(bytes.len());
        if end > bytes_max {
            return Err(fmt::Error);
        }
        let room = self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?;
        room.copy_from_slice(bytes);
        self.length = end;
        Ok(())
    }

    /// Appends to the room that only the end of a line uses.
    fn end(&mut self, bytes: &[u8]) {
        // `TAIL_BYTES` is the sum of all that is ever ended with.
        let _ = self.append(bytes, LINE_BYTES_MAX);
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.append(text.as_bytes(), LINE_BYTES_MAX - TAIL_BYTES)
    }
}

/// Writes text into a line so that only printable ASCII arrives.
struct Escaping<'a> {
    line: &'a mut Line,
    in_json: bool,
}

impl fmt::Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|letter| self.write_char(letter))
    }

    fn write_char(&mut self, letter: char) -> fmt::Result {
        // An escape is cut as a whole: it is laid out first.
        let mut escape = Escape::default();
        match letter {
            '"' | '\\' if self.in_json => write!(escape, "\\{letter}")?,
            ' '..='~' => return self.line.write_char(letter),
            '\n' => escape.write_str("\\n")?,
            '\r' => escape.write_str("\\r")?,
            '\t' => escape.write_str("\\t")?,
            _ if self.in_json => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    write!(escape, "\\u{unit:04x}")?;
                }
            }
            _ => write!(escape, "\\u{{{:x}}}", u32::from(letter))?,
        }
        self.line.write_str(escape.as_str())
    }
}

/// The longest escape is a surrogate pair: 12 bytes.
#[derive(Default)]
struct Escape(heapless::String<12>);

impl Escape {
    fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Write for Escape {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.push_str(text).map_err(|_| fmt::Error)
    }
}

/// Bytes of a peer, as a log line or a page may show them: printable ASCII as it is, the rest as
/// `\xNN`, quotes and backslashes escaped, and no more than 120 bytes of them.
#[derive(Clone, Copy, Debug)]
pub struct Untrusted<'a>(pub &'a [u8]);

impl fmt::Display for Untrusted<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.len().min(UNTRUSTED_BYTES_MAX);
        for &byte in self.0.iter().take(shown) {
            match byte {
                b'"' | b'\\' => write!(formatter, "\\{}", char::from(byte))?,
                b' '..=b'~' => formatter.write_char(char::from(byte))?,
                _ => write!(formatter, "\\x{byte:02x}")?,
            }
        }
        match self.0.len() - shown {
            0 => Ok(()),
            more => write!(formatter, "...(+{more} bytes)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::MetadataExt as _;

    const FORMATS: [Format; 3] = [Format::Plain, Format::Journal, Format::Json];

    fn line(format: Format, text: Arguments<'_>) -> Vec<u8> {
        let line = Line::new(format, Level::Note, Wall::from_unix(0), text);
        line.as_bytes().to_vec()
    }

    #[test]
    fn hostile_text_stays_one_line_of_ascii() {
        let hostile = "a\nb\r\t\u{1b}[31m\u{0}\u{7f}\u{9b}\u{202e}\u{2028}é😀\"\\";
        for format in FORMATS {
            let bytes = line(format, format_args!("{hostile}"));
            let (last, body) = bytes.split_last().unwrap();
            assert_eq!(*last, b'\n');
            assert!(
                body.iter().all(|byte| (b' '..=b'~').contains(byte)),
                "{format:?}"
            );
        }
        let json = line(Format::Json, format_args!("{hostile}"));
        let object: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(object["text"], hostile);
        let expected = concat!(
            r"<6>a\nb\r\t\u{1b}[31m\u{0}\u{7f}\u{9b}",
            r#"\u{202e}\u{2028}\u{e9}\u{1f600}"\"#,
            "\n"
        );
        let journal = line(Format::Journal, format_args!("{hostile}"));
        assert_eq!(String::from_utf8(journal).unwrap(), expected);
    }

    #[test]
    fn endless_text_is_cut_and_the_object_is_whole() {
        for letter in ["x", "\n", "😀", "\""] {
            let endless = letter.repeat(LINE_BYTES_MAX);
            for format in FORMATS {
                let bytes = line(format, format_args!("{endless}"));
                assert!(bytes.len() <= LINE_BYTES_MAX);
                assert!(bytes.len() > LINE_BYTES_MAX - 20);
                let text = String::from_utf8(bytes).unwrap();
                let cut = match format {
                    Format::Plain | Format::Journal => "...\n",
                    Format::Json => "...\"}\n",
                };
                assert!(text.ends_with(cut), "{format:?} {letter:?}");
                if format == Format::Json {
                    serde_json::from_str::<serde_json::Value>(&text).unwrap();
                }
            }
        }
    }

    #[test]
    fn text_at_the_bound_is_not_cut() {
        let room = LINE_BYTES_MAX - TAIL_BYTES - "<6>".len();
        let bytes = line(Format::Journal, format_args!("{}", "x".repeat(room)));
        assert!(bytes.ends_with(b"xx\n"));
        let bytes = line(Format::Journal, format_args!("{}", "x".repeat(room + 1)));
        assert!(bytes.ends_with(b"xx...\n"));
    }

    #[test]
    fn untrusted_bytes_are_shown_bounded_and_told_apart() {
        let shown = Untrusted(b"GET /\xff\"\\\n").to_string();
        assert_eq!(shown, r#"GET /\xff\"\\\x0a"#);
        let long = Untrusted(&[b'a'; UNTRUSTED_BYTES_MAX + 7]).to_string();
        assert!(long.ends_with("aaa...(+7 bytes)"));
    }

    #[test]
    fn clock_beyond_the_calendar_still_logs() {
        let far = Wall::from_unix(u64::MAX);
        let line = Line::new(Format::Plain, Level::Error, far, format_args!("x"));
        assert_eq!(line.as_bytes(), b"9999-12-31T23:59:59Z error x\n");
    }

    #[test]
    fn failing_display_cuts_the_line_and_nothing_else() {
        struct Failing;
        impl fmt::Display for Failing {
            fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
                Err(fmt::Error)
            }
        }
        let bytes = line(Format::Journal, format_args!("a {Failing} b"));
        assert_eq!(bytes, b"<6>a ...\n");
    }

    #[test]
    fn journal_is_found_by_device_and_inode() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let found = std::fs::metadata(path).unwrap();
        let named = format!("{}:{}", found.dev(), found.ino());
        assert!(is_stream(&named, &file));
        for other in ["", "1", "1:2", "x:y", &format!("{named}0")] {
            assert!(!is_stream(other, &file), "{other}");
        }
    }
}
