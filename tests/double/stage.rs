//! The one state of a double: what it serves, how it fails, who is connected, what came.
//!
//! One lock around all of it, held for no longer than a look or a change and never while anything
//! is written to a socket. Every change counts one up in [`Counts::changes`] and wakes who waits.
//! Threads that block in the kernel are woken by a byte on a pair of sockets of their own.

use super::Options;
use super::behaviour::{Answering, Behaviours, Script, Sockets};
use super::token::Mint;
use super::usage::{Received, Totals};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How many requests the log keeps.
const LOG_LINES_MAX: usize = 1_000;
/// How long the port may take to open or close.
const PORT_PATIENCE: Duration = Duration::from_secs(10);

/// What clients have cost so far. Times are Unix time in milliseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counts {
    pub node: String,
    /// Grows with every change of anything here or on the stage.
    pub changes: u64,
    /// TCP connections to the port that were ever accepted, and those of now.
    pub connections: u64,
    pub connections_open: u64,
    /// Requests that were read whole, whatever they were for.
    pub requests: u64,
    /// Requests for a token, and tokens given.
    pub token_requests: u64,
    pub tokens: u64,
    /// Requests for a socket, refused ones included.
    pub upgrades: u64,
    /// Sockets of all slots that are open now.
    pub sockets_open: u64,
    /// By `collection/environment`.
    pub slots: BTreeMap<String, SlotCounts>,
    pub usage: Received,
    pub analytics: Received,
}

/// What one slot has cost so far.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SlotCounts {
    /// Requests for its document, and those that were given it.
    pub fetch_requests: u64,
    pub fetches: u64,
    /// When it was last given.
    pub fetched_ms: Option<u64>,
    /// Requests for a socket, refused ones included.
    pub upgrades: u64,
    pub sockets_open: u64,
    pub sockets_ever: u64,
    /// When the last socket opened.
    pub opened_ms: Option<u64>,
    /// Change texts that were handed to sockets.
    pub notified: u64,
}

impl Counts {
    /// The counts of one slot, all zero if nobody asked for it.
    pub fn slot(&self, slot: &str) -> SlotCounts {
        self.slots.get(slot).cloned().unwrap_or_default()
    }
}

/// One request, as the log keeps it.
#[derive(Clone, Debug, Serialize)]
pub struct Logged {
    pub at_ms: u64,
    pub method: String,
    pub target: String,
    /// 0 when it was not answered in HTTP, or not at all.
    pub status: u16,
    pub user_agent: Option<String>,
    /// `none`, `raw`, `bearer` for a token that is good here, `unknown bearer`.
    pub authorization: &'static str,
    /// The header `X-Config-Path`, by which relays find rings.
    pub config_path: Option<String>,
}

/// What a socket's thread is to do.
#[derive(Clone, Debug)]
pub enum Order {
    Text(String),
    Close(u16),
    Drop,
    Abort,
}

struct Connected {
    tcp: Arc<TcpStream>,
    /// To the port that is played on, not to the control port.
    plays: bool,
    /// Left without an answer until TCP is back to normal.
    held: bool,
}

struct Socket {
    slot: String,
    orders: Vec<Order>,
    wake: UnixStream,
}

#[derive(Default)]
pub(super) struct State {
    pub documents: BTreeMap<String, Vec<u8>>,
    pub behaviours: Behaviours,
    pub counts: Counts,
    pub totals: Totals,
    /// Tokens up to this serial are not accepted any more.
    pub revoked: u64,
    pub listening: bool,
    pub stopping: bool,
    log: VecDeque<Logged>,
    connected: BTreeMap<u64, Connected>,
    sockets: BTreeMap<u64, Socket>,
    next_id: u64,
}

impl State {
    pub(super) fn slot(&mut self, slot: &str) -> &mut SlotCounts {
        self.counts.slots.entry(slot.to_owned()).or_default()
    }

    /// Gives `order` to every socket of `slot`, or to all; tells how many.
    fn order(&mut self, slot: Option<&str>, order: impl Fn() -> Order) -> u64 {
        let concerned = self
            .sockets
            .values_mut()
            .filter(|socket| slot.is_none_or(|slot| socket.slot == slot));
        let mut count = 0;
        for socket in concerned {
            socket.orders.push(order());
            wake(&socket.wake);
            count += 1;
        }
        count
    }
}

fn wake(mut pipe: &UnixStream) {
    // A full pipe wakes as well as one byte more would, and a closed one has nobody to wake.
    let _ = pipe.write(&[0]);
}

/// What a double is asked to do, and what it tells.
pub struct Stage {
    pub options: Options,
    pub(super) mint: Mint,
    state: Mutex<State>,
    changed: Condvar,
    listeners: [UnixStream; 2],
}

impl Stage {
    /// A stage on which nothing is played yet, and what wakes its two listeners.
    pub(super) fn new(options: Options) -> io::Result<(Stage, [UnixStream; 2])> {
        let (first, second) = (UnixStream::pair()?, UnixStream::pair()?);
        let mut state = State::default();
        state.counts.node.clone_from(&options.node);
        let stage = Stage {
            options,
            mint: Mint::new(),
            state: Mutex::new(state),
            changed: Condvar::new(),
            listeners: [first.0, second.0],
        };
        stage
            .listeners
            .iter()
            .try_for_each(|pipe| pipe.set_nonblocking(true))?;
        Ok((stage, [first.1, second.1]))
    }

    /// Gives `slot` (`collection/environment`) this document, byte for byte, and tells nobody.
    pub fn set_document(&self, slot: &str, document: impl Into<Vec<u8>>) {
        let document = document.into();
        self.change(|state| state.documents.insert(slot.to_owned(), document));
    }

    /// Takes the document of `slot` away: the slot is unknown then.
    pub fn remove_document(&self, slot: &str) {
        self.change(|state| state.documents.remove(slot));
    }

    /// Tells the sockets of `slot` that its document changed, in `text` or in the usual words.
    /// Gives how many were told.
    pub fn notify(&self, slot: &str, text: Option<&str>) -> u64 {
        let (collection, environment) = slot.split_once('/').unwrap_or((slot, ""));
        let usual = format!("environment_id:{environment};collection_id:{collection}");
        let text = text.unwrap_or(&usual);
        self.change(|state| {
            let told = state.order(Some(slot), || Order::Text(text.to_owned()));
            state.slot(slot).notified += told;
            told
        })
    }

    /// Changes how the double fails: an object of the names in [`Behaviours`].
    ///
    /// Returns when it is in force, the port included. What is refused changes nothing.
    pub fn behave(&self, orders: &Value) -> Result<(), String> {
        let orders = orders.as_object().ok_or("not an object")?;
        let refuse = self.change(|state| {
            state.behaviours.change(orders)?;
            if orders.contains_key("socket") {
                let sockets = state.behaviours.socket.clone();
                let slot = sockets.slot.as_deref();
                let once = [
                    sockets.close.map(Order::Close),
                    sockets.drop.then_some(Order::Drop),
                    sockets.abort.then_some(Order::Abort),
                ];
                for order in once.into_iter().flatten() {
                    state.order(slot, || order.clone());
                }
                state.sockets.values().for_each(|socket| wake(&socket.wake));
            }
            if !state.behaviours.tcp.accept_only {
                let held = state.connected.values().filter(|connected| connected.held);
                held.for_each(cut);
            }
            Ok::<bool, String>(state.behaviours.tcp.refuse)
        })?;
        self.listeners.iter().for_each(wake);
        self.wait_for_port(!refuse)
    }

    fn wait_for_port(&self, listening: bool) -> Result<(), String> {
        let settled = |state: &State| state.listening == listening || state.stopping;
        let state = self.wait(PORT_PATIENCE, settled);
        let settled = settled(&state);
        settled
            .then_some(())
            .ok_or_else(|| "the port does not open or close".to_owned())
    }

    /// Cuts all sockets, without a close frame.
    pub fn kill_sockets(&self) {
        self.change(|state| {
            let ids = state.sockets.keys();
            ids.filter_map(|id| state.connected.get(id)).for_each(cut);
        });
    }

    /// Cuts all connections, sockets included.
    pub fn kill_connections(&self) {
        self.change(|state| {
            state
                .connected
                .values()
                .filter(|connected| connected.plays)
                .for_each(cut);
        });
    }

    /// Makes every token that was given so far unknown.
    pub fn revoke_tokens(&self) {
        self.change(|state| state.revoked = state.counts.tokens);
    }

    /// What clients have cost so far.
    pub fn counts(&self) -> Counts {
        self.look(|state| state.counts.clone())
    }

    /// What was reported so far, entry by entry.
    pub fn totals(&self) -> Totals {
        self.look(|state| state.totals.clone())
    }

    /// The last requests, oldest first.
    pub fn log(&self) -> Vec<Logged> {
        self.look(|state| state.log.iter().cloned().collect())
    }

    /// Waits until `condition` holds, which may ask the stage for nothing. Gives the counts of
    /// then, or nothing after `patience`.
    pub fn wait_until(
        &self,
        patience: Duration,
        condition: impl Fn(&Counts) -> bool,
    ) -> Option<Counts> {
        let state = self.wait(patience, |state| state.stopping || condition(&state.counts));
        condition(&state.counts).then(|| state.counts.clone())
    }

    /// Lets `patience` pass, unless the double ends first.
    pub(super) fn pause(&self, patience: Duration) {
        drop(self.wait(patience, |state| state.stopping));
    }

    fn wait(&self, patience: Duration, over: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let deadline = Instant::now() + patience;
        let mut state = self.lock();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if over(&state) || left.is_zero() {
                return state;
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .expect("no holder panics")
                .0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    pub(super) fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.lock())
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        state.counts.changes += 1;
        let result = change(&mut state);
        drop(state);
        self.changed.notify_all();
        result
    }

    /// What to do about a request, counted as done.
    pub(super) fn take(
        &self,
        slot: Option<&str>,
        body: &[u8],
        script: impl FnOnce(&mut Behaviours) -> &mut Script,
    ) -> Answering {
        let body = String::from_utf8_lossy(body);
        self.change(|state| script(&mut state.behaviours).take(slot, &body))
    }

    pub(super) fn note(&self, logged: Logged) {
        self.change(|state| {
            state.counts.requests += 1;
            state.log.push_back(logged);
            if state.log.len() > LOG_LINES_MAX {
                state.log.pop_front();
            }
        });
    }

    /// Enters a connection in the list; nothing when there are `most` already, or at the end.
    pub(super) fn connect(&self, tcp: Arc<TcpStream>, plays: bool, most: usize) -> Option<u64> {
        let id = {
            let mut state = self.lock();
            if state.stopping || state.connected.len() >= most {
                return None;
            }
            state.next_id += 1;
            let connected = Connected {
                tcp,
                plays,
                held: false,
            };
            let id = state.next_id;
            state.connected.insert(id, connected);
            id
        };
        // Who asks on the control port for a change must not be the change.
        if plays {
            self.change(|state| {
                state.counts.connections += 1;
                state.counts.connections_open += 1;
            });
        }
        Some(id)
    }

    pub(super) fn disconnect(&self, id: u64) {
        let plays = self.look(|state| state.connected.get(&id).is_some_and(|gone| gone.plays));
        if plays {
            self.change(|state| {
                state.counts.connections_open -= 1;
                state.connected.remove(&id);
            });
        } else {
            self.lock().connected.remove(&id);
        }
    }

    /// Whether connection `id` is to be left without an answer; it is cut when that is over.
    pub(super) fn hold(&self, id: u64) -> bool {
        let mut state = self.lock();
        let hold = state.behaviours.tcp.accept_only;
        if let Some(connected) = state.connected.get_mut(&id) {
            connected.held = hold;
        }
        hold
    }

    /// Enters a socket in the list, under the number of its connection; gives what wakes it.
    pub(super) fn open_socket(&self, id: u64, slot: &str) -> io::Result<UnixStream> {
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        self.change(|state| {
            let socket = Socket {
                slot: slot.to_owned(),
                orders: Vec::new(),
                wake,
            };
            state.sockets.insert(id, socket);
            state.counts.sockets_open += 1;
            let counts = state.slot(slot);
            counts.sockets_open += 1;
            counts.sockets_ever += 1;
            counts.opened_ms = Some(now_ms());
        });
        Ok(woken)
    }

    pub(super) fn close_socket(&self, id: u64) {
        self.change(|state| {
            if let Some(gone) = state.sockets.remove(&id) {
                state.counts.sockets_open -= 1;
                state.slot(&gone.slot).sockets_open -= 1;
            }
        });
    }

    /// What a socket is to do now, and what it is like from now on.
    pub(super) fn orders(&self, id: u64) -> (Vec<Order>, Sockets) {
        let mut state = self.lock();
        let manners = state.behaviours.socket.clone();
        match state.sockets.get_mut(&id) {
            Some(socket) if manners.concern(&socket.slot) => {
                (std::mem::take(&mut socket.orders), manners)
            }
            Some(socket) => (std::mem::take(&mut socket.orders), Sockets::default()),
            None => (Vec::new(), manners),
        }
    }

    /// Ends everything; threads see it by their own connection's end.
    pub(super) fn stop(&self) {
        self.change(|state| {
            state.stopping = true;
            state.connected.values().for_each(cut);
        });
        self.listeners.iter().for_each(wake);
    }
}

fn cut(connected: &Connected) {
    // Whoever is gone already needs no cutting.
    let _ = connected.tcp.shutdown(Shutdown::Both);
}

/// Unix time in milliseconds; 0 for a clock before it.
pub fn now_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
