//! Request bodies: framing that smuggles, framing that is merely rare, and bodies that are large.

use crate::client::{Client, ask};
use crate::harness::relay::Relay;
use crate::harness::site::Site;
use crate::request::{USAGE, post, usage_path, with};
use crate::rows::{answered, refused, try_all};
use crate::way::WAYS;
use crate::{request, seed};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

const BAD: &[&[u16]] = &[&[400]];
const NOT_IMPLEMENTED: &[&[u16]] = &[&[501]];
const ACCEPTED: &[&[u16]] = &[&[202]];
const ACCEPTED_THEN_GOOD: &[&[u16]] = &[&[202], &[200]];

fn start() -> (Site, Relay) {
    let site = Site::new("bodies", &seed::usual("one"));
    let relay = Relay::start(&site);
    (site, relay)
}

/// A usage POST with `framing` (header lines) and `body` as they are.
fn framed(framing: &str, body: &str) -> String {
    let more = format!("Content-Type: application/json\r\n{framing}");
    with("POST", &usage_path(), &more) + body
}

/// The usage report in chunks of `size` bytes, each size line followed by `extension`.
fn chunked(size: usize, extension: &str, end: &str) -> String {
    let piece = |bytes: &[u8]| {
        let text = std::str::from_utf8(bytes).expect("the report is ASCII");
        format!("{:x}{extension}\r\n{text}\r\n", bytes.len())
    };
    let pieces: String = USAGE.as_bytes().chunks(size).map(piece).collect();
    framed("Transfer-Encoding: chunked\r\n", &(pieces + end))
}

#[test]
fn ambiguous_framing_is_refused_and_closed() {
    let (_site, relay) = start();
    let length = USAGE.len();
    let lengths = |first: &str, second: &str| {
        framed(
            &format!("Content-Length: {first}\r\nContent-Length: {second}\r\n"),
            USAGE,
        )
    };
    let one = |value: &str| framed(&format!("Content-Length: {value}\r\n"), USAGE);
    // The request inside must never be answered: that would be the smuggled one.
    let inside = request::config();
    let coded = |value: &str| {
        framed(
            &format!("Transfer-Encoding: {value}\r\n"),
            &format!("0\r\n\r\n{inside}"),
        )
    };
    let both = format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n");
    let lines = "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n";
    let rows = [
        refused(
            "a length and chunks",
            framed(&both, &format!("0\r\n\r\n{inside}")),
            BAD,
        ),
        refused("two different lengths", lengths("3", "30"), BAD),
        refused("a length with a sign", one("+3"), BAD),
        refused("two lengths in one line", one("3, 3"), BAD),
        refused("a negative length", one("-3"), BAD),
        refused(
            "a length beyond 64 bits",
            one("99999999999999999999999"),
            BAD,
        ),
        refused("a hexadecimal length", one("0x3"), BAD),
        refused("an empty length", one(""), BAD),
        refused("gzip, chunked", coded("gzip, chunked"), NOT_IMPLEMENTED),
        refused("xchunked", coded("xchunked"), NOT_IMPLEMENTED),
        refused("identity", coded("identity"), &[&[400, 501]]),
        refused(
            "identity and chunked",
            framed(lines, &format!("0\r\n\r\n{inside}")),
            &[&[400, 501]],
        ),
        refused("chunked twice", coded("chunked, chunked"), &[&[400, 501]]),
    ];
    try_all(&relay, &rows);
}

/// Usage is accepted whatever it is, so the answer is the same; but nothing of the body is waited
/// for, and the connection goes.
#[test]
fn a_huge_length_is_answered_before_its_body() {
    let (_site, relay) = start();
    let request = framed("Content-Length: 9000000000\r\n", "");
    try_all(&relay, &[refused("nine gigabytes", request, ACCEPTED)]);
    let token =
        "POST /identity/token HTTP/1.1\r\nHost: relay\r\nContent-Length: 9000000000\r\n\r\n";
    try_all(
        &relay,
        &[refused("nine gigabytes of key", token, &[&[413]])],
    );
}

#[test]
fn malformed_chunks_are_refused_and_closed() {
    let (_site, relay) = start();
    let bad = |body: &str| framed("Transfer-Encoding: chunked\r\n", body);
    let rows = [
        refused("an empty size", bad("\r\n\r\n"), BAD),
        refused("an empty size with an extension", bad(";a=b\r\n\r\n"), BAD),
        refused("a size that is no number", bad("xyz\r\n\r\n"), BAD),
        refused("a size with a sign", bad("+3\r\nabc\r\n0\r\n\r\n"), BAD),
        refused("a size with 0x", bad("0x3\r\nabc\r\n0\r\n\r\n"), BAD),
        refused(
            "a size beyond 64 bits",
            bad("fffffffffffffffff\r\nabc"),
            &[&[400, 413]],
        ),
        refused(
            "a size line with a bare line feed",
            bad("3\nabc\r\n0\r\n\r\n"),
            BAD,
        ),
        refused(
            "a chunk longer than its size",
            bad("3\r\nabcd\r\n0\r\n\r\n"),
            BAD,
        ),
        refused(
            "a chunk that ends in a bare line feed",
            bad("3\r\nabc\n0\r\n\r\n"),
            BAD,
        ),
        refused(
            "an endless extension",
            bad(&format!("3;{}", "a".repeat(4_000))),
            BAD,
        ),
    ];
    try_all(&relay, &rows);
}

#[test]
fn rare_framing_is_understood() {
    let (_site, relay) = start();
    let good = request::config();
    let rows = [
        answered("chunks", chunked(20, "", "0\r\n\r\n"), ACCEPTED),
        answered("chunks of one byte", chunked(1, "", "0\r\n\r\n"), ACCEPTED),
        answered(
            "chunk extensions",
            chunked(30, ";a=b", "0;last\r\n\r\n"),
            ACCEPTED,
        ),
        answered(
            "zeros before a size",
            chunked(30, "", "000\r\n\r\n"),
            ACCEPTED,
        ),
        answered(
            "Chunked with a capital",
            chunked(30, "", "0\r\n\r\n").replace("chunked", "Chunked"),
            ACCEPTED,
        ),
        answered(
            "a length, then the next request",
            [
                post(&usage_path(), USAGE.as_bytes(), ""),
                good.clone().into_bytes(),
            ]
            .concat(),
            ACCEPTED_THEN_GOOD,
        ),
        answered(
            "chunks, then the next request",
            chunked(50, "", "0\r\n\r\n") + &good,
            ACCEPTED_THEN_GOOD,
        ),
        answered("an empty body", post(&usage_path(), b"", ""), ACCEPTED),
        answered("a GET with a body", with_body_on_get(), &[&[200]]),
    ];
    try_all(&relay, &rows);
}

fn with_body_on_get() -> String {
    let path = request::config_path("inventory", "dev");
    with("GET", &path, "Content-Length: 5\r\n") + "hello"
}

/// Nothing behind a trailer may be taken for a request that somebody else made; whether the body
/// before it is accepted is the relay's choice.
#[test]
fn trailers_smuggle_nothing() {
    let (_site, relay) = start();
    let request = chunked(50, "", "0\r\nX-Trailer: a\r\nContent-Length: 5\r\n\r\n");
    for way in WAYS {
        let mut client = Client::connect(&relay, way);
        client.send(request.as_bytes());
        let Ok(answer) = client.answer(false) else {
            continue;
        };
        let failure = format!("{way:?}: {} {}", answer.status(), answer.text());
        assert!([202, 400].contains(&answer.status()), "{failure}");
        if answer.status() == 400 {
            client
                .closes()
                .unwrap_or_else(|error| panic!("{failure}: {error}"));
        } else {
            let next = client.exchange(request::config().as_bytes());
            assert_eq!(next.map(|answer| answer.status()), Ok(200), "{failure}");
        }
    }
}

#[test]
fn expect_100_continue_is_answered_before_the_body() {
    let (_site, relay) = start();
    let head = post(&usage_path(), USAGE.as_bytes(), "Expect: 100-continue\r\n");
    let head = &head[..head.len() - USAGE.len()];
    for way in WAYS {
        let mut client = Client::connect(&relay, way);
        let interim = client.exchange(head).map(|answer| answer.status());
        assert_eq!(interim, Ok(100), "{way:?}");
        let answer = client
            .exchange(USAGE.as_bytes())
            .map(|answer| answer.status());
        assert_eq!(answer, Ok(202), "{way:?}");
    }
    let unknown = with("GET", "/nowhere", "Expect: a-miracle\r\n");
    let refused = ask(&relay, WAYS[0], unknown).status();
    assert!([404, 417].contains(&refused), "{refused}");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

#[test]
fn usage_is_accepted_whatever_it_holds() {
    let (_site, relay) = start();
    let coding = "Content-Encoding: gzip\r\n";
    let bomb = gzip(&vec![b' '; 8 << 20]);
    let rows = [
        answered(
            "a report",
            post(&usage_path(), USAGE.as_bytes(), ""),
            ACCEPTED,
        ),
        answered(
            "analytics",
            post(&request::analytics_path(), USAGE.as_bytes(), ""),
            ACCEPTED,
        ),
        answered(
            "a gzip body",
            post(&usage_path(), &gzip(USAGE.as_bytes()), coding),
            ACCEPTED,
        ),
        answered(
            "a body that is not JSON",
            post(&usage_path(), b"{", ""),
            ACCEPTED,
        ),
        answered(
            "a body that is not gzip",
            post(&usage_path(), USAGE.as_bytes(), coding),
            ACCEPTED,
        ),
        answered(
            "a gzip body that grows to 8 MiB",
            post(&usage_path(), &bomb, coding),
            ACCEPTED,
        ),
    ];
    try_all(&relay, &rows);
    let wrong = String::from_utf8(post(&usage_path(), USAGE.as_bytes(), "")).expect("ASCII");
    let wrong = wrong.replace(crate::harness::KEY, "wrong");
    assert_eq!(ask(&relay, WAYS[0], wrong).status(), 401);
}

#[test]
fn accepted_reports_are_counted() {
    let (_site, relay) = start();
    let report = post(&usage_path(), USAGE.as_bytes(), "");
    for _ in 0..3 {
        assert_eq!(ask(&relay, WAYS[0], &report).status(), 202);
    }
    assert_eq!(
        ask(&relay, WAYS[0], post(&usage_path(), b"{", "")).status(),
        202
    );
    let (status, metrics) = relay.ask("GET /metrics");
    assert_eq!(status, 200);
    let counted = metrics
        .lines()
        .filter(|line| line.contains("event") && line.ends_with(" 3"));
    assert!(
        counted.count() > 0,
        "nothing counts three reports:\n{metrics}"
    );
}

/// A report that is too large to keep is accepted all the same: an SDK that hears anything but 202
/// may lose more than this one.
#[test]
fn a_report_over_its_bound_is_accepted_and_not_read() {
    let (_site, relay) = start();
    let large = vec![b' '; 300 * 1024];
    for way in [WAYS[0], WAYS[2], WAYS[4]] {
        let mut client = Client::connect(&relay, way);
        let status = client
            .exchange(&post(&usage_path(), &large, ""))
            .map(|answer| answer.status());
        assert_eq!(status, Ok(202), "{way:?}");
        client
            .closes()
            .unwrap_or_else(|error| panic!("{way:?}: {error}"));
    }
    let chunk = format!("{:x}\r\n{}", 1 << 20, " ".repeat(300 * 1024));
    let request = framed("Transfer-Encoding: chunked\r\n", &chunk);
    let mut client = Client::connect(&relay, WAYS[0]);
    let status = client
        .exchange(request.as_bytes())
        .map(|answer| answer.status());
    assert_eq!(status, Ok(202), "a large chunk");
}
