//! The affinity cookie, held against values, headers and attributes that YARP and ASP.NET give.

use super::*;
use crate::model::proxy::{CookieShape, FailurePolicy};
use serde::Deserialize;
use std::collections::BTreeMap;

const VALUES: &str = include_str!("../../../tests/affinity/values.json");
const HEADERS: &str = include_str!("../../../tests/affinity/headers.json");
const SET_COOKIES: &str = include_str!("../../../tests/affinity/set_cookies.json");

/// 2026-11-29T18:04:05Z.
const NOW: Wall = Wall::from_unix(1_795_975_445);

fn affinity(cookie: CookieShape) -> Affinity {
    Affinity {
        failure: FailurePolicy::Redistribute,
        cookie_name: "My.Affinity".into(),
        cookie,
    }
}

#[test]
fn every_id_has_the_value_that_yarp_gives_it() {
    let values: BTreeMap<String, String> = serde_json::from_str(VALUES).unwrap();
    assert!(values.len() > 50);
    for (id, value) in values {
        assert_eq!(key(&id).as_str(), value, "{id:?}");
    }
}

#[test]
fn the_case_of_letters_does_not_count_and_their_form_does() {
    for group in [
        &["dest-A", "DEST-A", "Dest-a"][..],
        &["προορισμός", "ΠΡΟΟΡΙΣΜΌΣ", "προορισμόσ"],
        &["µservice", "μservice", "Μservice"],
        &["ǆ", "ǅ", "Ǆ"],
        &["straße", "STRAßE"],
        &["𐐨-deseret", "𐐀-deseret"],
    ] {
        for id in group {
            assert_eq!(key(id), key(group[0]), "{id}");
        }
    }
    for (one, other) in [
        ("straße", "STRASSE"),
        ("straße", "STRAẞE"),
        ("dest-ı", "dest-i"),
        ("dest-İ", "dest-i"),
        ("ŉode", "ʼNode"),
        ("ﬁ-node", "FI-node"),
        ("\u{212a}elvin", "kelvin"),
        ("é-node", "e\u{301}-node"),
    ] {
        assert_ne!(key(one), key(other), "{one} {other}");
    }
}

#[derive(Deserialize)]
struct Header {
    lines: Vec<String>,
    value: Option<String>,
    /// `none`, `unknown`, or the id that is found among dest-A, dest-B and dest-C.
    found: String,
}

#[test]
fn every_header_is_read_as_asp_net_reads_it() {
    let headers: Vec<Header> = serde_json::from_str(HEADERS).unwrap();
    assert!(headers.len() > 25);
    for Header {
        lines,
        value,
        found,
    } in headers
    {
        let read = cookie::read(lines.iter().map(String::as_str), "My.Affinity");
        assert_eq!(read.as_deref(), value.as_deref(), "{lines:?}");
        let mut ids = ["dest-A", "dest-B", "dest-C"].into_iter();
        let resolved = match read {
            None => "none",
            Some(value) => ids
                .find(|id| key(id).as_str() == value)
                .unwrap_or("unknown"),
        };
        assert_eq!(resolved, found, "{lines:?}");
    }
}

#[test]
fn odd_headers_end_where_asp_net_ends_them() {
    for (lines, want) in [
        (&["Aff=a; Aff=b"][..], Some("b")),
        (&["Aff=a;Aff="], Some("a")),
        (&["Aff=a, Aff=b"], Some("b")),
        (&[" ,; Aff=a ;, "], Some("a")),
        (&["Aff=\"a\""], Some("\"a\"")),
        (&["Aff=\"a"], None),
        (&["Aff=\"a; Aff=b"], Some("b")),
        (&["Aff = a"], None),
        (&["Aff=a b"], None),
        (&["Aff=a b; Aff=c"], Some("c")),
        (&["Aff=a=b"], Some("a=b")),
        (&["x=Aff=a\" Aff=b"], Some("b")),
        (&["Aff=%41%zz%4"], Some("A%zz%4")),
        (&["Aff=%ff"], Some("%ff")),
        (&["Aff=a+b"], Some("a+b")),
        (&["=a; Aff=b"], Some("b")),
        (&["aff=a", "AFF=b", "Aff="], Some("b")),
        (&["", "\t"], None),
    ] {
        let read = cookie::read(lines.iter().copied(), "Aff");
        assert_eq!(read.as_deref(), want, "{lines:?}");
    }
}

#[derive(Deserialize)]
struct SetCookie {
    cookie: Attributes,
    scheme: String,
    line: String,
}

/// What stands in the configuration; durations in seconds.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Attributes {
    domain: Option<String>,
    path: Option<String>,
    expiration: Option<u64>,
    max_age: Option<u64>,
    http_only: Option<bool>,
    same_site: Option<String>,
    secure_policy: Option<String>,
}

impl Attributes {
    fn shape(self) -> CookieShape {
        let usual = CookieShape::default();
        CookieShape {
            path: self.path.map_or(usual.path, Into::into),
            domain: self.domain.map(Into::into),
            expiration: self.expiration.map(Duration::from_secs),
            max_age: self.max_age.map(Duration::from_secs),
            http_only: self.http_only.unwrap_or(usual.http_only),
            same_site: match self.same_site.as_deref() {
                Some("None") => Some(SameSite::None),
                Some("Lax") => Some(SameSite::Lax),
                Some("Strict") => Some(SameSite::Strict),
                _ => None,
            },
            secure: match self.secure_policy.as_deref() {
                Some("Always") => Secure::Always,
                Some("SameAsRequest") => Secure::SameAsRequest,
                _ => Secure::Never,
            },
        }
    }
}

#[test]
fn every_cookie_is_written_as_asp_net_writes_it() {
    let cases: Vec<SetCookie> = serde_json::from_str(SET_COOKIES).unwrap();
    assert!(cases.len() > 8);
    for case in cases {
        let is_tls = case.scheme == "https";
        let found = set_cookie(&affinity(case.cookie.shape()), key("dest-B"), is_tls, NOW);
        assert_eq!(found, case.line);
    }
}

#[test]
fn dates_beyond_what_a_header_can_say_stay_at_its_end() {
    let cookie = CookieShape {
        expiration: Some(Duration::from_secs(u64::MAX)),
        ..CookieShape::default()
    };
    let text = set_cookie(&affinity(cookie), key("a"), false, NOW);
    assert!(
        text.contains("; expires=Fri, 31 Dec 9999 23:59:59 GMT; "),
        "{text}"
    );
}

#[test]
fn a_clock_that_was_never_set_makes_no_cookie_of_the_past() {
    let cookie = CookieShape {
        expiration: Some(Duration::from_secs(60)),
        ..CookieShape::default()
    };
    let text = set_cookie(&affinity(cookie), key("a"), false, Wall::from_unix(9));
    assert_eq!(text, "My.Affinity=489580109ac1745b; path=/; httponly");
}
