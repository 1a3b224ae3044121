//! A session that is told anything, in any order, beside the orders that it has given.
//!
//! Claims: whatever it is told, it neither spins nor stalls; ids go up and are never used again;
//! nothing is hung up, pinged or given up that was not ordered; at most one dial and two fetches
//! are under way, and two links open only while the backup is followed. What is late, or was never
//! ordered, changes nothing.

use super::entropy::Entropy;
use staffetta::limits::Limits;
use staffetta::model::Role;
use staffetta::state::session::{DialId, FetchId, Inbound, Loss, Order, Session, Setting};
use staffetta::time::{Duration, Instant};
use std::collections::BTreeMap;

/// Orders that one thing that happened can lead to.
const ORDERS_MAX: usize = 8;
const INBOUND: [Inbound; 3] = [Inbound::Heartbeat, Inbound::Change, Inbound::Other];

#[derive(Default)]
struct Record {
    /// Dials that were not hung up, lost or opened; and those that are open.
    sockets: BTreeMap<DialId, (Role, bool)>,
    fetches: BTreeMap<FetchId, Role>,
    last_dial: Option<DialId>,
    last_fetch: Option<FetchId>,
    stale_dials: Vec<DialId>,
    stale_fetches: Vec<FetchId>,
}

pub fn session(input: &[u8]) {
    let mut entropy = Entropy::new(input);
    let has_backup = entropy.flag();
    let setting = Setting {
        has_backup,
        probe_interval: Limits::PRODUCTION.probe_interval,
        stagger: Duration::from_millis(entropy.below(5_000) as u64),
    };
    let mut session = Session::new(setting, &Limits::PRODUCTION, entropy.word());
    let mut record = Record::default();
    let mut now = Instant::from_micros(1);
    if entropy.flag() {
        session.start_fetching(now);
    } else {
        session.start(now);
    }
    while !entropy.is_empty() {
        drain(&mut session, &mut record, now);
        record.check(&session, has_backup);
        now = later(&session, &mut entropy, now);
        happen(&mut session, &mut record, &mut entropy, now);
    }
}

/// Some time, or until it wants to be woken.
fn later(session: &Session, entropy: &mut Entropy, now: Instant) -> Instant {
    let timeout = session.poll_timeout().map(|(at, _)| at);
    match entropy.below(4) {
        0 => now,
        1 => now + Duration::from_millis(entropy.below(256) as u64),
        2 => timeout.unwrap_or(now),
        _ => now + Duration::from_secs(entropy.below(100) as u64),
    }
}

fn happen(session: &mut Session, record: &mut Record, entropy: &mut Entropy, now: Instant) {
    let choice = entropy.below(12);
    let dials = record.sockets.keys().copied();
    let dials: Vec<DialId> = dials.chain(record.stale_dials.iter().copied()).collect();
    let fetches = record.fetches.keys().copied();
    let fetches: Vec<FetchId> = fetches
        .chain(record.stale_fetches.iter().copied())
        .collect();
    let dial = dials.get(entropy.below(dials.len())).copied();
    let fetch = fetches.get(entropy.below(fetches.len())).copied();
    match (choice, dial, fetch) {
        (0, ..) => session.start(now),
        (1, ..) => session.handle_clock_jump(now),
        (2..=4, Some(id), _) => {
            if let Some((_, is_open)) = record.sockets.get_mut(&id) {
                *is_open = true;
            }
            session.handle_open(id, now);
        }
        (5 | 6, Some(id), _) => {
            if record.sockets.remove(&id).is_some() {
                record.stale_dials.push(id);
            }
            session.handle_loss(id, loss(entropy), now);
        }
        (7 | 8, Some(id), _) => {
            // A socket that is not open says nothing.
            let is_dialing = record.sockets.get(&id).is_some_and(|(_, is_open)| !is_open);
            if !is_dialing {
                session.handle_inbound(id, INBOUND[entropy.below(3)], now);
            }
        }
        (9..=11, _, Some(id)) => {
            if record.fetches.remove(&id).is_some() {
                record.stale_fetches.push(id);
            }
            let outcome = if entropy.flag() {
                Ok(())
            } else {
                Err(loss(entropy))
            };
            session.handle_fetched(id, outcome, now);
        }
        _ => {}
    }
}

fn loss(entropy: &mut Entropy) -> Loss {
    let wait = Duration::from_secs(entropy.word() >> entropy.below(64));
    let all = [
        Loss::Unreachable,
        Loss::Refused { retry_after: None },
        Loss::Refused {
            retry_after: Some(wait),
        },
        Loss::Denied,
        Loss::Closed,
        Loss::Silent,
        Loss::NoHeartbeat,
        Loss::Unusable,
        Loss::ClockNotSet,
    ];
    all[entropy.below(all.len())]
}

fn drain(session: &mut Session, record: &mut Record, now: Instant) {
    let orders = std::iter::from_fn(|| session.poll_output(now)).take(ORDERS_MAX + 1);
    let orders: Vec<Order> = orders.collect();
    assert!(orders.len() <= ORDERS_MAX, "orders without end: {orders:?}");
    for order in orders {
        record.obey(order);
    }
    let notes = std::iter::from_fn(|| session.poll_note());
    assert!(notes.take(9).count() < 9, "notes without end");
    let timeout = session.poll_timeout();
    assert!(timeout.is_none_or(|(at, _)| at > now), "a hot loop");
}

impl Record {
    fn obey(&mut self, order: Order) {
        match order {
            Order::Dial { id, role } => {
                assert!(self.last_dial < Some(id), "a dial used again");
                self.last_dial = Some(id);
                self.sockets.insert(id, (role, false));
            }
            Order::Hangup { id } => {
                assert!(self.sockets.remove(&id).is_some(), "hangs up nobody");
                self.stale_dials.push(id);
            }
            Order::Ping { id } => {
                let (_, is_open) = self.sockets[&id];
                assert!(is_open, "pings what is not open");
            }
            Order::Fetch { id, role } => {
                assert!(self.last_fetch < Some(id), "a fetch used again");
                self.last_fetch = Some(id);
                self.fetches.insert(id, role);
            }
            Order::Abandon { id } => {
                assert!(self.fetches.remove(&id).is_some(), "gives up nothing");
                self.stale_fetches.push(id);
            }
        }
    }

    fn check(&self, session: &Session, has_backup: bool) {
        let active = session.active();
        let sockets = self.sockets.values();
        let open = sockets.clone().filter(|(_, is_open)| *is_open);
        let open: Vec<Role> = open.map(|(role, _)| *role).collect();
        assert!(self.sockets.len() <= 2);
        assert!(open.len() <= 1 || active == Some(Role::Backup), "two links");
        assert!(
            active.is_none_or(|role| open.contains(&role)),
            "follows nothing"
        );
        assert!(!session.is_live() || active.is_some());
        let is_probing = active == Some(Role::Backup);
        assert!(
            self.fetches.len() <= 1 + usize::from(is_probing),
            "two fetches"
        );
        let roles = sockets.map(|(role, _)| role).chain(self.fetches.values());
        assert!(has_backup || roles.clone().all(|role| *role == Role::Primary));
        let dials: u64 = Role::ALL.map(|role| session.link(role).dials).iter().sum();
        assert!(dials as usize >= self.sockets.len());
    }
}
