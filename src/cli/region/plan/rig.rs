//! Sites, foundings and changes, for the tests of this room.
//!
//! Owns what a record is made of that does not matter to a test: names, URLs, times, and the bounds
//! that ship. A test says only what it is about.
//!
//! Never makes a record; that is what is tested.

use super::{Change, Founding, Site, TIMING};
use crate::limits::Limits;
use crate::model::Id;
use crate::model::region::Matching;
use crate::time::{Duration, WallMs};

/// Those that ship.
pub const LIMITS: Limits = Limits::PRODUCTION;
/// 2027-01-15T08:00:00Z.
pub const NOW: WallMs = WallMs::from_unix_ms(1_800_000_000_000);
/// Time between what must not meet.
pub const HOUR: Duration = Duration::from_secs(3600);

/// An id of a test's own.
pub fn id(text: &str) -> Id {
    // cannot fail: tests write ids that are some
    Id::new(text).unwrap()
}

/// A site of these nodes, the first of which writes.
pub fn site(name: &str, nodes: &[&str]) -> Site {
    let node = |node: &&str| (id(node), format!("https://{node}:7070"));
    Site {
        name: id(name),
        nodes: nodes.iter().map(node).collect(),
    }
}

/// A cluster of au, eu and us, a node each, without turns.
pub fn founding(primary: &str) -> Founding {
    let sites = ["au", "eu", "us"].map(|name| site(name, &[&format!("{name}-1")]));
    Founding {
        cluster: id("plant"),
        sites: sites.into(),
        primary: id(primary),
        timing: TIMING,
        turns: None,
        issued_at: NOW,
    }
}

/// A switch of everything.
pub fn change(to: &str, at: WallMs, issued_at: WallMs) -> Change {
    Change {
        matching: Matching::default(),
        to: id(to),
        at,
        issued_at,
    }
}
