//! The event spool at work: reports come in, lines go to the disk, batches go out.
//!
//! Owns the two loops that carry out what `state::spool` decides: one for the disk, which goes
//! through the disk lane, and one for the upstream, with one POST on its way at a time. Neither
//! waits for the other. What is posted where, and what an answer means, is for who starts it to
//! say.
//!
//! Never loses an order: each is answered, if only by a failure. Never holds a borrow of state
//! across a wait. Never logs what is in a report.

mod bell;
mod journal;
#[cfg(test)]
mod tests;

pub use bell::Bell;
pub use journal::Journal;

use std::path::PathBuf;
use std::rc::Rc;

use crate::limits::Limits;
use crate::model::report::ReportKind;
use crate::state::events::Events;
use crate::state::spool::{Note, Outcome, Persist, Spool};
use crate::state::tally::Tally;
use crate::time::{Duration, Instant};
use crate::wire::journal as lines;
use crate::wire::usage::{self, Report};

use super::clock::Alarm;
use super::disk::{DiskError, Refused};
use super::driver::Driver;
use super::follow;
use super::log::Cause;
use journal::{Record, Window};

/// While the lane has no room for a job, how long until it is offered again.
const LANE_PAUSE: Duration = Duration::from_millis(50);

/// Where events are kept until they are delivered.
pub struct Place {
    /// The folder is made where there is none; nobody else may write to it.
    pub folder: PathBuf,
    /// What its files may take together; 64 KiB at least.
    pub bytes_max: u64,
}

impl Place {
    /// In the state folder, once there is one.
    pub fn of(driver: &Driver) -> Option<Place> {
        let folder = driver.keep.borrow().folder()?.join("events");
        let bytes_max = driver.loaded.borrow().config.events.spool_bytes as u64;
        Some(Place { folder, bytes_max })
    }
}

/// Delivers events from now on: opens the spool, and starts its loops.
///
/// To be awaited before the first client is served: until then reports are only counted. Without a
/// place, or when it cannot be used, memory has to do; the latter is logged, and told in status.
pub async fn start<S>(driver: &Rc<Driver>, place: Option<Place>, send: S)
where
    S: AsyncFn(ReportKind, Vec<u8>) -> Outcome + 'static,
{
    let opened = match place {
        Some(place) => open(driver, place).await.map(Some),
        None => Ok(None),
    };
    let (limits, seed) = (&driver.limits, driver.random_below(u64::MAX));
    let now = driver.clock.now();
    let (spool, journal) = match opened {
        Ok(Some(mut journal)) => {
            let spool = Spool::new(Some(journal.stored()), limits, seed, now);
            (spool, Some(journal))
        }
        Ok(None) => (Spool::new(None, limits, seed, now), None),
        Err(problem) => {
            driver.log.error(format_args!(
                "{problem}: events wait in memory, and a restart loses them"
            ));
            (Spool::without_disk(problem, limits, seed, now), None)
        }
    };
    driver.state.borrow_mut().events = Events::delivered_by(spool);
    let (keeper, poster) = (driver.clone(), driver.clone());
    if let Some(journal) = journal {
        driver.spawn(async move { keep(&keeper, journal).await });
    }
    driver.spawn(async move { post(&poster, send).await });
}

/// The state folder came late: events that wait in memory go there from now on. Where nothing is
/// delivered, or not yet, or the disk was there all the time, nothing changes.
pub async fn move_to_disk(driver: &Rc<Driver>) {
    let is_without_disk = |spool: &mut Spool, _| spool.is_without_disk();
    let Some(place) = Place::of(driver) else {
        return;
    };
    if with_spool(driver, is_without_disk) != Some(true) {
        return;
    }
    match open(driver, place).await {
        Ok(mut journal) => {
            let stored = journal.stored();
            with_spool(driver, |spool, now| spool.handle_persisted(stored, now));
            let keeper = driver.clone();
            driver.spawn(async move { keep(&keeper, journal).await });
            driver.spool_bell.ring();
            driver.log.note(format_args!("events are kept on the disk"));
        }
        Err(problem) => driver.log.error(format_args!(
            "{problem}: events wait in memory, and a restart loses them"
        )),
    }
}

async fn open(driver: &Driver, place: Place) -> Result<Journal, String> {
    let limits = driver.limits.clone();
    let job = move || Journal::open(&place.folder, place.bytes_max, &limits);
    match driver.disk.run(job).await {
        Ok(Ok((journal, repairs))) => {
            for repair in repairs {
                driver.log.warn(format_args!("{repair}"));
            }
            Ok(journal)
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(refused) => Err(refused.to_string()),
    }
}

/// Takes in a report. Where there is more in it than memory holds, and a disk, it waits for that.
///
/// Bounded by `spool_patience`, and by the length of `body`.
pub async fn accept(driver: &Driver, kind: ReportKind, body: &[u8]) {
    let Ok(report) = Report::read(kind, body, &driver.limits) else {
        driver.state.borrow_mut().events.handle_malformed(kind);
        return;
    };
    driver.state.borrow_mut().events.handle_report(kind);
    let envelope: Rc<str> = report.envelope().into();
    let deadline = driver.clock.now() + driver.limits.spool_patience;
    let mut alarm = Alarm::new(driver.clock.clone());
    let mut taken = 0;
    let lets_go = follow::lets_go(driver);
    loop {
        let now = driver.clock.now();
        let before = dropped(driver);
        let mut waits = false;
        report.each_entry(taken, |entry| {
            let mut state = driver.state.borrow_mut();
            match lets_go {
                true => state.events.let_go(kind, entry.as_ref()),
                false => state.events.accept(kind, &envelope, entry, now),
            }
            taken += 1;
            waits = now < deadline && state.events.spool().is_some_and(Spool::is_pressed);
            !waits
        });
        note_dropped(driver, dropped(driver) - before, "memory is full");
        driver.spool_bell.ring();
        if !waits {
            return;
        }
        while is_pressed(driver) && driver.clock.now() < deadline {
            alarm.set(Some(deadline));
            driver.spool_bell.next(&mut alarm).await;
        }
    }
}

/// Writes everything down before the process ends. Bounded by `drain_timeout`.
pub async fn settle(driver: &Driver) {
    let deadline = driver.clock.now() + driver.limits.drain_timeout;
    let mut alarm = Alarm::new(driver.clock.clone());
    with_spool(driver, |spool, _| spool.hurry());
    driver.spool_bell.ring();
    while with_spool(driver, |spool, now| !spool.is_settled() && now < deadline).unwrap_or(false) {
        alarm.set(Some(deadline));
        driver.spool_bell.next(&mut alarm).await;
    }
}

/// What the disk did.
enum Kept {
    Appended,
    Read(Window),
    Marked,
}

/// Does what the disk is to do, for as long as the process lives.
async fn keep(driver: &Driver, mut journal: Journal) {
    let mut alarm = Alarm::new(driver.clock.clone());
    loop {
        let order = with_spool(driver, |spool, now| {
            let order = spool.poll_persist(now);
            let at = spool.poll_persist_timeout();
            let records = match order {
                Some(Persist::Append) => spool.appending().iter().map(record).collect(),
                _ => Vec::new(),
            };
            order.map(|order| (order, records)).ok_or(at)
        });
        let (order, records) = match order {
            Some(Ok(order)) => order,
            Some(Err(at)) => {
                alarm.set(at);
                driver.spool_bell.next(&mut alarm).await;
                continue;
            }
            None => return,
        };
        let Some((back, outcome)) = carry_out(driver, journal, order, records).await else {
            return;
        };
        journal = back;
        handle_kept(driver, &mut journal, outcome);
        driver.spool_bell.ring();
    }
}

fn record(batch: &crate::state::tally::Batch) -> Record {
    let line = lines::encode(batch.kind, &batch.envelope, &batch.entries);
    (line, batch.entries.len())
}

/// Runs one order in the disk lane; None when the lane has ended, and with it the process.
async fn carry_out(
    driver: &Driver,
    mut journal: Journal,
    order: Persist,
    records: Vec<Record>,
) -> Option<(Journal, Result<Kept, DiskError>)> {
    let mut job = move || {
        let outcome = match order {
            Persist::Append => journal.append(&records).map(|()| Kept::Appended),
            Persist::Read => journal.read().map(Kept::Read),
            Persist::Mark(done) => journal.mark(done).map(|()| Kept::Marked),
            Persist::Finish => journal.finish().map(|()| Kept::Marked),
        };
        (journal, outcome)
    };
    let mut alarm = Alarm::new(driver.clock.clone());
    loop {
        job = match driver.disk.run(job).await {
            Ok(done) => return Some(done),
            Err(Refused::Full(job)) => job,
            Err(Refused::Ended) => return None,
        };
        alarm.set(Some(driver.clock.now() + LANE_PAUSE));
        std::future::poll_fn(|context| alarm.poll(context)).await;
    }
}

fn handle_kept(driver: &Driver, journal: &mut Journal, outcome: Result<Kept, DiskError>) {
    let stored = journal.stored();
    let limits = &driver.limits;
    note_dropped(
        driver,
        stored.lost,
        "the spool on the disk is full or damaged",
    );
    let was_broken = with_spool(driver, |spool, _| spool.disk_problem().is_some());
    match outcome {
        Ok(kept) => {
            with_spool(driver, |spool, now| match kept {
                Kept::Appended => spool.handle_appended(stored, now),
                Kept::Marked => spool.handle_marked(stored, now),
                Kept::Read(window) => {
                    spool.handle_read(summed(&window, limits), window.done, stored, now);
                }
            });
            if was_broken == Some(true) {
                driver
                    .log
                    .note(format_args!("events are kept on the disk again"));
            }
        }
        Err(error) => {
            let problem = error.to_string();
            let fail = |spool: &mut Spool, now| spool.handle_disk_failure(problem, stored, now);
            if with_spool(driver, fail) == Some(true) {
                driver.log.error(format_args!(
                    "{error}: events wait in memory, and a power cut would lose them"
                ));
            }
        }
    }
}

/// The entries of a window, those that are the same added up.
fn summed(window: &Window, limits: &Limits) -> Tally {
    let mut tally = Tally::default();
    for (kind, body) in &window.bodies {
        let Ok(report) = Report::read(*kind, body.as_bytes(), limits) else {
            continue;
        };
        let envelope: Rc<str> = report.envelope().into();
        report.each_entry(0, |entry| {
            if let Some(entry) = entry {
                tally.add(*kind, &envelope, entry);
            }
            true
        });
    }
    tally
}

/// Posts what is to be posted, for as long as the process lives.
async fn post(driver: &Driver, send: impl AsyncFn(ReportKind, Vec<u8>) -> Outcome) {
    let mut alarm = Alarm::new(driver.clock.clone());
    loop {
        let next = with_spool(driver, |spool, now| match spool.poll_send(now) {
            Some((id, batch)) => {
                let body = usage::body(&batch.envelope, &batch.entries);
                Ok((id, batch.kind, body.into_bytes()))
            }
            None => Err(spool.poll_send_timeout()),
        });
        match next {
            Some(Ok((id, kind, body))) => {
                let outcome = send(kind, body).await;
                let note = with_spool(driver, |spool, now| spool.handle_sent(id, outcome, now));
                driver.spool_bell.ring();
                note.flatten()
                    .into_iter()
                    .for_each(|note| say(driver, note));
            }
            Some(Err(at)) => {
                alarm.set(at);
                driver.spool_bell.next(&mut alarm).await;
            }
            None => return,
        }
    }
}

fn say(driver: &Driver, note: Note) {
    let log = &driver.log;
    match note {
        Note::Delayed => log.warn(format_args!(
            "events cannot be delivered now: they are kept, and tried again"
        )),
        Note::Denied => log.error(format_args!(
            "events are not taken with our credentials: they are kept, and tried again; \
             look at the upstream's API key"
        )),
        Note::Resumed => log.note(format_args!("events are delivered again")),
        Note::SetAside { kind, entries } => log.error(format_args!(
            "the upstream refuses {} for good: {entries} entries were set aside, \
             and more may follow without a line",
            kind.as_str()
        )),
    }
}

fn note_dropped(driver: &Driver, entries: u64, why: &str) {
    if entries > 0 {
        driver.log.limited(
            Cause::EventsDropped,
            driver.clock.now(),
            format_args!("{entries} entries of events were lost: {why}"),
        );
    }
}

fn dropped(driver: &Driver) -> u64 {
    let dropped = |spool: &mut Spool, _| spool.deliveries().dropped_entries;
    with_spool(driver, dropped).unwrap_or(0)
}

fn is_pressed(driver: &Driver) -> bool {
    with_spool(driver, |spool, _| spool.is_pressed()).unwrap_or(false)
}

fn with_spool<T>(driver: &Driver, act: impl FnOnce(&mut Spool, Instant) -> T) -> Option<T> {
    let now = driver.clock.now();
    let mut state = driver.state.borrow_mut();
    state.events.spool_mut().map(|spool| act(spool, now))
}
