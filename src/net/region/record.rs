//! A state record on its way into force, from wherever it comes.
//!
//! Owns the order: opened and verified, read, judged against the record that counts, stored, and
//! only then adopted. One at a time, and while no word is being stored. Owns the look at the file
//! that the config names, which is the same as that at the seed.
//!
//! What is refused changes nothing but what is shown. It is said once: a peer that holds another
//! record brings it again and again.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use crate::model::region::Record;
use crate::net::driver::Driver;
use crate::net::log::Cause;
use crate::net::watch::{Fingerprint, Settled, Watch, read_settled};
use crate::state::region::{Objection, Verdict};
use crate::time::Instant;
use crate::wire::http::response::Answer;
use crate::wire::region::{self as wire, RecordError, offer as answers};

use super::{Region, now, store, tell};

/// The record that counts, and the file.
#[derive(Default)]
pub struct Held {
    /// As it came.
    envelope: RefCell<Option<Rc<[u8]>>>,
    watch: RefCell<Watch>,
    is_reading: Cell<bool>,
    next_look: Cell<Instant>,
    /// Why the newest one that was brought does not count, and since when.
    problem: RefCell<Option<(String, Instant)>>,
}

impl Held {
    /// Why the newest record that was brought does not count, if it does not, and since when.
    pub fn problem(&self) -> Option<(String, Instant)> {
        self.problem.borrow().clone()
    }

    /// When the file is looked at again; `None` where there is none.
    pub(super) fn look_at(&self, driver: &Driver) -> Option<Instant> {
        let loaded = driver.loaded.borrow();
        let region = loaded.config.region.as_ref()?;
        region.record.as_ref().map(|_| self.next_look.get())
    }
}

/// Who brought a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The file that the config names.
    File,
    /// `PUT /v1/region/state`.
    Admin,
    /// A peer of this name.
    Peer(String),
    /// The state folder, at the start.
    Kept,
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File => formatter.write_str("the file"),
            Origin::Admin => formatter.write_str("the admin listener"),
            Origin::Peer(name) => write!(formatter, "{name}"),
            Origin::Kept => formatter.write_str("the state folder"),
        }
    }
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It counts from now on.
    Adopted,
    /// It is the one that is held.
    Same,
}

/// Why a record does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is not sound, or not signed as it has to be.
    Unsound(RecordError),
    /// It is sound, and does not follow on the one that is held.
    Objection(Objection),
    /// It could not be stored, and why.
    NotKept(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Unsound(error) => write!(formatter, "it is refused: {error}"),
            Refusal::Objection(objection) => objection.fmt(formatter),
            Refusal::NotKept(problem) => write!(formatter, "it cannot be kept: {problem}"),
        }
    }
}

impl Refusal {
    /// The status that answers it, and the reason for programs.
    const fn status(&self) -> (u16, &'static str) {
        match self {
            Refusal::Unsound(_) => (422, "unsound"),
            Refusal::Objection(objection) => match objection {
                Objection::OtherCluster { .. } => (409, "other_cluster"),
                Objection::LowerVersion { .. } => (409, "lower_version"),
                Objection::Conflict { .. } => (409, "conflict"),
                Objection::BelowFloor { .. } => (409, "below_floor"),
                Objection::EpochReused { .. } => (409, "epoch_reused"),
            },
            Refusal::NotKept(_) => (507, "not_kept"),
        }
    }
}

/// A record that is sound and validly signed.
struct Sound {
    record: Record,
    /// The id of the key that signed it.
    signer: Option<String>,
}

/// Offers a record: the bytes of its envelope.
///
/// # Errors
/// Why it does not count; what was held stays.
pub async fn offer(
    driver: &Rc<Driver>,
    bytes: Vec<u8>,
    origin: Origin,
) -> Result<Outcome, Refusal> {
    let Some(region) = &driver.region else {
        let problem = "this relay has no part in region routing";
        return Err(Refusal::NotKept(problem.to_owned()));
    };
    let outcome = try_offer(driver, region, bytes.into(), &origin).await;
    match &outcome {
        Ok(Outcome::Adopted) => {
            *region.record.problem.borrow_mut() = None;
            say(driver, region, &origin);
        }
        // What was wrong with another one is over, unless two of them have this version.
        Ok(Outcome::Same) => {
            if !region.routing.borrow().is_conflicted() {
                *region.record.problem.borrow_mut() = None;
            }
        }
        // A file is as old as its last change: peers, or an admin, have brought a newer one since.
        Err(Refusal::Objection(Objection::LowerVersion { .. })) if origin == Origin::File => {}
        Err(refusal) => note_refusal(driver, region, &origin, refusal),
    }
    outcome
}

async fn try_offer(
    driver: &Rc<Driver>,
    region: &Region,
    bytes: Rc<[u8]>,
    origin: &Origin,
) -> Result<Outcome, Refusal> {
    if let Some(problem) = region.store.problem() {
        return Err(Refusal::NotKept(problem));
    }
    let Sound { record, signer } = sound(driver, &bytes).map_err(Refusal::Unsound)?;
    // No word is stored between what is judged here and what follows from it.
    let _turn = region.store.turn().await;
    let verdict = tell(driver, |routing, now| routing.judge(&record, now));
    match verdict {
        Some(Verdict::Refuse(objection)) => {
            if matches!(objection, Objection::Conflict { .. }) {
                store::keep_conflict(driver, region).await;
            }
            return Err(Refusal::Objection(objection));
        }
        Some(Verdict::Same) | None => return Ok(Outcome::Same),
        Some(Verdict::Adopt) => {}
    }
    if *origin != Origin::Kept {
        let kept = store::keep_record(driver, region, bytes.clone()).await;
        kept.map_err(Refusal::NotKept)?;
    }
    // Words were ordered while the record was being stored, by the one before it.
    store::take_back_marks(driver, region);
    *region.record.envelope.borrow_mut() = Some(bytes);
    tell(driver, |routing, now| {
        routing.adopt(Rc::new(record), signer, now);
    });
    Ok(Outcome::Adopted)
}

/// Bounded by `region.record_bytes_max` and the number of keys.
fn sound(driver: &Driver, bytes: &[u8]) -> Result<Sound, RecordError> {
    let limits = &driver.limits;
    let loaded = driver.loaded.borrow();
    let signers = loaded.region.as_ref().map(|region| &region.signers);
    let envelope = wire::unpack(bytes, limits)?;
    let signer = match signers {
        Some(None) => None,
        Some(Some(signers)) => Some(envelope.verify(signers)?),
        None => Some(envelope.verify(&[])?),
    };
    let record = wire::read(&envelope.document, limits)?;
    Ok(Sound { record, signer })
}

fn say(driver: &Driver, region: &Region, origin: &Origin) {
    let status = region.routing.borrow().status(now(driver));
    let (Some((version, _)), Some(cluster)) = (status.record, status.cluster) else {
        return;
    };
    let signer = match &status.signer {
        Some(signer) => format!("signed with {signer}"),
        None => String::from("not signed"),
    };
    driver.log.note(format_args!(
        "region: state record v{version} of cluster {cluster} counts, {signer}, from {origin}"
    ));
}

/// Notes why a record does not count; says it once.
fn note_refusal(driver: &Driver, region: &Region, origin: &Origin, refusal: &Refusal) {
    let text = format!("a state record from {origin} does not count: {refusal}");
    let mut problem = region.record.problem.borrow_mut();
    let now = driver.clock.now();
    if problem.as_ref().is_none_or(|(known, _)| *known != text) {
        let line = format_args!("region: {text}");
        driver.log.limited(Cause::StateRecord, now, line);
        *problem = Some((text, now));
    }
}

/// Brings back the record of the state folder, and reads the file. To be called once, behind
/// `store::open`.
pub async fn open(driver: &Rc<Driver>) {
    let Some(region) = &driver.region else { return };
    if let Some(kept) = region.store.record() {
        // What is wrong with it is in log and status.
        let offered = offer(driver, kept.to_vec(), Origin::Kept).await;
        if offered == Ok(Outcome::Adopted) && region.store.is_conflicted() {
            tell(driver, |routing, now| routing.handle_conflict(now));
        }
    }
    read_file(driver).await;
}

/// Looks whether the file has changed, and reads it in the background if it has.
pub(super) fn look(driver: &Rc<Driver>, region: &Region) {
    let now = driver.clock.now();
    let held = &region.record;
    if held.look_at(driver).is_none_or(|at| now < at) {
        return;
    }
    held.next_look.set(now + driver.limits.seed_interval);
    let loaded = driver.loaded.borrow().clone();
    let config = loaded.config.region.as_ref();
    let Some(file) = config.and_then(|region| region.record.as_ref()) else {
        return;
    };
    // A file that cannot be seen is no news: what was held stays.
    let found = Fingerprint::of(file).unwrap_or(None);
    if held.watch.borrow().is_due(found) && !held.is_reading.get() {
        let task = driver.clone();
        driver.spawn(async move { drop(read_file(&task).await) });
    }
}

/// Reads the file now, if one is configured, and offers what it holds; one line for an operator.
pub async fn read_file(driver: &Rc<Driver>) -> Option<String> {
    let region = driver.region.as_ref()?;
    let loaded = driver.loaded.borrow().clone();
    let file = loaded.config.region.as_ref()?.record.clone()?;
    let held = &region.record;
    held.is_reading.set(true);
    let bytes_max = driver.limits.region.record_bytes_max;
    let path = file.clone();
    let found = driver
        .disk
        .run(move || read_settled(&path, bytes_max))
        .await;
    held.is_reading.set(false);
    let bytes = match found {
        Ok(Ok(Settled::Read(bytes, fingerprint))) => {
            held.watch.borrow_mut().note_read(fingerprint);
            bytes
        }
        Ok(Ok(Settled::Missing)) => return Some(format!("{}: no such file", file.display())),
        Ok(Ok(Settled::Unsettled)) => return Some(format!("{}: is being written", file.display())),
        Ok(Err(error)) => return Some(error.to_string()),
        Err(refused) => return Some(refused.to_string()),
    };
    Some(match offer(driver, bytes, Origin::File).await {
        Ok(Outcome::Adopted) => String::from("state record: another one counts"),
        Ok(Outcome::Same) => String::from("state record: unchanged"),
        Err(refusal) => format!("state record: {refusal}"),
    })
}

/// Reads the file again, as a reload asks for.
pub async fn reload(driver: &Rc<Driver>) -> Option<String> {
    let region = driver.region.as_ref()?;
    region.record.watch.borrow_mut().forget();
    // Peers are asked with the key that was read again.
    tell(driver, |_, _| ());
    read_file(driver).await
}

/// Takes a record that an admin has brought.
pub async fn put(driver: &Rc<Driver>, bytes: Vec<u8>) -> Answer {
    match offer(driver, bytes, Origin::Admin).await {
        Ok(outcome) => {
            let region = driver.region.as_ref();
            let version = region.and_then(|region| {
                let routing = region.routing.borrow();
                routing.record().map(|record| record.version)
            });
            let is_new = outcome == Outcome::Adopted;
            Answer::json(200, answers::taken(version.unwrap_or_default(), is_new))
        }
        Err(refusal) => {
            let (status, reason) = refusal.status();
            let body = answers::refused(status, reason, &refusal.to_string());
            let content_type = wire::problem::CONTENT_TYPE;
            Answer::new(status)
                .with("content-type", content_type)
                .with_body(body)
        }
    }
}

/// The envelope of the record that counts, as it came.
pub fn bytes(driver: &Driver) -> Option<Rc<[u8]>> {
    let region = driver.region.as_ref()?;
    region.record.envelope.borrow().clone()
}
