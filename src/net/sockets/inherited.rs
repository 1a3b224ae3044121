//! Sockets that systemd opened for us.
//!
//! Owns: the reading of `LISTEN_FDS`, and which listener a socket's name makes it:
//! `FileDescriptorName=admin` the admin listener, every other name an SDK listener.
//!
//! Never: takes what does not listen, such as the connection that `Accept=yes` passes.
//!
//! Why: clients queue in the kernel while the relay restarts, ports below 1024 need no capability,
//! and a relay without network access of its own still serves.

use super::{Listener, SocketError, at};
use listenfd::ListenFd;
use socket2::SockRef;
use std::io;

/// The listeners that were passed to this process. Where a list is not empty, it stands in place of
/// what the config says.
#[derive(Debug, Default)]
pub struct Inherited {
    pub sdk: Vec<Listener>,
    pub admin: Vec<Listener>,
}

impl Inherited {
    /// Takes the sockets passed to this process; none is no error.
    ///
    /// To be called once, before the first thread starts: it removes `LISTEN_FDS` and `LISTEN_PID`
    /// from the environment. Errors: a descriptor that is neither a TCP nor a Unix stream listener.
    pub fn take() -> Result<Inherited, SocketError> {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut passed = ListenFd::from_env();
        let mut names = names.split(':');
        let mut inherited = Inherited::default();
        for place in 0..passed.len() {
            let name = names.next().unwrap_or_default();
            let shown = format!("inherited socket {place} ({name:?})");
            let listener = take_one(&mut passed, place).map_err(at("use", &shown))?;
            match name {
                "admin" => inherited.admin.push(listener),
                _ => inherited.sdk.push(listener),
            }
        }
        Ok(inherited)
    }
}

fn take_one(passed: &mut ListenFd, place: usize) -> io::Result<Listener> {
    // The error of the first attempt only says that it may be the other kind.
    if let Ok(Some(listener)) = passed.take_tcp_listener(place) {
        ready(&SockRef::from(&listener))?;
        return Ok(Listener::Tcp(listener));
    }
    let not_there = || io::Error::from(io::ErrorKind::NotFound);
    let listener = passed.take_unix_listener(place)?.ok_or_else(not_there)?;
    ready(&SockRef::from(&listener))?;
    Ok(Listener::Unix(listener))
}

/// Refuses what does not listen, and makes the rest non-blocking.
fn ready(socket: &SockRef<'_>) -> io::Result<()> {
    if !socket.is_listener()? {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    socket.set_nonblocking(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::fd::OwnedFd;
    use std::process::{Command, Stdio};

    /// Set in the child only: what it should find.
    const EXPECTED: &str = "STAFFETTA_TEST_EXPECTED";

    fn found() -> String {
        match Inherited::take() {
            Ok(inherited) => {
                let show = |list: &[Listener]| list.iter().map(Listener::to_string).collect();
                let (sdk, admin): (String, String) = (show(&inherited.sdk), show(&inherited.admin));
                format!("sdk {sdk} admin {admin}")
            }
            Err(error) => error.to_string(),
        }
    }

    /// Runs this very test in a child whose descriptor 0 is `socket`, named `name`.
    fn child_finds(socket: OwnedFd, name: &str, expected: &str) {
        let test = "net::sockets::inherited::tests::sockets_go_where_their_names_say";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env("LISTEN_FDS", "1")
            .env("LISTEN_FDS_FIRST_FD", "0")
            .env("LISTEN_FDNAMES", name)
            .env(EXPECTED, expected)
            .stdin(Stdio::from(socket))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        let errors = String::from_utf8_lossy(&child.stderr);
        assert!(said.contains("1 passed"), "{name}: {said}{errors}");
    }

    #[test]
    fn sockets_go_where_their_names_say() {
        if let Ok(expected) = std::env::var(EXPECTED) {
            assert_eq!(found(), expected);
            return;
        }
        let tcp = || TcpListener::bind("127.0.0.1:0").unwrap();
        let listener = tcp();
        let address = listener.local_addr().unwrap();
        let both = |socket: &TcpListener| OwnedFd::from(socket.try_clone().unwrap());
        child_finds(both(&listener), "admin", &format!("sdk  admin {address}"));
        child_finds(
            both(&listener),
            "relay.socket",
            &format!("sdk {address} admin "),
        );
        let connection = std::net::TcpStream::connect(address).unwrap();
        child_finds(
            OwnedFd::from(connection),
            "connection",
            "cannot use inherited socket 0 (\"connection\"): invalid input parameter",
        );
        let scratch = crate::net::disk::scratch::Scratch::new("inherited");
        let path = scratch.path("admin.sock");
        let unix = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let expected = format!("sdk  admin unix:{}", path.display());
        child_finds(OwnedFd::from(unix), "admin", &expected);
    }
}
