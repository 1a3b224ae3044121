//! The reactor's own thread, and how often it looks whether anybody polls.
//!
//! Owns one decision: that it looks seldom. The thread is there for programs none of whose threads
//! waits for sockets. It sleeps 50 us and polls if nobody has meanwhile, which is so whenever a
//! batch of our tasks takes longer; then it holds the reactor, our thread has to wait for it, and
//! every turn of the loop costs two switches between the two. The library has no setting for that,
//! but the kernel has: a thread's sleeps may be late by its *slack*, which it has from the thread
//! that starts it.
//!
//! Never keeps it from being woken: slack is for sleeps that end by themselves. What it may delay
//! is the poll after one that woke nobody, while our thread waits: by the slack at most.

use std::num::NonZeroU64;

use rustix::thread::set_current_timer_slack;

/// How late the reactor's thread may look. With 64 clients at work it took 1.3 turns a request over
/// and 20% of the processor's time; by a millisecond's slack 0.2 and 5%, and more gives little.
const SLACK_NS: Option<NonZeroU64> = NonZeroU64::new(1_000_000);

/// Starts the reactor's thread, unless something has used the reactor before.
pub fn start() {
    // Without it, everything works as it did: a kernel may refuse.
    let _ = set_current_timer_slack(SLACK_NS);
    // The thread begins with the first future that anybody waits for.
    smol::block_on(std::future::ready(()));
    let _ = set_current_timer_slack(None);
}
