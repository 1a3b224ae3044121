//! The configuration by REST: both forms, encodings, conditions, HEAD.

use crate::client::{Answer, ask};
use crate::harness::relay::Relay;
use crate::harness::site::Site;
use crate::way::{PLAIN, WAYS};
use crate::{request, seed};
use flate2::read::GzDecoder;
use serde_json::Value;
use std::io::Read;

fn start() -> (Site, Relay) {
    let site = Site::new("documents", &seed::usual("one"));
    let relay = Relay::start(&site);
    (site, relay)
}

fn fetch(relay: &Relay, more: &str) -> Answer {
    ask(
        relay,
        PLAIN,
        request::with("GET", &request::config_path("inventory", "dev"), more),
    )
}

fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    let shown = format!("{name} in {:?}", answer.head.headers);
    answer.head.header(name).expect(&shown)
}

fn json(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body)
        .unwrap_or_else(|error| panic!("{error}: {}", answer.text()))
}

#[test]
fn the_document_is_what_sdks_ask_for() {
    let (_site, relay) = start();
    for way in WAYS {
        let answer = ask(&relay, way, request::config());
        assert_eq!(answer.status(), 200, "{way:?}");
        assert!(
            header(&answer, "content-type").starts_with("application/json"),
            "{way:?}"
        );
        let document = json(&answer);
        let environment = &document["environments"][0];
        assert_eq!(environment["environment_id"], "dev", "{way:?}");
        assert_eq!(
            environment["features"][0]["feature_id"], "fast-checkout",
            "{way:?}"
        );
        assert_eq!(environment["properties"][0]["value"], "one", "{way:?}");
        assert_eq!(
            document["collections"][0]["collection_id"], "inventory",
            "{way:?}"
        );
        assert_eq!(document["segments"][0]["segment_id"], "staff", "{way:?}");
    }
}

#[test]
fn answers_say_where_the_document_comes_from() {
    let (_site, relay) = start();
    let answer = fetch(&relay, "");
    assert_eq!(header(&answer, "x-config-source"), "seed");
    assert_eq!(
        header(&answer, "x-config-path").len(),
        16,
        "the relay's own name"
    );
    assert_eq!(header(&answer, "x-config-version"), "1");
    assert!(header(&answer, "age").parse::<u64>().is_ok());
    assert!(header(&answer, "date").ends_with(" GMT"));
}

#[test]
fn the_flat_form_lifts_the_environment() {
    let (_site, relay) = start();
    let answer = ask(
        &relay,
        PLAIN,
        request::get(&request::flat_path("inventory", "dev")),
    );
    assert_eq!(answer.status(), 200);
    assert!(header(&answer, "content-type").starts_with("application/json"));
    let document = json(&answer);
    assert_eq!(document["features"][0]["feature_id"], "fast-checkout");
    assert_eq!(document["properties"][0]["value"], "one");
    assert_eq!(document["segments"][0]["segment_id"], "staff");
    assert!(document.get("environments").is_none());
}

#[test]
fn gzip_comes_only_to_those_who_offer_it() {
    let (_site, relay) = start();
    let plain = fetch(&relay, "");
    let cases = [
        ("gzip, deflate", true),
        ("gzip, deflate, br, zstd", true),
        ("deflate, GZIP;q=0.5", true),
        ("*", true),
        ("identity", false),
        ("deflate, br", false),
        ("gzip;q=0", false),
        ("x-gzipped", false),
        ("", false),
    ];
    for (offer, zipped) in cases {
        let answer = fetch(&relay, &format!("Accept-Encoding: {offer}\r\n"));
        assert_eq!(answer.status(), 200, "{offer}");
        assert!(
            header(&answer, "vary")
                .to_ascii_lowercase()
                .contains("accept-encoding"),
            "{offer}"
        );
        // `*` allows gzip and does not ask for it.
        if offer != "*" {
            assert_eq!(
                answer.head.header("content-encoding"),
                zipped.then_some("gzip"),
                "{offer}"
            );
        }
        let body = match answer.head.header("content-encoding") {
            Some(_) => unzip(&answer.body),
            None => answer.body,
        };
        assert_eq!(body, plain.body, "{offer}");
    }
}

fn unzip(bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    GzDecoder::new(bytes)
        .read_to_end(&mut body)
        .expect("a gzip body");
    body
}

#[test]
fn each_encoding_has_its_own_strong_tag() {
    let (site, relay) = start();
    let plain = fetch(&relay, "");
    let zipped = fetch(&relay, "Accept-Encoding: gzip\r\n");
    let (plain_tag, zipped_tag) = (header(&plain, "etag"), header(&zipped, "etag"));
    for tag in [plain_tag, zipped_tag] {
        assert!(
            tag.starts_with('"') && tag.ends_with('"') && tag.len() > 2,
            "{tag}"
        );
    }
    assert_ne!(plain_tag, zipped_tag);

    let condition =
        |tag: &str, more: &str| fetch(&relay, &format!("If-None-Match: {tag}\r\n{more}"));
    let offer = "Accept-Encoding: gzip\r\n";
    assert_eq!(condition(plain_tag, "").status(), 304);
    assert_eq!(condition(zipped_tag, offer).status(), 304);
    assert_eq!(
        condition(&format!("\"other\", {plain_tag}"), "").status(),
        304
    );
    assert_eq!(
        condition(&format!("W/{plain_tag}"), "").status(),
        304,
        "weak comparison"
    );
    assert_eq!(condition("*", "").status(), 304);
    assert_eq!(condition("\"other\"", "").status(), 200);
    let unchanged = condition(plain_tag, "");
    assert_eq!(header(&unchanged, "etag"), plain_tag);
    assert!(unchanged.head.has("vary"));

    site.replace_seed(&seed::usual("two"));
    assert_eq!(relay.reload().0, 200);
    assert_eq!(condition(plain_tag, "").status(), 200);
    assert_ne!(header(&fetch(&relay, ""), "etag"), plain_tag);
}

#[test]
fn head_has_the_length_and_no_body() {
    let (_site, relay) = start();
    let whole = fetch(&relay, "");
    for way in WAYS {
        let path = request::config_path("inventory", "dev");
        let two = request::with("HEAD", &path, "") + &request::get("/nowhere");
        let mut client = crate::client::Client::connect(&relay, way);
        client.send(two.as_bytes());
        let head = client
            .answer(true)
            .unwrap_or_else(|error| panic!("{way:?}: {error}"));
        assert_eq!(head.status(), 200, "{way:?}");
        assert_eq!(
            header(&head, "content-length"),
            whole.body.len().to_string(),
            "{way:?}"
        );
        assert_eq!(header(&head, "etag"), header(&whole, "etag"), "{way:?}");
        assert_eq!(
            client.answer(false).map(|next| next.status()),
            Ok(404),
            "{way:?}"
        );
    }
}

#[test]
fn a_new_seed_is_served_with_the_next_version() {
    let (site, relay) = start();
    assert_eq!(header(&fetch(&relay, ""), "x-config-version"), "1");
    site.replace_seed(&seed::usual("two"));
    assert_eq!(relay.reload().0, 200);
    let second = fetch(&relay, "");
    assert_eq!(header(&second, "x-config-version"), "2");
    assert_eq!(
        json(&second)["environments"][0]["properties"][0]["value"],
        "two"
    );
}

#[test]
fn the_same_content_in_another_shape_is_no_new_version() {
    let (site, relay) = start();
    let first = fetch(&relay, "");
    let seed: Value = serde_json::from_str(&seed::usual("one")).expect("just written");
    site.replace_seed(&serde_json::to_string_pretty(&seed).expect("a value"));
    assert_eq!(relay.reload().0, 200);
    let second = fetch(&relay, "");
    assert_eq!(header(&second, "x-config-version"), "1");
    assert_eq!(header(&second, "etag"), header(&first, "etag"));
    assert_eq!(second.body, first.body, "the old bytes stay");
}

#[test]
fn a_large_document_arrives_whole() {
    let (site, relay) = start();
    site.replace_seed(&seed::large("large", 1 << 20));
    assert_eq!(relay.reload().0, 200);
    for way in WAYS {
        for more in ["", "Accept-Encoding: gzip\r\n"] {
            let path = request::config_path("inventory", "dev");
            let answer = ask(&relay, way, request::with("GET", &path, more));
            let body = if more.is_empty() {
                answer.body
            } else {
                unzip(&answer.body)
            };
            let document: Value = serde_json::from_slice(&body).expect("JSON");
            let value = document["environments"][0]["properties"][1]["value"].as_str();
            assert!(
                value.is_some_and(|value| value.len() >= 1 << 20),
                "{way:?} {more}"
            );
        }
    }
}
