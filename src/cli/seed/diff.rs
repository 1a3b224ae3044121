//! `seed diff OLD NEW`: what a new seed changes, before it is carried to a site.
//!
//! Compares what the relay would serve, slot by slot, and not the files: an item that no slot gets
//! is no difference. Like `diff`, it ends with 0 when all is the same and with 1 when it is not;
//! with 65 when one of the files, or a slot of it, would be refused.

use super::COMMAND;
use crate::cli::{Exit, UsageError, complain, explain, say, slot_value};
use crate::limits::Limits;
use crate::model::{Counts, SlotKey, Snapshot};
use crate::net::disk::read_bounded;
use crate::wire::difference::{What, changes};
use crate::wire::seed::Seed;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Reads the rest of the command line and compares.
pub fn run(parser: &mut lexopt::Parser) -> Result<Exit, UsageError> {
    use lexopt::prelude::*;
    let mut files = Vec::new();
    let mut slots = BTreeSet::new();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("slot") => {
                slots.insert(slot_value(parser)?);
            }
            Short('h') | Long("help") => return Ok(explain(&COMMAND)),
            Value(file) if files.len() < 2 => files.push(PathBuf::from(file)),
            other => return Err(other.unexpected().into()),
        }
    }
    let [old, new] = <[PathBuf; 2]>::try_from(files).map_err(|_| UsageError::Missing("OLD NEW"))?;
    let mut report = Report::default();
    report.compare([&old, &new], &slots, &Limits::PRODUCTION);
    Ok(report.print())
}

/// What came out, as it is printed.
#[derive(Default)]
struct Report {
    lines: Vec<String>,
    /// Why not everything could be compared.
    refused: Vec<String>,
    differing: usize,
    compared: usize,
}

impl Report {
    /// Compares two files, all slots of either or those that are named.
    fn compare(&mut self, files: [&Path; 2], named: &BTreeSet<SlotKey>, limits: &Limits) {
        let bytes = files.map(|file| self.read(file, limits));
        let [Some(old), Some(new)] = &bytes else {
            return;
        };
        let [old_file, new_file] = files;
        let (old, new) = (
            self.parse(old_file, old, limits),
            self.parse(new_file, new, limits),
        );
        let (Some(old), Some(new)) = (old, new) else {
            return;
        };
        let (old_slots, new_slots) = (old.slots(), new.slots());
        let all: BTreeSet<SlotKey> = match named.is_empty() {
            true => old_slots.union(&new_slots).cloned().collect(),
            false => named.clone(),
        };
        for slot in &all {
            let (is_old, is_new) = (old_slots.contains(slot), new_slots.contains(slot));
            // A slot that was asked for and is nowhere is refused in the reader's words.
            let is_nowhere = !is_old && !is_new;
            let mut find = |seed: &Seed<'_>, file, is_there| match is_there || is_nowhere {
                true => self.snapshot(seed, file, slot, limits).map(Some),
                false => Some(None),
            };
            let found = (find(&old, old_file, is_old), find(&new, new_file, is_new));
            if let (Some(old), Some(new)) = found {
                self.slot(slot, old.as_ref(), new.as_ref(), limits);
            }
        }
    }

    fn read(&mut self, file: &Path, limits: &Limits) -> Option<Vec<u8>> {
        let problem = match read_bounded(file, limits.seed_bytes_max) {
            Ok(Some(bytes)) => return Some(bytes),
            Ok(None) => format!("{}: no such file", file.display()),
            Err(error) => error.to_string(),
        };
        self.refused.push(problem);
        None
    }

    fn parse<'a>(&mut self, file: &Path, bytes: &'a [u8], limits: &Limits) -> Option<Seed<'a>> {
        let refuse = |error| self.refused.push(format!("{}: {error}", file.display()));
        Seed::parse(bytes, limits).map_err(refuse).ok()
    }

    fn snapshot(
        &mut self,
        seed: &Seed<'_>,
        file: &Path,
        slot: &SlotKey,
        limits: &Limits,
    ) -> Option<Snapshot> {
        let shown = file.display();
        let refuse = |error| self.refused.push(format!("{shown}: {slot}: {error}"));
        seed.snapshot(slot, limits).map_err(refuse).ok()
    }

    fn slot(
        &mut self,
        slot: &SlotKey,
        old: Option<&Snapshot>,
        new: Option<&Snapshot>,
        limits: &Limits,
    ) {
        self.compared += 1;
        match (old, new) {
            (Some(old), Some(new)) => {
                let changes = changes(old, new, limits);
                if changes.is_empty() {
                    return;
                }
                self.differing += 1;
                let count = |wanted: fn(&What) -> bool| {
                    changes.iter().filter(|change| wanted(&change.what)).count()
                };
                self.lines.push(format!(
                    "{slot}: {} added, {} removed, {} changed",
                    count(|what| matches!(what, What::Added)),
                    count(|what| matches!(what, What::Removed)),
                    count(|what| matches!(what, What::Changed(_))),
                ));
                let lines = changes.iter().map(|change| format!("  {change}"));
                self.lines.extend(lines);
            }
            (Some(old), None) => self.whole(slot, "gone", old.counts),
            (None, Some(new)) => self.whole(slot, "new", new.counts),
            (None, None) => {}
        }
    }

    fn whole(&mut self, slot: &SlotKey, word: &str, counts: Counts) {
        self.differing += 1;
        self.lines.push(format!(
            "{slot}: {word}, {} features, {} properties, {} segments",
            counts.features, counts.properties, counts.segments
        ));
    }

    fn print(&self) -> Exit {
        for line in &self.lines {
            say(format_args!("{line}"));
        }
        if self.compared > 0 {
            let (differing, compared) = (self.differing, self.compared);
            say(format_args!("{differing} of {compared} slots differ"));
        }
        for line in &self.refused {
            complain(format_args!("staffetta seed diff: {line}"));
        }
        self.exit()
    }

    fn exit(&self) -> Exit {
        match (self.refused.is_empty(), self.differing) {
            (false, _) => Exit::Refused,
            (true, 0) => Exit::Done,
            (true, _) => Exit::Different,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const DEMO: &str = include_str!("../../../seeds/demo.json");

    /// The demo beside another file, compared.
    fn compare(test: &str, other: &str, slots: &[&str]) -> Report {
        let name = format!("staffetta-diff-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let [old, new] = ["old.json", "new.json"].map(|name| folder.join(name));
        fs::write(&old, DEMO).unwrap();
        fs::write(&new, other).unwrap();
        let slots = slots
            .iter()
            .filter_map(|slot| SlotKey::parse(slot))
            .collect();
        let mut report = Report::default();
        report.compare([&old, &new], &slots, &Limits::PRODUCTION);
        fs::remove_dir_all(&folder).unwrap();
        report
    }

    #[test]
    fn the_same_seed_with_other_white_space_is_the_same() {
        let report = compare("same", &DEMO.replace('\n', "\r\n"), &[]);
        assert_eq!(report.lines, Vec::<String>::new());
        assert_eq!((report.compared, report.exit()), (4, Exit::Done));
    }

    #[test]
    fn a_flag_that_was_turned_off_is_shown_in_its_slots() {
        let at = DEMO.find(r#""feature_id": "fast-checkout""#).unwrap();
        let (head, tail) = DEMO.split_at(at);
        let report = compare(
            "off",
            &format!(
                "{head}{}",
                tail.replacen("\"enabled\": true", "\"enabled\": false", 1)
            ),
            &[],
        );
        assert_eq!(report.exit(), Exit::Different);
        assert!(
            report.lines[0].ends_with(": 0 added, 0 removed, 1 changed"),
            "{:?}",
            report.lines
        );
        assert_eq!(
            report.lines[1],
            "  ~ feature fast-checkout: enabled true -> false"
        );
        let other = compare("slot", DEMO, &["payments/prod"]);
        assert_eq!((other.compared, other.exit()), (1, Exit::Done));
    }

    #[test]
    fn slots_that_come_and_go_are_named_whole() {
        let renamed = DEMO.replace(r#""environment_id": "prod""#, r#""environment_id": "live""#);
        let report = compare("slots", &renamed, &[]);
        assert_eq!(report.lines.len(), 4, "{:?}", report.lines);
        assert!(
            report.lines[0].starts_with("inventory/live: new, 7 features"),
            "{:?}",
            report.lines
        );
        assert!(report.lines[1].starts_with("inventory/prod: gone, "));
        assert_eq!(report.exit(), Exit::Different);
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_its_file() {
        let torn = compare("torn", &DEMO[..1000], &[]);
        assert_eq!((torn.compared, torn.exit()), (0, Exit::Refused));
        assert!(torn.refused[0].contains("new.json: the file ends in the middle"));
        let nowhere = compare("nowhere", DEMO, &["shop/dev"]);
        assert_eq!(nowhere.exit(), Exit::Refused);
        assert!(
            nowhere.refused[0].contains("there is no collection `shop`"),
            "{:?}",
            nowhere.refused
        );
        let mut missing = Report::default();
        let file = Path::new("/nowhere/seed.json");
        missing.compare([file, file], &BTreeSet::new(), &Limits::PRODUCTION);
        assert_eq!(missing.exit(), Exit::Refused);
    }

    #[test]
    fn one_bad_slot_does_not_hide_the_others() {
        let at = DEMO.find(r#""type": "BOOLEAN""#).unwrap();
        let bad = format!(
            "{}{}",
            &DEMO[..at],
            DEMO[at..].replacen("BOOLEAN", "DATE", 1)
        );
        let report = compare("bad", &bad, &[]);
        assert_eq!(report.exit(), Exit::Refused);
        assert!(report.compared > 0 && !report.refused.is_empty());
    }
}
