//! Request heads and bodies.
//!
//! Claims: where a head or a body is cut on its way changes nothing; what is accepted has one
//! reading for a naive line splitter too, holds no bare line end and nothing outside ASCII, and
//! reads the same when it is written down again; a chunked body is what a second decoder makes of
//! it.

use super::entropy::Entropy;
use staffetta::limits::Limits;
use staffetta::wire::DecodeError;
use staffetta::wire::http::{Body, Head, Method, Target};

pub const HEAD_WORDS: &[&str] = &[
    "GET",
    "POST",
    "CONNECT",
    "HTTP/1.1",
    "HTTP/1.0",
    "http://a/b",
    "Host: a",
    "Content-Length: 3",
    "content-length",
    "Transfer-Encoding: chunked",
    "transfer-encoding",
    "\r\n",
    "\r\n\r\n",
    "\n",
    "\n\n",
    "\r",
    " ",
    "Connection: close, upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Accept-Encoding: gzip;q=0.0, *",
    "Authorization: Bearer x",
    "Expect: 100-continue",
];

pub const BODY_WORDS: &[&str] = &[
    "0\r\n\r\n",
    "\r\n",
    "5\r\nhello\r\n",
    "a;x=y\r\n",
    "\n",
    "fffffffffffffff",
];

/// What became of a head; heads are compared as they print.
#[derive(Debug, PartialEq)]
enum Reading {
    Incomplete,
    Refused,
    Read { head: String, length: usize },
}

fn reading(input: &[u8], limits: &Limits) -> Reading {
    match Head::parse(input, limits) {
        Ok(None) => Reading::Incomplete,
        Ok(Some(head)) => Reading::Read {
            length: head.length,
            head: format!("{head:?}"),
        },
        Err(error) => {
            assert!((400..600).contains(&error.status()), "{error:?}");
            Reading::Refused
        }
    }
}

pub fn head(input: &[u8]) {
    let small = Limits {
        head_bytes_max: 96,
        headers_max: 3,
        ..Limits::PRODUCTION
    };
    for limits in [Limits::PRODUCTION, small] {
        whole_and_cut(input, &limits);
        if let Ok(Some(head)) = Head::parse(input, &limits) {
            assert!(head.length <= limits.head_bytes_max);
            plain_lines(&input[..head.length], &head);
            written_again(&head);
        }
    }
}

fn whole_and_cut(input: &[u8], limits: &Limits) {
    let whole = reading(input, limits);
    if whole == Reading::Incomplete {
        assert!(input.len() < limits.head_bytes_max, "a head without end");
    }
    let step = input.len().div_ceil(200).max(1);
    let mut ends: Vec<usize> = (0..input.len()).step_by(step).collect();
    if let Reading::Read { length, .. } = whole {
        ends.extend([length - 1, length]);
    }
    for end in ends {
        let part = reading(&input[..end], limits);
        match (&part, &whole) {
            (Reading::Incomplete, Reading::Read { length, .. }) => assert!(end < *length, "late"),
            (Reading::Incomplete, _) => {}
            (Reading::Refused, whole) => assert_eq!(*whole, Reading::Refused, "cut at {end}"),
            (Reading::Read { .. }, whole) => assert_eq!(part, *whole, "cut at {end}"),
        }
    }
}

/// A reader that knows lines and colons finds the same framing.
fn plain_lines(raw: &[u8], head: &Head) {
    assert!(
        raw.iter().all(|byte| byte.is_ascii() && *byte != 0),
        "outside ASCII"
    );
    let text = std::str::from_utf8(raw).expect("ASCII");
    let bare = text.replace("\r\n", "");
    assert!(!bare.contains(['\r', '\n']), "a bare line end");
    let text = text.trim_start_matches("\r\n");
    let (text, rest) = text
        .split_once("\r\n\r\n")
        .expect("an empty line at the end");
    assert_eq!(rest, "", "something behind the empty line");
    let mut lines = text.split("\r\n");
    let line: Vec<&str> = lines.next().expect("a request line").split(' ').collect();
    assert_eq!(line.len(), 3, "{line:?}");
    let (mut lengths, mut codings, mut hosts) = (Vec::new(), Vec::new(), Vec::new());
    for line in lines {
        let (name, value) = line.split_once(':').expect("a colon in every field");
        assert!(!name.is_empty() && !name.contains([' ', '\t']), "{name:?}");
        match name.to_ascii_lowercase().as_str() {
            "content-length" => lengths.push(value.trim().to_owned()),
            "transfer-encoding" => codings.push(value.trim().to_ascii_lowercase()),
            "host" => hosts.push(value.trim().to_owned()),
            _ => {}
        }
    }
    match (lengths.as_slice(), codings.as_slice()) {
        ([], []) => assert!(head.body.is_end()),
        ([length], []) => assert_eq!(head.body.remaining(), length.parse().ok()),
        ([], [coding]) => {
            assert_eq!(coding, "chunked");
            assert_eq!(head.body, Body::chunked());
        }
        framing => panic!("two readers, two framings: {framing:?}"),
    }
    match hosts.as_slice() {
        [host] => assert_eq!(head.host, host),
        [] => assert!(head.method == Method::Connect && head.host.is_empty()),
        hosts => panic!("{hosts:?}"),
    }
    match head.target {
        Target::Path(path) => assert!(path.starts_with('/') && head.method != Method::Connect),
        Target::Authority(name) => assert!(name.contains(':') && head.method == Method::Connect),
    }
}

fn written_again(head: &Head) {
    let method = format!("{:?}", head.method).to_ascii_uppercase();
    let (Target::Path(target) | Target::Authority(target)) = head.target;
    let mut text = format!("{method} {target} HTTP/1.1\r\n");
    let mut field = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
    };
    field("Host", Some(head.host).filter(|host| !host.is_empty()));
    let length = head.body.remaining().map(|length| length.to_string());
    field("Content-Length", length.as_deref());
    field("Transfer-Encoding", length.is_none().then_some("chunked"));
    field("Expect", head.expects_continue.then_some("100-continue"));
    field("Connection", head.close.then_some("close"));
    field("Connection", head.websocket_key.map(|_| "Upgrade"));
    field("Upgrade", head.websocket_key.map(|_| "websocket"));
    field("Sec-WebSocket-Version", head.websocket_key.map(|_| "13"));
    field("Sec-WebSocket-Key", head.websocket_key);
    field("Authorization", head.authorization);
    field("User-Agent", Some(head.user_agent));
    field("Accept-Encoding", head.accepts_gzip.then_some("gzip"));
    field("If-None-Match", head.if_none_match);
    field("If-Match", head.if_match);
    field("Content-Encoding", head.content_encoding);
    field("Idempotency-Key", head.idempotency_key);
    field("X-Relay-No-Forward", head.stays_here.then_some("1"));
    text.push_str("\r\n");
    // Written out, a head is longer than it may have been.
    let limits = Limits {
        head_bytes_max: 4 * Limits::PRODUCTION.head_bytes_max,
        ..Limits::PRODUCTION
    };
    let again = Head::parse(text.as_bytes(), &limits);
    let again = again.expect(&text).expect("it is whole");
    let seen = |head: &Head| {
        let head = Head {
            length: 0,
            raw: &[],
            ..head.clone()
        };
        format!("{head:?}")
    };
    assert_eq!(seen(&again), seen(head), "written as {text:?}");
}

/// How the reading of a body ended.
#[derive(Debug, PartialEq)]
enum End {
    Whole,
    Incomplete,
    Refused,
}

/// Content, bytes dealt with, and the end.
type Content = (Vec<u8>, usize, End);

pub fn body(input: &[u8]) {
    let mut entropy = Entropy::new(input);
    let kind = entropy.byte();
    let cuts = entropy.take(3);
    let stream = entropy.rest();
    let limits = Limits {
        chunk_line_bytes_max: if kind & 4 == 0 { 256 } else { 12 },
        ..Limits::PRODUCTION
    };
    let sized = u64::from(kind >> 3);
    let (start, expected) = match kind & 1 {
        0 => (
            Body::chunked(),
            chunked(stream, limits.chunk_line_bytes_max),
        ),
        _ => (Body::sized(sized), by_length(stream, sized as usize)),
    };
    let mut step = cuts.iter().cycle();
    let mut cut = || step.next().map_or(1, |cut| usize::from(*cut) % 24 + 1);
    for found in [
        read(start.clone(), stream, &limits, || stream.len().max(1)),
        read(start.clone(), stream, &limits, || 1),
        read(start.clone(), stream, &limits, &mut cut),
    ] {
        assert_eq!(found, expected);
    }
    for step in [1, 1 + usize::from(kind)] {
        let (content, end) = read_all(start.clone(), stream, &limits, step);
        assert_eq!(
            (&content, &end),
            (&expected.0, &expected.2),
            "in steps of {step}"
        );
    }
}

/// The same by way of the call that takes all steps at once.
fn read_all(mut body: Body, stream: &[u8], limits: &Limits, step: usize) -> (Vec<u8>, End) {
    let (mut content, mut buffer) = (Vec::new(), Vec::new());
    for part in stream.chunks(step) {
        buffer.extend_from_slice(part);
        let sink = |bytes: &[u8]| {
            content.extend_from_slice(bytes);
            Ok(())
        };
        match body.decode_all(&buffer, limits, sink) {
            Ok(consumed) => drop(buffer.drain(..consumed)),
            Err(_) => return (content, End::Refused),
        }
    }
    let is_end = body.is_end();
    (content, if is_end { End::Whole } else { End::Incomplete })
}

/// Reads a body as a connection does: what is not consumed stays, `more` says how many bytes come.
fn read(
    mut body: Body,
    stream: &[u8],
    limits: &Limits,
    mut more: impl FnMut() -> usize,
) -> Content {
    let (mut content, mut at, mut visible) = (Vec::new(), 0, 0);
    loop {
        let buffer = &stream[at..visible];
        let piece = match body.decode(buffer, limits) {
            Ok(piece) => piece,
            Err(DecodeError::Malformed(_)) => return (content, at, End::Refused),
            Err(other) => panic!("{other:?}"),
        };
        assert!(piece.content.end <= piece.consumed && piece.consumed <= buffer.len());
        content.extend_from_slice(&buffer[piece.content]);
        at += piece.consumed;
        if body.is_end() {
            return (content, at, End::Whole);
        }
        if piece.consumed == 0 {
            if visible == stream.len() {
                return (content, at, End::Incomplete);
            }
            visible = stream.len().min(visible + more());
        }
    }
}

fn by_length(stream: &[u8], length: usize) -> Content {
    let here = length.min(stream.len());
    let end = if here == length {
        End::Whole
    } else {
        End::Incomplete
    };
    (stream[..here].to_vec(), here, end)
}

/// The second chunk reader, after RFC 9112 7.1, without trailers.
fn chunked(stream: &[u8], line_bytes_max: usize) -> Content {
    let (mut content, mut at) = (Vec::new(), 0);
    loop {
        let rest = &stream[at..];
        let Some(line_end) = rest.iter().position(|byte| *byte == b'\n') else {
            let end = if rest.len() < line_bytes_max {
                End::Incomplete
            } else {
                End::Refused
            };
            return (content, at, end);
        };
        let size = (line_end < line_bytes_max)
            .then(|| chunk_size(&rest[..line_end]))
            .flatten();
        let Some(size) = size else {
            return (content, at, End::Refused);
        };
        at += line_end + 1;
        let rest = &stream[at..];
        let here = usize::try_from(size).unwrap_or(usize::MAX).min(rest.len());
        content.extend_from_slice(&rest[..here]);
        at += here;
        if (here as u64) < size {
            return (content, at, End::Incomplete);
        }
        match &stream[at..] {
            [b'\r', b'\n', ..] => at += 2,
            [] | [b'\r'] => return (content, at, End::Incomplete),
            _ => return (content, at, End::Refused),
        }
        if size == 0 {
            return (content, at, End::Whole);
        }
    }
}

fn chunk_size(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix('\r')?;
    if line.contains(|c: char| c != '\t' && !(' '..='~').contains(&c)) {
        return None;
    }
    let size = match line.split_once(';') {
        Some((size, _)) => size.trim_end_matches([' ', '\t']),
        None => line,
    };
    let digits =
        size.len() <= 15 && !size.is_empty() && size.chars().all(|c| c.is_ascii_hexdigit());
    digits.then(|| u64::from_str_radix(size, 16).ok()).flatten()
}
