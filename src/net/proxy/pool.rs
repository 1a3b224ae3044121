//! Connections to destinations that wait for the next request.
//!
//! Owns a few idle connections, oldest first; the youngest of an address is used first. There are
//! bounds for each address and for all, and what is too much, or idle too long, is closed: a server
//! closes idle connections too, and one that does so while a request is on its way costs that
//! request.
//!
//! Never hands out a connection on which something has happened: a destination that closed it, or
//! spoke without being asked. What dies after that is not seen here, and never tried again.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;

use crate::limits::Limits;
use crate::model::proxy::Address;
use crate::net::clock::Alarm;
use crate::net::driver::Driver;
use crate::net::upstream::dial::Stream;
use crate::time::Instant;

/// A connection without a request.
struct Idle {
    address: Rc<Address>,
    stream: Stream,
    since: Instant,
}

/// All of them.
#[derive(Default)]
pub struct Pool {
    idle: RefCell<VecDeque<Idle>>,
    is_swept: Cell<bool>,
}

impl Pool {
    /// A connection to `address` that can take a request. Bounded by `pool_max`.
    pub fn take(&self, address: &Address) -> Option<Stream> {
        let mut idle = self.idle.borrow_mut();
        loop {
            let youngest = idle.iter().rposition(|idle| *idle.address == *address)?;
            let mut found = idle.remove(youngest)?;
            if found.stream.is_quiet() {
                return Some(found.stream);
            }
        }
    }

    /// Keeps a connection whose answer was read whole, and whose destination keeps it too. Bounded
    /// by `pool_max`.
    pub fn put(&self, address: Rc<Address>, stream: Stream, driver: &Rc<Driver>) {
        let limits = &driver.limits;
        let mut idle = self.idle.borrow_mut();
        make_room(&mut idle, &address, limits);
        idle.push_back(Idle {
            address,
            stream,
            since: driver.clock.now(),
        });
        drop(idle);
        if !self.is_swept.replace(true) {
            driver.spawn(sweep(driver.clone()));
        }
    }

    /// Idle connections.
    pub fn len(&self) -> usize {
        self.idle.borrow().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Closes all of them: the process ends.
    pub fn clear(&self) {
        self.idle.borrow_mut().clear();
    }

    /// Closes what was idle too long. Answers when the next one was; `None` for an empty pool.
    fn expire(&self, limits: &Limits, now: Instant) -> Option<Instant> {
        let mut idle = self.idle.borrow_mut();
        loop {
            let due = idle.front()?.since + limits.pool_idle_timeout;
            if due > now {
                return Some(due);
            }
            idle.pop_front();
        }
    }
}

fn make_room(idle: &mut VecDeque<Idle>, address: &Address, limits: &Limits) {
    let same = idle.iter().filter(|idle| *idle.address == *address);
    if same.count() >= limits.pool_destination_max
        && let Some(oldest) = idle.iter().position(|idle| *idle.address == *address)
    {
        idle.remove(oldest);
    }
    if idle.len() >= limits.pool_max {
        idle.pop_front();
    }
}

/// Closes connections that are idle too long, until there are none.
async fn sweep(driver: Rc<Driver>) {
    let pool = &driver.proxy.pool;
    let mut alarm = Alarm::new(driver.clock.clone());
    while let Some(due) = pool.expire(&driver.limits, driver.clock.now()) {
        alarm.set(Some(due));
        poll_fn(|context| alarm.poll(context)).await;
    }
    pool.is_swept.set(false);
}
