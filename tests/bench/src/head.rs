//! The head of an HTTP/1.1 response, collected and read for the three facts that matter here.
//!
//! Owns the bytes up to the empty line and nothing behind it. It is a measuring client's reader,
//! not a general one: status, `Content-Length` and `Transfer-Encoding: chunked` are looked for, the
//! rest is skipped. A head larger than [`HEAD_BYTES_MAX`] is an error, so that a peer that never
//! ends its head cannot fill memory.

use crate::reader::ReadError;
use memchr::memmem;

/// Longest head that is collected.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;

/// What a head says about the body behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    pub content_length: Option<u64>,
    pub chunked: bool,
}

/// Collects a head from pieces.
#[derive(Debug, Default)]
pub struct HeadReader {
    collected: Vec<u8>,
}

impl HeadReader {
    /// Takes what belongs to the head from the front of `bytes`; the head once it is whole.
    pub fn take(&mut self, bytes: &mut &[u8]) -> Result<Option<Head>, ReadError> {
        let before = self.collected.len();
        let room = HEAD_BYTES_MAX - before;
        self.collected
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
        let from = before.saturating_sub(3);
        let Some(found) = memmem::find(&self.collected[from..], b"\r\n\r\n") else {
            if self.collected.len() == HEAD_BYTES_MAX {
                return Err(ReadError::HeadTooLarge);
            }
            *bytes = &[];
            return Ok(None);
        };
        let end = from + found + 4;
        *bytes = &bytes[end - before..];
        self.collected.truncate(end);
        let head = parse(&self.collected);
        self.collected = Vec::new();
        head.map(Some)
    }
}

fn parse(bytes: &[u8]) -> Result<Head, ReadError> {
    let text = std::str::from_utf8(bytes).map_err(|_| ReadError::MalformedHead)?;
    let mut lines = text.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.strip_prefix("HTTP/1.1 "))
        .and_then(|rest| rest.get(..3))
        .and_then(|digits| digits.parse().ok())
        .ok_or(ReadError::MalformedHead)?;
    let mut head = Head {
        status,
        content_length: None,
        chunked: false,
    };
    for line in lines {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        if name.eq_ignore_ascii_case("content-length") {
            head.content_length = value.trim().parse().ok();
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            head.chunked = value.trim().eq_ignore_ascii_case("chunked");
        }
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nhello";

    #[test]
    fn a_head_leaves_the_body_where_it_is() {
        let mut bytes = TEXT;
        let head = HeadReader::default().take(&mut bytes).unwrap().unwrap();
        assert_eq!((head.status, head.content_length), (200, Some(5)));
        assert_eq!(bytes, b"hello");
    }

    #[test]
    fn a_head_in_single_bytes_reads_the_same() {
        let mut reader = HeadReader::default();
        let mut found = None;
        for (at, byte) in TEXT.chunks(1).enumerate() {
            let mut piece = byte;
            if let Some(head) = reader.take(&mut piece).unwrap() {
                found = Some((at, head));
                break;
            }
        }
        let (at, head) = found.unwrap();
        assert_eq!(at, TEXT.len() - 6);
        assert_eq!(head.content_length, Some(5));
    }

    #[test]
    fn an_endless_head_is_refused() {
        let mut reader = HeadReader::default();
        let line = [b'x'; 1024];
        let refused = (0..17).any(|_| reader.take(&mut &line[..]).is_err());
        assert!(refused);
    }
}
