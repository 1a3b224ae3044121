//! Server-sent events, as the browser SDKs read them.
//!
//! Owns the text of the stream: the response head, its preamble, the events and the comment that
//! keeps it alive. Each goes out as one HTTP chunk, so that a proxy passes it on at once.
//!
//! The names are the SDKs' own: `Registration` with the whole document comes first on every stream;
//! a change is `SSEConfig_payload` with the document for those that take it from the stream, and
//! `SSEEvent_update` for those that fetch it. In `events_only` mode documents stay out altogether,
//! because that mode is for networks which limit the size of an answer.
//!
//! Invariant: an event's data is one line. A raw line end inside the data would end the field.

use bytes::Bytes;

use crate::model::Version;

use super::frame::Frame;

/// What `data` an event without a document carries: the SDKs ignore it and need it to be there.
const EMPTY_DATA: &str = "{}";

/// The head of the response, up to and without the fields that depend on the moment.
pub const RESPONSE_HEAD: &str = "HTTP/1.1 200 OK\r\n\
    content-type: text/event-stream\r\n\
    cache-control: no-store\r\n\
    x-accel-buffering: no\r\n\
    transfer-encoding: chunked\r\n";

/// The first chunk: how long to wait before a reconnect, in milliseconds. Each client is told
/// another time, so that a fleet does not come back in one instant.
pub fn preamble(retry_ms: u64) -> String {
    chunk_of(&format!("retry: {retry_ms}\n\n"))
}

/// A comment; any byte counts as a sign of life.
pub fn heartbeat() -> Frame {
    Frame::whole(chunk_of(":\n\n"))
}

/// The end of a stream that ends on purpose.
pub fn end() -> Frame {
    Frame::whole(Bytes::from_static(b"0\r\n\r\n"))
}

/// The first event of a stream, with the document.
pub fn registration(version: Version, document: &Bytes) -> Frame {
    event("Registration", version, document, String::new())
}

/// A change, with the document, for both kinds of reader.
pub fn change(version: Version, document: &Bytes) -> Frame {
    event(
        "SSEConfig_payload",
        version,
        document,
        text("SSEEvent_update", version),
    )
}

/// The first event of an `events_only` stream.
pub fn registration_only(version: Version) -> Frame {
    Frame::whole(chunk_of(&text("Registration", version)))
}

/// A change on an `events_only` stream.
pub fn change_only(version: Version) -> Frame {
    Frame::whole(chunk_of(&text("SSEEvent_update", version)))
}

/// The document as one line. Shared with `json` where that has no raw line ends; JSON strings
/// cannot hold any, so all that is lost is white space between tokens.
pub fn one_line(json: &Bytes) -> Bytes {
    let is_end = |byte: &u8| *byte == b'\n' || *byte == b'\r';
    if !json.iter().any(is_end) {
        return json.clone();
    }
    json.iter().filter(|byte| !is_end(byte)).copied().collect()
}

fn text(name: &str, version: Version) -> String {
    format!("event: {name}\nid: {version}\ndata: {EMPTY_DATA}\n\n")
}

fn event(name: &str, version: Version, document: &Bytes, after: String) -> Frame {
    let before = format!("event: {name}\nid: {version}\ndata: ");
    let after = format!("\n\n{after}");
    let size = before.len() + document.len() + after.len();
    Frame {
        head: format!("{size:x}\r\n{before}").into(),
        content: document.clone(),
        tail: format!("{after}\r\n").into(),
    }
}

fn chunk_of(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::wire::http::Body;

    /// The content of a chunked stream, and whether the stream was ended.
    fn unchunk(frames: &[Frame]) -> (String, bool) {
        let bytes: Vec<u8> = frames
            .iter()
            .flat_map(|frame| {
                frame
                    .rest(0)
                    .iter()
                    .flat_map(|run| run.to_vec())
                    .collect::<Vec<_>>()
            })
            .collect();
        let (mut body, mut at, mut content) = (Body::chunked(), 0, Vec::new());
        loop {
            let piece = body.decode(&bytes[at..], &Limits::PRODUCTION).unwrap();
            content.extend_from_slice(&bytes[at..][piece.content.clone()]);
            at += piece.consumed;
            if piece.consumed == 0 {
                assert_eq!(at, bytes.len());
                return (String::from_utf8(content).unwrap(), body.is_end());
            }
        }
    }

    #[test]
    fn a_change_speaks_to_both_kinds_of_reader() {
        let document = Bytes::from_static(b"{\"a\":1}");
        let (text, ended) = unchunk(&[change(Version(7), &document), end()]);
        let want = "event: SSEConfig_payload\nid: 7\ndata: {\"a\":1}\n\n\
            event: SSEEvent_update\nid: 7\ndata: {}\n\n";
        assert_eq!((text.as_str(), ended), (want, true));
    }

    #[test]
    fn a_stream_reads_as_one_text() {
        let document = Bytes::from_static(b"{}");
        let first = Frame::whole(preamble(2000));
        let (text, ended) = unchunk(&[first, registration(Version(1), &document), heartbeat()]);
        assert_eq!(
            text,
            "retry: 2000\n\nevent: Registration\nid: 1\ndata: {}\n\n:\n\n"
        );
        assert!(!ended);
    }

    #[test]
    fn raw_line_ends_leave_the_document() {
        let pretty = Bytes::from_static(b"{\r\n \"a\": \"\\n\"\n}");
        assert_eq!(&one_line(&pretty)[..], b"{ \"a\": \"\\n\"}");
        let compact = Bytes::from_static(b"{\"a\":1}");
        assert_eq!(one_line(&compact).as_ptr(), compact.as_ptr());
    }
}
