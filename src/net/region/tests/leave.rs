//! The end of a node, and clients that end before they have an answer.

use super::*;
use crate::net::push::{self, Asked};
use crate::net::region::write::{self, Arrival};
use crate::wire::http::Head;

/// EU waits for a seal that it will not hear: whatever it takes is held.
fn holding(test: &str) -> Sites {
    let sites = settled_by(test, &switch_to_eu());
    sites.cut(AU, EU);
    sites.advance(Duration::from_millis(8_900));
    assert!(status(&sites, EU).contains(r#""phase":"hold""#));
    sites
}

#[test]
fn a_node_that_leaves_answers_what_it_holds_and_who_waits_for_news() {
    let sites = holding("region-drain");
    let mut client = sites.connect(EU, Door::AdminLocal);
    sites.send(&mut client, &put("", &content("a")));
    let mut peer = sites.connect(EU, Door::Sdk);
    let from_au = [
        ("X-Relay-From", "au-1"),
        ("X-Relay-Epoch", "6"),
        ("Via", "1.1 au-1"),
    ];
    sites.send(&mut peer, &put(&sent_on(&from_au), &content("b")));
    let mut shopper = sites.connect(EU, Door::Sdk);
    let order = "POST /orders/7 HTTP/1.1\r\nHost: shop\r\nContent-Length: 5\r\n\r\norder";
    sites.send(&mut shopper, order.as_bytes());
    let driver = sites.driver(EU);
    let (boot, serial) = driver.region.as_ref().unwrap().standing();
    let mut follower = sites.connect(EU, Door::Sdk);
    let poll = format!("/v1/region/status?after={boot}-{serial}&wait_ms=5000");
    sites.send(&mut follower, &get(&poll, PEER_KEY));
    for waiting in [&mut client, &mut peer, &mut shopper, &mut follower] {
        assert_eq!(sites.read(waiting), "");
    }
    driver.drain();
    sites.settle();
    assert_refused(&sites.read(&mut client), 503, "draining");
    // Its client is the other node's, which holds the write on.
    assert_refused(&sites.read(&mut peer), 421, "not_primary");
    assert_refused(&sites.read(&mut shopper), 503, "draining");
    let told = sites.read(&mut follower);
    assert!(told.starts_with("HTTP/1.1 200 "), "{told}");
    assert!(sites.accept().is_none(), "nothing of it was done");
    let late = receive(&sites, EU, &from_au, "c");
    assert_refused(&late, 421, "not_primary");
}

#[test]
fn what_was_sent_on_for_a_client_that_leaves_is_given_up() {
    let sites = settled("region-gone");
    let driver = sites.driver(EU);
    let region = driver.region.as_ref().unwrap();
    sites.cut(AU, EU);
    let (task, slot) = (driver.clone(), driver.state.borrow().slots.find("c", "e"));
    let client = driver.task(async move {
        let bytes = put("", "");
        let head = Head::parse(&bytes, &task.limits).unwrap().unwrap();
        let Asked::Push(push) = push::decide(&task, slot.unwrap(), &head) else {
            panic!("a push");
        };
        let arrival = Arrival::Client {
            may_forward: true,
            key: None,
        };
        write::write(&task, arrival, push, content("a").into()).await;
    });
    sites.settle();
    assert_eq!(region.forwards.count(), 1);
    drop(client);
    sites.settle();
    assert_eq!(region.forwards.count(), 0);
    assert!(status(&sites, EU).contains(r#""parked":0"#));
}

#[test]
fn a_request_that_is_held_is_forgotten_with_its_client() {
    let sites = holding("routed-gone");
    let mut shopper = sites.connect(EU, Door::Sdk);
    let order = "POST /orders/7 HTTP/1.1\r\nHost: shop\r\nContent-Length: 5\r\n\r\norder";
    sites.send(&mut shopper, order.as_bytes());
    assert!(status(&sites, EU).contains(r#""parked":1"#));
    drop(shopper);
    sites.settle();
    assert!(status(&sites, EU).contains(r#""parked":0"#));
    sites.advance(SECOND);
    assert!(status(&sites, EU).contains(r#""phase":"active""#));
    assert!(sites.accept().is_none(), "nobody waits for its answer");
}
