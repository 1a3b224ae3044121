//! A bell that wakes tasks of this thread: something may have changed, look for yourself.
//!
//! Owns the wakers of those who wait. It carries no message, and who is woken for nothing waits
//! again. A ring is never lost: whoever looks, finds nothing and then waits has done both in one
//! go, on one thread.
//!
//! Bounded by the number of tasks that wait at once.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

use crate::net::clock::Alarm;

/// The bell.
#[derive(Debug, Default)]
pub struct Bell {
    rung: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
}

impl Bell {
    /// Wakes everybody who waits.
    pub fn ring(&self) {
        self.rung.set(self.rung.get().wrapping_add(1));
        for waker in self.waiting.take() {
            waker.wake();
        }
    }

    /// Waits for the next ring, or for `alarm`.
    pub async fn next(&self, alarm: &mut Alarm) {
        let seen = self.rung.get();
        poll_fn(|context| {
            if self.rung.get() != seen {
                return Poll::Ready(());
            }
            let mut waiting = self.waiting.borrow_mut();
            if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                waiting.push(context.waker().clone());
            }
            drop(waiting);
            alarm.poll(context)
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::clock::Clock;
    use crate::time::{Duration, Wall};
    use futures_lite::future::poll_once;
    use std::pin::pin;

    #[test]
    fn a_ring_or_the_alarm_ends_the_wait() {
        let (clock, hands) = Clock::virtual_at(Wall::from_unix(0));
        let bell = Bell::default();
        smol::block_on(async {
            let (mut one, mut two) = (Alarm::new(clock.clone()), Alarm::new(clock.clone()));
            let mut first = pin!(bell.next(&mut one));
            assert!(poll_once(first.as_mut()).await.is_none());
            bell.ring();
            two.set(Some(clock.now() + Duration::from_secs(1)));
            let mut second = pin!(bell.next(&mut two));
            assert!(poll_once(second.as_mut()).await.is_none());
            assert!(poll_once(first.as_mut()).await.is_some());
            hands.advance(Duration::from_secs(1));
            assert!(poll_once(second.as_mut()).await.is_some());
        });
    }
}
