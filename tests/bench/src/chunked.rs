//! The chunked coding, taken off a stream in pieces.
//!
//! Owns where in the coding a stream is; passes on slices of what it is given and copies nothing.
//! Extensions are skipped; trailers do not occur in a stream that never ends.

use crate::reader::ReadError;

#[derive(Debug)]
enum State {
    /// In a size line, with the size so far; `true` once its digits are over.
    Size(u64, bool),
    /// That many payload bytes to go.
    Payload(u64),
    /// That many bytes of the line end behind the payload to go.
    LineEnd(u8),
    /// The last chunk was read.
    Ended,
}

/// A decoder for one body.
#[derive(Debug)]
pub struct Chunked {
    state: State,
}

impl Default for Chunked {
    fn default() -> Chunked {
        Chunked {
            state: State::Size(0, false),
        }
    }
}

impl Chunked {
    /// The next piece of payload at the front of `bytes`; `None` when `bytes` is used up.
    pub fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Option<&'a [u8]>, ReadError> {
        while let Some((&byte, rest)) = bytes.split_first() {
            match self.state {
                State::Size(size, over) => {
                    *bytes = rest;
                    self.state = after_size_byte(size, over, byte)?;
                }
                State::Payload(left) => {
                    let count = left.min(bytes.len() as u64);
                    let (piece, rest) = bytes.split_at(count as usize);
                    *bytes = rest;
                    self.state = match left - count {
                        0 => State::LineEnd(2),
                        left => State::Payload(left),
                    };
                    return Ok(Some(piece));
                }
                State::LineEnd(left) => {
                    *bytes = rest;
                    self.state = match left {
                        1 => State::Size(0, false),
                        left => State::LineEnd(left - 1),
                    };
                }
                State::Ended => *bytes = &[],
            }
        }
        Ok(None)
    }
}

fn after_size_byte(size: u64, over: bool, byte: u8) -> Result<State, ReadError> {
    match (byte, (byte as char).to_digit(16)) {
        (b'\n', _) if size == 0 => Ok(State::Ended),
        (b'\n', _) => Ok(State::Payload(size)),
        (_, Some(digit)) if !over => size
            .checked_mul(16)
            .map(|size| State::Size(size + u64::from(digit), false))
            .ok_or(ReadError::MalformedChunk),
        (b';' | b' ' | b'\r', _) => Ok(State::Size(size, true)),
        _ if over => Ok(State::Size(size, true)),
        _ => Err(ReadError::MalformedChunk),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODED: &[u8] = b"5\r\nhello\r\n1;a=b\r\n,\r\nA\r\n0123456789\r\n0\r\n\r\n";

    fn decode(pieces: impl Iterator<Item = &'static [u8]>) -> Vec<u8> {
        let mut decoder = Chunked::default();
        let mut decoded = Vec::new();
        for mut piece in pieces {
            while let Some(payload) = decoder.next(&mut piece).unwrap() {
                decoded.extend_from_slice(payload);
            }
        }
        decoded
    }

    #[test]
    fn pieces_of_any_size_decode_alike() {
        for size in [1, 2, 3, 7, CODED.len()] {
            assert_eq!(decode(CODED.chunks(size)), b"hello,0123456789");
        }
    }

    #[test]
    fn a_size_that_is_no_number_is_refused() {
        assert!(Chunked::default().next(&mut &b"x\r\n"[..]).is_err());
    }
}
