//! WebSocket frames from a server, scanned for their kinds.
//!
//! Owns the frame structure of the stream. A relay's texts are short and its frames unmasked and
//! unfragmented; anything else is an error, which the swarm reports rather than interprets.

use crate::reader::ReadError;

/// The heartbeat that SDKs know and ignore.
const HEARTBEAT: &[u8] = b"test message";

/// Longest payload: change texts, heartbeats and close reasons are far shorter.
const FRAME_BYTES_MAX: usize = 125;

/// One whole frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A text other than the heartbeat: something changed.
    Change,
    Heartbeat,
    /// Ping, pong.
    Control,
    Close,
}

/// Collects frames from pieces.
#[derive(Debug, Default)]
pub struct FrameScanner {
    collected: Vec<u8>,
}

impl FrameScanner {
    /// The next whole frame; takes its bytes from the front of `bytes`.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Frame>, ReadError> {
        while let Some((&byte, rest)) = bytes.split_first() {
            self.collected.push(byte);
            *bytes = rest;
            let [first, length, ref payload @ ..] = self.collected[..] else {
                continue;
            };
            if usize::from(length) > FRAME_BYTES_MAX {
                return Err(ReadError::MalformedFrame);
            }
            if payload.len() < usize::from(length) {
                continue;
            }
            let frame = match first {
                0x81 if payload == HEARTBEAT => Frame::Heartbeat,
                0x81 => Frame::Change,
                0x88 => Frame::Close,
                0x89 | 0x8a => Frame::Control,
                _ => return Err(ReadError::MalformedFrame),
            };
            self.collected.clear();
            return Ok(Some(frame));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_told_apart_whatever_the_pieces() {
        let mut stream = b"\x81\x0ctest message\x81\x02ok\x89\x00".to_vec();
        stream.extend_from_slice(b"\x88\x02\x03\xe8");
        for size in [1, 3, stream.len()] {
            let mut scanner = FrameScanner::default();
            let mut frames = Vec::new();
            for mut piece in stream.chunks(size) {
                while let Some(frame) = scanner.next(&mut piece).unwrap() {
                    frames.push(frame);
                }
            }
            use Frame::{Change, Close, Control, Heartbeat};
            assert_eq!(frames, [Heartbeat, Change, Control, Close]);
        }
    }

    #[test]
    fn masked_or_long_frames_are_refused() {
        for bad in [b"\x81\x82", b"\x81\x7e", b"\x01\x00"] {
            assert!(FrameScanner::default().next(&mut &bad[..]).is_err());
        }
    }
}
