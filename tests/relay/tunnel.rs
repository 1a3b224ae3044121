//! `CONNECT`: answered by the relay itself for a short list, refused for all else.

use crate::client::{Client, ask};
use crate::harness::relay::Relay;
use crate::harness::site::Site;
use crate::harness::{KEY, REGION};
use crate::way::{Delivery, PLAIN, connect_tcp, open_tunnel, service_host, through_tls};
use crate::{request, seed};
use serde_json::json;
use std::io::{Read, Write};

fn start() -> (Site, Relay) {
    let site = Site::new("tunnel", &seed::usual("one"));
    let relay = Relay::start(&site);
    (site, relay)
}

fn status(relay: &Relay, request: &str) -> String {
    let answer = open_tunnel(&mut connect_tcp(relay), request);
    answer.get(9..12).unwrap_or_default().to_owned()
}

#[test]
fn the_names_that_sdks_ask_for_are_answered_with_a_certificate_of_ours() {
    let (_site, relay) = start();
    let hosts = [
        "iam.cloud.ibm.com".to_owned(),
        "iam.test.cloud.ibm.com".to_owned(),
        "private.iam.cloud.ibm.com".to_owned(),
        "private.iam.test.cloud.ibm.com".to_owned(),
        service_host(),
        format!("private.{REGION}.apprapp.cloud.ibm.com"),
    ];
    for host in hosts {
        let mut socket = connect_tcp(&relay);
        let request = format!("CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n");
        let answer = open_tunnel(&mut socket, &request);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{host}: {answer}");
        let lower = answer.to_ascii_lowercase();
        let framed = lower.contains("content-length") || lower.contains("transfer-encoding");
        assert!(!framed, "{host}: {answer}");
        let inside = Box::new(through_tls(socket, &host));
        let mut client = Client::over(inside, Delivery::Whole);
        let token = client.exchange(request::token(KEY).as_bytes());
        assert_eq!(token.map(|answer| answer.status()), Ok(200), "{host}");
        let config = client.exchange(request::config().as_bytes());
        assert_eq!(config.map(|answer| answer.status()), Ok(200), "{host}");
    }
}

#[test]
fn both_versions_open_a_tunnel_and_a_host_is_optional() {
    let (_site, relay) = start();
    let host = service_host();
    for request in [
        format!("CONNECT {host}:443 HTTP/1.0\r\n\r\n"),
        format!("CONNECT {host}:443 HTTP/1.1\r\n\r\n"),
        format!("CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n"),
        format!("CONNECT {host}:443 HTTP/1.1\r\nProxy-Connection: keep-alive\r\n\r\n"),
        format!("CONNECT {}:443 HTTP/1.1\r\n\r\n", host.to_uppercase()),
    ] {
        assert_eq!(status(&relay, &request), "200", "{request}");
    }
}

#[test]
fn a_tunnel_may_be_asked_for_byte_by_byte() {
    let (_site, relay) = start();
    let host = service_host();
    let mut client = Client::over(Box::new(connect_tcp(&relay)), Delivery::ByteByByte);
    client.send(format!("CONNECT {host}:443 HTTP/1.0\r\n\r\n").as_bytes());
    assert_eq!(client.head().map(|head| head.status), Ok(200));
}

#[test]
fn other_targets_are_refused_and_logged() {
    let (_site, relay) = start();
    let host = service_host();
    for target in [
        "example.com:443".to_owned(),
        "127.0.0.1:22".to_owned(),
        "eu-de.apprapp.cloud.ibm.com:443".to_owned(),
        "cloud.ibm.com:443".to_owned(),
        format!("{host}:80"),
        format!("{host}.example.com:443"),
        format!("example.com.{host}:443"),
    ] {
        assert_eq!(
            status(&relay, &format!("CONNECT {target} HTTP/1.1\r\n\r\n")),
            "403",
            "{target}"
        );
    }
    relay.log.wait_for("example.com");
    for bad in [
        host.clone(),
        format!("http://{host}:443/"),
        "/".to_owned(),
        "*".to_owned(),
    ] {
        let answer = status(&relay, &format!("CONNECT {bad} HTTP/1.1\r\n\r\n"));
        assert!(["400", "403"].contains(&answer.as_str()), "{bad}: {answer}");
    }
}

#[test]
fn an_operator_may_allow_more_names() {
    let mut site = Site::new("tunnel", &seed::usual("one"));
    site.config["connect"] = json!({ "allow": ["flags.example.com"] });
    let relay = Relay::start(&site);
    let connect = |host: &str| status(&relay, &format!("CONNECT {host}:443 HTTP/1.1\r\n\r\n"));
    assert_eq!(connect("flags.example.com"), "200");
    assert_eq!(connect("other.example.com"), "403");
    assert_eq!(connect(&service_host()), "200");
}

#[test]
fn inside_a_tunnel_only_tls_is_spoken() {
    let (_site, relay) = start();
    let open = format!("CONNECT {}:443 HTTP/1.0\r\n\r\n", service_host());
    for first in [
        "GET / HTTP/1.1\r\nHost: relay\r\n\r\n",
        "\x15\x03\x01",
        &open,
    ] {
        let mut socket = connect_tcp(&relay);
        assert!(open_tunnel(&mut socket, &open).starts_with("HTTP/1.1 200 "));
        socket.write_all(first.as_bytes()).expect("an open tunnel");
        let mut rest = Vec::new();
        // A reset is as good an end as a close; what counts is that nothing is answered.
        let _ = socket.read_to_end(&mut rest);
        assert!(
            rest.is_empty(),
            "{first:?} inside a tunnel got {:?}",
            rest.escape_ascii().to_string()
        );
    }
}

#[test]
fn a_tunnel_inside_a_tunnel_is_refused() {
    let (_site, relay) = start();
    let host = service_host();
    let open = format!("CONNECT {host}:443 HTTP/1.0\r\n\r\n");
    let mut socket = connect_tcp(&relay);
    assert!(open_tunnel(&mut socket, &open).starts_with("HTTP/1.1 200 "));
    let mut client = Client::over(Box::new(through_tls(socket, &host)), Delivery::Whole);
    let answer = client.exchange(open.as_bytes());
    let refused = answer
        .as_ref()
        .map_or(true, |answer| answer.status() >= 400);
    assert!(refused, "{answer:?}");
    assert_eq!(
        ask(&relay, PLAIN, request::config()).status(),
        200,
        "the relay goes on"
    );
}

/// A TLS hello right behind the request is what an impatient client sends.
#[test]
fn bytes_right_behind_a_connect_are_not_lost() {
    let (_site, relay) = start();
    let host = service_host();
    let socket = connect_tcp(&relay);
    let open = format!("CONNECT {host}:443 HTTP/1.0\r\n\r\n").into_bytes();
    let impatient = Impatient {
        socket,
        before: Some(open),
        answered: false,
    };
    let mut client = Client::over(Box::new(through_tls(impatient, &host)), Delivery::Whole);
    let answer = client
        .exchange(request::config().as_bytes())
        .map(|answer| answer.status());
    assert_eq!(answer, Ok(200));
}

/// Sends the tunnel's request and the first bytes of TLS in one packet; skips the answer's head.
struct Impatient {
    socket: std::net::TcpStream,
    before: Option<Vec<u8>>,
    answered: bool,
}

impl Write for Impatient {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self.before.take() {
            Some(before) => {
                self.socket
                    .write_all(&[before.as_slice(), bytes].concat())?;
                Ok(bytes.len())
            }
            None => self.socket.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.socket.flush()
    }
}

impl Read for Impatient {
    fn read(&mut self, space: &mut [u8]) -> std::io::Result<usize> {
        if !self.answered {
            self.answered = true;
            let head = open_tunnel(&mut self.socket, "");
            assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        }
        self.socket.read(space)
    }
}
