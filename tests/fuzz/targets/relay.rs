//! The clockwork of the relay, on a clock that jumps and one that does not.
//!
//! Claims: after all that was due nothing is due, and the timer lies ahead (no hot loop); a
//! deadline is reported once; a drain closes every stream, each once and with 1012, within its
//! window when it is called in time, and ends; nothing follows a close.

use super::entropy::Entropy;
use staffetta::limits::Limits;
use staffetta::model::{KeyIndex, SlotIndex, SlotKey, Version};
use staffetta::state::access::TokenForm;
use staffetta::state::deadlines::Reason;
use staffetta::state::fanout::{Control, Kind, Next, Subscription};
use staffetta::state::relay::{Due, Relay, Wake};
use staffetta::state::slab::Key;
use staffetta::time::{Duration, Instant};
use std::rc::Rc;

const FORM: TokenForm = TokenForm {
    key_id: |_| None,
    is_signed_by: |_, _| false,
};

struct World {
    relay: Relay<u64>,
    /// Each stream, and whether its close came out.
    streams: Vec<(Key, bool)>,
    connections: Vec<Key>,
    version: u64,
    now: Instant,
}

pub fn relay(input: &[u8]) {
    let mut entropy = Entropy::new(input);
    let limits = Limits {
        drain_timeout: Duration::from_millis(1 + 20 * entropy.below(256) as u64),
        ..Limits::PRODUCTION
    };
    let now = Instant::from_micros(1 + (entropy.word() >> 8));
    let slot = SlotKey::parse("shop/prod").expect("a slot key");
    let mut world = World {
        relay: Relay::new(vec![slot], entropy.flag(), FORM, &limits, now),
        streams: Vec::new(),
        connections: Vec::new(),
        version: 0,
        now,
    };
    while !entropy.is_empty() && entropy.below(64) != 63 {
        world.step(&mut entropy);
        world.due();
    }
    world.end(limits.drain_timeout);
}

impl World {
    fn step(&mut self, entropy: &mut Entropy) {
        match entropy.below(8) {
            0 | 1 => self.join(Kind::ALL[entropy.below(3)]),
            2 => {
                let key = self.relay.deadlines.insert();
                self.connections.push(key);
                let due = self.now + Duration::from_secs(entropy.below(100) as u64);
                let reason = Reason::ALL[entropy.below(Reason::ALL.len())];
                self.relay.deadlines.arm(key, due, reason);
            }
            3 => {
                self.version += 1;
                let published = Rc::new(self.version);
                let version = Version(self.version);
                self.relay
                    .fanout
                    .publish(SlotIndex(0), version, published, self.now);
                while self.relay.fanout.poll_evicted().is_some() {}
            }
            4 => self.relay.watch_seed(entropy.flag(), self.now),
            5 if !self.streams.is_empty() => {
                let (key, _) = self.streams.swap_remove(entropy.below(self.streams.len()));
                self.relay.fanout.unsubscribe(key);
            }
            6 => self.now = self.now + Duration::from_millis(entropy.word() >> 48),
            _ => {
                if let Some((at, _)) = self.relay.poll_timeout() {
                    self.now = self.now.max(at);
                }
            }
        }
    }

    fn join(&mut self, kind: Kind) {
        let subscription = Subscription {
            slot: SlotIndex(0),
            kind,
            key: KeyIndex(0),
            greet: false,
        };
        let key = self.relay.fanout.subscribe(subscription, self.now);
        self.streams.push((key.expect("a place"), false));
    }

    /// Does what is due; true once the relay is to leave.
    fn due(&mut self) -> bool {
        let mut looked = false;
        while let Some(due) = self.relay.poll_due(self.now) {
            match due {
                Due::Leave => {
                    assert!(self.relay.is_draining());
                    return true;
                }
                Due::LookAtSeed => assert!(!std::mem::replace(&mut looked, true), "looked twice"),
                Due::Save(_) | Due::LookAtFolder => panic!("there is no folder"),
                Due::CompareClocks => panic!("there is no upstream"),
                Due::Reset(key, _) => {
                    let at = self.connections.iter().position(|other| *other == key);
                    self.connections
                        .swap_remove(at.expect("a deadline, reported once"));
                    self.relay.deadlines.remove(key);
                }
            }
        }
        if let Some((at, wake)) = self.relay.poll_timeout() {
            // A stream that came after a pause is greeted by the heartbeat of the pause.
            let is_first = wake == Wake::Heartbeat && self.relay.fanout.count() > 0;
            assert!(at > self.now || is_first, "a hot loop: {wake:?}");
        }
        self.write();
        false
    }

    /// Every stream takes all that there is for it, if it was said to be ready.
    fn write(&mut self) {
        while let Some(key) = self.relay.fanout.poll_dirty() {
            let stream = self.streams.iter_mut().find(|(other, _)| *other == key);
            let (_, is_closed) = stream.expect("a stream that is there");
            while let Some(next) = self.relay.fanout.next(key) {
                assert!(!*is_closed, "after the close: {next:?}");
                if let Next::Control(Control::Close(code)) = next {
                    assert_eq!(code, 1012);
                    *is_closed = true;
                }
            }
        }
    }

    fn end(&mut self, window: Duration) {
        let start = self.now;
        self.relay.drain(self.now);
        self.relay.drain(self.now + Duration::from_secs(9));
        let mut turns = 0;
        while !self.due() {
            // Some open late, as long as there is time to close them: the window has more steps.
            if window >= Duration::from_secs(1) && self.now - start < window * 4 / 5 {
                self.join(Kind::ALL[turns % 3]);
            }
            let (at, _) = self.relay.poll_timeout().expect("a drain has an end");
            assert!(at > self.now, "a hot loop");
            self.now = at;
            turns += 1;
            assert!(turns < 2_000, "a drain without end");
        }
        assert!(self.now - start >= window, "left early");
        let open = self
            .streams
            .iter()
            .filter(|(_, is_closed)| !is_closed)
            .count();
        assert_eq!(open, 0, "streams that were never closed");
    }
}
