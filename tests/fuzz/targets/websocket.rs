//! What WebSocket clients send.
//!
//! Claims: however the stream is cut, the last ping and the close are the same; a second decoder
//! finds the same end; only codes that SDKs may see come out; what follows a close is not heard;
//! and no answer of ours carries a code that would stop an SDK for good.

use super::entropy::Entropy;
use staffetta::limits::Limits;
use staffetta::wire::websocket::{self, Decoder, Inbound};

/// Small, so that a corpus reaches it.
const MESSAGE_BYTES_MAX: usize = 64;

/// The last ping before the end, and the codes that the end may have.
#[derive(Debug, Default, PartialEq)]
struct Heard {
    ping: Option<Vec<u8>>,
    close: Option<u16>,
}

pub fn decoder(input: &[u8]) {
    let mut entropy = Entropy::new(input);
    let cut = entropy.below(40) + 1;
    let stream = entropy.rest();
    let whole = hear(stream, stream.len().max(1));
    for step in [1, cut] {
        let parts = hear(stream, step);
        assert_eq!(parts.close, whole.close, "in steps of {step}");
        if whole.close.is_none() {
            assert_eq!(parts.ping, whole.ping, "in steps of {step}");
        }
    }
    let naive = naive(stream);
    match (&whole.close, &naive) {
        (None, Ok(ping)) => assert_eq!(whole.ping, *ping),
        (Some(code), Err(codes)) => assert!(codes.contains(code), "{code}, not of {codes:?}"),
        (found, expected) => panic!("found {found:?}, a naive reader {expected:?}"),
    }
    let code = u16::from_be_bytes([entropy_byte(stream, 0), entropy_byte(stream, 1)]);
    let sent = websocket::close(code).head;
    let sent = u16::from_be_bytes([sent[2], sent[3]]);
    assert!(is_sendable(sent), "{code} goes out as {sent}");
}

fn entropy_byte(stream: &[u8], at: usize) -> u8 {
    stream.get(at).copied().unwrap_or(0)
}

fn is_sendable(code: u16) -> bool {
    matches!(code, 1000..=1002 | 1007 | 1009 | 1011..=1013)
}

fn hear(stream: &[u8], step: usize) -> Heard {
    let limits = Limits {
        websocket_message_bytes_max: MESSAGE_BYTES_MAX,
        ..Limits::PRODUCTION
    };
    let mut decoder = Decoder::new(&limits);
    let mut heard = Heard::default();
    for part in stream.chunks(step) {
        match decoder.decode(part) {
            None => {}
            Some(Inbound::Ping(payload)) => {
                assert!(payload.len() <= 125);
                heard.ping = Some(payload.to_vec());
            }
            Some(Inbound::Close(code)) => {
                assert!(is_sendable(code), "{code}");
                heard.close = Some(code);
                // The library must not be asked again: it may have lost its place.
                return heard;
            }
        }
    }
    heard
}

/// A reader after RFC 6455, section 5: the last ping, or the codes that are right for the end.
fn naive(stream: &[u8]) -> Result<Option<Vec<u8>>, Vec<u16>> {
    let (mut ping, mut rest) = (None, stream);
    // A message in parts: whether it is text, and what it holds so far.
    let mut message: Option<(bool, Vec<u8>)> = None;
    while let Some(frame) = Frame::read(rest)? {
        rest = &rest[frame.length..];
        let bad = || Err(vec![1002]);
        match (frame.opcode, &mut message) {
            (8.., _) if !frame.is_final || frame.payload.len() > 125 => return bad(),
            (8, _) => return Err(close_codes(&frame.payload)),
            (9, _) => ping = Some(frame.payload),
            (10, _) => {}
            (0, Some((_, content))) => content.extend(frame.payload),
            (1 | 2, None) => message = Some((frame.opcode == 1, frame.payload)),
            _ => return bad(),
        }
        let Some((is_text, content)) = &message else {
            continue;
        };
        if frame.opcode > 2 {
            continue;
        }
        let utf8 = std::str::from_utf8(content);
        let broken = utf8.is_err_and(|error| frame.is_final || error.error_len().is_some());
        // Both may be so at once, and either code is true.
        let mut codes = Vec::new();
        codes.extend((content.len() > MESSAGE_BYTES_MAX).then_some(1009));
        codes.extend((*is_text && broken).then_some(1007));
        if !codes.is_empty() {
            return Err(codes);
        }
        if frame.is_final {
            message = None;
        }
    }
    Ok(ping)
}

fn close_codes(payload: &[u8]) -> Vec<u16> {
    let Some((code, reason)) = payload.split_first_chunk::<2>() else {
        return vec![if payload.is_empty() { 1000 } else { 1002 }];
    };
    let legal = match u16::from_be_bytes(*code) {
        1002 => false,
        1004..=1006 | 1015 => false,
        // 1014 was registered later; the library does not know it.
        code => (1000..=1013).contains(&code) || (3000..=4999).contains(&code),
    };
    let code = if legal { 1000 } else { 1002 };
    match std::str::from_utf8(reason) {
        Ok(_) => vec![code],
        Err(_) => vec![1007],
    }
}

struct Frame {
    is_final: bool,
    opcode: u8,
    payload: Vec<u8>,
    length: usize,
}

impl Frame {
    /// The frame at the start, `None` while it is incomplete.
    fn read(bytes: &[u8]) -> Result<Option<Frame>, Vec<u16>> {
        let [first, second, rest @ ..] = bytes else {
            return Ok(None);
        };
        let is_masked = second & 0x80 != 0;
        let wide = match second & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let masked = if is_masked { 4 } else { 0 };
        if rest.len() < wide + masked {
            return Ok(None);
        }
        let size = match wide {
            0 => u64::from(second & 0x7f),
            _ => rest[..wide]
                .iter()
                .fold(0, |size, byte| size << 8 | u64::from(*byte)),
        };
        let opcode = first & 0x0f;
        if !matches!(opcode, 0..=2 | 8..=10) {
            return Err(vec![1002]);
        }
        if size > MESSAGE_BYTES_MAX as u64 {
            return Err(vec![1009]);
        }
        let (mask, rest) = rest[wide..].split_at(masked);
        let Some(payload) = rest.get(..size as usize) else {
            return Ok(None);
        };
        if !is_masked || first & 0x70 != 0 {
            return Err(vec![1002]);
        }
        let unmask = |(byte, mask): (&u8, &u8)| byte ^ mask;
        Ok(Some(Frame {
            is_final: first & 0x80 != 0,
            opcode,
            payload: payload
                .iter()
                .zip(mask.iter().cycle())
                .map(unmask)
                .collect(),
            length: 2 + wide + masked + size as usize,
        }))
    }
}
