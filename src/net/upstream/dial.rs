//! A connection to an upstream: its name, TCP, a proxy's tunnel, TLS, in one time-out.
//!
//! Owns the order of these, and the options of outgoing sockets. Each address of a name gets its
//! share of the time that is left, so that one that swallows everything does not take it all.
//!
//! Never keeps a connection: one request, one connection. A dial that is dropped leaves nothing.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_lite::{AsyncRead, AsyncWrite};
use futures_rustls::client::TlsStream;
use rustix::io::Errno;
use smol::Async;
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

use crate::config::{Endpoint, Scheme};
use crate::limits::Limits;
use crate::net::io::Wire;

use super::client::Net;
use super::deadline::within;
use super::error::{Problem, Step, UpstreamError};
use super::{proxy, tls};

/// A connection to an upstream, ready for HTTP.
pub enum Stream {
    Plain(Wire),
    Tls(Box<TlsStream<Wire>>),
}

impl Stream {
    /// Whether nothing has come since the last read, an end included: whoever waits for a request
    /// has nothing to say. What came in one TLS record with what was read counts too.
    pub fn is_quiet(&mut self) -> bool {
        let wire = match self {
            Stream::Plain(wire) => wire,
            Stream::Tls(stream) => {
                let (wire, session) = stream.get_mut();
                let state = session.process_new_packets();
                if !state.is_ok_and(|state| state.plaintext_bytes_to_read() == 0) {
                    return false;
                }
                wire
            }
        };
        wire.is_quiet()
    }
}

/// Where a connection leads, and how.
#[derive(Clone, Debug)]
pub struct Way {
    pub endpoint: Endpoint,
    pub proxy: Option<Endpoint>,
    /// Who is trusted, if `endpoint` is to be spoken to by TLS.
    pub trust: super::client::Trust,
}

/// Host and port, the port always named: what logs and tunnels say.
pub fn host_and_port(endpoint: &Endpoint) -> String {
    format!("{}:{}", endpoint.host, endpoint.port)
}

/// Connects. Bounded by `upstream_connect_timeout`.
pub async fn dial(net: &Net, way: &Way) -> Result<Stream, UpstreamError> {
    let patience = net.limits.upstream_connect_timeout;
    let outcome = match within(&net.clock, patience, Box::pin(connect(net, way))).await {
        Some(outcome) => outcome,
        None => Err(Problem::Timeout(Step::Connect)),
    };
    outcome.map_err(|problem| UpstreamError::new(&host_and_port(&way.endpoint), problem))
}

async fn connect(net: &Net, way: &Way) -> Result<Stream, Problem> {
    // First, since it is a mistake of ours that no network can mend.
    let config = match way.endpoint.scheme {
        Scheme::Https => Some(net.client_tls(&way.trust).await?),
        Scheme::Http => None,
    };
    let mut wire = reach(net, way.proxy.as_ref().unwrap_or(&way.endpoint)).await?;
    if way.proxy.is_some() {
        proxy::open_tunnel(&mut wire, &host_and_port(&way.endpoint), net).await?;
    }
    match config {
        Some(config) => {
            let stream = tls::connect(wire, &way.endpoint.host, config).await?;
            Ok(Stream::Tls(stream))
        }
        None => Ok(Stream::Plain(wire)),
    }
}

/// Connects to the first address of a host that takes it.
async fn reach(net: &Net, endpoint: &Endpoint) -> Result<Wire, Problem> {
    if let Some(pipes) = &net.pipes {
        let end = pipes(endpoint).map_err(|error| Problem::Connect(error.kind()))?;
        return Ok(end.into());
    }
    let deadline = net.clock.now() + net.limits.upstream_connect_timeout;
    let (host, port) = (&endpoint.host, endpoint.port);
    let resolver = &net.resolver;
    let found = resolver
        .resolve(host, port, &net.clock, &net.limits)
        .await?;
    let mut problem = Problem::Resolve(io::ErrorKind::NotFound);
    for (tried, address) in found.iter().enumerate() {
        let left = deadline - net.clock.now();
        let share = left / u32::try_from(found.len() - tried).unwrap_or(u32::MAX);
        let attempt = within(&net.clock, share, connect_to(*address, &net.limits)).await;
        problem = match attempt {
            Some(Ok(socket)) => return Ok(socket.into()),
            Some(Err(error)) => refusal(&error),
            None => Problem::Timeout(Step::Connect),
        };
    }
    Err(problem)
}

/// Why an address could not be reached, told apart by what an operator can do about it.
fn refusal(error: &io::Error) -> Problem {
    match Errno::from_io_error(error) {
        Some(Errno::AFNOSUPPORT) => Problem::NoNetwork,
        _ => Problem::Connect(error.kind()),
    }
}

async fn connect_to(address: SocketAddr, limits: &Limits) -> io::Result<Async<Socket>> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
    tune(&socket, limits)?;
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(error) if Errno::from_io_error(&error) == Some(Errno::INPROGRESS) => {}
        Err(error) => return Err(error),
    }
    let socket = Async::new_nonblocking(socket)?;
    socket.writable().await?;
    match socket.get_ref().take_error()? {
        None => Ok(socket),
        Some(error) => Err(error),
    }
}

/// No delay; and an end to a connection whose other side is gone, be it idle or not.
fn tune(socket: &Socket, limits: &Limits) -> io::Result<()> {
    let keepalive = TcpKeepalive::new()
        .with_time(limits.keepalive_idle)
        .with_interval(limits.upstream_keepalive_interval)
        .with_retries(limits.upstream_keepalive_probes);
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(limits.upstream_unacknowledged_timeout))
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(wire) => Pin::new(wire).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(wire) => Pin::new(wire).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(wire) => Pin::new(wire).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(context),
        }
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(wire) => Pin::new(wire).poll_close(context),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_close(context),
        }
    }
}

#[cfg(test)]
mod tests;
