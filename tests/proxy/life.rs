//! Requests under way while the relay itself ends.

use std::sync::{Mutex, mpsc};

use serde_json::json;

use crate::destination::{Destination, answer};
use crate::site::Front;

#[test]
fn a_request_under_way_is_answered_while_the_relay_ends() {
    let (told, asked) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let gone = Mutex::new(gone);
    let a = Destination::start(move |_, socket| {
        told.send(()).expect("the test waits");
        let _ = gone.lock().expect("no holder panics").recv();
        answer(socket, "200 OK", "", "late")
    });
    let front = Front::start(json!({}), &[("a", &a)]);
    let mut client = front.client();
    client.send(b"GET / HTTP/1.1\r\nHost: r\r\n\r\n");
    asked.recv().expect("the destination is asked");
    let log = front.relay.log.clone();
    let ending = std::thread::spawn(move || front.relay.stop());
    log.wait_for("ending: ");
    go.send(()).expect("the destination waits");
    let answer = client.read("GET");
    assert_eq!((answer.status, answer.text()), (200, "late"));
    assert_eq!(answer.fields("connection"), ["close"]);
    drop(client);
    assert!(ending.join().expect("no panic").success());
}
