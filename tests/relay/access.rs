//! Who may ask what: keys, tokens, slots, and the answers that keep SDKs alive.

use crate::client::{Answer, ask};
use crate::harness::relay::Relay;
use crate::harness::site::Site;
use crate::harness::{GUID, KEY};
use crate::way::{PLAIN, WAYS};
use crate::{request, seed};
use data_encoding::BASE64URL_NOPAD;
use serde_json::{Value, json};

const LINE_KEY: &str = "test-key-of-one-production-line-0002";

fn site() -> Site {
    let mut site = Site::new("access", &seed::usual("one"));
    let keys = site.config["client_keys"]
        .as_array_mut()
        .expect("the site has keys");
    keys.push(json!({ "id": "line-3", "key": LINE_KEY, "slots": ["inventory/*"] }));
    site
}

fn start() -> (Site, Relay) {
    let site = site();
    let relay = Relay::start(&site);
    (site, relay)
}

/// With `payments/dev` as well, for which the seed holds nothing.
fn start_with_empty_slot() -> (Site, Relay) {
    let mut site = site();
    seed::add_empty_slot(&mut site, "payments", "dev");
    let relay = Relay::start(&site);
    (site, relay)
}

fn bearing(credential: &str, path: &str) -> String {
    request::get(path).replace(&format!("Bearer {KEY}"), credential)
}

fn json(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body)
        .unwrap_or_else(|error| panic!("{error}: {}", answer.text()))
}

#[test]
fn a_key_opens_in_every_form_and_a_wrong_one_in_none() {
    let (_site, relay) = start();
    let path = request::config_path("inventory", "dev");
    let token = json(&ask(&relay, PLAIN, request::token(KEY)));
    let token = token["access_token"].as_str().expect("a token").to_owned();
    let (head, tail) = token.split_at(token.len() - 2);
    let forged = format!("Bearer {head}{}", if tail == "AA" { "BB" } else { "AA" });
    let cases = [
        (format!("Bearer {KEY}"), 200),
        (format!("bearer {KEY}"), 200),
        (KEY.to_owned(), 200),
        (format!("Bearer {token}"), 200),
        (forged, 401),
        ("Bearer wrong".to_owned(), 401),
        ("wrong".to_owned(), 401),
        (format!("Basic {KEY}"), 401),
        ("Bearer ".to_owned(), 401),
        (String::new(), 401),
        (format!("Bearer {}", KEY.to_uppercase()), 401),
        (format!("Bearer {}", &KEY[1..]), 401),
    ];
    for (credential, status) in cases {
        for way in WAYS {
            let answer = ask(&relay, way, bearing(&credential, &path));
            assert_eq!(answer.status(), status, "{credential} by {way:?}");
        }
    }
    let without = bearing("", &path).replace("Authorization: \r\n", "");
    assert_eq!(ask(&relay, PLAIN, without).status(), 401);
}

#[test]
fn a_wrong_key_is_refused_on_every_path() {
    let (_site, relay) = start();
    let wrong = |request: String| request.replace(KEY, "wrong");
    let upgrade = request::upgrade(&request::websocket_path("inventory", "dev"), "");
    let report = request::post(&request::usage_path(), request::USAGE.as_bytes(), "");
    let requests = [
        request::get(&request::flat_path("inventory", "dev")),
        request::get(&request::subscribe_path("inventory", "dev")),
        upgrade,
        String::from_utf8(report).expect("ASCII"),
    ];
    for request in requests {
        assert_eq!(
            ask(&relay, PLAIN, wrong(request.clone())).status(),
            401,
            "{request}"
        );
    }
}

#[test]
fn what_is_not_ours_is_not_found() {
    let (_site, relay) = start();
    let paths = [
        request::config_path("inventory", "staging"),
        request::config_path("kitchen", "dev"),
        request::flat_path("kitchen", "dev"),
        request::subscribe_path("kitchen", "dev"),
        request::config_path("inventory", "dev").replace(GUID, "another-guid"),
        request::usage_path().replace("/usage", ""),
    ];
    for path in paths {
        let answer = ask(&relay, PLAIN, request::get(&path));
        assert_eq!(answer.status(), 404, "{path}");
        assert!(
            json(&answer)["message"].is_string(),
            "{path}: {}",
            answer.text()
        );
    }
    let upgrade = request::upgrade(&request::websocket_path("kitchen", "dev"), "");
    assert_eq!(ask(&relay, PLAIN, upgrade).status(), 404);
}

#[test]
fn a_key_opens_its_own_slots_only() {
    let (_site, relay) = start_with_empty_slot();
    let own = |request: String| request.replace(KEY, LINE_KEY);
    let inside = request::config_path("inventory", "dev");
    let outside = request::config_path("payments", "dev");
    assert_eq!(ask(&relay, PLAIN, own(request::get(&inside))).status(), 200);
    assert_eq!(
        ask(&relay, PLAIN, own(request::get(&outside))).status(),
        403
    );
    let stream = request::get(&request::subscribe_path("payments", "dev"));
    assert_eq!(ask(&relay, PLAIN, own(stream)).status(), 403);
    let upgrade = request::upgrade(&request::websocket_path("payments", "dev"), "");
    assert_eq!(ask(&relay, PLAIN, own(upgrade)).status(), 403);
}

#[test]
fn a_slot_without_data_asks_to_come_again() {
    let (_site, relay) = start_with_empty_slot();
    for path in [
        request::config_path("payments", "dev"),
        request::flat_path("payments", "dev"),
    ] {
        for way in WAYS {
            let answer = ask(&relay, way, request::get(&path));
            assert_eq!(answer.status(), 503, "{path} by {way:?}");
            let wait = answer
                .head
                .header("retry-after")
                .and_then(|value| value.parse::<u32>().ok());
            assert!(
                wait.is_some_and(|seconds| (1..=60).contains(&seconds)),
                "{path}: {wait:?}"
            );
        }
    }
}

#[test]
fn the_token_has_every_field_that_sdks_read() {
    let (_site, relay) = start();
    for way in WAYS {
        let answer = ask(&relay, way, request::token(KEY));
        assert_eq!(answer.status(), 200, "{way:?}: {}", answer.text());
        let content_type = answer.head.header("content-type").unwrap_or_default();
        assert!(content_type.starts_with("application/json"), "{way:?}");
        let token = json(&answer);
        assert_eq!(token["token_type"], "Bearer", "{way:?}");
        assert!(
            token["refresh_token"].is_string() && token["scope"].is_string(),
            "{way:?}"
        );
        let lifetime = token["expires_in"].as_u64().expect("seconds");
        let expiration = token["expiration"].as_u64().expect("a time");
        let claims = claims(token["access_token"].as_str().expect("a token"));
        assert_eq!(claims["exp"].as_u64(), Some(expiration), "{way:?}");
        assert_eq!(
            claims["iat"].as_u64(),
            Some(expiration - lifetime),
            "{way:?}"
        );
    }
}

fn claims(token: &str) -> Value {
    let parts: Vec<&str> = token.split('.').collect();
    assert_eq!(parts.len(), 3, "{token}");
    let decode = |part: &str| {
        BASE64URL_NOPAD
            .decode(part.as_bytes())
            .expect("strict base64url")
    };
    let header: Value = serde_json::from_slice(&decode(parts[0])).expect("JSON");
    assert_eq!(header["alg"], "HS256");
    serde_json::from_slice(&decode(parts[1])).expect("JSON")
}

#[test]
fn the_token_path_takes_any_order_and_refuses_as_ibm_does() {
    let (_site, relay) = start();
    let grant = "urn:ibm:params:oauth:grant-type:apikey";
    let orders = [
        format!("apikey={KEY}&grant_type={grant}&response_type=cloud_iam"),
        format!("response_type=cloud_iam&grant_type={grant}&apikey={KEY}"),
        format!("grant_type={grant}&apikey={KEY}&more=1"),
        format!(
            "grant_type={}&apikey={}",
            grant.replace(':', "%3a"),
            KEY.replace('-', "%2D")
        ),
    ];
    for body in orders {
        assert_eq!(
            ask(&relay, PLAIN, request::token_body(&body)).status(),
            200,
            "{body}"
        );
    }
    let wrong = ask(&relay, PLAIN, request::token("wrong"));
    assert_eq!(wrong.status(), 400, "{}", wrong.text());
    assert_eq!(json(&wrong)["errorCode"], "BXNIM0415E");
    for body in [
        "",
        "apikey",
        "grant_type=password&apikey=x",
        "grant_type=%zz&apikey=%",
    ] {
        let answer = ask(&relay, PLAIN, request::token_body(body));
        assert!(
            [400, 401].contains(&answer.status()),
            "{body}: {}",
            answer.status()
        );
    }
    let get = request::get("/identity/token");
    assert_eq!(ask(&relay, PLAIN, get).status(), 405);
}

#[test]
fn guessing_keys_is_throttled_and_right_ones_still_open() {
    let (_site, relay) = start();
    let statuses: Vec<u16> = (0..60)
        .map(|_| ask(&relay, PLAIN, request::token("wrong")).status())
        .collect();
    assert_eq!(statuses.first(), Some(&400));
    assert_eq!(statuses.last(), Some(&429), "{statuses:?}");
    let throttled = ask(&relay, PLAIN, request::token("wrong"));
    assert!(throttled.head.has("retry-after"));
    assert_eq!(ask(&relay, PLAIN, request::config()).status(), 200);
}

#[test]
fn a_token_outlives_the_relay_and_dies_with_its_key() {
    let (mut site, relay) = start();
    let path = request::config_path("inventory", "dev");
    let token = json(&ask(&relay, PLAIN, request::token(LINE_KEY)));
    let bearer = format!(
        "Bearer {}",
        token["access_token"].as_str().expect("a token")
    );
    assert_eq!(ask(&relay, PLAIN, bearing(&bearer, &path)).status(), 200);
    assert!(relay.stop().success());

    let relay = Relay::start(&site);
    assert_eq!(ask(&relay, PLAIN, bearing(&bearer, &path)).status(), 200);

    site.config["client_keys"]
        .as_array_mut()
        .expect("the site has keys")
        .pop();
    site.write_config();
    assert_eq!(relay.reload().0, 200);
    assert_eq!(ask(&relay, PLAIN, bearing(&bearer, &path)).status(), 401);
    assert_eq!(
        ask(&relay, PLAIN, request::config()).status(),
        200,
        "other keys stay"
    );
}

#[test]
fn while_a_key_cannot_be_read_an_unknown_one_is_asked_to_come_again() {
    let mut site = Site::new("access", &seed::usual("one"));
    let file = site.scratch.path("line.key");
    let keys = site.config["client_keys"]
        .as_array_mut()
        .expect("the site has keys");
    keys.push(json!({ "id": "line-3", "key_file": file }));
    let relay = Relay::start(&site);
    let path = request::config_path("inventory", "dev");
    let unknown = bearing(&format!("Bearer {LINE_KEY}"), &path);
    let answer = ask(&relay, PLAIN, &unknown);
    assert_eq!(answer.status(), 503);
    assert!(answer.head.has("retry-after"));
    assert_eq!(ask(&relay, PLAIN, request::config()).status(), 200);

    std::fs::write(&file, format!("{LINE_KEY}\n")).expect("the scratch directory is writable");
    assert_eq!(relay.reload().0, 200);
    assert_eq!(ask(&relay, PLAIN, &unknown).status(), 200);
}
