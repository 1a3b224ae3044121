//! What this node asks its peers: for their status, and for a newer record.
//!
//! Owns one task for each question. A question that is not answered in its time is given up; what
//! it is worth is said by `state::region`.

use std::rc::Rc;

use crate::model::region::NodeIndex;
use crate::net::driver::Driver;
use crate::state::region::Ask;

/// The questions that are under way.
#[derive(Default)]
pub struct Asks {}

/// Asks a peer for its status.
pub fn ask(_driver: &Rc<Driver>, _ask: Ask) {}

/// Pulls a peer's record.
pub fn pull_record(_driver: &Rc<Driver>, _peer: NodeIndex) {}
