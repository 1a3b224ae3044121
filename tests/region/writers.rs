//! Writers that push as fast as a plant would, through every node, and remember each answer.

use crate::content::content;
use crate::nodes::Node;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

/// Writers of each node.
pub const WRITERS: usize = 2;
/// From one push of a writer to its next: with six of them, 50 a second.
const PACE: Duration = Duration::from_millis(120);
/// Markers of one writer: what it pushes is told from what others do.
pub const MARKERS: usize = 1_000_000;

/// A push and what became of it.
#[derive(Clone, Debug)]
pub struct Pushed {
    pub marker: usize,
    /// Before its first byte left.
    pub began: SystemTime,
    pub ended: SystemTime,
    pub lasted: Duration,
    /// None when the node went away.
    pub status: Option<u16>,
    /// Epoch and place in it, where it was answered 200.
    pub revision: Option<(u64, u64)>,
    pub body: String,
}

/// To be held by a test with writers and a plan: beside the writers of another one, it would wait
/// for the syncs of both.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // The test before may have failed; its turn is over all the same.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A writer at work.
pub struct Writer {
    stop: Sender<()>,
    thread: JoinHandle<Vec<Pushed>>,
}

impl Writer {
    /// Writers at every node.
    pub fn start_all(nodes: &[Node]) -> Vec<Writer> {
        let all = nodes.iter().cycle().take(nodes.len() * WRITERS);
        let numbered = (1..).zip(all);
        numbered
            .map(|(number, node)| Writer::start(number, node))
            .collect()
    }

    /// Pushes through `node` until it is stopped.
    fn start(number: usize, node: &Node) -> Writer {
        let (stop, stopped) = channel();
        let mut admin = node.admin();
        let thread = thread::spawn(move || {
            let mut all = Vec::new();
            let mut marker = number * MARKERS;
            let mut due = Instant::now();
            while goes_on(&stopped, due) {
                due += PACE;
                marker += 1;
                let (began, asked) = (SystemTime::now(), Instant::now());
                let answer = admin.push(&content(marker));
                let is_gone = answer.is_none();
                let revision = answer.as_ref().filter(|answer| answer.status == 200);
                all.push(Pushed {
                    marker,
                    began,
                    ended: SystemTime::now(),
                    lasted: asked.elapsed(),
                    status: answer.as_ref().map(|answer| answer.status),
                    revision: revision.map(|answer| revision_of(answer.revision.as_deref())),
                    body: answer.map(|answer| answer.body).unwrap_or_default(),
                });
                if is_gone {
                    break;
                }
            }
            all
        });
        Writer { stop, thread }
    }

    /// Everything that it pushed.
    pub fn stop(self) -> Vec<Pushed> {
        // It may have ended with its node.
        let _ = self.stop.send(());
        self.thread.join().expect("a writer")
    }
}

/// Waits until it is `due`, or stopped before that.
fn goes_on(stopped: &Receiver<()>, due: Instant) -> bool {
    let left = due.saturating_duration_since(Instant::now());
    stopped.recv_timeout(left) == Err(RecvTimeoutError::Timeout)
}

/// Reads `5-17`.
pub fn revision_of(text: Option<&str>) -> (u64, u64) {
    let parts = text.and_then(|text| text.split_once('-'));
    let number = |digits: &str| digits.parse().ok();
    parts
        .and_then(|(epoch, place)| Some((number(epoch)?, number(place)?)))
        .unwrap_or_else(|| panic!("{text:?} is no revision"))
}
