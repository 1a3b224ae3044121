//! The relay as a client: of the service, or of another relay.
//!
//! Everything that goes out. `client` is the face: one [`Upstream`] for each role, and the [`Net`]
//! that they share. Below it, `fetch` is one request, `socket` the change socket, `token` the
//! credential on both; `dial` makes the connection, through `resolve`, `proxy` and `tls`;
//! `deadline` ends what takes too long, and `error` says why something failed.
//!
//! One request, one connection; a future that is dropped leaves nothing behind. When to ask whom is
//! decided in `state`.

pub mod client;
pub mod deadline;
pub mod dial;
pub mod error;
pub mod fetch;
mod proxy;
pub mod resolve;
#[cfg(test)]
mod rig;
pub mod socket;
mod tls;
pub mod token;

pub use client::{ConfigAnswer, Net, Upstream};
pub use error::UpstreamError;
pub use resolve::Resolver;
pub use socket::{Ended, Socket};
pub use token::Standing;
