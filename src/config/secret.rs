//! Keys and tokens: what is secret, and where it is kept.
//!
//! A [`Secret`] cannot be printed: its `Debug` is a mask and it has no `Display`. Files are read
//! elsewhere; here is only what makes their content a secret.

use std::fmt;
use std::path::PathBuf;

/// A key or token as its owner sends it. Never empty.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// Takes the content of a key file or an inline key; the line end that editors add is no part
    /// of it. Nothing left = no secret.
    pub fn new(content: &[u8]) -> Option<Secret> {
        let end = content.iter().rposition(|byte| !b"\r\n".contains(byte))?;
        content.get(..=end).map(|kept| Secret(kept.into()))
    }

    /// The secret itself, for comparing and for deriving keys.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether clients can send it in a header: printable ASCII without spaces.
    pub fn is_sendable(&self) -> bool {
        self.0.iter().all(u8::is_ascii_graphic)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(masked)")
    }
}

/// Where a secret comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// Written into the configuration, for demos and tests.
    Inline(Secret),
    /// The content of a file, read at start and at each reload.
    File(PathBuf),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_are_no_part_of_a_secret() {
        for content in ["abc", "abc\n", "abc\r\n", "abc\n\n"] {
            assert_eq!(Secret::new(content.as_bytes()).unwrap().bytes(), b"abc");
        }
    }

    #[test]
    fn an_empty_file_is_no_secret() {
        for content in ["", "\n", "\r\n"] {
            assert!(Secret::new(content.as_bytes()).is_none());
        }
    }

    #[test]
    fn a_secret_does_not_print_itself() {
        let source = SecretSource::Inline(Secret::new(b"hunter2").unwrap());
        assert!(!format!("{source:?}").contains("hunter2"));
    }

    #[test]
    fn only_header_text_can_be_sent() {
        assert!(Secret::new(b"a-B_9").unwrap().is_sendable());
        for bad in [&b"two words"[..], b"tab\t", "é".as_bytes(), b"a\nb"] {
            assert!(!Secret::new(bad).unwrap().is_sendable());
        }
    }
}
