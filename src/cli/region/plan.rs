//! The next record, with versions and epochs that are right.
//!
//! People say what they want; numbers are made here. A change gets the next version and an epoch
//! that nobody had, and goes through the reader's own rules before anybody sees it, so that what is
//! signed is what nodes take. Switches that are over are folded into the entry, but for the last
//! one: a writer that was away has to know from whom it takes over. A switch in the midst of a
//! rotation ends the rotation; `turns` begins one.
//!
//! Never takes a switch back that may have begun, and never changes the past.

#[cfg(test)]
mod rig;
mod sites;
mod turns;

pub use sites::settle;
pub use turns::{Rotate, Turns, rotate};

use crate::limits::Limits;
use crate::model::Id;
use crate::model::region::{Epoch, Matching, Record, RegionIndex, Seat, SlotClass, Switch, Timing};
use crate::state::region::schedule;
use crate::time::{Duration, WallMs};
use crate::wire::region::{self, RecordError, write_time};
use std::fmt;

/// The contract's own timings: clocks within two seconds, a switch every 19 s at most.
pub const TIMING: Timing = Timing {
    max_skew: Duration::from_secs(2),
    guard: Duration::from_secs(2),
    grace: Duration::from_secs(2),
    drain: Duration::from_secs(1),
    hold: Duration::from_secs(12),
    poll: Duration::from_secs(1),
};

/// A site of a record that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    pub name: Id,
    /// The first is the writer. Names and URLs.
    pub nodes: Vec<(Id, String)>,
}

/// What the first record of a cluster is made of.
#[derive(Clone, Debug)]
pub struct Founding {
    pub cluster: Id,
    pub sites: Vec<Site>,
    /// The region that is primary from the start.
    pub primary: Id,
    pub timing: Timing,
    /// Who takes turns, and when the first period begins.
    pub turns: Option<(Turns, WallMs)>,
    /// When the record is made.
    pub issued_at: WallMs,
}

/// What is to change, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub matching: Matching,
    pub to: Id,
    pub at: WallMs,
    /// When the record is made.
    pub issued_at: WallMs,
}

/// A record that may be signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The document, byte for byte.
    pub text: String,
    pub record: Record,
    /// What it changes, and what to see to.
    pub words: Vec<String>,
}

/// Why there is no such record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// The record has no such region.
    UnknownRegion { name: Id },
    /// The region is primary by then already.
    AlreadyPrimary { name: Id },
    /// The record has no entry that holds for this; one that was read has.
    NoEntry { matching: Matching },
    /// Nothing can be changed in the past.
    Past,
    /// A later switch is planned already; they are planned in their order.
    Later { at: WallMs },
    /// The region is primary now, and its writer cannot be exchanged for another one.
    WriterInForce { name: Id, matching: Matching },
    /// The reader would refuse the record.
    Refused(RecordError),
}

impl fmt::Display for PlanError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::UnknownRegion { name } => write!(formatter, "no region is called {name}"),
            PlanError::AlreadyPrimary { name } => {
                write!(formatter, "{name} is primary at that time already")
            }
            PlanError::NoEntry { matching } => write!(formatter, "no entry is for {matching}"),
            PlanError::Past => write!(formatter, "the time is over"),
            PlanError::Later { at } => write!(
                formatter,
                "a switch is planned for {}: plan switches in their order",
                write_time(*at)
            ),
            PlanError::WriterInForce { name, matching } => write!(
                formatter,
                "{name} is primary for {matching}: it can get another writer once another region is"
            ),
            PlanError::Refused(error) => write!(formatter, "the record would be refused: {error}"),
        }
    }
}

/// Makes the first record of a cluster: one entry for everything.
///
/// # Errors
/// `UnknownRegion`, or what the reader would refuse.
pub fn new(founding: &Founding, limits: &Limits) -> Result<Planned, PlanError> {
    let mut record = Record {
        cluster: founding.cluster.clone(),
        version: 1,
        digest: crate::model::Digest::default(),
        issued_at: founding.issued_at,
        timing: founding.timing,
        regions: Vec::new(),
        nodes: Vec::new(),
        classes: Vec::new(),
    };
    for site in &founding.sites {
        sites::found(&mut record, site);
    }
    let primary = &founding.primary;
    let mut class = SlotClass {
        matching: Matching::default(),
        primary: seat(&record, primary)?,
        epoch: Epoch(1),
        switches: Vec::new(),
        rotation: None,
    };
    let mut words = vec![format!(
        "everything: {primary} is primary from the start (epoch 1)"
    )];
    if let Some((turns, from)) = &founding.turns {
        let rotation = turns::rotation(&record, turns, *from, Epoch(2))?;
        words.extend(turns::words(&record, &class.matching, &rotation));
        class.rotation = Some(rotation);
    }
    record.classes.push(class);
    checked(&record, words, limits)
}

/// Makes the next record: one switch more. An entry for exactly `change.matching` is changed; where
/// there is none, one is made of the entry that holds for it now. A rotation that has begun by then
/// ends with the switch.
///
/// # Errors
/// Why there is no such switch, or what the reader would refuse.
pub fn switch(record: &Record, change: &Change, limits: &Limits) -> Result<Planned, PlanError> {
    let mut next = successor(record, change.issued_at);
    let to = seat(&next, &change.to)?;
    if change.at <= change.issued_at {
        return Err(PlanError::Past);
    }
    let class = entry(&mut next, &change.matching)?;
    fold(class, change.issued_at);
    not_later(class, change.at)?;
    let is_ended = turns::unroll(class, change.issued_at, change.at, limits);
    let (seat_before, epoch_before) = last_term(class);
    if seat_before == to {
        let name = change.to.clone();
        if !is_ended {
            return Err(PlanError::AlreadyPrimary { name });
        }
        let words = vec![format!(
            "{}: the rotation ends, and {name} stays primary (epoch {epoch_before})",
            change.matching
        )];
        return checked(&next, words, limits);
    }
    let epoch = Epoch(epoch_before.0.saturating_add(1));
    if let Some(rotation) = &mut class.rotation {
        // It has not begun: its epochs are nobody's yet.
        rotation.epoch_first = rotation.epoch_first.max(Epoch(epoch.0.saturating_add(1)));
    }
    class.switches.push(Switch {
        at: change.at,
        to,
        epoch,
    });
    let mut words = words(&next, change, seat_before, epoch);
    if is_ended {
        words.push(format!(
            "the rotation ends there: {} stays primary",
            change.to
        ));
    }
    checked(&next, words, limits)
}

/// The same record, one version on.
fn successor(record: &Record, issued_at: WallMs) -> Record {
    let version = record.version.saturating_add(1);
    Record {
        version,
        issued_at,
        ..record.clone()
    }
}

/// Switches are planned in their order.
fn not_later(class: &SlotClass, at: WallMs) -> Result<(), PlanError> {
    let last = class.switches.last();
    match last.filter(|last| last.at >= at) {
        Some(last) => Err(PlanError::Later { at: last.at }),
        None => Ok(()),
    }
}

/// The last term of an entry without its rotation.
fn last_term(class: &SlotClass) -> (Seat, Epoch) {
    match class.switches.last() {
        Some(last) => (last.to, last.epoch),
        None => (class.primary, class.epoch),
    }
}

/// What people should know of a switch before they sign it.
fn words(record: &Record, change: &Change, before: Seat, epoch: Epoch) -> Vec<String> {
    let timing = &record.timing;
    let eve = change.at - timing.guard - timing.drain;
    let over = change.at + timing.guard + timing.grace;
    let mut words = vec![
        format!(
            "{}: {} hands over to {} at {} (epoch {epoch})",
            change.matching,
            record.region_name(before.region),
            change.to,
            write_time(change.at)
        ),
        format!(
            "writes are held from {} until the new primary has everything; without a word of the \
             old one it takes over at {}",
            write_time(eve),
            write_time(over)
        ),
    ];
    let lead = eve.since(change.issued_at);
    if lead < timing.poll * 10 {
        words.push(format!(
            "that is in {} ms: a node that has not heard of it by then goes on as before",
            lead.as_millis()
        ));
    }
    words
}

/// The entry for exactly this; made of the one that holds for it and put before that, if there is
/// none.
fn entry<'r>(record: &'r mut Record, matching: &Matching) -> Result<&'r mut SlotClass, PlanError> {
    let covers = |class: &SlotClass| {
        let wide = &class.matching;
        let fits = |wide: &Option<Id>, narrow: &Option<Id>| wide.is_none() || wide == narrow;
        fits(&wide.collection, &matching.collection)
            && fits(&wide.environment, &matching.environment)
            && fits(&wide.route, &matching.route)
    };
    let classes = &mut record.classes;
    let exact = classes.iter().position(|class| class.matching == *matching);
    let index = match (exact, classes.iter().position(covers)) {
        (Some(exact), _) => exact,
        (None, Some(wide)) => {
            if let Some(mut class) = classes.get(wide).cloned() {
                class.matching = matching.clone();
                classes.insert(wide, class);
            }
            wide
        }
        // No record is without an entry for everything.
        (None, None) => classes.len(),
    };
    let matching = matching.clone();
    let found = classes.get_mut(index);
    found.ok_or(PlanError::NoEntry { matching })
}

/// Leaves out the switches that are over, but for the last of them.
fn fold(class: &mut SlotClass, now: WallMs) {
    let over = class
        .switches
        .iter()
        .filter(|switch| switch.at <= now)
        .count();
    let folded = over.saturating_sub(1);
    if let Some(last) = folded
        .checked_sub(1)
        .and_then(|last| class.switches.get(last))
    {
        (class.primary, class.epoch) = (last.to, last.epoch);
        class.switches.drain(..folded);
    }
}

/// Through the reader, as every node will.
fn checked(record: &Record, words: Vec<String>, limits: &Limits) -> Result<Planned, PlanError> {
    let text = region::write(record);
    let record = region::read(text.as_bytes(), limits).map_err(PlanError::Refused)?;
    Ok(Planned {
        text,
        record,
        words,
    })
}

fn seat(record: &Record, name: &Id) -> Result<Seat, PlanError> {
    let index = record
        .regions
        .iter()
        .position(|region| region.name == *name);
    let region = index.and_then(|index| record.regions.get(index));
    match index.zip(region) {
        Some((index, region)) => Ok(Seat {
            region: RegionIndex(position(index)),
            writer: region.writer,
        }),
        None => Err(PlanError::UnknownRegion { name: name.clone() }),
    }
}

/// The reader refuses records with more nodes than fit.
fn position(index: usize) -> u16 {
    u16::try_from(index).unwrap_or(u16::MAX)
}

/// Who is primary for what at `time`, and what comes next: one line for each entry.
pub fn lines(record: &Record, time: WallMs) -> Vec<String> {
    let line = |class: &SlotClass| {
        let term = schedule::term_at(class, time);
        let primary = record.region_name(term.seat.region);
        let now = format!("{}: {primary}, epoch {}", class.matching, term.epoch);
        match schedule::term_after(class, &term) {
            Some(next) => format!(
                "{now}; then {} at {}, epoch {}",
                record.region_name(next.seat.region),
                next.from.map(write_time).unwrap_or_default(),
                next.epoch
            ),
            None => now,
        }
    };
    record.classes.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::rig::{HOUR, LIMITS, NOW, change, founding, id};
    use super::*;

    fn first() -> Record {
        new(&founding("au"), &LIMITS).unwrap().record
    }

    #[test]
    fn the_first_record_has_one_entry_and_is_read_as_it_is_written() {
        let planned = new(&founding("eu"), &LIMITS).unwrap();
        assert_eq!(
            region::read(planned.text.as_bytes(), &LIMITS),
            Ok(planned.record.clone())
        );
        assert_eq!(
            lines(&planned.record, NOW),
            ["everything else: eu, epoch 1"]
        );
        let nobody = new(&founding("jp"), &LIMITS);
        assert_eq!(nobody, Err(PlanError::UnknownRegion { name: id("jp") }));
    }

    #[test]
    fn a_switch_gets_the_next_version_and_epoch() {
        let planned = switch(&first(), &change("eu", NOW + HOUR, NOW), &LIMITS).unwrap();
        assert_eq!(planned.record.version, 2);
        assert_eq!(planned.record.classes[0].switches[0].epoch, Epoch(2));
        let told = planned.words.join("\n");
        assert!(
            told.contains("au hands over to eu at 2027-01-15T09:00:00Z (epoch 2)"),
            "{told}"
        );
    }

    #[test]
    fn switches_are_planned_in_their_order_and_for_the_future() {
        let record = switch(&first(), &change("eu", NOW + HOUR, NOW), &LIMITS)
            .unwrap()
            .record;
        let plan = |to, at| switch(&record, &change(to, at, NOW), &LIMITS).unwrap_err();
        assert_eq!(plan("us", NOW), PlanError::Past);
        let at = NOW + HOUR;
        assert_eq!(plan("us", at), PlanError::Later { at });
        assert_eq!(
            plan("eu", at + HOUR),
            PlanError::AlreadyPrimary { name: id("eu") }
        );
        let close = plan("us", at + Duration::from_secs(1)).to_string();
        assert!(close.contains("1000 ms after the switch before"), "{close}");
    }

    #[test]
    fn what_is_over_is_folded_but_for_the_last() {
        let mut record = first();
        let mut now = NOW;
        for to in ["eu", "us", "au", "eu"] {
            record = switch(&record, &change(to, now + HOUR, now), &LIMITS)
                .unwrap()
                .record;
            now = now + HOUR * 2;
        }
        let class = &record.classes[0];
        assert_eq!((class.switches.len(), class.epoch), (2, Epoch(3)));
        assert_eq!(lines(&record, now), ["everything else: eu, epoch 5"]);
    }

    #[test]
    fn a_narrower_switch_makes_an_entry_that_goes_on_from_the_wider_one() {
        let record = switch(&first(), &change("eu", NOW + HOUR, NOW), &LIMITS)
            .unwrap()
            .record;
        let mut line3 = change("us", NOW + HOUR * 2, NOW);
        line3.matching.collection = Some(id("line3"));
        let record = switch(&record, &line3, &LIMITS).unwrap().record;
        assert_eq!(
            lines(&record, NOW + HOUR),
            [
                "line3/*: eu, epoch 2; then us at 2027-01-15T10:00:00Z, epoch 3",
                "everything else: eu, epoch 2",
            ]
        );
    }

    #[test]
    fn a_hasty_switch_is_told_to_be_one() {
        let soon = change("eu", NOW + Duration::from_secs(5), NOW);
        let planned = switch(&first(), &soon, &LIMITS).unwrap();
        assert!(
            planned.words[2].starts_with("that is in 2000 ms"),
            "{:?}",
            planned.words
        );
    }
}
