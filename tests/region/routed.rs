//! Routes that belong to a region: what changes something goes to the cluster of the primary, from
//! whichever site it comes, and what reads goes to the cluster beside.

use crate::destination::{Destination, Request, answer};
use crate::harness::PATIENCE;
use crate::nodes::{Node, PEER_KEY, REGIONS, Records, from_now};
use crate::site::site;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

/// Requests a second of each site.
const RATE: u32 = 10;

/// A site with a server of its own: the plant's orders.
struct Plant {
    node: Node,
    server: Destination,
    /// When which order was taken, in their order.
    taken: Arc<Mutex<Vec<(SystemTime, String)>>>,
}

impl Plant {
    fn start(region: &'static str) -> Plant {
        let taken = Arc::new(Mutex::new(Vec::new()));
        let orders = taken.clone();
        let server = Destination::start(move |request: &Request, socket: &mut TcpStream| {
            if request.head.starts_with("POST ") {
                let order = String::from_utf8_lossy(&request.body).into_owned();
                let mut orders = orders.lock().expect("no holder panics");
                orders.push((SystemTime::now(), order));
            }
            answer(socket, "200 OK", "", region)
        });
        let mut site = site(&format!("plant-{region}"));
        site.config["slots"][0]["source"] = json!("operator");
        let config = site.config.as_object_mut().expect("a config");
        config.remove("seed");
        let cluster = json!({ "Destinations": { "local": { "Address": server.url() } } });
        config.insert(
            "ReverseProxy".into(),
            json!({
                "Routes": { "orders": {
                    "ClusterId": "plant",
                    "Match": { "Path": "/orders/{**rest}" },
                    "Metadata": { "RegionSlot": "orders" },
                } },
                "Clusters": { "plant": cluster },
            }),
        );
        let node = Node::of(region, site);
        Plant {
            node,
            server,
            taken,
        }
    }

    fn orders(&self) -> Vec<(SystemTime, String)> {
        self.taken.lock().expect("no holder panics").clone()
    }

    fn ask(&self, method: &str, body: &str) -> (u16, String) {
        ask(self.node.relay.address, method, body)
    }
}

/// One request for the orders; status and body of the answer.
fn ask(address: std::net::SocketAddr, method: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let request = format!(
        "{method} /orders/new HTTP/1.1\r\nHost: plant\r\nConnection: close\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    let mut socket = TcpStream::connect(address).expect("the relay listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
    socket
        .write_all(request.as_bytes())
        .expect("it takes a request");
    let mut text = String::new();
    socket.read_to_string(&mut text).expect("an answer");
    let status = text.get(9..12).and_then(|digits| digits.parse().ok());
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status.unwrap_or_default(), body.to_owned())
}

/// An order, and what was answered.
struct Sent {
    order: String,
    status: u16,
    body: String,
}

/// Orders from one site, as fast as `RATE`, until it is told to stop.
fn orders(plant: &Plant) -> (Sender<()>, JoinHandle<Vec<Sent>>) {
    let (stop, stopped): (Sender<()>, Receiver<()>) = channel();
    let (address, name) = (plant.node.relay.address, plant.node.name.clone());
    let thread = thread::spawn(move || {
        let mut sent = Vec::new();
        let mut due = Instant::now();
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if stopped.recv_timeout(left).is_ok() {
                return sent;
            }
            due += Duration::from_secs(1) / RATE;
            let order = format!("{name} {}", sent.len());
            let (status, body) = ask(address, "POST", &order);
            sent.push(Sent {
                order,
                status,
                body,
            });
        }
    });
    (stop, thread)
}

#[test]
fn orders_go_to_the_primary_and_questions_stay() {
    let plants = REGIONS.map(Plant::start);
    let nodes = plants.each_ref().map(|plant| &plant.node);
    let mut records = Records::new(nodes, "au");
    for node in nodes {
        records.import(node);
    }
    for (node, phase) in nodes.iter().zip(["active", "replica", "replica"]) {
        node.wait_line("route:orders", "a first primary", |line| {
            line["phase"] == phase
        });
    }
    for (plant, region) in plants.iter().zip(REGIONS) {
        assert_eq!(plant.ask("GET", ""), (200, region.to_owned()), "a question");
        assert_eq!(plant.ask("POST", "one"), (200, "au".to_owned()), "an order");
    }
    let at = from_now(Duration::from_secs(4));
    records.switch("eu", at);
    records.import(nodes[2]);
    let writers = plants.each_ref().map(orders);
    let is_over = |line: &serde_json::Value| line["phase"] == "active";
    nodes[1].wait_line("route:orders", "the next primary", is_over);
    while plants[1].orders().len() < 20 {
        assert!(
            SystemTime::now() < at + PATIENCE,
            "no orders after the switch"
        );
        nodes[1].slot();
    }
    let mut sent = Vec::new();
    for (stop, thread) in writers {
        stop.send(()).expect("it writes still");
        sent.extend(thread.join().expect("a writer"));
    }
    once_each(&plants, &sent);
    for plant in plants {
        assert!(plant.node.relay.stop().success());
    }
}

/// Every order that was answered 200 was taken once, by the server that answered; and the servers
/// took turns.
fn once_each(plants: &[Plant; 3], sent: &[Sent]) {
    let mut places: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (plant, region) in plants.iter().zip(REGIONS) {
        for (_, order) in plant.orders() {
            places.entry(order).or_default().push(region);
        }
    }
    for Sent {
        order,
        status,
        body,
    } in sent
    {
        let taken = places.get(order).map(Vec::as_slice).unwrap_or_default();
        match status {
            200 => assert_eq!(taken, [body.as_str()], "{order}"),
            _ => panic!("{order}: {status} {body}, taken by {taken:?}"),
        }
    }
    for request in plants.iter().flat_map(|plant| plant.server.requests()) {
        let head = request.head.to_ascii_lowercase();
        let is_secret = head.contains("x-relay-") || head.contains(PEER_KEY);
        assert!(!is_secret, "what nodes tell each other is nobody's: {head}");
    }
    let old = plants[0].orders();
    let new = plants[1].orders();
    let (last, first) = (old.last().expect("orders"), new.first().expect("orders"));
    assert!(
        last.0 <= first.0,
        "{last:?} at the old primary, {first:?} at the new one"
    );
    assert!(plants[2].orders().is_empty(), "never primary");
    let gap = first.0.duration_since(last.0).expect("in that order");
    println!(
        "{} orders, {} ms from the last to the first",
        sent.len(),
        gap.as_millis()
    );
}
