//! Pure: bytes to types and back.
