//! Commands: talk to people.
