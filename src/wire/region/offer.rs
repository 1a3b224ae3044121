//! What is answered to whoever brings a state record.
//!
//! A record that counts is answered with its version and whether that is news; one that does not,
//! with a problem (RFC 9457): a reason for programs, a sentence for people. Which status goes with
//! which reason is said by whoever refuses.

use crate::wire::json::line;
use serde::Serialize;

#[derive(Serialize)]
struct Taken {
    version: u64,
    outcome: &'static str,
}

#[derive(Serialize)]
struct Problem<'p> {
    status: u16,
    reason: &'p str,
    detail: &'p str,
}

/// A record of this version counts; `is_new`: since now.
pub fn taken(version: u64, is_new: bool) -> Vec<u8> {
    let outcome = match is_new {
        true => "adopted",
        false => "same",
    };
    line(&Taken { version, outcome })
}

/// The record does not count, and why.
pub fn refused(status: u16, reason: &str, detail: &str) -> Vec<u8> {
    line(&Problem {
        status,
        reason,
        detail,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_one_line_for_people_and_programs() {
        let taken = taken(42, true);
        assert_eq!(taken, b"{\"version\":42,\"outcome\":\"adopted\"}\n");
        let refused = String::from_utf8(refused(409, "conflict", "sign \"v43\"")).unwrap();
        assert!(refused.contains(r#""detail":"sign \"v43\"""#), "{refused}");
    }
}
