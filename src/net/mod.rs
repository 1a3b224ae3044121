//! I/O: waits, never decides.
