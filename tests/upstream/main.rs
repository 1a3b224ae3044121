//! The relay behind upstreams that fail, over real sockets: what its clients see, and what it costs
//! the upstream.
//!
//! The upstreams are test doubles of the service, written from its description and from nothing of
//! the relay. Relays are processes; where a deadline is waited for, with limits that are shorter
//! than those that ship, which are asserted on their own.

#[allow(dead_code, reason = "the double is held to its word in its own test")]
#[path = "../double/mod.rs"]
mod double;
#[allow(dead_code, reason = "shared with tests that need the rest")]
#[path = "../harness/mod.rs"]
mod harness;

#[allow(dead_code, reason = "shared with tests that need the rest")]
#[path = "../relay/client.rs"]
mod client;
#[allow(dead_code, reason = "shared with tests that need the rest")]
#[path = "../relay/network.rs"]
mod network;
#[allow(dead_code, reason = "shared with tests that need the rest")]
#[path = "../relay/request.rs"]
mod request;
#[allow(dead_code, reason = "shared with tests that need the rest")]
#[path = "../relay/shortened.rs"]
mod shortened;
#[allow(dead_code, reason = "shared with tests that need the rest")]
#[path = "../relay/way.rs"]
mod way;

#[allow(dead_code, reason = "shared with tests that need the rest")]
#[path = "../region/port.rs"]
mod port;
#[path = "../state/reworded.rs"]
mod reworded;
#[allow(dead_code, reason = "shared with tests that need the rest")]
#[path = "../state/strace.rs"]
mod strace;

mod chain;
mod change;
mod clock;
mod crowd;
mod failover;
mod fanout;
mod hung;
mod keys;
mod place;
mod quiet;
mod reports;
mod requests;
mod silence;
mod start;
mod usage;
