//! Listening sockets: bound by us, or inherited from systemd.
//!
//! Owns: how a socket comes to listen, who may connect to one in the file system, what is done with
//! a socket file that a crash left behind, and the options of accepted TCP sockets.
//!
//! Never: accepts; removes a file that is not a socket, or a socket that somebody answers on.
//!
//! Invariants: every [`Listener`] is non-blocking, closed on exec, and listens. A Unix socket has
//! its mode before anybody can connect to it. Socket files are left behind at exit: the next start
//! replaces them, and removing them then could take away those of a relay that has taken over.

mod doors;
mod inherited;

pub use doors::Doors;
pub use inherited::Inherited;

use crate::limits::Limits;
use rustix::fs::Mode;
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, TcpKeepalive, Type};
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;

/// A socket that listens, ready for the reactor.
#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Who may connect to a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The relay's own user and root (0600): the admin socket, whose file mode is its credential.
    Owner,
    /// Every local user (0666): an SDK socket, whose credential is the client key.
    Local,
}

/// What was being done with which socket when it failed.
#[derive(Debug)]
pub struct SocketError {
    /// As a clause: `bind`, `listen on`.
    pub step: &'static str,
    /// As the config writes it.
    pub address: String,
    pub error: io::Error,
}

impl SocketError {
    /// Whether the system has no network of this kind for us, now and later.
    fn is_without_network(&self) -> bool {
        Errno::from_io_error(&self.error) == Some(Errno::AFNOSUPPORT)
    }
}

impl fmt::Display for SocketError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SocketError {
            step,
            address,
            error,
        } = self;
        write!(formatter, "cannot {step} {address}: {error}")?;
        if self.is_without_network() {
            return formatter.write_str(
                "; there is no such network for the relay: no IPv6, or the air-gap profile, in \
                 which systemd opens sockets",
            );
        }
        match error.kind() {
            io::ErrorKind::AddrInUse => formatter.write_str("; another process listens there"),
            io::ErrorKind::PermissionDenied => formatter.write_str(
                "; ports below 1024 need a socket unit or CAP_NET_BIND_SERVICE, \
                 and a Unix socket a folder that the relay may write to",
            ),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for SocketError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Names the step and the address of an error.
fn at<'a>(step: &'static str, address: &'a str) -> impl Fn(io::Error) -> SocketError + 'a {
    move |error| {
        let address = address.to_owned();
        SocketError {
            step,
            address,
            error,
        }
    }
}

impl Listener {
    /// Listens on a TCP address; port 0 takes a free one.
    ///
    /// `[::]` takes IPv4 too, and becomes `0.0.0.0` on a box without IPv6.
    pub fn tcp(address: SocketAddr, limits: &Limits) -> Result<Listener, SocketError> {
        match bind_tcp(address, limits) {
            Err(failed) if address.ip() == std::net::Ipv6Addr::UNSPECIFIED => {
                let errno = Errno::from_io_error(&failed.error);
                match errno {
                    // No IPv6 in the kernel; or switched off by sysctl.
                    Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL) => {
                        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
                        bind_tcp(any, limits)
                    }
                    Some(_) | None => Err(failed),
                }
            }
            outcome => outcome,
        }
    }

    /// Listens on a Unix socket at `path`, in place of one that nobody answers on any more.
    ///
    /// Errors: somebody does answer (`AddrInUse`); something else is there (`AlreadyExists`, and it
    /// is left alone); the path is longer than 107 bytes.
    pub fn unix(path: &Path, reach: Reach, limits: &Limits) -> Result<Listener, SocketError> {
        let shown = format!("unix:{}", path.display());
        let address = SockAddr::unix(path).map_err(at("bind", &shown))?;
        remove_stale(path, &address).map_err(at("bind", &shown))?;
        let kind = Type::STREAM.nonblocking().cloexec();
        let socket = Socket::new(Domain::UNIX, kind, None).map_err(at("open", &shown))?;
        socket.bind(&address).map_err(at("bind", &shown))?;
        // Before it listens nobody can connect, so that there is no moment with a wider mode.
        let mode = match reach {
            Reach::Owner => Mode::RUSR | Mode::WUSR,
            Reach::Local => Mode::from_raw_mode(0o666),
        };
        rustix::fs::chmod(path, mode)
            .map_err(io::Error::from)
            .map_err(at("set the mode of", &shown))?;
        socket
            .listen(limits.listen_backlog)
            .map_err(at("listen on", &shown))?;
        Ok(Listener::Unix(socket.into()))
    }

    /// Sets the options of [`tune`] on a TCP listener: Linux hands them on to every socket that it
    /// accepts, which saves seven calls per connection when a fleet comes back.
    ///
    /// Errors as those of [`tune`]: worth a warning, and no reason not to serve.
    pub fn tune(&self, limits: &Limits) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => tune(listener, limits),
            Listener::Unix(_) => Ok(()),
        }
    }
}

impl fmt::Display for Listener {
    /// As the config writes it, with the port that was really taken.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listener::Tcp(listener) => match listener.local_addr() {
                Ok(address) => address.fmt(formatter),
                Err(_) => formatter.write_str("tcp"),
            },
            Listener::Unix(listener) => {
                let address = listener.local_addr().ok();
                match address.as_ref().and_then(|address| address.as_pathname()) {
                    Some(path) => write!(formatter, "unix:{}", path.display()),
                    None => formatter.write_str("unix"),
                }
            }
        }
    }
}

fn bind_tcp(address: SocketAddr, limits: &Limits) -> Result<Listener, SocketError> {
    let shown = address.to_string();
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))
        .map_err(at("open", &shown))?;
    // A restart need not wait for the old connections' TIME_WAIT.
    socket.set_reuse_address(true).map_err(at("open", &shown))?;
    if address.ip() == std::net::Ipv6Addr::UNSPECIFIED {
        // Whatever `net.ipv6.bindv6only` says.
        socket.set_only_v6(false).map_err(at("open", &shown))?;
    }
    socket.bind(&address.into()).map_err(at("bind", &shown))?;
    socket
        .listen(limits.listen_backlog)
        .map_err(at("listen on", &shown))?;
    Ok(Listener::Tcp(socket.into()))
}

/// Removes the socket at `path` if nobody answers on it.
fn remove_stale(path: &Path, address: &SockAddr) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {}
        Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    // Non-blocking: a listener that is alive with a full backlog must not hold our start up.
    let kind = Type::STREAM.nonblocking().cloexec();
    let caller = Socket::new(Domain::UNIX, kind, None)?;
    match caller.connect(address) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(()) => Err(io::ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(io::ErrorKind::AddrInUse.into())
        }
        Err(error) => Err(error),
    }
}

/// Sets the options of a TCP connection, or of a listener that hands them on.
///
/// No delay; keepalive; a bound on unsent bytes in the kernel; and an end to connections whose peer
/// acknowledges nothing, for which keepalive alone does not care while bytes are in flight.
///
/// Errors: the first option that the kernel does not take. The others are set all the same.
pub fn tune(socket: &impl AsFd, limits: &Limits) -> io::Result<()> {
    let socket = SockRef::from(socket);
    let keepalive = TcpKeepalive::new()
        .with_time(limits.keepalive_idle)
        .with_interval(limits.keepalive_interval)
        .with_retries(limits.keepalive_probes);
    let outcomes = [
        socket.set_tcp_nodelay(true),
        socket.set_tcp_keepalive(&keepalive),
        socket.set_tcp_notsent_lowat(limits.socket_notsent_bytes),
        socket.set_tcp_user_timeout(Some(limits.unacknowledged_timeout)),
    ];
    outcomes.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::disk::scratch::Scratch;
    use std::net::TcpStream;
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixStream;

    fn limits() -> Limits {
        Limits::PRODUCTION
    }

    fn tcp(address: &str) -> Result<Listener, SocketError> {
        Listener::tcp(address.parse().unwrap(), &limits())
    }

    #[test]
    fn any_ipv6_address_takes_ipv4_and_names_its_port() {
        let listener = tcp("[::]:0").unwrap();
        let port = listener.to_string().rsplit_once(':').unwrap().1.to_owned();
        assert_ne!(port, "0");
        TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    }

    #[test]
    fn taken_port_says_who_to_look_for() {
        let first = tcp("127.0.0.1:0").unwrap();
        let error = tcp(&first.to_string()).unwrap_err();
        assert_eq!(error.error.kind(), io::ErrorKind::AddrInUse);
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("cannot bind {first}: ")),
            "{text}"
        );
    }

    #[test]
    fn accepted_sockets_inherit_every_option() {
        let listener = tcp("127.0.0.1:0").unwrap();
        listener.tune(&limits()).unwrap();
        let _client = TcpStream::connect(listener.to_string()).unwrap();
        let Listener::Tcp(listener) = listener else {
            panic!("not TCP");
        };
        listener.set_nonblocking(false).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let socket = SockRef::from(&accepted);
        let limits = limits();
        assert!(socket.tcp_nodelay().unwrap());
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), limits.keepalive_idle);
        let interval = socket.tcp_keepalive_interval().unwrap();
        assert_eq!(interval, limits.keepalive_interval);
        assert_eq!(
            socket.tcp_keepalive_retries().unwrap(),
            limits.keepalive_probes
        );
        let lowat = socket.tcp_notsent_lowat().unwrap();
        assert_eq!(lowat, limits.socket_notsent_bytes);
        let timeout = socket.tcp_user_timeout().unwrap();
        assert_eq!(timeout, Some(limits.unacknowledged_timeout));
    }

    #[test]
    fn stale_socket_is_replaced_and_a_live_one_is_not() {
        let scratch = Scratch::new("sockets-stale");
        let path = scratch.path("admin.sock");
        for (reach, mode) in [(Reach::Owner, 0o600), (Reach::Local, 0o666)] {
            // Each round finds the file that the round before it left.
            let listener = Listener::unix(&path, reach, &limits()).unwrap();
            assert_eq!(listener.to_string(), format!("unix:{}", path.display()));
            let found = std::fs::metadata(&path).unwrap();
            assert_eq!(found.permissions().mode() & 0o777, mode);
            let taken = Listener::unix(&path, reach, &limits()).unwrap_err();
            assert_eq!(taken.error.kind(), io::ErrorKind::AddrInUse);
            UnixStream::connect(&path).unwrap();
        }
        assert_eq!(scratch.names(), ["admin.sock"]);
    }

    #[test]
    fn live_socket_with_a_full_backlog_is_not_replaced() {
        let scratch = Scratch::new("sockets-full");
        let path = scratch.path("admin.sock");
        let mut narrow = limits();
        narrow.listen_backlog = 0;
        let _listener = Listener::unix(&path, Reach::Owner, &narrow).unwrap();
        let address = SockAddr::unix(&path).unwrap();
        let kind = Type::STREAM.nonblocking();
        let callers: Vec<_> = (0..4)
            .map(|_| {
                let caller = Socket::new(Domain::UNIX, kind, None).unwrap();
                let called = caller.connect(&address);
                (caller, called)
            })
            .collect();
        assert!(callers.iter().any(|(_, called)| called.is_err()));
        let taken = Listener::unix(&path, Reach::Owner, &narrow).unwrap_err();
        assert_eq!(taken.error.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn what_is_no_socket_is_left_alone() {
        let scratch = Scratch::new("sockets-file");
        let path = scratch.path("admin.sock");
        std::fs::write(&path, "mine").unwrap();
        let error = Listener::unix(&path, Reach::Owner, &limits()).unwrap_err();
        assert_eq!(error.error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
        let long = scratch.path(&"x".repeat(108));
        assert!(Listener::unix(&long, Reach::Owner, &limits()).is_err());
    }
}
