//! Staffetta: a relay between the client SDKs of IBM Cloud App Configuration and that service.
//!
//! The whole architecture on one page:
//!
//! ```text
//!   cli ──► net ──► state      what happened, what time it is ──► what to do
//!            │
//!            └────► wire       bytes ◄──► types
//!                     └── model, time, limits: nouns and bounds that all share ──┘
//! ```
//!
//! * [`state`] decides and never waits: slots, fan-out, access, deadlines. Pure.
//! * [`wire`] turns bytes into types and back, and never panics on input. Pure.
//! * [`net`] waits and never decides: sockets, files, clocks, signals. Its driver owns all state.
//! * [`config`] reads the operator's file; [`cli`] talks to people.
//! * [`model`], [`time`] and [`limits`] are what they share.
//!
//! `state` and `wire` know nothing of each other. Neither touches a socket, a file, a clock, a
//! thread or a log. There is one thread of ours; ARCHITECTURE.md has the table of the others.

pub mod cli;
pub mod config;
pub mod limits;
pub mod model;
pub mod net;
pub mod state;
pub mod time;
pub mod wire;
