//! Content of any size, in the memory of one read each way.
//!
//! `RELAY_LARGE_MIB` sets the size; a gigabyte takes a minute in a build for tests.

use std::io::{Read, Write};

use serde_json::json;

use crate::destination::Destination;
use crate::site::Front;

const MIB: usize = 1024 * 1024;

fn size_mib() -> usize {
    let size = std::env::var("RELAY_LARGE_MIB").ok();
    size.and_then(|text| text.parse().ok()).unwrap_or(64)
}

/// The most that the relay had resident so far, in KiB.
fn peak_kib(front: &Front) -> usize {
    let path = format!("/proc/{}/status", front.relay.child.id());
    let text = std::fs::read_to_string(path).expect("the relay runs");
    let line = text.lines().find(|line| line.starts_with("VmHWM:"));
    let digits = line.and_then(|line| line.split_whitespace().nth(1));
    digits.and_then(|text| text.parse().ok()).expect("a number")
}

#[test]
fn any_size_goes_down_in_constant_memory() {
    let length = size_mib() * MIB;
    let a = Destination::start(move |_, socket| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        let _ = socket.write_all(head.as_bytes());
        let piece = vec![b'x'; MIB];
        (0..length / MIB).all(|_| socket.write_all(&piece).is_ok())
    });
    let front = Front::start(json!({}), &[("a", &a)]);
    let mut client = front.client();
    assert_eq!(client.get("/warm-up", None).body.len(), length);
    let before_kib = peak_kib(&front);
    client.send(b"GET / HTTP/1.1\r\nHost: r\r\n\r\n");
    client.read_head();
    let (mut left, mut buffer) = (length, vec![0; MIB]);
    while left > 0 {
        let count = client.reader.read(&mut buffer).expect("content");
        assert!(count > 0, "{left} bytes are missing");
        left -= count;
    }
    assert!(peak_kib(&front) < before_kib + 1024);
}

#[test]
fn any_size_goes_up_in_constant_memory() {
    let length = size_mib() * MIB;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let counting = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("the relay connects");
        let (mut seen, mut head, mut buffer) = (0, Vec::new(), vec![0; MIB]);
        while seen < length {
            let count = socket.read(&mut buffer).expect("content");
            assert!(count > 0, "{} bytes are missing", length - seen);
            if seen == 0 {
                head.extend_from_slice(&buffer[..count]);
                let Some(end) = head.windows(4).position(|end| end == b"\r\n\r\n") else {
                    continue;
                };
                seen = head.len() - end - 4;
            } else {
                seen += count;
            }
        }
        crate::destination::answer(&mut socket, "200 OK", "", "all of it");
    });
    let placeholder = Destination::named("none");
    let mut section = crate::site::proxy("/{**rest}", json!({}), &[("a", &placeholder)]);
    section["Clusters"]["plant"]["Destinations"]["a"]["Address"] =
        json!(format!("http://{address}"));
    let front = Front::by(section, |_| {});
    let mut client = front.client();
    let before_kib = peak_kib(&front);
    client
        .send(format!("POST / HTTP/1.1\r\nHost: r\r\nContent-Length: {length}\r\n\r\n").as_bytes());
    let piece = vec![b'x'; MIB];
    for _ in 0..length / MIB {
        client.send(&piece);
    }
    assert_eq!(client.read("POST").text(), "all of it");
    counting.join().expect("all was counted");
    assert!(peak_kib(&front) < before_kib + 1024);
}
