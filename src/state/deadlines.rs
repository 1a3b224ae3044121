//! Which connection has to be done with what by when.
//!
//! One ordered set over all connections, with one entry for each at most, and one timer for its
//! front. A request that sets a deadline later than the entry that stands only notes it; the entry
//! is moved when it comes up. So a busy keep-alive connection touches the set once per time-out and
//! not once per request, and no request costs a timer.

use std::collections::BTreeSet;

use crate::time::Instant;

use super::slab::{Key, Slab};

/// What a connection is doing while its deadline runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// First byte to the end of the head; the TLS handshake too.
    Head,
    /// End of the head to the end of the body.
    Body,
    /// Between two requests.
    Idle,
    /// The peer takes nothing of what is sent.
    Stall,
    /// Our last byte is out and the peer's end is awaited.
    Close,
    /// A request is forwarded; its own task is told, and decides what its client hears.
    Activity,
}

impl Reason {
    /// All of them, in the order of their declaration.
    pub const ALL: [Reason; 6] = [
        Reason::Head,
        Reason::Body,
        Reason::Idle,
        Reason::Stall,
        Reason::Close,
        Reason::Activity,
    ];

    /// As it is written in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::Head => "head",
            Reason::Body => "body",
            Reason::Idle => "idle",
            Reason::Stall => "stall",
            Reason::Close => "close",
            Reason::Activity => "activity",
        }
    }
}

#[derive(Debug)]
struct Entry {
    due: Option<(Instant, Reason)>,
    /// Where this key stands in the set.
    listed: Option<Instant>,
}

/// The deadlines of all connections.
#[derive(Debug, Default)]
pub struct Deadlines {
    entries: Slab<Entry>,
    order: BTreeSet<(Instant, Key)>,
}

impl Deadlines {
    /// Takes a connection in, without a deadline.
    pub fn insert(&mut self) -> Key {
        self.entries.insert(Entry {
            due: None,
            listed: None,
        })
    }

    /// Forgets a connection; a stale key is ignored.
    ///
    /// Bounded by O(log n).
    pub fn remove(&mut self, key: Key) {
        if let Some(Entry {
            listed: Some(at), ..
        }) = self.entries.remove(key)
        {
            self.order.remove(&(at, key));
        }
    }

    /// Sets the one deadline of a connection. Returns whether the front of all moved forward, so
    /// that the timer has to be set anew.
    ///
    /// Bounded by O(log n); O(1) where the entry that stands is early enough.
    pub fn arm(&mut self, key: Key, due: Instant, reason: Reason) -> bool {
        let Some(entry) = self.entries.of_mut(key) else {
            return false;
        };
        entry.due = Some((due, reason));
        if entry.listed.is_some_and(|listed| listed <= due) {
            return false;
        }
        if let Some(listed) = entry.listed.replace(due) {
            self.order.remove(&(listed, key));
        }
        self.order.insert((due, key));
        self.order.first() == Some(&(due, key))
    }

    /// Takes the deadline away.
    ///
    /// Bounded by O(1).
    pub fn disarm(&mut self, key: Key) {
        if let Some(entry) = self.entries.of_mut(key) {
            entry.due = None;
        }
    }

    /// Lets all deadlines of one reason be over now.
    ///
    /// Bounded by the number of connections.
    pub fn hasten(&mut self, reason: Reason, now: Instant) {
        let meant = |entry: &Entry| entry.due.is_some_and(|(_, due)| due == reason);
        let keys = self
            .entries
            .iter()
            .filter(|(_, entry)| meant(entry))
            .map(|(key, _)| key);
        for key in keys.collect::<Vec<Key>>() {
            self.arm(key, now, reason);
        }
    }

    /// The next connection whose deadline is over; it is disarmed by this.
    ///
    /// Bounded by O(log n) for each entry that comes up.
    pub fn poll_expired(&mut self, now: Instant) -> Option<(Key, Reason)> {
        while let Some(&(listed, key)) = self.order.first() {
            if listed > now {
                return None;
            }
            self.order.pop_first();
            let Some(entry) = self.entries.of_mut(key) else {
                continue;
            };
            entry.listed = None;
            match entry.due {
                Some((due, reason)) if due <= now => {
                    entry.due = None;
                    return Some((key, reason));
                }
                Some((due, _)) => {
                    entry.listed = Some(due);
                    self.order.insert((due, key));
                }
                None => {}
            }
        }
        None
    }

    /// When `poll_expired` has to be called next. May be early, never late.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.order.first().map(|(due, _)| *due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(seconds)
    }

    #[test]
    fn a_deadline_expires_once_and_not_before() {
        let mut deadlines = Deadlines::default();
        let key = deadlines.insert();
        assert!(deadlines.arm(key, at(5), Reason::Head));
        assert_eq!(deadlines.poll_expired(at(4)), None);
        assert_eq!(deadlines.poll_expired(at(5)), Some((key, Reason::Head)));
        assert_eq!(deadlines.poll_expired(at(99)), None);
        assert_eq!(deadlines.poll_timeout(), None);
    }

    #[test]
    fn a_later_deadline_costs_nothing_until_the_old_one_comes_up() {
        let mut deadlines = Deadlines::default();
        let key = deadlines.insert();
        deadlines.arm(key, at(5), Reason::Head);
        for second in 1..100 {
            assert!(!deadlines.arm(key, at(5 + second), Reason::Idle));
        }
        assert_eq!(deadlines.poll_timeout(), Some(at(5)));
        assert_eq!(deadlines.poll_expired(at(5)), None);
        assert_eq!(deadlines.poll_timeout(), Some(at(104)));
        assert_eq!(deadlines.poll_expired(at(104)), Some((key, Reason::Idle)));
    }

    #[test]
    fn an_earlier_deadline_moves_the_front() {
        let mut deadlines = Deadlines::default();
        let (slow, quick) = (deadlines.insert(), deadlines.insert());
        deadlines.arm(slow, at(50), Reason::Idle);
        assert!(deadlines.arm(quick, at(9), Reason::Head));
        assert!(deadlines.arm(slow, at(3), Reason::Head));
        assert_eq!(deadlines.poll_expired(at(9)), Some((slow, Reason::Head)));
        assert_eq!(deadlines.poll_expired(at(9)), Some((quick, Reason::Head)));
    }

    #[test]
    fn one_reason_can_be_hastened() {
        let mut deadlines = Deadlines::default();
        let (idle, busy) = (deadlines.insert(), deadlines.insert());
        deadlines.arm(idle, at(50), Reason::Idle);
        deadlines.arm(busy, at(50), Reason::Body);
        deadlines.hasten(Reason::Idle, at(1));
        assert_eq!(deadlines.poll_expired(at(1)), Some((idle, Reason::Idle)));
        assert_eq!(deadlines.poll_expired(at(1)), None);
    }

    #[test]
    fn a_disarmed_or_removed_connection_never_expires() {
        let mut deadlines = Deadlines::default();
        let (one, other) = (deadlines.insert(), deadlines.insert());
        deadlines.arm(one, at(1), Reason::Stall);
        deadlines.arm(other, at(1), Reason::Stall);
        deadlines.disarm(one);
        deadlines.remove(other);
        assert_eq!(deadlines.poll_expired(at(9)), None);
    }
}
