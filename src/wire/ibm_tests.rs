//! The request lines of IBM's SDKs, and what strangers make of them.
//!
//! The first table holds the targets exactly as the real SDKs and browsers sent them; the others
//! hold the tolerances and the refusals that `wire::ibm` promises.

use super::*;

const GUID: &str = "11111111-2222-3333-4444-555555555555";

const METHODS: [(&str, Method); 8] = [
    ("GET", Method::Get),
    ("HEAD", Method::Head),
    ("POST", Method::Post),
    ("PUT", Method::Put),
    ("DELETE", Method::Delete),
    ("PATCH", Method::Patch),
    ("OPTIONS", Method::Options),
    ("CONNECT", Method::Connect),
];

fn config<'a>() -> Path<'a> {
    Path::Config {
        guid: GUID.into(),
        collection: "shop".into(),
        environment: "prod".into(),
    }
}

fn legacy<'a>() -> Path<'a> {
    Path::LegacyConfig {
        guid: GUID.into(),
        collection: "shop".into(),
        environment: "prod".into(),
    }
}

fn socket<'a>() -> Path<'a> {
    Path::WebSocket {
        guid: GUID.into(),
        collection: "shop".into(),
        environment: "prod".into(),
    }
}

fn subscribe<'a>(events_only: bool) -> Path<'a> {
    Path::Subscribe {
        guid: GUID.into(),
        collection: "shop".into(),
        environment: "prod".into(),
        events_only,
    }
}

/// Targets below are written with short forms of their longest parts, to keep them on one line.
fn check(target: &str, expected: Option<&Path<'_>>) {
    let target = target
        .replace("{F}", "/apprapp/feature/v1/instances/{G}")
        .replace("{SSE}", "/environments/prod/sse/subscribe")
        .replace("{S}", "collection_id=shop&environment_id=prod")
        .replace("{C}", "collection_id=shop")
        .replace("{G}", GUID);
    assert_eq!(parse(&target).as_ref(), expected, "{target}");
}

#[test]
fn sdk_requests_are_understood_as_sent() {
    let usage = Path::Usage { guid: GUID.into() };
    let analytics = Path::Analytics { guid: GUID.into() };
    for (line, expected) in [
        ("POST /identity/token", Path::Token),
        ("GET {F}/config?action=sdkConfig&{S}", config()),
        (
            "GET {F}/config?action=sdkConfig&environment_id=prod&collection_id=shop",
            config(),
        ),
        (
            "GET {F}/collections/shop/config?environment_id=prod",
            legacy(),
        ),
        ("GET /apprapp/wsfeature?instance_id={G}&{S}", socket()),
        (
            "GET /apprapp/wsfeature?instance_id={G}&environment_id=prod&collection_id=shop",
            socket(),
        ),
        ("POST /apprapp/events/v1/instances/{G}/usage", usage.clone()),
        ("OPTIONS /apprapp/events/v1/instances/{G}/usage", usage),
        (
            "POST /apprapp/metrics/v1/instances/{G}/analytics",
            analytics,
        ),
        ("OPTIONS {F}{SSE}?{C}", subscribe(false)),
        ("GET {F}{SSE}?{C}", subscribe(false)),
        ("GET {F}{SSE}?{C}&events_only=true", subscribe(true)),
    ] {
        let (method, target) = line.split_once(' ').unwrap();
        check(target, Some(&expected));
        let known = METHODS.iter().find(|(name, _)| *name == method).unwrap();
        assert!(expected.takes(known.1), "{line}");
    }
}

#[test]
fn harmless_differences_are_tolerated() {
    for (target, expected) in [
        // An override URL with a slash at its end.
        ("//apprapp/wsfeature?instance_id={G}&{S}", socket()),
        ("/apprapp//wsfeature//?instance_id={G}&{S}", socket()),
        // Keys that are not ours, empty pairs, keys without value, even with broken escapes.
        (
            "/apprapp/wsfeature?&x&instance_id={G}&%zz=1&y=%&{C}&&environment_id=prod&",
            socket(),
        ),
        // The same value twice says nothing new, even when it is written differently.
        (
            "/apprapp/wsfeature?instance_id={G}&{S}&collection_id=sho%70",
            socket(),
        ),
        // Escapes in ids and in names of the query.
        (
            "{F}/config?%61ction=sdkConfi%67&collection%5fid=sh%6Fp&environment_id=%70rod",
            config(),
        ),
        (
            "{F}/collections/%73hop/config?environment_id=prod",
            legacy(),
        ),
        (
            "{F}{SSE}?lastEventId=42&collection_id=shop&events_only=true",
            subscribe(true),
        ),
        ("{F}{SSE}?{C}&events_only=TRUE", subscribe(false)),
        (
            "{F}{SSE}?{C}&events_only=true&events_only=false",
            subscribe(false),
        ),
        ("/identity/token?x=1", Path::Token),
    ] {
        check(target, Some(&expected));
    }
}

#[test]
fn other_targets_are_not_ours() {
    for target in [
        "",
        "/",
        "*",
        "?",
        "identity/token",
        "http://h/identity/token",
        "/Identity/token",
        "/identity/token/x",
        "/identity%2Ftoken",
        "/identity/%74oken",
        "/apprapp",
        "/apprapp/wsfeature",
        "/apprapp/wsfeature/x?instance_id={G}&{S}",
        "/apprapp/WSFEATURE?instance_id={G}&{S}",
        // An id missing, empty, badly escaped, not text, with a line break, or given twice.
        "/apprapp/wsfeature?instance_id={G}&collection_id=shop",
        "/apprapp/wsfeature?instance_id={G}&collection_id=shop&environment_id=",
        "/apprapp/wsfeature?instance_id={G}&collection_id=shop&environment_id",
        "/apprapp/wsfeature?instance_id={G}&collection_id=shop&environment_id=%7",
        "/apprapp/wsfeature?instance_id={G}&collection_id=shop&environment_id=%ff",
        "/apprapp/wsfeature?instance_id={G}&collection_id=shop&environment_id=a%0Ab",
        "/apprapp/wsfeature?instance_id={G}&collection_id=shop&environment_id=a&environment_id=b",
        "/apprapp/wsfeature?instance_id={G}&Collection_id=shop&environment_id=prod",
        "/apprapp/wsfeature?instance_id={G};collection_id=shop;environment_id=prod",
        "/apprapp/feature/v1/instances//config?action=sdkConfig&{S}",
        "/apprapp/feature/v1/instances/%0d/config?action=sdkConfig&{S}",
        // Without the action, or with another, the service means an administrator's request.
        "{F}/config",
        "{F}/config?{S}",
        "{F}/config?action=sdkconfig&{S}",
        "{F}/config?action=promote&git_config_id=x",
        "{F}/config?action=sdkConfig&action=promote&{S}",
        "/apprapp/feature/v2/instances/{G}/config?action=sdkConfig&{S}",
        "{F}/encrypt",
        "{F}/collections/shop/config",
        "{F}{SSE}",
        "{F}{SSE}/x?collection_id=shop",
        "/apprapp/events/v1/instances/{G}/analytics",
        "/apprapp/metrics/v1/instances/{G}/usage",
        "/a/b/c/d/e/f/g/h/i/j/k/l",
    ] {
        check(target, None);
    }
}

#[test]
fn ids_that_need_no_decoding_are_borrowed() {
    let target = "/apprapp/events/v1/instances/abc/usage";
    assert!(matches!(
        parse(target),
        Some(Path::Usage {
            guid: Cow::Borrowed("abc")
        })
    ));
}

#[test]
fn what_a_path_takes_is_what_it_allows() {
    let usage = Path::Usage { guid: GUID.into() };
    let analytics = Path::Analytics { guid: GUID.into() };
    let paths = [
        config(),
        legacy(),
        socket(),
        subscribe(false),
        usage,
        analytics,
        Path::Token,
    ];
    for path in paths {
        for (name, method) in METHODS {
            let allowed = path.methods().split(", ").any(|allowed| allowed == name);
            assert_eq!(path.takes(method), allowed, "{name} {path:?}");
        }
    }
    assert_eq!(config().methods(), "GET, OPTIONS");
    assert_eq!(socket().methods(), "GET");
    assert_eq!(Path::Token.methods(), "POST");
}

#[test]
fn paths_tell_their_instance_and_slot() {
    for path in [config(), legacy(), socket(), subscribe(true)] {
        assert_eq!(path.guid(), Some(GUID));
        assert_eq!(path.slot(), Some(("shop", "prod")));
    }
    let usage = Path::Usage { guid: GUID.into() };
    assert_eq!((usage.guid(), usage.slot()), (Some(GUID), None));
    assert_eq!((Path::Token.guid(), Path::Token.slot()), (None, None));
}

#[test]
fn only_go_clients_want_a_change_text() {
    assert!(wants_change_text("appconfiguration-go-sdk/0.5.9"));
    for other in [
        "",
        "appconfiguration-node-sdk/0.8.0",
        "x appconfiguration-go-sdk/1",
    ] {
        assert!(!wants_change_text(other), "{other:?}");
    }
}

#[test]
fn no_target_ends_the_process() {
    let pieces = [
        "/",
        "//",
        "apprapp",
        "feature",
        "v1",
        "instances",
        "config",
        "collections",
        "events",
        "usage",
        "wsfeature",
        "environments",
        "sse",
        "subscribe",
        "?",
        "&",
        "=",
        "%",
        "%2",
        "%zz",
        "%00",
        "%C3%A9",
        "é",
        "action",
        "sdkConfig",
        "collection_id",
        "environment_id",
        "\u{0}",
        "instance_id",
        "identity",
        "token",
        "x",
    ];
    let mut seed: u64 = 0x5eed;
    let mut understood = 0;
    for _ in 0..20_000 {
        let mut target = String::new();
        for _ in 0..next(&mut seed) % 24 {
            target.push_str(pieces[(next(&mut seed) % pieces.len() as u64) as usize]);
        }
        understood += usize::from(parse(&target).is_some());
        let noise: Vec<u8> = (0..next(&mut seed) % 64)
            .map(|_| next(&mut seed) as u8)
            .collect();
        understood += usize::from(parse(&String::from_utf8_lossy(&noise)).is_some());
    }
    assert!(understood < 20_000, "noise is not the service's language");
}

/// One step of xorshift64*, a generator that needs nothing but its seed.
fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed >> 12;
    *seed ^= *seed << 25;
    *seed ^= *seed >> 27;
    seed.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
}
