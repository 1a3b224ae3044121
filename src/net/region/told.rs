//! What the log says of region routing: one line an event, and few of what repeats.
//!
//! A switch may concern hundreds of slots at once: those that come to the same are one line, which
//! names the first. What a peer or a clock can repeat at will is limited by its cause. Records that
//! are refused are said where they are (`record`).

use crate::model::region::{Epoch, Phase};
use crate::net::driver::Driver;
use crate::net::log::Cause;
use crate::state::region::{Note, SubjectIndex};

use super::Region;

/// Puts all notes in the log. Bounded by their number.
pub fn log(driver: &Driver, region: &Region) {
    let mut groups: Vec<(Said, SubjectIndex, usize)> = Vec::new();
    loop {
        let note = region.routing.borrow_mut().poll_note();
        let (said, subject) = match note {
            None => break,
            Some(Note::Phase {
                subject,
                phase,
                epoch,
            }) => (Said::Phase(phase, epoch), subject),
            Some(Note::TakenOver { subject, epoch }) => (Said::TakenOver(epoch), subject),
            Some(Note::Contradiction { subject }) => (Said::Contradiction, subject),
            Some(note) => {
                log_one(driver, &note);
                continue;
            }
        };
        match groups.iter_mut().find(|(known, ..)| *known == said) {
            Some((.., count)) => *count += 1,
            None => groups.push((said, subject, 1)),
        }
    }
    for (said, first, count) in groups {
        log_group(driver, region, said, first, count);
    }
}

/// What several subjects can have in common.
#[derive(PartialEq, Eq)]
enum Said {
    Phase(Phase, Epoch),
    TakenOver(Epoch),
    Contradiction,
}

fn log_group(driver: &Driver, region: &Region, said: Said, first: SubjectIndex, count: usize) {
    let subject = region.subjects.get(usize::from(first.0));
    let mut what = subject.map(ToString::to_string).unwrap_or_default();
    if count > 1 {
        what = format!("{what} and {} more", count - 1);
    }
    let now = driver.clock.now();
    match said {
        Said::Phase(Phase::Unknown(doubt), _) => driver.log.warn(format_args!(
            "region: {what}: writes are refused: {}",
            doubt.reason().as_str()
        )),
        Said::Phase(phase, epoch) => driver.log.note(format_args!(
            "region: {what}: {} in term {epoch}",
            phase.as_str()
        )),
        Said::TakenOver(epoch) => driver.log.error(format_args!(
            "region: {what}: primary in term {epoch} without the word of the writer before; what \
             that one had not passed on may end among its orphans"
        )),
        Said::Contradiction => driver.log.limited(
            Cause::Region,
            now,
            format_args!(
                "region: {what}: a peer has another content of the same revision; neither is \
                 taken, push it again"
            ),
        ),
    }
}

fn log_one(driver: &Driver, note: &Note) {
    let now = driver.clock.now();
    match note {
        Note::Refused { peer, reason } => driver.log.limited(
            Cause::Region,
            now,
            format_args!(
                "region: a write between this node and {peer} was refused: {}",
                reason.as_str()
            ),
        ),
        Note::Tilted { until } => driver.log.limited(
            Cause::Region,
            now,
            format_args!(
                "region: the clock was set; nobody becomes primary by it for {} s",
                until.since(now).as_secs()
            ),
        ),
        Note::RecordRefused(_)
        | Note::Phase { .. }
        | Note::TakenOver { .. }
        | Note::Contradiction { .. } => {}
    }
}
