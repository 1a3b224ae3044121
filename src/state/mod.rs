//! Pure: decides, never waits.
