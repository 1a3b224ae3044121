//! Several relays that share their writes: real processes on loopback, driven as people drive them,
//! by the program's own commands.
//!
//! What the simulation proves of the decisions is looked at here from the outside: no write that
//! was answered 200 is missing after planned switches, clients see nothing of a switch but changes
//! of content, and what the README tells people to type does what it says.

#[allow(dead_code, reason = "shared with tests that need the rest")]
#[path = "../harness/mod.rs"]
mod harness;

#[allow(dead_code, reason = "shared with tests that need the rest")]
#[path = "../relay/client.rs"]
mod client;
#[allow(dead_code, reason = "shared with tests that need the rest")]
#[path = "../relay/request.rs"]
mod request;
#[allow(dead_code, reason = "shared with tests that need the rest")]
#[path = "../relay/stream.rs"]
mod stream;
#[allow(dead_code, reason = "shared with tests that need the rest")]
#[path = "../relay/way.rs"]
mod way;

#[allow(dead_code, reason = "shared with tests that need the rest")]
#[path = "../sdk/debian.rs"]
mod debian;
#[allow(dead_code, reason = "shared with tests that need the rest")]
#[path = "../proxy/destination.rs"]
mod destination;
#[allow(dead_code, reason = "shared with tests that need the rest")]
#[path = "../state/site.rs"]
mod site;

mod admin;
mod commands;
mod conflict;
mod content;
mod example;
mod followers;
mod loss;
mod nodes;
mod port;
mod routed;
mod switches;
mod trust;
mod writers;
