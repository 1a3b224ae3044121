//! Time-outs of what is done with an upstream.
//!
//! Owns the one way in which a task of this room gives up waiting: a future that is dropped when
//! its time is over. Dropping it leaves nothing behind, whatever it was at: sockets close, and a
//! result that a lane still brings is kept by whom it belongs to.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crate::net::clock::{Alarm, Clock};
use crate::time::Duration;

/// What `work` gives within `patience`; `None` when it does not. What is ready in the last moment
/// counts.
pub async fn within<F: Future>(clock: &Clock, patience: Duration, work: F) -> Option<F::Output> {
    let mut alarm = Alarm::new(clock.clone());
    alarm.set(Some(clock.now() + patience));
    let mut work = pin!(work);
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => alarm.poll(context).map(|()| None),
    })
    .await
}
