//! What is written to a stream at one time: up to three runs of bytes that belong together.
//!
//! A frame is made once for a whole fleet. Its middle is the document itself, shared with every
//! other form of the same snapshot, so a frame costs a few hundred bytes whatever the document's
//! size; a client that is being written to holds a reference and a position, and no copy.

use std::io::IoSlice;

use bytes::Bytes;

/// Bytes for the wire, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Frame {
    pub head: Bytes,
    pub content: Bytes,
    pub tail: Bytes,
}

impl Frame {
    /// A frame of one run.
    pub fn whole(bytes: impl Into<Bytes>) -> Frame {
        Frame {
            head: bytes.into(),
            ..Frame::default()
        }
    }

    /// All bytes of it.
    pub fn length(&self) -> usize {
        self.head.len() + self.content.len() + self.tail.len()
    }

    /// What is left to write when `offset` bytes are out, for one gathering write.
    pub fn rest(&self, offset: usize) -> [IoSlice<'_>; 3] {
        let mut skip = offset;
        [&self.head, &self.content, &self.tail].map(|run| {
            let skipped = skip.min(run.len());
            skip -= skipped;
            IoSlice::new(&run[skipped..])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_right_at_every_offset() {
        let frame = Frame {
            head: Bytes::from_static(b"ab"),
            content: Bytes::from_static(b"cde"),
            tail: Bytes::from_static(b"f"),
        };
        for offset in 0..=frame.length() {
            let rest: Vec<u8> = frame
                .rest(offset)
                .iter()
                .flat_map(|run| run.to_vec())
                .collect();
            assert_eq!(rest, b"abcdef"[offset..]);
        }
    }
}
