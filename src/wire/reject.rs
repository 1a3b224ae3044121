//! The one table from a refusal to what a client sees of it.
//!
//! Owns status and body of every [`Reject`]; nobody else chooses a status for one. What decides
//! here is how IBM's SDKs take it: any 4xx but 429 on a WebSocket upgrade, and any 4xx of IAM,
//! stops most of them until their process restarts, so a 4xx is for what will not get better by
//! itself, and everything else is 429 or 503 with `Retry-After`.
//!
//! Invariant: never a 3xx, because SDKs' HTTP libraries follow it.

use super::cors;
use super::http::response::Answer;
use crate::model::Reject;
use crate::time::Duration;

/// The service's own error shape. Messages need no escaping, which a test holds.
macro_rules! json {
    ($status:literal, $message:literal) => {
        concat!(
            "{\"status_code\":",
            $status,
            ",\"message\":\"",
            $message,
            "\"}"
        )
    };
}

/// What a client sees of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status, 4xx or 5xx.
    pub status: u16,
    /// JSON of the service's own error shape, for `application/json`. SDKs print `message`.
    pub body: &'static str,
    /// Whether `Retry-After` goes with it (its value is the limit `retry_after`).
    pub retry_after: bool,
}

/// Looks `reject` up.
pub const fn refusal(reject: Reject) -> Refusal {
    let status = status(reject);
    Refusal {
        status,
        body: body(reject),
        retry_after: matches!(status, 429 | 503),
    }
}

/// The whole answer to a refused request, with what browsers need to see it.
///
/// `retry_after` is what a client is told to wait, where it may come back. A 405 still wants its
/// `Allow` from the caller, who knows the path.
pub fn answer(reject: Reject, retry_after: Duration) -> Answer {
    let refusal = refusal(reject);
    let mut answer =
        Answer::json(refusal.status, refusal.body).with(cors::ANSWER.0, cors::ANSWER.1);
    if refusal.retry_after {
        answer = answer.with("retry-after", retry_after.as_secs().max(1).to_string());
    }
    if refusal.status == 401 {
        // RFC 9110 11.6.1; browsers open no dialog for this scheme.
        answer = answer.with("www-authenticate", "Bearer");
    }
    answer
}

const fn status(reject: Reject) -> u16 {
    match reject {
        Reject::MalformedBody => 400,
        Reject::WrongKey => 401,
        Reject::SlotNotAllowed | Reject::TunnelRefused => 403,
        Reject::UnknownPath | Reject::UnknownInstance | Reject::UnknownSlot => 404,
        Reject::MethodNotAllowed => 405,
        Reject::BodyTooLarge => 413,
        Reject::Throttled => 429,
        Reject::DestinationFailed => 502,
        Reject::KeysUnreadable | Reject::NoSnapshot | Reject::Overloaded => 503,
        Reject::DestinationSilent => 504,
    }
}

/// What was wrong, and what to do about it.
const fn body(reject: Reject) -> &'static str {
    match reject {
        Reject::WrongKey => json!(
            401,
            "No client key of this relay: check the application's key, or add it to client_keys."
        ),
        Reject::KeysUnreadable => json!(
            503,
            "One client key cannot be read, perhaps this one: retry; the relay's status tells more."
        ),
        Reject::SlotNotAllowed => json!(
            403,
            "This key may not use this slot: see `slots` of its entry in client_keys."
        ),
        Reject::UnknownPath => json!(404, "The relay does not serve this path."),
        Reject::UnknownInstance => json!(
            404,
            "Another instance's guid: compare the application's with instance.guid."
        ),
        Reject::UnknownSlot => json!(
            404,
            "No such collection and environment here: check both ids, or add them to slots."
        ),
        Reject::MethodNotAllowed => json!(405, "This path takes other methods: see Allow."),
        Reject::NoSnapshot => json!(
            503,
            "No configuration for this collection and environment yet: retry."
        ),
        Reject::Throttled => json!(
            429,
            "Too many wrong keys lately: retry later, with a key of this relay."
        ),
        Reject::Overloaded => json!(503, "The limit of connections is reached: retry."),
        Reject::BodyTooLarge => json!(
            413,
            "The body is larger than this path takes: send it in parts."
        ),
        Reject::MalformedBody => json!(400, "The body is not what this path takes."),
        Reject::DestinationFailed => {
            json!(
                502,
                "The server for this path cannot be reached, or broke off."
            )
        }
        Reject::DestinationSilent => json!(504, "The server for this path does not answer."),
        Reject::TunnelRefused => json!(
            403,
            "Tunnels lead to the service's own hosts only: see connect.allow."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[test]
    fn no_refusal_redirects() {
        for reject in Reject::ALL {
            let refusal = refusal(reject);
            assert!((400..600).contains(&refusal.status), "{reject:?}");
        }
    }

    #[test]
    fn bodies_are_json_that_agrees_with_the_status() {
        #[derive(Deserialize)]
        struct Body {
            status_code: u16,
            message: String,
        }
        for reject in Reject::ALL {
            let refusal = refusal(reject);
            let body: Body = serde_json::from_str(refusal.body).unwrap();
            assert_eq!(body.status_code, refusal.status, "{reject:?}");
            assert!(
                !body.message.is_empty() && body.message.ends_with('.'),
                "{reject:?}"
            );
        }
    }

    #[test]
    fn statuses_are_those_of_the_design() {
        for (status, rejects) in [
            (400, &[Reject::MalformedBody][..]),
            (401, &[Reject::WrongKey]),
            (403, &[Reject::SlotNotAllowed, Reject::TunnelRefused]),
            (
                404,
                &[
                    Reject::UnknownPath,
                    Reject::UnknownInstance,
                    Reject::UnknownSlot,
                ],
            ),
            (405, &[Reject::MethodNotAllowed]),
            (413, &[Reject::BodyTooLarge]),
            (429, &[Reject::Throttled]),
            (
                503,
                &[
                    Reject::NoSnapshot,
                    Reject::KeysUnreadable,
                    Reject::Overloaded,
                ],
            ),
        ] {
            for &reject in rejects {
                assert_eq!(refusal(reject).status, status, "{reject:?}");
            }
        }
    }

    #[test]
    fn only_what_passes_by_itself_is_retried() {
        for reject in Reject::ALL {
            let refusal = refusal(reject);
            let passes = refusal.status == 429 || refusal.status == 503;
            assert_eq!(refusal.retry_after, passes, "{reject:?}");
        }
    }

    #[test]
    fn answers_say_when_to_come_back_and_are_visible_to_browsers() {
        for reject in Reject::ALL {
            let answer = answer(reject, Duration::from_millis(100));
            let value = |wanted: &str| {
                let field = answer.fields.iter().find(|(name, _)| *name == wanted);
                field.map(|(_, value)| value.as_str())
            };
            let retry = refusal(reject).retry_after.then_some("1");
            assert_eq!(value("retry-after"), retry, "{reject:?}");
            assert_eq!(
                value("access-control-allow-origin"),
                Some("*"),
                "{reject:?}"
            );
            assert_eq!(
                value("content-type"),
                Some("application/json"),
                "{reject:?}"
            );
            let challenge = (answer.status == 401).then_some("Bearer");
            assert_eq!(value("www-authenticate"), challenge, "{reject:?}");
        }
    }
}
