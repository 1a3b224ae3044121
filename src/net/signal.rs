//! The signals that the relay obeys, as a stream that one task awaits.
//!
//! Owns: the registration of SIGTERM, SIGINT and SIGHUP. Their handlers write to a socket pair that
//! the reactor watches; no thread of its own, and nothing runs inside a handler but that write.
//!
//! Never: SIGPIPE. Rust's runtime ignores it before `main`, so a write to a peer that has gone is
//! an error where it is made; a test below holds that this is so.
//!
//! Invariant: once [`Signals::new`] has returned, none of the three kills the process any more;
//! whoever awaits them decides. Dropping the stream does not give the old behaviour back.

use futures_lite::StreamExt as _;
use std::io;

/// What the operator, or the service manager, wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM or SIGINT: drain and exit. A second one asks for less patience.
    Terminate,
    /// SIGHUP: reload.
    Hangup,
}

/// The stream of signals. Signals that arrive faster than they are read are kept, up to what a
/// socket buffer holds, and lost after that: harmless, since each asks for the same as the last.
#[derive(Debug)]
pub struct Signals(async_signal::Signals);

impl Signals {
    /// Takes the three signals over for the rest of the process's life.
    ///
    /// Errors: no descriptors left for the socket pair.
    pub fn new() -> io::Result<Signals> {
        use async_signal::Signal::{Hup, Int, Term};
        async_signal::Signals::new([Term, Int, Hup]).map(Signals)
    }

    /// Waits for the next signal.
    ///
    /// A stream that broke says `Terminate`: a relay that cannot be told to stop is worth less
    /// than one that its service manager starts again.
    pub async fn next(&mut self) -> Signal {
        match self.0.next().await {
            Some(Ok(async_signal::Signal::Hup)) => Signal::Hangup,
            Some(Ok(_) | Err(_)) | None => Signal::Terminate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal as Number, getpid, kill_process};

    #[test]
    fn each_signal_arrives_as_what_it_asks_for() {
        let mut signals = Signals::new().unwrap();
        for (number, asked) in [
            (Number::HUP, Signal::Hangup),
            (Number::TERM, Signal::Terminate),
            (Number::INT, Signal::Terminate),
        ] {
            kill_process(getpid(), number).unwrap();
            assert_eq!(smol::block_on(signals.next()), asked);
        }
    }

    #[test]
    fn a_broken_pipe_is_an_error_and_no_signal() {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let ignored = status
            .lines()
            .find_map(|line| line.strip_prefix("SigIgn:"))
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .unwrap();
        let sigpipe_bit = 1 << (13 - 1);
        assert_eq!(ignored & sigpipe_bit, sigpipe_bit);
    }
}
