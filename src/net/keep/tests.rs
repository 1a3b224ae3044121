//! The state folder under a driver: restarts, broken files, broken disks, power cuts.

use super::*;
use crate::limits::Limits;
use crate::model::{Past, SlotKey, Source};
use crate::net::connection::Door;
use crate::net::disk::crash_tests::Model;
use crate::net::disk::scratch::Scratch;
use crate::net::disk::{Failing, write_on};
use crate::net::notify::Notify;
use crate::net::rig::{Rig, snapshot};
use crate::net::spool;
use crate::state::spool::{Outcome, Spool};
use rustix::io::Errno;
use std::fs;

const LIMITS: &Limits = &Limits::PRODUCTION;
const FIRST: SlotIndex = SlotIndex(0);

/// A relay with this state folder, and how its start went.
fn start(folder: &Path) -> (Rig, Result<(), DiskError>) {
    let folder = folder.to_owned();
    let rig = Rig::with(LIMITS.clone(), Notify::default(), |config| {
        config.state_dir = Some(folder)
    });
    let (done, started) = smol::channel::bounded(1);
    let driver = rig.driver.clone();
    rig.driver.spawn(async move {
        let outcome = open(&driver, Use::Serve).await;
        done.try_send(outcome).unwrap();
    });
    rig.settle();
    let outcome = started.try_recv().unwrap();
    (rig, outcome)
}

fn started(folder: &Path) -> Rig {
    let (rig, outcome) = start(folder);
    outcome.unwrap();
    rig
}

/// Ends a relay: its folder is free again.
fn stop(rig: Rig) {
    drop(rig.driver.keep.take());
}

fn publish(rig: &Rig, marker: &str, source: Source) {
    rig.driver.publish(FIRST, Rc::new(snapshot(marker)), source);
    rig.settle();
}

/// What a client is given: where it came from, and whether it has this marker.
fn serves(rig: &Rig, source: Source, marker: &str) -> bool {
    let mut client = rig.connect(Door::Sdk);
    let request = b"GET /apprapp/feature/v1/instances/g-1/config?action=sdkConfig\
        &environment_id=e&collection_id=c HTTP/1.1\r\nHost: r\r\nAuthorization: secret\r\n\r\n";
    let (answer, _) = rig.exchange(&mut client, request);
    answer.starts_with("HTTP/1.1 200 ")
        && answer
            .to_ascii_lowercase()
            .contains(&format!("x-config-source: {}\r\n", source.as_str()))
        && answer.contains(&format!("\"{marker}\""))
}

fn status(rig: &Rig) -> crate::wire::status::Status {
    crate::net::admin::status::collect(&rig.driver)
}

#[test]
fn what_was_served_is_served_after_a_restart() {
    let scratch = Scratch::new("keep-restart");
    let rig = started(scratch.folder());
    publish(&rig, "one", Source::Seed);
    publish(&rig, "two", Source::Primary);
    stop(rig);
    let rig = started(scratch.folder());
    assert!(serves(&rig, Source::Cache, "two"));
    publish(&rig, "one", Source::Backup);
    assert!(serves(&rig, Source::Cache, "two"), "older known digest");
    publish(&rig, "one", Source::Seed);
    assert!(serves(&rig, Source::Cache, "two"), "seen before");
    publish(&rig, "three", Source::Seed);
    assert!(serves(&rig, Source::Seed, "three"), "new");
}

#[test]
fn a_normal_start_remembers_and_serves_nothing() {
    let scratch = Scratch::new("keep-normal");
    let rig = started(scratch.folder());
    publish(&rig, "one", Source::Primary);
    publish(&rig, "two", Source::Primary);
    stop(rig);
    let folder = scratch.folder().to_owned();
    let rig = Rig::with(LIMITS.clone(), Notify::default(), |config| {
        config.state_dir = Some(folder)
    });
    let driver = rig.driver.clone();
    rig.driver
        .spawn(async move { open(&driver, Use::Remember).await.unwrap() });
    rig.settle();
    assert!(
        rig.driver
            .state
            .borrow()
            .slots
            .of(FIRST)
            .unwrap()
            .held
            .is_none()
    );
    publish(&rig, "two", Source::Primary);
    publish(&rig, "one", Source::Backup);
    assert!(serves(&rig, Source::Primary, "two"));
}

#[test]
fn equal_content_writes_nothing() {
    let scratch = Scratch::new("keep-equal");
    let rig = started(scratch.folder());
    publish(&rig, "one", Source::Primary);
    let path = scratch.path("live/c@e.slot");
    fs::remove_file(&path).unwrap();
    for source in [Source::Primary, Source::Backup, Source::Primary] {
        publish(&rig, "one", source);
    }
    assert!(!path.exists());
    publish(&rig, "two", Source::Primary);
    assert!(path.exists());
}

/// A writer for each step and error: a function, as the production one is.
fn failing<const STEP: usize, const ERRNO: usize>(
    path: &Path,
    bytes: &[u8],
) -> Result<(), DiskError> {
    let errno = [Errno::IO, Errno::NOSPC, Errno::ROFS][ERRNO];
    let mut medium = Failing(Failing::STEPS[STEP], errno);
    write_on(&mut medium, path, bytes, Access::Private)
}

const BROKEN: [[Writer; 3]; 5] = [
    [failing::<0, 0>, failing::<0, 1>, failing::<0, 2>],
    [failing::<1, 0>, failing::<1, 1>, failing::<1, 2>],
    [failing::<2, 0>, failing::<2, 1>, failing::<2, 2>],
    [failing::<3, 0>, failing::<3, 1>, failing::<3, 2>],
    [failing::<4, 0>, failing::<4, 1>, failing::<4, 2>],
];

#[test]
fn a_disk_that_fails_at_any_step_costs_one_line_and_nothing_that_is_served() {
    for (step, writers) in Failing::STEPS.into_iter().zip(BROKEN) {
        for broken in writers {
            let scratch = Scratch::new("keep-broken");
            let rig = started(scratch.folder());
            publish(&rig, "one", Source::Primary);
            let good = std::mem::replace(&mut rig.driver.keep.borrow_mut().write, broken);
            rig.lines.take();
            publish(&rig, "two", Source::Primary);
            for _ in 0..20 {
                rig.advance(LIMITS.save_retry_max);
            }
            publish(&rig, "three", Source::Primary);
            rig.advance(LIMITS.save_retry_max);
            assert!(serves(&rig, Source::Primary, "three"), "{step:?}");
            let lines = rig.lines.take();
            assert_eq!(lines.lines().count(), 1, "{step:?}: {lines}");
            assert!(lines.contains("the state is not kept"), "{lines}");
            let told = status(&rig);
            assert!(
                told.problems[1].contains("the state has not been kept"),
                "{told:?}"
            );
            assert_eq!(told.state_dir.unwrap().waiting, 1);
            let names: Vec<String> = fs::read_dir(scratch.path("live"))
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            assert_eq!(names, ["c@e.slot"], "{step:?}");

            rig.driver.keep.borrow_mut().write = good;
            rig.advance(LIMITS.save_retry_max);
            assert!(rig.lines.take().contains("the state is kept again"));
            assert_eq!(status(&rig).state_dir.unwrap().problem, None);
            stop(rig);
            assert!(serves(&started(scratch.folder()), Source::Cache, "three"));
        }
    }
}

#[test]
fn a_folder_that_is_missing_costs_the_memory_and_no_start() {
    let scratch = Scratch::new("keep-missing");
    let rig = started(&scratch.path("nowhere"));
    publish(&rig, "one", Source::Seed);
    rig.advance(LIMITS.save_retry_max);
    assert!(serves(&rig, Source::Seed, "one"));
    let lines = rig.lines.take();
    assert_eq!(lines.matches("the state is not kept").count(), 1, "{lines}");
    assert!(
        status(&rig)
            .problems
            .iter()
            .any(|problem| problem.contains("nowhere"))
    );
    assert!(scratch.names().is_empty());
}

/// What was on a card before it was taken out: the seed "one", and "two" of the primary.
fn taken_out(scratch: &Scratch) {
    fs::create_dir(scratch.path("card")).unwrap();
    let rig = started(&scratch.path("card"));
    publish(&rig, "one", Source::Seed);
    publish(&rig, "two", Source::Primary);
    stop(rig);
    fs::rename(scratch.path("card"), scratch.path("out")).unwrap();
}

#[test]
fn a_folder_that_comes_late_is_used_as_if_it_had_been_there() {
    for (seed, source, served) in [
        (None, Source::Cache, "two"),
        (Some("one"), Source::Cache, "two"),
        (Some("three"), Source::Seed, "three"),
    ] {
        let scratch = Scratch::new("keep-late");
        taken_out(&scratch);
        let rig = started(&scratch.path("card"));
        let driver = rig.driver.clone();
        rig.driver.spawn(async move {
            spool::start(&driver, None, async |_, _| Outcome::Later(None)).await;
        });
        if let Some(seed) = seed {
            publish(&rig, seed, Source::Seed);
        }
        for _ in 0..20 {
            rig.advance(LIMITS.save_retry_max);
        }
        let lines = rig.lines.take();
        assert_eq!(lines.matches("the state is not kept").count(), 1, "{lines}");
        assert_eq!(lines.lines().count(), 1, "{lines}");
        fs::rename(scratch.path("out"), scratch.path("card")).unwrap();
        rig.advance(LIMITS.save_retry_max);
        assert!(serves(&rig, source, served), "{seed:?}");
        let lines = rig.lines.take();
        assert_eq!(
            lines.matches("the state is kept again").count(),
            1,
            "{lines}"
        );
        assert!(lines.contains("events are kept on the disk"), "{lines}");
        let told = status(&rig).state_dir.unwrap();
        assert_eq!((told.problem, told.waiting), (None, 0));
        let state = rig.driver.state.borrow();
        assert!(!state.events.spool().is_some_and(Spool::is_without_disk));
        drop(state);
        // A backup's step back is known for one again.
        publish(&rig, "one", Source::Backup);
        assert!(serves(&rig, source, served), "{seed:?}");
        stop(rig);
        assert!(serves(
            &started(&scratch.path("card")),
            Source::Cache,
            served
        ));
    }
}

#[test]
fn a_file_that_cannot_be_read_is_left_alone_until_it_can() {
    let scratch = Scratch::new("keep-unreadable");
    let rig = started(scratch.folder());
    publish(&rig, "one", Source::Primary);
    publish(&rig, "two", Source::Primary);
    stop(rig);
    let (path, good) = (scratch.path("live/c@e.slot"), scratch.path("good"));
    fs::rename(&path, &good).unwrap();
    // Whoever opens this gets an error of the system, root as well.
    std::os::unix::fs::symlink(&path, &path).unwrap();
    let rig = started(scratch.folder());
    publish(&rig, "three", Source::Seed);
    let second = Rc::new(snapshot("other"));
    rig.driver.publish(SlotIndex(1), second, Source::Seed);
    for _ in 0..20 {
        rig.advance(LIMITS.save_retry_max);
    }
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    assert!(
        scratch.path("live/c@f.slot").exists(),
        "it holds up no other"
    );
    assert!(serves(&rig, Source::Seed, "three"));
    let lines = rig.lines.take();
    let told: Vec<&str> = lines
        .lines()
        .filter(|line| line.contains("c@e.slot"))
        .collect();
    assert!(told.len() == 1 && told[0].contains("left alone"), "{lines}");
    let told = status(&rig).state_dir.unwrap();
    assert!(told.problem.unwrap().contains("c@e.slot"));
    assert_eq!((told.waiting, told.bad_files.len()), (1, 0));

    fs::remove_file(&path).unwrap();
    fs::rename(&good, &path).unwrap();
    rig.advance(LIMITS.save_retry_max);
    assert!(
        serves(&rig, Source::Seed, "three"),
        "it came after what was kept"
    );
    publish(&rig, "one", Source::Backup);
    assert!(
        serves(&rig, Source::Seed, "three"),
        "what was kept is remembered"
    );
    assert_eq!(status(&rig).state_dir.unwrap().problem, None);
    stop(rig);
    assert!(serves(&started(scratch.folder()), Source::Cache, "three"));
}

#[test]
fn nothing_is_written_into_a_folder_that_took_the_place_of_ours() {
    let scratch = Scratch::new("keep-replaced");
    taken_out(&scratch);
    fs::create_dir(scratch.path("card")).unwrap();
    let rig = started(&scratch.path("card"));
    publish(&rig, "three", Source::Seed);
    // The card is mounted over the empty folder.
    fs::rename(scratch.path("card"), scratch.path("below")).unwrap();
    fs::rename(scratch.path("out"), scratch.path("card")).unwrap();
    rig.lines.take();
    publish(&rig, "four", Source::Primary);
    let lines = rig.lines.take();
    assert!(lines.contains("another took its place"), "{lines}");
    rig.advance(LIMITS.save_retry_first);
    rig.advance(LIMITS.save_retry_first);
    assert!(rig.lines.take().contains("the state is kept again"));
    publish(&rig, "two", Source::Backup);
    assert!(
        serves(&rig, Source::Primary, "four"),
        "what the card knew is known"
    );
    let (_, second) = start(&scratch.path("card"));
    assert_eq!(second.unwrap_err().problem, Problem::Taken);
    stop(rig);
    assert!(serves(
        &started(&scratch.path("card")),
        Source::Cache,
        "four"
    ));
}

#[test]
fn a_folder_that_another_relay_uses_ends_the_start() {
    let scratch = Scratch::new("keep-taken");
    let first = started(scratch.folder());
    let (_, outcome) = start(scratch.folder());
    let error = outcome.unwrap_err();
    assert_eq!(error.problem, Problem::Taken);
    assert!(
        error
            .to_string()
            .contains("live: another relay is running with it")
    );
    stop(first);
    assert_eq!(start(scratch.folder()).1, Ok(()));
}

#[test]
fn files_that_cannot_be_used_are_set_aside_and_never_pile_up() {
    let scratch = Scratch::new("keep-bad");
    let rig = started(scratch.folder());
    publish(&rig, "one", Source::Primary);
    stop(rig);
    let path = scratch.path("live/c@e.slot");
    let whole = fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() - 40] ^= 4;
    let half = whole[..whole.len() / 2].to_vec();
    for bad in [vec![0; whole.len()], half, flipped, Vec::new()] {
        fs::write(&path, &bad).unwrap();
        let rig = started(scratch.folder());
        assert!(rig.lines.take().contains("c@e.slot.bad: not used"));
        assert_eq!(status(&rig).state_dir.unwrap().bad_files, ["c@e.slot.bad"]);
        assert_eq!(fs::read(scratch.path("live/c@e.slot.bad")).unwrap(), bad);
        assert!(!path.exists());
        publish(&rig, "two", Source::Seed);
        assert!(path.exists() && serves(&rig, Source::Seed, "two"));
        stop(rig);
    }
    assert_eq!(fs::read_dir(scratch.path("live")).unwrap().count(), 2);
}

#[test]
fn files_of_other_slots_are_left_alone() {
    let scratch = Scratch::new("keep-others");
    fs::create_dir(scratch.path("live")).unwrap();
    let (other, left) = ("live/gone@e.slot", "live/.c@e.slot.staffetta-tmp");
    fs::write(scratch.path(other), "anything").unwrap();
    fs::write(scratch.path(left), "half").unwrap();
    let rig = started(scratch.folder());
    assert_eq!(fs::read(scratch.path(other)).unwrap(), b"anything");
    assert!(!scratch.path(left).exists());
    assert_eq!(rig.lines.take(), "");
}

#[test]
fn a_power_cut_at_any_moment_leaves_a_whole_record_that_is_not_too_old() {
    let slot = SlotKey::parse("c/e").unwrap();
    let folder = Path::new("/state/live");
    let path = folder.join(wire::file_name(&slot));
    let records: Vec<Vec<u8>> = (1..=4)
        .map(|number| {
            let snapshot = snapshot(&number.to_string());
            wire::encode(&wire::Record {
                slot: slot.clone(),
                digest: snapshot.digest,
                source: Source::Primary,
                saved_at: crate::time::Wall::from_unix(number),
                past: Past {
                    adopted: vec![(snapshot.digest, Source::Primary)],
                    ..Past::default()
                },
                document: snapshot.json,
            })
        })
        .collect();
    for failing in Failing::STEPS.map(Some).into_iter().chain([None]) {
        let mut model = Model::default();
        model.make_folder(folder).unwrap();
        for (number, record) in records.iter().enumerate() {
            model.failing = failing.filter(|_| number == 1);
            let outcome = model.write(&path, record);
            assert_eq!(outcome.is_err(), number == 1 && failing.is_some());
        }
        for (acknowledged, found) in model.reboots() {
            let Some(bytes) = found.get(&path) else {
                assert_eq!(acknowledged, 0, "{failing:?}");
                continue;
            };
            let (record, _) = wire::decode(bytes, &slot, LIMITS).unwrap();
            let number = record.saved_at.as_unix();
            assert!(
                number >= acknowledged as u64,
                "{failing:?}: {number} {acknowledged}"
            );
        }
    }
}
