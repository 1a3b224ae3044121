//! The seeds that ship: the demo gives four good snapshots, and each bad one is refused with the
//! message that `seeds/bad/README.md` promises.
//!
//! Reads files of the repository only; needs no network and starts nothing.

use staffetta::limits::Limits;
use staffetta::model::{SlotKey, Snapshot};
use staffetta::wire::document;
use staffetta::wire::seed::Seed;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn seeds() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds")
}

fn snapshot(bytes: &[u8], slot: &str) -> Result<Snapshot, String> {
    let limits = Limits::PRODUCTION;
    let key = SlotKey::parse(slot).expect("a slot key");
    Seed::parse(bytes, &limits)
        .and_then(|seed| seed.snapshot(&key, &limits))
        .map_err(|error| error.to_string())
}

/// File name and message of each row of the table.
fn promised() -> Vec<(String, String)> {
    let readme = fs::read_to_string(seeds().join("bad/README.md")).expect("the table");
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let file = cells.next()?.trim().to_string();
        let message = cells.next()?.trim().to_string();
        file.ends_with(".json").then_some((file, message))
    };
    readme.lines().filter_map(row).collect()
}

#[test]
fn every_bad_seed_is_refused_with_its_message() {
    let promised = promised();
    let mut wrong = Vec::new();
    for (file, message) in &promised {
        let bytes = fs::read(seeds().join("bad").join(file)).expect(file);
        match snapshot(&bytes, "payments/prod") {
            Ok(_) => wrong.push(format!("{file}: was taken")),
            Err(error) if error.contains(message) && !error.contains('\n') => {}
            Err(error) => wrong.push(format!(
                "{file}:\n  promised: {message}\n  found:    {error}"
            )),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        promised.len() > 60,
        "only {} rows were read",
        promised.len()
    );
}

#[test]
fn the_table_and_the_folder_hold_the_same_files() {
    let listed: BTreeSet<String> = promised().into_iter().map(|(file, _)| file).collect();
    let found: BTreeSet<String> = fs::read_dir(seeds().join("bad"))
        .expect("the folder")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("a name")
        })
        .filter(|file| file != "README.md")
        .collect();
    assert_eq!(listed, found);
}

#[test]
fn the_demo_gives_four_snapshots() {
    let bytes = fs::read(seeds().join("demo.json")).expect("the demo seed");
    let mut digests = BTreeSet::new();
    for (slot, features, properties, segments) in [
        ("inventory/dev", 8, 7, 5),
        ("inventory/prod", 7, 7, 4),
        ("payments/dev", 7, 8, 4),
        ("payments/prod", 7, 8, 4),
    ] {
        let snapshot = snapshot(&bytes, slot).expect(slot);
        let counts = snapshot.counts;
        let found = (counts.features, counts.properties, counts.segments);
        assert_eq!(found, (features, properties, segments), "{slot}");
        assert_eq!(snapshot.rollouts_filled, 0, "{slot}");
        assert!(!document::flat(&snapshot).is_empty(), "{slot}");
        digests.insert(snapshot.digest);
    }
    assert_eq!(digests.len(), 4);
}
