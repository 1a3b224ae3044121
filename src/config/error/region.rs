//! What can be wrong about `region`, and how it is said.
//!
//! What would make two primaries, or none, is refused when the file is read: a relay that finds out
//! later that it cannot keep its word has given it already.
//!
//! Part of `error`: the path is said there.

use std::fmt;

/// What is wrong with the value at a path, which only `region` can have wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionProblem {
    /// No public key of minisign.
    NotAPublicKey,
    /// Records are to be signed, and by nobody.
    NoSigner,
    /// A key that could be guessed.
    KeyTooShort { bytes_min: usize },
    /// No folder to keep this relay's word in.
    NotKept,
    /// There is nothing to route.
    NothingRouted,
    /// A client key of the name that peers have among keys.
    NameOfPeers,
}

impl fmt::Display for RegionProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegionProblem::NotAPublicKey => f.write_str(
                "is no public key of minisign: write the second line of its `.pub` file",
            ),
            RegionProblem::NoSigner => f.write_str(
                "is missing: name the keys that sign state records, or take unsigned ones with \
                 `\"trust\": \"none\"`",
            ),
            RegionProblem::KeyTooShort { bytes_min } => write!(
                f,
                "is too short: at least {bytes_min} characters; `staffetta key new` makes a key"
            ),
            RegionProblem::NotKept => f.write_str(
                "what this relay gives its word on must survive a restart, and there is no folder \
                 to keep it in: set `state_dir`",
            ),
            RegionProblem::NothingRouted => f.write_str(
                "there is nothing to route: give a slot `\"source\": \"operator\"`, or a route of \
                 `ReverseProxy` a `Metadata.RegionSlot`",
            ),
            RegionProblem::NameOfPeers => f.write_str(
                "is what the nodes of `region` are called among keys: choose another id",
            ),
        }
    }
}
