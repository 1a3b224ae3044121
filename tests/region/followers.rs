//! Clients of every node, over both kinds of stream: a switch of the primary is nothing to them.

use crate::content::marker;
use crate::harness::relay::Relay;
use crate::nodes::Node;
use crate::request::{subscribe_path, websocket_path};
use crate::stream::{Events, Frame, WebSocket};
use crate::way::PLAIN;
use std::thread::{self, JoinHandle};

/// The name of the events that carry the document.
const DOCUMENT: &str = "SSEConfig_payload";

/// An event stream that is read until the last document comes.
pub struct Follower {
    node: String,
    thread: JoinHandle<Vec<usize>>,
}

impl Follower {
    /// Follows the slot at a node until it has seen the document of `last`.
    pub fn start(node: &Node, last: usize) -> Follower {
        let mut events = Events::subscribe(&node.relay, PLAIN, &subscribe_path("c", "e"));
        let name = node.name.clone();
        let thread = thread::spawn(move || {
            let mut seen = Vec::new();
            while seen.last() != Some(&last) {
                let event = events.next();
                let event = event.unwrap_or_else(|error| panic!("{name}: {error} after {seen:?}"));
                if event.name == DOCUMENT {
                    let document = serde_json::from_str(&event.data).expect("a document in JSON");
                    seen.push(marker(&document));
                }
            }
            seen
        });
        Follower {
            node: node.name.clone(),
            thread,
        }
    }

    /// The markers of all documents that came, in their order.
    pub fn seen(self) -> (String, Vec<usize>) {
        let seen = self.thread.join();
        (self.node, seen.expect("a stream without a break"))
    }
}

/// Opens a WebSocket of the slot.
pub fn websocket(relay: &Relay) -> WebSocket {
    WebSocket::open(relay, PLAIN, &websocket_path("c", "e"), "")
}

/// How many changes a WebSocket was told of; it must be open still.
pub fn changes(mut socket: WebSocket) -> usize {
    socket.send(0x9, b"end");
    let mut count = 0;
    loop {
        match socket.next_change() {
            Ok(Frame::Text(_)) => count += 1,
            Ok(Frame::Pong(payload)) if payload == b"end" => return count,
            other => panic!("{other:?} after {count} changes"),
        }
    }
}
