//! The service's paths, as its SDKs write them.
//!
//! Owns the map from a request target to one of the service's operations, and what methods each
//! takes. It knows nothing of which instance, slots or keys are configured: ids come out as they
//! were sent, decoded, and may be anybody's.
//!
//! Rules, all from what SDKs send: the query comes in any order (Rust's differs from the others');
//! unknown keys are ignored (browsers add `lastEventId`); doubled slashes are one (an override URL
//! that ends in a slash makes them); names are matched in exact case. An id that is empty, badly
//! escaped, or given twice with two values makes the target unknown rather than ambiguous.
//!
//! `/config` wants `action=sdkConfig`: every SDK sends it, and without it the service means its
//! administrators' export, another document that the relay does not have.

use super::http::Method;
use super::percent;
use std::borrow::Cow;

/// The most path segments that an operation has.
const SEGMENTS_MAX: usize = 9;

/// One operation of the service, with the ids that the target names. Ids are decoded, not empty,
/// free of control characters, and otherwise unchecked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Path<'a> {
    /// The document in its current form.
    Config {
        guid: Cow<'a, str>,
        collection: Cow<'a, str>,
        environment: Cow<'a, str>,
    },
    /// The flat document of Java, Android and Python 0.2.
    LegacyConfig {
        guid: Cow<'a, str>,
        collection: Cow<'a, str>,
        environment: Cow<'a, str>,
    },
    /// The event stream of browsers.
    Subscribe {
        guid: Cow<'a, str>,
        collection: Cow<'a, str>,
        environment: Cow<'a, str>,
        /// The client wants small events and fetches documents itself. Anything but `true` is no.
        events_only: bool,
    },
    /// The change socket of server SDKs.
    WebSocket {
        guid: Cow<'a, str>,
        collection: Cow<'a, str>,
        environment: Cow<'a, str>,
    },
    /// Evaluation counts.
    Usage { guid: Cow<'a, str> },
    /// Experiment and rollout records.
    Analytics { guid: Cow<'a, str> },
    /// IAM's exchange of a key for a token.
    Token,
}

impl Path<'_> {
    /// The methods that the path takes, as the value of `Allow`.
    ///
    /// Browsers ask `OPTIONS` before what their pages may call; no page calls the other two.
    pub const fn methods(&self) -> &'static str {
        match self {
            Path::Config { .. } | Path::LegacyConfig { .. } | Path::Subscribe { .. } => {
                "GET, OPTIONS"
            }
            Path::Usage { .. } | Path::Analytics { .. } => "POST, OPTIONS",
            Path::WebSocket { .. } => "GET",
            Path::Token => "POST",
        }
    }

    /// Whether the path takes `method`.
    pub const fn takes(&self, method: Method) -> bool {
        match self {
            Path::Config { .. } | Path::LegacyConfig { .. } | Path::Subscribe { .. } => {
                matches!(method, Method::Get | Method::Options)
            }
            Path::Usage { .. } | Path::Analytics { .. } => {
                matches!(method, Method::Post | Method::Options)
            }
            Path::WebSocket { .. } => matches!(method, Method::Get),
            Path::Token => matches!(method, Method::Post),
        }
    }

    /// The instance that the target names; none for the token path, which has none.
    pub fn guid(&self) -> Option<&str> {
        match self {
            Path::Config { guid, .. }
            | Path::LegacyConfig { guid, .. }
            | Path::Subscribe { guid, .. }
            | Path::WebSocket { guid, .. }
            | Path::Usage { guid }
            | Path::Analytics { guid } => Some(guid),
            Path::Token => None,
        }
    }

    /// The collection and the environment that the target names, where it names them.
    pub fn slot(&self) -> Option<(&str, &str)> {
        match self {
            Path::Config {
                collection,
                environment,
                ..
            }
            | Path::LegacyConfig {
                collection,
                environment,
                ..
            }
            | Path::Subscribe {
                collection,
                environment,
                ..
            }
            | Path::WebSocket {
                collection,
                environment,
                ..
            } => Some((collection, environment)),
            Path::Usage { .. } | Path::Analytics { .. } | Path::Token => None,
        }
    }
}

/// Reads an origin-form target, path and query; absolute-form is cut to it by the caller. `None`
/// where it is no operation of the service. Bounded by the length of `target`.
pub fn parse(target: &str) -> Option<Path<'_>> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut segments = [""; SEGMENTS_MAX];
    let mut count = 0;
    for segment in path.strip_prefix('/')?.split('/') {
        if !segment.is_empty() {
            *segments.get_mut(count)? = segment;
            count += 1;
        }
    }
    match segments.get(..count)? {
        ["identity", "token"] => Some(Path::Token),
        ["apprapp", "wsfeature"] => Some(Path::WebSocket {
            guid: parameter(query, "instance_id")?,
            collection: parameter(query, "collection_id")?,
            environment: parameter(query, "environment_id")?,
        }),
        ["apprapp", "feature", "v1", "instances", guid, rest @ ..] => feature(guid, rest, query),
        ["apprapp", "events", "v1", "instances", guid, "usage"] => Some(Path::Usage {
            guid: identifier(guid)?,
        }),
        ["apprapp", "metrics", "v1", "instances", guid, "analytics"] => Some(Path::Analytics {
            guid: identifier(guid)?,
        }),
        _ => None,
    }
}

/// Whether the client must be told of a change right after its upgrade. IBM's Go SDK does not fetch
/// again when it reconnects, so what it missed stays missed until the next message.
pub fn wants_change_text(user_agent: &str) -> bool {
    user_agent.starts_with("appconfiguration-go-sdk/")
}

/// The paths below `/apprapp/feature/v1/instances/{guid}`.
fn feature<'a>(guid: &'a str, rest: &[&'a str], query: &'a str) -> Option<Path<'a>> {
    let guid = identifier(guid)?;
    match rest {
        ["config"] if parameter(query, "action")? == "sdkConfig" => Some(Path::Config {
            guid,
            collection: parameter(query, "collection_id")?,
            environment: parameter(query, "environment_id")?,
        }),
        ["collections", collection, "config"] => Some(Path::LegacyConfig {
            guid,
            collection: identifier(collection)?,
            environment: parameter(query, "environment_id")?,
        }),
        ["environments", environment, "sse", "subscribe"] => Some(Path::Subscribe {
            guid,
            collection: parameter(query, "collection_id")?,
            environment: identifier(environment)?,
            events_only: parameter(query, "events_only").is_some_and(|value| value == "true"),
        }),
        _ => None,
    }
}

/// The one value of the query key `name`; none when it is absent, no identifier, or has two values.
fn parameter<'a>(query: &'a str, name: &str) -> Option<Cow<'a, str>> {
    let mut found = None;
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if percent::decode(key).is_some_and(|key| key == name) {
            let value = identifier(value)?;
            if found.as_ref().is_some_and(|first| *first != value) {
                return None;
            }
            found = Some(value);
        }
    }
    found
}

/// Decodes an id. Control characters are refused here, so that no log line can be split by one.
fn identifier(text: &str) -> Option<Cow<'_, str>> {
    percent::decode(text).filter(|id| !id.is_empty() && !id.contains(char::is_control))
}

#[cfg(test)]
mod tests {
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

    /// The request lines exactly as the real SDKs and browsers sent them.
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
            "/apprapp/wsfeature?instance_id={G}&{S}&environment_id=b",
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
}
