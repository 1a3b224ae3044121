//! The value of one cookie, out of `Cookie` as ASP.NET reads it.
//!
//! Browsers send clean cookies; what matters are the others. Two proxies that read an odd line
//! differently would send one client to two destinations, so this follows ASP.NET's parser step by
//! step: the last occurrence with a value counts, an empty one is none, `,` separates as `;` does,
//! and what cannot be read is skipped one character at a time.
//!
//! Source: ASP.NET's `CookieHeaderParserShared` and `RequestCookieCollection`.

use std::borrow::Cow;

/// The value of the cookie `name` in the values of all `Cookie` fields of a request, in their
/// order; names are compared in any case of letters. `None` is a cookie that is not there, has no
/// value, or cannot be read.
///
/// A value whose escapes make no text is given as it came: it is nobody's key. Bounded by the
/// length of the lines.
pub fn read<'a>(lines: impl IntoIterator<Item = &'a str>, name: &str) -> Option<Cow<'a, str>> {
    let mut found = None;
    for line in lines {
        let mut reader = Reader {
            line: line.as_bytes(),
            at: 0,
            dead_end: 0,
        };
        while reader.at < line.len() {
            let Some(Pair { start, equals, end }) = reader.pair() else {
                continue;
            };
            let is_meant = reader.line[start..equals].eq_ignore_ascii_case(name.as_bytes());
            if is_meant && end > equals + 1 {
                found = line.get(equals + 1..end);
            }
        }
    }
    found.map(unescape)
}

/// Where a name begins, where its `=` is, and where the value ends.
struct Pair {
    start: usize,
    equals: usize,
    end: usize,
}

/// A place in a line.
struct Reader<'a> {
    line: &'a [u8],
    at: usize,
    /// Up to here any value without quotes ends in what is no separator. Without this memory a line
    /// of `a=a=a=…` would be read anew from each of its letters.
    dead_end: usize,
}

impl Reader<'_> {
    /// Reads a name and a value with the separators in front and behind, and goes on behind them.
    ///
    /// What is no pair is tried again one character further on, but for the starts that are known
    /// to fail in the same way: the rest of a name fails as the name did.
    fn pair(&mut self) -> Option<Pair> {
        let (start, _) = separators(self.line, self.at);
        let equals = start + run(&self.line[start..], is_token);
        if equals == start || self.line.get(equals) != Some(&b'=') {
            self.at = equals.max(start + 1);
            return None;
        }
        self.at = equals + 1;
        let is_quoted = self.line.get(self.at) == Some(&b'"');
        if !is_quoted && self.at < self.dead_end {
            return None;
        }
        let (next, end) = value(self.line, self.at);
        let (behind, is_separated) = separators(self.line, next);
        if !is_separated && behind < self.line.len() {
            self.dead_end = if is_quoted { self.dead_end } else { next };
            return None;
        }
        self.at = behind;
        Some(Pair { start, equals, end })
    }
}

/// Skips blanks and separators; says whether there was a separator.
fn separators(line: &[u8], at: usize) -> (usize, bool) {
    let length = run(&line[at..], |byte| b" \t,;".contains(&byte));
    let skipped = &line[at..at + length];
    (at + length, skipped.iter().any(|byte| b",;".contains(byte)))
}

/// Where the parser goes on behind a value, and where the value itself ends: one that opens a
/// quote and does not close it is read past and is empty.
fn value(line: &[u8], at: usize) -> (usize, usize) {
    let is_quoted = line.get(at) == Some(&b'"');
    let from = at + usize::from(is_quoted);
    let end = from + run(&line[from..], is_octet);
    match (is_quoted, line.get(end)) {
        (true, Some(b'"')) => (end + 1, end + 1),
        (true, _) => (end, at),
        (false, _) => (end, end),
    }
}

fn run(bytes: &[u8], takes: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| takes(**byte)).count()
}

/// Whether `byte` may stand in a token (RFC 9110 5.6.2).
pub fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_octet(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e) && !b"\",;\\".contains(&byte)
}

/// Decodes `%XX` once; what is no escape stays.
fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        let digits = behind
            .first_chunk()
            .and_then(|[high, low]| Some(hex(*high)? << 4 | hex(*low)?));
        match digits.filter(|_| *byte == b'%') {
            Some(decoded) => {
                bytes.push(decoded);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*byte);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).map_or(Cow::Borrowed(text), Cow::Owned)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}
