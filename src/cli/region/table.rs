//! All nodes as one table, and in words what does not agree.
//!
//! Each line is what one node says of itself, as the node that was asked has heard it; nothing is
//! averaged or guessed. Below the table stands what a person has to look after, most urgent first:
//! nodes that do not answer, records that differ, two primaries or none, clocks, switches without a
//! seal, orphans.

use crate::model::Id;
use crate::model::region::{Heard, Phase, Status, Subject, SubjectStatus};
use crate::time::Duration;
use crate::wire::region::write_time;
use crate::wire::status::age_in_words;
use std::collections::BTreeSet;

const HEAD: [&str; 8] = [
    "NODE", "RECORD", "SLOT", "PHASE", "EPOCH", "PRIMARY", "HEAD", "NEXT",
];

/// The table, one line for each node and slot. Bounded by nodes times slots.
pub fn table(nodes: &[Heard]) -> Vec<String> {
    let mut rows: Vec<[String; HEAD.len()]> = vec![HEAD.map(String::from)];
    for node in nodes {
        let status = node.last.as_ref().map(|(_, status)| status);
        let Some(status) = status.filter(|status| !status.subjects.is_empty()) else {
            rows.push(bare_row(node, status));
            continue;
        };
        rows.extend(status.subjects.iter().map(|subject| row(status, subject)));
    }
    let width = |column: usize| {
        let lengths = rows
            .iter()
            .filter_map(|row| row.get(column))
            .map(String::len);
        lengths.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let line = |row: &[String; HEAD.len()]| {
        let cells = row.iter().zip(&widths);
        let cells = cells.map(|(cell, width)| format!("{cell:width$}"));
        cells
            .collect::<Vec<String>>()
            .join("  ")
            .trim_end()
            .to_string()
    };
    rows.iter().map(line).collect()
}

/// A node that has said nothing, or nothing of any slot.
fn bare_row(node: &Heard, status: Option<&Status>) -> [String; HEAD.len()] {
    let mut row = HEAD.map(|_| String::from("-"));
    row[0] = node.node.to_string();
    if let Some((version, _)) = status.and_then(|status| status.record) {
        row[1] = format!("v{version}");
    }
    row
}

fn row(status: &Status, subject: &SubjectStatus) -> [String; HEAD.len()] {
    let none = || String::from("-");
    let phase = match subject.phase {
        Phase::Unknown(doubt) => format!("unknown ({})", doubt.reason().as_str()),
        phase => phase.as_str().to_owned(),
    };
    [
        status.node.to_string(),
        status
            .record
            .map_or_else(none, |(version, _)| format!("v{version}")),
        subject.subject.to_string(),
        phase,
        subject.epoch.to_string(),
        subject
            .primary
            .as_ref()
            .map_or_else(none, |(region, _)| region.to_string()),
        subject.head.revision.to_string(),
        subject
            .next
            .as_ref()
            .map_or_else(none, |(at, to)| format!("{to} at {}", write_time(*at))),
    ]
}

/// What does not agree; empty when all is well. What was said longer ago than `fresh` is shown and
/// counts for nothing. Bounded by nodes times slots.
pub fn disagreements(nodes: &[Heard], fresh: Duration) -> Vec<String> {
    let silent = nodes.iter().filter_map(|node| match &node.last {
        None => Some(format!("{} does not answer", node.node)),
        Some((age, _)) if *age > fresh => {
            let age = age_in_words(age.as_secs());
            Some(format!("{} has not answered for {age}", node.node))
        }
        Some(_) => None,
    });
    let mut words: Vec<String> = silent.collect();
    let heard: Vec<&Status> = nodes
        .iter()
        .filter_map(|node| node.last.as_ref())
        .filter(|(age, _)| *age <= fresh)
        .map(|(_, status)| status)
        .collect();
    records(&heard, &mut words);
    let subjects = heard.iter().flat_map(|status| &status.subjects);
    let subjects: BTreeSet<&Subject> = subjects.map(|subject| &subject.subject).collect();
    let is_whole = heard.len() == nodes.len();
    for subject in subjects {
        primaries(&heard, subject, is_whole, &mut words);
    }
    for status in heard {
        if !status.is_clock_trusted {
            words.push(format!("{}: its clock is not to be trusted", status.node));
        }
        for subject in &status.subjects {
            let name = &subject.subject;
            if let Phase::Unknown(doubt) = subject.phase {
                let (node, reason) = (&status.node, doubt.reason().as_str());
                words.push(format!("{node} refuses writes of {name}: {reason}"));
            }
            if subject.is_taken_over_unsealed {
                words.push(format!(
                    "{name}: {} took over in epoch {} without a word of the writer before",
                    status.node, subject.epoch
                ));
            }
            if subject.orphans > 0 {
                words.push(format!(
                    "{name}: {} keeps {} orphans: compare them with what is served",
                    status.node, subject.orphans
                ));
            }
        }
    }
    words
}

fn records(heard: &[&Status], words: &mut Vec<String>) {
    let newest = heard
        .iter()
        .filter_map(|status| status.record)
        .max_by_key(|(version, _)| *version);
    let clusters: BTreeSet<&Id> = heard
        .iter()
        .filter_map(|status| status.cluster.as_ref())
        .collect();
    if clusters.len() > 1 {
        let names: Vec<&str> = clusters.iter().map(|cluster| cluster.as_str()).collect();
        words.push(format!(
            "nodes belong to several clusters: {}",
            names.join(", ")
        ));
    }
    let Some((version, digest)) = newest else {
        return;
    };
    for status in heard {
        match status.record {
            None => words.push(format!("{} has no record", status.node)),
            Some((held, _)) if held < version => words.push(format!(
                "global state must be corrected: {} holds v{held}, the newest is v{version}",
                status.node
            )),
            Some((_, other)) if other != digest => words.push(format!(
                "global state must be corrected: {} holds another v{version}; sign a higher one",
                status.node
            )),
            Some(_) => {}
        }
    }
}

fn primaries(heard: &[&Status], subject: &Subject, is_whole: bool, words: &mut Vec<String>) {
    let lines = heard.iter().filter_map(|status| {
        let line = status.subjects.iter().find(|line| line.subject == *subject);
        Some((&status.node, line?))
    });
    let lines: Vec<(&Id, &SubjectStatus)> = lines.collect();
    let active: Vec<&str> = lines
        .iter()
        .filter(|(_, line)| line.phase == Phase::Active)
        .map(|(node, _)| node.as_str())
        .collect();
    match active[..] {
        [] if is_whole => words.push(format!("{subject}: no node is primary now")),
        [] | [_] => {}
        _ => words.push(format!(
            "{subject}: {} are primary at once",
            active.join(" and ")
        )),
    }
    let newest = lines
        .iter()
        .map(|(_, line)| &line.head)
        .max_by_key(|head| head.revision);
    for (node, line) in &lines {
        let is_other = newest.is_some_and(|newest| {
            newest.revision == line.head.revision && newest.digest != line.head.digest
        });
        if is_other {
            let revision = line.head.revision;
            words.push(format!(
                "{subject}: {node} holds another {revision} than others"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::region::{Doubt, Epoch, Head};
    use crate::model::{Digest, Revision};
    use crate::time::WallMs;

    fn id(text: &str) -> Id {
        Id::new(text).unwrap()
    }

    const FRESH: Duration = Duration::from_secs(15);

    fn heard(node: &str, phase: Phase) -> Heard {
        let subject = SubjectStatus {
            subject: Subject::parse("line3/dev").unwrap(),
            phase,
            epoch: Epoch(5),
            primary: Some((id("eu"), id("eu-1"))),
            next: Some((WallMs::from_unix_ms(1_800_000_000_000), id("au"))),
            head: Head {
                revision: Revision::parse("5-7").unwrap(),
                ..Head::default()
            },
            seal: None,
            is_taken_over_unsealed: false,
            orphans: 0,
        };
        let status = Status {
            node: id(node),
            cluster: Some(id("plant")),
            boot: 1,
            serial: 1,
            wall: WallMs::from_unix_ms(0),
            is_clock_trusted: true,
            record: Some((42, Digest([1; 32]))),
            signer: None,
            has_upstream: false,
            parked: 0,
            subjects: vec![subject],
            peers: Vec::new(),
        };
        Heard {
            node: id(node),
            last: Some((Duration::from_millis(120), status)),
        }
    }

    fn status(node: &mut Heard) -> &mut Status {
        &mut node.last.as_mut().unwrap().1
    }

    #[test]
    fn nodes_that_agree_give_a_table_and_no_words() {
        let nodes = [heard("eu-1", Phase::Active), heard("au-1", Phase::Replica)];
        assert_eq!(
            table(&nodes),
            [
                "NODE  RECORD  SLOT       PHASE    EPOCH  PRIMARY  HEAD  NEXT",
                "eu-1  v42     line3/dev  active   5      eu       5-7   au at 2027-01-15T08:00:00Z",
                "au-1  v42     line3/dev  replica  5      eu       5-7   au at 2027-01-15T08:00:00Z",
            ]
        );
        assert_eq!(disagreements(&nodes, FRESH), [""; 0]);
    }

    #[test]
    fn a_silent_node_is_a_line_and_a_word() {
        let silent = Heard {
            node: id("au-1"),
            last: None,
        };
        let nodes = [heard("eu-1", Phase::Replica), silent];
        assert_eq!(
            table(&nodes)[2],
            "au-1  -       -          -        -      -        -     -"
        );
        assert_eq!(disagreements(&nodes, FRESH), ["au-1 does not answer"]);
    }

    #[test]
    fn what_was_said_long_ago_is_shown_and_counts_for_nothing() {
        let mut old = heard("au-1", Phase::Active);
        if let Some((age, _)) = &mut old.last {
            *age = Duration::from_secs(90);
        }
        let nodes = [heard("eu-1", Phase::Active), old];
        assert!(table(&nodes)[2].starts_with("au-1  v42"));
        assert_eq!(
            disagreements(&nodes, FRESH),
            ["au-1 has not answered for 1 min"]
        );
    }

    #[test]
    fn a_node_that_says_nothing_of_slots_has_a_line() {
        let mut bare = heard("au-1", Phase::Replica);
        status(&mut bare).subjects.clear();
        assert!(table(&[bare])[1].starts_with("au-1  v42"));
    }

    #[test]
    fn what_differs_is_said() {
        let mut old = heard("au-1", Phase::Active);
        status(&mut old).record = Some((41, Digest([1; 32])));
        let mut other = heard("us-1", Phase::Unknown(Doubt::Conflict));
        status(&mut other).record = Some((42, Digest([2; 32])));
        status(&mut other).is_clock_trusted = false;
        status(&mut other).subjects[0].orphans = 2;
        status(&mut other).subjects[0].head.digest = Digest([9; 32]);
        let nodes = [other, heard("eu-1", Phase::Active), old];
        let words = disagreements(&nodes, FRESH).join("\n");
        for expected in [
            "global state must be corrected: au-1 holds v41, the newest is v42",
            "us-1 holds another v42; sign a higher one",
            "line3/dev: eu-1 and au-1 are primary at once",
            "line3/dev: us-1 holds another 5-7 than others",
            "us-1: its clock is not to be trusted",
            "us-1 refuses writes of line3/dev: state_conflict",
            "us-1 keeps 2 orphans",
        ] {
            assert!(words.contains(expected), "{expected} in\n{words}");
        }
    }

    #[test]
    fn nobody_at_all_is_worth_a_word() {
        let nodes = [heard("eu-1", Phase::Hold)];
        assert_eq!(
            disagreements(&nodes, FRESH),
            ["line3/dev: no node is primary now"]
        );
    }
}
