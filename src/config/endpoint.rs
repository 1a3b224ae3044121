//! Where an upstream is: a URL in its pieces.
//!
//! Takes `http` and `https` URLs of a host and a path, and nothing that a request to the service
//! could not carry on: no user, no query, no fragment. Hosts are names in ASCII or addresses, so
//! nothing here needs tables of Unicode.
//!
//! Invariant: two endpoints are equal if and only if they lead to the same place by the same way of
//! writing: host in lower case, port filled in, no `/` at the end of the path.
//!
//! Never resolves a name.

use super::error::Problem;
use super::values::host_name;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// With TLS or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    /// As it is written in a URL.
    pub const fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// The port that a URL of this scheme means when it names none.
    pub const fn port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// Who is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// ASCII, in lower case, without a dot at the end.
    Name(String),
    Address(IpAddr),
}

impl Host {
    /// Whether only this machine can be meant.
    pub fn is_local(&self) -> bool {
        match self {
            Host::Name(name) => name == "localhost" || name.ends_with(".localhost"),
            Host::Address(address) => address.to_canonical().is_loopback(),
        }
    }

    /// Reads a host as it stands in a URL: an IPv6 address in brackets.
    fn parse(text: &str) -> Option<Host> {
        if let Some(rest) = text.strip_prefix('[') {
            let address: Ipv6Addr = rest.strip_suffix(']')?.parse().ok()?;
            return Some(Host::Address(address.into()));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return address.is_ipv4().then_some(Host::Address(address));
        }
        let name = host_name(text.strip_suffix('.').unwrap_or(text)).ok()?;
        // Resolvers read `127.1` as an address; no top-level domain is a number.
        let last = name.rsplit('.').next()?;
        let is_number = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
        (!is_number).then_some(Host::Name(name))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => formatter.write_str(name),
            Host::Address(IpAddr::V4(address)) => address.fmt(formatter),
            Host::Address(IpAddr::V6(address)) => write!(formatter, "[{address}]"),
        }
    }
}

/// A URL in its pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub scheme: Scheme,
    pub host: Host,
    pub port: u16,
    /// What stands in front of every path that is asked for: empty, or `/` and segments without a
    /// `/` at the end.
    pub prefix: String,
}

impl Endpoint {
    /// Reads a URL. Bounded by the length of `text`.
    ///
    /// # Errors
    /// `NotAUrl`, with what is wrong about it; the message never repeats the text.
    pub fn parse(text: &str) -> Result<Endpoint, Problem> {
        let refuse = |reason| Err(Problem::NotAUrl { reason });
        let found = text.split_once("://");
        let Some((scheme, rest)) = found else {
            return refuse("it must begin with `https://` or `http://`");
        };
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "https" => Scheme::Https,
            "http" => Scheme::Http,
            _ => return refuse("it must begin with `https://` or `http://`"),
        };
        if rest.contains(['?', '#']) {
            return refuse("it must end with the path, without `?` and `#`");
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return refuse("it may hold no user and no password");
        }
        let (host, port) = split_port(authority);
        let Some(host) = Host::parse(host) else {
            return refuse(
                "the host must be a name in ASCII or an address, an IPv6 address in brackets",
            );
        };
        let port = match port {
            None => Some(scheme.port()),
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok(),
            Some(_) => None,
        };
        let Some(port) = port.filter(|port| *port != 0) else {
            return refuse("the port must be a number from 1 to 65535");
        };
        let prefix = path.trim_end_matches('/');
        if !prefix.split('/').skip(1).all(is_segment) {
            return refuse("its path may hold letters, digits, `.`, `-`, `_` and `~` only");
        }
        Ok(Endpoint {
            scheme,
            host,
            port,
            prefix: prefix.to_owned(),
        })
    }

    /// Host and port as the `Host` field has them: the scheme's own port is left out.
    pub fn authority(&self) -> String {
        match self.port == self.scheme.port() {
            true => self.host.to_string(),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// Whether what is sent there can be read along the way.
    pub fn is_open(&self) -> bool {
        self.scheme == Scheme::Http && !self.host.is_local()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, authority) = (self.scheme.as_str(), self.authority());
        write!(formatter, "{scheme}://{authority}{}", self.prefix)
    }
}

/// The port behind the last colon, unless that colon is within the brackets of an address.
fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        Some(_) | None => (authority, None),
    }
}

/// A segment that no server and no proxy in between reads as anything else.
fn is_segment(segment: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b".-_~".contains(&byte);
    !matches!(segment, "" | "." | "..") && segment.bytes().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_lead_to_one_place_are_equal() {
        let plain = Endpoint::parse("https://eu-de.apprapp.cloud.ibm.com").unwrap();
        for same in [
            "HTTPS://EU-DE.apprapp.cloud.ibm.com/",
            "https://eu-de.apprapp.cloud.ibm.com:443",
            "https://eu-de.apprapp.cloud.ibm.com.:443//",
        ] {
            assert_eq!(Endpoint::parse(same).unwrap(), plain, "{same}");
        }
        assert_eq!(plain.to_string(), "https://eu-de.apprapp.cloud.ibm.com");
        let other = Endpoint::parse("http://eu-de.apprapp.cloud.ibm.com:443").unwrap();
        assert_ne!(other, plain);
    }

    #[test]
    fn pieces_print_as_they_were_read() {
        for text in [
            "http://127.0.0.1:7070",
            "https://[fd00::1]",
            "http://[::1]:7070/relay/v1",
            "https://gw.plant.example:8443/a~b",
            "http://gw_2",
        ] {
            assert_eq!(Endpoint::parse(text).unwrap().to_string(), text);
        }
        let endpoint = Endpoint::parse("http://[::1]:80/a/b/").unwrap();
        assert_eq!(endpoint.authority(), "[::1]");
        assert_eq!((endpoint.prefix.as_str(), endpoint.port), ("/a/b", 80));
    }

    #[test]
    fn what_is_no_upstream_is_refused() {
        for bad in [
            "",
            "gw",
            "gw:7070",
            "ftp://gw",
            "wss://gw",
            "https://",
            "https:///path",
            "https://user@gw",
            "https://user:word@gw",
            "https://gw?x=1",
            "https://gw/#top",
            "https://gw:0",
            "https://gw:",
            "https://gw:65536",
            "https://gw:+1",
            "https://g w",
            "https://gä",
            "https://127.1",
            "https://1",
            "https://0x7f.0x1",
            "https://::1",
            "https://[::1",
            "https://[127.0.0.1]",
            "https://[::1]x",
            "https://gw/a b",
            "https://gw/a/../b",
            "https://gw/a//b",
            "https://gw/%2e",
            "https://gw\\a",
        ] {
            assert!(
                matches!(Endpoint::parse(bad), Err(Problem::NotAUrl { .. })),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn only_this_machine_is_local() {
        for (url, is_open) in [
            ("http://localhost", false),
            ("http://relay.localhost", false),
            ("http://127.8.0.1", false),
            ("http://[::ffff:127.0.0.1]", false),
            ("http://[::1]", false),
            ("https://10.0.0.1", false),
            ("http://10.0.0.1", true),
            ("http://notlocalhost", true),
        ] {
            assert_eq!(Endpoint::parse(url).unwrap().is_open(), is_open, "{url}");
        }
    }
}
