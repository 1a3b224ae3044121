//! The relay before other servers, over real sockets.
//!
//! Destinations are servers on threads of the test, which see every byte that the relay sends them;
//! clients speak to the relay without any HTTP library. What must never reach a destination is
//! looked for there, not in what the client is told.

#[path = "../harness/mod.rs"]
mod harness;

mod affinity;
mod carrying;
mod client;
mod destination;
mod failover;
mod figures;
mod front;
mod health;
mod large;
mod life;
mod site;
mod smuggling;
mod streams;
