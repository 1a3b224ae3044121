//! What the kernel tells about a relay's process.

use crate::harness::relay::Relay;

/// A figure about its memory: `VmRSS`, `VmHWM`.
pub fn memory_kib(relay: &Relay, figure: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", relay.child.id()));
    let status = status.expect("the relay runs");
    let line = status.lines().find_map(|line| line.strip_prefix(figure));
    let digits = line.expect("Linux tells it").trim_start_matches(':');
    let digits = digits.trim().trim_end_matches(" kB");
    digits.parse().expect("a number")
}

/// The names of its threads, sorted.
pub fn thread_names(relay: &Relay) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", relay.child.id()));
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        // A thread that has just ended has no name.
        std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
    };
    let mut names: Vec<String> = tasks
        .expect("the relay runs")
        .filter_map(name)
        .map(|name| name.trim().to_owned())
        .collect();
    names.sort();
    names
}
