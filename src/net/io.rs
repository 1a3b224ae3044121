//! The transport under a connection: a socket, or a pipe in tests, with TLS on it or without.
//!
//! Everything is `try_`: it does what can be done now and answers `WouldBlock` otherwise, without a
//! `Context`. So the broadcast loop and a client's own task can write to the same client; only the
//! task then waits, through [`Io::poll_readable`] and [`Io::poll_writable`], and it is the only one
//! that does, since a socket keeps one waker per direction.
//!
//! A write to TLS is accepted when its session has taken it, within a bound; what could not be sent
//! yet goes out before anything else.
//!
//! There is one of these for each idle client: what only TLS needs is behind a pointer.

use std::io::{self, IoSlice, Read};
use std::net::IpAddr;
use std::task::{Context, Poll};

use rustls::ServerConnection;
use rustls::server::{Accepted, AcceptedAlert, Acceptor};
use smol::Async;
use socket2::{SockAddr, Socket};

mod tls;
mod wire;

use tls::{Outgoing, Records, Tls};

pub use tls::Spare;
pub use wire::Wire;

/// A wire, with TLS on it or without.
pub struct Io {
    wire: Wire,
    /// As it was when the connection was accepted: each forwarded request names it.
    peer: Option<IpAddr>,
    tls: Option<Box<Tls>>,
    /// The peer's side has taken bytes of whatever kind since this was last asked.
    has_sent: bool,
}

impl Io {
    /// A plain stream from somebody who has no address.
    pub fn new(wire: impl Into<Wire>) -> Io {
        Io {
            wire: wire.into(),
            peer: None,
            tls: None,
            has_sent: false,
        }
    }

    /// A plain stream from the address that `accept` gave with it.
    pub fn accepted(socket: Async<Socket>, peer: &SockAddr) -> Io {
        Io {
            peer: peer.as_socket().map(|peer| peer.ip().to_canonical()),
            ..Io::new(socket)
        }
    }

    /// Reads the first message of TLS, of which no more than `left` bytes are taken, give or take a
    /// read. `unread` was read from the wire already; what lies behind the message stays with the
    /// result, or in there.
    pub fn try_hello(
        &mut self,
        acceptor: &mut Acceptor,
        unread: &mut Vec<u8>,
        left: &mut usize,
    ) -> io::Result<Option<Accepted>> {
        loop {
            match acceptor.accept() {
                Ok(Some(accepted)) => return Ok(Some(accepted)),
                Ok(None) if *left == 0 => return Err(io::ErrorKind::InvalidData.into()),
                Ok(None) => {}
                Err((error, mut alert)) => {
                    let _ = alert.write_all(&mut Outgoing {
                        wire: &mut self.wire,
                    });
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
            let mut source = Records {
                unread,
                wire: &mut self.wire,
            };
            match acceptor.read_tls(&mut source)? {
                0 => return Ok(None),
                count => *left = left.saturating_sub(count),
            }
        }
    }

    /// Says why the handshake fails, as far as the wire takes it now.
    pub fn send_alert(&mut self, mut alert: AcceptedAlert) {
        let _ = alert.write_all(&mut Outgoing {
            wire: &mut self.wire,
        });
    }

    /// Puts TLS on the stream. `unread` is what `try_hello` left.
    pub fn start_tls(&mut self, session: ServerConnection, unread: Vec<u8>, spare: Spare) {
        self.tls = Some(Box::new(Tls::new(session, unread, spare)));
    }

    /// Who is at the other end; `None` for a Unix socket, and a pipe.
    pub fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    /// Whether TLS is on the stream.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether TLS has records that the wire did not take yet.
    pub fn wants_write(&self) -> bool {
        self.tls
            .as_ref()
            .is_some_and(|tls| tls.session.wants_write())
    }

    /// Whether the peer's side has taken any bytes since the last call: a client that takes none is
    /// stuck.
    pub fn take_sent(&mut self) -> bool {
        std::mem::take(&mut self.has_sent)
    }

    /// Reads what is there. Zero is the end; a TLS stream that ends without saying so has ended
    /// too.
    pub fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = self.tls.as_deref_mut() else {
            return self.wire.read(buffer);
        };
        loop {
            match tls.session.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                result => return result,
            }
            let ended = tls.read(&mut self.wire)? == 0;
            let processed = tls.session.process_new_packets();
            // What the library answers (handshake, alert, key update) goes out even on an error.
            let flushed = tls.flush(&mut self.wire, &mut self.has_sent);
            if let Err(error) = processed {
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
            match flushed {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ if ended && tls.session.is_handshaking() => return Ok(0),
                _ => {}
            }
        }
    }

    /// Takes the handshake as far as it goes now; `Ok` means that it is complete and sent.
    pub fn try_handshake(&mut self) -> io::Result<()> {
        let Some(tls) = self.tls.as_deref_mut() else {
            return Ok(());
        };
        loop {
            // At first this is what came right behind the client's first message.
            if let Err(error) = tls.session.process_new_packets() {
                let _ = tls.flush(&mut self.wire, &mut self.has_sent);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
            tls.flush(&mut self.wire, &mut self.has_sent)?;
            if !tls.session.is_handshaking() {
                return Ok(());
            }
            if tls.read(&mut self.wire)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Reads from the wire itself, before it is known whether TLS is spoken on it.
    pub fn try_read_wire(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wire.read(buffer)
    }

    /// Writes as much of `parts` as is taken now.
    pub fn try_write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        if let Some(tls) = self.tls.as_deref_mut() {
            return tls.write(parts, &mut self.wire, &mut self.has_sent);
        }
        let count = self.wire.write(parts)?;
        self.has_sent |= count > 0;
        Ok(count)
    }

    /// Sends what TLS still holds; `Ok` means that it holds nothing.
    pub fn try_flush(&mut self) -> io::Result<()> {
        match self.tls.as_deref_mut() {
            None => Ok(()),
            Some(tls) => tls.flush(&mut self.wire, &mut self.has_sent),
        }
    }

    /// Whether nothing has come since the last read, an end included.
    pub fn is_quiet(&self) -> bool {
        self.wire.is_quiet()
    }

    /// Ready when a read may do more than the last one.
    pub fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire.poll_readable(context)
    }

    /// Ready when a write may do more than the last one.
    pub fn poll_writable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire.poll_writable(context)
    }

    /// Tells the peer that nothing more will come. TLS says so in its own words first; both are
    /// said as far as the socket takes them now.
    pub fn finish(&mut self) {
        if let Some(tls) = self.tls.as_deref_mut() {
            tls.session.send_close_notify();
            let _ = tls.flush(&mut self.wire, &mut self.has_sent);
        }
        self.wire.finish();
    }

    /// Ends the stream in order: what was sent still arrives. The owner's task reads the end and
    /// goes.
    pub fn end(&mut self) {
        self.finish();
        self.wire.end();
    }

    /// Ends the stream at once and drops what the kernel still holds for it. The owner's task reads
    /// the end, or fails to write, and goes.
    pub fn reset(&mut self) {
        self.wire.reset();
    }
}
