//! Heads and content on their way, in both directions.

use std::io::Write;
use std::net::Shutdown;
use std::sync::mpsc;

use serde_json::json;

use crate::destination::{Destination, answer};
use crate::site::Front;

fn front(destination: &Destination) -> Front {
    Front::start(json!({}), &[("a", destination)])
}

#[test]
fn fields_of_the_connection_stay_and_the_way_is_told() {
    let a = Destination::start(|_, socket| {
        let fields = "Connection: X-Own\r\nX-Own: 1\r\nKeep-Alive: 5\r\nX-Kept: a\r\nX-Kept: b\r\n\
                      Set-Cookie: s=1\r\n";
        answer(socket, "200 Fine", fields, "a")
    });
    let front = front(&a);
    let mut client = front.client();
    client.send(
        b"GET /p?q=%20 HTTP/1.1\r\nHost: name:7070\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n\
          TE: trailers\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\nX-End: e\r\n\r\n",
    );
    let answer = client.read("GET");
    assert_eq!((answer.status, answer.text()), (200, "a"));
    assert_eq!(answer.fields("x-kept"), ["a", "b"]);
    assert_eq!(answer.fields("set-cookie"), ["s=1"]);
    assert_eq!(answer.fields("via"), ["1.1 staffetta"]);
    assert_eq!(answer.fields("date").len(), 1);
    for gone in ["x-own", "keep-alive", "connection"] {
        assert!(answer.fields(gone).is_empty(), "{gone}");
    }
    let request = &a.requests()[0];
    assert!(request.head.starts_with("GET /p?q=%20 HTTP/1.1\r\n"));
    assert_eq!(request.fields("host"), [a.address.to_string()]);
    assert_eq!(request.fields("x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(request.fields("x-forwarded-proto"), ["http"]);
    assert_eq!(request.fields("x-forwarded-host"), ["name:7070"]);
    assert_eq!(request.fields("x-end"), ["e"]);
    for gone in ["x-hop", "te", "forwarded", "connection"] {
        assert!(request.fields(gone).is_empty(), "{gone}");
    }
}

#[test]
fn answers_without_content_keep_the_connection() {
    let a = Destination::start(|request, socket| {
        let is_head = request.head.starts_with("HEAD ");
        let text = match request.path() {
            "/204" => "HTTP/1.1 204 No Content\r\n\r\n",
            "/304" => "HTTP/1.1 304 Not Modified\r\nETag: \"e\"\r\nContent-Length: 9\r\n\r\n",
            "/range" => {
                "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 1-2/9\r\n\
                 Content-Length: 2\r\n\r\nbc"
            }
            "/empty" => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            _ if is_head => "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
            _ => "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
        };
        socket.write_all(text.as_bytes()).is_ok()
    });
    let front = front(&a);
    let mut client = front.client();
    for _ in 0..2 {
        assert_eq!(client.get("/204", None).status, 204);
        let not_modified = client.get("/304", None);
        assert_eq!(not_modified.fields("content-length"), ["9"]);
        assert_eq!(client.get("/range", None).text(), "bc");
        assert_eq!(client.get("/empty", None).text(), "");
        client.send(b"HEAD / HTTP/1.1\r\nHost: r\r\n\r\n");
        assert_eq!(client.read("HEAD").fields("content-length"), ["1000"]);
        assert_eq!(client.get("/", None).text(), "x");
    }
    // Twelve requests of one client on one connection there.
    assert_eq!((a.connections(), a.requests().len()), (1, 12));
}

#[test]
fn chunks_go_through_both_ways() {
    let a = Destination::start(|request, socket| {
        let mut text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for piece in request.body.chunks(3) {
            text.extend(format!("{:x};ext=1\r\n", piece.len()).bytes());
            text.extend(piece);
            text.extend(b"\r\n");
        }
        // A trailer may be left out on the way.
        text.extend(b"0\r\nX-Trailer: 1\r\n\r\n");
        socket.write_all(&text).is_ok()
    });
    let front = front(&a);
    let mut client = front.client();
    let head = "POST / HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.send(format!("{head}5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n").as_bytes());
    assert_eq!(client.read("POST").text(), "hello world");
    // Byte by byte, and the next request right behind it.
    let request = format!("{head}3\r\nabc\r\n0\r\n\r\nGET /next HTTP/1.1\r\nHost: r\r\n\r\n");
    for byte in request.as_bytes() {
        client.send(&[*byte]);
    }
    assert_eq!(client.read("POST").text(), "abc");
    assert_eq!(client.read("GET").text(), "");
    assert_eq!(a.requests()[1].fields("transfer-encoding"), ["chunked"]);
}

#[test]
fn an_answer_that_ends_with_its_connection_gets_an_end_of_its_own() {
    let a = Destination::start(|_, socket| {
        let _ = socket.write_all(b"HTTP/1.0 200 OK\r\n\r\nto the end");
        false
    });
    let front = front(&a);
    let mut client = front.client();
    assert_eq!(client.get("/", None).text(), "to the end");
    assert_eq!(client.get("/", None).text(), "to the end");
}

#[test]
fn an_answer_that_breaks_off_has_no_end() {
    let a = Destination::start(|request, socket| {
        let text = match request.path() {
            "/length" => "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
            _ => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        };
        let _ = socket.write_all(text.as_bytes());
        false
    });
    let front = front(&a);
    for path in ["/length", "/chunks"] {
        let mut client = front.client();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: r\r\n\r\n").as_bytes());
        let rest = String::from_utf8(client.rest()).expect("text");
        assert!(
            rest.contains("half") && !rest.contains("\r\n0\r\n"),
            "{rest}"
        );
    }
}

#[test]
fn an_answer_that_is_none_is_502() {
    let a = Destination::start(|request, socket| {
        let text = match request.path() {
            "/length" => {
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
            }
            "/101" => "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            _ => "SSH-2.0-x\r\n\r\n",
        };
        let _ = socket.write_all(text.as_bytes());
        false
    });
    let front = front(&a);
    let mut client = front.client();
    for path in ["/length", "/101", "/ssh"] {
        assert_eq!(client.get(path, None).status, 502, "{path}");
    }
}

#[test]
fn large_heads_go_through_up_to_their_bound() {
    let long = "v".repeat(7000);
    let field = format!("X-Long: {long}\r\n");
    let a = Destination::start({
        let field = field.clone();
        move |_, socket| answer(socket, "200 OK", &field, "a")
    });
    let front = front(&a);
    let mut client = front.client();
    client.send(format!("GET / HTTP/1.1\r\nHost: r\r\n{field}\r\n").as_bytes());
    assert_eq!(client.read("GET").fields("x-long"), [&long]);
    assert_eq!(a.requests()[0].fields("x-long"), [&long]);
    client.send(format!("GET / HTTP/1.1\r\nHost: r\r\n{field}{field}\r\n").as_bytes());
    assert_eq!(client.read("GET").status, 431);
}

#[test]
fn who_waits_to_be_asked_for_content_is_asked_by_the_relay() {
    let a = Destination::start(|request, socket| {
        answer(
            socket,
            "200 OK",
            "",
            &String::from_utf8_lossy(&request.body),
        )
    });
    let front = front(&a);
    let mut client = front.client();
    client.send(b"PUT / HTTP/1.1\r\nHost: r\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    assert_eq!(client.read_head().status, 100);
    client.send(b"body");
    assert_eq!(client.read("PUT").text(), "body");
    assert!(a.requests()[0].fields("expect").is_empty());
}

#[test]
fn announced_trailers_are_refused() {
    let a = Destination::named("a");
    let front = front(&a);
    let mut client = front.client();
    client.send(
        b"POST / HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n\
          1\r\na\r\n0\r\nX-T: 1\r\n\r\n",
    );
    let status = client.read("POST").status;
    assert!([400, 501].contains(&status), "{status}");
    assert!(a.requests().is_empty());
}

#[test]
fn a_client_that_goes_takes_its_request_along() {
    let (told, asked) = mpsc::channel();
    let (went, gone) = mpsc::channel();
    let a = Destination::start(move |_, socket| {
        told.send(()).expect("the test waits");
        // The relay lets go before there was any answer.
        let ended = std::io::Read::read(socket, &mut [0]);
        went.send(matches!(ended, Ok(0) | Err(_)))
            .expect("the test waits");
        false
    });
    let front = front(&a);
    let mut client = front.client();
    client.send(b"GET / HTTP/1.1\r\nHost: r\r\n\r\n");
    asked.recv().expect("the destination is asked");
    let _ = client.reader.get_ref().shutdown(Shutdown::Both);
    drop(client);
    assert!(gone.recv().expect("the connection ends"));
}

#[test]
fn half_a_request_is_no_request() {
    let a = Destination::named("a");
    let front = front(&a);
    let mut client = front.client();
    client.send(b"POST / HTTP/1.1\r\nHost: r\r\nContent-Length: 10\r\n\r\nhalf");
    drop(client);
    a.wait_for_cut();
    assert!(a.requests().is_empty());
}

#[test]
fn a_destination_that_says_nothing_is_given_up() {
    let (hold, held) = mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let a = Destination::start(move |_, _| {
        let _ = held.lock().expect("no holder panics").recv();
        false
    });
    let cluster = json!({ "HttpRequest": { "ActivityTimeout": "00:00:01" } });
    let front = Front::start(cluster, &[("a", &a)]);
    assert_eq!(front.get("/", None).status, 504);
    drop(hold);
}

#[test]
fn an_answer_that_comes_before_the_request_is_whole_is_heard() {
    let (told, asked) = mpsc::channel();
    let a = Destination::start(move |_, _| {
        told.send(()).expect("the test waits");
        false
    });
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let early = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("the relay connects");
        answer(&mut socket, "413 Too Large", "Connection: close\r\n", "no");
        let _ = socket.shutdown(Shutdown::Write);
        std::io::copy(&mut socket, &mut std::io::sink())
    });
    let mut section = crate::site::proxy("/{**rest}", json!({}), &[("a", &a)]);
    section["Clusters"]["plant"]["Destinations"]["a"]["Address"] =
        json!(format!("http://{address}"));
    let front = Front::by(section, |_| {});
    let mut client = front.client();
    client.send(b"POST / HTTP/1.1\r\nHost: r\r\nContent-Length: 1000000\r\n\r\nbegin");
    let answer = client.read("POST");
    assert_eq!((answer.status, answer.text()), (413, "no"));
    assert_eq!(answer.fields("connection"), ["close"]);
    drop(client);
    let _ = early.join().expect("the early server ends");
    assert!(asked.try_recv().is_err());
}

#[test]
fn a_destination_that_shakes_no_hands_is_given_up() {
    let a = Destination::named("a");
    let mut section = crate::site::proxy("/{**rest}", json!({}), &[("a", &a)]);
    let url = a.url().replace("http:", "https:");
    section["Clusters"]["plant"]["Destinations"]["a"]["Address"] = json!(url);
    let front = Front::by(section, |_| {});
    // It speaks no TLS, and waits for a line: given up before a client would be.
    assert_eq!(front.get("/", None).status, 502);
    assert!(a.requests().is_empty());
}
