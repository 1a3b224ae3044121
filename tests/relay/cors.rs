//! What browsers ask before they ask: preflights, and the headers without which they show nothing.

use crate::client::{Answer, ask};
use crate::harness::KEY;
use crate::harness::relay::Relay;
use crate::harness::site::Site;
use crate::way::{PLAIN, WAYS};
use crate::{request, seed};

const ORIGIN: &str = "Origin: http://localhost:18090\r\n";

fn start() -> (Site, Relay) {
    let mut site = Site::new("cors", &seed::usual("one"));
    seed::add_empty_slot(&mut site, "payments", "dev");
    let relay = Relay::start(&site);
    (site, relay)
}

fn preflight(path: &str, method: &str, headers: &str) -> String {
    format!(
        "OPTIONS {path} HTTP/1.1\r\nHost: relay\r\n{ORIGIN}Access-Control-Request-Method: {method}\
         \r\nAccess-Control-Request-Headers: {headers}\r\n\r\n"
    )
}

/// The words of a list header, in lower case.
fn words(answer: &Answer, name: &str) -> Vec<String> {
    let value = answer
        .head
        .header(name)
        .unwrap_or_default()
        .to_ascii_lowercase();
    value
        .split(',')
        .map(|word| word.trim().to_owned())
        .collect()
}

fn allows_origin(answer: &Answer) -> bool {
    let allowed = answer.head.header("access-control-allow-origin");
    allowed.is_some_and(|origin| origin == "*" || origin == "http://localhost:18090")
}

#[test]
fn preflights_of_both_browsers_are_allowed_without_a_key() {
    let (_site, relay) = start();
    let paths = [
        (request::config_path("inventory", "dev"), "GET"),
        (request::subscribe_path("inventory", "dev"), "GET"),
        (request::usage_path(), "POST"),
        (request::analytics_path(), "POST"),
    ];
    let asked = [
        "authorization",
        "authorization,content-type",
        "authorization,content-type,user-agent",
    ];
    for (path, method) in &paths {
        for headers in asked {
            for way in WAYS {
                let answer = ask(&relay, way, preflight(path, method, headers));
                let case = format!("{method} {path} with {headers} by {way:?}");
                assert!(
                    [200, 204].contains(&answer.status()),
                    "{case}: {}",
                    answer.status()
                );
                assert!(allows_origin(&answer), "{case}: {:?}", answer.head);
                let methods = words(&answer, "access-control-allow-methods");
                assert!(
                    methods.contains(&method.to_ascii_lowercase()),
                    "{case}: {methods:?}"
                );
                let allowed = words(&answer, "access-control-allow-headers");
                let missing = headers
                    .split(',')
                    .find(|name| !allowed.contains(&(*name).to_owned()));
                assert_eq!(missing, None, "{case}: {allowed:?}");
                let seconds = answer.head.header("access-control-max-age");
                assert!(
                    seconds.is_some_and(|value| value.parse::<u32>().is_ok()),
                    "{case}"
                );
            }
        }
    }
}

#[test]
fn real_answers_and_refusals_may_be_read_by_pages() {
    let (_site, relay) = start();
    let path = request::config_path("inventory", "dev");
    let post = request::post(&request::usage_path(), request::USAGE.as_bytes(), ORIGIN);
    let cases: [(u16, Vec<u8>); 7] = [
        (200, request::with("GET", &path, ORIGIN).into()),
        (202, post),
        (
            401,
            request::with("GET", &path, ORIGIN)
                .replace(KEY, "wrong")
                .into(),
        ),
        (
            404,
            request::with("GET", &request::config_path("kitchen", "dev"), ORIGIN).into(),
        ),
        (
            503,
            request::with("GET", &request::config_path("payments", "dev"), ORIGIN).into(),
        ),
        (405, request::with("DELETE", &path, ORIGIN).into()),
        (
            404,
            request::with("GET", &path.replace("1111", "2222"), ORIGIN).into(),
        ),
    ];
    for (status, request) in cases {
        let answer = ask(&relay, PLAIN, request);
        assert_eq!(answer.status(), status, "{}", answer.text());
        assert!(
            allows_origin(&answer),
            "{status}: {:?}",
            answer.head.headers
        );
    }
}
