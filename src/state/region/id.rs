//! What subjects, requests and questions are called between routing and whoever carries it out.
//!
//! The leaf of this room: the tables give these out, and orders carry them. A request and a
//! question have a number that is never used again, so that what comes late, after it was given up,
//! is known to be late and ignored.
//!
//! Never says whether what it names is still there; the tables do.

/// Position of a subject in the list that routing was made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubjectIndex(pub u16);

/// A request; never used twice. In the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(super) u64);

/// A question to a peer; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub(super) u64);
