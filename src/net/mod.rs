//! I/O: waits, never decides.

pub mod clock;
pub mod log;
