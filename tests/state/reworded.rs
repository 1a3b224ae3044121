//! Content that does not change, and the proof that nobody wrote anything for it.
//!
//! Owns the same document in any number of wordings, and the kernel's count of what a process has
//! had written.

use crate::harness::relay::Relay;
use serde_json::Value;
use std::fs;

/// The same content in other words: the keys of each object begin elsewhere, and spaces come and
/// go.
pub fn reworded(value: &Value, turn: usize, text: &mut String) {
    let space = ["", " ", "\n\t", "\r\n  "][turn % 4];
    match value {
        Value::Object(members) => {
            text.push('{');
            let mut members: Vec<_> = members.iter().collect();
            let first = turn % members.len().max(1);
            members.rotate_left(first);
            for (place, (key, value)) in members.into_iter().enumerate() {
                text.push_str(if place > 0 { "," } else { space });
                text.push_str(&format!("{space}{}:{space}", Value::from(key.as_str())));
                reworded(value, turn + place, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (place, item) in items.iter().enumerate() {
                text.push_str(if place > 0 { "," } else { space });
                reworded(item, turn + place, text);
            }
            text.push_str(space);
            text.push(']');
        }
        other => text.push_str(&other.to_string()),
    }
}

/// Bytes that the relay has caused to be written, as the kernel counts them.
pub fn written_bytes(relay: &Relay) -> u64 {
    let path = format!("/proc/{}/io", relay.child.id());
    let counts = fs::read_to_string(path).expect("the kernel counts");
    let line = counts
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|count| count.parse().ok()).expect("a number")
}
