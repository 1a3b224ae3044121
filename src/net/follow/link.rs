//! One socket to an upstream, from its dial to its end.
//!
//! Owns the task that drives it, and what the session wants of it meanwhile: a ping, or the end.
//! One task reads, writes and answers pings; nobody else touches the socket.
//!
//! A socket that is hung up says goodbye within `close_timeout`, and its place is free at once: the
//! session counts it as gone from its own word on.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use futures_lite::future::or;
use smol::Task;

use crate::model::{Role, SlotIndex};
use crate::net::driver::Driver;
use crate::net::upstream::{Ended, Socket};
use crate::state::session::{DialId, Inbound, Loss};

use super::Follow;

/// A socket that is open or being opened. Dropped, it closes without a word.
pub(super) struct Link {
    task: Task<()>,
    wishes: Rc<Wishes>,
}

/// What the session wants of an open socket.
#[derive(Default)]
struct Wishes {
    is_open: Cell<bool>,
    ping: Cell<bool>,
    end: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

enum Wish {
    Ping,
    End,
}

enum Event {
    Said(Result<Inbound, Ended>),
    Wish(Wish),
}

impl Link {
    /// Sends a ping.
    pub fn ping(&self) {
        self.wishes.give(&self.wishes.ping);
    }

    /// Ends it: an open socket with a close frame, another at once.
    pub fn end(self) {
        if self.wishes.is_open.get() {
            self.wishes.give(&self.wishes.end);
            self.task.detach();
        }
    }
}

impl Wishes {
    fn give(&self, wish: &Cell<bool>) {
        wish.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    async fn next(&self) -> Wish {
        poll_fn(|context| {
            if self.end.get() {
                return Poll::Ready(Wish::End);
            }
            if self.ping.take() {
                return Poll::Ready(Wish::Ping);
            }
            self.waker.set(Some(context.waker().clone()));
            Poll::Pending
        })
        .await
    }
}

/// Begins to open a socket.
pub(super) fn open(driver: &Rc<Driver>, slot: SlotIndex, id: DialId, role: Role) -> Link {
    let wishes = Rc::new(Wishes::default());
    let task = run(driver.clone(), slot, id, role, wishes.clone());
    Link {
        task: driver.task(task),
        wishes,
    }
}

async fn run(driver: Rc<Driver>, slot: SlotIndex, id: DialId, role: Role, wishes: Rc<Wishes>) {
    let Some(follow) = &driver.follow else { return };
    let lost = connect(&driver, follow, slot, id, role, &wishes).await;
    let Some((loss, text)) = lost else { return };
    let link = follow.links.borrow_mut().remove(&(slot, id));
    if let Some(link) = link {
        // It is this very task.
        link.task.detach();
    }
    follow.note_trouble(slot, role, text, driver.clock.now());
    super::tell(&driver, slot, |session, now| {
        session.handle_loss(id, loss, now)
    });
}

/// Why the link is at its end; `None` when that was wished for.
async fn connect(
    driver: &Rc<Driver>,
    follow: &Follow,
    slot: SlotIndex,
    id: DialId,
    role: Role,
    wishes: &Wishes,
) -> Option<(Loss, String)> {
    let key = super::slot_key(driver, slot)?;
    let upstream = follow.upstream(slot, role)?;
    let mut socket = match upstream.subscribe(&follow.net, &key).await {
        Ok(socket) => Box::new(socket),
        Err(error) => return Some((error.loss(), error.to_string())),
    };
    wishes.is_open.set(true);
    super::tell(driver, slot, |session, now| session.handle_open(id, now));
    loop {
        match next(&mut socket, wishes).await {
            Event::Said(Ok(said)) => {
                super::tell(driver, slot, |session, now| {
                    session.handle_inbound(id, said, now)
                });
            }
            Event::Said(Err(ended)) => {
                let host = upstream.endpoint();
                let loss = match ended {
                    Ended::Broken => Loss::Unusable,
                    Ended::Closed(_) | Ended::Lost(_) => Loss::Closed,
                };
                return Some((loss, format!("{host}: {ended}")));
            }
            Event::Wish(Wish::Ping) => socket.ping(),
            Event::Wish(Wish::End) => {
                socket.close(&follow.net).await;
                return None;
            }
        }
    }
}

async fn next(socket: &mut Socket, wishes: &Wishes) -> Event {
    let wish = async { Event::Wish(wishes.next().await) };
    let said = async { Event::Said(socket.next().await) };
    or(wish, said).await
}
