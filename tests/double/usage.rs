//! What was reported: usage summed by what it is about, analytics counted by what they say.
//!
//! A report is taken whole or not at all, as the service takes it, so that a client that repeats a
//! refused batch is not counted twice for it. Whether an entry came once or twice is what totals
//! are for.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;

/// The most entries that the service takes in one request.
const ENTRIES_MAX: usize = 30;

/// What one total is about. Absent is what the report had as absent or null.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Subject {
    pub environment: String,
    pub collection: String,
    pub feature: Option<String>,
    pub property: Option<String>,
    pub entity: Option<String>,
    pub segment: Option<String>,
}

/// How much of one kind of report came.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Received {
    /// Reports that were taken.
    pub posts: u64,
    /// Reports that were answered 400.
    pub refused: u64,
    /// Entries in the former.
    pub entries: u64,
    /// The sum of their `count`.
    pub evaluations: u64,
    /// Entries of the largest report, refused ones included.
    pub entries_largest: usize,
}

/// Everything that was reported.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Totals {
    /// Evaluations by subject, as a list of objects.
    #[serde(serialize_with = "as_list")]
    pub usage: BTreeMap<Subject, u64>,
    /// How often each analytics entry came, by its text with keys in order, its report's own
    /// fields in front.
    pub analytics: BTreeMap<String, u64>,
}

fn as_list<S: Serializer>(usage: &BTreeMap<Subject, u64>, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Row<'a> {
        #[serde(flatten)]
        subject: &'a Subject,
        count: u64,
    }
    to.collect_seq(usage.iter().map(|(subject, &count)| Row { subject, count }))
}

#[derive(Deserialize)]
struct UsageReport {
    collection_id: String,
    environment_id: String,
    usages: Vec<UsageEntry>,
}

#[derive(Deserialize)]
struct UsageEntry {
    feature_id: Option<String>,
    property_id: Option<String>,
    entity_id: Option<String>,
    segment_id: Option<String>,
    evaluation_time: String,
    count: u64,
}

/// Takes a usage report: the totals grow, and `received` is kept in step.
pub fn take_usage(totals: &mut Totals, received: &mut Received, body: &[u8]) -> Result<(), String> {
    let report: Result<UsageReport, _> = serde_json::from_slice(body);
    let entries = report.as_ref().map_or(0, |report| report.usages.len());
    received.entries_largest = received.entries_largest.max(entries);
    let judged = report
        .map_err(|error| error.to_string())
        .and_then(judge_usage);
    let rows = match judged {
        Ok(rows) => rows,
        Err(problem) => {
            received.refused += 1;
            return Err(problem);
        }
    };
    received.posts += 1;
    received.entries += rows.len() as u64;
    for (subject, count) in rows {
        received.evaluations += count;
        *totals.usage.entry(subject).or_default() += count;
    }
    Ok(())
}

fn judge_usage(report: UsageReport) -> Result<Vec<(Subject, u64)>, String> {
    judge_length(report.usages.len())?;
    let judge = |entry: UsageEntry| {
        if entry.feature_id.is_some() == entry.property_id.is_some() {
            return Err("an entry is about a feature or about a property".to_owned());
        }
        if entry.count == 0 || entry.evaluation_time.is_empty() {
            return Err("an entry has a count and an evaluation_time".to_owned());
        }
        let subject = Subject {
            environment: report.environment_id.clone(),
            collection: report.collection_id.clone(),
            feature: entry.feature_id,
            property: entry.property_id,
            entity: entry.entity_id,
            segment: entry.segment_id,
        };
        Ok((subject, entry.count))
    };
    report.usages.into_iter().map(judge).collect()
}

fn judge_length(entries: usize) -> Result<(), String> {
    match entries {
        0 => Err("usages is empty".to_owned()),
        1..=ENTRIES_MAX => Ok(()),
        _ => Err(format!("{entries} entries, at most {ENTRIES_MAX}")),
    }
}

/// Takes an analytics report, as [`take_usage`] does.
pub fn take_analytics(
    totals: &mut Totals,
    received: &mut Received,
    body: &[u8],
) -> Result<(), String> {
    let report: Result<Value, _> = serde_json::from_slice(body);
    let entries = report
        .as_ref()
        .ok()
        .and_then(|report| report["usages"].as_array());
    let count = entries.map_or(0, Vec::len);
    received.entries_largest = received.entries_largest.max(count);
    let judged = report
        .map_err(|error| error.to_string())
        .and_then(|report| {
            report["environment_id"]
                .as_str()
                .ok_or("there is no environment_id")?;
            judge_length(count)?;
            Ok(report)
        });
    let mut report = match judged {
        Ok(report) => report,
        Err(problem) => {
            received.refused += 1;
            return Err(problem);
        }
    };
    let entries = report["usages"].take();
    if let Some(fields) = report.as_object_mut() {
        fields.remove("usages");
    }
    received.posts += 1;
    for entry in entries.as_array().into_iter().flatten() {
        received.entries += 1;
        received.evaluations += entry["count"].as_u64().unwrap_or(1);
        *totals
            .analytics
            .entry(format!("{report} {entry}"))
            .or_default() += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report(entries: &Value) -> Vec<u8> {
        let report =
            json!({ "collection_id": "shop", "environment_id": "prod", "usages": entries });
        report.to_string().into_bytes()
    }

    fn entry(entity: &str, count: u64) -> Value {
        json!({
            "feature_id": "checkout", "property_id": null, "entity_id": entity,
            "evaluation_time": "2026-11-29T21:54:12Z", "count": count,
        })
    }

    #[test]
    fn entries_about_the_same_are_summed_across_reports() {
        let (mut totals, mut received) = (Totals::default(), Received::default());
        let entries = [
            json!([entry("a", 3), entry("b", 1)]),
            json!([entry("a", 4)]),
        ];
        for entries in &entries {
            assert_eq!(
                take_usage(&mut totals, &mut received, &report(entries)),
                Ok(())
            );
        }
        let counts: Vec<(&str, u64)> = totals
            .usage
            .iter()
            .map(|(subject, &count)| (subject.entity.as_deref().unwrap_or("none"), count))
            .collect();
        assert_eq!(counts, [("a", 7), ("b", 1)]);
        let Received {
            posts,
            entries,
            evaluations,
            entries_largest,
            ..
        } = received;
        assert_eq!((posts, entries, evaluations, entries_largest), (2, 3, 8, 2));
    }

    #[test]
    fn more_than_thirty_entries_are_refused_whole() {
        let (mut totals, mut received) = (Totals::default(), Received::default());
        let entries: Vec<Value> = (0..31).map(|n| entry(&n.to_string(), 1)).collect();
        assert!(take_usage(&mut totals, &mut received, &report(&json!(entries))).is_err());
        assert!(totals.usage.is_empty());
        assert_eq!((received.refused, received.entries_largest), (1, 31));
    }

    #[test]
    fn an_entry_about_nothing_spoils_its_report() {
        let mut about_nothing = entry("a", 1);
        about_nothing["feature_id"] = Value::Null;
        let (mut totals, mut received) = (Totals::default(), Received::default());
        let entries = json!([entry("a", 1), about_nothing]);
        assert!(take_usage(&mut totals, &mut received, &report(&entries)).is_err());
        assert!(totals.usage.is_empty());
    }

    #[test]
    fn analytics_entries_are_told_apart_by_all_that_they_say() {
        let (mut totals, mut received) = (Totals::default(), Received::default());
        let body = |kind: &str| {
            let entry = json!({ "experiment_id": "e", "timestamp": "2026-11-29T21:54:12Z" });
            let body = json!({ "type": kind, "environment_id": "prod", "usages": [entry] });
            body.to_string().into_bytes()
        };
        for kind in ["metric_event", "evaluation_event", "metric_event"] {
            assert_eq!(
                take_analytics(&mut totals, &mut received, &body(kind)),
                Ok(())
            );
        }
        assert_eq!(
            totals.analytics.values().copied().collect::<Vec<u64>>(),
            [1, 2]
        );
        assert_eq!(received.entries, 3);
    }
}
