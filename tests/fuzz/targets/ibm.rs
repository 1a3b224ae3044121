//! Targets of requests, and percent-encoding.
//!
//! Claims: what was understood is understood the same when it is written with every byte escaped,
//! with its query in another order, with doubled slashes and with unknown keys; ids hold no control
//! character. What is decoded is what a naive decoder finds, and what was encoded comes back.

use staffetta::wire::ibm::{self, Path};
use staffetta::wire::percent as escapes;
use std::borrow::Cow;

pub const WORDS: &[&str] = &[
    "/apprapp/feature/v1/instances/",
    "/apprapp/events/v1/instances/",
    "/apprapp/wsfeature",
    "/identity/token",
    "collections",
    "environments",
    "config",
    "sse/subscribe",
    "usage",
    "action=sdkConfig",
    "collection_id",
    "environment_id",
    "instance_id",
    "events_only=true",
    "&",
    "?",
    "/",
    "//",
    "%2F",
    "%00",
    "%c3%a9",
];

fn text(input: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(input)
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

pub fn path(input: &[u8]) {
    let target = text(input);
    let Some(path) = ibm::parse(&target) else {
        return;
    };
    let slot = path.slot();
    let ids = path
        .guid()
        .into_iter()
        .chain(slot.into_iter().flat_map(|(c, e)| [c, e]));
    for id in ids {
        assert!(
            !id.is_empty() && !id.chars().any(char::is_control),
            "{id:?}"
        );
    }
    assert!(path.methods().split(", ").count() >= 1);
    let (steps, mut query) = written(&path);
    for separator in ["/", "//", "/./"] {
        let target = format!("{separator}{}?{}", steps.join(separator), query.join("&"));
        let again = ibm::parse(&target);
        match separator {
            "/./" => assert_ne!(again.as_ref(), Some(&path), "{target}"),
            _ => assert_eq!(again.as_ref(), Some(&path), "{target}"),
        }
    }
    query.reverse();
    query.insert(0, "lastEventId=%".into());
    let target = format!("/{}?{}", steps.join("/"), query.join("&&"));
    assert_eq!(ibm::parse(&target).as_ref(), Some(&path), "{target}");
    if !query[1..].is_empty() {
        let twice = format!(
            "{target}&{}=other-value",
            query[1].split_once('=').expect("a pair").0
        );
        let again = ibm::parse(&twice);
        let is_flag = query[1].starts_with("events_only");
        assert!(is_flag || again.is_none(), "two values: {twice}");
    }
}

/// The steps of a path and the pairs of its query.
fn written(path: &Path) -> (Vec<String>, Vec<String>) {
    let steps = |text: &str| text.split('/').map(str::to_owned).collect::<Vec<String>>();
    let pair = |name: &str, value: &str| format!("{name}={}", escaped(value));
    let instance = |kind: &str, guid: &str, rest: &str| {
        steps(&format!(
            "apprapp/{kind}/v1/instances/{}/{rest}",
            escaped(guid)
        ))
    };
    match path {
        Path::Config {
            guid,
            collection,
            environment,
        } => {
            let query = vec![
                pair("action", "sdkConfig"),
                pair("collection_id", collection),
                pair("environment_id", environment),
            ];
            (instance("feature", guid, "config"), query)
        }
        Path::LegacyConfig {
            guid,
            collection,
            environment,
        } => {
            let rest = format!("collections/{}/config", escaped(collection));
            let query = vec![pair("environment_id", environment)];
            (instance("feature", guid, &rest), query)
        }
        Path::Subscribe {
            guid,
            collection,
            environment,
            events_only,
        } => {
            let rest = format!("environments/{}/sse/subscribe", escaped(environment));
            let query = vec![
                pair("collection_id", collection),
                pair("events_only", if *events_only { "true" } else { "false" }),
            ];
            (instance("feature", guid, &rest), query)
        }
        Path::WebSocket {
            guid,
            collection,
            environment,
        } => {
            let query = vec![
                pair("instance_id", guid),
                pair("collection_id", collection),
                pair("environment_id", environment),
            ];
            (steps("apprapp/wsfeature"), query)
        }
        Path::Usage { guid } => (instance("events", guid, "usage"), Vec::new()),
        Path::Analytics { guid } => (instance("metrics", guid, "analytics"), Vec::new()),
        Path::Token => (steps("identity/token"), Vec::new()),
    }
}

pub fn percent(input: &[u8]) {
    let text = text(input);
    for (decode, plus) in [
        (escapes::decode as fn(&str) -> Option<Cow<'_, str>>, false),
        (escapes::decode_form, true),
    ] {
        let found = decode(&text);
        assert_eq!(found.as_deref(), naive(&text, plus).as_deref(), "{text:?}");
        if let Some(Cow::Borrowed(found)) = found {
            assert_eq!(found, text);
        }
        assert_eq!(decode(&escaped(&text)).as_deref(), Some(&*text));
    }
}

fn naive(text: &str, plus_is_blank: bool) -> Option<String> {
    let text = if plus_is_blank {
        text.replace('+', " ")
    } else {
        text.to_owned()
    };
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let digits = part
            .get(..2)
            .filter(|digits| digits.chars().all(|c| c.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}
