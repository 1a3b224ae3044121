//! Requests of a route that a region is primary for: reads stay here, the rest goes there, once.

use super::*;
use crate::net::pipe::End;

fn post(fields: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!("POST /orders/7?a=b HTTP/1.1\r\nHost: shop\r\nContent-Length: {length}\r\n");
    format!("{head}Authorization: Bearer client\r\n{fields}\r\n{body}").into_bytes()
}

/// The next request at a server: which relay's, and what it says so far.
fn served(sites: &Sites) -> (usize, String, End) {
    let (index, mut server) = sites.accept().expect("a request");
    let text = sites.read(&mut server);
    (index, text, server)
}

fn answer(sites: &Sites, server: &mut End, body: &str) {
    let length = body.len();
    let head = format!("HTTP/1.1 201 Created\r\nContent-Length: {length}\r\nConnection: close\r\n");
    sites.send(
        server,
        format!("{head}X-Server: s\r\n\r\n{body}").as_bytes(),
    );
}

#[test]
fn reads_stay_here_and_writes_go_to_the_primary() {
    let sites = settled("routed-plain");
    let mut client = sites.connect(EU, Door::Sdk);
    sites.send(&mut client, b"GET /orders/7 HTTP/1.1\r\nHost: shop\r\n\r\n");
    let (index, text, mut server) = served(&sites);
    assert!(index == EU && text.starts_with("GET /orders/7 "), "{text}");
    answer(&sites, &mut server, "here");
    assert!(sites.read(&mut client).ends_with("here"));
    for entry in [AU, EU] {
        let mut client = sites.connect(entry, Door::Sdk);
        sites.send(&mut client, &post("X-Relay-Epoch: 77\r\n", "order"));
        let (index, text, mut server) = served(&sites);
        assert_eq!(index, AU);
        assert!(text.starts_with("POST /orders/7?a=b "), "{text}");
        assert!(text.ends_with("\r\n\r\norder"), "{text}");
        assert!(
            text.contains("\r\nauthorization: Bearer client\r\n") || entry == AU,
            "{text}"
        );
        assert!(
            !text.contains(PEER_KEY) && !text.contains("x-relay-"),
            "{text}"
        );
        assert!(text.contains("\r\nx-forwarded-host: shop\r\n"), "{text}");
        answer(&sites, &mut server, "done");
        let answer = sites.read(&mut client);
        assert!(
            answer.starts_with("HTTP/1.1 201 ") && answer.ends_with("done"),
            "{answer}"
        );
        assert!(answer.contains("X-Server: s\r\n"), "{answer}");
        assert!(sites.accept().is_none(), "once");
    }
}

#[test]
fn writes_without_content_and_in_chunks_go_the_same_way() {
    let sites = settled("routed-framing");
    for (request, ending) in [
        (
            "DELETE /orders/7 HTTP/1.1\r\nHost: shop\r\n\r\n",
            "\r\n\r\n",
        ),
        (
            "PUT /orders/7 HTTP/1.1\r\nHost: shop\r\nTransfer-Encoding: chunked\r\n\r\n\
             3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
            "0\r\n\r\n",
        ),
    ] {
        let mut client = sites.connect(EU, Door::Sdk);
        sites.send(&mut client, request.as_bytes());
        let (index, text, mut server) = served(&sites);
        assert!(index == AU && text.ends_with(ending), "{text}");
        answer(&sites, &mut server, "done");
        assert!(sites.read(&mut client).ends_with("done"));
        sites.send(&mut client, b"GET /orders/8 HTTP/1.1\r\nHost: shop\r\n\r\n");
        assert_eq!(served(&sites).0, EU, "the connection goes on");
    }
}

#[test]
fn content_is_not_asked_for_before_somebody_takes_it() {
    let sites = settled("routed-expect");
    let mut client = sites.connect(EU, Door::Sdk);
    let head = post("Expect: 100-continue\r\n", "order");
    let (head, body) = head.split_at(head.len() - 5);
    sites.cut(AU, EU);
    sites.send(&mut client, head);
    assert_eq!(sites.read(&mut client), "");
    sites.heal();
    sites.advance(Duration::from_millis(2_100));
    assert_eq!(sites.read(&mut client).get(..13), Some("HTTP/1.1 504 "));
    let mut client = sites.connect(EU, Door::Sdk);
    sites.send(&mut client, head);
    assert_eq!(sites.read(&mut client), "HTTP/1.1 100 Continue\r\n\r\n");
    sites.send(&mut client, body);
    let (index, text, mut server) = served(&sites);
    assert!(index == AU && text.ends_with("\r\n\r\norder"), "{text}");
    answer(&sites, &mut server, "done");
    assert!(sites.read(&mut client).ends_with("done"));
}

#[test]
fn what_comes_during_a_switch_is_held_and_delivered_once() {
    let sites = settled_by("routed-switch", &switch_to_eu());
    sites.advance(Duration::from_millis(8_750));
    let mut clients = [AU, EU].map(|index| sites.connect(index, Door::Sdk));
    sites.send(&mut clients[0], &post("", "first"));
    sites.send(&mut clients[1], &post("", "second"));
    sites.advance(SECOND);
    let mut bodies = Vec::new();
    while let Some((index, mut server)) = sites.accept() {
        assert_eq!(index, EU);
        let text = sites.read(&mut server);
        bodies.push(text.rsplit("\r\n").next().unwrap().to_owned());
        answer(&sites, &mut server, "done");
    }
    bodies.sort();
    assert_eq!(bodies, ["first", "second"]);
    for client in &mut clients {
        let answer = sites.read(client);
        assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    }
}

#[test]
fn a_term_ends_when_what_was_begun_in_it_has_ended() {
    let sites = settled_by("routed-drain", &switch_to_eu());
    sites.advance(Duration::from_millis(8_500));
    let mut client = sites.connect(AU, Door::Sdk);
    sites.send(&mut client, &post("", "long"));
    let (index, _, mut server) = served(&sites);
    assert_eq!(index, AU);
    sites.advance(Duration::from_millis(250));
    assert!(status(&sites, AU).contains(r#""slot":"route:orders","phase":"drain""#));
    answer(&sites, &mut server, "done");
    assert!(sites.read(&mut client).ends_with("done"));
    sites.advance(Duration::from_millis(20));
    assert!(status(&sites, AU).contains(r#""slot":"route:orders","phase":"sealed""#));
}

#[test]
fn nodes_that_disagree_lose_nothing_of_a_request() {
    for index in [AU, EU] {
        let sites = differing(&format!("routed-differ-{index}"));
        let mut client = sites.connect(index, Door::Sdk);
        sites.send(&mut client, &post("", "order"));
        sites.advance(SECOND);
        let (index, text, mut server) = served(&sites);
        assert!(index == EU && text.ends_with("\r\n\r\norder"), "{text}");
        answer(&sites, &mut server, "done");
        assert!(sites.read(&mut client).ends_with("done"));
        assert!(sites.accept().is_none(), "once");
    }
}

#[test]
fn a_request_that_nobody_takes_is_refused_in_time() {
    let sites = settled("routed-away");
    sites.stop(AU);
    let mut clients = [(); 2].map(|()| sites.connect(EU, Door::Sdk));
    for client in &mut clients {
        sites.send(client, &post("", "order"));
    }
    let [mut stays, goes] = clients;
    drop(goes);
    sites.advance(Duration::from_millis(1_900));
    assert_eq!(sites.read(&mut stays), "");
    sites.advance(Duration::from_millis(200));
    assert_refused(&sites.read(&mut stays), 503, "hold_timeout");
    assert!(status(&sites, EU).contains(r#""parked":0"#));
}

#[test]
fn content_that_came_with_the_head_counts_among_what_is_held() {
    const LITTLE: Bounds = Bounds {
        parked_bytes_max: 10,
        ..SHORT
    };
    let sites = holding("routed-bytes", &LITTLE);
    let mut clients = [(); 3].map(|()| sites.connect(EU, Door::Sdk));
    for client in &mut clients {
        sites.send(client, &post("", "order"));
    }
    let [first, second, third] = clients.each_mut().map(|client| sites.read(client));
    assert_eq!((first.as_str(), second.as_str()), ("", ""));
    assert_refused(&third, 503, "hold_full");
}

#[test]
fn the_peer_key_goes_to_no_server() {
    let sites = settled("routed-key");
    let answer = sites.ask(AU, Door::Sdk, &get("/orders/7", PEER_KEY));
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    assert!(sites.accept().is_none());
}

#[test]
fn a_client_may_want_no_hop_and_no_ring() {
    let sites = settled("routed-hop");
    let here = sites.ask(EU, Door::Sdk, &post("X-Relay-No-Forward: 1\r\n", "order"));
    assert_refused(&here, 421, "not_primary");
    let ring = sites.ask(EU, Door::Sdk, &post("Via: 1.1 eu-1, 1.1 x\r\n", "order"));
    assert!(ring.starts_with("HTTP/1.1 502 "), "{ring}");
    assert!(sites.accept().is_none());
}
