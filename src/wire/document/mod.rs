//! The configuration document: what is in it, what SDKs demand of it, and what is cut out for whom.
//!
//! Owns the one rule of the relay's main promise: a document that any known SDK would choke on is
//! refused whole, before anybody sees it. A Node process dies of one bad document. The rules are
//! those that IBM's SDKs apply when they read a document, each named in `validate`.
//!
//! `select` cuts one slot out of a document, `validate` judges what was selected, [`flat`](flat())
//! gives the older form for SDKs that never left it. Nothing here parses a document as a whole, and
//! nothing is ever mended but a missing `rollout_percentage`.

mod error;
mod experiment;
mod field;
mod flat;
mod place;
mod rollout;
pub(super) mod select;
mod validate;
mod value;

pub use error::{DocumentError, Item, ItemKind, Problem};
pub use flat::flat;
