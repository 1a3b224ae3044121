//! Who follows which slot, and what each of them is to be sent next.
//!
//! Policy: a subscriber holds no queue of content. It remembers the version that it was sent last,
//! and *pulls* the newest one when the frame that is being written has gone out whole. A slow
//! client therefore skips versions, never misses the newest, and costs one position; it delays
//! nobody. The alternative, a queue per client, either grows or drops, and what it drops may be the
//! last change for a week.
//!
//! Of control frames at most one of each kind waits, and they go out in this order: pong,
//! heartbeat, close. A later pong replaces an earlier one, so a flood of pings takes no room.
//!
//! Memory: a snapshot stays alive while a frame of it is being written. At most
//! `snapshots_alive_max` per slot may; a publication beyond that evicts the subscribers that are
//! still writing the oldest. Trip: one client slower than three changes. Recovery: it reconnects.
//!
//! The published thing itself is opaque here: `Fanout` only hands out references to it.

use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;

use crate::limits::Limits;
use crate::model::{KeyIndex, SlotIndex, Version};
use crate::time::Instant;

use super::slab::{Key, Slab};

/// What a subscriber is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A server SDK: told that something changed, then fetches.
    WebSocket,
    /// A browser SDK: gets the document in the stream.
    Sse,
    /// A browser SDK in restricted mode: told that something changed, then fetches.
    SseEventsOnly,
    /// A config answer that its client reads slowly: follows nothing, holds one snapshot.
    Fetch,
}

impl Kind {
    /// All kinds, in the order of [`Gauges`].
    pub const ALL: [Kind; 4] = [Kind::WebSocket, Kind::Sse, Kind::SseEventsOnly, Kind::Fetch];

    /// As it is written in status and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::WebSocket => "websocket",
            Kind::Sse => "sse",
            Kind::SseEventsOnly => "sse_events_only",
            Kind::Fetch => "fetch",
        }
    }

    const fn holds_document(self) -> bool {
        matches!(self, Kind::Sse | Kind::Fetch)
    }
}

/// Subscribers of one slot by kind, in the order of [`Kind::ALL`].
pub type Gauges = [u32; Kind::ALL.len()];

/// Frames beside the content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    Pong(Bytes),
    Heartbeat,
    /// The last frame; nothing follows it.
    Close(u16),
}

/// The next thing to write to a subscriber.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<P> {
    Control(Control),
    /// The first content of this subscriber.
    Registration(Rc<P>),
    /// Newer content than the last.
    Change(Rc<P>),
}

/// The table of subscribers is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscribersFull;

/// Who subscribes, to what, and what it knows already.
#[derive(Clone, Copy, Debug)]
pub struct Subscription {
    pub slot: SlotIndex,
    pub kind: Kind,
    pub key: KeyIndex,
    /// Send one change text even if nothing changes: Go SDKs do not fetch when they reconnect.
    pub greet: bool,
}

#[derive(Debug)]
struct Subscriber {
    slot: SlotIndex,
    kind: Kind,
    key: KeyIndex,
    /// Newest version that this client has, or can be sure to fetch.
    sent: Version,
    registered: bool,
    /// The version whose frame is being written, for those frames that hold a document.
    writing: Option<Version>,
    waiting: Waiting,
    /// The key is in `Fanout::dirty`.
    queued: bool,
    /// A close was taken: nothing follows.
    closed: bool,
}

/// Control frames that have not been taken yet.
#[derive(Debug, Default)]
struct Waiting {
    pong: Option<Bytes>,
    heartbeat: bool,
    close: Option<u16>,
}

#[derive(Debug)]
struct Topic<P> {
    newest: Option<(Version, Rc<P>)>,
    /// When the content last changed for clients that may have fetched before.
    changed_at: Option<Instant>,
    gauges: Gauges,
}

/// The subscribers of all slots. `P` is what is published.
#[derive(Debug)]
pub struct Fanout<P> {
    topics: Vec<Topic<P>>,
    subscribers: Slab<Subscriber>,
    dirty: VecDeque<Key>,
    evicted: VecDeque<Key>,
    subscribers_max: usize,
    snapshots_alive_max: usize,
    change_grace: crate::time::Duration,
    evictions: u64,
}

impl<P> Fanout<P> {
    /// A fan-out over `slots` slots, without content and without subscribers.
    pub fn new(slots: usize, limits: &Limits) -> Fanout<P> {
        let topic = || Topic {
            newest: None,
            changed_at: None,
            gauges: Gauges::default(),
        };
        Fanout {
            topics: (0..slots).map(|_| topic()).collect(),
            subscribers: Slab::default(),
            dirty: VecDeque::new(),
            evicted: VecDeque::new(),
            // A place is given back one turn after its connection: a few are on their way.
            subscribers_max: limits.connections_max + limits.fanout_batch,
            snapshots_alive_max: limits.snapshots_alive_max,
            change_grace: limits.change_grace,
            evictions: 0,
        }
    }

    // Getters.

    /// The newest publication of a slot.
    pub fn newest(&self, slot: SlotIndex) -> Option<&Rc<P>> {
        let topic = self.topics.get(usize::from(slot.0))?;
        topic.newest.as_ref().map(|(_, published)| published)
    }

    /// Subscribers of a slot by kind.
    pub fn gauges(&self, slot: SlotIndex) -> Gauges {
        self.topics
            .get(usize::from(slot.0))
            .map(|topic| topic.gauges)
            .unwrap_or_default()
    }

    /// Subscribers in all.
    pub fn count(&self) -> usize {
        self.subscribers.len()
    }

    /// Subscribers that were dropped because they were too far behind, since the start.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    // Mutators.

    /// Adds a subscriber. Until it is removed, its key comes up in `poll_dirty` whenever there may
    /// be something for it.
    ///
    /// A WebSocket that opens soon after a change is told of it: its client fetched before it
    /// subscribed, perhaps too early, and would otherwise wait for the change after this one.
    ///
    /// Bounded by O(1).
    pub fn subscribe(
        &mut self,
        subscription: Subscription,
        now: Instant,
    ) -> Result<Key, SubscribersFull> {
        let Subscription {
            slot,
            kind,
            key,
            greet,
        } = subscription;
        let Some(topic) = self.topics.get_mut(usize::from(slot.0)) else {
            return Err(SubscribersFull);
        };
        if self.subscribers.len() >= self.subscribers_max {
            return Err(SubscribersFull);
        }
        let newest = topic
            .newest
            .as_ref()
            .map(|(version, _)| *version)
            .unwrap_or_default();
        let fresh = topic
            .changed_at
            .is_some_and(|changed| now - changed < self.change_grace);
        let knows_newest = kind == Kind::WebSocket && !greet && !fresh;
        topic.gauges[kind as usize] += 1;
        let key = self.subscribers.insert(Subscriber {
            slot,
            kind,
            key,
            sent: if knows_newest { newest } else { Version(0) },
            registered: false,
            writing: None,
            waiting: Waiting::default(),
            queued: false,
            closed: false,
        });
        if kind != Kind::Fetch {
            self.mark(key);
        }
        self.check_invariants();
        Ok(key)
    }

    /// Adds a holder of the newest snapshot of a slot, for as long as its answer is being written.
    ///
    /// Bounded by O(1).
    pub fn hold(
        &mut self,
        slot: SlotIndex,
        version: Version,
        key: KeyIndex,
    ) -> Result<Key, SubscribersFull> {
        let subscription = Subscription {
            slot,
            kind: Kind::Fetch,
            key,
            greet: false,
        };
        let key = self.subscribe(subscription, Instant::ORIGIN)?;
        if let Some(subscriber) = self.subscribers.of_mut(key) {
            subscriber.sent = Version(u64::MAX);
            subscriber.writing = Some(version);
        }
        Ok(key)
    }

    /// Removes a subscriber; a stale key is ignored.
    ///
    /// Bounded by O(1).
    pub fn unsubscribe(&mut self, key: Key) {
        if let Some(gone) = self.subscribers.remove(key)
            && let Some(topic) = self.topics.get_mut(usize::from(gone.slot.0))
        {
            topic.gauges[gone.kind as usize] -= 1;
        }
        self.check_invariants();
    }

    /// Makes `published` the newest of a slot. `version` must be greater than all before it.
    ///
    /// Bounded by the number of subscribers.
    pub fn publish(&mut self, slot: SlotIndex, version: Version, published: Rc<P>, now: Instant) {
        let Some(topic) = self.topics.get_mut(usize::from(slot.0)) else {
            return;
        };
        let stale = topic
            .newest
            .as_ref()
            .is_some_and(|(newest, _)| *newest >= version);
        debug_assert!(!stale, "versions of a slot grow");
        if stale {
            return;
        }
        topic.newest = Some((version, published));
        topic.changed_at = Some(now);
        self.mark_where(|subscriber| subscriber.slot == slot && subscriber.kind != Kind::Fetch);
        self.evict_behind(slot);
        self.check_invariants();
    }

    /// Clients come from now on: what was published before is no change to any of them. Those of
    /// the process before this one fetch when they reconnect, except Go's, which are greeted
    /// always.
    ///
    /// Bounded by the number of slots.
    pub fn open(&mut self) {
        for topic in &mut self.topics {
            topic.changed_at = None;
        }
    }

    /// Queues a heartbeat for every stream.
    ///
    /// Bounded by the number of subscribers.
    pub fn heartbeat(&mut self) {
        self.queue_where(|subscriber| {
            (subscriber.kind != Kind::Fetch).then_some(Control::Heartbeat)
        });
    }

    /// Queues the answer to a ping.
    ///
    /// Bounded by O(1).
    pub fn pong(&mut self, key: Key, payload: Bytes) {
        self.queue(key, Control::Pong(payload));
    }

    /// Queues the last frame of one subscriber.
    ///
    /// Bounded by O(1).
    pub fn close(&mut self, key: Key, code: u16) {
        self.queue(key, Control::Close(code));
    }

    /// Closes the streams that `is_meant`, asked by slot and key.
    ///
    /// Bounded by the number of subscribers.
    pub fn close_where(&mut self, is_meant: impl Fn(SlotIndex, KeyIndex) -> bool, code: u16) {
        self.queue_where(|subscriber| {
            is_meant(subscriber.slot, subscriber.key).then_some(Control::Close(code))
        });
    }

    /// Closes up to `count` streams that are not closing yet; returns how many were left.
    ///
    /// Bounded by the number of subscribers.
    pub fn close_some(&mut self, count: usize, code: u16) -> usize {
        let (mut closing, mut left) = (0, 0);
        self.queue_where(|subscriber| {
            if subscriber.is_closing() || subscriber.kind == Kind::Fetch {
                return None;
            }
            if closing == count {
                left += 1;
                return None;
            }
            closing += 1;
            Some(Control::Close(code))
        });
        left
    }

    // Polls.

    /// The next subscriber that may have something to be written.
    ///
    /// Bounded by O(1) amortized; each subscriber is in the queue once.
    pub fn poll_dirty(&mut self) -> Option<Key> {
        while let Some(key) = self.dirty.pop_front() {
            if let Some(subscriber) = self.subscribers.of_mut(key) {
                subscriber.queued = false;
                return Some(key);
            }
        }
        None
    }

    /// The next subscriber whose connection is to be reset, because it holds the oldest snapshot.
    ///
    /// Bounded by O(1).
    pub fn poll_evicted(&mut self) -> Option<Key> {
        self.evicted.pop_front()
    }

    /// What to write next. To be called at a frame's end only: it also says that the frame before
    /// is out.
    ///
    /// Bounded by O(1).
    pub fn next(&mut self, key: Key) -> Option<Next<P>> {
        let subscriber = self.subscribers.of_mut(key)?;
        subscriber.writing = None;
        if subscriber.closed || subscriber.kind == Kind::Fetch {
            return None;
        }
        if let Some(control) = subscriber.waiting.take() {
            subscriber.closed = matches!(control, Control::Close(_));
            return Some(Next::Control(control));
        }
        let topic = self.topics.get(usize::from(subscriber.slot.0))?;
        let (version, published) = topic.newest.as_ref()?;
        if subscriber.sent >= *version {
            return None;
        }
        subscriber.sent = *version;
        subscriber.writing = subscriber.kind.holds_document().then_some(*version);
        Some(match std::mem::replace(&mut subscriber.registered, true) {
            true => Next::Change(published.clone()),
            false => Next::Registration(published.clone()),
        })
    }

    /// Whether the close of this subscriber has been taken, so that nothing more will follow.
    pub fn is_closed(&self, key: Key) -> bool {
        self.subscribers
            .of(key)
            .is_none_or(|subscriber| subscriber.closed)
    }

    fn mark(&mut self, key: Key) {
        if let Some(subscriber) = self.subscribers.of_mut(key)
            && !std::mem::replace(&mut subscriber.queued, true)
        {
            self.dirty.push_back(key);
        }
    }

    fn mark_where(&mut self, is_meant: impl Fn(&Subscriber) -> bool) {
        for (key, subscriber) in self.subscribers.iter_mut() {
            if is_meant(subscriber) && !std::mem::replace(&mut subscriber.queued, true) {
                self.dirty.push_back(key);
            }
        }
    }

    fn queue(&mut self, key: Key, control: Control) {
        if let Some(subscriber) = self.subscribers.of_mut(key) {
            subscriber.queue(control);
            self.mark(key);
        }
        self.check_invariants();
    }

    fn queue_where(&mut self, mut control_for: impl FnMut(&Subscriber) -> Option<Control>) {
        for (key, subscriber) in self.subscribers.iter_mut() {
            let Some(control) = control_for(subscriber) else {
                continue;
            };
            subscriber.queue(control);
            if !std::mem::replace(&mut subscriber.queued, true) {
                self.dirty.push_back(key);
            }
        }
        self.check_invariants();
    }

    /// Holds the number of snapshots alive: the newest, and those that are being written.
    fn evict_behind(&mut self, slot: SlotIndex) {
        let mut alive: Vec<Version> = self
            .subscribers
            .iter()
            .filter(|(_, subscriber)| subscriber.slot == slot)
            .filter_map(|(_, subscriber)| subscriber.writing)
            .collect();
        alive.sort_unstable();
        alive.dedup();
        let older_max = self.snapshots_alive_max.saturating_sub(1);
        let Some(excess) = alive
            .len()
            .checked_sub(older_max)
            .filter(|excess| *excess > 0)
        else {
            return;
        };
        let keep_from = alive.get(excess).copied().unwrap_or(Version(u64::MAX));
        for (key, subscriber) in self.subscribers.iter_mut() {
            let behind = subscriber
                .writing
                .is_some_and(|version| version < keep_from);
            if subscriber.slot == slot && behind {
                subscriber.writing = None;
                subscriber.closed = true;
                self.evicted.push_back(key);
                self.evictions += 1;
            }
        }
    }

    fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let gauges: u32 = self.topics.iter().flat_map(|topic| topic.gauges).sum();
        debug_assert_eq!(
            gauges as usize,
            self.subscribers.len(),
            "gauges are the real number"
        );
        debug_assert!(self.subscribers.len() <= self.subscribers_max);
    }
}

impl Subscriber {
    fn is_closing(&self) -> bool {
        self.closed || self.waiting.close.is_some()
    }

    fn queue(&mut self, control: Control) {
        if self.is_closing() {
            return;
        }
        match control {
            Control::Pong(payload) => self.waiting.pong = Some(payload),
            Control::Heartbeat => self.waiting.heartbeat = true,
            Control::Close(code) => self.waiting.close = Some(code),
        }
    }
}

impl Waiting {
    fn take(&mut self) -> Option<Control> {
        if let Some(payload) = self.pong.take() {
            return Some(Control::Pong(payload));
        }
        if std::mem::take(&mut self.heartbeat) {
            return Some(Control::Heartbeat);
        }
        self.close.take().map(Control::Close)
    }
}

#[cfg(test)]
mod tests;
