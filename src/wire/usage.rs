//! Bodies of usage and analytics: read when a client hands one over, written for the upstream.
//!
//! Owns what the members mean. Usage entries are taken apart into the members by which they are
//! told apart and the two that are summed (`count`, `evaluation_time`); analytics entries stay the
//! text that came. An unknown member of a usage entry is one more by which it is told apart: then
//! less is merged, and nothing is lost.
//!
//! Never builds a tree or a list over a body, and never logs one. An entry that cannot be read is
//! left out and told; a body that is not whole is refused.
//!
//! Source: what IBM's SDKs send. Python, Node, Go and JS post features and properties apart, Ruby
//! both in one, Rust sends both keys with one of them null and leaves `segment_id` out.

use super::DecodeError;
use super::json::{compact, slice};
use crate::limits::Limits;
use crate::model::report::{Entry, Latest, Moment, ReportKind, Sum};
use crate::model::{Id, SlotKey};
use std::borrow::Cow;
use std::fmt::Write as _;

/// Longest `evaluation_time`, quotes included: RFC 3339 with nanoseconds and an offset takes 37.
const TIME_BYTES_MAX: usize = 48;

/// A body that is whole: every entry has its bounds, and none was looked at yet.
#[derive(Debug)]
pub struct Report<'a> {
    kind: ReportKind,
    envelope: String,
    usages: &'a str,
    entry_bytes_max: usize,
}

impl<'a> Report<'a> {
    /// Reads what stands around the entries.
    ///
    /// Usage needs a collection and an environment; of analytics, everything beside the entries is
    /// kept as it came. Bounded by the length of `body`; nesting costs one byte a level.
    ///
    /// # Errors
    /// No JSON object in UTF-8 with one `usages` array, usage without its ids, or an envelope over
    /// `report_envelope_bytes_max`.
    pub fn read(
        kind: ReportKind,
        body: &'a [u8],
        limits: &Limits,
    ) -> Result<Report<'a>, DecodeError> {
        let text =
            std::str::from_utf8(body).map_err(|_| DecodeError::Malformed("body is not UTF-8"))?;
        let (mut usages, mut envelope) = (Single::Missing, String::new());
        let (mut collection, mut environment) = (Single::Missing, Single::Missing);
        slice::each_member(text, |key, piece| match (kind, key.as_ref()) {
            (_, "usages") => usages.put(piece),
            (ReportKind::Usage, "collection_id") => collection.put(piece),
            (ReportKind::Usage, "environment_id") => environment.put(piece),
            (ReportKind::Usage, _) => {}
            // Beyond the bound it is refused below, and need not grow.
            (ReportKind::Analytics, _) if envelope.len() > limits.report_envelope_bytes_max => {}
            (ReportKind::Analytics, key) => push_member(&mut envelope, key, &compact(piece)),
        })
        .ok_or(DecodeError::Malformed("body is no JSON object"))?;
        let usages = usages.piece().filter(|piece| piece.starts_with('['));
        let usages = usages.ok_or(DecodeError::Malformed("body has no one `usages` array"))?;
        if kind == ReportKind::Usage {
            for (key, id) in [
                ("collection_id", collection),
                ("environment_id", environment),
            ] {
                let id = id.piece().and_then(slice::string);
                let id = id.and_then(|id| Id::new(&id));
                let id = id.ok_or(DecodeError::Malformed("usage names no slot"))?;
                push_member(&mut envelope, key, &format!("\"{id}\""));
            }
        }
        if envelope.len() > limits.report_envelope_bytes_max {
            return Err(DecodeError::BodyTooLarge);
        }
        Ok(Report {
            kind,
            envelope,
            usages,
            entry_bytes_max: limits.report_entry_bytes_max,
        })
    }

    /// The members around the entries, as compact text without braces. Entries with the same
    /// envelope may go in one body.
    pub fn envelope(&self) -> &str {
        &self.envelope
    }

    /// Gives the entries behind the first `skip` to `take`, in their order, until it answers
    /// `false`; `None` for one that cannot be read.
    ///
    /// Bounded by the length of the body.
    pub fn each_entry(&self, skip: usize, mut take: impl FnMut(Option<Entry>) -> bool) {
        let read = |piece: &str| {
            let fits = piece.len() <= self.entry_bytes_max && piece.starts_with('{');
            match self.kind {
                _ if !fits => None,
                ReportKind::Usage => usage(piece),
                ReportKind::Analytics => Some(Entry {
                    text: compact(piece).into(),
                    sum: None,
                }),
            }
        };
        // It was walked once already, by `read`.
        let (mut at, mut goes_on) = (0, true);
        let walked = slice::each_element(self.usages, |piece| {
            goes_on = goes_on && (at < skip || take(read(piece)));
            at += 1;
        });
        debug_assert!(walked.is_some());
    }
}

/// The body that carries `entries` under `envelope`; [`Report::read`] reads it back as it was.
pub fn body(envelope: &str, entries: &[Entry]) -> String {
    let length: usize = entries.iter().map(entry_bytes).sum();
    let mut text = String::with_capacity(envelope.len() + length + 16);
    text.push('{');
    text.push_str(envelope);
    if !envelope.is_empty() {
        text.push(',');
    }
    text.push_str("\"usages\":[");
    for (at, entry) in entries.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        match &entry.sum {
            None => text.push_str(&entry.text),
            Some(Sum { count, latest }) => {
                // A string takes everything.
                let _ = write!(
                    text,
                    "{{{},\"evaluation_time\":{},\"count\":{count}}}",
                    entry.text, latest.text
                );
            }
        }
    }
    text.push_str("]}");
    text
}

/// The slot that a report is about, where it names one once.
///
/// Bounded by the length of `body`.
pub fn slot(body: &[u8]) -> Option<SlotKey> {
    let text = std::str::from_utf8(body).ok()?;
    let (mut collection, mut environment) = (Single::Missing, Single::Missing);
    slice::each_member(text, |key, piece| match key.as_ref() {
        "collection_id" => collection.put(piece),
        "environment_id" => environment.put(piece),
        _ => {}
    })?;
    let id = |single: Single<'_>| Id::new(&single.piece().and_then(slice::string)?);
    Some(SlotKey {
        collection: id(collection)?,
        environment: id(environment)?,
    })
}

/// What an entry takes in a body, at most.
fn entry_bytes(entry: &Entry) -> usize {
    entry.text.len() + entry.sum.as_ref().map_or(1, |_| 56 + TIME_BYTES_MAX)
}

/// A member that must stand once.
#[derive(Clone, Copy, Debug)]
enum Single<'a> {
    Missing,
    Once(&'a str),
    Twice,
}

impl<'a> Single<'a> {
    fn put(&mut self, piece: &'a str) {
        *self = match self {
            Single::Missing => Single::Once(piece),
            Single::Once(_) | Single::Twice => Single::Twice,
        };
    }

    fn piece(self) -> Option<&'a str> {
        match self {
            Single::Once(piece) => Some(piece),
            Single::Missing | Single::Twice => None,
        }
    }

    /// The text of a string, or `null` where there is none; `None` for anything else.
    fn string_or_null(self) -> Option<Cow<'a, str>> {
        match self {
            Single::Missing | Single::Once("null") => Some("null".into()),
            Single::Once(piece) => string(piece),
            Single::Twice => None,
        }
    }
}

fn push_member(text: &mut String, key: &str, value: &str) {
    if !text.is_empty() {
        text.push(',');
    }
    // A string takes everything; a key is one in JSON too.
    let _ = write!(text, "{}:{value}", serde_json::Value::from(key));
}

/// A JSON string, written the one way in which it is told apart from others.
fn string(piece: &str) -> Option<Cow<'_, str>> {
    let content = slice::string(piece)?;
    match content {
        // Without an escape: as it stands.
        Cow::Borrowed(_) => Some(piece.into()),
        Cow::Owned(content) => Some(serde_json::Value::from(content).to_string().into()),
    }
}

fn usage(piece: &str) -> Option<Entry> {
    let names = [
        "feature_id",
        "property_id",
        "entity_id",
        "segment_id",
        "evaluation_time",
        "count",
    ];
    let mut known = [Single::Missing; 6];
    let mut others = String::new();
    slice::each_member(piece, |key, piece| {
        let place = names.iter().position(|name| *name == key);
        match place.and_then(|place| known.get_mut(place)) {
            Some(member) => member.put(piece),
            None => push_member(&mut others, &key, &compact(piece)),
        }
    })?;
    let [feature, property, entity, segment, time, count] = known;
    let (feature, property) = (feature.string_or_null()?, property.string_or_null()?);
    if feature == "null" && property == "null" {
        return None;
    }
    let mut text = String::with_capacity(piece.len());
    for (key, id) in [("feature_id", feature), ("property_id", property)] {
        if id != "null" {
            push_member(&mut text, key, &id);
        }
    }
    push_member(&mut text, "entity_id", &entity.string_or_null()?);
    push_member(&mut text, "segment_id", &segment.string_or_null()?);
    if !others.is_empty() {
        text.push(',');
        text.push_str(&others);
    }
    let time = string(time.piece()?)?;
    if time.len() > TIME_BYTES_MAX {
        return None;
    }
    let moment = moment(time.trim_matches('"'));
    let sum = Sum {
        count: count.piece()?.parse().ok()?,
        latest: Latest {
            moment,
            text: time.into(),
        },
    };
    Some(Entry {
        text: text.into(),
        sum: Some(sum),
    })
}

/// RFC 3339: `2026-11-29T21:54:12.5Z`, with any number of digits behind the dot, or with an offset
/// in the place of the `Z`. None for anything else, and for days that no calendar has.
fn moment(text: &str) -> Option<Moment> {
    let (date, rest) = text.split_at_checked(10)?;
    let (clock, rest) = rest.split_at_checked(9)?;
    let [year, month, day] = numbers(date, [4, 2, 2], '-')?;
    let [hour, minute, second] = numbers(clock.strip_prefix(['T', 't', ' '])?, [2, 2, 2], ':')?;
    let zone_at = rest.find(['Z', 'z', '+', '-'])?;
    let (fraction, zone) = rest.split_at(zone_at);
    let nanos = match fraction.strip_prefix('.') {
        None if fraction.is_empty() => 0,
        Some(digits) if is_digits(digits) => {
            let nine: String = digits.chars().chain("000000000".chars()).take(9).collect();
            nine.parse().ok()?
        }
        _ => return None,
    };
    let offset = match zone {
        "Z" | "z" => 0,
        _ => {
            let [hours, minutes] = numbers(zone.get(1..)?, [2, 2], ':')?;
            let seconds = hours * 3_600 + minutes * 60;
            if zone.starts_with('-') {
                -seconds
            } else {
                seconds
            }
        }
    };
    let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
    let is_clock = hour < 24 && minute < 60 && second <= 60;
    (is_date && is_clock).then(|| Moment {
        seconds: days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset,
        nanos,
    })
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Numbers of so many digits each, with `between` between them.
fn numbers<const N: usize>(text: &str, widths: [usize; N], between: char) -> Option<[i64; N]> {
    let mut parts = text.split(between);
    let mut found = [0; N];
    for (number, width) in found.iter_mut().zip(widths) {
        let part = parts.next().filter(|part| part.len() == width)?;
        *number = part.parse().ok().filter(|_| is_digits(part))?;
    }
    parts.next().is_none().then_some(found)
}

/// Days from 1970-01-01 to a day of the Gregorian calendar. Years are counted from March, so that
/// the day that comes and goes is the last of its year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, in_era) = (year.div_euclid(400), year.rem_euclid(400));
    let in_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let to_march_0000 = 719_468;
    era * 146_097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year - to_march_0000
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits::PRODUCTION;

    /// The envelope, and each entry as it is written alone.
    fn read(kind: ReportKind, text: &str) -> Result<(String, Vec<Option<String>>), DecodeError> {
        let report = Report::read(kind, text.as_bytes(), &LIMITS)?;
        let mut entries = Vec::new();
        report.each_entry(0, |entry| {
            entries.push(entry.map(|entry| body("", &[entry])));
            true
        });
        Ok((report.envelope().to_owned(), entries))
    }

    fn usage_of(entry: &str) -> Option<String> {
        let text = format!(r#"{{"collection_id":"c","environment_id":"e","usages":[{entry}]}}"#);
        let entries = read(ReportKind::Usage, &text).unwrap().1;
        let written = entries.into_iter().next().unwrap()?;
        let written = written.strip_prefix("{\"usages\":[")?.strip_suffix("]}")?;
        Some(written.to_owned())
    }

    #[test]
    fn a_report_of_either_kind_names_one_slot_or_none() {
        let named = |text: &str| slot(text.as_bytes()).map(|slot| slot.to_string());
        let whole = r#"{"collection_id":"c","environment_id":"e","usages":[]}"#;
        assert_eq!(named(whole).as_deref(), Some("c/e"));
        for odd in [
            r#"{"usages":[]}"#,
            r#"{"collection_id":"c","usages":[]}"#,
            r#"{"collection_id":"c","collection_id":"d","environment_id":"e"}"#,
            r#"{"collection_id":1,"environment_id":"e"}"#,
            r#"{"collection_id":"a/b","environment_id":"e"}"#,
            "[]",
        ] {
            assert_eq!(named(odd), None, "{odd}");
        }
    }

    #[test]
    fn every_known_shape_of_usage_becomes_the_one() {
        for (entry, written) in [
            (
                r#"{"feature_id":"f","entity_id":"u","segment_id":"s",
                    "evaluation_time":"2026-11-29T21:54:12Z","count":3}"#,
                r#""feature_id":"f","entity_id":"u","segment_id":"s","#,
            ),
            (
                r#"{"count":3,"evaluation_time":"2026-11-29T21:54:12Z","property_id":"p",
                    "feature_id":null}"#,
                r#""property_id":"p","entity_id":null,"segment_id":null,"#,
            ),
            (
                r#"{"feature_id":"f","entity_id":"$$null$$","segment_id":null,
                    "evaluation_time":"2026-11-29T21:54:12Z","count":3, "n\u0065w": [ 1, 2 ]}"#,
                r#""feature_id":"f","entity_id":"$$null$$","segment_id":null,"new":[1,2],"#,
            ),
            (
                r#"{"feature_id":"\u0066\n","entity_id":"é","segment_id":null,
                    "evaluation_time":"2026-11-29T21:54:12Z","count":3}"#,
                r#""feature_id":"f\n","entity_id":"é","segment_id":null,"#,
            ),
        ] {
            let rest = r#""evaluation_time":"2026-11-29T21:54:12Z","count":3"#;
            assert_eq!(usage_of(entry), Some(format!("{{{written}{rest}}}")));
        }
    }

    #[test]
    fn an_entry_that_cannot_be_read_is_left_out_alone() {
        let good = r#"{"feature_id":"f","evaluation_time":"now","count":1}"#;
        assert!(usage_of(good).is_some());
        let long = good.replace("now", &"9".repeat(60));
        let large = good.replace("\"f\"", &format!("\"{}\"", "f".repeat(17_000)));
        for bad in [
            "1",
            "[]",
            "{}",
            r#"{"feature_id":null,"property_id":null,"evaluation_time":"now","count":1}"#,
            &good.replace("\"f\"", "5"),
            &good.replace("count\":1", "count\":1.5"),
            &good.replace("count\":1", "count\":-1"),
            &good.replace("count\":1", "count\":1,\"count\":1"),
            &good.replace("\"now\"", "7"),
            &good.replace("\"f\"", r#""\ud800""#),
            &long,
            &large,
        ] {
            assert_eq!(usage_of(bad), None, "{bad}");
            let text = format!(
                r#"{{"usages":[{bad},{good}],"environment_id":"e","collection_id":"c","x":1}}"#
            );
            let (envelope, entries) = read(ReportKind::Usage, &text).unwrap();
            assert_eq!(envelope, r#""collection_id":"c","environment_id":"e""#);
            let read: Vec<bool> = entries.iter().map(Option::is_some).collect();
            assert_eq!(read, [false, true], "{bad}");
        }
    }

    #[test]
    fn analytics_stay_what_they_were() {
        let text = r#"{ "type": "metric_event", "environment_id": "prod",
            "usages": [ {"event_key": "a b", "n": 1.50}, 7 ], "x": {"y": [1]} }"#;
        let (envelope, entries) = read(ReportKind::Analytics, text).unwrap();
        assert_eq!(
            envelope,
            r#""type":"metric_event","environment_id":"prod","x":{"y":[1]}"#
        );
        let entry = r#"{"usages":[{"event_key":"a b","n":1.50}]}"#.to_owned();
        assert_eq!(entries, [Some(entry), None]);
        let (envelope, entries) = read(ReportKind::Analytics, r#"{"usages":[]}"#).unwrap();
        assert_eq!((envelope.as_str(), entries.len()), ("", 0));
    }

    #[test]
    fn what_is_written_reads_back_the_same() {
        let entries = r#"{"feature_id":"f","entity_id":null,"segment_id":null,"evaluation_time":"x","count":18446744073709551615},{"property_id":"é\"","entity_id":"u","segment_id":"s","evaluation_time":"y","count":0}"#;
        let text = format!(r#"{{"collection_id":"c","environment_id":"e","usages":[{entries}]}}"#);
        let report = Report::read(ReportKind::Usage, text.as_bytes(), &LIMITS).unwrap();
        let mut found = Vec::new();
        report.each_entry(0, |entry| {
            found.extend(entry);
            true
        });
        assert_eq!(found.len(), 2);
        assert_eq!(body(report.envelope(), &found), text);
    }

    #[test]
    fn a_walk_is_taken_up_where_it_was_left() {
        let text = br#"{"usages":[{"a":0},{"a":1},{"a":2},3,{"a":4}]}"#;
        let report = Report::read(ReportKind::Analytics, text, &LIMITS).unwrap();
        let mut seen = Vec::new();
        for (skip, steps) in [(0, 2), (2, 1), (3, 9), (5, 1)] {
            let mut left = steps;
            report.each_entry(skip, |entry| {
                seen.push(entry.is_some());
                left -= 1;
                left > 0
            });
        }
        assert_eq!(seen, [true, true, true, false, true]);
    }

    #[test]
    fn what_cannot_be_passed_on_is_malformed() {
        for body in [
            "",
            "{}",
            "[]",
            "null",
            r#"{"usages":null}"#,
            r#"{"usages":{}}"#,
            r#"{"usages":[{}]"#,
            r#"{"usages":[{},]}"#,
            r#"{"usages":[]} x"#,
            r#"{"usages":[],"usages":[]}"#,
        ] {
            for kind in ReportKind::ALL {
                assert!(read(kind, body).is_err(), "{body:?}");
            }
        }
        for body in [
            r#"{"usages":[]}"#,
            r#"{"usages":[],"collection_id":"c"}"#,
            r#"{"usages":[],"collection_id":"c","environment_id":5}"#,
            r#"{"usages":[],"collection_id":"c/d","environment_id":"e"}"#,
            r#"{"usages":[],"collection_id":"c","environment_id":"e","collection_id":"c"}"#,
        ] {
            assert!(read(ReportKind::Usage, body).is_err(), "{body:?}");
        }
        let long = format!(r#"{{"x":"{}","usages":[]}}"#, "x".repeat(2_000));
        assert_eq!(
            read(ReportKind::Analytics, &long),
            Err(DecodeError::BodyTooLarge)
        );
        assert!(Report::read(ReportKind::Usage, b"\x1f\x8b\xff", &LIMITS).is_err());
    }

    #[test]
    fn nesting_ends_no_process() {
        let deep = 200_000;
        let body = format!("{{\"usages\":[{}{}]}}", "[".repeat(deep), "]".repeat(deep));
        assert_eq!(read(ReportKind::Analytics, &body).unwrap().1, [None]);
        assert!(read(ReportKind::Analytics, &"[".repeat(deep)).is_err());
    }

    #[test]
    fn moments_compare_as_instants() {
        let ordered = [
            "1969-12-31T23:59:59.999999999Z",
            "1970-01-01T00:00:00Z",
            "2024-02-29T23:59:59Z",
            "2024-03-01T00:00:00Z",
            "2026-11-29T21:54:12Z",
            "2026-11-29T21:54:12.000000001Z",
            "2026-11-29T22:54:12.1+01:00",
            "2026-11-29t21:54:12.25z",
            "2026-11-29 21:24:12.5-00:30",
            "9999-12-31T23:59:60Z",
        ];
        let moments = ordered.map(|text| moment(text).expect(text));
        assert!(moments.is_sorted_by(|a, b| a < b), "{moments:?}");
        assert_eq!(
            moments[1],
            Moment {
                seconds: 0,
                nanos: 0
            }
        );
        assert_eq!(moments[4].seconds, 1_795_989_252);
        for other in [
            "",
            "now",
            "2026-11-29",
            "2026-11-29T21:54:12",
            "2026-11-29T21:54Z",
            "2026-13-29T21:54:12Z",
            "2026-11-29T24:54:12Z",
            "2026-11-29T21:54:12.Z",
            "2026-11-29T21:54:12+1:00",
            "2026-11-29T21:54:12Zx",
            "+026-11-29T21:54:12Z",
            "é026-11-29T21:54:12Z",
            "1795989252",
        ] {
            assert_eq!(moment(other), None, "{other}");
        }
    }
}
