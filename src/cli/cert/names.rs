//! The names that a relay's certificate is for, and those that a site's CA may sign for.
//!
//! Besides the names that the operator gives there are those of the service itself: SDKs fetch
//! their token from IBM's IAM host whatever else they are told, and the relay answers in its place.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One name in a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// In lower case; the first label may be `*`.
    Host(String),
    Address(IpAddr),
}

/// What a site's CA may sign for, besides the names of its first certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Site {
    /// In lower case; all names below it, too.
    Domain(String),
    /// The first address and the length of the prefix.
    Network(IpAddr, u8),
}

/// Where SDKs fetch tokens: public and private, with and without a service URL of their own.
const IAM_HOSTS: [&str; 4] = [
    "iam.cloud.ibm.com",
    "iam.test.cloud.ibm.com",
    "private.iam.cloud.ibm.com",
    "private.iam.test.cloud.ibm.com",
];

/// All hosts of the service are below this one.
const SERVICE_DOMAIN: &str = "apprapp.cloud.ibm.com";

/// The regions in IBM's list of endpoints. A wildcard covers the public names of any region; the
/// private names are a label deeper, where it does not reach.
const REGIONS: [&str; 13] = [
    "us-south", "us-east", "eu-gb", "eu-de", "eu-es", "au-syd", "ca-tor", "ca-mon", "jp-tok",
    "jp-osa", "br-sao", "in-che", "in-mum",
];

/// Longest name in a certificate, after DNS.
const HOST_BYTES_MAX: usize = 253;

impl Name {
    /// Reads an IP address, a host name or `*.domain`.
    pub fn parse(text: &str) -> Option<Name> {
        if let Ok(address) = text.parse() {
            return Some(Name::Address(address));
        }
        let is_label = |label: &str| {
            let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            let edged = label.starts_with('-') || label.ends_with('-');
            (1..=63).contains(&label.len()) && label.bytes().all(legal) && !edged
        };
        // Clients refuse a wildcard over a single label, which could be a whole top-level domain.
        let below = text.strip_prefix("*.");
        if below.is_some_and(|domain| !domain.contains('.')) {
            return None;
        }
        let host = below.unwrap_or(text);
        // A name that ends in a number is an address that was mistyped.
        let last = host.rsplit('.').next()?;
        let numeric = last.bytes().all(|byte| byte.is_ascii_digit());
        let fits = text.len() <= HOST_BYTES_MAX && !numeric && host.split('.').all(is_label);
        fits.then(|| Name::Host(text.to_ascii_lowercase()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Host(host) => f.write_str(host),
            Name::Address(address) => address.fmt(f),
        }
    }
}

impl Site {
    /// Reads a domain or host name, `ADDRESS/LENGTH`, or an address.
    pub fn parse(text: &str) -> Option<Site> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length.parse::<u8>().ok()?)),
            None => (text, None),
        };
        match (Name::parse(address)?, length) {
            (Name::Host(host), None) => Some(Site::Domain(below_wildcard(&host).to_owned())),
            (Name::Host(_), Some(_)) => None,
            (Name::Address(address), length) => {
                let bits = address_bits(address);
                let length = length.unwrap_or(bits);
                // Whatever is in it would be a CA for the whole internet.
                (1..=bits)
                    .contains(&length)
                    .then_some(Site::Network(address, length))
            }
        }
    }
}

fn address_bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn below_wildcard(host: &str) -> &str {
    host.strip_prefix("*.").unwrap_or(host)
}

/// The names of every certificate: this machine to itself, and the service.
pub fn always() -> Vec<Name> {
    let host = |host: &str| Name::Host(host.to_owned());
    let mut names = vec![
        host("localhost"),
        Name::Address(Ipv4Addr::LOCALHOST.into()),
        Name::Address(Ipv6Addr::LOCALHOST.into()),
        host(&format!("*.{SERVICE_DOMAIN}")),
    ];
    names.extend(IAM_HOSTS.map(host));
    names.extend(REGIONS.map(|region| host(&format!("private.{region}.{SERVICE_DOMAIN}"))));
    names
}

/// What the site's CA may sign for, when it is made for `names` and `sites`: hosts (each with all
/// below it) and networks (address and prefix length).
pub fn permitted(names: &[Name], sites: &[Site]) -> (Vec<String>, Vec<(IpAddr, u8)>) {
    let mut hosts: Vec<String> = Vec::new();
    let mut networks = vec![
        (Ipv4Addr::new(127, 0, 0, 0).into(), 8),
        (Ipv6Addr::LOCALHOST.into(), 128),
    ];
    let below = |host: &str, domain: &str| {
        let rest = host.strip_suffix(domain);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let services = IAM_HOSTS
        .into_iter()
        .chain([SERVICE_DOMAIN])
        .map(str::to_owned);
    let named = names.iter().filter_map(|name| match name {
        Name::Host(host) => Some(below_wildcard(host).to_owned()),
        Name::Address(_) => None,
    });
    let domains = sites.iter().filter_map(|site| match site {
        Site::Domain(domain) => Some(domain.clone()),
        Site::Network(..) => None,
    });
    for host in services.chain(domains).chain(named) {
        if !hosts.iter().any(|domain| below(&host, domain)) {
            hosts.push(host);
        }
    }
    for name in names {
        if let Name::Address(address) = name
            && !address.is_loopback()
        {
            networks.push((*address, address_bits(*address)));
        }
    }
    for site in sites {
        if let Site::Network(address, length) = site {
            networks.push((*address, *length));
        }
    }
    (hosts, networks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_hosts_wildcards_or_addresses() {
        for yes in [
            "gw",
            "GW-3.plant.local",
            "*.plant.local",
            "10.0.0.7",
            "fe80::1",
        ] {
            assert_eq!(
                Name::parse(yes).unwrap().to_string(),
                yes.to_ascii_lowercase()
            );
        }
        for no in [
            "",
            "*",
            "a b",
            "http://gw",
            "gw:7070",
            "gw.",
            "-gw",
            "10.0.0.300",
            "a.*.b",
        ] {
            assert!(Name::parse(no).is_none(), "{no}");
        }
    }

    #[test]
    fn permitted_hosts_cover_all_names_once() {
        let mut names = always();
        names.push(Name::parse("*.plant.local").unwrap());
        names.push(Name::parse("10.0.0.7").unwrap());
        let sites = ["plant.local", "10.20.0.0/16"].map(|site| Site::parse(site).unwrap());
        let (hosts, networks) = permitted(&names, &sites);
        assert!(hosts.contains(&"plant.local".to_owned()));
        assert!(hosts.contains(&SERVICE_DOMAIN.to_owned()));
        // The private names are below the public ones.
        assert_eq!(hosts.len(), 5, "{hosts:?}");
        assert_eq!(networks.len(), 4);
    }

    #[test]
    fn sites_are_domains_or_networks() {
        for (text, site) in [
            ("Plant.local", Site::Domain("plant.local".into())),
            ("*.plant.local", Site::Domain("plant.local".into())),
            ("gw2", Site::Domain("gw2".into())),
            ("10.20.0.0/16", Site::Network([10, 20, 0, 0].into(), 16)),
            ("10.20.0.7", Site::Network([10, 20, 0, 7].into(), 32)),
        ] {
            assert_eq!(Site::parse(text), Some(site), "{text}");
        }
        for no in [
            "",
            "plant.local/8",
            "10.0.0.0/33",
            "0.0.0.0/0",
            "10.0.0.0/",
            "/8",
        ] {
            assert_eq!(Site::parse(no), None, "{no}");
        }
    }
}
