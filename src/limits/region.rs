//! The bounds of region routing, each with its reason.
//!
//! What a switch takes is not here: that is in the state record, the same for all nodes. These are
//! what one node takes from records and peers, and how it paces itself.

use super::KIB;
use crate::time::Duration;

/// Bounds of records, peers and held requests. Bytes unless the name says otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// A state record with its signature. Three sites with rotation take 3 KiB.
    pub record_bytes_max: usize,
    /// Nodes of all regions: each polls every other one, and a status names them all.
    pub nodes_max: usize,
    /// Entries of a record's `slots`.
    pub classes_max: usize,
    /// Switches of one entry: two months of one a day. More of them is a rotation.
    pub switches_max: usize,
    /// Legs of a rotation: one an hour of a day.
    pub legs_max: usize,
    /// Longest that any of a record's timings may be: nobody waits longer for a write.
    pub timing_max: Duration,
    /// Longest period of a rotation.
    pub period_max: Duration,
    /// After a start nothing is accepted for this long: peers may know a newer record.
    pub settle: Duration,
    /// A wall clock that moves by more than this against the monotonic one was set, not slewed...
    pub tilt_jump: Duration,
    /// ...within this, in which the kernel slews by 30 ms...
    pub tilt_window: Duration,
    /// ...and is left to settle for this long before anybody is primary by it.
    pub tilt_wait: Duration,
    /// What a peer's clock showed counts for this long.
    pub offset_fresh: Duration,
    /// A peer that is asked for its status answers within this, besides what it was told to wait.
    pub ask_timeout: Duration,
    /// Longest that a peer holds a question until its status changes: below `idle_timeout`.
    pub wait: Duration,
    /// From one attempt of a held request to the next, and of what was to be pulled or stored.
    pub retry: Duration,
    /// Requests that are held back during a switch...
    pub parked_max: usize,
    /// ...and the sum of their bodies.
    pub parked_bytes_max: usize,
    /// Answers to pushes that are remembered, for who asks again...
    pub idempotency_keys_max: usize,
    /// ...and the longest key that one of them may have.
    pub idempotency_key_bytes_max: usize,
    /// Disagreements that are shown: one for each peer.
    pub disagreements_max: usize,
    /// Keys that may sign records: those of two people, and their next ones.
    pub signers_max: usize,
    /// Shortest peer key: 32 characters are 128 bits in hex.
    pub peer_key_bytes_min: usize,
    /// Contents that lost and are kept for people to look at: one for each slot...
    pub orphans_max: usize,
    /// ...and the sum of them. When they are full, no fork is taken any more.
    pub orphans_bytes_max: u64,
    /// How often both clocks are compared when nothing else happens: a clock that is set is found
    /// before a switch is due by it.
    pub look_interval: Duration,
    /// Slots and routes of all peers whose state is kept for people: eight nodes of 256 slots take
    /// 800 KiB.
    pub said_subjects_max: usize,
    /// A peer's status: 256 slots with all that can be said of them take 140 KiB.
    pub status_bytes_max: usize,
}

impl Region {
    /// The values that ship.
    pub const PRODUCTION: Region = Region {
        record_bytes_max: 64 * KIB,
        nodes_max: 64,
        classes_max: 128,
        switches_max: 64,
        legs_max: 24,
        timing_max: Duration::from_secs(600),
        period_max: Duration::from_secs(366 * 86_400),
        settle: Duration::from_secs(3),
        tilt_jump: Duration::from_secs(2),
        tilt_window: Duration::from_secs(60),
        tilt_wait: Duration::from_secs(30),
        offset_fresh: Duration::from_secs(60),
        ask_timeout: Duration::from_secs(5),
        wait: Duration::from_secs(10),
        retry: Duration::from_millis(200),
        parked_max: 256,
        parked_bytes_max: 512 * KIB,
        idempotency_keys_max: 128,
        idempotency_key_bytes_max: 128,
        disagreements_max: 64,
        signers_max: 8,
        peer_key_bytes_min: 32,
        orphans_max: 256,
        orphans_bytes_max: 64 * 1024 * KIB as u64,
        look_interval: Duration::from_secs(2),
        said_subjects_max: 2048,
        status_bytes_max: 256 * KIB,
    };
}
