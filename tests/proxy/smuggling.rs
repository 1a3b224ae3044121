//! Requests that two readers could part differently: none of them reaches a destination.

use serde_json::json;

use crate::destination::Destination;
use crate::site::Front;

/// Each is one write; the answer is 400 or 501.
const REQUESTS: [&str; 22] = [
    "POST / HTTP/1.1\r\nHost: r\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\
     \r\n0\r\n\r\nG",
    "POST / HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\nContent-Length: 6\r\n\
     \r\n0\r\n\r\nG",
    "POST / HTTP/1.1\r\nHost: r\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "POST / HTTP/1.1\r\nHost: r\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
    "POST / HTTP/1.1\r\nHost: r\r\nContent-Length: +1\r\n\r\na",
    "POST / HTTP/1.1\r\nHost: r\r\nContent-Length: 1, 1\r\n\r\na",
    "POST / HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: r\r\nTransfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: r\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: r\r\nX: a\r\n b\r\n\r\n",
    "GET / HTTP/1.1\nHost: r\n\n",
    "GET / HTTP/1.1\r\nHost: r\r\nX: a\nY: b\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: r\r\nX y: a\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: r\r\nX\0: a\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: r\r\nX\u{e9}: a\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: r\r\n: a\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: r\r\nHost: s\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n1\nab\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n\
     10000000000000001\r\na\r\n0\r\n\r\n",
];

#[test]
fn nothing_ambiguous_reaches_a_destination() {
    let a = Destination::named("a");
    let front = Front::start(json!({}), &[("a", &a)]);
    for request in REQUESTS {
        let mut client = front.client();
        client.send(request.as_bytes());
        let head = client.read_head();
        assert!([400, 501].contains(&head.status), "{request:?}: {head:?}");
        assert_eq!(head.fields("connection"), ["close"], "{request:?}");
    }
    assert_eq!((a.connections(), a.requests().len()), (0, 0));
}

#[test]
fn a_chunk_that_breaks_later_ends_both_connections() {
    let a = Destination::named("a");
    let front = Front::start(json!({}), &[("a", &a)]);
    let mut client = front.client();
    client.send(b"POST / HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
    client.send(b"x\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: r\r\n\r\n");
    let head = client.read_head();
    assert_eq!(
        (head.status, head.fields("connection")),
        (400, vec!["close"])
    );
    assert!(a.requests().is_empty());
}

#[test]
fn dot_segments_take_no_route() {
    let a = Destination::named("a");
    let front = Front::start(json!({}), &[("a", &a)]);
    for path in ["/../x", "/a/%2e%2e/x", "/./x", "/a/.%2E/"] {
        assert_eq!(front.get(path, None).status, 404, "{path}");
    }
    assert!(a.requests().is_empty());
}
