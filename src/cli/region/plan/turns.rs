//! Regions that take turns: follow the sun, as `00:00=au,08:00=eu,16:00=us`.
//!
//! Owns how people write it, the record that has it, and how it ends: a rotation that has begun is
//! written out as plain switches up to the time of the change, with the epochs that its legs had,
//! so that nobody's term changes its number.
//!
//! All times are UTC: daylight saving time of one site is no change for another.

use super::{PlanError, Planned, checked, entry, fold, last_term, not_later, seat, successor};
use crate::limits::Limits;
use crate::model::Id;
use crate::model::region::{Epoch, Leg, Matching, Record, Rotation, SlotClass, Switch};
use crate::state::region::schedule::{term_after, term_at, term_before};
use crate::time::{Duration, WallMs};
use crate::wire::region::write_time;

/// A day, in seconds.
const DAY_S: u64 = 86_400;

/// Who is primary from when on, in each period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turns {
    /// Offsets into the period, and regions.
    pub legs: Vec<(Duration, Id)>,
    pub period: Duration,
}

impl Turns {
    /// Reads `00:00=au,08:00=eu`: hours and minutes into the period, and seconds where there are
    /// some. Bounded by the length of `text`.
    pub fn parse(text: &str, period: Duration) -> Option<Turns> {
        let leg = |text: &str| {
            let (offset, region) = text.trim().split_once('=')?;
            Some((offset_of(offset)?, Id::new(region)?))
        };
        let legs = text.split(',').map(leg).collect::<Option<Vec<_>>>()?;
        Some(Turns { legs, period })
    }

    /// The first time after `now` at which a period begins, counted from midnight; `None` for a
    /// period that does not divide the day, which begins when somebody says.
    pub fn next_period(&self, now: WallMs) -> Option<WallMs> {
        let is_plain = DAY_S.checked_rem(self.period.as_secs()) == Some(0);
        let period = u64::try_from(self.period.as_millis()).ok()?;
        let begun = now.as_unix_ms().checked_div(period).filter(|_| is_plain)?;
        let next = begun.checked_add(1)?.checked_mul(period)?;
        Some(WallMs::from_unix_ms(next))
    }
}

/// Hours, minutes and perhaps seconds.
fn offset_of(text: &str) -> Option<Duration> {
    let numbers = text.split(':').map(|digits| {
        let is_plain =
            (1..=4).contains(&digits.len()) && digits.bytes().all(|d| d.is_ascii_digit());
        is_plain.then(|| digits.parse::<u64>().ok()).flatten()
    });
    let (hours, minutes, seconds) = match numbers.collect::<Option<Vec<u64>>>()?[..] {
        [hours, minutes] => (hours, minutes, 0),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return None,
    };
    let is_clock = minutes < 60 && seconds < 60;
    is_clock.then(|| Duration::from_secs(hours * 3600 + minutes * 60 + seconds))
}

/// Which entry is to have which rotation, from when on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotate {
    pub matching: Matching,
    pub turns: Turns,
    /// When the first period begins.
    pub from: WallMs,
    /// When the record is made.
    pub issued_at: WallMs,
}

/// Makes the next record: an entry's primaries take turns from now on, whatever rotation it had
/// before. Bounded by the switches and legs of the entry.
///
/// # Errors
/// Why there is no such rotation, or what the reader would refuse.
pub fn rotate(record: &Record, change: &Rotate, limits: &Limits) -> Result<Planned, PlanError> {
    let mut next = successor(record, change.issued_at);
    let turns = &change.turns;
    let first = turns
        .legs
        .first()
        .map_or(Duration::ZERO, |(offset, _)| *offset);
    let begins = change.from + first;
    if begins <= change.issued_at {
        return Err(PlanError::Past);
    }
    let class = entry(&mut next, &change.matching)?;
    fold(class, change.issued_at);
    not_later(class, begins)?;
    unroll(class, change.issued_at, begins, limits);
    let (_, epoch) = last_term(class);
    let epoch_first = Epoch(epoch.0.saturating_add(1));
    let rotation = rotation(record, turns, change.from, epoch_first)?;
    let words = words(record, &change.matching, &rotation);
    class.rotation = Some(rotation);
    checked(&next, words, limits)
}

/// The rotation that is meant.
pub(super) fn rotation(
    record: &Record,
    turns: &Turns,
    from: WallMs,
    epoch_first: Epoch,
) -> Result<Rotation, PlanError> {
    let leg = |(offset, name): &(Duration, Id)| {
        let (offset, to) = (*offset, seat(record, name)?);
        Ok(Leg { offset, to })
    };
    Ok(Rotation {
        anchor: from,
        period: turns.period,
        epoch_first,
        legs: turns
            .legs
            .iter()
            .map(leg)
            .collect::<Result<_, PlanError>>()?,
    })
}

/// What people should know of a rotation before they sign it.
pub(super) fn words(record: &Record, matching: &Matching, rotation: &Rotation) -> Vec<String> {
    let timing = &record.timing;
    let legs = rotation.legs.iter().map(|leg| {
        let region = record.region_name(leg.to.region);
        format!("{region} at {}", clock_text(leg.offset))
    });
    let legs: Vec<String> = legs.collect();
    let period = match rotation.period.as_secs() {
        DAY_S => "each day (UTC)".to_owned(),
        seconds => format!("every {seconds} s"),
    };
    vec![
        format!(
            "{matching}: from {} on, {period}: {} (epochs from {})",
            write_time(rotation.anchor),
            legs.join(", "),
            rotation.epoch_first
        ),
        format!(
            "each time, writes are held from {} ms before until the new primary has everything; \
             without a word of the old one it takes over {} ms after",
            (timing.guard + timing.drain).as_millis(),
            (timing.guard + timing.grace).as_millis()
        ),
    ]
}

/// An offset as it is given.
fn clock_text(offset: Duration) -> String {
    let seconds = offset.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match seconds {
        0 => format!("{hours:02}:{minutes:02}"),
        _ => format!("{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

/// Ends a rotation that has begun by `until`: its terms before that become switches. Whether it did
/// so; one that begins later is left as it is. Bounded by `region.switches_max`.
pub(super) fn unroll(class: &mut SlotClass, now: WallMs, until: WallMs, limits: &Limits) -> bool {
    let begins = class.rotation.as_ref().map(|rotation| {
        let first = rotation.legs.first();
        rotation.anchor + first.map_or(Duration::ZERO, |leg| leg.offset)
    });
    if begins.is_none_or(|begins| begins > until) {
        return false;
    }
    let rotating = class.clone();
    class.rotation = None;
    let in_force = term_at(&rotating, now);
    let first = term_before(&rotating, &in_force).unwrap_or(in_force);
    (class.primary, class.epoch) = (first.seat, first.epoch);
    let terms = std::iter::successors(term_after(&rotating, &first), |term| {
        term_after(&rotating, term)
    });
    let is_before = |switch: &Switch| switch.at < until;
    let switches = terms.map_while(|term| {
        let (at, to, epoch) = (term.from?, term.seat, term.epoch);
        Some(Switch { at, to, epoch })
    });
    // One more than may be is for the reader to refuse.
    let count = limits.region.switches_max + 1;
    class.switches = switches.take_while(is_before).take(count).collect();
    true
}

#[cfg(test)]
mod tests {
    use super::super::rig::{HOUR, LIMITS, change, founding, id};
    use super::super::{Founding, lines, new, switch};
    use super::*;

    /// 2027-01-15T00:00:00Z.
    const MIDNIGHT: WallMs = WallMs::from_unix_ms(1_799_971_200_000);

    fn day(text: &str) -> Turns {
        Turns::parse(text, HOUR * 24).unwrap()
    }

    /// Issued an hour before midnight, us being primary until then.
    fn sun() -> Record {
        let founding = Founding {
            turns: Some((day("00:00=au,08:00=eu,16:00=us"), MIDNIGHT)),
            issued_at: MIDNIGHT - HOUR,
            ..founding("us")
        };
        new(&founding, &LIMITS).unwrap().record
    }

    #[test]
    fn turns_are_read_as_people_write_them() {
        let turns = day("00:00=au, 08:30:15=eu");
        let offset = Duration::from_secs(8 * 3600 + 30 * 60 + 15);
        assert_eq!(turns.legs, [(Duration::ZERO, id("au")), (offset, id("eu"))]);
        for bad in [
            "",
            "au",
            "00:00",
            "0=au",
            "00:60=au",
            "-1:00=au",
            "00:00=a u",
            "00:00=au,",
        ] {
            assert_eq!(Turns::parse(bad, HOUR), None, "{bad}");
        }
    }

    #[test]
    fn periods_of_a_day_begin_at_midnight_and_others_when_somebody_says() {
        let begins = |period| {
            let turns = Turns::parse("00:00=au", period)?;
            turns.next_period(MIDNIGHT + HOUR)
        };
        assert_eq!(begins(HOUR * 24), Some(MIDNIGHT + HOUR * 24));
        assert_eq!(begins(HOUR), Some(MIDNIGHT + HOUR * 2));
        assert_eq!(begins(HOUR * 24 * 7), None);
        assert_eq!(begins(Duration::ZERO), None);
    }

    #[test]
    fn the_sun_goes_round_from_the_first_period_on() {
        let record = sun();
        let at = |time| lines(&record, time).remove(0);
        assert_eq!(
            at(MIDNIGHT - HOUR),
            "everything else: us, epoch 1; then au at 2027-01-15T00:00:00Z, epoch 2"
        );
        assert_eq!(
            at(MIDNIGHT + HOUR * 33),
            "everything else: eu, epoch 6; then us at 2027-01-16T16:00:00Z, epoch 7"
        );
    }

    #[test]
    fn a_switch_ends_the_rotation_and_leaves_the_terms_before_it_alone() {
        let now = MIDNIGHT + HOUR * 33;
        let change = change("au", now + HOUR * 8, now);
        let planned = switch(&sun(), &change, &LIMITS).unwrap();
        let class = &planned.record.classes[0];
        let epochs: Vec<u64> = class.switches.iter().map(|switch| switch.epoch.0).collect();
        assert_eq!((class.epoch, epochs), (Epoch(5), vec![6, 7, 8]));
        assert!(class.rotation.is_none());
        for hours in [33, 39] {
            let time = MIDNIGHT + HOUR * hours;
            let before = term_at(&sun().classes[0], time);
            let after = term_at(class, time);
            assert_eq!((before.epoch, before.seat), (after.epoch, after.seat));
        }
        let told = planned.words.join("\n");
        assert!(told.contains("the rotation ends there: au stays"), "{told}");
    }

    #[test]
    fn whoever_is_primary_may_stay_so_when_the_rotation_ends() {
        let now = MIDNIGHT + HOUR * 9;
        let planned = switch(&sun(), &change("eu", now + HOUR, now), &LIMITS).unwrap();
        assert_eq!(
            lines(&planned.record, now + HOUR * 100),
            ["everything else: eu, epoch 3"]
        );
        assert!(planned.words[0].contains("eu stays primary (epoch 3)"));
    }

    #[test]
    fn a_rotation_takes_the_place_of_another() {
        let now = MIDNIGHT + HOUR * 9;
        let change = Rotate {
            matching: Matching::default(),
            turns: day("00:00=au,12:00=eu"),
            from: MIDNIGHT + HOUR * 24,
            issued_at: now,
        };
        let planned = rotate(&sun(), &change, &LIMITS).unwrap();
        let record = &planned.record;
        assert_eq!(
            [9, 17, 25, 37].map(|hours| lines(record, MIDNIGHT + HOUR * hours).remove(0)),
            [
                "everything else: eu, epoch 3; then us at 2027-01-15T16:00:00Z, epoch 4",
                "everything else: us, epoch 4; then au at 2027-01-16T00:00:00Z, epoch 5",
                "everything else: au, epoch 5; then eu at 2027-01-16T12:00:00Z, epoch 6",
                "everything else: eu, epoch 6; then au at 2027-01-17T00:00:00Z, epoch 7",
            ]
        );
        let past = Rotate {
            from: MIDNIGHT,
            ..change
        };
        assert_eq!(rotate(&sun(), &past, &LIMITS), Err(PlanError::Past));
    }

    #[test]
    fn legs_that_are_too_close_are_refused_with_their_place() {
        let change = Rotate {
            matching: Matching::default(),
            turns: day("00:00=au,00:00:05=eu"),
            from: MIDNIGHT + HOUR * 24,
            issued_at: MIDNIGHT + HOUR,
        };
        let error = rotate(&sun(), &change, &LIMITS).unwrap_err().to_string();
        assert!(error.contains("rotation.legs[1].offset_s"), "{error}");
    }
}
