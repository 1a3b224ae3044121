//! What peers ask of this node, on the SDK listener.
//!
//! Owns the paths `/v1/region/*` and `/v1/slots/*` there, which answer the peer key and nobody
//! else.

use std::rc::Rc;

use crate::net::connection::Connection;
use crate::net::route::Action;
use crate::wire::http::Head;

/// What peers are being answered.
#[derive(Default)]
pub struct Served {}

/// Decides about a request that may be a peer's; `None` where it is none.
pub fn decide(_connection: &Rc<Connection>, _head: &Head<'_>) -> Option<Action> {
    None
}
