//! I/O: waits, never decides.

pub mod clock;
pub mod disk;
pub mod log;
pub mod signal;
pub mod sockets;
pub mod watch;
