//! Tokens as IBM's IAM gives them out: the shape that SDKs decode, and the form that asks for one.
//!
//! Real ones are signed with RSA, which no client can check without IBM's keys and none does; the
//! double signs with a secret of its own process, which is how it knows its own again.

use super::http::pairs;
use data_encoding::BASE64URL_NOPAD;
use ring::hmac;
use ring::rand::SystemRandom;
use serde_json::{Value, json};

/// The grant that SDKs use.
const GRANT: &str = "urn:ibm:params:oauth:grant-type:apikey";

/// Gives tokens out and knows them again.
pub struct Mint {
    key: hmac::Key,
}

impl Mint {
    /// A mint with a new secret.
    pub fn new() -> Mint {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        Mint {
            key: key.expect("the kernel gives random bytes"),
        }
    }

    /// The answer with token number `serial`, good from `now_s` (Unix seconds) for `lifetime_s`.
    pub fn issue(&self, serial: u64, now_s: u64, lifetime_s: u64) -> Value {
        let expiration = now_s + lifetime_s;
        let header = json!({ "kid": "20261101-08:30", "alg": "HS256" });
        let claims = json!({
            "iam_id": "iam-ServiceId-00000000-0000-0000-0000-000000000000",
            "id": "iam-ServiceId-00000000-0000-0000-0000-000000000000",
            "realmid": "iam",
            "jti": format!("double-{serial}"),
            "sub": "ServiceId-00000000-0000-0000-0000-000000000000",
            "sub_type": "ServiceId",
            "account": { "valid": true, "bss": "0123456789abcdef" },
            "iat": now_s,
            "exp": expiration,
            "iss": "https://iam.cloud.ibm.com/identity",
            "grant_type": GRANT,
            "scope": "ibm openid",
            "client_id": "default",
            "serial": serial,
        });
        let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        let signed = format!("{}.{}", part(&header), part(&claims));
        let signature = hmac::sign(&self.key, signed.as_bytes());
        let signature = BASE64URL_NOPAD.encode(signature.as_ref());
        json!({
            "access_token": format!("{signed}.{signature}"),
            "refresh_token": "not_supported",
            "token_type": "Bearer",
            "expires_in": lifetime_s,
            "expiration": expiration,
            "scope": "ibm openid",
        })
    }

    /// The number of a token that is ours and still good at `now_s`.
    pub fn serial(&self, token: &str, now_s: u64) -> Option<u64> {
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = BASE64URL_NOPAD.decode(signature.as_bytes()).ok()?;
        hmac::verify(&self.key, signed.as_bytes(), &signature).ok()?;
        let claims = BASE64URL_NOPAD
            .decode(signed.split_once('.')?.1.as_bytes())
            .ok()?;
        let claims: Value = serde_json::from_slice(&claims).ok()?;
        let good = now_s < claims["exp"].as_u64()?;
        good.then(|| claims["serial"].as_u64()).flatten()
    }
}

/// The key that a form asks a token for, or what is wrong with the form.
pub fn asked_for(form: &str) -> Result<String, &'static str> {
    let fields: Vec<(String, String)> = pairs(form).collect();
    let field = |name: &str| {
        let mut named = fields.iter().filter(|(key, _)| key == name);
        let first = named.next().map(|(_, value)| value.as_str());
        first.filter(|_| named.next().is_none())
    };
    if field("grant_type") != Some(GRANT) {
        return Err("grant_type is not that of API keys");
    }
    if field("response_type").is_some_and(|kind| kind != "cloud_iam") {
        return Err("response_type is not cloud_iam");
    }
    field("apikey")
        .map(str::to_owned)
        .ok_or("there is no apikey")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(answer: &Value) -> &str {
        answer["access_token"].as_str().expect("a text")
    }

    #[test]
    fn a_token_is_known_until_it_expires() {
        let mint = Mint::new();
        let answer = mint.issue(7, 1_000, 60);
        assert_eq!(mint.serial(token(&answer), 1_059), Some(7));
        assert_eq!(mint.serial(token(&answer), 1_060), None);
    }

    #[test]
    fn a_token_of_another_double_is_unknown() {
        let answer = Mint::new().issue(7, 1_000, 60);
        assert_eq!(Mint::new().serial(token(&answer), 1_001), None);
    }

    #[test]
    fn a_token_reads_as_a_jwt_with_its_times() {
        let answer = Mint::new().issue(7, 1_000, 60);
        let parts: Vec<&str> = token(&answer).split('.').collect();
        let claims = BASE64URL_NOPAD
            .decode(parts[1].as_bytes())
            .expect("base64url");
        let claims: Value = serde_json::from_slice(&claims).expect("JSON");
        assert_eq!(parts.len(), 3);
        assert_eq!(
            [&claims["iat"], &claims["exp"]],
            [&json!(1_000), &json!(1_060)]
        );
        assert_eq!(
            [&answer["expiration"], &answer["expires_in"]],
            [&json!(1_060), &json!(60)]
        );
    }

    #[test]
    fn a_form_is_read_in_any_order_and_needs_its_grant() {
        let grant = "grant_type=urn%3Aibm%3Aparams%3Aoauth%3Agrant-type%3Aapikey";
        let form = format!("apikey=a%2Bb+c&response_type=cloud_iam&{grant}");
        assert_eq!(asked_for(&form), Ok("a+b c".to_owned()));
        assert!(asked_for("apikey=a").is_err());
        assert!(asked_for(grant).is_err());
        assert!(asked_for(&format!("apikey=a&apikey=b&{grant}")).is_err());
    }
}
