//! One non-blocking connection, plain or TLS.
//!
//! Owns the socket and, for TLS, the session. It connects from a given source address, so that more
//! clients fit on loopback than one address has ports; it refuses to connect anywhere but loopback.
//! Never waits after the connection is made: `WouldBlock` is for the swarm's one `epoll`.

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

/// How long the kernel may take to connect on loopback: longer than one lost SYN.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What TLS clients share.
#[derive(Clone, Debug)]
pub struct TlsTarget {
    pub config: Arc<ClientConfig>,
    pub name: ServerName<'static>,
}

/// What a connection is to be like.
#[derive(Clone, Debug)]
pub struct Route {
    pub to: SocketAddrV4,
    pub tls: Option<TlsTarget>,
}

/// One connection.
#[derive(Debug)]
pub struct Transport {
    socket: TcpStream,
    session: Option<Box<ClientConnection>>,
}

impl Transport {
    /// Connects from `source`, with a receive buffer of that many bytes if one is given.
    ///
    /// The port of `source` is chosen by `bind`. `IP_BIND_ADDRESS_NO_PORT` would let addresses be
    /// reused sooner, but needs `unsafe`; a thousand clients for each address need no such thing.
    pub fn connect(
        route: &Route,
        source: Ipv4Addr,
        receive_buffer_bytes: Option<usize>,
    ) -> io::Result<Transport> {
        if !route.to.ip().is_loopback() || !source.is_loopback() {
            return Err(io::Error::from(io::ErrorKind::AddrNotAvailable));
        }
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        if let Some(bytes) = receive_buffer_bytes {
            socket.set_recv_buffer_size(bytes)?;
        }
        socket.bind(&SocketAddrV4::new(source, 0).into())?;
        socket.connect_timeout(&route.to.into(), CONNECT_TIMEOUT)?;
        socket.set_tcp_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let session = match &route.tls {
            None => None,
            Some(tls) => {
                let session = ClientConnection::new(tls.config.clone(), tls.name.clone());
                Some(Box::new(session.map_err(io::Error::other)?))
            }
        };
        Ok(Transport {
            socket: socket.into(),
            session,
        })
    }

    /// Sends a request. It is far smaller than the socket's buffer, and no more than one is ever
    /// unanswered, so that a short write is an error here and not a state.
    pub fn send(&mut self, request: &[u8]) -> io::Result<()> {
        match &mut self.session {
            None => match self.socket.write(request)? {
                count if count == request.len() => Ok(()),
                _ => Err(io::ErrorKind::WriteZero.into()),
            },
            Some(session) => {
                session.writer().write_all(request)?;
                flush(session, &mut self.socket)
            }
        }
    }

    /// Reads what there is and passes it to `taker`, in pieces no larger than `scratch`. `false` at
    /// the end of the stream.
    pub fn read_available<E: From<io::Error>>(
        &mut self,
        scratch: &mut [u8],
        taker: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        match &mut self.session {
            None => read_plain(&mut self.socket, scratch, taker),
            Some(session) => read_tls(session, &mut self.socket, scratch, taker),
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn flush(session: &mut ClientConnection, socket: &mut TcpStream) -> io::Result<()> {
    while session.wants_write() {
        match session.write_tls(socket) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// One read is enough: `epoll` is level-triggered and tells again of what is left.
fn read_plain<E: From<io::Error>>(
    socket: &mut TcpStream,
    scratch: &mut [u8],
    taker: &mut impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<bool, E> {
    match socket.read(scratch) {
        Ok(0) => Ok(false),
        Ok(count) => taker(&scratch[..count]).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Everything must be read: `epoll` knows nothing of what the session holds.
fn read_tls<E: From<io::Error>>(
    session: &mut ClientConnection,
    socket: &mut TcpStream,
    scratch: &mut [u8],
    taker: &mut impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<bool, E> {
    let mut open = true;
    while open {
        match session.read_tls(socket) {
            Ok(0) => open = false,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error.into()),
        }
        let state = session.process_new_packets().map_err(io::Error::other)?;
        let mut left = state.plaintext_bytes_to_read();
        while left > 0 {
            let count = session.reader().read(scratch)?;
            taker(&scratch[..count])?;
            left = left.saturating_sub(count);
        }
        flush(session, socket)?;
    }
    Ok(open)
}
