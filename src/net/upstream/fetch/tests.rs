//! Answers that come slowly, oddly, too large, packed, or not at all.

use super::*;
use crate::limits::Limits;
use crate::net::upstream::rig::{Rig, way};
use std::rc::Rc;

const BYTES_MAX: usize = 1000;

type Outcome = Result<Response, Problem>;

/// Fetches, while `answer` is what the server says; `ends` whether it then closes.
fn fetched(step_bytes: usize, answer: &[u8], ends: bool) -> Outcome {
    let rig = Rig::with(Limits::PRODUCTION, step_bytes);
    let task = start(&rig);
    let (_, mut server) = rig.accept();
    let asked = rig.hear(&mut server);
    assert!(
        asked.starts_with("GET /p/x HTTP/1.1\r\nhost: a.test:81\r\n"),
        "{asked}"
    );
    assert!(asked.contains("accept-encoding: gzip\r\n"), "{asked}");
    rig.say(&mut server, answer);
    if ends {
        drop(server);
        rig.settle();
    }
    smol::block_on(rig.executor.run(task))
}

fn start(rig: &Rig) -> smol::Task<Outcome> {
    let net = rig.net.clone();
    rig.start(async move {
        let request = Request::new(crate::wire::http::Method::Get, "/x");
        let outcome = fetch(&net, &way("http://a.test:81/p"), request, BYTES_MAX).await;
        outcome.map_err(|error| {
            assert_eq!(&*error.host, "a.test:81");
            error.problem
        })
    })
}

fn answer(head: &str, body: &[u8]) -> Vec<u8> {
    [format!("HTTP/1.1 {head}\r\n\r\n").as_bytes(), body].concat()
}

fn sized(head: &str, body: &[u8]) -> Vec<u8> {
    answer(&format!("{head}\r\nContent-Length: {}", body.len()), body)
}

#[test]
fn an_answer_is_the_same_however_slowly_it_comes() {
    let json = "200 OK\r\nContent-Type: application/json\r\nX-Config-Path: r1";
    let packed = gzip::compress(b"{\"a\":1}");
    for step_bytes in [1, 3, 1 << 20] {
        for (bytes, ends) in [
            (sized(json, b"{\"a\":1}"), false),
            (answer(json, b"{\"a\":1}"), true),
            (
                sized(&format!("{json}\r\nContent-Encoding: GZIP"), &packed),
                false,
            ),
            (
                answer(
                    &format!("{json}\r\nTransfer-Encoding: chunked"),
                    b"3\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n",
                ),
                false,
            ),
        ] {
            let response = fetched(step_bytes, &bytes, ends).unwrap();
            assert_eq!((response.status, response.is_json), (200, true));
            assert_eq!(response.config_path.as_deref(), Some("r1"));
            assert_eq!(response.body, b"{\"a\":1}");
        }
    }
}

/// What becomes of a delivery that is answered so, by a server that then closes.
fn delivered(answer: &[u8]) -> Result<(), Problem> {
    let rig = Rig::with(Limits::PRODUCTION, 1 << 20);
    let net = rig.net.clone();
    let task = rig.start(async move {
        let request = Request::new(crate::wire::http::Method::Post, "/x");
        let request = request.with_body("application/json", b"{}".to_vec());
        let outcome = deliver(&net, &way("http://a.test:81/p"), request).await;
        outcome.map_err(|error| error.problem)
    });
    let (_, mut server) = rig.accept();
    assert!(rig.hear(&mut server).starts_with("POST /p/x HTTP/1.1\r\n"));
    rig.say(&mut server, answer);
    drop(server);
    rig.settle();
    smol::block_on(rig.executor.run(task))
}

#[test]
fn what_was_taken_is_not_sent_again_for_an_odd_answer() {
    for odd in [
        answer("204 No Content", b""),
        answer("204 No Content\r\nContent-Length: 9", b"some text"),
        answer("202 Accepted\r\nContent-Encoding: br", b"?"),
        answer("200 OK\r\nContent-Length: 5\r\nContent-Length: 6", b""),
        answer("200 OK\r\nTransfer-Encoding: chunked", b"garbage"),
        answer("200 OK\r\nContent-Length: 99999999", b"{"),
        answer("200 OK\r\nno field", b""),
        b"HTTP/1.1 200 OK\r\nContent-".to_vec(),
    ] {
        let text = String::from_utf8_lossy(&odd).into_owned();
        assert_eq!(delivered(&odd), Ok(()), "{text}");
    }
    let later = [
        answer("302 Found\r\nLocation: /login", b""),
        answer("503 Service Unavailable", b""),
        b"HTTP/1.1 20".to_vec(),
        b"200 OK".to_vec(),
        Vec::new(),
    ];
    for other in later {
        let text = String::from_utf8_lossy(&other).into_owned();
        assert!(delivered(&other).is_err(), "{text}");
    }
}

#[test]
fn half_an_answer_is_none() {
    let cut = Err(Problem::Closed(std::io::ErrorKind::UnexpectedEof));
    let whole = sized("200 OK", b"abc");
    for end in 0..whole.len() {
        assert_eq!(fetched(9, &whole[..end], true), cut, "{end}");
    }
    let chunks = answer("200 OK\r\nTransfer-Encoding: chunked", b"3\r\nabc\r\n0\r\n");
    assert_eq!(fetched(9, &chunks, true), cut);
}

#[test]
fn nothing_grows_beyond_its_bound() {
    let too_large = Err(Problem::TooLarge {
        bytes_max: BYTES_MAX,
    });
    let zeros = [0; BYTES_MAX + 1];
    let bomb = gzip::compress(&[0; 100_000]);
    let chunked = [&b"3e9\r\n"[..], &zeros].concat();
    for bytes in [
        answer("200 OK\r\nContent-Length: 1001", b""),
        answer("200 OK", &zeros),
        answer("200 OK\r\nTransfer-Encoding: chunked", &chunked),
        sized("200 OK\r\nContent-Encoding: gzip", &bomb),
    ] {
        assert_eq!(fetched(1 << 20, &bytes, false), too_large);
    }
    assert!(fetched(1 << 20, &sized("200 OK", &zeros[1..]), false).is_ok());
    let interim = "HTTP/1.1 102 x\r\n\r\n".repeat(4);
    assert!(matches!(
        fetched(1 << 20, interim.as_bytes(), false),
        Err(Problem::Protocol(_))
    ));
    let endless = answer(&format!("200 OK\r\nX: {}", "a".repeat(20_000)), b"");
    assert!(matches!(
        fetched(1 << 20, &endless, false),
        Err(Problem::Protocol(DecodeError::HeadTooLarge(_)))
    ));
}

#[test]
fn what_takes_long_to_unpack_is_unpacked_on_the_lane() {
    let rig = Rig::with(
        Limits {
            packed_on_loop_bytes_max: 8,
            ..Limits::PRODUCTION
        },
        1 << 20,
    );
    let task = start(&rig);
    let (_, mut server) = rig.accept();
    let packed = gzip::compress(b"many words");
    rig.say(
        &mut server,
        &sized("200 OK\r\nContent-Encoding: gzip", &packed),
    );
    let response = smol::block_on(rig.executor.run(task)).unwrap();
    assert_eq!(response.body, b"many words");
}

#[test]
fn a_login_page_is_not_followed() {
    for (location, to) in [
        ("http://login.hotel.test/?u=a", Some("login.hotel.test")),
        ("/elsewhere", None),
        ("\u{e9}", None),
    ] {
        let bytes = sized(&format!("302 Found\r\nLocation: {location}"), b"");
        let to = to.map(Into::into);
        assert_eq!(fetched(99, &bytes, false), Err(Problem::Redirect { to }));
    }
}

#[test]
fn refusals_come_with_their_status_and_patience() {
    let bytes = sized("503 x\r\nRetry-After: 7", b"later");
    let expected = Problem::Status {
        status: 503,
        retry_after: Some(Duration::from_secs(7)),
    };
    assert_eq!(fetched(99, &bytes, false), Err(expected));
    let odd = sized("200 OK\r\nContent-Encoding: br", b"abc");
    assert!(matches!(
        fetched(99, &odd, false),
        Err(Problem::Protocol(_))
    ));
    let broken = sized("200 OK\r\nContent-Encoding: gzip", b"abc");
    assert!(matches!(
        fetched(99, &broken, false),
        Err(Problem::Protocol(_))
    ));
}

#[test]
fn silence_ends_a_fetch_and_dripping_does_too() {
    let rig = Rig::new();
    let task = start(&rig);
    rig.advance(rig.net.limits.upstream_idle_timeout - Duration::from_millis(1));
    assert!(!task.is_finished());
    rig.advance(Duration::from_millis(1));
    assert_eq!(rig.take(task), Err(Problem::Timeout(Step::Answer)));
    let (_, mut server) = rig.accept();
    rig.hear(&mut server);
    assert!(
        matches!(server.read(&mut [0]), Ok(0)),
        "the connection is closed"
    );

    let task = start(&rig);
    let (_, mut server) = rig.accept();
    rig.say(&mut server, b"HTTP/1.1 200 OK\r\n\r\n");
    let step = rig.net.limits.upstream_idle_timeout / 2;
    let mut passed = Duration::ZERO;
    while passed < rig.net.limits.upstream_total_timeout {
        assert!(!task.is_finished());
        rig.say(&mut server, b"x");
        rig.advance(step);
        passed += step;
    }
    assert_eq!(rig.take(task), Err(Problem::Timeout(Step::Whole)));
}

#[test]
fn a_fetch_that_is_dropped_leaves_nothing() {
    let bytes = sized("200 OK", b"abc");
    for said in 0..bytes.len() {
        let rig = Rig::with(Limits::PRODUCTION, 1);
        let task = start(&rig);
        let (_, mut server) = rig.accept();
        rig.say(&mut server, &bytes[..said]);
        assert!(!task.is_finished());
        drop(task);
        rig.settle();
        rig.hear(&mut server);
        assert!(matches!(server.read(&mut [0]), Ok(0)), "{said}");
        assert_eq!(Rc::strong_count(&rig.net), 1);
    }
}

#[test]
fn a_proxy_is_asked_for_a_tunnel_and_then_is_out_of_the_way() {
    let rig = Rig::new();
    let through = |rig: &Rig| {
        let net = rig.net.clone();
        rig.start(async move {
            let mut way = way("http://a.test/");
            way.proxy = Some(crate::config::Endpoint::parse("http://proxy:3128").unwrap());
            let request = Request::new(crate::wire::http::Method::Get, "/x");
            let outcome = fetch(&net, &way, request, BYTES_MAX).await;
            outcome.map_err(|error| error.problem)
        })
    };
    let tunnel = |rig: &Rig, answer: &[u8]| {
        let task = through(rig);
        let (to, mut proxy) = rig.accept();
        assert_eq!(to, "http://proxy:3128");
        let asked = rig.hear(&mut proxy);
        assert!(
            asked.starts_with("CONNECT a.test:80 HTTP/1.1\r\nhost: a.test:80\r\n"),
            "{asked}"
        );
        rig.say(&mut proxy, answer);
        (task, proxy)
    };
    let (task, mut proxy) = tunnel(&rig, b"HTTP/1.0 200 Connection established\r\n\r\n");
    let asked = rig.hear(&mut proxy);
    assert!(
        asked.starts_with("GET /x HTTP/1.1\r\nhost: a.test\r\n"),
        "{asked}"
    );
    rig.say(&mut proxy, &sized("200 OK", b"abc"));
    assert_eq!(rig.take(task).unwrap().body, b"abc");

    for status in [403, 407, 502] {
        let refusal = format!("HTTP/1.1 {status} x\r\nContent-Length: 9\r\n\r\n");
        let (task, _proxy) = tunnel(&rig, refusal.as_bytes());
        assert_eq!(rig.take(task), Err(Problem::Proxy { status }));
    }
    let (task, _proxy) = tunnel(&rig, b"HTTP/1.1 200 x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n");
    assert!(matches!(rig.take(task), Err(Problem::Protocol(_))));
    let (task, _proxy) = tunnel(&rig, b"");
    rig.advance(rig.net.limits.upstream_connect_timeout);
    assert_eq!(rig.take(task), Err(Problem::Timeout(Step::Connect)));
}
