//! The addresses of `listen` as systemd writes them.
//!
//! Owns the drop-in for the socket unit, which opens what SDKs connect to in the relay's place: in
//! the air gap, where the relay has no network to do it itself, and wherever connections shall wait
//! while it restarts. Without the drop-in the unit that ships listens on port 7070 of every
//! address, whatever the configuration says.
//!
//! Never: the admin listener, which stays the relay's own.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::Path;

use crate::config::Listen;

/// Where the drop-in belongs.
const DROP_IN: &str = "/etc/systemd/system/staffetta.socket.d/listen.conf";

/// The drop-in with the SDK addresses of the configuration at `path`.
///
/// # Errors
/// One line: an address that a unit file cannot hold. Bounded by `Limits::listeners_max`.
pub fn drop_in(path: &Path, listen: &[Listen]) -> Result<String, String> {
    let path = path.display();
    let mut text = format!(
        "# {DROP_IN}\n\
         # Made by `staffetta unit --config {path} --socket`; make it anew when\n\
         # `listen` changes there.\n\
         [Socket]\n\
         # Not the port of the unit that ships.\n\
         ListenStream="
    );
    for address in listen {
        text.push_str("\nListenStream=");
        text.push_str(&in_systemd_words(address)?);
    }
    Ok(text)
}

/// `%` begins a specifier there, and so stands twice.
fn in_systemd_words(address: &Listen) -> Result<String, String> {
    match address {
        Listen::Tcp(address) if address.port() == 0 => Err(format!(
            "listen: unit files cannot hold {address}: any port"
        )),
        // A bare port is IPv6 and IPv4, and IPv4 alone where there is no IPv6, as ours is.
        Listen::Tcp(address) if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
            Ok(address.port().to_string())
        }
        Listen::Tcp(SocketAddr::V6(address)) if address.scope_id() != 0 => {
            let (ip, port, scope) = (address.ip(), address.port(), address.scope_id());
            Ok(format!("[{ip}]:{port}%%{scope}"))
        }
        Listen::Tcp(address) => Ok(address.to_string()),
        Listen::Unix(path) => {
            let text = path.to_str().filter(|text| is_one_value(text));
            let text = text.ok_or_else(|| {
                format!("listen: unit files cannot hold the path {}", path.display())
            })?;
            Ok(text.replace('%', "%%"))
        }
    }
}

/// Whether a line of a unit file ends where the text does, and keeps all of it.
fn is_one_value(text: &str) -> bool {
    !text.contains(char::is_control) && text.trim() == text && !text.ends_with('\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(text: &str) -> Listen {
        match text.strip_prefix("unix:") {
            Some(path) => Listen::Unix(path.into()),
            None => Listen::Tcp(text.parse().unwrap()),
        }
    }

    #[test]
    fn each_address_is_written_as_systemd_takes_it() {
        for (ours, theirs) in [
            ("[::]:7070", "7070"),
            ("0.0.0.0:443", "0.0.0.0:443"),
            ("127.0.0.1:7070", "127.0.0.1:7070"),
            ("[::1]:7070", "[::1]:7070"),
            ("[fe80::1%3]:7070", "[fe80::1]:7070%%3"),
            ("unix:/run/staffetta/sdk.sock", "/run/staffetta/sdk.sock"),
            ("unix:/run/100%/sdk.sock", "/run/100%%/sdk.sock"),
        ] {
            assert_eq!(in_systemd_words(&listen(ours)).as_deref(), Ok(theirs));
        }
        for address in [
            "unix:/run/a\nExecStart=b",
            "unix:/run/a ",
            "unix:/run/a\\",
            "[::]:0",
            "127.0.0.1:0",
        ] {
            assert!(in_systemd_words(&listen(address)).is_err(), "{address:?}");
        }
    }

    #[test]
    fn the_shipped_port_is_forgotten_first() {
        let shipped = include_str!("../../../cross/units/staffetta.socket");
        assert!(shipped.lines().any(|line| line == "ListenStream=7070"));
        let path = Path::new("/etc/staffetta/staffetta.json");
        let text = drop_in(path, &[listen("127.0.0.1:7070"), listen("[::]:443")]).unwrap();
        assert!(text.starts_with(&format!("# {DROP_IN}\n")), "{text}");
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                "[Socket]",
                "ListenStream=",
                "ListenStream=127.0.0.1:7070",
                "ListenStream=443"
            ]
        );
    }
}
