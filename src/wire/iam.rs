//! IAM as SDKs see it: a client key goes in, a token comes out.
//!
//! Owns the form of the relay's tokens and of the two IAM answers. A token is an HS256 JWT, because
//! IBM's Python, Node and Ruby SDKs take `iat` and `exp` out of it; the others read the JSON around
//! it. It is signed with a key that derives from the client key, and nothing about it is stored: it
//! survives a restart, works on a twin relay, and dies with its client key.
//!
//! Invariants: `exp` is told and never enforced, since clocks jump at the edge; only `HS256` is
//! accepted, only strict base64url, only three parts; signatures are compared in constant time. No
//! key and no token ever gets into an error.

pub mod client;

use super::{DecodeError, percent};
use crate::limits::Limits;
use crate::model::Id;
use crate::time::Wall;
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use ring::hmac;
use serde::Deserialize;
use std::borrow::Cow;

/// What is said of a token's life; SDKs fetch the next one after 80 or 90 % of it.
pub const LIFETIME_S: u64 = 3600;

/// The status of [`error_body`]: IBM's IAM says 400 for a wrong key, and SDKs stop at any 4xx.
pub const ERROR_STATUS: u16 = 400;

/// Separates this use of a client key from every other one.
const PURPOSE: &[u8] = b"staffetta-token-1";

const GRANT: &str = "urn:ibm:params:oauth:grant-type:apikey";

// What can be wrong with a form. None of it is worth more than a word: SDKs send it right.
const NOT_UTF8: DecodeError = DecodeError::Malformed("body is not UTF-8");
const BAD_ESCAPE: DecodeError = DecodeError::Malformed("% without two hex digits");
const MISSING: DecodeError = DecodeError::Malformed("grant_type or apikey is missing");
const TWO_VALUES: DecodeError = DecodeError::Malformed("a field has two values");
const OTHER_GRANT: DecodeError = DecodeError::Malformed("grant_type is not for API keys");
const TOO_LONG: DecodeError = DecodeError::Malformed("apikey is too long");

/// Makes a token for the client key `key_id` with the secret `secret`, issued at `iat`.
///
/// `jti` is random and comes from the caller. At most 640 bytes long (an id of 128 bytes, twice).
pub fn issue(secret: &[u8], key_id: &Id, iat: Wall, jti: &[u8; 16]) -> String {
    // Ids and hex need no escaping in JSON.
    let header = format!(r#"{{"alg":"HS256","kid":"{key_id}","typ":"JWT"}}"#);
    let payload = format!(
        r#"{{"iat":{},"exp":{},"jti":"{}","sub":"{key_id}"}}"#,
        iat.as_unix(),
        expiration(iat),
        HEXLOWER.encode(jti),
    );
    let mut token = BASE64URL_NOPAD.encode(header.as_bytes());
    token.push('.');
    BASE64URL_NOPAD.encode_append(payload.as_bytes(), &mut token);
    let signature = hmac::sign(&signing_key(secret), token.as_bytes());
    token.push('.');
    BASE64URL_NOPAD.encode_append(signature.as_ref(), &mut token);
    token
}

/// The client key that `token` claims to come from; `None` if it is no token of the relay's form.
/// Nothing is verified yet. Bounded by the length of `token`.
pub fn peek_key_id(token: &str) -> Option<Id> {
    let (signed, _) = token.rsplit_once('.')?;
    let (header, payload) = signed.split_once('.')?;
    if payload.contains('.') {
        return None;
    }
    let header = BASE64URL_NOPAD.decode(header.as_bytes()).ok()?;
    // A struct reads from a list of its values as well; ours is an object.
    header.starts_with(b"{").then_some(())?;
    let header: Header<'_> = serde_json::from_slice(&header).ok()?;
    (header.alg == "HS256")
        .then(|| Id::new(&header.kid))
        .flatten()
}

/// Whether `token` was signed with `secret`. Constant time as to the signature; bounded by the
/// length of `token`.
pub fn verify(token: &str, secret: &[u8]) -> bool {
    if peek_key_id(token).is_none() {
        return false;
    }
    let Some((signed, signature)) = token.rsplit_once('.') else {
        return false;
    };
    let Ok(signature) = BASE64URL_NOPAD.decode(signature.as_bytes()) else {
        return false;
    };
    hmac::verify(&signing_key(secret), signed.as_bytes(), &signature).is_ok()
}

/// The JSON around a token, with every field that any of IBM's SDKs reads: Go wants `expiration`,
/// Java `token_type`, Rust `expires_in`. `iat` is the time that the token was issued at.
pub fn answer(token: &str, iat: Wall) -> String {
    format!(
        "{{\"access_token\":\"{token}\",\"refresh_token\":\"not_supported\",\
         \"token_type\":\"Bearer\",\"expires_in\":{LIFETIME_S},\"expiration\":{},\
         \"scope\":\"ibm openid\"}}",
        expiration(iat),
    )
}

/// IAM's answer to a key that it does not know; goes out with [`ERROR_STATUS`].
pub const fn error_body() -> &'static str {
    "{\"errorCode\":\"BXNIM0415E\",\"errorMessage\":\"Provided API key could not be found.\",\
     \"context\":{}}"
}

/// Takes the API key out of the form that SDKs post: any order, unknown fields ignored.
///
/// The body's own length is bounded by the caller, the key's by `credential_bytes_max`.
pub fn parse_form<'a>(body: &'a [u8], limits: &Limits) -> Result<Cow<'a, str>, DecodeError> {
    let text = std::str::from_utf8(body).map_err(|_| NOT_UTF8)?;
    let grant = field(text, "grant_type")?;
    if grant != GRANT {
        return Err(OTHER_GRANT);
    }
    let key = field(text, "apikey")?;
    if key.len() > limits.credential_bytes_max {
        return Err(TOO_LONG);
    }
    Ok(key)
}

#[derive(Deserialize)]
struct Header<'a> {
    #[serde(borrow)]
    alg: Cow<'a, str>,
    #[serde(borrow)]
    kid: Cow<'a, str>,
}

fn expiration(iat: Wall) -> u64 {
    iat.as_unix().saturating_add(LIFETIME_S)
}

fn signing_key(secret: &[u8]) -> hmac::Key {
    let client_key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let derived = hmac::sign(&client_key, PURPOSE);
    hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref())
}

fn field<'a>(form: &'a str, name: &'static str) -> Result<Cow<'a, str>, DecodeError> {
    let mut found: Option<Cow<'a, str>> = None;
    for pair in form.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if percent::decode_form(key).is_some_and(|key| key == name) {
            let value = percent::decode_form(value).ok_or(BAD_ESCAPE)?;
            if found.as_ref().is_some_and(|first| *first != value) {
                return Err(TWO_VALUES);
            }
            found = Some(value);
        }
    }
    match found {
        Some(value) if !value.is_empty() => Ok(value),
        _ => Err(MISSING),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Wall = Wall::from_unix(1_796_000_000);

    fn id(text: &str) -> Id {
        Id::new(text).unwrap()
    }

    fn sign(header: &str, payload: &str, secret: &[u8]) -> String {
        let mut token = BASE64URL_NOPAD.encode(header.as_bytes());
        token.push('.');
        token.push_str(&BASE64URL_NOPAD.encode(payload.as_bytes()));
        let signature = hmac::sign(&signing_key(secret), token.as_bytes());
        format!("{token}.{}", BASE64URL_NOPAD.encode(signature.as_ref()))
    }

    #[test]
    fn issued_tokens_verify_with_their_key_only() {
        let mut seed: u64 = 7;
        for length in [1, 16, 32, 64, 65, 200] {
            let secret: Vec<u8> = (0..length).map(|_| next(&mut seed) as u8).collect();
            let mut other = secret.clone();
            other[length / 2] ^= 1;
            let token = issue(&secret, &id("line-3"), NOW, &[seed as u8; 16]);
            assert_eq!(peek_key_id(&token), Some(id("line-3")));
            assert!(verify(&token, &secret));
            assert!(!verify(&token, &other));
            assert!(!verify(&token, b""));
        }
    }

    #[test]
    fn one_flipped_bit_fails() {
        let token = issue(b"secret", &id("line-3"), NOW, &[7; 16]);
        for position in 0..token.len() {
            for bit in 0..7 {
                let mut bytes = token.clone().into_bytes();
                bytes[position] ^= 1 << bit;
                let flipped = String::from_utf8(bytes).unwrap();
                assert!(!verify(&flipped, b"secret"), "bit {bit} of byte {position}");
            }
        }
        for end in 0..token.len() {
            assert!(!verify(&token[..end], b"secret"), "cut at {end}");
        }
    }

    #[test]
    fn tokens_hold_what_sdks_decode() {
        #[derive(Deserialize)]
        struct Payload {
            iat: u64,
            exp: u64,
            jti: String,
        }
        let token = issue(b"secret", &id("line-3"), NOW, &[0xab; 16]);
        let parts: Vec<&str> = token.split('.').collect();
        assert_eq!(parts.len(), 3);
        let payload = BASE64URL_NOPAD.decode(parts[1].as_bytes()).unwrap();
        let payload: Payload = serde_json::from_slice(&payload).unwrap();
        assert_eq!((payload.iat, payload.exp), (1_796_000_000, 1_796_003_600));
        assert_eq!(payload.jti, "ab".repeat(16));
        assert!(
            token.starts_with("eyJ"),
            "Python SDKs look for nothing else, people do"
        );
    }

    #[test]
    fn the_longest_token_is_within_its_bound() {
        let longest = id(&"x".repeat(Id::LENGTH_MAX));
        let token = issue(b"secret", &longest, Wall::from_unix(u64::MAX), &[255; 16]);
        assert!(token.len() <= 640, "{}", token.len());
        assert!(token.len() <= Limits::PRODUCTION.token_bytes_max);
    }

    #[test]
    fn only_the_relay_s_own_form_is_a_token() {
        let secret = b"secret";
        let good = r#"{"alg":"HS256","kid":"line-3"}"#;
        assert!(
            verify(&sign(good, "{}", secret), secret),
            "expiry is not looked at"
        );
        for header in [
            r#"{"alg":"none","kid":"line-3"}"#,
            r#"{"alg":"hs256","kid":"line-3"}"#,
            r#"{"alg":"HS512","kid":"line-3"}"#,
            r#"{"alg":"HS256"}"#,
            r#"{"alg":"HS256","kid":"a b"}"#,
            r#"{"alg":"HS256","kid":""}"#,
            r#"{"alg":"HS256","kid":7}"#,
            r#"{"alg":"HS256","alg":"HS256","kid":"line-3"}"#,
            r#"{"alg":"HS256","kid":"line-3"} x"#,
            "",
            "[]",
            r#"["HS256","line-3"]"#,
        ] {
            let token = sign(header, "{}", secret);
            assert!(
                !verify(&token, secret) && peek_key_id(&token).is_none(),
                "{header}"
            );
        }
        let token = sign(good, "{}", secret);
        let (signed, signature) = token.rsplit_once('.').unwrap();
        for bad in [
            format!("{token}="),
            format!("{token}."),
            format!(".{token}"),
            format!("{token}.{signature}"),
            format!("{token} "),
            format!(" {token}"),
            format!("{signed}."),
            signed.to_owned(),
            String::new(),
            "..".to_owned(),
        ] {
            assert!(!verify(&bad, secret), "{bad}");
        }
    }

    #[test]
    fn no_token_ends_the_process() {
        let mut seed: u64 = 99;
        let alphabet: Vec<char> = "eyJhbGciOiJIUzI1NiJ9._-=+ /\u{0}é".chars().collect();
        for _ in 0..5_000 {
            let token: String = (0..next(&mut seed) % 80)
                .map(|_| alphabet[(next(&mut seed) % alphabet.len() as u64) as usize])
                .collect();
            assert!(!verify(&token, b"secret"));
            assert!(parse_form(token.as_bytes(), &Limits::PRODUCTION).is_err());
        }
    }

    #[test]
    fn the_answer_has_every_field_of_every_sdk() {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Answer {
            access_token: String,
            refresh_token: String,
            token_type: String,
            expires_in: u64,
            expiration: u64,
            scope: String,
        }
        let token = issue(b"secret", &id("line-3"), NOW, &[1; 16]);
        let read: Answer = serde_json::from_str(&answer(&token, NOW)).unwrap();
        assert_eq!(read.access_token, token);
        assert_eq!(read.refresh_token, "not_supported");
        assert_eq!(read.token_type, "Bearer");
        assert_eq!((read.expires_in, read.expiration), (3600, 1_796_003_600));
        assert_eq!(read.scope, "ibm openid");
        serde_json::from_str::<serde::de::IgnoredAny>(error_body()).unwrap();
    }

    #[test]
    fn the_form_is_read_in_any_order() {
        let limits = Limits::PRODUCTION;
        let grant = "grant_type=urn%3Aibm%3Aparams%3Aoauth%3Agrant-type%3Aapikey";
        for (body, key) in [
            (format!("{grant}&apikey=k-1&response_type=cloud_iam"), "k-1"),
            (format!("apikey=k-1&{grant}&response_type=cloud_iam"), "k-1"),
            (format!("response_type=cloud_iam&apikey=k-1&{grant}"), "k-1"),
            (format!("grant_type={GRANT}&apikey=k-1"), "k-1"),
            (format!("{grant}&apikey=a%2Bb+c%3D%26"), "a+b c=&"),
            (format!("{grant}&apikey=a=b"), "a=b"),
            (format!("{grant}&apikey=%C3%A9&x=%&&"), "é"),
            (format!("{grant}&apikey=k&apikey=%6B&{grant}"), "k"),
        ] {
            assert_eq!(
                parse_form(body.as_bytes(), &limits).as_deref(),
                Ok(key),
                "{body}"
            );
        }
    }

    #[test]
    fn other_forms_are_refused_with_their_reason() {
        let limits = Limits {
            credential_bytes_max: 8,
            ..Limits::PRODUCTION
        };
        let grant = "grant_type=urn%3Aibm%3Aparams%3Aoauth%3Agrant-type%3Aapikey";
        for (body, error) in [
            (String::new(), MISSING),
            (grant.to_owned(), MISSING),
            (format!("{grant}&apikey="), MISSING),
            (format!("{grant}&APIKEY=k"), MISSING),
            ("grant_type=password&apikey=k".to_owned(), OTHER_GRANT),
            (format!("{grant}&apikey=a&apikey=b"), TWO_VALUES),
            (format!("{grant}&grant_type=x&apikey=a"), TWO_VALUES),
            (format!("{grant}&apikey=%4"), BAD_ESCAPE),
            (format!("{grant}&apikey=123456789"), TOO_LONG),
        ] {
            assert_eq!(parse_form(body.as_bytes(), &limits), Err(error), "{body}");
        }
        assert_eq!(parse_form(b"apikey=\xff", &limits), Err(NOT_UTF8));
    }

    /// One step of xorshift64*, a generator that needs nothing but its seed.
    fn next(seed: &mut u64) -> u64 {
        *seed ^= *seed >> 12;
        *seed ^= *seed << 25;
        *seed ^= *seed >> 27;
        seed.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }
}
