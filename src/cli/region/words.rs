//! What a record says, for people: whom it is from, who is where, and who is primary when.
//!
//! Times are UTC, as in the document. What is over is left out but for the term in force; of what
//! comes, the first terms of each entry are shown, and whether more follow.

use crate::model::region::{Record, SlotClass};
use crate::state::region::schedule::{Term, term_after, term_at};
use crate::time::{Duration, WallMs};
use crate::wire::region::write_time;

/// Terms to come that are shown of each entry: a day of a rotation, and more.
const SHOWN_MAX: usize = 6;

/// The record in lines. Bounded by its regions, and its entries times `SHOWN_MAX`.
pub fn lines(record: &Record, now: WallMs) -> Vec<String> {
    let timing = &record.timing;
    let millis = |duration: Duration| duration.as_millis();
    let mut lines = vec![
        format!(
            "cluster {}, version {}, issued {}",
            record.cluster,
            record.version,
            write_time(record.issued_at)
        ),
        format!(
            "clocks within {} ms; a switch holds writes from {} ms before to at most {} ms after, \
             and each for at most {} ms",
            millis(timing.max_skew),
            millis(timing.guard + timing.drain),
            millis(timing.guard + timing.grace),
            millis(timing.hold)
        ),
    ];
    for region in &record.regions {
        let is_here = |name: &str| name == region.name.as_str();
        let nodes = record
            .nodes
            .iter()
            .filter(|node| is_here(record.region_name(node.region)));
        let nodes = nodes.map(|node| match record.find_node(&node.name) {
            Some(index) if index == region.writer => format!("{} {} (writer)", node.name, node.url),
            _ => format!("{} {}", node.name, node.url),
        });
        let nodes: Vec<String> = nodes.collect();
        lines.push(format!("region {}: {}", region.name, nodes.join(", ")));
    }
    for class in &record.classes {
        lines.push(class.matching.to_string());
        lines.extend(terms(record, class, now));
    }
    lines
}

/// The time line of an entry, from the term in force on.
fn terms(record: &Record, class: &SlotClass, now: WallMs) -> Vec<String> {
    let line = |when: &str, term: &Term| {
        let region = record.region_name(term.seat.region);
        format!("  {when:20}  {region}, epoch {}", term.epoch)
    };
    let in_force = term_at(class, now);
    let mut lines = vec![line("now", &in_force)];
    let mut last = in_force;
    for _ in 0..SHOWN_MAX {
        let Some(next) = term_after(class, &last) else {
            return lines;
        };
        let from = next.from.map(write_time).unwrap_or_default();
        lines.push(line(&from, &next));
        last = next;
    }
    if term_after(class, &last).is_some() {
        lines.push(String::from("  and so on"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Founding, Site, TIMING, Turns, new};
    use super::*;
    use crate::limits::Limits;
    use crate::model::Id;

    #[test]
    fn a_record_is_told_with_its_time_line() {
        let id = |text| Id::new(text).unwrap();
        let node = |name| (id(name), format!("https://{name}:7070"));
        let site = |name, nodes| Site {
            name: id(name),
            nodes,
        };
        let midnight = WallMs::from_unix_ms(1_799_971_200_000);
        let hour = Duration::from_secs(3600);
        let founding = Founding {
            cluster: id("plant-7"),
            sites: vec![
                site("au", vec![node("au-1")]),
                site("eu", vec![node("eu-1"), node("eu-2")]),
            ],
            primary: id("eu"),
            timing: TIMING,
            turns: Turns::parse("00:00=au,08:00=eu", hour * 24).map(|turns| (turns, midnight)),
            issued_at: midnight - hour,
        };
        let record = new(&founding, &Limits::PRODUCTION).unwrap().record;
        let text = lines(&record, midnight + hour).join("\n");
        let expected = "\
cluster plant-7, version 1, issued 2027-01-14T23:00:00Z
clocks within 2000 ms; a switch holds writes from 3000 ms before to at most 4000 ms after, and \
each for at most 12000 ms
region au: au-1 https://au-1:7070 (writer)
region eu: eu-1 https://eu-1:7070 (writer), eu-2 https://eu-2:7070
everything else
  now                   au, epoch 2
  2027-01-15T08:00:00Z  eu, epoch 3
  2027-01-16T00:00:00Z  au, epoch 4";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.ends_with("\n  and so on"), "{text}");
    }
}
