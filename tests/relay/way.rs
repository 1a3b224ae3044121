//! The ways in which the same bytes reach the relay: three transports, two deliveries.
//!
//! A request must mean the same whether it comes plain, through TLS on the same port, or through
//! TLS inside a tunnel that the relay ends itself; and whether it comes in one packet or in as many
//! as it has bytes.

use crate::harness::relay::Relay;
use crate::harness::site::certificates;
use crate::harness::{PATIENCE, REGION};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, OnceLock};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Plain,
    Tls,
    /// `CONNECT` to the service's own host name, then TLS on the same socket.
    Tunnel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    Whole,
    ByteByByte,
}

#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub transport: Transport,
    pub delivery: Delivery,
}

/// Every way.
pub const WAYS: [Way; 6] = {
    use Delivery::{ByteByByte, Whole};
    use Transport::{Plain, Tls, Tunnel};
    [
        Way {
            transport: Plain,
            delivery: Whole,
        },
        Way {
            transport: Plain,
            delivery: ByteByByte,
        },
        Way {
            transport: Tls,
            delivery: Whole,
        },
        Way {
            transport: Tls,
            delivery: ByteByByte,
        },
        Way {
            transport: Tunnel,
            delivery: Whole,
        },
        Way {
            transport: Tunnel,
            delivery: ByteByByte,
        },
    ]
};

/// The way of a test to which the way does not matter.
pub const PLAIN: Way = WAYS[0];

/// A connected byte stream, plain or through TLS.
pub trait Socket: Read + Write + Send {}
impl<T: Read + Write + Send> Socket for T {}

/// The host name that the SDK of our region asks its configuration from.
pub fn service_host() -> String {
    format!("{REGION}.apprapp.cloud.ibm.com")
}

/// Connects to the relay by `transport`.
pub fn connect(relay: &Relay, transport: Transport) -> Box<dyn Socket> {
    let mut socket = connect_tcp(relay);
    match transport {
        Transport::Plain => Box::new(socket),
        Transport::Tls => Box::new(through_tls(socket, "127.0.0.1")),
        Transport::Tunnel => {
            let host = service_host();
            let answer = open_tunnel(&mut socket, &format!("CONNECT {host}:443 HTTP/1.0\r\n\r\n"));
            assert!(
                answer.starts_with("HTTP/1.1 200 "),
                "CONNECT {host}: {answer:?}"
            );
            Box::new(through_tls(socket, &host))
        }
    }
}

/// A TCP connection with the deadline and without Nagle's delay.
pub fn connect_tcp(relay: &Relay) -> TcpStream {
    let socket = TcpStream::connect(relay.address).expect("the relay listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
    socket.set_write_timeout(Some(PATIENCE)).expect("not zero");
    socket.set_nodelay(true).expect("a TCP socket");
    socket
}

/// Sends `request` and reads the head of the answer, not one byte more: TLS may follow.
pub fn open_tunnel(socket: &mut TcpStream, request: &str) -> String {
    socket
        .write_all(request.as_bytes())
        .expect("a new connection takes a request");
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && socket.read(&mut byte).is_ok_and(|length| length == 1) {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// TLS over `socket`, trusting the site's own authority and checking for `name`.
pub fn through_tls<S: Read + Write>(socket: S, name: &str) -> StreamOwned<ClientConnection, S> {
    let name = ServerName::try_from(name.to_owned()).expect("a host name or address");
    let session = ClientConnection::new(Arc::clone(trust()), name).expect("a complete config");
    StreamOwned::new(session, socket)
}

fn trust() -> &'static Arc<ClientConfig> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    CONFIG.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(certificates().join("ca.crt"));
        roots
            .add(authority.expect("ca.crt holds a certificate"))
            .expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider knows TLS 1.2 and 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Arc::new(config)
    })
}
