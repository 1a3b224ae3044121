//! What the kernel tells about a relay's process.

use std::path::Path;

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

/// By how many nanoseconds the sleeps of its threads of this name may be late.
pub fn timer_slack_ns(relay: &Relay, thread: &str) -> Vec<u64> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", relay.child.id()));
    let slack = |task: std::io::Result<std::fs::DirEntry>| {
        let task = task.ok()?;
        let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
        // It is told for each thread, but not among the tasks of the process.
        let file = Path::new("/proc")
            .join(task.file_name())
            .join("timerslack_ns");
        let slack = std::fs::read_to_string(file).ok()?;
        (name.trim() == thread).then(|| slack.trim().parse().expect("a number"))
    };
    tasks.expect("the relay runs").filter_map(slack).collect()
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
