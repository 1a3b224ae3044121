//! Clients and peers for the benchmark recipes.
//!
//! Two programs are built on these rooms: `swarm`, thousands of clients in one process that measure
//! one round of fan-out each time they are told to, and `raw_loop`, the floor: the least that a
//! program on the same runtime must do to put the same bytes on the same sockets.
//!
//! Nothing here is part of the relay, and nothing here decides whether a figure is good: the Python
//! recipes beside this crate start everything, interleave the rounds and print the tables.
//!
//! Read `reader` first: it says what a client counts as an answer and as a change.

pub mod chunked;
pub mod client;
pub mod events;
pub mod frames;
pub mod head;
pub mod mqtt;
pub mod reader;
pub mod swarm;
pub mod transport;
