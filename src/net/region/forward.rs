//! A write on its way to the primary's writer.
//!
//! Owns one task for each forward. It is sent once; what became of it is told to `state::region`,
//! and an answer of the peer goes to the client as it is.

use std::rc::Rc;

use crate::model::region::{Epoch, NodeIndex};
use crate::net::driver::Driver;
use crate::state::region::{Forwarded, RequestId};
use crate::time::Duration;

use super::tell;

/// The forwards that are under way.
#[derive(Default)]
pub struct Forwards {}

/// Sends a parked request to a peer.
pub fn forward(
    driver: &Rc<Driver>,
    id: RequestId,
    _peer: NodeIndex,
    _epoch: Epoch,
    _left: Duration,
) {
    tell(driver, |routing, now| {
        routing.handle_forwarded(id, Forwarded::NotSent, now);
    });
}

/// Gives a forward up, however far it is.
pub fn abandon(_driver: &Rc<Driver>, _id: RequestId) {}
