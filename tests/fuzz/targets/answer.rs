//! What goes out: event streams, frames in pieces, conditions on entity tags.
//!
//! Claims: a naive reader of chunks and a naive `EventSource` find exactly the events that were
//! meant, whatever the document holds; the rest of a frame is the rest; a list names a tag exactly
//! when the tag stands in it.

use super::entropy::Entropy;
use bytes::Bytes;
use staffetta::limits::Limits;
use staffetta::model::Version;
use staffetta::wire::frame::Frame;
use staffetta::wire::http::Body;
use staffetta::wire::{json, publication, sse};

/// Name, id and content of an event.
type Event = (String, String, Vec<u8>);

pub fn sse(input: &[u8]) {
    let document = Bytes::copy_from_slice(input);
    let line = sse::one_line(&document);
    assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
    assert!(
        document
            .iter()
            .filter(|byte| !b"\r\n".contains(byte))
            .eq(line.iter())
    );
    if let (Ok(before), Ok(after)) = (json::text(&document), std::str::from_utf8(&line)) {
        // A line end inside a string is no JSON; without it, it may be some.
        if let Ok(digest) = json::check(before, 64) {
            let after = json::text(after.as_bytes()).expect("text");
            assert_eq!(json::check(after, 64).ok(), Some(digest));
        }
    }
    let version = Version(Entropy::new(input).word());
    let event =
        |name: &str, content: &[u8]| (name.to_owned(), version.to_string(), content.to_vec());
    let update = || event("SSEEvent_update", b"{}");
    for (frame, events) in [
        (
            sse::registration(version, &line),
            vec![event("Registration", &line)],
        ),
        (
            sse::registration_only(version),
            vec![event("Registration", b"{}")],
        ),
        (
            sse::change(version, &line),
            vec![event("SSEConfig_payload", &line), update()],
        ),
        (sse::change_only(version), vec![update()]),
        (sse::heartbeat(), vec![]),
    ] {
        pieces(&frame);
        assert_eq!(events_of(&content(&frame)), events);
    }
    assert!(content(&Frame::whole(sse::preamble(version.0))).starts_with(b"retry: "));
}

fn bytes_from(frame: &Frame, offset: usize) -> Vec<u8> {
    frame
        .rest(offset)
        .iter()
        .flat_map(|run| run.iter().copied())
        .collect()
}

fn pieces(frame: &Frame) {
    let whole = bytes_from(frame, 0);
    assert_eq!(whole.len(), frame.length());
    let borders = [
        frame.head.len(),
        frame.head.len() + frame.content.len(),
        whole.len(),
    ];
    let near = borders
        .iter()
        .flat_map(|border| [border.saturating_sub(1), *border, border + 1]);
    for offset in near.filter(|offset| *offset <= whole.len()) {
        assert_eq!(bytes_from(frame, offset), whole[offset..], "from {offset}");
    }
}

/// The content of the chunks of a frame, which has no last one.
fn content(frame: &Frame) -> Vec<u8> {
    let (bytes, mut content, mut at) = (bytes_from(frame, 0), Vec::new(), 0);
    let mut body = Body::chunked();
    loop {
        let piece = body
            .decode(&bytes[at..], &Limits::PRODUCTION)
            .expect("chunks");
        content.extend_from_slice(&bytes[at..][piece.content]);
        at += piece.consumed;
        if piece.consumed == 0 {
            assert_eq!(at, bytes.len(), "a frame ends with its chunk");
            return content;
        }
    }
}

/// After the HTML standard, 9.2.6, for streams without a byte order mark.
fn events_of(content: &[u8]) -> Vec<Event> {
    let (mut events, mut name, mut id) = (Vec::new(), String::new(), String::new());
    let mut value: Option<Vec<u8>> = None;
    assert!(content.ends_with(b"\n\n"));
    for line in content.split(|byte| *byte == b'\n' || *byte == b'\r') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            assert!(line.is_empty(), "{line:?}");
            let value = value.take();
            events.extend(value.map(|value| (std::mem::take(&mut name), id.clone(), value)));
            continue;
        };
        let text = line[colon + 1..]
            .strip_prefix(b" ")
            .unwrap_or(&line[colon + 1..]);
        let string = || String::from_utf8_lossy(text).into_owned();
        match &line[..colon] {
            b"event" => name = string(),
            b"id" => id = string(),
            b"data" => assert_eq!(value.replace(text.to_vec()), None, "two lines of content"),
            other => assert!(other.is_empty(), "{other:?}"),
        }
    }
    events
}

pub fn etag_names(input: &[u8]) {
    let raw = String::from_utf8_lossy(input);
    if publication::names(&raw, "\"ab\"") {
        assert!(raw.contains("\"ab\"") || raw.contains('*'), "{raw:?}");
    }
    let mut entropy = Entropy::new(input);
    let tags = [
        "\"ab\"", "W/\"ab\"", "\"abc\"", "\"b\"", "ab", "*", "", "\"ab", "w/\"ab\"",
    ];
    let blanks = ["", " ", "\t", "  "];
    let (mut list, mut is_named) = (Vec::new(), false);
    for _ in 0..=entropy.below(5) {
        let tag = entropy.below(tags.len());
        is_named |= tag < 2 || tags[tag] == "*";
        let (before, after) = (entropy.below(blanks.len()), entropy.below(blanks.len()));
        list.push(format!("{}{}{}", blanks[before], tags[tag], blanks[after]));
    }
    let list = list.join(",");
    assert_eq!(publication::names(&list, "\"ab\""), is_named, "{list:?}");
}
