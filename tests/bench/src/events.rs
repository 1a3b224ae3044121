//! Server-sent events, scanned for their names and sizes.
//!
//! Owns the line structure of an event stream. Payload is counted, never kept: a measuring client
//! wants to know that an event is complete, not what it says. A line end is LF or CRLF.

use memchr::memchr;

/// Longest start of a line that is kept: enough for `event: ` and any name that the service uses.
const LINE_START_BYTES: usize = 48;

/// One dispatched event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub name: EventName,
    /// Bytes of its `data` lines, field names included.
    pub payload_bytes: u64,
}

/// The names that a relay sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventName {
    Registration,
    Payload,
    Update,
    /// Another name, or none.
    Other,
}

/// Where in the stream the scanner is.
#[derive(Debug)]
pub struct EventScanner {
    start: [u8; LINE_START_BYTES],
    line_bytes: u64,
    name: EventName,
    payload_bytes: u64,
}

impl Default for EventScanner {
    fn default() -> EventScanner {
        EventScanner {
            start: [0; LINE_START_BYTES],
            line_bytes: 0,
            name: EventName::Other,
            payload_bytes: 0,
        }
    }
}

impl EventScanner {
    /// Reads on to the end of the next event in `bytes`; `None` when `bytes` is used up.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Option<Event> {
        while !bytes.is_empty() {
            let Some(end) = memchr(b'\n', bytes) else {
                self.extend_line(bytes);
                *bytes = &[];
                return None;
            };
            self.extend_line(&bytes[..end]);
            *bytes = &bytes[end + 1..];
            if let Some(event) = self.end_line() {
                return Some(event);
            }
        }
        None
    }

    fn extend_line(&mut self, piece: &[u8]) {
        let at = (self.line_bytes as usize).min(LINE_START_BYTES);
        let count = piece.len().min(LINE_START_BYTES - at);
        self.start[at..at + count].copy_from_slice(&piece[..count]);
        self.line_bytes += piece.len() as u64;
    }

    fn end_line(&mut self) -> Option<Event> {
        let kept = (self.line_bytes as usize).min(LINE_START_BYTES);
        let line = self.start[..kept].trim_ascii_end();
        let bytes = std::mem::take(&mut self.line_bytes);
        if line.starts_with(b"data") {
            self.payload_bytes += bytes;
        } else if let Some(name) = line.strip_prefix(b"event:") {
            self.name = named(name.trim_ascii_start());
        } else if line.is_empty() && self.payload_bytes > 0 {
            return Some(Event {
                name: std::mem::replace(&mut self.name, EventName::Other),
                payload_bytes: std::mem::take(&mut self.payload_bytes),
            });
        }
        None
    }
}

fn named(name: &[u8]) -> EventName {
    match name {
        b"Registration" => EventName::Registration,
        b"SSEConfig_payload" => EventName::Payload,
        b"SSEEvent_update" => EventName::Update,
        _ => EventName::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = b"retry: 2000\n\nevent: Registration\ndata: {\"a\":1}\n\n: beat\n\n\
        id: 2\nevent: SSEConfig_payload\r\ndata: {}\r\n\r\nevent: SSEEvent_update\ndata: 2\n\n";

    #[test]
    fn events_are_found_whatever_the_pieces() {
        for size in [1, 2, 5, STREAM.len()] {
            let mut scanner = EventScanner::default();
            let mut names = Vec::new();
            for mut piece in STREAM.chunks(size) {
                while let Some(event) = scanner.next(&mut piece) {
                    names.push(event.name);
                }
            }
            use EventName::{Payload, Registration, Update};
            assert_eq!(names, [Registration, Payload, Update], "pieces of {size}");
        }
    }

    #[test]
    fn comments_are_no_events() {
        assert_eq!(
            EventScanner::default().next(&mut &b": beat\n\n\n"[..]),
            None
        );
    }

    #[test]
    fn long_lines_are_counted_and_not_kept() {
        let mut stream = b"event: Registration\ndata: ".to_vec();
        stream.resize(stream.len() + 20_000, b'x');
        stream.extend_from_slice(b"\n\n");
        let event = EventScanner::default().next(&mut &stream[..]).unwrap();
        assert_eq!(event.payload_bytes, 20_006);
    }
}
