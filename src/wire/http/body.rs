//! The body of a message, as a pull decoder.
//!
//! Owns the framing of content: by length or by chunks. It is given what lies in the buffer and
//! says which part of it is content and how much may be dropped; it copies nothing and keeps
//! nothing but its place, so a body of any size passes through in constant memory.
//!
//! Strict where chunked coding is often read loosely (RFC 9112 7.1): a size line ends in CR LF, has
//! at least one digit, and is bounded; a trailer is refused. Bytes behind the body stay untouched:
//! they are the next request. Content that ends with its connection is for answers only; everything
//! else that ends so was cut off. The trailer of an answer is read past, which whoever passes it on
//! may do (RFC 9110 6.5.1).

use std::ops::Range;

use crate::limits::Limits;
use crate::wire::DecodeError;

/// Where a reader stands in a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    place: Place,
    /// Bytes of a trailer that are read past.
    trailer_bytes_max: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    End,
    Sized {
        left: u64,
    },
    ChunkLine,
    Chunk {
        left: u64,
    },
    ChunkEnd,
    Trailer,
    /// Ends when the connection does.
    Open,
}

impl Place {
    const fn into_body(self) -> Body {
        Body {
            place: self,
            trailer_bytes_max: 0,
        }
    }
}

/// What one call of [`Body::decode`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Bytes of the input that are dealt with. Zero, and not at the end: more input is needed.
    pub consumed: usize,
    /// The part of those that is content.
    pub content: Range<usize>,
}

impl Body {
    /// A message without content.
    pub const fn empty() -> Body {
        Place::End.into_body()
    }

    /// Content of exactly `length` bytes.
    pub const fn sized(length: u64) -> Body {
        match length {
            0 => Place::End.into_body(),
            length => Place::Sized { left: length }.into_body(),
        }
    }

    /// Content in chunks.
    pub const fn chunked() -> Body {
        Place::ChunkLine.into_body()
    }

    /// Content in chunks whose trailer, up to its bound, is read past: for answers.
    pub const fn chunked_answer(limits: &Limits) -> Body {
        Body {
            place: Place::ChunkLine,
            trailer_bytes_max: limits.head_bytes_max,
        }
    }

    /// Content that ends with the connection (RFC 9112 6.3, for answers).
    pub const fn until_close() -> Body {
        Place::Open.into_body()
    }

    /// The connection has ended: an error where content was still to come, since what is cut off
    /// is not what was sent.
    pub fn handle_end(&mut self) -> Result<(), DecodeError> {
        match self.place {
            Place::End => Ok(()),
            Place::Open => {
                self.place = Place::End;
                Ok(())
            }
            _ => Err(DecodeError::Malformed("message cut off")),
        }
    }

    /// Whether everything was read.
    pub fn is_end(&self) -> bool {
        self.place == Place::End
    }

    /// The length that was announced and is still to come; `None` for chunks.
    pub fn remaining(&self) -> Option<u64> {
        match self.place {
            Place::End => Some(0),
            Place::Sized { left } => Some(left),
            _ => None,
        }
    }

    /// Takes the next step through `input`. Call again with the unconsumed rest until `is_end` or
    /// until nothing is consumed.
    ///
    /// Bounded by one chunk or one line a call.
    pub fn decode(&mut self, input: &[u8], limits: &Limits) -> Result<Piece, DecodeError> {
        match self.place {
            Place::End => Ok(Piece {
                consumed: 0,
                content: 0..0,
            }),
            Place::Sized { left } => {
                let (piece, left) = take(input, left);
                self.place = if left == 0 {
                    Place::End
                } else {
                    Place::Sized { left }
                };
                Ok(piece)
            }
            Place::Chunk { left } => {
                let (piece, left) = take(input, left);
                self.place = if left == 0 {
                    Place::ChunkEnd
                } else {
                    Place::Chunk { left }
                };
                Ok(piece)
            }
            Place::Open => Ok(take(input, u64::MAX).0),
            Place::ChunkLine => self.chunk_line(input, limits),
            Place::ChunkEnd => self.line_end(input, Place::ChunkLine, "chunk without line end"),
            Place::Trailer if self.trailer_bytes_max > 0 => self.trailer_line(input),
            Place::Trailer => self.line_end(input, Place::End, "trailer fields"),
        }
    }

    /// Takes every step for which `input` is enough, and hands over the content on the way. Returns
    /// how many bytes of `input` are dealt with: the caller drops them once, not once a chunk.
    ///
    /// Bounded by the length of `input`.
    pub fn decode_all(
        &mut self,
        input: &[u8],
        limits: &Limits,
        mut sink: impl FnMut(&[u8]) -> Result<(), DecodeError>,
    ) -> Result<usize, DecodeError> {
        let mut consumed = 0;
        while !self.is_end() {
            let rest = &input[consumed..];
            let piece = self.decode(rest, limits)?;
            if piece.consumed == 0 {
                break;
            }
            sink(&rest[piece.content])?;
            consumed += piece.consumed;
        }
        Ok(consumed)
    }

    fn chunk_line(&mut self, input: &[u8], limits: &Limits) -> Result<Piece, DecodeError> {
        let window = &input[..input.len().min(limits.chunk_line_bytes_max)];
        let Some(end) = window.iter().position(|&byte| byte == b'\n') else {
            return match window.len() == limits.chunk_line_bytes_max {
                true => Err(DecodeError::Malformed("chunk size line")),
                false => Ok(Piece {
                    consumed: 0,
                    content: 0..0,
                }),
            };
        };
        let line = window[..end].strip_suffix(b"\r");
        let line = line.ok_or(DecodeError::Malformed("bare line feed"))?;
        let size = parse_chunk_line(line)?;
        self.place = if size == 0 {
            Place::Trailer
        } else {
            Place::Chunk { left: size }
        };
        Ok(Piece {
            consumed: end + 1,
            content: 0..0,
        })
    }

    /// Reads past one line of a trailer; an empty one is its end.
    fn trailer_line(&mut self, input: &[u8]) -> Result<Piece, DecodeError> {
        let window = &input[..input.len().min(self.trailer_bytes_max)];
        let end = window.iter().position(|&byte| byte == b'\n');
        let consumed = match end {
            Some(end) if end > 0 && window[end - 1] == b'\r' => end + 1,
            Some(_) => return Err(DecodeError::Malformed("bare line feed")),
            None if window.len() == self.trailer_bytes_max => {
                return Err(DecodeError::Malformed("trailer fields"));
            }
            None => 0,
        };
        self.trailer_bytes_max -= consumed;
        if consumed == 2 {
            self.place = Place::End;
        } else if consumed > 0 && self.trailer_bytes_max == 0 {
            return Err(DecodeError::Malformed("trailer fields"));
        }
        Ok(Piece {
            consumed,
            content: 0..0,
        })
    }

    fn line_end(
        &mut self,
        input: &[u8],
        next: Place,
        otherwise: &'static str,
    ) -> Result<Piece, DecodeError> {
        match input {
            [b'\r', b'\n', ..] => {
                self.place = next;
                Ok(Piece {
                    consumed: 2,
                    content: 0..0,
                })
            }
            [] | [b'\r'] => Ok(Piece {
                consumed: 0,
                content: 0..0,
            }),
            _ => Err(DecodeError::Malformed(otherwise)),
        }
    }
}

fn take(input: &[u8], left: u64) -> (Piece, u64) {
    let length = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
    (
        Piece {
            consumed: length,
            content: 0..length,
        },
        left - length as u64,
    )
}

/// Hexadecimal digits, then perhaps an extension, which is ignored (RFC 9112 7.1.1).
fn parse_chunk_line(line: &[u8]) -> Result<u64, DecodeError> {
    let digits = line
        .iter()
        .take_while(|byte| byte.is_ascii_hexdigit())
        .count();
    let rest = &line[digits..];
    let extension = rest.trim_ascii_start();
    let legal = |&byte: &u8| byte == b'\t' || (0x20..0x7f).contains(&byte);
    let framed = extension.is_empty() && rest.is_empty() || extension.starts_with(b";");
    if !(1..=15).contains(&digits) || !framed || !rest.iter().all(legal) {
        return Err(DecodeError::Malformed("chunk size"));
    }
    let text = std::str::from_utf8(&line[..digits]);
    let size = text
        .ok()
        .and_then(|text| u64::from_str_radix(text, 16).ok());
    size.ok_or(DecodeError::Malformed("chunk size"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes `input` given in pieces of `step` bytes; returns the content and what is left over.
    fn run(mut body: Body, input: &[u8], step: usize) -> Result<(Vec<u8>, Vec<u8>), DecodeError> {
        let (mut buffer, mut content) = (Vec::new(), Vec::new());
        for piece in input.chunks(step) {
            buffer.extend_from_slice(piece);
            let consumed = body.decode_all(&buffer, &Limits::PRODUCTION, |bytes| {
                content.extend_from_slice(bytes);
                Ok(())
            })?;
            buffer.drain(..consumed);
        }
        assert!(body.is_end(), "not complete");
        Ok((content, buffer))
    }

    #[test]
    fn chunks_give_the_same_content_however_they_arrive() {
        let input = b"3;a=b\r\nabc\r\n0A \t;x\r\n0123456789\r\n0\r\n\r\nGET /";
        for step in 1..=input.len() {
            let (content, rest) = run(Body::chunked(), input, step).unwrap();
            assert_eq!(
                (&content[..], &rest[..]),
                (&b"abc0123456789"[..], &b"GET /"[..])
            );
        }
    }

    #[test]
    fn the_trailer_of_an_answer_is_read_past_up_to_its_bound() {
        let limits = Limits::PRODUCTION;
        let input = b"1\r\na\r\n0\r\nX: 1\r\nY: 2\r\n\r\nHTTP";
        for step in 1..=input.len() {
            let (content, rest) = run(Body::chunked_answer(&limits), input, step).unwrap();
            assert_eq!((&content[..], &rest[..]), (&b"a"[..], &b"HTTP"[..]));
        }
        let endless = format!("0\r\n{}", "X: 1\r\n".repeat(limits.head_bytes_max));
        for input in [endless.as_str(), "0\r\nX: 1\n\r\n"] {
            assert!(run(Body::chunked_answer(&limits), input.as_bytes(), 100).is_err());
        }
    }

    #[test]
    fn a_sized_body_leaves_the_next_request_alone() {
        let (content, rest) = run(Body::sized(3), b"abcGET", 6).unwrap();
        assert_eq!((&content[..], &rest[..]), (&b"abc"[..], &b"GET"[..]));
        assert!(Body::sized(0).is_end() && Body::empty().is_end());
    }

    #[test]
    fn only_an_open_body_may_end_with_its_connection() {
        let mut open = Body::until_close();
        let mut content = Vec::new();
        let limits = &Limits::PRODUCTION;
        let consumed = open.decode_all(b"abc", limits, |bytes| {
            content.extend_from_slice(bytes);
            Ok(())
        });
        assert_eq!((consumed, &content[..]), (Ok(3), &b"abc"[..]));
        assert!(!open.is_end() && open.handle_end().is_ok() && open.is_end());
        assert!(Body::empty().handle_end().is_ok());
        for mut unfinished in [Body::sized(1), Body::chunked()] {
            assert!(unfinished.handle_end().is_err());
        }
    }

    #[test]
    fn loose_chunks_are_refused() {
        for input in [
            &b"\r\nabc\r\n0\r\n\r\n"[..],
            b";x\r\n\r\n",
            b"3\nabc\r\n",
            b"3\r\nabcd\r\n",
            b"3\r\nabc\n0",
            b" 3\r\nabc\r\n",
            b"3 x\r\nabc\r\n",
            b"-3\r\nabc\r\n",
            b"0x3\r\nabc\r\n",
            b"10000000000000000\r\nabc",
            b"0\r\nX: trailer\r\n\r\n",
            b"3;\0\r\nabc\r\n",
        ] {
            let wrong = run(Body::chunked(), input, input.len());
            assert!(matches!(wrong, Err(DecodeError::Malformed(_))), "{wrong:?}");
        }
        let endless = [b'1'; 300];
        assert!(
            Body::chunked()
                .decode(&endless, &Limits::PRODUCTION)
                .is_err()
        );
    }
}
