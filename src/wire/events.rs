//! Usage and analytics bodies, as far as the relay looks into them.
//!
//! Owns the count of entries in a body. It keeps nothing of the content, builds no tree over it,
//! and does not judge the entries: they are for the service, and SDKs differ in them (Rust sends
//! both `feature_id` and `property_id`, Ruby mixes both kinds). All that matters here is that the
//! body is whole and can be passed on.

use super::DecodeError;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use std::fmt;

/// How many entries the `usages` array of a body holds.
///
/// All bodies share that key: usage, experiments and guarded rollouts. An unknown key beside it is
/// fine, a second `usages` is not. Bounded by the length of `body`; nesting costs one byte a level.
pub fn entries(body: &[u8]) -> Result<u32, DecodeError> {
    let text =
        std::str::from_utf8(body).map_err(|_| DecodeError::Malformed("body is not UTF-8"))?;
    // A struct reads from a list of its values as well, and no SDK sends such a one.
    if !text.trim_ascii_start().starts_with('{') {
        return Err(DecodeError::Malformed("body is no JSON object"));
    }
    let report: Report = serde_json::from_str(text)
        .map_err(|_| DecodeError::Malformed("body is not JSON with `usages`"))?;
    Ok(report.usages.0)
}

#[derive(Deserialize)]
struct Report {
    usages: Count,
}

struct Count(u32);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Count, D::Error> {
        deserializer.deserialize_seq(CountVisitor)
    }
}

struct CountVisitor;

impl<'de> Visitor<'de> for CountVisitor {
    type Value = Count;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Count, A::Error> {
        let mut count: u32 = 0;
        while array.next_element::<IgnoredAny>()?.is_some() {
            count = count.saturating_add(1);
        }
        Ok(Count(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_report_is_counted() {
        for (body, count) in [
            (
                r#"{"collection_id":"shop","environment_id":"prod","usages":[]}"#,
                0,
            ),
            (
                r#"{"usages":[{"feature_id":"a","count":3},{"property_id":"b"}],"x":{}}"#,
                2,
            ),
            (
                r#"{"type":"metric_event","usages":[{"event_key":"clicked"}]}"#,
                1,
            ),
            (
                r#" {"usages" : [ {"metadata":{"a":[1,{"b":2}]}} , {}, {} ] } "#,
                3,
            ),
            (r#"{"usages":[{"entity_id":"\ud83d\ude00 é"}]}"#, 1),
        ] {
            assert_eq!(entries(body.as_bytes()), Ok(count), "{body}");
        }
    }

    #[test]
    fn what_cannot_be_passed_on_is_malformed() {
        for body in [
            &b""[..],
            b"{}",
            b"[]",
            b"[[]]",
            b"null",
            b"{\"usages\":null}",
            b"{\"usages\":{}}",
            b"{\"usages\":5}",
            b"{\"usages\":[{}]",
            b"{\"usages\":[{},]}",
            b"{\"usages\":[]} x",
            b"{\"usages\":[],\"usages\":[]}",
            b"{\"usages\":[\"\xff\"]}",
            b"\x1f\x8b\x08",
        ] {
            assert!(
                entries(body).is_err(),
                "{:?}",
                String::from_utf8_lossy(body)
            );
        }
    }

    #[test]
    fn nesting_ends_no_process() {
        let deep = 200_000;
        let body = format!("{{\"usages\":[{}{}]}}", "[".repeat(deep), "]".repeat(deep));
        assert_eq!(entries(body.as_bytes()), Ok(1));
        assert!(entries("[".repeat(deep).as_bytes()).is_err());
    }
}
