//! What the service manager is told, and the proof that the loop still turns.
//!
//! Owns: the datagrams of `sd_notify(3)` (ready, reloading, stopping, status, watchdog) and the
//! task that feeds the watchdog. It is fed only when the driver took a turn since the last time and
//! every listener is still being accepted from: a process whose loop hangs is ended by the service
//! manager and started again.
//!
//! Never waits and never fails: a manager that takes no message costs the message. Without
//! `NOTIFY_SOCKET` nothing is sent and no task runs.
//!
//! Written here because the crate for it waits while the manager's socket is full.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::future::poll_fn;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::rc::Rc;

use crate::time::{Duration, Instant};
use crate::wire::status::{Phase, Status};

use super::admin::status;
use super::clock::Alarm;
use super::driver::Driver;

/// Longest text of a status; `systemctl status` shows it in one line.
const STATUS_CHARS_MAX: usize = 400;

/// Who wants to know how the process is, if anybody.
#[derive(Debug, Default)]
pub struct Notify {
    manager: Option<(UnixDatagram, SocketAddr)>,
    /// The manager ends a process that it has not heard of for so long.
    watchdog: Option<Duration>,
    /// The start is over: before that, the end of a reload is not yet a service.
    is_ready: Cell<bool>,
}

impl Notify {
    /// Whoever the environment names: `NOTIFY_SOCKET` is a path or, after `@`, an abstract name.
    /// Other kinds of address are left alone.
    pub fn from_environment() -> Notify {
        let named = std::env::var_os("NOTIFY_SOCKET").unwrap_or_default();
        let address = match named.as_bytes().split_first() {
            Some((b'@', name)) => SocketAddr::from_abstract_name(name).ok(),
            Some((b'/', _)) => SocketAddr::from_pathname(&named).ok(),
            _ => None,
        };
        let variable = |name| std::env::var(name).ok();
        let is_for_us =
            variable("WATCHDOG_PID").is_none_or(|pid| pid.parse() == Ok(std::process::id()));
        let watchdog = variable("WATCHDOG_USEC").filter(|_| is_for_us);
        Notify {
            manager: address.and_then(|address| Some((datagram()?, address))),
            watchdog: watchdog
                .and_then(|micros| micros.parse().ok())
                .map(Duration::from_micros),
            is_ready: Cell::new(false),
        }
    }

    /// Says why the process is about to end, before there is a driver.
    pub fn fail(&self, why: &str) {
        self.send("", why);
    }

    /// Started, and serving from now on.
    pub fn ready(&self, driver: &Driver) {
        self.is_ready.set(true);
        self.send("READY=1\n", &in_words(&status::collect(driver)));
    }

    /// A reload has begun.
    pub fn reloading(&self, now: Instant) {
        if !self.is_ready.get() {
            return;
        }
        let micros = now.as_micros();
        let fields = format!("RELOADING=1\nMONOTONIC_USEC={micros}\n");
        self.send(&fields, "reloading");
    }

    /// A reload is over, for better or worse.
    pub fn reloaded(&self, driver: &Driver) {
        if self.is_ready.get() {
            self.ready(driver);
        }
    }

    /// On the way out.
    pub fn stopping(&self, driver: &Driver) {
        self.send("STOPPING=1\n", &in_words(&status::collect(driver)));
    }

    /// Sends whole lines of fields, and the status.
    fn send(&self, fields: &str, status: &str) {
        let Some((socket, address)) = &self.manager else {
            return;
        };
        // A line end would begin a field of the status's own making.
        let plain = |letter: char| match letter.is_control() {
            true => ' ',
            false => letter,
        };
        let status: String = status.chars().map(plain).take(STATUS_CHARS_MAX).collect();
        let message = format!("{fields}STATUS={status}\n");
        let _ = socket.send_to_addr(message.as_bytes(), address);
    }

    /// How often the manager is told that all is well: three times within the watchdog's patience.
    fn interval(&self, unwatched: Duration) -> Duration {
        match self.watchdog {
            Some(patience) => (patience / 3).max(Duration::from_millis(1)),
            None => unwatched,
        }
    }
}

fn datagram() -> Option<UnixDatagram> {
    let socket = UnixDatagram::unbound().ok()?;
    socket.set_nonblocking(true).ok()?;
    Some(socket)
}

/// Feeds the watchdog and keeps the status true, until the process ends. For a task of the loop
/// that is to be proven alive.
pub async fn watch(driver: Rc<Driver>) {
    if driver.notify.manager.is_none() {
        return;
    }
    let interval = driver.notify.interval(driver.limits.status_interval);
    let mut pulse = Pulse::default();
    let mut alarm = Alarm::new(driver.clock.clone());
    loop {
        pulse.look(&driver);
        alarm.set(Some(driver.clock.now() + interval));
        poll_fn(|context| alarm.poll(context)).await;
    }
}

/// Whether the loop turned between two looks.
#[derive(Debug, Default)]
struct Pulse {
    turns: Option<u64>,
    is_ill: bool,
}

impl Pulse {
    /// Tells the manager that all is well, if it is.
    fn look(&mut self, driver: &Driver) {
        let turns = driver.turns();
        let turned = self.turns.replace(turns) != Some(turns);
        // So that there is a turn until the next look, however little happens.
        driver.wake();
        let is_well = turned && driver.is_accepting();
        if is_well {
            let status = in_words(&status::collect(driver));
            driver.notify.send("WATCHDOG=1\n", &status);
        } else if !self.is_ill {
            let what = if turned {
                "a listener has ended"
            } else {
                "the loop does not turn"
            };
            driver
                .log
                .error(format_args!("{what}: the watchdog is fed no more"));
        }
        self.is_ill = !is_well;
    }
}

/// The status in one line, the worst problem at its end.
fn in_words(status: &Status) -> String {
    let served = status.slots.iter().filter_map(|slot| slot.serves.as_ref());
    let sources: BTreeSet<&str> = served.clone().map(|held| held.source.as_str()).collect();
    let (have, all) = (served.count(), status.slots.len());
    let mut words = match status.state {
        Phase::Serving => format!("serves {have} of {all} slots"),
        Phase::Draining => "ending".to_owned(),
    };
    if status.state == Phase::Serving && !sources.is_empty() {
        let sources = sources.into_iter().collect::<Vec<_>>().join(", ");
        // A string takes everything; here and below.
        let _ = write!(words, " ({sources})");
    }
    let _ = write!(words, ", {} clients", status.streams());
    let problems = status.problems.len();
    if let Some(first) = status.problems.first() {
        let noun = if problems == 1 { "problem" } else { "problems" };
        let _ = write!(words, "; {problems} {noun}: {first}");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::net::disk::scratch::Scratch;
    use crate::net::rig::Rig;
    use crate::wire::status::sample;

    /// Who is told, with the folder that its socket is in.
    struct Listener {
        socket: UnixDatagram,
        _scratch: Scratch,
    }

    /// A rig and whom it tells.
    fn told(name: &str) -> (Rig, Listener) {
        let scratch = Scratch::new(name);
        let manager = UnixDatagram::bind(scratch.path("manager")).unwrap();
        manager.set_nonblocking(true).unwrap();
        let notify = Notify {
            manager: Some((datagram().unwrap(), manager.local_addr().unwrap())),
            ..Notify::default()
        };
        let rig = Rig::watched(Limits::PRODUCTION, notify);
        (
            rig,
            Listener {
                socket: manager,
                _scratch: scratch,
            },
        )
    }

    fn heard(listener: &Listener) -> Option<String> {
        let mut bytes = [0; 4096];
        let length = listener.socket.recv(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }

    #[test]
    fn the_watchdog_is_fed_only_while_the_loop_turns() {
        let (rig, listener) = told("notify-loop");
        let mut pulse = Pulse::default();
        rig.settle();
        for _ in 0..3 {
            pulse.look(&rig.driver);
            assert!(heard(&listener).unwrap().starts_with("WATCHDOG=1\nSTATUS="));
            rig.settle();
        }
        pulse.look(&rig.driver);
        heard(&listener).unwrap();
        for _ in 0..2 {
            pulse.look(&rig.driver);
            assert_eq!(heard(&listener), None);
        }
        let lines = rig.lines.take();
        assert_eq!(lines.matches("does not turn").count(), 1, "{lines}");
    }

    #[test]
    fn a_listener_that_ended_starves_the_watchdog() {
        let (rig, listener) = told("notify-listener");
        rig.driver.spawn_listener(async {});
        rig.settle();
        Pulse::default().look(&rig.driver);
        assert_eq!(heard(&listener), None);
        // On its way out, none is left to miss.
        rig.driver.drain();
        heard(&listener);
        Pulse::default().look(&rig.driver);
        let fed = heard(&listener).unwrap();
        assert!(
            fed.contains("WATCHDOG=1") && fed.contains("ending"),
            "{fed}"
        );
    }

    #[test]
    fn a_reload_is_told_with_its_time_and_ended() {
        let (rig, listener) = told("notify-reload");
        let notify = &rig.driver.notify;
        // While the relay starts, the end of a reload does not make it ready.
        notify.reloading(Instant::from_micros(76));
        notify.reloaded(&rig.driver);
        assert_eq!(heard(&listener), None);
        let expected = "READY=1\nSTATUS=serves 0 of 2 slots, 0 clients; 1 problem: ";
        notify.ready(&rig.driver);
        let ready = heard(&listener).unwrap();
        assert!(ready.starts_with(expected), "{ready}");
        notify.reloading(Instant::from_micros(77));
        let begun = heard(&listener).unwrap();
        assert!(
            begun.starts_with("RELOADING=1\nMONOTONIC_USEC=77\n"),
            "{begun}"
        );
        notify.reloaded(&rig.driver);
        assert_eq!(heard(&listener), Some(ready));
    }

    #[test]
    fn a_status_is_one_field_whatever_it_quotes() {
        let (rig, listener) = told("notify-status");
        rig.driver.notify.fail("a\nWATCHDOG=trigger\u{85}");
        assert_eq!(heard(&listener).unwrap(), "STATUS=a WATCHDOG=trigger \n");
        rig.driver.notify.fail(&"x".repeat(5000));
        assert_eq!(
            heard(&listener).unwrap().len(),
            "STATUS=\n".len() + STATUS_CHARS_MAX
        );
    }

    #[test]
    fn the_words_say_what_is_served_and_what_is_wrong() {
        let mut status = sample();
        assert_eq!(in_words(&status), "serves 1 of 1 slots (seed), 3 clients");
        status.problems = vec!["first".into(), "second".into()];
        assert!(in_words(&status).ends_with(", 3 clients; 2 problems: first"));
    }

    #[test]
    fn the_watchdog_is_fed_three_times_within_its_patience() {
        let watched = Notify {
            watchdog: Some(Duration::from_secs(30)),
            ..Notify::default()
        };
        let unwatched = Duration::from_secs(7);
        assert_eq!(watched.interval(unwatched), Duration::from_secs(10));
        assert_eq!(Notify::default().interval(unwatched), unwatched);
    }
}
