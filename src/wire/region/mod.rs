//! What region routing says on the wire: state records, peers' headers, status and refusals.
//!
//! Owns their forms, both ways. `envelope` opens a record and verifies it, `record` reads what was
//! signed, `text` writes one for people to sign, `keep` is the file in which it and a node's word
//! survive a restart, `offer` what is answered to whoever brings one; `peer` is the headers of a
//! request that one node sends on to another, `problem` what a refused one is answered with,
//! `status` what nodes tell each other and people, `target` the paths at which all of it is asked
//! for.
//!
//! Never decides who is primary: that is `state::region`, which knows nothing of these forms.

mod envelope;
mod error;
pub mod keep;
mod moment;
mod object;
pub mod offer;
mod order;
pub mod peer;
pub mod problem;
mod record;
pub mod status;
pub mod target;
#[cfg(test)]
mod tests;
mod text;

pub use envelope::{Envelope, Signer, pack, unpack};
pub use error::{RecordError, RecordProblem};
pub use moment::{parse as parse_time, write as write_time};
pub use record::read;
pub use text::write;

/// What the first key of a record says.
pub const SCHEMA: &str = "staffetta.region/1";

/// Largest version and epoch: what every JSON reader takes exactly.
const NUMBER_MAX: u64 = 1 << 53;
