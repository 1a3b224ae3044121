//! What the spool asks for, and when, told by hand what the disk and the upstream did.

use super::*;
use crate::model::report::{Latest, Sum};

const LIMITS: Limits = Limits::PRODUCTION;
const START: Instant = Instant::from_micros(1_000_000);

fn usage(number: u64) -> Entry {
    let latest = Latest {
        moment: None,
        text: "\"t\"".into(),
    };
    let sum = Some(Sum { count: 1, latest });
    let text = format!("{number}").into();
    Entry { text, sum }
}

fn fill(spool: &mut Spool, numbers: std::ops::Range<u64>, now: Instant) {
    for number in numbers {
        spool.accept(ReportKind::Usage, &"e".into(), usage(number), now);
    }
}

fn tally(numbers: std::ops::Range<u64>) -> Tally {
    let mut tally = Tally::default();
    for number in numbers {
        tally.add(ReportKind::Usage, &"e".into(), usage(number));
    }
    tally
}

fn stored(entries: u64) -> Stored {
    Stored {
        entries,
        bytes: entries * 100,
        lost: 0,
    }
}

fn in_memory() -> Spool {
    Spool::new(None, &LIMITS, 1, START)
}

fn on_disk(entries: u64) -> Spool {
    Spool::new(Some(stored(entries)), &LIMITS, 1, START)
}

/// The batch that is posted now.
fn send(spool: &mut Spool, now: Instant) -> Option<(BatchId, usize)> {
    spool
        .poll_send(now)
        .map(|(id, batch)| (id, batch.entries.len()))
}

fn after(now: Instant, seconds: u64) -> Instant {
    now + Duration::from_secs(seconds)
}

#[test]
fn a_full_batch_goes_at_once_and_a_single_entry_within_a_minute() {
    let mut spool = in_memory();
    assert_eq!(spool.poll_send_timeout(), None);
    fill(&mut spool, 0..1, START);
    let due = spool.poll_send_timeout().unwrap();
    assert!((48..=72).contains(&(due - START).as_secs()), "{due:?}");
    assert_eq!(send(&mut spool, START), None);
    fill(&mut spool, 0..1, due);
    let (id, entries) = send(&mut spool, due).unwrap();
    assert_eq!(entries, 1, "the same entry twice is one");
    assert_eq!(send(&mut spool, due), None, "one at a time");
    assert_eq!(spool.handle_sent(id, Outcome::Delivered, due), None);
    fill(&mut spool, 0..75, due);
    let again = after(due, 10);
    assert_eq!(spool.poll_send_timeout(), Some(again), "not at once again");
    let mut sizes = Vec::new();
    while let Some((id, entries)) = send(&mut spool, again) {
        sizes.push(entries);
        spool.handle_sent(id, Outcome::Delivered, again);
    }
    assert_eq!(sizes, [30, 30, 15]);
    assert_eq!(spool.deliveries().entries, 76);
    assert_eq!((spool.waiting_entries(), spool.memory_bytes()), (0, 0));
}

#[test]
fn a_batch_that_is_refused_does_not_hold_up_the_next() {
    let mut spool = in_memory();
    fill(&mut spool, 0..90, START);
    let mut notes = Vec::new();
    for outcome in [Outcome::Refused, Outcome::Refused, Outcome::Delivered] {
        let (id, _) = send(&mut spool, START).expect("at once");
        notes.push(spool.handle_sent(id, outcome, START));
    }
    let kind = ReportKind::Usage;
    let aside = Note::SetAside { kind, entries: 30 };
    assert_eq!(notes, [Some(aside), None, None]);
    let deliveries = spool.deliveries();
    assert_eq!(
        (deliveries.set_aside_batches, deliveries.set_aside_entries),
        (2, 60)
    );
    assert_eq!((deliveries.batches, deliveries.entries), (1, 30));
}

#[test]
fn what_cannot_go_now_is_tried_later_and_later() {
    let mut spool = in_memory();
    fill(&mut spool, 0..30, START);
    let (mut now, mut delays, mut notes) = (START, Vec::new(), Vec::new());
    for _ in 0..12 {
        let (id, entries) = send(&mut spool, now).unwrap();
        assert_eq!(entries, 30);
        notes.extend(spool.handle_sent(id, Outcome::Later(None), now));
        let next = spool.poll_send_timeout().unwrap();
        delays.push((next - now).as_secs());
        now = next;
    }
    assert!(
        (2..=5).contains(&delays[0]) && (5..=10).contains(&delays[1]),
        "{delays:?}"
    );
    assert!(
        delays[6..].iter().all(|delay| (150..=300).contains(delay)),
        "{delays:?}"
    );
    assert_eq!(notes, [Note::Delayed]);
    let (id, _) = send(&mut spool, now).unwrap();
    let wait = Some(Duration::from_secs(1_000));
    assert_eq!(spool.handle_sent(id, Outcome::Later(wait), now), None);
    let next = spool.poll_send_timeout().unwrap();
    assert!((1_000..=1_005).contains(&(next - now).as_secs()));
    let (id, _) = send(&mut spool, next).unwrap();
    assert_eq!(
        spool.handle_sent(id, Outcome::Denied, next),
        Some(Note::Denied)
    );
    let last = spool.poll_send_timeout().unwrap();
    assert!((30..=60).contains(&(last - next).as_secs()));
    let (id, _) = send(&mut spool, last).unwrap();
    assert_eq!(
        spool.handle_sent(id, Outcome::Delivered, last),
        Some(Note::Resumed)
    );
    assert_eq!(
        spool.handle_sent(id, Outcome::Delivered, last),
        None,
        "only once"
    );
    assert_eq!(spool.deliveries().batches, 1);
}

#[test]
fn a_status_says_whether_to_try_again() {
    let wait = Some(Duration::from_secs(7));
    for (status, outcome) in [
        (202, Outcome::Delivered),
        (200, Outcome::Delivered),
        (301, Outcome::Later(wait)),
        (400, Outcome::Refused),
        (401, Outcome::Denied),
        (403, Outcome::Denied),
        (404, Outcome::Refused),
        (413, Outcome::Refused),
        (429, Outcome::Later(wait)),
        (503, Outcome::Later(wait)),
    ] {
        assert_eq!(Outcome::of_status(status, wait), outcome, "{status}");
    }
}

#[test]
fn full_memory_loses_the_oldest_and_says_so() {
    let mut spool = in_memory();
    fill(&mut spool, 0..10_000, START);
    let most = LIMITS.events_bytes_max;
    assert!((most - 1_000..=most).contains(&spool.memory_bytes()));
    let waiting = spool.waiting_entries();
    assert_eq!(spool.deliveries().dropped_entries, 10_000 - waiting);
    assert!(!spool.is_pressed(), "there is nothing to wait for");
    let (_, batch) = spool.poll_send(START).unwrap();
    let first: u64 = batch.entries[0].text.parse().unwrap();
    assert!(first >= 10_000 - waiting);
}

#[test]
fn entries_are_written_within_a_second_and_sent_from_the_disk() {
    let mut spool = on_disk(0);
    assert_eq!(
        spool.poll_persist_timeout(),
        None,
        "a quiet relay writes nothing"
    );
    fill(&mut spool, 0..31, START);
    assert_eq!(spool.poll_persist(START), None);
    assert_eq!(spool.poll_persist_timeout(), Some(after(START, 1)));
    let now = after(START, 1);
    assert_eq!(spool.poll_persist(now), Some(Persist::Append));
    let sizes: Vec<usize> = spool
        .appending()
        .iter()
        .map(|batch| batch.entries.len())
        .collect();
    assert_eq!(sizes, [30, 1]);
    assert_eq!(
        (spool.poll_persist(now), send(&mut spool, now)),
        (None, None)
    );
    spool.handle_appended(stored(31), now);
    assert_eq!(spool.poll_persist(now), Some(Persist::Read));
    assert_eq!(spool.waiting_entries(), 31);
    spool.handle_read(tally(0..31), 0, stored(0), now);

    let (id, _) = send(&mut spool, now).unwrap();
    spool.handle_sent(id, Outcome::Delivered, now);
    assert_eq!(send(&mut spool, now), None, "the first is not marked yet");
    assert_eq!(spool.deliveries().unmarked_batches, 1);
    assert_eq!(spool.poll_persist(now), Some(Persist::Mark(1)));
    assert_eq!(send(&mut spool, now), None, "nor while it is being marked");
    spool.handle_marked(stored(0), now);
    assert_eq!(spool.deliveries().unmarked_batches, 0);
    let (id, entries) = send(&mut spool, now).unwrap();
    assert_eq!(entries, 1);
    spool.handle_sent(id, Outcome::Refused, now);
    assert_eq!(spool.poll_persist(now), Some(Persist::Finish));
    spool.handle_marked(stored(0), now);
    assert_eq!(
        (spool.poll_persist_timeout(), spool.poll_send_timeout()),
        (None, None)
    );
    assert!(spool.is_settled());
}

#[test]
fn a_restart_goes_on_behind_the_batches_that_were_marked() {
    let mut spool = on_disk(75);
    assert_eq!(spool.poll_persist(START), Some(Persist::Read));
    spool.handle_read(tally(0..75), 2, stored(0), START);
    let (id, entries) = send(&mut spool, START).unwrap();
    assert_eq!(entries, 15);
    spool.handle_sent(id, Outcome::Delivered, START);
    assert_eq!(spool.poll_persist(START), Some(Persist::Finish));
    spool.handle_marked(stored(0), START);

    let mut spool = on_disk(30);
    assert_eq!(spool.poll_persist(START), Some(Persist::Read));
    spool.handle_read(tally(0..30), 1, stored(0), START);
    assert_eq!(send(&mut spool, START), None, "all of it was done");
    assert_eq!(spool.poll_persist(START), Some(Persist::Finish));
}

#[test]
fn memory_does_while_the_disk_refuses_and_the_disk_is_asked_again() {
    let mut spool = on_disk(0);
    fill(&mut spool, 0..40, START);
    let now = after(START, 1);
    assert_eq!(spool.poll_persist(now), Some(Persist::Append));
    fill(&mut spool, 40..41, now);
    assert!(
        spool.handle_disk_failure("no space".into(), stored(0), now),
        "news"
    );
    assert_eq!(spool.disk_problem(), Some("no space"));
    assert_eq!(spool.waiting_entries(), 41);
    assert_eq!(spool.poll_persist(now), None);
    let (id, entries) = send(&mut spool, now).unwrap();
    assert_eq!(entries, 30);
    spool.handle_sent(id, Outcome::Later(None), now);
    fill(&mut spool, 50..52, now);

    let now = after(now, 60);
    assert_eq!(spool.poll_persist_timeout(), Some(now));
    assert_eq!(spool.poll_persist(now), Some(Persist::Append));
    assert!(
        !spool.handle_disk_failure("no space".into(), stored(0), now),
        "no news"
    );
    let now = after(now, 60);
    assert_eq!(spool.poll_persist(now), Some(Persist::Append));
    spool.handle_appended(stored(2), now);
    assert_eq!(spool.disk_problem(), None);
    assert_eq!(spool.waiting_entries(), 43);
    while let Some((id, _)) = send(&mut spool, now) {
        spool.handle_sent(id, Outcome::Delivered, now);
    }
    assert_eq!(spool.deliveries().entries, 41);
    assert_eq!(spool.deliveries().dropped_entries, 0);
}

#[test]
fn a_mark_that_failed_is_made_up_for() {
    let mut spool = on_disk(60);
    assert_eq!(spool.poll_persist(START), Some(Persist::Read));
    spool.handle_read(tally(0..60), 0, stored(0), START);
    let (id, _) = send(&mut spool, START).unwrap();
    spool.handle_sent(id, Outcome::Delivered, START);
    assert_eq!(spool.poll_persist(START), Some(Persist::Mark(1)));
    assert!(spool.handle_disk_failure("read-only".into(), stored(0), START));
    let (id, _) = send(&mut spool, START).expect("delivery goes on");
    spool.handle_sent(id, Outcome::Delivered, START);
    assert_eq!(spool.deliveries().unmarked_batches, 2);
    let now = after(START, 60);
    assert_eq!(spool.poll_persist(now), Some(Persist::Finish));
    spool.handle_marked(stored(0), now);
    assert_eq!(spool.deliveries().unmarked_batches, 0);
}

#[test]
fn pressure_writes_early_and_the_end_at_once() {
    let mut spool = on_disk(0);
    let mut number = 0;
    while !spool.is_pressed() {
        fill(&mut spool, number..number + 1, START);
        number += 1;
    }
    assert_eq!(spool.poll_persist(START), Some(Persist::Append));
    assert!(spool.is_pressed(), "until it is written");
    spool.handle_appended(stored(number), START);
    assert!(!spool.is_pressed());

    fill(&mut spool, 0..1, START);
    assert!(!spool.is_settled());
    spool.hurry();
    assert_eq!(spool.poll_persist(START), Some(Persist::Append));
    assert!(!spool.is_settled());
    spool.handle_appended(stored(number + 1), START);
    assert!(spool.is_settled());
    assert_eq!(send(&mut spool, after(START, 600)), None);
}

#[test]
fn a_disk_that_comes_late_takes_what_waits_and_gives_back_what_it_had() {
    let mut spool = in_memory();
    fill(&mut spool, 0..40, START);
    let (id, _) = send(&mut spool, START).unwrap();
    fill(&mut spool, 40..45, START);
    assert!(spool.is_without_disk());
    spool.handle_persisted(stored(7), START);
    assert!(!spool.is_without_disk() && spool.disk_problem().is_none());
    let second = after(START, 1);
    assert_eq!(spool.poll_persist(second), Some(Persist::Append));
    assert_eq!(spool.appending().len(), 1);
    spool.handle_appended(stored(12), second);
    // What was under way goes on from memory, and is no business of the disk's.
    spool.handle_sent(id, Outcome::Delivered, second);
    let (id, entries) = send(&mut spool, second).unwrap();
    assert_eq!(entries, 10);
    spool.handle_sent(id, Outcome::Delivered, second);
    assert_eq!(spool.waiting_entries(), 12);
    let later = after(second, 120);
    assert_eq!(spool.poll_persist(later), Some(Persist::Read));
}
