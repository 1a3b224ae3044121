//! Streams and slow answers: who is written to, and the broadcast that writes.
//!
//! Owns the places in the fan-out, from joining to leaving, and the loop that hands every
//! subscriber what there is for it: straight to each socket that is ready, yielding every
//! `fanout_batch` clients; a socket that was full is left to its own task.
//!
//! Invariant: a place is let go by being dropped, which borrows nothing: it lists its key, and the
//! driver cleans up with its next turn.

use std::io;
use std::rc::{Rc, Weak};

use futures_lite::future::yield_now;

use crate::net::connection::Connection;
use crate::net::document::Document;
use crate::net::stream::{Client, Progress};
use crate::state::fanout::{SubscribersFull, Subscription};
use crate::state::slab::Key;

use super::{Driver, push, put};

/// Who is written to in the name of a key of the fan-out.
pub(super) enum Writer {
    Stream(Rc<Client>),
    Fetch(Weak<Connection>),
}

impl Driver {
    /// Takes a subscriber in; `make` gets its key. It is let go with its place.
    pub fn join(
        self: &Rc<Driver>,
        subscription: Subscription,
        make: impl FnOnce(Key) -> Client,
    ) -> Result<(Rc<Client>, Place), SubscribersFull> {
        let key = {
            let mut state = self.state.borrow_mut();
            state.counters.streams += 1;
            state.fanout.subscribe(subscription, self.clock.now())?
        };
        let client = Rc::new(make(key));
        put(
            &mut self.writers.borrow_mut(),
            key,
            Writer::Stream(client.clone()),
        );
        self.wake();
        Ok((
            client,
            Place {
                driver: self.clone(),
                key,
            },
        ))
    }

    /// Registers an answer that is written slowly, because it keeps its snapshot alive. It is let
    /// go with its place.
    pub fn hold(
        self: &Rc<Driver>,
        connection: &Rc<Connection>,
        document: &Document,
    ) -> io::Result<Place> {
        let version = document.publication.version;
        let held =
            self.state
                .borrow_mut()
                .fanout
                .hold(document.ask.slot, version, document.ask.key);
        let key = held.map_err(|SubscribersFull| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let writer = Writer::Fetch(Rc::downgrade(connection));
        put(&mut self.writers.borrow_mut(), key, writer);
        Ok(Place {
            driver: self.clone(),
            key,
        })
    }

    /// Hands every subscriber what there is for it.
    pub(super) async fn broadcast(&self) {
        let mut written = 0;
        loop {
            let evicted = self.state.borrow_mut().fanout.poll_evicted();
            if let Some(key) = evicted {
                self.evict(key);
                continue;
            }
            let dirty = self.state.borrow_mut().fanout.poll_dirty();
            let Some(key) = dirty else { return };
            self.pump(key);
            written += 1;
            if written % self.limits.fanout_batch == 0 {
                yield_now().await;
            }
        }
    }

    fn pump(&self, key: Key) {
        let client = match self.writers.borrow().get(key.place()) {
            Some(Some(Writer::Stream(client))) if client.key() == key => client.clone(),
            _ => return,
        };
        if client.is_blocked() {
            return;
        }
        match client.pump() {
            Ok(Progress::Idle) => {}
            Ok(Progress::Blocked | Progress::Closed) | Err(_) => client.wake(),
        }
    }

    fn evict(&self, key: Key) {
        let connection = match self.writers.borrow().get(key.place()) {
            Some(Some(Writer::Stream(client))) => Some(client.connection.clone()),
            Some(Some(Writer::Fetch(connection))) => connection.upgrade(),
            _ => None,
        };
        if let Some(connection) = connection {
            connection.io().reset();
        }
    }
}

/// A subscriber's place in the fan-out, for as long as this lives. Its `Drop` borrows nothing: it
/// lists the key, and the driver lets it go with its next turn.
pub struct Place {
    driver: Rc<Driver>,
    key: Key,
}

impl Drop for Place {
    fn drop(&mut self) {
        push(&self.driver.left, self.key);
        self.driver.wake();
    }
}
