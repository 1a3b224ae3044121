//! The relay before other servers, over real sockets.
//!
//! Destinations are servers on threads of the test, which see every byte that the relay sends them;
//! clients speak to the relay without any HTTP library. What must never reach a destination is
//! looked for there, not in what the client is told. Others are relays, and Debian's nginx, which
//! is installed where it is missing, as Python's client libraries are.

#[path = "../sdk/debian.rs"]
mod debian;
#[path = "../harness/mod.rs"]
mod harness;
#[path = "../sdk/python.rs"]
mod python;

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
mod negotiate;
mod nginx;
mod site;
mod smuggling;
mod streams;
mod tls;
mod trust;
