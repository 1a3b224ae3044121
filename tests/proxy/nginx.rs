//! The relay before Debian's nginx: HTTP as a server that everybody knows speaks it.
//!
//! What nginx answers is not this test's to know: each request is made twice, to nginx itself and
//! through the relay, and the two answers must be the same but for what a proxy has to change. On
//! which connection a request arrived is read from nginx's own log.

mod server;

use std::collections::HashSet;
use std::io::{Read, Write};

use flate2::read::GzDecoder;

use crate::client::{Answer, Client};
use crate::destination::Destination;
use crate::nginx::server::Nginx;
use crate::site::Front;
use crate::trust::trusting;

/// Fields that a proxy writes anew, or that tell of the moment.
const OF_THE_WAY: [&str; 4] = ["connection", "date", "keep-alive", "via"];

/// Whether the relay speaks TLS to nginx.
const WAYS: [bool; 2] = [false, true];

const MIB: usize = 1024 * 1024;

/// Both of them, or `None` when the test is to be skipped.
fn pair(settings: &str, is_tls: bool) -> Option<(Nginx, Front)> {
    let nginx = Nginx::start(settings)?;
    let section = nginx.section(is_tls);
    if !is_tls {
        return Some((nginx, Front::by(section, |_| {})));
    }
    Some((nginx, Front::through(&trusting()?, section, |_| {})))
}

fn request(line: &str, fields: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: plant\r\n{fields}\r\n")
}

fn ask(client: &mut Client, line: &str, fields: &str) -> Answer {
    client.send(request(line, fields).as_bytes());
    client.read(line.split(' ').next().expect("a method"))
}

/// An answer without what belongs to its way.
fn essence(answer: &Answer) -> (u16, Vec<(String, String)>, &[u8]) {
    let stays = |(name, _): &&(String, String)| !OF_THE_WAY.contains(&name.as_str());
    let mut fields: Vec<_> = answer.fields.iter().filter(stays).cloned().collect();
    fields.sort();
    (answer.status, fields, &answer.body)
}

/// Content that no two places have in common.
fn content(length: usize) -> Vec<u8> {
    let lines = (0_u64..).flat_map(|number| format!("{number:x}\n").into_bytes());
    lines.take(length).collect()
}

/// A request, its fields, and the status that nginx has for it.
type Case = (&'static str, String, u16);

/// Every kind of answer, for a file with this `ETag` and `Last-Modified`.
fn cases(tag: &str, date: &str) -> Vec<Case> {
    let none = String::new;
    let field = |name: &str, value: &str| format!("{name}: {value}\r\n");
    let range = |value: &str| field("Range", value);
    let range_if = |value: &str| range("bytes=0-4") + &field("If-Range", value);
    vec![
        ("GET /file.txt", none(), 200),
        ("HEAD /file.txt", none(), 200),
        ("GET /empty.txt", none(), 200),
        ("HEAD /empty.txt", none(), 200),
        ("GET /gone", none(), 204),
        ("HEAD /gone", none(), 204),
        ("GET /odd", none(), 200),
        ("GET /moved", none(), 302),
        ("HEAD /moved", none(), 302),
        ("GET /folder", none(), 301),
        ("GET /folder/", none(), 403),
        ("GET /nowhere", none(), 404),
        ("HEAD /nowhere", none(), 404),
        ("DELETE /file.txt", none(), 405),
        ("GET /file.txt", field("If-None-Match", tag), 304),
        ("HEAD /file.txt", field("If-None-Match", tag), 304),
        ("GET /file.txt", field("If-None-Match", "\"other\""), 200),
        ("GET /file.txt", field("If-Modified-Since", date), 304),
        ("GET /file.txt", range("bytes=10-19"), 206),
        ("GET /file.txt", range("bytes=-5"), 206),
        ("GET /file.txt", range("bytes=99990-"), 206),
        ("HEAD /file.txt", range("bytes=0-0"), 206),
        ("GET /file.txt", range("bytes=100000-"), 416),
        ("GET /file.txt", range_if(tag), 206),
        ("GET /file.txt", range_if("\"other\""), 200),
        // The last one: nginx says that it keeps the connection, and ends it.
        ("GET /file.txt", field("If-Match", "\"other\""), 412),
    ]
}

#[test]
fn every_kind_of_answer_is_what_nginx_itself_gives() {
    const SETTINGS: &str = "
        location = /gone { return 204; }
        location = /moved { return 302 /folder/?a=b; }
        location = /odd { add_header X-Place 'Z\u{fc}rich'; add_header X-Empty ''; return 200 ok; }
    ";
    for is_tls in WAYS {
        let Some((nginx, front)) = pair(SETTINGS, is_tls) else {
            return;
        };
        nginx.put("file.txt", &content(100_000));
        nginx.put("empty.txt", b"");
        let (mut direct, mut through) = (Client::connect(nginx.plain), front.client());
        let first = ask(&mut direct, "GET /file.txt", "");
        let (tag, date) = (first.fields("etag")[0], first.fields("last-modified")[0]);
        let cases = cases(tag, date);
        several_ranges(&mut through);
        let mut ends = 0;
        for (line, fields, status) in &cases {
            let expected = ask(&mut direct, line, fields);
            assert_eq!(expected.status, *status, "{line} {fields}: {expected:?}");
            // One connection of the client for all, whatever nginx does with its own.
            let answer = ask(&mut through, line, fields);
            assert_eq!(essence(&answer), essence(&expected), "{line} {fields}");
            assert_eq!(answer.fields("via"), ["1.1 staffetta"]);
            assert!(answer.fields("connection").is_empty(), "{line} {fields}");
            if expected.fields("connection") == ["close"] {
                direct = Client::connect(nginx.plain);
                ends += 1;
            }
        }
        // The relay has as many connections as a client of nginx needs.
        let seen = nginx.requests("/", 2 * cases.len() + 2);
        let connections: HashSet<u64> = seen.iter().map(|seen| seen.connection).collect();
        assert_eq!(connections.len(), 2 + 2 * ends, "{seen:?}");
    }
}

/// The text between the parts is made up anew for each answer.
fn several_ranges(client: &mut Client) {
    let answer = ask(client, "GET /file.txt", "Range: bytes=0-3,200-203\r\n");
    assert_eq!(answer.status, 206);
    let kind = answer.fields("content-type")[0];
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=");
    let boundary = boundary.expect("parts").to_owned();
    let whole = content(204);
    let text = answer.text();
    assert_eq!(text.matches(&boundary).count(), 3, "{text}");
    for part in [&whole[..4], &whole[200..]] {
        let part = std::str::from_utf8(part).expect("digits");
        assert!(text.contains(&format!("\r\n\r\n{part}\r\n")), "{text}");
    }
}

/// Sends `content` in chunks of growing size.
fn send_chunks(client: &mut Client, line: &str, content: &[u8]) {
    client.send(request(line, "Transfer-Encoding: chunked\r\n").as_bytes());
    let (mut left, mut size) = (content, 1);
    while !left.is_empty() {
        let (piece, rest) = left.split_at(size.min(left.len()));
        client.send(format!("{:x}\r\n", piece.len()).as_bytes());
        client.send(piece);
        client.send(b"\r\n");
        (left, size) = (rest, size * 3);
    }
    client.send(b"0\r\n\r\n");
}

/// A server behind nginx that gives back what it gets, in chunks as it has to come.
fn echo() -> Destination {
    Destination::start(|request, socket| {
        assert_eq!(request.fields("transfer-encoding"), ["chunked"]);
        let mut text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for piece in request.body.chunks(40_000) {
            text.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            text.extend_from_slice(piece);
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(b"0\r\n\r\n");
        socket.write_all(&text).is_ok()
    })
}

#[test]
fn content_in_chunks_goes_both_ways() {
    let echo = echo();
    let settings = format!(
        "gzip_proxied any; gzip_types *;
         location /store/ {{ dav_methods PUT DELETE; create_full_put_path on; }}
         location /store/zipped {{ gzip on; dav_methods PUT; }}
         location /store/ends {{ gzip on; chunked_transfer_encoding off; dav_methods PUT; }}
         location = /store/summed {{ add_trailer X-Sum abc; }}
         location /echo {{
             proxy_pass {}; proxy_http_version 1.1; proxy_set_header Connection '';
             proxy_request_buffering off; proxy_buffering off;
         }}",
        echo.url()
    );
    for is_tls in WAYS {
        let Some((nginx, front)) = pair(&settings, is_tls) else {
            return;
        };
        let bytes = content(2 * MIB);
        let mut client = front.client();
        for name in ["plain", "zipped", "ends"] {
            send_chunks(&mut client, &format!("PUT /store/{name}"), &bytes);
            assert_eq!(client.read("PUT").status, 201, "{name}");
        }
        send_chunks(&mut client, "PUT /store/plain", &bytes);
        assert_eq!(client.read("PUT").status, 204);
        let plain = ask(&mut client, "GET /store/plain", "");
        assert_eq!(plain.fields("content-length"), [bytes.len().to_string()]);
        assert!(plain.body == bytes);
        nginx.put("store/summed", &bytes);
        // In chunks; up to the end of nginx's connection; in chunks with a trailer.
        for name in ["zipped", "ends", "summed"] {
            let zips = "Accept-Encoding: gzip\r\nTE: trailers\r\n";
            let answer = ask(&mut client, &format!("GET /store/{name}"), zips);
            assert_eq!(answer.fields("transfer-encoding"), ["chunked"], "{name}");
            let is_zipped = answer.fields("content-encoding") == ["gzip"];
            assert_eq!(is_zipped, name != "summed");
            let mut found = Vec::new();
            match is_zipped {
                true => {
                    let unzipped = GzDecoder::new(&answer.body[..]).read_to_end(&mut found);
                    unzipped.expect("all of it");
                }
                false => found = answer.body,
            }
            assert!(found == bytes, "{name}");
        }
        send_chunks(&mut client, "POST /echo", &bytes);
        let echoed = client.read("POST");
        assert_eq!(echoed.fields("transfer-encoding"), ["chunked"]);
        assert!(echoed.body == bytes);
        let gone = ask(&mut client, "DELETE /store/plain", "");
        assert_eq!((gone.status, gone.body.len()), (204, 0));
        assert_eq!(ask(&mut client, "GET /store/plain", "").status, 404);
        let seen = nginx.requests("/", 11);
        assert_eq!(seen[10].what, "GET /store/plain 404");
    }
}

#[test]
fn large_heads_pass_up_to_their_bounds() {
    let settings = "
        set $k '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef';
        set $k $k$k$k$k$k$k$k$k$k$k$k$k$k$k$k$k;
        location = /echo { add_header X-Echo $http_cookie; return 200 ok; }
        location = /14 { add_header X-Large $k$k$k$k$k$k$k$k$k$k$k$k$k$k; return 200 ok; }
        location = /17 { add_header X-Large $k$k$k$k$k$k$k$k$k$k$k$k$k$k$k$k$k; return 200 ok; }
    ";
    let Some((nginx, front)) = pair(settings, false) else {
        return;
    };
    let mut client = front.client();
    let cookie = "c".repeat(7 * 1024);
    let answer = client.get("/echo", Some(&cookie));
    assert_eq!(
        (answer.status, answer.fields("x-echo")),
        (200, vec![cookie.as_str()])
    );
    let many: String = (0..56).map(|number| format!("X-{number}: v\r\n")).collect();
    assert_eq!(ask(&mut client, "GET /echo", &many).status, 200);
    let answer = client.get("/14", None);
    assert_eq!(answer.fields("x-large")[0].len(), 14 * 1024);
    // What is longer is refused by the relay: an answer as its destination's fault.
    assert_eq!(client.get("/17", None).status, 502);
    front
        .relay
        .log
        .wait_for("its answer cannot be read (too large: head");
    let mut client = front.client();
    client.send(
        request(
            "GET /echo",
            &format!("Cookie: {}\r\n", "c".repeat(8 * 1024)),
        )
        .as_bytes(),
    );
    assert_eq!(client.read("GET").status, 431);
    assert_eq!(nginx.requests("/", 4).len(), 4);
    assert_eq!(front.get("/last", None).status, 404);
    let seen = nginx.requests("/", 5);
    assert_eq!(seen[4].what, "GET /last 404");
}

#[test]
fn connections_are_used_again_until_nginx_ends_them() {
    const SETTINGS: &str = "
        location /kept { return 200 ok; }
        location /five { keepalive_requests 5; return 200 ok; }
        location /last { keepalive_timeout 0; return 200 ok; }
    ";
    for is_tls in WAYS {
        let Some((nginx, front)) = pair(SETTINGS, is_tls) else {
            return;
        };
        // Clients come and go; the connection behind them stays.
        for _ in 0..20 {
            assert_eq!(front.get("/kept", None).status, 200);
        }
        let seen = nginx.requests("/kept", 20);
        for (turn, logged) in (1..).zip(&seen) {
            assert_eq!((logged.connection, logged.turn), (seen[0].connection, turn));
        }
        // Whatever nginx ends, no client notices.
        for _ in 0..21 {
            assert_eq!(front.get("/five", None).status, 200);
        }
        let turns: Vec<u64> = nginx
            .requests("/five", 21)
            .iter()
            .map(|seen| seen.turn)
            .collect();
        // The one of before has had more than five.
        assert_eq!(turns[0], 21);
        assert_eq!(turns[1..], [1, 2, 3, 4, 5].repeat(4));
        for _ in 0..3 {
            assert_eq!(front.get("/last", None).status, 200);
        }
        let seen = nginx.requests("/last", 3);
        assert!(seen[0].connection < seen[1].connection, "{seen:?}");
        assert!(seen[1].connection < seen[2].connection, "{seen:?}");
        // Requests at the same time have one each, and no more are made later.
        for _ in 0..5 {
            let mut clients = [(); 8].map(|()| front.client());
            for client in &mut clients {
                client.send(request("GET /kept/together", "").as_bytes());
            }
            for client in &mut clients {
                assert_eq!(client.read("GET").status, 200);
            }
        }
        let seen = nginx.requests("/kept/together", 40);
        let connections: HashSet<u64> = seen.iter().map(|seen| seen.connection).collect();
        assert!(connections.len() <= 8, "{seen:?}");
    }
}
