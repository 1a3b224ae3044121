//! What has to hold between the terms of one entry, and between entries.
//!
//! Times rise, epochs rise, and a switch is over before the next begins: its guard on both sides,
//! the grace of the next primary, the drain of the last one, and the longest that a write is held.
//! A rotation has to keep that distance from leg to leg, around the end of its period too, and from
//! the last planned switch.

use super::error::{RecordError, RecordProblem};
use crate::model::region::{Epoch, Matching, Rotation, SlotClass, Timing};
use crate::time::{Duration, WallMs};

/// Whether `wide` matches everything that `narrow` does.
pub(super) fn covers(wide: &Matching, narrow: &Matching) -> bool {
    let covers = |wide: &Option<_>, narrow: &Option<_>| wide.is_none() || wide == narrow;
    covers(&wide.collection, &narrow.collection)
        && covers(&wide.environment, &narrow.environment)
        && covers(&wide.route, &narrow.route)
}

/// Checks the terms of an entry at `place`. Bounded by its switches and legs.
///
/// # Errors
/// The first switch or leg that does not fit to the one before it.
pub(super) fn check(class: &SlotClass, timing: &Timing, place: &str) -> Result<(), RecordError> {
    let mut before: (Option<WallMs>, Epoch) = (None, class.epoch);
    for (index, switch) in class.switches.iter().enumerate() {
        let place = format!("{place}.switches[{index}]");
        follow(
            before,
            (switch.at, switch.epoch),
            timing,
            (&place, "at", "epoch"),
        )?;
        before = (Some(switch.at), switch.epoch);
    }
    let Some(rotation) = &class.rotation else {
        return Ok(());
    };
    let place = format!("{place}.rotation");
    let first = rotation
        .legs
        .first()
        .map(|leg| rotation.anchor + leg.offset);
    if let Some(first) = first {
        let first = (first, rotation.epoch_first);
        follow(before, first, timing, (&place, "anchor", "epoch0"))?;
    }
    check_legs(rotation, timing, &place)
}

/// Whether one term may follow another; `names`: the place, and its keys of time and epoch.
fn follow(
    before: (Option<WallMs>, Epoch),
    term: (WallMs, Epoch),
    timing: &Timing,
    (place, at, epoch): (&str, &str, &str),
) -> Result<(), RecordError> {
    let (from, number) = term;
    if number <= before.1 {
        let place = format!("{place}.{epoch}");
        return Err(RecordError::at(place, RecordProblem::EpochsNotRising));
    }
    let Some(last) = before.0 else {
        return Ok(());
    };
    let place = format!("{place}.{at}");
    if from <= last {
        return Err(RecordError::at(place, RecordProblem::TimesNotRising));
    }
    distance(from.since(last), timing, place)
}

fn check_legs(rotation: &Rotation, timing: &Timing, place: &str) -> Result<(), RecordError> {
    let pairs = rotation.legs.iter().zip(rotation.legs.iter().skip(1));
    for (index, (leg, next)) in pairs.enumerate() {
        let place = format!("{place}.legs[{}].offset_s", index + 1);
        if next.offset <= leg.offset {
            return Err(RecordError::at(place, RecordProblem::TimesNotRising));
        }
        distance(next.offset - leg.offset, timing, place)?;
    }
    // A rotation of one leg changes its epoch, and nobody's role.
    let around = rotation.legs.first().zip(rotation.legs.last());
    around.map_or(Ok(()), |(first, last)| {
        let gap = rotation.period + first.offset - last.offset;
        distance(gap, timing, format!("{place}.period_s"))
    })
}

fn distance(found: Duration, timing: &Timing, place: String) -> Result<(), RecordError> {
    let least = timing.spacing_min();
    if found >= least {
        return Ok(());
    }
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let problem = RecordProblem::TooClose {
        found_ms: millis(found),
        least_ms: millis(least),
    };
    Err(RecordError::at(place, problem))
}
