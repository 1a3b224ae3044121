//! WebSocket frames, as the server side of a change channel.
//!
//! Owns the answer to the upgrade, the few frames that the relay ever sends, and the decoder for
//! what clients send (pongs, pings of one SDK, a close). The decoder is the library's own, given
//! bytes instead of a socket: it never writes, because its pong could land in the middle of a frame
//! that somebody else is writing. What it would answer is returned as an [`Inbound`].
//!
//! Close codes: 1000, 1001, 1002, 1007, 1009, 1011, 1012, 1013 and no others. The SDKs take 4001
//! for their own wish to stop and never come back, one of them the whole range 4000 to 4499.

use std::io::{self, Read, Write};

use async_tungstenite::tungstenite::error::{CapacityError, Error};
use async_tungstenite::tungstenite::handshake::derive_accept_key;
use async_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use async_tungstenite::tungstenite::protocol::frame::{CloseFrame, Frame as Codec};
use async_tungstenite::tungstenite::protocol::{Role, WebSocketConfig, WebSocketContext};
use async_tungstenite::tungstenite::{Bytes, Message};

use crate::limits::Limits;

use super::frame::Frame;

/// Held per client while it is connected; SDKs send frames of a few bytes. With the allocator's own
/// 16 bytes it is a power of two.
const READ_BUFFER_BYTES: usize = 112;

/// The heartbeat, to the letter: SDKs compare the text, and take every other text for a change.
pub const HEARTBEAT_TEXT: &str = "test message";

/// Any text but the heartbeat makes SDKs fetch; they print it and do not read it.
const CHANGE_TEXT: &str = "changed";

/// The complete 101 answer to an upgrade with `key`. It has no length (RFC 9110 8.6).
pub fn accept(key: &str) -> String {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
         sec-websocket-accept: {}\r\n\r\n",
        derive_accept_key(key.as_bytes())
    )
}

/// The text frame that keeps the watchdogs of SDKs quiet.
pub fn heartbeat() -> Frame {
    text(HEARTBEAT_TEXT)
}

/// The text frame that makes SDKs fetch the configuration.
pub fn change() -> Frame {
    text(CHANGE_TEXT)
}

/// The answer to a ping.
pub fn pong(payload: Bytes) -> Frame {
    encode(Codec::pong(payload))
}

/// A close frame. Codes that no SDK may see become 1011.
pub fn close(code: u16) -> Frame {
    let code = if matches!(code, 1000..=1002 | 1007 | 1009 | 1011..=1013) {
        code
    } else {
        1011
    };
    let frame = CloseFrame {
        code: CloseCode::from(code),
        reason: Default::default(),
    };
    encode(Codec::close(Some(frame)))
}

fn text(text: &'static str) -> Frame {
    encode(Codec::message(text, OpCode::Data(Data::Text), true))
}

fn encode(frame: Codec) -> Frame {
    let mut bytes = Vec::with_capacity(frame.len());
    // Writing to memory cannot fail; an empty frame would be harmless.
    match frame.format(&mut bytes) {
        Ok(()) => Frame::whole(bytes),
        Err(_) => Frame::default(),
    }
}

/// What a client's bytes ask of us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inbound {
    /// Answer with [`pong`] of this payload.
    Ping(Bytes),
    /// The client closes, or broke the protocol: answer with [`close`] of this code and read no
    /// more.
    Close(u16),
}

/// The decoder of one client's frames.
pub struct Decoder {
    context: WebSocketContext,
}

impl Decoder {
    /// A decoder at the start of a connection.
    pub fn new(limits: &Limits) -> Decoder {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER_BYTES)
            .write_buffer_size(0)
            .max_write_buffer_size(1024)
            .max_message_size(Some(limits.websocket_message_bytes_max))
            .max_frame_size(Some(limits.websocket_message_bytes_max));
        Decoder {
            context: WebSocketContext::new(Role::Server, Some(config)),
        }
    }

    /// Takes what was read. Of several pings the last is enough (RFC 6455 5.5.3); messages are
    /// ignored, since nothing that a client could say means anything here.
    ///
    /// Bounded by the input; a message never grows over `websocket_message_bytes_max`.
    pub fn decode(&mut self, input: &[u8]) -> Option<Inbound> {
        let mut feed = Feed { rest: input };
        let mut ping = None;
        loop {
            match self.context.read(&mut feed) {
                Ok(Message::Ping(payload)) => ping = Some(Inbound::Ping(payload)),
                Ok(Message::Close(frame)) => return Some(Inbound::Close(reply_code(frame))),
                Ok(_) => {}
                Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => return ping,
                Err(error) => return Some(Inbound::Close(failure_code(&error))),
            }
        }
    }
}

/// A close is answered with 1000, whatever legal code it had: no code of an SDK's own is sent back.
/// The library has put 1002 in the place of an illegal one.
fn reply_code(frame: Option<CloseFrame>) -> u16 {
    match frame {
        Some(frame) if frame.code == CloseCode::Protocol => 1002,
        _ => 1000,
    }
}

fn failure_code(error: &Error) -> u16 {
    match error {
        Error::Utf8(_) => 1007,
        Error::Capacity(CapacityError::MessageTooLong { .. }) => 1009,
        _ => 1002,
    }
}

/// Bytes in memory where the library expects a socket. Writes vanish: see the header of this file.
struct Feed<'a> {
    rest: &'a [u8],
}

impl Read for Feed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.rest.is_empty() {
            true => Err(io::ErrorKind::WouldBlock.into()),
            false => self.rest.read(buffer),
        }
    }
}

impl Write for Feed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASK: [u8; 4] = [1, 2, 3, 4];

    fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![first];
        match payload.len() {
            length @ 0..126 => frame.push(0x80 | length as u8),
            length => {
                frame.push(0x80 | 126);
                frame.extend((length as u16).to_be_bytes());
            }
        }
        frame.extend(MASK);
        frame.extend(
            payload
                .iter()
                .zip(MASK.iter().cycle())
                .map(|(byte, mask)| byte ^ mask),
        );
        frame
    }

    fn decode(bytes: &[u8]) -> Option<Inbound> {
        Decoder::new(&Limits::PRODUCTION).decode(bytes)
    }

    #[test]
    fn frames_are_what_the_sdks_compare() {
        assert_eq!(&heartbeat().head[..], b"\x81\x0ctest message");
        assert_eq!(&change().head[..], b"\x81\x07changed");
        assert_eq!(&close(1012).head[..], b"\x88\x02\x03\xf4");
        assert_eq!(&pong(Bytes::from_static(b"x")).head[..], b"\x8a\x01x");
    }

    #[test]
    fn codes_that_stop_an_sdk_for_good_are_never_sent() {
        for code in 0..=u16::MAX {
            let frame = close(code);
            let sent = u16::from_be_bytes([frame.head[2], frame.head[3]]);
            assert!(
                matches!(sent, 1000..=1002 | 1007 | 1009 | 1011..=1013),
                "{code} -> {sent}"
            );
        }
        assert_eq!(
            decode(&masked(0x88, &4001_u16.to_be_bytes())),
            Some(Inbound::Close(1000))
        );
    }

    #[test]
    fn only_the_last_ping_is_answered() {
        let bytes = [masked(0x89, b"a"), masked(0x89, b"b"), masked(0x8a, b"")].concat();
        assert_eq!(
            decode(&bytes),
            Some(Inbound::Ping(Bytes::from_static(b"b")))
        );
    }

    #[test]
    fn broken_frames_get_the_code_that_names_the_fault() {
        for (bytes, code) in [
            (b"\x81\x01a".to_vec(), 1002),
            (masked(0xc1, b"a"), 1002),
            (masked(0x83, b"a"), 1002),
            (masked(0x8b, b"a"), 1002),
            (masked(0x09, b"a"), 1002),
            (masked(0x89, &[b'x'; 126]), 1002),
            (masked(0x80, b"a"), 1002),
            (masked(0x81, b"\xff"), 1007),
            (masked(0x82, &[0; 4097]), 1009),
            (
                [&b"\x82\xff"[..], &(1_u64 << 40).to_be_bytes(), &MASK].concat(),
                1009,
            ),
            (masked(0x88, &999_u16.to_be_bytes()), 1002),
            (masked(0x88, &1001_u16.to_be_bytes()), 1000),
            (masked(0x88, b""), 1000),
            (masked(0x88, b"x"), 1002),
        ] {
            assert_eq!(decode(&bytes), Some(Inbound::Close(code)), "{bytes:02x?}");
        }
    }

    #[test]
    fn frames_may_come_a_byte_at_a_time_and_in_fragments() {
        let mut decoder = Decoder::new(&Limits::PRODUCTION);
        let bytes = [masked(0x01, b"a"), masked(0x89, b"p"), masked(0x80, b"b")].concat();
        let seen: Vec<Inbound> = bytes
            .chunks(1)
            .filter_map(|byte| decoder.decode(byte))
            .collect();
        assert_eq!(seen, [Inbound::Ping(Bytes::from_static(b"p"))]);
    }

    #[test]
    fn fragments_do_not_add_up_beyond_the_bound() {
        let mut bytes = masked(0x02, &[0; 2000]);
        bytes.extend(masked(0x00, &[0; 2000]));
        bytes.extend(masked(0x00, &[0; 200]));
        assert_eq!(decode(&bytes), Some(Inbound::Close(1009)));
    }
}
