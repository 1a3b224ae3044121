//! As much of MQTT 3.1.1 as a subscriber and a publisher of one topic need.
//!
//! Owns the packets that are sent, whole, and a scanner of those that come in: payload is counted
//! past, never kept. A subscriber is set up by the acknowledgement of its subscription, a publisher
//! is done by that of its message (QoS 1, so that there is one); subscribers get QoS 0.

use crate::reader::ReadError;

/// Longest prefix of a packet that is kept: its first byte, its length, and a return code.
const START_BYTES: usize = 8;

/// What came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// The broker takes the connection; it came first.
    Connected,
    /// A subscription or a message is acknowledged.
    Acknowledged,
    /// A message to the topic, whole.
    Message,
}

/// Where in the stream of packets the scanner is.
#[derive(Debug, Default)]
pub struct PacketScanner {
    start: [u8; START_BYTES],
    kept: usize,
    /// Bytes of the packet still to come, once its length is known.
    left: Option<u64>,
}

impl PacketScanner {
    /// Reads on to the end of the next packet in `bytes`; `None` when `bytes` is used up.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Packet>, ReadError> {
        while let Some((&first, rest)) = bytes.split_first() {
            match &mut self.left {
                None => {
                    self.keep(first);
                    *bytes = rest;
                    self.left = self.remaining_length()?;
                }
                Some(left) => {
                    let count = (*left).min(bytes.len() as u64) as usize;
                    *left -= count as u64;
                    for &byte in bytes.iter().take(count.min(START_BYTES)) {
                        self.keep(byte);
                    }
                    *bytes = &bytes[count..];
                }
            }
            if self.left == Some(0) {
                let whole = std::mem::take(self);
                return whole.packet().map(Some);
            }
        }
        Ok(None)
    }

    fn keep(&mut self, byte: u8) {
        if self.kept < START_BYTES {
            self.start[self.kept] = byte;
            self.kept += 1;
        }
    }

    /// The length after the first byte: seven bits a byte, low ones first, at most four bytes.
    fn remaining_length(&self) -> Result<Option<u64>, ReadError> {
        let mut length = 0;
        for (at, byte) in self.start[1..self.kept].iter().enumerate() {
            length |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                return Ok(Some(length));
            }
        }
        match self.kept {
            ..5 => Ok(None),
            _ => Err(ReadError::MalformedPacket),
        }
    }

    fn packet(&self) -> Result<Packet, ReadError> {
        // Return codes are the fourth byte of a connection's answer, the fifth of a subscription's.
        match (self.start[0] >> 4, self.start[3], self.start[4]) {
            (2, 0, _) | (9, _, 0..=2) | (4, ..) => {}
            (3, ..) => return Ok(Packet::Message),
            _ => return Err(ReadError::MalformedPacket),
        }
        Ok(match self.start[0] >> 4 {
            2 => Packet::Connected,
            _ => Packet::Acknowledged,
        })
    }
}

/// What a subscriber sends: a connection without an identity, kept alive for an hour.
pub fn subscriber(topic: &str) -> Vec<u8> {
    let mut filter = vec![0, 1];
    filter.extend(text(topic));
    filter.push(0);
    [connect(), packet(0x82, &filter)].concat()
}

/// What a publisher sends: a connection, and one message at QoS 1.
pub fn publisher(topic: &str, payload: &[u8]) -> Vec<u8> {
    let mut message = text(topic);
    message.extend([0, 1]);
    message.extend_from_slice(payload);
    [connect(), packet(0x32, &message)].concat()
}

fn connect() -> Vec<u8> {
    const KEEP_ALIVE_S: u16 = 3600;
    let mut body = text("MQTT");
    // Version 4, a clean session.
    body.extend([4, 2]);
    body.extend(KEEP_ALIVE_S.to_be_bytes());
    body.extend(text(""));
    packet(0x10, &body)
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u16).to_be_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    let mut left = body.len();
    loop {
        let low = (left & 0x7f) as u8;
        left >>= 7;
        bytes.push(if left > 0 { low | 0x80 } else { low });
        if left == 0 {
            break;
        }
    }
    bytes.extend_from_slice(body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_found_whatever_the_pieces() {
        let message = packet(0x30, &[text("t"), vec![b'x'; 20_000]].concat());
        let stream = [&[0x20, 2, 0, 0, 0x90, 3, 0, 1, 0][..], &message, &message].concat();
        for size in [1, 3, 1000, stream.len()] {
            let mut scanner = PacketScanner::default();
            let mut found = Vec::new();
            for mut piece in stream.chunks(size) {
                while let Some(packet) = scanner.next(&mut piece).unwrap() {
                    found.push(packet);
                }
            }
            use Packet::{Acknowledged, Connected, Message};
            assert_eq!(found, [Connected, Acknowledged, Message, Message], "{size}");
        }
    }

    #[test]
    fn a_refused_subscription_is_an_error() {
        let refused = PacketScanner::default().next(&mut &[0x90, 3, 0, 1, 0x80][..]);
        assert_eq!(refused, Err(ReadError::MalformedPacket));
    }

    #[test]
    fn an_endless_length_is_an_error() {
        let endless = PacketScanner::default().next(&mut &[0x30, 0x80, 0x80, 0x80, 0x80][..]);
        assert_eq!(endless, Err(ReadError::MalformedPacket));
    }
}
