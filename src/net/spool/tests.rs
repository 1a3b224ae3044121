//! The spool on a real folder: random lives with crashes that cut what was not synced, and the
//! loops over the rig.

use super::*;
use crate::model::report::{Entry, Latest, Sum};
use crate::net::connection::Door;
use crate::net::disk::scratch::Scratch;
use crate::net::rig::Rig;
use crate::state::spool::Stored;
use crate::state::tally::Batch;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// How often each entry was counted; by its text.
type Totals = BTreeMap<String, u64>;

fn add(totals: &mut Totals, more: &Totals) {
    for (text, count) in more {
        *totals.entry(text.clone()).or_default() += count;
    }
}

fn subtract(totals: &mut Totals, less: &Totals) {
    for (text, count) in less {
        let left = totals.get_mut(text).expect(text);
        *left = left.checked_sub(*count).expect(text);
    }
}

fn totals_of(batch: &Batch) -> Totals {
    let mut totals = Totals::new();
    for entry in &batch.entries {
        let count = entry.sum.as_ref().map_or(1, |sum| sum.count);
        let name = format!("{} {}", batch.envelope, entry.text);
        *totals.entry(name).or_default() += count;
    }
    totals
}

fn entry(number: u64, count: u64) -> Entry {
    let text = format!("\"feature_id\":\"f{number}\",\"entity_id\":null,\"segment_id\":null");
    let latest = Latest {
        moment: None,
        text: "\"t\"".into(),
    };
    let sum = Some(Sum { count, latest });
    Entry {
        text: text.into(),
        sum,
    }
}

const ENVELOPES: [&str; 3] = [
    "\"collection_id\":\"a\",\"environment_id\":\"e\"",
    "\"collection_id\":\"b\",\"environment_id\":\"e\"",
    "\"type\":\"metric_event\"",
];

/// Every file of the folder, by name.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let file = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        (name, fs::read(entry.path()).unwrap())
    };
    entries.map(file).collect()
}

/// A relay's spool through many lives, and the books of what it was given and gave.
struct World<'a> {
    folder: &'a Path,
    bytes_max: u64,
    limits: Limits,
    random: fastrand::Rng,
    now: Instant,
    spool: Spool,
    journal: Journal,
    accepted: Totals,
    delivered: Totals,
    /// Not on the disk yet, and so to be lost with the next crash.
    volatile: Totals,
    /// The same, and being written.
    writing: Totals,
    /// Delivered, and not marked yet: what the next crash repeats.
    unmarked: Vec<Totals>,
    may_be_lost: Totals,
    may_be_repeated: Totals,
}

impl<'a> World<'a> {
    fn new(folder: &'a Path, bytes_max: u64, seed: u64) -> World<'a> {
        let limits = Limits {
            spool_segment_bytes: 8 * 1024,
            spool_window_bytes: 4 * 1024,
            report_bytes_max: 2 * 1024,
            report_entries_max: 7,
            ..Limits::PRODUCTION
        };
        let mut journal = Journal::open(folder, bytes_max, &limits).unwrap().0;
        let now = Instant::from_micros(1);
        World {
            folder,
            bytes_max,
            random: fastrand::Rng::with_seed(seed),
            now,
            spool: Spool::new(Some(journal.stored()), &limits, seed, now),
            journal,
            limits,
            accepted: Totals::new(),
            delivered: Totals::new(),
            volatile: Totals::new(),
            writing: Totals::new(),
            unmarked: Vec::new(),
            may_be_lost: Totals::new(),
            may_be_repeated: Totals::new(),
        }
    }

    fn accept(&mut self) {
        let envelope = ENVELOPES[self.random.usize(..3)];
        let (kind, entry) = match envelope == ENVELOPES[2] {
            true => {
                let text = format!("{{\"n\":{}}}", self.random.u8(..9)).into();
                (ReportKind::Analytics, Entry { text, sum: None })
            }
            false => {
                let (number, count) = (self.random.u64(..60), self.random.u64(1..5));
                (ReportKind::Usage, entry(number, count))
            }
        };
        let totals = totals_of(&Batch {
            kind,
            envelope: envelope.into(),
            entries: vec![entry.clone()],
        });
        add(&mut self.accepted, &totals);
        add(&mut self.volatile, &totals);
        self.spool.accept(kind, &envelope.into(), entry, self.now);
    }

    /// Does what the disk is to do, if anything; may crash in the middle of it.
    fn persist(&mut self, crashes: bool) -> bool {
        let Some(order) = self.spool.poll_persist(self.now) else {
            return false;
        };
        if !crashes && self.random.u8(..20) == 0 {
            let stored = self.journal.stored();
            self.spool
                .handle_disk_failure("no space".into(), stored, self.now);
            return true;
        }
        let before = files(self.folder);
        let kept = match order {
            Persist::Append => {
                for batch in self.spool.appending() {
                    add(&mut self.writing, &totals_of(batch));
                }
                subtract(&mut self.volatile, &self.writing);
                let records: Vec<Record> = self.spool.appending().iter().map(record).collect();
                self.journal.append(&records).map(|()| Kept::Appended)
            }
            Persist::Read => self.journal.read().map(Kept::Read),
            Persist::Mark(done) => self.journal.mark(done).map(|()| Kept::Marked),
            Persist::Finish => self.journal.finish().map(|()| Kept::Marked),
        };
        if crashes {
            self.cut(&before);
            self.restart();
            return true;
        }
        let stored = self.journal.stored();
        match kept.unwrap() {
            Kept::Appended => {
                self.writing.clear();
                self.spool.handle_appended(stored, self.now);
            }
            Kept::Read(window) => {
                let tally = summed(&window, &self.limits);
                self.spool.handle_read(tally, window.done, stored, self.now);
            }
            Kept::Marked => {
                self.unmarked.clear();
                self.spool.handle_marked(stored, self.now);
            }
        }
        true
    }

    /// Leaves of the last order what a power cut may leave of it: a part of what was written, in
    /// the order of the files, since each is synced before the next is made; the mark before it or
    /// after it; and files that were to be removed.
    fn cut(&mut self, before: &BTreeMap<String, Vec<u8>>) {
        let after = files(self.folder);
        let is_lines = |name: &&String| name.ends_with(".events");
        let grown = after.keys().filter(is_lines);
        let grown: Vec<&String> = grown
            .filter(|name| after.get(*name) != before.get(*name))
            .collect();
        let last = self.random.usize(..=grown.len());
        for (at, name) in grown.into_iter().enumerate().skip(last) {
            let path = self.folder.join(name);
            let synced = before.get(name).map_or(0, Vec::len);
            if at > last && synced == 0 {
                fs::remove_file(path).unwrap();
                continue;
            }
            let bytes = &after[name];
            let left = self.random.usize(synced..=bytes.len());
            let mut torn = bytes[..left].to_vec();
            if self.random.bool() {
                // Space that was allocated and never written.
                torn.resize(left + self.random.usize(..100), 0);
            }
            fs::write(path, torn).unwrap();
        }
        // Files are removed when the mark that allows it is on the disk.
        let is_marked = before.keys().any(|name| !after.contains_key(name));
        if !is_marked && self.random.bool() {
            let path = self.folder.join("delivered");
            match before.get("delivered") {
                Some(old) => fs::write(path, old).unwrap(),
                None => drop(fs::remove_file(path)),
            }
        }
        let removed = before.iter().filter(|(name, _)| !after.contains_key(*name));
        for (name, bytes) in removed {
            if name != "delivered" && self.random.bool() {
                fs::write(self.folder.join(name), bytes).unwrap();
            }
        }
    }

    fn restart(&mut self) {
        for lost in [&mut self.volatile, &mut self.writing] {
            add(&mut self.may_be_lost, &std::mem::take(lost));
        }
        let is_marking_late = self.spool.disk_problem().is_some();
        assert!(
            self.unmarked.len() <= 1 || is_marking_late,
            "more than one batch"
        );
        for batch in std::mem::take(&mut self.unmarked) {
            add(&mut self.may_be_repeated, &batch);
        }
        let opened = Journal::open(self.folder, self.bytes_max, &self.limits);
        self.journal = opened.unwrap().0;
        let seed = self.random.u64(..);
        let stored = Some(self.journal.stored());
        self.spool = Spool::new(stored, &self.limits, seed, self.now);
    }

    /// Posts a batch, if one is due.
    fn post(&mut self, outcome: Outcome, crashes: bool) -> bool {
        let Some((id, batch)) = self.spool.poll_send(self.now) else {
            return false;
        };
        assert!(batch.entries.len() <= self.limits.report_entries_max);
        let totals = totals_of(batch);
        let is_delivered = matches!(outcome, Outcome::Delivered | Outcome::Refused);
        if is_delivered {
            add(&mut self.delivered, &totals);
        }
        if crashes {
            if is_delivered {
                self.unmarked.push(totals);
            }
            self.restart();
            return true;
        }
        let unmarked = self.spool.deliveries().unmarked_batches;
        self.spool.handle_sent(id, outcome, self.now);
        if self.spool.deliveries().unmarked_batches > unmarked {
            self.unmarked.push(totals);
        } else if is_delivered {
            // It went from memory: what is no longer there cannot be lost.
            subtract(&mut self.volatile, &totals);
        }
        true
    }

    fn live(&mut self, steps: usize, crash_chance: u8) {
        for _ in 0..steps {
            let crashes = self.random.u8(..100) < crash_chance;
            match self.random.u8(..10) {
                0..5 => (0..self.random.usize(1..8)).for_each(|_| self.accept()),
                5..7 => drop(self.persist(crashes)),
                7..9 => {
                    let outcome = match self.random.u8(..10) {
                        0 => Outcome::Later(None),
                        1 => Outcome::Refused,
                        2 => Outcome::Denied,
                        _ => Outcome::Delivered,
                    };
                    self.post(outcome, crashes);
                }
                _ => {
                    let seconds = self.random.u64(..40);
                    self.now = self.now + Duration::from_secs(seconds);
                }
            }
            assert!(self.spool.memory_bytes() <= self.limits.events_bytes_max);
        }
    }

    /// The upstream takes everything now, until nothing waits.
    fn drain(&mut self) {
        for _ in 0..10_000 {
            let busy = self.persist(false) | self.post(Outcome::Delivered, false);
            if !busy && self.spool.waiting_entries() == 0 {
                return;
            }
            if !busy {
                self.now = self.now + Duration::from_secs(30);
            }
        }
        panic!("{} entries wait for ever", self.spool.waiting_entries());
    }
}

/// Lives that are led: some seconds of a card that syncs slowly.
const LIVES: u64 = 12;

#[test]
fn nothing_is_lost_or_repeated_but_what_a_crash_may() {
    for seed in 0..LIVES {
        let scratch = Scratch::new("spool-lives");
        let crash_chance = if seed % 4 == 0 { 0 } else { 6 };
        let mut world = World::new(scratch.folder(), 16 << 20, seed);
        world.live(400, crash_chance);
        world.drain();
        let none = Totals::new();
        let (lost, repeated) = match crash_chance {
            0 => (&none, &none),
            _ => (&world.may_be_lost, &world.may_be_repeated),
        };
        for (text, accepted) in &world.accepted {
            let of = |totals: &Totals| totals.get(text).copied().unwrap_or(0);
            let delivered = of(&world.delivered);
            assert!(
                delivered + of(lost) >= *accepted && delivered <= accepted + of(repeated),
                "seed {seed}: {text}: {accepted} accepted, {delivered} delivered, \
                 {} may be lost, {} repeated",
                of(lost),
                of(repeated)
            );
        }
        assert_eq!(world.spool.deliveries().dropped_entries, 0, "seed {seed}");
    }
}

#[test]
fn a_full_disk_loses_its_oldest_files_and_counts_them() {
    let scratch = Scratch::new("spool-full");
    let mut world = World::new(scratch.folder(), 64 * 1024, 7);
    for _ in 0..400 {
        (0..50).for_each(|_| world.accept());
        world.now = world.now + Duration::from_secs(1);
        while world.persist(false) {}
        let on_disk: usize = files(world.folder).values().map(Vec::len).sum();
        assert!(on_disk <= 65 * 1024, "{on_disk}");
    }
    let dropped = world.spool.deliveries().dropped_entries;
    assert!(dropped > 0);
    world.drain();
    let (accepted, delivered): (u64, u64) = (
        world.accepted.values().sum(),
        world.delivered.values().sum(),
    );
    // Each entry that was lost stood for a count of one at least.
    assert!(delivered > 0 && delivered + dropped <= accepted);
    for (text, delivered) in &world.delivered {
        assert!(*delivered <= world.accepted[text], "{text}");
    }
}

/// A journal with `batches` lines of ten entries, and its limits.
fn journal(folder: &Path, batches: u64) -> (Journal, Limits) {
    let limits = Limits {
        spool_segment_bytes: 4 * 1024,
        spool_window_bytes: 1,
        ..Limits::PRODUCTION
    };
    let mut journal = Journal::open(folder, 1 << 20, &limits).unwrap().0;
    for batch in 0..batches {
        journal.append(&[ten(batch)]).unwrap();
    }
    (journal, limits)
}

fn ten(batch: u64) -> Record {
    record(&Batch {
        kind: ReportKind::Usage,
        envelope: ENVELOPES[0].into(),
        entries: (0..10)
            .map(|number| entry(batch * 10 + number, 1))
            .collect(),
    })
}

#[test]
fn a_line_that_cannot_be_read_costs_the_rest_of_its_file_only() {
    let scratch = Scratch::new("spool-damage");
    let (mut journal, _) = journal(scratch.folder(), 20);
    let names: Vec<String> = files(scratch.folder()).into_keys().collect();
    assert!(names.len() >= 3, "{names:?}");
    let second = scratch.path(&names[1]);
    let mut bytes = fs::read(&second).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&second, bytes).unwrap();
    let mut read = 0;
    let mut lost = 0;
    loop {
        let window = journal.read().unwrap();
        let stored = journal.stored();
        lost += stored.lost;
        read += window.bodies.len() as u64;
        if stored.entries == 0 {
            break;
        }
        journal.finish().unwrap();
    }
    assert!(lost > 0 && lost % 10 == 0);
    assert_eq!(read * 10 + lost, 200);
}

#[test]
fn a_torn_end_is_cut_off_and_told_once() {
    let scratch = Scratch::new("spool-torn");
    let (_, limits) = journal(scratch.folder(), 3);
    let (name, bytes) = files(scratch.folder()).pop_first().unwrap();
    fs::write(scratch.path(&name), &bytes[..bytes.len() - 1]).unwrap();
    let (mut journal, repairs) = Journal::open(scratch.folder(), 1 << 20, &limits).unwrap();
    assert_eq!(repairs.len(), 1, "{repairs:?}");
    assert!(repairs[0].contains("torn line"), "{repairs:?}");
    assert_eq!(journal.stored().entries, 20);
    journal.append(&[ten(9)]).unwrap();
    let (mut journal, repairs) = Journal::open(scratch.folder(), 1 << 20, &limits).unwrap();
    assert!(repairs.is_empty(), "{repairs:?}");
    assert_eq!(journal.stored().entries, 30);
}

#[test]
fn a_smaller_bound_costs_nothing_that_was_written_before() {
    let scratch = Scratch::new("spool-smaller");
    let limits = Limits::PRODUCTION;
    let mut journal = Journal::open(scratch.folder(), 8 << 20, &limits).unwrap().0;
    let mut batches = 0;
    while journal.stored().bytes < limits.spool_segment_bytes as u64 * 3 / 4 {
        let records: Vec<Record> = (batches..batches + 20).map(ten).collect();
        journal.append(&records).unwrap();
        batches += 20;
    }
    assert_eq!(files(scratch.folder()).len(), 1);
    let (mut journal, repairs) = Journal::open(scratch.folder(), 64 << 10, &limits).unwrap();
    assert!(repairs.is_empty(), "{repairs:?}");
    assert_eq!(journal.stored().entries, batches * 10);
}

#[test]
fn a_mark_that_cannot_be_read_delivers_again_and_is_told() {
    let scratch = Scratch::new("spool-mark");
    let (mut journal, limits) = journal(scratch.folder(), 3);
    journal.read().unwrap();
    journal.finish().unwrap();
    assert_eq!(journal.stored().entries, 20);
    let (mut journal, _) = Journal::open(scratch.folder(), 1 << 20, &limits).unwrap();
    assert_eq!(journal.stored().entries, 20);
    for bad in [&b""[..], &[0; 200], &[b'x'; 2_000]] {
        fs::write(scratch.path("delivered"), bad).unwrap();
        let (mut journal, repairs) = Journal::open(scratch.folder(), 1 << 20, &limits).unwrap();
        assert_eq!((journal.stored().entries, repairs.len()), (30, 1));
    }
}

#[test]
fn an_append_that_fails_leaves_nothing_behind() {
    let scratch = Scratch::new("spool-append");
    let (mut journal, limits) = journal(scratch.folder(), 3);
    let before = journal.stored();
    let records: Vec<Record> = (0..20).map(ten).collect();
    // The name of the next file but one is taken by a folder.
    let next = files(scratch.folder()).len();
    let mut probe = Journal::open(scratch.folder(), 1 << 20, &limits).unwrap().0;
    probe.append(&records).unwrap();
    let names: Vec<String> = files(scratch.folder()).into_keys().collect();
    for name in &names[next..] {
        fs::remove_file(scratch.path(name)).unwrap();
    }
    let newest = scratch.path(&names[next - 1]);
    let file = fs::OpenOptions::new().write(true).open(&newest).unwrap();
    file.set_len(before.bytes).unwrap();
    fs::create_dir(scratch.path(&names[next + 1])).unwrap();

    let error = journal.append(&records).unwrap_err();
    assert!(error.to_string().starts_with("cannot create"), "{error}");
    assert_eq!(journal.stored(), before);
    fs::remove_dir(scratch.path(&names[next + 1])).unwrap();
    let left: Vec<String> = files(scratch.folder()).into_keys().collect();
    assert_eq!(left, names[..next]);
    journal.append(&records).unwrap();
    let expected = before.entries + 200;
    assert_eq!(journal.stored().entries, expected);
    let mut opened = Journal::open(scratch.folder(), 1 << 20, &limits).unwrap().0;
    assert_eq!(opened.stored().entries, expected);
}

/// What an upstream was sent, and how it answers.
#[derive(Default)]
struct Upstream {
    is_away: bool,
    refuses: Option<&'static str>,
    totals: Totals,
    posts: usize,
}

fn starts(rig: &Rig, folder: &Path, upstream: &Rc<RefCell<Upstream>>) {
    let place = Place {
        folder: folder.to_path_buf(),
        bytes_max: 8 << 20,
    };
    let upstream = upstream.clone();
    let send = async move |kind, body: Vec<u8>| {
        let mut upstream = upstream.borrow_mut();
        let refuses = |text: &str| String::from_utf8_lossy(&body).contains(text);
        if upstream.is_away {
            return Outcome::Later(None);
        }
        if upstream.refuses.is_some_and(refuses) {
            return Outcome::Refused;
        }
        let report = Report::read(kind, &body, &Limits::PRODUCTION).unwrap();
        let mut entries = Vec::new();
        report.each_entry(0, |entry| {
            entries.extend(entry);
            true
        });
        assert!((1..=30).contains(&entries.len()), "{}", entries.len());
        let totals = totals_of(&Batch {
            kind,
            envelope: report.envelope().into(),
            entries,
        });
        add(&mut upstream.totals, &totals);
        upstream.posts += 1;
        Outcome::Delivered
    };
    let driver = rig.driver.clone();
    let is_started = Rc::new(RefCell::new(false));
    let started = is_started.clone();
    rig.driver.spawn(async move {
        start(&driver, Some(place), send).await;
        *started.borrow_mut() = true;
    });
    rig.settle();
    assert!(*is_started.borrow());
}

fn report(rig: &Rig, body: &str) {
    let path = "/apprapp/events/v1/instances/g-1/usage";
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: r\r\nAuthorization: secret\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut client = rig.connect(Door::Sdk);
    let (answer, _) = rig.exchange(&mut client, request.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
}

fn body(numbers: std::ops::Range<u64>) -> String {
    let entries: Vec<Entry> = numbers.map(|number| entry(number, 1)).collect();
    usage::body(ENVELOPES[0], &entries)
}

/// Time goes by until nothing waits.
fn drain(rig: &Rig) {
    for _ in 0..1_000 {
        let waiting = with_spool(&rig.driver, |spool, _| spool.waiting_entries());
        if waiting == Some(0) && is_settled(&rig.driver) {
            return;
        }
        rig.advance(Duration::from_secs(5));
    }
    panic!("something waits for ever");
}

fn is_settled(driver: &Driver) -> bool {
    with_spool(driver, |spool, _| spool.is_settled()) == Some(true)
}

#[test]
fn ten_thousand_entries_survive_an_outage_and_a_kill() {
    let scratch = Scratch::new("spool-kill");
    let folder = scratch.path("events");
    let upstream = Rc::new(RefCell::new(Upstream::default()));
    upstream.borrow_mut().is_away = true;
    let rig = Rig::new(Limits::PRODUCTION);
    starts(&rig, &folder, &upstream);
    // The first is larger than memory: it goes through it in pieces.
    report(&rig, &body(0..1_500));
    for number in 0..85 {
        report(&rig, &body(number * 100..number * 100 + 100));
    }
    rig.advance(Duration::from_secs(1));
    assert!(is_settled(&rig.driver));
    assert_eq!(
        with_spool(&rig.driver, |spool, _| spool.deliveries().dropped_entries),
        Some(0)
    );
    assert!(rig.lines.take().contains("cannot be delivered now"));
    drop(rig);

    let rig = Rig::new(Limits::PRODUCTION);
    upstream.borrow_mut().is_away = false;
    starts(&rig, &folder, &upstream);
    drain(&rig);
    let upstream = upstream.borrow();
    let mut expected = Totals::new();
    for number in (0..1_500).chain(0..8_500) {
        let batch = Batch {
            kind: ReportKind::Usage,
            envelope: ENVELOPES[0].into(),
            entries: vec![entry(number, 1)],
        };
        add(&mut expected, &totals_of(&batch));
    }
    assert_eq!(upstream.totals.values().sum::<u64>(), 10_000);
    assert!(upstream.totals == expected);
}

#[test]
fn a_report_that_is_refused_for_ever_does_not_hold_up_the_others() {
    let scratch = Scratch::new("spool-refused");
    let upstream = Rc::new(RefCell::new(Upstream::default()));
    upstream.borrow_mut().refuses = Some("f33");
    let rig = Rig::new(Limits::PRODUCTION);
    starts(&rig, scratch.folder(), &upstream);
    report(&rig, &body(0..90));
    drain(&rig);
    let deliveries = with_spool(&rig.driver, |spool, _| spool.deliveries()).unwrap();
    assert_eq!((deliveries.set_aside_entries, deliveries.entries), (30, 60));
    assert_eq!(upstream.borrow().totals.values().sum::<u64>(), 60);
    let lines = rig.lines.take();
    assert_eq!(
        lines.matches("refuses usage for good").count(),
        1,
        "{lines}"
    );
}

#[test]
fn a_folder_that_cannot_be_used_is_told_and_memory_does() {
    let scratch = Scratch::new("spool-nowhere");
    fs::write(scratch.path("file"), "").unwrap();
    let upstream = Rc::new(RefCell::new(Upstream::default()));
    let rig = Rig::new(Limits::PRODUCTION);
    starts(&rig, &scratch.path("file/events"), &upstream);
    assert!(rig.lines.take().contains("events wait in memory"));
    let problem = with_spool(&rig.driver, |spool, _| {
        spool.disk_problem().map(str::to_owned)
    });
    assert!(
        problem
            .flatten()
            .is_some_and(|problem| problem.contains("file/events"))
    );
    report(&rig, &body(0..40));
    drain(&rig);
    assert_eq!(upstream.borrow().totals.len(), 40);
}

#[test]
fn the_end_of_the_process_writes_down_what_is_in_memory() {
    let scratch = Scratch::new("spool-end");
    let upstream = Rc::new(RefCell::new(Upstream::default()));
    let rig = Rig::new(Limits::PRODUCTION);
    starts(&rig, scratch.folder(), &upstream);
    report(&rig, &body(0..5));
    let driver = rig.driver.clone();
    rig.driver.spawn(async move { settle(&driver).await });
    rig.settle();
    assert!(is_settled(&rig.driver));
    let mut journal = Journal::open(scratch.folder(), 1 << 20, &Limits::PRODUCTION)
        .unwrap()
        .0;
    let Stored { entries, .. } = journal.stored();
    assert_eq!(entries, 5);
}
