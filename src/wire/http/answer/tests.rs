//! The odd answers of real servers and proxies, as one table; and what is read out of good ones.

use super::*;

/// The content of a whole answer that arrives `step` bytes at a time and then ends; interim ones
/// are skipped.
fn read(asked: Asked, input: &[u8], step: usize) -> Result<(u16, Vec<u8>), DecodeError> {
    let limits = &Limits::PRODUCTION;
    let (mut buffer, mut content, mut body) = (Vec::new(), Vec::new(), None);
    let mut chunks = input.chunks(step);
    loop {
        let (status, body): &mut (u16, Body) = match &mut body {
            Some(body) => body,
            None => match Head::parse(&buffer, asked, limits)? {
                Some(head) => {
                    let (length, interim) = (head.length, head.is_interim());
                    let found = (head.status, head.body);
                    buffer.drain(..length);
                    match interim {
                        true => continue,
                        false => body.insert(found),
                    }
                }
                None => match chunks.next() {
                    Some(chunk) => {
                        buffer.extend_from_slice(chunk);
                        continue;
                    }
                    None => return Err(DecodeError::Malformed("message cut off")),
                },
            },
        };
        let consumed = body.decode_all(&buffer, limits, |bytes| {
            content.extend_from_slice(bytes);
            Ok(())
        })?;
        buffer.drain(..consumed);
        if body.is_end() {
            return Ok((*status, content));
        }
        match chunks.next() {
            Some(chunk) => buffer.extend_from_slice(chunk),
            None => body.handle_end()?,
        }
    }
}

/// What was asked; the answer behind its version; its status and content, or what is wrong.
type Case = (
    Asked,
    &'static str,
    Result<(u16, &'static str), &'static str>,
);

const CUT: &str = "message cut off";

/// What the codec crate gets wrong, case by case, and what is right.
const ODD: &[Case] = &[
    (
        Asked::Content,
        "200 OK\r\nContent-Length: 3\r\n\r\nabc",
        Ok((200, "abc")),
    ),
    (
        Asked::Content,
        "200 OK\r\n\r\nuntil the end",
        Ok((200, "until the end")),
    ),
    (
        Asked::Content,
        "200\r\nContent-Length: 0\r\n\r\n",
        Ok((200, "")),
    ),
    (
        Asked::Content,
        "200 \r\nContent-Length: 0\r\n\r\n",
        Ok((200, "")),
    ),
    (
        Asked::Content,
        "204 No\r\nContent-Length: 5\r\n\r\n",
        Ok((204, "")),
    ),
    (
        Asked::Content,
        "304 No\r\nContent-Length: 5\r\n\r\n",
        Ok((304, "")),
    ),
    (
        Asked::Head,
        "200 OK\r\nContent-Length: 5\r\n\r\n",
        Ok((200, "")),
    ),
    (
        Asked::Head,
        "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        Ok((200, "")),
    ),
    (
        Asked::Content,
        "299 x\r\nContent-Length: 1\r\n\r\na",
        Ok((299, "a")),
    ),
    (
        Asked::Content,
        "599 x\r\nContent-Length: 1\r\n\r\na",
        Ok((599, "a")),
    ),
    (
        Asked::Content,
        "099 x\r\nContent-Length: 1\r\n\r\na",
        Err("status line"),
    ),
    (
        Asked::Content,
        "200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2;a=b\r\nab\r\n0\r\n\r\n",
        Ok((200, "ab")),
    ),
    (
        Asked::Content,
        "200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        Err("transfer coding"),
    ),
    (
        Asked::Content,
        "200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Err("transfer coding"),
    ),
    (
        Asked::Content,
        "200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
        Err("length and coding"),
    ),
    (
        Asked::Content,
        "200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        Err("two Content-Length"),
    ),
    (
        Asked::Content,
        "200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        Ok((200, "abc")),
    ),
    (
        Asked::Content,
        "200 OK\r\nContent-Length: 3, 3\r\n\r\nabc",
        Err("Content-Length"),
    ),
    (
        Asked::Content,
        "200 OK\r\nContent-Length: +3\r\n\r\nabc",
        Err("Content-Length"),
    ),
    (
        Asked::Content,
        "200 OK\r\nContent-Length: \r\n\r\n",
        Err("Content-Length"),
    ),
    (
        Asked::Content,
        "200 OK\r\nContent-Length: 4\r\n\r\nabc",
        Err(CUT),
    ),
    (
        Asked::Content,
        "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
        Err(CUT),
    ),
    (Asked::Content, "200 OK\r\nContent-Le", Err(CUT)),
    (
        Asked::Content,
        "100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\n\r\na",
        Ok((200, "a")),
    ),
    (
        Asked::Content,
        "101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
        Err("101 that was not asked for"),
    ),
    (
        Asked::Upgrade,
        "101 Switching Protocols\r\n\r\n",
        Ok((101, "")),
    ),
    (
        Asked::Upgrade,
        "503 x\r\nContent-Length: 2\r\n\r\nno",
        Ok((503, "no")),
    ),
    (
        Asked::Tunnel,
        "200 Connection established\r\n\r\n",
        Ok((200, "")),
    ),
    (
        Asked::Tunnel,
        "200 OK\r\nContent-Length: 9\r\n\r\n",
        Ok((200, "")),
    ),
    (
        Asked::Tunnel,
        "407 x\r\nContent-Length: 2\r\n\r\nno",
        Ok((407, "no")),
    ),
    (
        Asked::Content,
        "200 OK\nContent-Length: 3\n\nabc",
        Err("bare line feed"),
    ),
    (
        Asked::Content,
        "200 OK\r\nA: b\r\n c: d\r\n\r\n",
        Err("not an HTTP answer"),
    ),
    (
        Asked::Content,
        "200 OK\r\nA : b\r\n\r\n",
        Err("not an HTTP answer"),
    ),
    (
        Asked::Content,
        "200 OK\r\nX: \u{e9}\r\nContent-Length: 1\r\n\r\na",
        Ok((200, "a")),
    ),
    (
        Asked::Content,
        "200 \u{e9}\r\nContent-Length: 1\r\n\r\na",
        Ok((200, "a")),
    ),
    (
        Asked::Content,
        "200 OK\r\nConnection: \u{e9}\r\n\r\na",
        Err("header value outside ASCII"),
    ),
];

#[test]
fn odd_answers_are_read_rightly_or_refused() {
    for (asked, rest, expected) in ODD {
        let input = format!("HTTP/1.1 {rest}");
        for step in [1, 7, input.len()] {
            let found = read(*asked, input.as_bytes(), step);
            let expected = (*expected)
                .map(|(status, content)| (status, content.as_bytes().to_vec()))
                .map_err(DecodeError::Malformed);
            assert_eq!(found, expected, "{input:?} by {step}");
        }
    }
}

#[test]
fn old_servers_are_understood() {
    let input = b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\nhello";
    assert_eq!(read(Asked::Content, input, 3), Ok((200, b"hello".to_vec())));
    let sized = b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    assert!(!parse(sized).keeps_alive);
    assert_eq!(read(Asked::Content, sized, 3), Ok((200, b"hi".to_vec())));
    let chunked = b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert!(read(Asked::Content, chunked, 3).is_err());
    for other in [
        &b"SSH-2.0-OpenSSH_9.2\r\n"[..],
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"<html>",
    ] {
        assert!(read(Asked::Content, other, 64).is_err());
    }
}

#[test]
fn an_endless_head_is_given_up() {
    let limits = &Limits::PRODUCTION;
    let mut endless = b"HTTP/1.1 200 OK\r\nX: ".to_vec();
    endless.resize(limits.answer_head_bytes_max - 1, b'a');
    assert!(matches!(
        Head::parse(&endless, Asked::Content, limits),
        Ok(None)
    ));
    endless.push(b'a');
    let found = Head::parse(&endless, Asked::Content, limits);
    assert!(matches!(found, Err(DecodeError::HeadTooLarge(_))));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(65));
    let found = Head::parse(many.as_bytes(), Asked::Content, limits);
    assert!(matches!(found, Err(DecodeError::HeadTooLarge(_))));
}

fn parse(input: &[u8]) -> Head<'_> {
    Head::parse(input, Asked::Upgrade, &Limits::PRODUCTION)
        .unwrap()
        .unwrap()
}

#[test]
fn fields_are_found_in_any_case_and_passed_on_as_they_came() {
    let input = b"HTTP/1.1 200 OK\r\nCONTENT-TYPE: Application/JSON; charset=utf-8\r\n\
        etag:\"a\"\r\nX-Config-Path: r1,r2\r\nLocation: http://b/\r\nContent-Encoding: gzip\r\n\
        X-Odd: \xe9:b \r\nContent-Length: 2\r\n\r\n{}";
    let head = parse(input);
    assert!(head.is_json() && head.keeps_alive);
    assert_eq!(
        (head.etag, head.config_path),
        (Some("\"a\""), Some("r1,r2"))
    );
    assert_eq!(
        (head.location, head.content_encoding),
        (Some("http://b/"), Some("gzip"))
    );
    assert_eq!(head.fields().nth(5), Some(("X-Odd", &b"\xe9:b"[..])));
    assert_eq!(head.fields().count(), 7);
    assert!(!parse(b"HTTP/1.1 200 OK\r\nConnection: TE, Close\r\n\r\n").keeps_alive);
    assert!(!parse(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n").is_json());
}

#[test]
fn an_upgrade_is_complete_or_none() {
    let whole = "HTTP/1.1 101 S\r\nUpgrade: WebSocket\r\nConnection: keep-alive, upgrade\r\n\
        Sec-WebSocket-Accept: abc=\r\n\r\n";
    assert_eq!(parse(whole.as_bytes()).websocket_accept, Some("abc="));
    for (part, other) in [("WebSocket", "h2c"), ("upgrade", "close"), ("101", "200")] {
        let less = whole.replacen(part, other, 1);
        assert_eq!(parse(less.as_bytes()).websocket_accept, None, "{less}");
    }
}

#[test]
fn retry_after_is_seconds_or_a_date_and_bounded() {
    let limits = &Limits::PRODUCTION;
    // 1994-11-06 is long before any plausible clock; 2026-11-30T02:00:00Z is after.
    let now = Wall::from_unix(1_796_004_000);
    for (value, seconds) in [
        ("7", Some(7)),
        ("0", Some(0)),
        ("99999999999999999999999", Some(3600)),
        ("86400", Some(3600)),
        ("Mon, 30 Nov 2026 02:00:30 GMT", Some(30)),
        ("Sun, 06 Nov 1994 08:49:37 GMT", Some(0)),
        ("Fri, 30 Nov 2096 02:00:30 GMT", Some(3600)),
        ("-1", None),
        ("soon", None),
        ("", None),
    ] {
        let input = format!("HTTP/1.1 503 x\r\nRetry-After: {value}\r\n\r\n");
        let found = parse(input.as_bytes()).retry_after(limits, now);
        assert_eq!(found, seconds.map(Duration::from_secs), "{value}");
    }
    let dated = parse(b"HTTP/1.1 503 x\r\nRetry-After: Mon, 30 Nov 2026 02:00:30 GMT\r\n\r\n");
    assert_eq!(dated.retry_after(limits, Wall::from_unix(60)), None);
}
