//! The nouns of the reverse proxy: routes, clusters, destinations, affinity.
//!
//! The configuration makes them, `state` chooses by them and `wire` matches and writes by them.
//! What they hold was checked when it was read: names are unique but for the case of letters, a
//! route's cluster exists, cookie attributes can stand in a header.
//!
//! Names and defaults are those of YARP, whose configuration an operator may paste.

use super::Id;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// Where requests go that are not for the relay itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReverseProxy {
    /// In the order of the file.
    pub routes: Vec<Route>,
    /// In the order of the file.
    pub clusters: Vec<Cluster>,
}

impl ReverseProxy {
    /// What regions are primary for, of all routes; each once. Bounded by the number of routes.
    pub fn region_slots(&self) -> BTreeSet<&Id> {
        let slots = self.routes.iter();
        slots
            .filter_map(|route| route.region_slot.as_ref())
            .collect()
    }
}

/// Which requests go to which cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub id: Box<str>,
    /// Its place in [`ReverseProxy::clusters`].
    pub cluster: usize,
    pub path: PathTemplate,
    /// Empty = any host.
    pub hosts: Vec<HostPattern>,
    /// In upper case; empty = any method.
    pub methods: Vec<Box<str>>,
    /// Smaller comes first, whatever the path.
    pub order: i32,
    /// What a region has to be primary for, before a request that may change something is sent to
    /// the cluster; `None` = it is sent from everywhere.
    pub region_slot: Option<Id>,
}

/// What a path has to look like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathTemplate {
    pub segments: Vec<Segment>,
    /// Ends in `{**rest}`: any number of segments may follow, none too.
    pub takes_rest: bool,
}

/// One segment of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// This text, in any case of letters.
    Literal(Box<str>),
    /// `{name}`: any text but none.
    Any,
}

/// What `Host` has to look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    pub name: HostName,
    /// `None` = any port.
    pub port: Option<u16>,
}

/// The name in a [`HostPattern`], in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostName {
    /// `*`.
    Any,
    Exact(Box<str>),
    /// `*.example.com`: any name below, and not that name itself. Held without the `*`.
    Below(Box<str>),
}

/// Destinations that can stand for each other, and how one is chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    pub id: Box<str>,
    pub balance: Balance,
    /// `None` = no request is bound to a destination.
    pub affinity: Option<Affinity>,
    pub health: Health,
    /// A request on which not a byte moved for this long is given up.
    pub activity_timeout: Duration,
    /// In the order of the file; may be empty.
    pub destinations: Vec<Destination>,
}

/// How one of several destinations is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// Of two at random, the one with fewer requests under way.
    #[default]
    PowerOfTwoChoices,
    Random,
    /// One after the other.
    RoundRobin,
    /// The one with the fewest requests under way, the first of equals.
    LeastRequests,
    /// The one whose id comes first, in any case of letters.
    FirstAlphabetical,
}

/// How a client comes back to the destination that it had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affinity {
    pub failure: FailurePolicy,
    /// A token of HTTP; compared in any case of letters when it is read.
    pub cookie_name: Box<str>,
    pub cookie: CookieShape,
}

/// What happens to a request whose destination cannot be had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// Another destination, and a new cookie.
    #[default]
    Redistribute,
    /// 503, without body and without cookie.
    Refuse,
}

/// The attributes of the cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookieShape {
    pub path: Box<str>,
    pub domain: Option<Box<str>>,
    /// From the answer on; sent as a date.
    pub expiration: Option<Duration>,
    /// Sent in whole seconds.
    pub max_age: Option<Duration>,
    pub http_only: bool,
    /// `None` = the attribute is left out.
    pub same_site: Option<SameSite>,
    pub secure: Secure,
}

impl Default for CookieShape {
    fn default() -> CookieShape {
        CookieShape {
            path: "/".into(),
            domain: None,
            expiration: None,
            max_age: None,
            http_only: true,
            same_site: None,
            secure: Secure::Never,
        }
    }
}

/// Which requests of other sites a browser sends the cookie with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameSite {
    None,
    Lax,
    Strict,
}

/// Whether the cookie is for encrypted connections only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Secure {
    /// YARP's `None`, its default.
    #[default]
    Never,
    Always,
    /// When the request came over TLS.
    SameAsRequest,
}

/// Which destinations count as available.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Health {
    pub available: Available,
    pub active: Option<ActiveCheck>,
    pub passive: Option<PassiveCheck>,
}

/// What is done when every destination is unhealthy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Available {
    /// All are used: checks that find nothing good may be wrong themselves.
    #[default]
    HealthyOrPanic,
    /// None is used.
    HealthyAndUnknown,
}

/// Every destination is asked by the relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveCheck {
    pub interval: Duration,
    pub timeout: Duration,
    /// Empty, or begins with `/`; comes behind the path of the address.
    pub path: Box<str>,
    /// Empty, or begins with `?`.
    pub query: Box<str>,
    /// Failures in a row that make a destination unhealthy. At least 1.
    pub failures: u32,
}

/// Requests that fail on the way are counted.
#[derive(Clone, Debug, PartialEq)]
pub struct PassiveCheck {
    /// After this an unhealthy destination gets another try.
    pub reactivation: Duration,
    /// Share of failures, above 0 and at most 1, that makes a destination unhealthy.
    pub failure_rate: f64,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    pub id: Box<str>,
    pub address: Address,
    /// Where it is asked for its health, if not at its address.
    pub health: Option<Address>,
    /// What `Host` says there, if not the address.
    pub host: Option<Box<str>>,
    /// Only used while no other destination takes new clients.
    pub is_backup: bool,
    /// Keeps its clients and gets no new ones.
    pub is_draining: bool,
}

/// Where a server listens, and the path in front of every path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    pub is_tls: bool,
    /// A name or an IPv4 address in lower case, or an IPv6 address without brackets.
    pub host: Box<str>,
    pub port: u16,
    /// Empty, or begins with `/` and does not end with it.
    pub path: Box<str>,
}

impl Address {
    /// Host and port as `Host` has them: the scheme's own port is left out.
    pub fn authority(&self) -> String {
        let usual = if self.is_tls { 443 } else { 80 };
        let host: &str = &self.host;
        let host = match host.contains(':') {
            true => format!("[{host}]"),
            false => host.to_owned(),
        };
        match self.port == usual {
            true => host,
            false => format!("{host}:{}", self.port),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(formatter, "{scheme}://{}{}", self.authority(), self.path)
    }
}

/// The value of an affinity cookie: 16 hex digits in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AffinityKey([u8; 16]);

impl AffinityKey {
    /// The key of a hash, its most significant digit first.
    pub fn from_hash(hash: u64) -> AffinityKey {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 16];
        for (place, digit) in text.iter_mut().enumerate() {
            *digit = DIGITS[(hash >> (60 - 4 * place) & 0xf) as usize];
        }
        AffinityKey(text)
    }

    /// As it stands in the cookie.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_all_its_zeros() {
        assert_eq!(AffinityKey::from_hash(0xc48).as_str(), "0000000000000c48");
        assert_eq!(
            AffinityKey::from_hash(u64::MAX).as_str(),
            "ffffffffffffffff"
        );
    }

    #[test]
    fn an_address_leaves_out_the_usual_port() {
        let mut address = Address {
            is_tls: true,
            host: "fe80::1".into(),
            port: 443,
            path: "/a".into(),
        };
        assert_eq!(address.to_string(), "https://[fe80::1]/a");
        address.is_tls = false;
        assert_eq!(address.authority(), "[fe80::1]:443");
    }
}
