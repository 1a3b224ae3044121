//! YARP's HashCookie, bit for bit: the value, and the `Set-Cookie` that brings it.
//!
//! `cookie` reads it back by the rules of ASP.NET; `xxh64` is the hash. A cookie that either proxy
//! issued resolves at the other, so nothing in here may ever change.
//!
//! The value is the XXH64 of the destination's id in upper case, as UTF-16 in little endian, with
//! seed 0. No cluster, no address, no key goes in: several proxies agree without shared state, and
//! whoever knows an id knows its cookie.

pub mod cookie;
mod xxh64;

use crate::model::casing;
use crate::model::proxy::{Affinity, AffinityKey, SameSite, Secure};
use crate::time::{Duration, Wall};

/// The last second that the date of a header can say: the end of the year 9999.
const DATE_MAX: u64 = 253_402_300_799;

/// The cookie value of a destination. Bounded by the length of its id.
pub fn key(destination_id: &str) -> AffinityKey {
    let upper = destination_id.chars().map(casing::upper);
    let mut bytes = Vec::with_capacity(2 * destination_id.len());
    for letter in upper {
        let mut units = [0; 2];
        for unit in letter.encode_utf16(&mut units) {
            bytes.extend(unit.to_le_bytes());
        }
    }
    AffinityKey::from_hash(xxh64::xxh64(&bytes))
}

/// The value of `Set-Cookie`: attributes in ASP.NET's order, names in lower case.
///
/// Under a clock that was never set the date is left out, which YARP does not do: it would lie in
/// 1970, and every browser would drop the cookie at once. Bounded by the configured attributes.
pub fn set_cookie(affinity: &Affinity, key: AffinityKey, is_tls: bool, now: Wall) -> String {
    let shape = &affinity.cookie;
    let mut text = format!("{}={}", affinity.cookie_name, key.as_str());
    if let Some(expiration) = shape.expiration.filter(|_| now.is_plausible()) {
        text.extend(["; expires=", &date(now, expiration)]);
    }
    if let Some(max_age) = shape.max_age {
        text.push_str(&format!("; max-age={}", max_age.as_secs()));
    }
    if let Some(domain) = &shape.domain {
        text.extend(["; domain=", domain]);
    }
    text.extend(["; path=", &shape.path]);
    let is_secure = match shape.secure {
        Secure::Never => false,
        Secure::Always => true,
        Secure::SameAsRequest => is_tls,
    };
    if is_secure {
        text.push_str("; secure");
    }
    text.push_str(match shape.same_site {
        None => "",
        Some(SameSite::None) => "; samesite=none",
        Some(SameSite::Lax) => "; samesite=lax",
        Some(SameSite::Strict) => "; samesite=strict",
    });
    if shape.http_only {
        text.push_str("; httponly");
    }
    text
}

fn date(now: Wall, expiration: Duration) -> String {
    let seconds = now.as_unix().saturating_add(expiration.as_secs());
    httpdate::fmt_http_date(Wall::from_unix(seconds.min(DATE_MAX)).to_system())
}

#[cfg(test)]
mod tests;
