//! Answers of an upstream, and what IAM gives.
//!
//! Claims: where an answer is cut on its way changes nothing; what is read has one framing for a
//! naive line splitter too; its fields are the lines of the head; a wait is bounded; a token can
//! stand in a header.

use super::entropy::Entropy;
use staffetta::limits::Limits;
use staffetta::time::Wall;
use staffetta::wire::http::Body;
use staffetta::wire::http::answer::{Asked, Head};
use staffetta::wire::iam::client;

pub const WORDS: &[&str] = &[
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.0 200\r\n",
    "HTTP/1.1 101 S\r\n",
    "HTTP/1.1 100 C\r\n\r\n",
    "Content-Length: 3",
    "Content-Length: 3\r\nContent-Length: 3",
    "Transfer-Encoding: Chunked",
    "Connection: close, upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Accept: a",
    "Retry-After: 7",
    "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT",
    "Content-Type: application/json",
    "X-Config-Path: a,b",
    "\r\n",
    "\r\n\r\n",
    "\n",
    ": ",
];

pub fn http_answer(input: &[u8]) {
    let small = Limits {
        answer_head_bytes_max: 96,
        headers_max: 3,
        ..Limits::PRODUCTION
    };
    let kinds = [Asked::Content, Asked::Head, Asked::Upgrade, Asked::Tunnel];
    for limits in [Limits::PRODUCTION, small] {
        for asked in kinds {
            let whole = reading(input, asked, &limits);
            let step = input.len().div_ceil(50).max(1);
            for end in (0..input.len()).step_by(step) {
                cut(end, reading(&input[..end], asked, &limits), &whole);
            }
            if let Ok(Some(head)) = Head::parse(input, asked, &limits) {
                assert!(head.length <= limits.answer_head_bytes_max);
                plain_lines(&input[..head.length], &head, asked, &limits);
            }
        }
    }
    grant(input);
}

/// A head as it prints and its length; `None` while it is incomplete.
type Reading = Result<Option<(String, usize)>, ()>;

fn reading(input: &[u8], asked: Asked, limits: &Limits) -> Reading {
    match Head::parse(input, asked, limits) {
        Ok(head) => Ok(head.map(|head| (format!("{head:?}"), head.length))),
        Err(_) => Err(()),
    }
}

fn cut(end: usize, part: Reading, whole: &Reading) {
    match (&part, whole) {
        (Ok(None), Ok(Some((_, length)))) => assert!(end < *length, "late at {end}"),
        (Ok(None), _) => {}
        _ => assert_eq!(part, *whole, "cut at {end}"),
    }
}

fn plain_lines(raw: &[u8], head: &Head<'_>, asked: Asked, limits: &Limits) {
    let text = String::from_utf8_lossy(raw);
    let bare = text.replace("\r\n", "");
    assert!(!bare.contains('\n'), "a bare line end");
    let lines = text.trim_start_matches("\r\n").split("\r\n").skip(1);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let values = |name: &str| -> Vec<&str> {
        let fields = lines.iter().filter_map(|line| line.split_once(':'));
        let named = fields.filter(|(found, _)| found.eq_ignore_ascii_case(name));
        named
            .map(|(_, value)| value.trim_matches([' ', '\t']))
            .collect()
    };
    let (lengths, codings) = (values("content-length"), values("transfer-encoding"));
    assert!(lengths.is_empty() || codings.is_empty(), "two framings");
    let has_none = matches!(
        (head.status, asked),
        (100..=199 | 204 | 304, _) | (_, Asked::Head)
    ) || (asked == Asked::Tunnel && head.status < 300);
    let body = match (lengths.first(), codings.first()) {
        _ if has_none => Body::empty(),
        (Some(length), _) => Body::sized(length.parse().expect("a length")),
        (None, Some(coding)) => {
            assert!(coding.eq_ignore_ascii_case("chunked"));
            Body::chunked_answer(limits)
        }
        (None, None) => Body::until_close(),
    };
    assert_eq!(head.body, body);
    assert_eq!(head.fields().count(), lines.len(), "{lines:?}");
    for now in [0, 784_111_777, 1_796_004_000] {
        let wait = head.retry_after(limits, Wall::from_unix(now));
        assert!(wait.is_none_or(|wait| wait <= limits.retry_after_max));
    }
    if head.websocket_accept.is_some() {
        assert_eq!((head.status, asked), (101, Asked::Upgrade));
    }
}

fn grant(input: &[u8]) {
    let limits = Limits::PRODUCTION;
    let now = Wall::from_unix(Entropy::new(input).word() % 4_000_000_000);
    if let Ok(grant) = client::parse_grant(input, &limits, now) {
        assert!(grant.token.bytes().all(|byte| byte.is_ascii_graphic()));
        assert!((1..=limits.credential_bytes_max).contains(&grant.token.len()));
        assert!(grant.lifetime <= limits.token_lifetime_max);
    }
    let form = client::form(input);
    assert!(form.bytes().all(|byte| byte.is_ascii_graphic()));
}
