//! Decides, never waits, pure.
//!
//! Every decision of the relay is made here, by structs that are told what happened and what time
//! it is, and are asked what to do next. They have four kinds of method: getters; `handle_*` and
//! named mutators, which only note what happened; and `poll_*`, which say what to do and when to
//! ask again. Nothing here touches a socket, a file, a clock or a log.
//!
//! Read `fanout` first: it is what the relay is for.

pub mod access;
pub mod backoff;
pub mod counters;
pub mod deadlines;
pub mod destinations;
pub mod events;
pub mod fanout;
pub mod history;
pub mod region;
pub mod relay;
pub mod saves;
pub mod session;
pub mod sessions;
pub mod slab;
pub mod slots;
pub mod spool;
pub mod tally;
pub mod token;
