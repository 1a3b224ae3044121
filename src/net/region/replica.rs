//! What this node holds of slots for which another one is primary.
//!
//! Owns one session for each slot, with the writer of the term in force; none where that is this
//! node itself.

use std::rc::Rc;

use crate::model::Revision;
use crate::model::region::NodeIndex;
use crate::net::driver::Driver;
use crate::state::region::SubjectIndex;

use super::tell;

/// The sessions.
#[derive(Default)]
pub struct Replicas {}

/// Lets every session follow whom it is to follow now. Called whenever that may have changed.
pub fn retarget(_driver: &Rc<Driver>) {}

/// Pulls a slot's content from a peer, at least of this revision.
pub fn pull(driver: &Rc<Driver>, subject: SubjectIndex, _peer: NodeIndex, _revision: Revision) {
    tell(driver, |routing, now| routing.handle_pulled(subject, now));
}
