//! Tokens and the form that they are asked for with.
//!
//! Claims: a token verifies with its own secret and with no other, and in no other spelling;
//! whatever is no token of ours is nobody's. A form is read as a naive reader reads it.

use super::entropy::Entropy;
use data_encoding::BASE64URL_NOPAD;
use staffetta::limits::Limits;
use staffetta::model::Id;
use staffetta::time::Wall;
use staffetta::wire::iam;
use staffetta::wire::percent;

const GRANT: &str = "urn:ibm:params:oauth:grant-type:apikey";

pub const TOKEN_WORDS: &[&str] = &[".", "=", "eyJ", "-", "_", "e30"];

pub const FORM_WORDS: &[&str] = &[
    "grant_type",
    "urn%3Aibm%3Aparams%3Aoauth%3Agrant-type%3Aapikey",
    GRANT,
    "apikey",
    "response_type",
    "=",
    "&",
    "+",
    "%41",
    "%",
];

pub fn token(input: &[u8]) {
    let found = String::from_utf8_lossy(input);
    let key = iam::peek_key_id(&found);
    let is_ours = iam::verify(&found, b"secret");
    assert!(!is_ours || key.is_some());
    if key.is_some() {
        let alphabet = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let (signed, _) = found.rsplit_once('.').expect("three parts");
        let (header, _) = signed.split_once('.').expect("three parts");
        assert!(header.bytes().all(alphabet), "{found}");
        let header = BASE64URL_NOPAD.decode(header.as_bytes()).expect("base64");
        assert!(header.starts_with(b"{"), "{found}");
    }
    issued(input);
}

fn issued(input: &[u8]) {
    let mut entropy = Entropy::new(input);
    let length = entropy.below(80) + 1;
    let mut secret = entropy.take(length).to_vec();
    secret.push(entropy.byte());
    let names = ["line-3", "a", "A.b_c-9"];
    let id = Id::new(names[entropy.below(names.len())]).expect("an id");
    let wall = Wall::from_unix(entropy.word());
    let token = iam::issue(&secret, &id, wall, &[entropy.byte(); 16]);
    assert!(iam::verify(&token, &secret), "{token}");
    assert_eq!(iam::peek_key_id(&token), Some(id));
    let answer: serde_json::Value = serde_json::from_str(&iam::answer(&token, wall)).expect("JSON");
    assert_eq!(answer["access_token"], token.as_str());
    let mut other = secret.clone();
    let at = entropy.below(other.len());
    other[at] ^= 1 << entropy.below(8);
    assert!(!iam::verify(&token, &other), "another secret");
    // Another character, in any place, is another token.
    let mut bent = token.clone().into_bytes();
    let at = (entropy.word() % bent.len() as u64) as usize;
    let alphabet = b"ABCxyz019-_.=+/ ";
    bent[at] = alphabet[entropy.below(alphabet.len())];
    let bent = String::from_utf8(bent).expect("ASCII");
    assert_eq!(
        iam::verify(&bent, &secret),
        bent == token,
        "{token} as {bent}"
    );
    let payload = token.split('.').nth(1).expect("three parts");
    let payload = BASE64URL_NOPAD.decode(payload.as_bytes()).expect("base64");
    let payload: serde_json::Value = serde_json::from_slice(&payload).expect("JSON");
    assert_eq!(payload["iat"], wall.as_unix());
}

pub fn form(input: &[u8]) {
    let limits = Limits {
        credential_bytes_max: 40,
        ..Limits::PRODUCTION
    };
    let found = iam::parse_form(input, &limits)
        .ok()
        .map(|key| key.into_owned());
    assert_eq!(found, naive(input, limits.credential_bytes_max));
}

fn naive(input: &[u8], bytes_max: usize) -> Option<String> {
    let text = std::str::from_utf8(input).ok()?;
    let values = |name: &str| {
        let pairs = text
            .split('&')
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let named =
            pairs.filter(|(key, _)| percent::decode_form(key).is_some_and(|key| key == name));
        let values = named.map(|(_, value)| percent::decode_form(value).map(String::from));
        let mut values: Vec<String> = values.collect::<Option<_>>()?;
        values.dedup();
        match values.as_slice() {
            [value] if !value.is_empty() => Some(value.clone()),
            _ => None,
        }
    };
    let key = values("apikey")?;
    (values("grant_type")? == GRANT && key.len() <= bytes_max).then_some(key)
}
