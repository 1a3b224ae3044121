//! The only reader of clocks.
//!
//! Owns: the monotonic clock for every deadline, the wall clock for what people and peers are
//! shown, and the `Date` header, which is formatted once a second and not once a request.
//! Everybody else is handed the time as an argument, so that a test can be the clock.
//!
//! Never: lets one clock stand in for the other. The monotonic one stops while the machine is
//! suspended; the wall clock starts in 1970 on a box without a battery and jumps when it is set.
//!
//! Invariants: `now()` never goes back and is never `Instant::ORIGIN`; no date, however wrong the
//! clock, panics.

use crate::time::{Duration, Instant, Wall, WallMs};
use rustix::time::{ClockId, clock_gettime};
use smol::Timer;
use std::cell::{Cell, RefCell};
use std::future::Future as _;
use std::io::Write as _;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The `Date` header's value, always as long as this: `Thu, 01 Jan 1970 00:00:00 GMT`.
pub type DateText = [u8; 29];

/// The last second that HTTP dates and RFC 3339 can write: 9999-12-31T23:59:59Z.
const SECONDS_MAX: u64 = 253_402_300_799;

/// Reads the time. A clone reads the same clock; a clone of a virtual clock moves with it.
#[derive(Clone, Debug)]
pub struct Clock {
    face: Face,
    date: Cell<(Wall, DateText)>,
}

#[derive(Clone, Debug)]
enum Face {
    System,
    Virtual(Rc<Dial>),
}

/// A virtual clock: where its hands stand, and the tasks that wait for them to move.
#[derive(Debug)]
struct Dial {
    reading: Cell<Reading>,
    waiting: RefCell<Vec<Waker>>,
}

impl Dial {
    fn get(&self) -> Reading {
        self.reading.get()
    }

    /// Moves the hands, and wakes whoever may wait for that.
    fn set(&self, reading: Reading) {
        self.reading.set(reading);
        for waker in self.waiting.take() {
            waker.wake();
        }
    }

    fn wait(&self, waker: &Waker) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|other| other.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }
}

/// Where the hands of a virtual clock stand.
#[derive(Clone, Copy, Debug)]
struct Reading {
    now: Instant,
    /// The wall time that was set, and when; it runs on from there.
    wall_set: (Wall, Instant),
}

impl Clock {
    /// The machine's own clocks.
    pub fn system() -> Clock {
        Clock::with(Face::System)
    }

    /// A clock that stands still until its [`Hands`] are moved.
    pub fn virtual_at(wall: Wall) -> (Clock, Hands) {
        let now = Instant::from_micros(1);
        let wall_set = (wall, now);
        let hands = Rc::new(Dial {
            reading: Cell::new(Reading { now, wall_set }),
            waiting: RefCell::new(Vec::new()),
        });
        (Clock::with(Face::Virtual(hands.clone())), Hands(hands))
    }

    fn with(face: Face) -> Clock {
        let epoch = Wall::from_unix(0);
        let date = Cell::new((epoch, date_text(epoch)));
        Clock { face, date }
    }

    /// The monotonic time: microseconds since the machine started, suspended time left out.
    pub fn now(&self) -> Instant {
        match &self.face {
            Face::System => {
                let time = clock_gettime(ClockId::Monotonic);
                let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
                let micros = u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000;
                let since_start = seconds.saturating_mul(1_000_000).saturating_add(micros);
                Instant::from_micros(since_start.max(1))
            }
            Face::Virtual(hands) => hands.get().now,
        }
    }

    /// The time of day, for output only. Before 1970 reads as 1970; 64 bits on every target.
    pub fn wall(&self) -> Wall {
        match &self.face {
            Face::System => system_wall(),
            Face::Virtual(hands) => {
                let Reading { now, wall_set } = hands.get();
                let passed = now.since(wall_set.1).as_secs();
                Wall::from_unix(wall_set.0.as_unix().saturating_add(passed))
            }
        }
    }

    /// The same to the millisecond, for what several sites do at one time.
    pub fn wall_ms(&self) -> WallMs {
        match &self.face {
            Face::System => {
                let time = clock_gettime(ClockId::Realtime);
                let millis = u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000;
                let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
                WallMs::from_unix_ms(seconds.saturating_mul(1_000).saturating_add(millis))
            }
            Face::Virtual(hands) => {
                let Reading { now, wall_set } = hands.get();
                let set = WallMs::from_unix_ms(wall_set.0.as_unix().saturating_mul(1_000));
                set + now.since(wall_set.1)
            }
        }
    }

    /// What the `Date` header says now. Formats at most once a second, and allocates nothing.
    pub fn date(&self) -> DateText {
        let wall = self.wall();
        let (written, text) = self.date.get();
        if written == wall {
            return text;
        }
        let text = date_text(wall);
        self.date.set((wall, text));
        text
    }
}

/// Waits for one moment at a time of one clock.
#[derive(Debug)]
pub struct Alarm {
    clock: Clock,
    at: Option<Instant>,
    timer: Timer,
}

impl Alarm {
    /// An alarm that never rings.
    pub fn new(clock: Clock) -> Alarm {
        Alarm {
            clock,
            at: None,
            timer: Timer::never(),
        }
    }

    /// Rings at `at`, or never, whatever it was set to before. Setting the same moment again costs
    /// nothing.
    pub fn set(&mut self, at: Option<Instant>) {
        if self.at == at {
            return;
        }
        self.at = at;
        match (at, &self.clock.face) {
            (Some(at), Face::System) => self.timer.set_after(at - self.clock.now()),
            _ => self.timer.clear(),
        }
    }

    /// Ready when it rings, once.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let rings = match (&self.clock.face, self.at) {
            (Face::System, _) => Pin::new(&mut self.timer).poll(context).is_ready(),
            (Face::Virtual(hands), at) => at.is_some_and(|at| at <= hands.get().now),
        };
        if !rings {
            if let (Face::Virtual(hands), Some(_)) = (&self.clock.face, self.at) {
                hands.wait(context.waker());
            }
            return Poll::Pending;
        }
        self.at = None;
        Poll::Ready(())
    }
}

/// What moves a virtual clock.
#[derive(Clone, Debug)]
pub struct Hands(Rc<Dial>);

impl Hands {
    /// Lets `duration` go by on both clocks.
    pub fn advance(&self, duration: Duration) {
        let reading = self.0.get();
        let now = reading.now + duration;
        self.0.set(Reading { now, ..reading });
    }

    /// Steps the wall clock alone, as a clock server does.
    pub fn set_wall(&self, wall: Wall) {
        let now = self.0.get().now;
        let wall_set = (wall, now);
        self.0.set(Reading { now, wall_set });
    }
}

/// The machine's own time of day, for libraries that want to read it themselves. The standard
/// library's cannot be used: on 32-bit targets it ends the process in 2038.
pub(super) fn system_wall() -> Wall {
    let time = clock_gettime(ClockId::Realtime);
    Wall::from_unix(u64::try_from(time.tv_sec).unwrap_or(0))
}

/// `wall`, or the last second that can be written with a year of four digits.
pub(super) fn writable(wall: Wall) -> Wall {
    Wall::from_unix(wall.as_unix().min(SECONDS_MAX))
}

/// RFC 9110's fixed-length date.
fn date_text(wall: Wall) -> DateText {
    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    let date = httpdate::HttpDate::from(writable(wall).to_system());
    // Exactly 29 bytes, always; if ever it were not, the array would keep what fits.
    let _ = write!(&mut text[..], "{date}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_rings_once_at_its_moment() {
        let (clock, hands) = Clock::virtual_at(Wall::from_unix(0));
        let mut alarm = Alarm::new(clock.clone());
        let context = &mut Context::from_waker(Waker::noop());
        alarm.set(Some(clock.now() + Duration::from_secs(2)));
        hands.advance(Duration::from_secs(1));
        assert!(alarm.poll(context).is_pending());
        hands.advance(Duration::from_secs(1));
        assert!(alarm.poll(context).is_ready());
        assert!(alarm.poll(context).is_pending());
    }

    #[test]
    fn moving_the_hands_wakes_who_waits_for_them() {
        let (clock, hands) = Clock::virtual_at(Wall::from_unix(0));
        let executor = smol::LocalExecutor::new();
        let due = clock.now() + Duration::from_secs(2);
        let mut alarm = Alarm::new(clock);
        let task = executor.spawn(std::future::poll_fn(move |context| {
            alarm.set(Some(due));
            alarm.poll(context)
        }));
        for _ in 0..2 {
            while executor.try_tick() {}
            assert!(!task.is_finished());
            hands.advance(Duration::from_secs(1));
        }
        while executor.try_tick() {}
        assert!(task.is_finished());
    }

    #[test]
    fn system_time_is_past_its_origin_and_does_not_go_back() {
        let clock = Clock::system();
        let first = clock.now();
        let second = clock.now();
        assert!(first > Instant::ORIGIN);
        assert!(second >= first);
        let apart = std::time::SystemTime::now()
            .duration_since(clock.wall().to_system())
            .unwrap();
        assert!(apart < Duration::from_secs(5), "{apart:?}");
    }

    #[test]
    fn date_follows_the_wall_clock_both_ways() {
        let (clock, hands) = Clock::virtual_at(Wall::from_unix(784_111_777));
        assert_eq!(&clock.date(), b"Sun, 06 Nov 1994 08:49:37 GMT");
        for _ in 0..2 {
            hands.advance(Duration::from_millis(500));
        }
        assert_eq!(&clock.date(), b"Sun, 06 Nov 1994 08:49:38 GMT");
        hands.set_wall(Wall::from_unix(0));
        assert_eq!(&clock.date(), b"Thu, 01 Jan 1970 00:00:00 GMT");
    }

    #[test]
    fn dates_beyond_every_calendar_are_still_dates() {
        let (clock, hands) = Clock::virtual_at(Wall::from_unix(u64::from(u32::MAX) + 1));
        assert_eq!(&clock.date(), b"Sun, 07 Feb 2106 06:28:16 GMT");
        hands.set_wall(Wall::from_unix(0x7fff_ffff + 1));
        assert_eq!(&clock.date(), b"Tue, 19 Jan 2038 03:14:08 GMT");
        for far in [SECONDS_MAX, SECONDS_MAX + 1, u64::MAX] {
            hands.set_wall(Wall::from_unix(far));
            assert_eq!(&clock.date(), b"Fri, 31 Dec 9999 23:59:59 GMT");
        }
    }

    #[test]
    fn stepping_the_wall_clock_moves_no_deadline() {
        let (clock, hands) = Clock::virtual_at(Wall::from_unix(0));
        let before = clock.now();
        hands.set_wall(Wall::PLAUSIBLE);
        assert_eq!(clock.now(), before);
        hands.advance(Duration::from_millis(1500));
        assert_eq!(clock.now() - before, Duration::from_millis(1500));
        assert_eq!(clock.clone().now(), clock.now());
    }
}
