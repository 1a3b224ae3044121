//! What the tests with real processes share: a site on disk, a relay process, the lines it prints.
//!
//! Owns every child process that a test starts and every directory that it writes: both are gone
//! when the test is, passed or failed. Never sleeps: a test waits for a line, a byte or an end of
//! file, under one deadline, and a wait that ends in vain fails with the relay's whole log.
//!
//! Invariant: nothing here knows what the relay ought to answer. Expectations belong to the tests.

pub mod lines;
pub mod relay;
pub mod site;

use std::time::Duration;

/// The one deadline of a wait. Generous, because two cores may be shared with a build; a passing
/// test never waits for it.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The instance that every test configuration and the demo serve.
pub const GUID: &str = "11111111-2222-3333-4444-555555555555";

/// The region of that instance: it makes the names that `CONNECT` is answered for.
pub const REGION: &str = "us-south";

/// The client key that may read every slot.
pub const KEY: &str = "test-key-that-reads-everything-0001";
