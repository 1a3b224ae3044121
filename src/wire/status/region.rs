//! Region routing as it is told to people: what this node is for each slot, and who disagrees.
//!
//! Owns the shape of that part of the status, and the judgement about it: what keeps writes from
//! being taken is a problem, and so is what two nodes do not agree about, in the very words that
//! clients read. What is over and cannot be mended (a switch without a seal, content that lost) is
//! a note. Names are those of the record and the configuration.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::words::age_in_words;

/// This node's part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    pub node: String,
    /// Null without a state record.
    pub cluster: Option<String>,
    /// Version of the state record that counts.
    pub record: Option<u64>,
    /// The id of the key that signed it; null for one that nobody signed.
    pub signer: Option<String>,
    /// Why no record can count: what was kept of this node's word is not to be had.
    pub memory_problem: Option<String>,
    /// Why the newest record that was brought does not count.
    pub record_problem: Option<String>,
    /// For how long.
    pub record_problem_s: Option<u64>,
    pub clock_trusted: bool,
    /// Writes that are held back.
    pub parked: usize,
    /// Contents that lost against another node's, and are kept.
    pub orphans: usize,
    /// In the order of the configuration.
    pub subjects: Vec<Subject>,
    /// In the order of the record.
    pub peers: Vec<Peer>,
    /// What has to be corrected, one line for each node.
    pub disagreements: Vec<String>,
}

/// A slot, or the routes of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// `collection/environment`, or `route:name`.
    pub slot: String,
    pub phase: String,
    /// Why nobody knows who is primary; null while that is known.
    pub reason: Option<String>,
    pub epoch: u64,
    /// The primary region and its writer, as this node believes.
    pub primary: Option<String>,
    pub writer: Option<String>,
    /// What this node holds: `epoch-seq`.
    pub head: String,
    /// This term was entered without the word of the writer before.
    pub unsealed_takeover: bool,
}

/// Another node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    pub node: String,
    /// Seconds since it last answered; null while it has not.
    pub heard_s: Option<u64>,
    /// Its clock against ours: positive is ahead.
    pub offset_ms: Option<i64>,
    /// Writes between the two that were refused since the start, by reason.
    pub refusals: BTreeMap<String, u64>,
}

impl Region {
    /// What is wrong, one line each.
    pub(super) fn complaints(&self) -> Vec<String> {
        let mut lines = self.disagreements.clone();
        if let Some(problem) = &self.memory_problem {
            lines.push(format!("no state record counts here: {problem}"));
        } else if self.record.is_none() {
            lines.push(
                "there is no state record: every write is refused until `staffetta region import` \
                 or a peer brings one"
                    .to_owned(),
            );
        }
        if let Some(problem) = &self.record_problem {
            let age = age_in_words(self.record_problem_s.unwrap_or(0));
            lines.push(format!("for {age}, {problem}"));
        }
        if self.record.is_some() {
            lines.extend(self.doubts());
        }
        lines
    }

    /// Which subjects nobody can write, by reason. What passes by itself in a moment is no problem.
    fn doubts(&self) -> impl Iterator<Item = String> {
        let mut doubts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for subject in &self.subjects {
            if let Some(reason) = subject.reason.as_deref().filter(|text| *text != "starting") {
                doubts.entry(reason).or_default().push(&subject.slot);
            }
        }
        doubts.into_iter().map(|(reason, slots)| {
            let reason = reason.replace('_', " ");
            format!("writes are refused, {reason}: {}", slots.join(", "))
        })
    }

    /// What is over, and worth a look.
    pub(super) fn notes(&self) -> Vec<String> {
        let taken = self.subjects.iter().filter(|one| one.unsealed_takeover);
        let taken: Vec<&str> = taken.map(|one| one.slot.as_str()).collect();
        let mut notes = Vec::new();
        if !taken.is_empty() {
            notes.push(format!(
                "this node became primary without the word of the writer before, which may hold \
                 more: {}",
                taken.join(", ")
            ));
        }
        if self.orphans > 0 {
            notes.push(format!(
                "{} contents lost against another node's, and lie in the folder `orphans`",
                self.orphans
            ));
        }
        notes
    }

    /// Short enough for a line: `eu-1 in plant-7, record v42: 3 active, 1 replica, 2 writes held`.
    pub fn in_words(&self) -> String {
        let mut phases: BTreeMap<&str, usize> = BTreeMap::new();
        for subject in &self.subjects {
            *phases.entry(&subject.phase).or_default() += 1;
        }
        let phases = phases.into_iter();
        let mut parts: Vec<String> = phases
            .map(|(phase, count)| format!("{count} {phase}"))
            .collect();
        if self.parked > 0 {
            parts.push(format!("{} writes held", self.parked));
        }
        let record = match (&self.cluster, self.record) {
            (Some(cluster), Some(version)) => format!(" in {cluster}, record v{version}"),
            _ => ", no record".to_owned(),
        };
        format!("{}{record}: {}", self.node, parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(slot: &str, phase: &str, reason: Option<&str>) -> Subject {
        Subject {
            slot: slot.into(),
            phase: phase.into(),
            reason: reason.map(Into::into),
            ..Subject::default()
        }
    }

    fn region() -> Region {
        Region {
            node: "eu-1".into(),
            cluster: Some("plant-7".into()),
            record: Some(42),
            clock_trusted: true,
            subjects: vec![
                subject("c/e", "active", None),
                subject("c/f", "active", None),
                subject("route:orders", "replica", None),
            ],
            ..Region::default()
        }
    }

    #[test]
    fn a_node_that_agrees_has_nothing_to_complain_about() {
        let region = region();
        assert_eq!(
            region.in_words(),
            "eu-1 in plant-7, record v42: 2 active, 1 replica"
        );
        assert!(region.complaints().is_empty() && region.notes().is_empty());
    }

    #[test]
    fn what_must_be_corrected_comes_first_and_word_for_word() {
        let mut region = region();
        let words = "global state must be corrected: this node holds v42, au-1 sent v41";
        region.disagreements.push(words.into());
        region.subjects[0].reason = Some("state_conflict".into());
        region.subjects[2].reason = Some("starting".into());
        let complaints = region.complaints();
        assert_eq!(
            complaints,
            [words, "writes are refused, state conflict: c/e"]
        );
    }

    #[test]
    fn without_a_record_there_is_one_line_and_not_one_for_each_slot() {
        let mut region = region();
        region.record = None;
        region.subjects[0].reason = Some("no_record".into());
        assert_eq!(region.complaints().len(), 1);
        region.memory_problem = Some("live/region.node: damaged".into());
        let complaints = region.complaints();
        assert!(complaints.len() == 1 && complaints[0].contains("damaged"));
    }
}
