//! Who is primary in which term, as a function of a record and a time.
//!
//! A class of a record is a sequence of terms: the first, then one for each planned switch, then
//! the legs of the rotation without end. A term has a place in that sequence, so that the term of a
//! time, the term of an epoch and the term after another are three ways to the same place. Nothing
//! is stored, and nothing is asked of a clock.

use crate::model::region::{Epoch, Rotation, Seat, SlotClass};
use crate::time::WallMs;

/// One region's time as the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Its place among the terms of its class, from 0.
    pub place: u64,
    pub epoch: Epoch,
    /// When it begins; absent for the first, which has begun when the record is read.
    pub from: Option<WallMs>,
    pub seat: Seat,
}

/// The term of a time, by the clock alone. Bounded by the number of switches and legs.
pub fn term_at(class: &SlotClass, time: WallMs) -> Term {
    let turns = class.rotation.as_ref().and_then(|rotation| {
        let turns = turns_at(rotation, time)?;
        turn(class, rotation, turns)
    });
    turns.unwrap_or_else(|| {
        let is_past = |term: &Term| term.from.is_none_or(|from| from <= time);
        let planned = (0..class.switches.len()).rev();
        let planned = planned.filter_map(|index| switch(class, index));
        planned.into_iter().find(is_past).unwrap_or(first(class))
    })
}

/// The term that has this epoch; `None` if none has. Bounded by the number of switches.
pub fn term_of(class: &SlotClass, epoch: Epoch) -> Option<Term> {
    if epoch == class.epoch {
        return Some(first(class));
    }
    let planned = class
        .switches
        .iter()
        .position(|switch| switch.epoch == epoch);
    if let Some(index) = planned {
        return switch(class, index);
    }
    let rotation = class.rotation.as_ref()?;
    turn(
        class,
        rotation,
        epoch.0.checked_sub(rotation.epoch_first.0)?,
    )
}

/// The term that follows; `None` after the last. Bounded by O(1).
pub fn term_after(class: &SlotClass, term: &Term) -> Option<Term> {
    term_in(class, term.place.checked_add(1)?)
}

/// The term before; `None` for the first. Bounded by O(1).
pub fn term_before(class: &SlotClass, term: &Term) -> Option<Term> {
    term_in(class, term.place.checked_sub(1)?)
}

fn term_in(class: &SlotClass, place: u64) -> Option<Term> {
    let Some(after_first) = place.checked_sub(1) else {
        return Some(first(class));
    };
    let planned = class.switches.len() as u64;
    match after_first.checked_sub(planned) {
        Some(turns) => turn(class, class.rotation.as_ref()?, turns),
        None => switch(class, usize::try_from(after_first).ok()?),
    }
}

fn first(class: &SlotClass) -> Term {
    Term {
        place: 0,
        epoch: class.epoch,
        from: None,
        seat: class.primary,
    }
}

fn switch(class: &SlotClass, index: usize) -> Option<Term> {
    let switch = class.switches.get(index)?;
    Some(Term {
        place: index as u64 + 1,
        epoch: switch.epoch,
        from: Some(switch.at),
        seat: switch.to,
    })
}

/// The term of the rotation's leg number `turns`, counted through all periods from 0.
fn turn(class: &SlotClass, rotation: &Rotation, turns: u64) -> Option<Term> {
    let legs = rotation.legs.len() as u64;
    let leg = rotation
        .legs
        .get(usize::try_from(turns.checked_rem(legs)?).ok()?)?;
    let periods = u64::try_from(rotation.period.as_millis()).ok()?;
    let offset = u64::try_from(leg.offset.as_millis()).ok()?;
    let since_anchor = (turns / legs).checked_mul(periods)?.checked_add(offset)?;
    let from = rotation.anchor.as_unix_ms().checked_add(since_anchor)?;
    Some(Term {
        place: (class.switches.len() as u64)
            .checked_add(1)?
            .checked_add(turns)?,
        epoch: Epoch(rotation.epoch_first.0.checked_add(turns)?),
        from: Some(WallMs::from_unix_ms(from)),
        seat: leg.to,
    })
}

/// How many legs have begun by `time`, less one; `None` before the first of all.
fn turns_at(rotation: &Rotation, time: WallMs) -> Option<u64> {
    let since_anchor = time
        .as_unix_ms()
        .checked_sub(rotation.anchor.as_unix_ms())?;
    let period = u64::try_from(rotation.period.as_millis()).ok()?;
    let into_period = since_anchor.checked_rem(period)?;
    let has_begun = |offset: u128| offset <= u128::from(into_period);
    let begun = rotation
        .legs
        .iter()
        .filter(|leg| has_begun(leg.offset.as_millis()));
    let before = (since_anchor / period).checked_mul(rotation.legs.len() as u64)?;
    before.checked_add(begun.count() as u64)?.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::region::{Leg, Matching, NodeIndex, RegionIndex, Switch};
    use crate::time::Duration;

    fn seat(index: u16) -> Seat {
        Seat {
            region: RegionIndex(index),
            writer: NodeIndex(index),
        }
    }

    fn seconds(seconds: u64) -> WallMs {
        WallMs::from_unix_ms(seconds * 1000)
    }

    /// Epoch 1 until 100 s, 2 until 1000 s, then 5, 6, 7, … : 0 and 50 s of every 80 s.
    fn class() -> SlotClass {
        SlotClass {
            matching: Matching::default(),
            primary: seat(0),
            epoch: Epoch(1),
            switches: vec![Switch {
                at: seconds(100),
                to: seat(1),
                epoch: Epoch(2),
            }],
            rotation: Some(Rotation {
                anchor: seconds(990),
                period: Duration::from_secs(80),
                epoch_first: Epoch(5),
                legs: vec![
                    Leg {
                        offset: Duration::from_secs(10),
                        to: seat(2),
                    },
                    Leg {
                        offset: Duration::from_secs(60),
                        to: seat(0),
                    },
                ],
            }),
        }
    }

    #[test]
    fn each_time_has_the_term_that_began_last() {
        for (time, epoch, region) in [
            (0, 1, 0),
            (99, 1, 0),
            (100, 2, 1),
            (995, 2, 1),
            (1000, 5, 2),
            (1049, 5, 2),
            (1050, 6, 0),
            (1079, 6, 0),
            (1080, 7, 2),
            (1130, 8, 0),
        ] {
            let term = term_at(&class(), seconds(time));
            assert_eq!(
                (term.epoch.0, term.seat.region.0),
                (epoch, region),
                "{time}"
            );
        }
    }

    #[test]
    fn place_epoch_and_time_lead_to_the_same_term() {
        let class = class();
        let mut term = first(&class);
        for _ in 0..50 {
            assert_eq!(term_of(&class, term.epoch), Some(term));
            let next = term_after(&class, &term).unwrap();
            assert_eq!(term_before(&class, &next), Some(term));
            let from = next.from.unwrap();
            assert_eq!(term_at(&class, from), next);
            assert_eq!(term_at(&class, from - Duration::from_millis(1)), term);
            assert!(next.epoch > term.epoch);
            term = next;
        }
    }

    #[test]
    fn epochs_between_two_terms_belong_to_nobody() {
        for epoch in [0, 3, 4] {
            assert_eq!(term_of(&class(), Epoch(epoch)), None, "{epoch}");
        }
    }

    #[test]
    fn the_last_switch_without_a_rotation_lasts() {
        let mut class = class();
        class.rotation = None;
        let last = term_at(&class, WallMs::from_unix_ms(u64::MAX));
        assert_eq!(last.epoch, Epoch(2));
        assert_eq!(term_after(&class, &last), None);
    }

    #[test]
    fn the_end_of_time_is_no_overflow() {
        let mut class = class();
        if let Some(rotation) = &mut class.rotation {
            rotation.epoch_first = Epoch(u64::MAX - 1);
        }
        let term = term_at(&class, WallMs::from_unix_ms(u64::MAX));
        assert!(term.epoch <= Epoch(u64::MAX));
    }
}
