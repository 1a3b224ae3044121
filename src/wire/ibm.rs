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
#[path = "ibm_tests.rs"]
mod tests;
