//! Heads on their way through: what goes on, what stays, what is added.

use super::*;
use crate::limits::Limits;

fn address() -> Address {
    Address {
        is_tls: false,
        host: "10.0.0.2".into(),
        port: 8080,
        path: "/app".into(),
    }
}

/// What goes on of a request, as text.
fn onward(raw: &str) -> Result<String, DecodeError> {
    onward_by(raw, Hop::Server)
}

fn onward_by(raw: &str, hop: Hop<'_>) -> Result<String, DecodeError> {
    let head = Head::parse(raw.as_bytes(), &Limits::PRODUCTION)
        .unwrap()
        .unwrap();
    let address = address();
    let onward = Onward {
        address: &address,
        host: None,
        client: Some("192.0.2.7"),
        is_tls: true,
        hop,
    };
    request(raw.as_bytes(), &head, onward).map(|bytes| String::from_utf8(bytes).unwrap())
}

const OURS: &str = "x-forwarded-for: 192.0.2.7\r\nx-forwarded-proto: https\r\n\
    x-forwarded-host: shop:1\r\nvia: 1.1 staffetta\r\n";

#[test]
fn what_belongs_to_the_connection_stays_behind() {
    let raw = "\r\nGET /a?b=c HTTP/1.1\r\nHost: shop:1\r\nConnection: keep-alive, X-Hop ,close\r\n\
        Keep-Alive: timeout=5\r\nX-Hop: 1\r\nTE: trailers\r\nProxy-Authorization: Basic x\r\n\
        Upgrade: h2c\r\nHTTP2-Settings: AAM\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: for=x\r\n\
        Cookie: a=b\r\nVia: 1.0 x\r\nX-Forwarded-Prefix: /x\r\nAuthorization: Bearer t\r\n\r\nrest: 1\r\n";
    let want = format!(
        "GET /app/a?b=c HTTP/1.1\r\nhost: 10.0.0.2:8080\r\nCookie: a=b\r\nVia: 1.0 x\r\n\
         Authorization: Bearer t\r\n{OURS}\r\n"
    );
    assert_eq!(onward(raw).unwrap(), want);
}

#[test]
fn nobody_behind_the_relay_hears_what_relays_say_to_each_other() {
    let raw = "POST /a HTTP/1.1\r\nHost: shop:1\r\nContent-Length: 1\r\nX-Relay-Cluster: plant\r\n\
        x-relay-from: au-1\r\nX-RELAY-HOPS: 1\r\nX-Relay-Epoch: 5\r\nX-Relay-Deadline: 100\r\n\
        Idempotency-Key: k\r\n\r\n";
    let want = format!(
        "POST /app/a HTTP/1.1\r\nhost: 10.0.0.2:8080\r\nIdempotency-Key: k\r\n{OURS}\
         content-length: 1\r\n\r\n"
    );
    assert_eq!(onward(raw).unwrap(), want);
}

#[test]
fn a_server_behind_a_peer_sees_the_client_as_it_came() {
    let raw = "DELETE /a HTTP/1.1\r\nHost: shop:1\r\nAuthorization: Bearer client\r\n\
        X-Relay-Authorization: Bearer forged\r\nX-Relay-Epoch: 9\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n";
    let told = [
        ("authorization", "Bearer peer".to_owned()),
        ("x-relay-epoch", "5".to_owned()),
        ("via", "1.1 au-1".to_owned()),
    ];
    let sent = onward_by(raw, Hop::ToPeer(&told)).unwrap();
    let want = "DELETE /app/a HTTP/1.1\r\nhost: 10.0.0.2:8080\r\n\
        x-relay-authorization: Bearer client\r\nx-forwarded-for: 192.0.2.7\r\n\
        x-forwarded-proto: https\r\nx-forwarded-host: shop:1\r\nauthorization: Bearer peer\r\n\
        x-relay-epoch: 5\r\nvia: 1.1 au-1\r\n\r\n";
    assert_eq!(sent, want);
    let served = onward_by(&sent, Hop::FromPeer).unwrap();
    let want = "DELETE /app/app/a HTTP/1.1\r\nhost: 10.0.0.2:8080\r\n\
        authorization: Bearer client\r\nx-forwarded-for: 192.0.2.7\r\n\
        x-forwarded-proto: https\r\nx-forwarded-host: shop:1\r\nvia: 1.1 au-1\r\n\
        via: 1.1 staffetta\r\n\r\n";
    assert_eq!(served, want);
}

#[test]
fn framing_is_written_anew() {
    for (raw, want) in [
        ("GET /a HTTP/1.1\r\nHost: shop:1\r\n", ""),
        (
            "GET /a HTTP/1.1\r\nHost: shop:1\r\nContent-Length: 0\r\n",
            "",
        ),
        (
            "GET /a HTTP/1.1\r\nHost: shop:1\r\nContent-Length: 007\r\n",
            "content-length: 7\r\n",
        ),
        (
            "POST /a HTTP/1.1\r\nHost: shop:1\r\n",
            "content-length: 0\r\n",
        ),
        (
            "PUT /a HTTP/1.1\r\nHost: shop:1\r\nTransfer-Encoding: Chunked\r\n",
            "transfer-encoding: chunked\r\n",
        ),
        (
            "POST /a HTTP/1.1\r\nHost: shop:1\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\
             Connection: content-length\r\n",
            "content-length: 3\r\n",
        ),
    ] {
        let text = onward(&format!("{raw}\r\n")).unwrap();
        let (_, framing) = text.split_once(OURS).unwrap();
        assert_eq!(framing, format!("{want}\r\n"), "{raw}");
        assert!(!text.to_ascii_lowercase().contains("expect"));
    }
}

#[test]
fn a_websocket_upgrade_goes_on_and_no_other() {
    let raw = "GET /a HTTP/1.1\r\nHost: shop:1\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let text = onward(raw).unwrap();
    assert!(
        text.ends_with("connection: upgrade\r\nupgrade: websocket\r\n\r\n"),
        "{text}"
    );
    assert!(text.contains("\r\nSec-WebSocket-Key: dGhl"));
    let text = onward(&raw.replace("WebSocket\r\nSec", "h2c\r\nSec")).unwrap();
    assert!(text.ends_with(&format!("{OURS}\r\n")), "{text}");
}

#[test]
fn announced_trailers_are_refused() {
    let raw = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n";
    assert_eq!(onward(raw).unwrap_err().status(), 501);
}

#[test]
fn a_configured_host_is_what_the_destination_sees() {
    let raw = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let head = Head::parse(raw, &Limits::PRODUCTION).unwrap().unwrap();
    let address = address();
    let onward = Onward {
        address: &address,
        host: Some("plant.example"),
        client: None,
        is_tls: false,
        hop: Hop::Server,
    };
    let text = String::from_utf8(request(raw, &head, onward).unwrap()).unwrap();
    assert!(text.contains("\r\nhost: plant.example\r\n") && !text.contains("forwarded-for"));
    assert!(text.contains("\r\nx-forwarded-proto: http\r\nx-forwarded-host: a\r\n"));
}

const ADDED: Added<'_> = Added {
    set_cookie: None,
    date: "Sun, 29 Nov 2026 18:04:05 GMT",
    close: false,
};

type Field = (&'static str, &'static [u8]);

fn answer(status: u16, fields: &[Field], framing: Framing, added: Added<'_>) -> String {
    let bytes = response(status, fields.iter().copied(), framing, added).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn an_answer_keeps_its_fields_and_its_date() {
    let fields: &[Field] = &[
        ("Date", b"x"),
        ("Set-Cookie", b"Aff=theirs"),
        ("Connection", b"X-Hop, keep-alive"),
        ("X-Hop", b"1"),
        ("Content-Length", b"5"),
        ("Trailer", b"X"),
        ("Alt-Svc", b"h3"),
        ("Content-Type", b"text/plain"),
    ];
    let added = Added {
        set_cookie: Some("Aff=ours; path=/"),
        close: true,
        ..ADDED
    };
    assert_eq!(
        answer(200, fields, Framing::Length(5), added),
        "HTTP/1.1 200 OK\r\nDate: x\r\nSet-Cookie: Aff=theirs\r\nContent-Type: text/plain\r\n\
         via: 1.1 staffetta\r\nset-cookie: Aff=ours; path=/\r\ncontent-length: 5\r\n\
         connection: close\r\n\r\n"
    );
}

#[test]
fn an_answer_is_framed_by_what_may_have_content() {
    for (method, status, length, want, written) in [
        (
            Method::Get,
            200,
            Some(5),
            Framing::Length(5),
            "content-length: 5\r\n\r\n",
        ),
        (
            Method::Get,
            200,
            None,
            Framing::Chunked,
            "transfer-encoding: chunked\r\n\r\n",
        ),
        (
            Method::Head,
            200,
            Some(5),
            Framing::Absent(Some(5)),
            "content-length: 5\r\n\r\n",
        ),
        (
            Method::Head,
            200,
            None,
            Framing::Absent(None),
            "staffetta\r\n\r\n",
        ),
        (
            Method::Get,
            204,
            Some(0),
            Framing::Absent(None),
            "staffetta\r\n\r\n",
        ),
        (
            Method::Get,
            304,
            Some(9),
            Framing::Absent(Some(9)),
            "content-length: 9\r\n\r\n",
        ),
        (
            Method::Get,
            101,
            None,
            Framing::Tunnel,
            "upgrade: websocket\r\n\r\n",
        ),
    ] {
        let framing = Framing::of(method, status, length);
        assert_eq!(framing, want, "{status}");
        let text = answer(status, &[], framing, ADDED);
        assert!(text.ends_with(written), "{status}: {text}");
        assert!(text.contains("\r\ndate: Sun, 29 Nov"));
    }
    let text = answer(599, &[], Framing::Chunked, ADDED);
    assert!(text.starts_with("HTTP/1.1 599 \r\n"), "{text}");
}

#[test]
fn bytes_beyond_ascii_pass_and_line_ends_do_not() {
    let latin: &[Field] = &[("X", b"caf\xe9"), ("Connection", b"\xff")];
    let bytes = response(200, latin.iter().copied(), Framing::Chunked, ADDED).unwrap();
    assert!(bytes.windows(5).any(|window| window == b"caf\xe9\r"));
    for odd in [
        ("X", &b"a\r\nY: b"[..]),
        ("X", b"a\0"),
        ("X Y", b"a"),
        ("", b"a"),
        ("X:", b"a"),
    ] {
        assert!(
            response(200, [odd].into_iter(), Framing::Chunked, ADDED).is_err(),
            "{odd:?}"
        );
    }
}

#[test]
fn chunks_are_announced_in_hex() {
    assert_eq!(chunk_line(26), "1a\r\n");
    assert_eq!((LAST_CHUNK, CONTINUE.len()), (&b"0\r\n\r\n"[..], 25));
}
