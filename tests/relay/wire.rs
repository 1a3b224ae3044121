//! A connection whose packets a test decides on, below TLS and below the tunnel's request.
//!
//! `way` sends single bytes above TLS: whole records of one byte. Here the records themselves come
//! in pieces, and what a client says at the end, in TLS or in TCP, can be said at any time.

use crate::client::Client;
use crate::harness::relay::Relay;
use crate::way::{Delivery, Transport, connect_tcp, open_tunnel, service_host, through_tls};
use rustls::{ClientConnection, StreamOwned};
use std::io::{Read, Result, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packets {
    /// Whatever is written at once.
    Written,
    /// Every byte by itself.
    Single,
    /// Everything up to the moment where the client needs an answer.
    Gathered,
}

/// The socket.
struct Wire {
    socket: TcpStream,
    packets: Packets,
    held: Vec<u8>,
    /// The answer to `CONNECT` has not been read yet.
    opens_tunnel: bool,
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match self.packets {
            Packets::Written => return self.socket.write(bytes),
            Packets::Single => bytes
                .chunks(1)
                .try_for_each(|byte| self.socket.write_all(byte))?,
            Packets::Gathered => self.held.extend_from_slice(bytes),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Read for Wire {
    fn read(&mut self, space: &mut [u8]) -> Result<usize> {
        self.socket.write_all(&std::mem::take(&mut self.held))?;
        if std::mem::take(&mut self.opens_tunnel) {
            let head = open_tunnel(&mut self.socket, "");
            assert!(head.starts_with("HTTP/1.1 200 "), "{head:?}");
        }
        self.socket.read(space)
    }
}

enum Session {
    Plain(Wire),
    Tls(Box<StreamOwned<ClientConnection, Wire>>),
}

/// One connection, in the hands of a [`Client`] and of the test.
#[derive(Clone)]
pub struct Connection(Arc<Mutex<Session>>);

impl Connection {
    /// Connects by `transport`; a handshake waits for the first byte that is sent.
    pub fn open(relay: &Relay, transport: Transport, packets: Packets) -> Connection {
        let mut wire = Wire {
            socket: connect_tcp(relay),
            packets,
            held: Vec::new(),
            opens_tunnel: transport == Transport::Tunnel,
        };
        let session = match transport {
            Transport::Plain => Session::Plain(wire),
            Transport::Tls => Session::Tls(Box::new(through_tls(wire, "127.0.0.1"))),
            Transport::Tunnel => {
                let host = service_host();
                let request = format!("CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n");
                wire.write_all(request.as_bytes())
                    .expect("a new connection takes a request");
                Session::Tls(Box::new(through_tls(wire, &host)))
            }
        };
        Connection(Arc::new(Mutex::new(session)))
    }

    /// A client on this connection.
    pub fn client(&self) -> Client {
        Client::over(Box::new(self.clone()), Delivery::Whole)
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        self.0.lock().expect("no reader panicked")
    }

    /// Shakes hands, if there is something to shake them for.
    pub fn shake_hands(&self) {
        self.clone().flush().expect("the handshake succeeds");
    }

    /// Changes the keys of what is sent and asks the relay to change its own. Errors once the relay
    /// has ended the connection.
    pub fn refresh_keys(&self) -> Result<()> {
        match &mut *self.session() {
            Session::Plain(_) => Ok(()),
            Session::Tls(stream) => {
                let refreshed = stream.conn.refresh_traffic_keys();
                refreshed.expect("TLS 1.3 after its handshake");
                send_records(stream)
            }
        }
    }

    /// Says in TLS that nothing more comes.
    pub fn say_goodbye(&self) {
        if let Session::Tls(stream) = &mut *self.session() {
            stream.conn.send_close_notify();
            send_records(stream).expect("a goodbye that comes first is taken");
        }
    }

    /// Says in TCP that nothing more comes.
    pub fn close_half(&self) {
        let session = self.session();
        let wire = match &*session {
            Session::Plain(wire) => wire,
            Session::Tls(stream) => &stream.sock,
        };
        // The relay may have closed already; then there is nothing to close.
        let _ = wire.socket.shutdown(Shutdown::Write);
    }
}

/// Sends without reading anything.
fn send_records(stream: &mut StreamOwned<ClientConnection, Wire>) -> Result<()> {
    while stream.conn.wants_write() {
        stream.conn.write_tls(&mut stream.sock)?;
    }
    Ok(())
}

impl Read for Connection {
    fn read(&mut self, space: &mut [u8]) -> Result<usize> {
        match &mut *self.session() {
            Session::Plain(wire) => wire.read(space),
            Session::Tls(stream) => stream.read(space),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match &mut *self.session() {
            Session::Plain(wire) => wire.write(bytes),
            Session::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> Result<()> {
        match &mut *self.session() {
            Session::Plain(wire) => wire.flush(),
            Session::Tls(stream) => stream.flush(),
        }
    }
}
