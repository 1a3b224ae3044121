//! IAM from the other side: the relay's own key goes out, a token comes in.
//!
//! Owns the form that is posted and what is read of the answer: the token and how long it lasts.
//! IBM's Go and Rust SDKs read the same two; the token itself stays opaque, since another relay's
//! is as good as IBM's.
//!
//! Never puts key or token into an error.

use serde::Deserialize;

use crate::limits::Limits;
use crate::time::{Duration, Wall};
use crate::wire::{DecodeError, json};

const NO_JSON: DecodeError = DecodeError::Malformed("IAM's answer is no JSON with a token");
const BAD_TOKEN: DecodeError = DecodeError::Malformed("a token that cannot be sent");
const NO_LIFETIME: DecodeError = DecodeError::Malformed("a token without its lifetime");

/// What IAM gave.
#[derive(Clone, PartialEq, Eq)]
pub struct Grant {
    /// Visible ASCII, at most `credential_bytes_max`.
    pub token: String,
    /// From now on; at most `token_lifetime_max`.
    pub lifetime: Duration,
}

#[derive(Deserialize)]
struct Answer {
    access_token: String,
    #[serde(default)]
    expires_in: Option<u64>,
    #[serde(default)]
    expiration: Option<u64>,
}

/// The form by which SDKs ask for a token, for any key.
///
/// Bounded by three times the length of the key.
pub fn form(api_key: &[u8]) -> String {
    let mut form = String::from(
        "grant_type=urn%3Aibm%3Aparams%3Aoauth%3Agrant-type%3Aapikey&response_type=cloud_iam\
         &apikey=",
    );
    for byte in api_key {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                form.push(char::from(*byte));
            }
            _ => form.push_str(&format!("%{byte:02X}")),
        }
    }
    form
}

/// Reads IAM's answer. `expires_in` is believed before `expiration`, which is worth something only
/// where this machine knows the time.
///
/// The body's own length is bounded by the caller.
pub fn parse_grant(body: &[u8], limits: &Limits, now: Wall) -> Result<Grant, DecodeError> {
    let text = json::text(body).map_err(|_| NO_JSON)?;
    // A struct reads from a list of its values as well; IAM's answer is an object.
    let is_object = text.trim_start().starts_with('{');
    let answer: Option<Answer> = serde_json::from_str(text).ok().filter(|_| is_object);
    let answer = answer.ok_or(NO_JSON)?;
    let token = answer.access_token;
    let fits = (1..=limits.credential_bytes_max).contains(&token.len());
    if !fits || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(BAD_TOKEN);
    }
    let until = |expiration: u64| {
        let left = expiration.checked_sub(now.as_unix());
        left.filter(|_| now.is_plausible())
    };
    let seconds = answer
        .expires_in
        .or_else(|| answer.expiration.and_then(until));
    let lifetime = Duration::from_secs(seconds.ok_or(NO_LIFETIME)?);
    Ok(Grant {
        token,
        lifetime: lifetime.min(limits.token_lifetime_max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::iam;

    const NOW: Wall = Wall::from_unix(1_796_000_000);

    fn parse(body: &str) -> Result<(String, u64), DecodeError> {
        let grant = parse_grant(body.as_bytes(), &Limits::PRODUCTION, NOW);
        grant.map(|grant| (grant.token, grant.lifetime.as_secs()))
    }

    #[test]
    fn a_relay_reads_what_a_relay_writes() {
        for key in ["k-1", "a+b c=&", "é%", "~._-"] {
            let form = form(key.as_bytes());
            let read = iam::parse_form(form.as_bytes(), &Limits::PRODUCTION);
            assert_eq!(read.as_deref(), Ok(key));
        }
        assert_eq!(parse(&iam::answer("t", NOW)), Ok(("t".to_owned(), 3600)));
    }

    #[test]
    fn the_lifetime_is_told_in_one_of_two_ways() {
        for (rest, seconds) in [
            (r#""expires_in": 60, "expiration": 1"#, Ok(60)),
            (r#""expiration": 1796000090"#, Ok(90)),
            (r#""expires_in": null, "expiration": 1796000090"#, Ok(90)),
            (r#""expires_in": 99999999999"#, Ok(86_400)),
            (r#""expiration": 1"#, Err(NO_LIFETIME)),
            (r#""scope": "ibm openid""#, Err(NO_LIFETIME)),
            (r#""expires_in": -1"#, Err(NO_JSON)),
        ] {
            let body = format!(r#"{{"access_token": "t", {rest}}}"#);
            assert_eq!(parse(&body), seconds.map(|s| ("t".to_owned(), s)), "{rest}");
        }
        let dated = br#"{"access_token":"t","expiration":1796000090}"#;
        assert!(parse_grant(dated, &Limits::PRODUCTION, Wall::from_unix(9)).is_err());
    }

    #[test]
    fn what_cannot_be_a_token_is_none() {
        for (token, error) in [("", BAD_TOKEN), ("a b", BAD_TOKEN), ("é", BAD_TOKEN)] {
            let body = format!(r#"{{"access_token":"{token}","expires_in":60}}"#);
            assert_eq!(parse(&body), Err(error), "{token}");
        }
        let long = format!(
            r#"{{"access_token":"{}","expires_in":60}}"#,
            "a".repeat(5000)
        );
        assert_eq!(parse(&long), Err(BAD_TOKEN));
        for body in [
            "",
            "<html>",
            "[\"t\",60,60]",
            "{}",
            "{\"access_token\":7}",
            "\u{0}",
        ] {
            assert_eq!(parse(body), Err(NO_JSON), "{body}");
        }
    }
}
