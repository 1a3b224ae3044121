//! Rollouts of features and of their segment rules: manual, progressive and guarded.
//!
//! Node SDKs throw at a `rollout_configuration` that lacks its parts, whatever the rollout type is;
//! Rust SDKs read `start_at` as RFC 3339; Python SDKs fail at a metric that lacks a key. So each
//! part is judged wherever it stands, and its absence only where the type demands it.

use super::error::{DocumentError, Problem, quoted};
use super::field::{Field, fields};

/// The keys of a rollout, as features and segment rules share them.
pub(super) const KEYS: [&str; 4] = [
    "rollout_type",
    "rollout_configuration",
    "rollout_id",
    "metrics",
];

const TYPES: &[&str] = &["MANUAL", "PROGRESSIVE", "GUARDED"];
const DURATION_TYPES: &[&str] = &["minutes", "hours", "days"];

/// Judges the four fields of [`KEYS`].
pub(super) fn check(rollout: [Field; 4]) -> Result<(), DocumentError> {
    let [kind, configuration, id, metrics] = rollout;
    let name = kind.optional_string()?;
    if let Some(name) = name.as_deref() {
        kind.one_of(name, TYPES)?;
    }
    match (name.as_deref(), configuration.given()) {
        (_, Some(piece)) => phases(configuration, piece)?,
        (Some("PROGRESSIVE"), None) => {
            let piece = configuration.required("Node and Python")?;
            return Err(configuration.refuse_kind("an object", piece));
        }
        (_, None) => {}
    }
    if name.as_deref() == Some("GUARDED") && id.string("Python")?.is_empty() {
        return Err(id.refuse(Problem::Empty { key: id.key() }));
    }
    id.optional_string()?;
    if metrics.is_absent() {
        return Ok(());
    }
    let place = metrics.place();
    for (index, metric) in metrics.array("Python")?.into_iter().enumerate() {
        let place = place.index(index);
        for field in fields(metric, &place, "metrics", ["id", "type", "event_key"])? {
            field.string("Python")?;
        }
    }
    Ok(())
}

fn phases(configuration: Field, piece: &str) -> Result<(), DocumentError> {
    let place = configuration.place();
    let [start_at, phases] = fields(piece, &place, configuration.key(), ["start_at", "phases"])?;
    let start = start_at.string("Node and Rust")?;
    if !is_timestamp(&start) {
        return Err(start_at.refuse(Problem::OutOfRange {
            key: start_at.key(),
            expected: "a time as 2026-01-05T08:00:00Z",
            found: format!("`{}`", quoted(&start)),
        }));
    }
    let elements = phases.array("Node and Rust")?;
    if elements.is_empty() {
        return Err(phases.refuse(Problem::Empty { key: phases.key() }));
    }
    let place = phases.place();
    for (index, phase) in elements.into_iter().enumerate() {
        let place = place.index(index);
        let names = ["percentage", "duration", "duration_type"];
        let [percentage, duration, duration_type] = fields(phase, &place, "phases", names)?;
        percentage.percentage(percentage.required("Node and Rust")?)?;
        if let Some(piece) = duration.given() {
            duration.integer(piece, 0..=u32::MAX, "a whole number")?;
            let name = duration_type.string("Python")?;
            duration_type.one_of(&name, DURATION_TYPES)?;
        }
    }
    Ok(())
}

/// RFC 3339 as all SDKs read it: `2026-01-05T08:00:00Z`, with a fraction or an offset if need be.
fn is_timestamp(text: &str) -> bool {
    const PATTERN: &[u8] = b"0000-00-00T00:00:00";
    let bytes = text.as_bytes();
    let shaped = |bytes: &[u8], pattern: &[u8]| {
        bytes.len() == pattern.len()
            && bytes
                .iter()
                .zip(pattern)
                .all(|(byte, wanted)| match wanted {
                    b'0' => byte.is_ascii_digit(),
                    other => byte == other,
                })
    };
    let Some((date, rest)) = bytes.split_at_checked(PATTERN.len()) else {
        return false;
    };
    let digits = rest.strip_prefix(b".").map(|fraction| {
        let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit());
        fraction.split_at(digits.count())
    });
    let (fraction_fits, zone) = match digits {
        Some((digits, zone)) => ((1..=9).contains(&digits.len()), zone),
        None => (true, rest),
    };
    let zone_fits = zone == b"Z" || shaped(zone, b"+00:00") || shaped(zone, b"-00:00");
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<u32>().ok();
    let within = |range, low, high| number(range).is_some_and(|n| (low..=high).contains(&n));
    shaped(date, PATTERN)
        && fraction_fits
        && zone_fits
        && within(5..7, 1, 12)
        && within(8..10, 1, 31)
        && within(11..13, 0, 23)
        && within(14..16, 0, 59)
        && within(17..19, 0, 59)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_that_every_sdk_reads() {
        for good in [
            "2026-01-05T08:00:00Z",
            "2026-12-31T23:59:59.123Z",
            "2026-01-05T08:00:00+05:30",
            "2026-01-05T08:00:00.5-00:00",
        ] {
            assert!(is_timestamp(good), "{good}");
        }
        for bad in [
            "",
            "2026-01-05",
            "2026-01-05 08:00:00Z",
            "2026-01-05T08:00:00",
            "2026-01-05T08:00Z",
            "2026-13-05T08:00:00Z",
            "2026-01-05T24:00:00Z",
            "2026-01-05T08:00:00.Z",
            "2026-01-05T08:00:00é",
            "１026-01-05T08:00:00Z",
        ] {
            assert!(!is_timestamp(bad), "{bad}");
        }
    }
}
