//! What one client understands of its connection: answers, documents, changes.
//!
//! Owns the choice of what counts. An SSE client is *ready* at the end of its `Registration` event
//! and has seen a *change* at the end of the last event that a change consists of; a WebSocket
//! client is ready at its 101 and sees a change in each text that is no heartbeat; a keep-alive
//! client is ready, and sees a document, each time a response body is complete; an MQTT client is
//! ready when what it asked for is acknowledged and sees a change in each message.
//!
//! Never reads a socket and never looks at a clock.

use crate::chunked::Chunked;
use crate::events::{EventName, EventScanner};
use crate::frames::{Frame, FrameScanner};
use crate::head::{Head, HeadReader};
use crate::mqtt::{Packet, PacketScanner};
use std::fmt;

/// Which client it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An event stream whose changes end with the event of that name.
    Sse(EventName),
    WebSocket,
    KeepAlive,
    Mqtt,
}

/// What a piece of the stream amounted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The client is set up (SSE: the first document is whole; WebSocket: 101).
    Ready,
    /// A change is complete.
    Change,
    /// A response body is complete, of that many bytes.
    Document(u64),
    /// The peer said good-bye in the protocol's own way.
    Goodbye,
}

/// Why a stream cannot be read on: the peer's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    HeadTooLarge,
    MalformedHead,
    /// The answer to the first or a later request has that status instead of 200 or 101.
    Status(u16),
    /// A body whose end cannot be known.
    NoLength,
    MalformedChunk,
    MalformedFrame,
    /// Or one that refuses what was asked for.
    MalformedPacket,
}

impl fmt::Display for ReadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::HeadTooLarge => formatter.write_str("the response head does not end"),
            ReadError::MalformedHead => formatter.write_str("the response head is malformed"),
            ReadError::Status(status) => write!(formatter, "the answer is {status}"),
            ReadError::NoLength => formatter.write_str("the response has no length"),
            ReadError::MalformedChunk => formatter.write_str("a chunk is malformed"),
            ReadError::MalformedFrame => formatter.write_str("a frame is malformed or too long"),
            ReadError::MalformedPacket => formatter.write_str("a packet is malformed or refuses"),
        }
    }
}

#[derive(Debug)]
enum State {
    Head(HeadReader),
    Events(Option<Chunked>, Box<EventScanner>),
    Frames(FrameScanner),
    Packets(PacketScanner),
    /// Bytes of the body to go, and its whole length.
    Body(u64, u64),
}

/// The reading side of one client.
#[derive(Debug)]
pub struct Reader {
    kind: Kind,
    state: State,
}

impl Reader {
    /// A client that has sent its request and has read nothing.
    pub fn new(kind: Kind) -> Reader {
        Reader {
            kind,
            state: match kind {
                Kind::Mqtt => State::Packets(PacketScanner::default()),
                _ => State::Head(HeadReader::default()),
            },
        }
    }

    /// Reads `bytes` and tells `seen` of everything in them that counts, in order.
    ///
    /// Bounded by the length of `bytes`.
    pub fn take(&mut self, mut bytes: &[u8], seen: &mut impl FnMut(Seen)) -> Result<(), ReadError> {
        while !bytes.is_empty() {
            match &mut self.state {
                State::Head(reader) => {
                    if let Some(head) = reader.take(&mut bytes)? {
                        self.begin_body(head)?.into_iter().for_each(&mut *seen);
                    }
                }
                State::Events(chunked, scanner) => match chunked {
                    None => take_events(self.kind, scanner, std::mem::take(&mut bytes), seen),
                    Some(chunked) => {
                        if let Some(payload) = chunked.next(&mut bytes)? {
                            take_events(self.kind, scanner, payload, seen);
                        }
                    }
                },
                State::Frames(scanner) => match scanner.next(&mut bytes)? {
                    Some(Frame::Change) => seen(Seen::Change),
                    Some(Frame::Close) => seen(Seen::Goodbye),
                    Some(Frame::Heartbeat | Frame::Control) | None => {}
                },
                State::Packets(scanner) => match scanner.next(&mut bytes)? {
                    Some(Packet::Acknowledged) => seen(Seen::Ready),
                    Some(Packet::Message) => seen(Seen::Change),
                    Some(Packet::Connected) | None => {}
                },
                State::Body(left, length) => {
                    let count = (*left).min(bytes.len() as u64);
                    bytes = &bytes[count as usize..];
                    *left -= count;
                    if *left == 0 {
                        seen(Seen::Document(*length));
                        self.state = State::Head(HeadReader::default());
                    }
                }
            }
        }
        Ok(())
    }

    fn begin_body(&mut self, head: Head) -> Result<Option<Seen>, ReadError> {
        // A broker may say 201 or 202 to what is published.
        let expected = match self.kind {
            Kind::WebSocket => 101..=101,
            Kind::Sse(_) | Kind::KeepAlive | Kind::Mqtt => 200..=202,
        };
        if !expected.contains(&head.status) {
            return Err(ReadError::Status(head.status));
        }
        match self.kind {
            Kind::WebSocket => {
                self.state = State::Frames(FrameScanner::default());
                Ok(Some(Seen::Ready))
            }
            Kind::Sse(_) => {
                let chunked = head.chunked.then(Chunked::default);
                self.state = State::Events(chunked, Box::default());
                Ok(None)
            }
            Kind::KeepAlive | Kind::Mqtt => {
                let length = head.content_length.ok_or(ReadError::NoLength)?;
                self.state = match length {
                    0 => State::Head(HeadReader::default()),
                    length => State::Body(length, length),
                };
                Ok((length == 0).then_some(Seen::Document(0)))
            }
        }
    }
}

fn take_events(
    kind: Kind,
    scanner: &mut EventScanner,
    mut bytes: &[u8],
    seen: &mut impl FnMut(Seen),
) {
    while let Some(event) = scanner.next(&mut bytes) {
        match event.name {
            EventName::Registration => seen(Seen::Ready),
            name if kind == Kind::Sse(name) => seen(Seen::Change),
            EventName::Payload | EventName::Update | EventName::Other => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: Kind, stream: &[u8], size: usize) -> Result<Vec<Seen>, ReadError> {
        let mut reader = Reader::new(kind);
        let mut found = Vec::new();
        for piece in stream.chunks(size) {
            reader.take(piece, &mut |seen| found.push(seen))?;
        }
        Ok(found)
    }

    fn chunked(payloads: &[&str]) -> Vec<u8> {
        let mut stream = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for payload in payloads {
            let chunk = format!("{:x}\r\n{payload}\r\n", payload.len());
            stream.extend_from_slice(chunk.as_bytes());
        }
        stream
    }

    #[test]
    fn a_change_is_whole_only_at_its_last_event() {
        let registration = "event: Registration\ndata: {\"a\":1}\n\n";
        let begun = "event: SSEConfig_payload\ndata: {\"a\":";
        let payload_whole = chunked(&[registration, begun, "2}\n\n"]);
        let update = "event: SSEEvent_update\ndata: 7\n\n: beat\n\n";
        let whole = chunked(&[registration, begun, "2}\n\n", update]);
        let (payload, update) = (Kind::Sse(EventName::Payload), Kind::Sse(EventName::Update));
        for size in [1, 9, whole.len()] {
            let both = [Seen::Ready, Seen::Change];
            assert_eq!(read(update, &whole, size).unwrap(), both);
            assert_eq!(read(payload, &payload_whole, size).unwrap(), both);
            assert_eq!(read(update, &payload_whole, size).unwrap(), [Seen::Ready]);
        }
    }

    #[test]
    fn two_changes_in_one_packet_are_two() {
        let stream = b"HTTP/1.1 101 Switching Protocols\r\n\r\n\x81\x01a\x81\x01b";
        let seen = read(Kind::WebSocket, stream, stream.len()).unwrap();
        assert_eq!(seen, [Seen::Ready, Seen::Change, Seen::Change]);
    }

    #[test]
    fn answers_on_one_connection_are_told_apart() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        let stream = [&answer[..], answer].concat();
        for size in [1, 4, stream.len()] {
            let seen = read(Kind::KeepAlive, &stream, size).unwrap();
            assert_eq!(seen, [Seen::Document(3); 2]);
        }
    }

    #[test]
    fn a_refusal_is_an_error() {
        let stream = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
        for kind in [
            Kind::WebSocket,
            Kind::KeepAlive,
            Kind::Sse(EventName::Update),
        ] {
            assert_eq!(read(kind, stream, 7), Err(ReadError::Status(503)));
        }
    }
}
