//! One entry of `Clusters`, and its destinations.
//!
//! Owns the keys of a cluster but those of affinity and health. The relay speaks HTTP/1.1 to every
//! destination, so a version is taken where that is within what YARP would do, and refused where
//! it is not.
//!
//! A destination's `Metadata` has two entries of ours: `Backup` and `Draining`.

use super::{NotDone, metadata, part, refuse, scalar, value};
use crate::config::endpoint::{Endpoint, Host, Scheme};
use crate::config::error::{Problem, ReverseConcern, ReverseProblem};
use crate::config::parse::Reader;
use crate::config::section::{Mistakes, Place, Section};
use crate::model::proxy::{Address, Balance, Cluster, Destination};

const CLUSTER_NOT_DONE: [NotDone; 1] = [("Extensions", "", "it is for code; remove it")];

const CLIENT_NOT_DONE: [NotDone; 7] = [
    ("SslProtocols", "", "TLS 1.2 and 1.3 are offered; remove it"),
    (
        "DangerousAcceptAnyServerCertificate",
        "false",
        "trust the destination's own authority in place of any",
    ),
    (
        "MaxConnectionsPerServer",
        "",
        "the relay has its own bounds; remove it",
    ),
    (
        "EnableMultipleHttp2Connections",
        "false",
        "destinations are asked by HTTP/1.1; remove it",
    ),
    (
        "RequestHeaderEncoding",
        "",
        "header fields go on as they are; remove it",
    ),
    (
        "ResponseHeaderEncoding",
        "",
        "header fields go on as they are; remove it",
    ),
    (
        "WebProxy",
        "",
        "destinations are connected to directly; remove it",
    ),
];

const BALANCES: &[&str] = &[
    "PowerOfTwoChoices",
    "Random",
    "RoundRobin",
    "LeastRequests",
    "FirstAlphabetical",
];

impl Reader<'_> {
    /// A cluster, and its path for what is compared between clusters.
    pub fn cluster(
        &mut self,
        id: &str,
        place: Place<'_>,
        has_tls: bool,
    ) -> Option<(String, Cluster)> {
        let path = place.path.clone();
        let mut section = place.section_of_any_case(&mut self.mistakes)?;
        let mistakes = &mut self.mistakes;
        let balance = value(&mut section, "LoadBalancingPolicy").and_then(|place| {
            let values = [
                Balance::PowerOfTwoChoices,
                Balance::Random,
                Balance::RoundRobin,
                Balance::LeastRequests,
                Balance::FirstAlphabetical,
            ];
            scalar::choice(&place, mistakes, BALANCES, &values)
        });
        refuse(&mut section, &CLUSTER_NOT_DONE, mistakes);
        if let Some(mut client) = part(&mut section, "HttpClient", mistakes) {
            refuse(&mut client, &CLIENT_NOT_DONE, mistakes);
            client.finish(mistakes);
        }
        let affinity = part(&mut section, "SessionAffinity", mistakes);
        let affinity = affinity.and_then(|section| self.affinity(section, has_tls));
        let health = self.health(&mut section);
        let activity_timeout = self.request_options(&mut section);
        let destinations = section.take("Destinations");
        let destinations = self.destinations(&path, destinations);
        section.finish(&mut self.mistakes);
        let cluster = Cluster {
            id: id.into(),
            balance: balance.unwrap_or_default(),
            affinity,
            health,
            activity_timeout: activity_timeout.unwrap_or(self.limits.activity_timeout),
            destinations,
        };
        Some((path, cluster))
    }

    /// `HttpRequest`, of which the relay keeps the time-out.
    fn request_options(&mut self, section: &mut Section<'_>) -> Option<crate::time::Duration> {
        let mistakes = &mut self.mistakes;
        let mut section = part(section, "HttpRequest", mistakes)?;
        let timeout = value(&mut section, "ActivityTimeout");
        let timeout = timeout.and_then(|place| scalar::duration(&place, mistakes));
        version(&mut section, mistakes);
        // To allow buffering is no wish for it.
        if let Some(place) = section.take("AllowResponseBuffering") {
            scalar::flag(&place, mistakes);
        }
        section.finish(mistakes);
        timeout
    }

    fn destinations(&mut self, cluster: &str, place: Option<Place<'_>>) -> Vec<Destination> {
        let mut found = Vec::new();
        let entries = self.named(place, self.limits.destinations_max);
        if entries.is_empty() {
            self.mistakes
                .warning(cluster, ReverseConcern::NoDestination.into());
        }
        for (id, place) in entries {
            found.extend(self.destination(id, place));
        }
        found
    }

    fn destination(&mut self, id: &str, place: Place<'_>) -> Option<Destination> {
        let max = self.limits.proxy_entries_max;
        let mistakes = &mut self.mistakes;
        let mut section = place.section_of_any_case(mistakes)?;
        let path = section.path_of("Address");
        let address = value(&mut section, "Address");
        if address.is_none() {
            mistakes.error(&path, Problem::Missing);
        }
        let address = address.and_then(|place| scalar::read(&place, mistakes, address_of));
        let health = value(&mut section, "Health");
        let health = health.map(|place| scalar::read(&place, mistakes, address_of));
        let host = value(&mut section, "Host");
        let host = host.map(|place| scalar::read(&place, mistakes, host_field));
        let (mut is_backup, mut is_draining) = (false, false);
        for (key, place) in metadata(&mut section, &["Backup", "Draining"], max, mistakes) {
            let flag = scalar::flag(&place, mistakes).unwrap_or(false);
            match key {
                "Backup" => is_backup = flag,
                _ => is_draining = flag,
            }
        }
        section.finish(mistakes);
        Some(Destination {
            id: id.into(),
            address: address?,
            health: health.map_or(Some(None), |read| read.map(Some))?,
            host: host.map_or(Some(None), |read| read.map(Some))?,
            is_backup,
            is_draining,
        })
    }
}

/// Whether HTTP/1.1 is within what the two keys allow; YARP's default is 2 or lower.
fn version(section: &mut Section<'_>, mistakes: &mut Mistakes) {
    const POLICIES: &[&str] = &[
        "RequestVersionOrLower",
        "RequestVersionOrHigher",
        "RequestVersionExact",
    ];
    let place = value(section, "VersionPolicy");
    let policy = place.as_ref().and_then(|place| {
        let found = scalar::choice(place, mistakes, POLICIES, &[0, 1, 2])?;
        Some((found, place.path.clone()))
    });
    let place = value(section, "Version");
    let number = place
        .as_ref()
        .and_then(|place| scalar::text(place, mistakes));
    let (policy, path) = policy.unwrap_or((0, String::new()));
    let is_fine = match number.as_deref() {
        Some("1.1") => true,
        Some("1.0" | "1") => policy == 1,
        Some("2" | "2.0" | "3" | "3.0") | None => policy == 0,
        Some(_) => false,
    };
    if !is_fine {
        let instead = "destinations are asked by HTTP/1.1; remove it, or allow that";
        let path = place.map_or(path, |place| place.path);
        mistakes.error(&path, ReverseProblem::NotDone { instead }.into());
    }
}

fn address_of(text: &str) -> Result<Address, Problem> {
    let endpoint = Endpoint::parse(text)?;
    Ok(Address {
        is_tls: endpoint.scheme == Scheme::Https,
        host: match &endpoint.host {
            Host::Name(name) => name.as_str().into(),
            Host::Address(address) => address.to_string().into(),
        },
        port: endpoint.port,
        path: endpoint.prefix.into(),
    })
}

/// What the destination is to see as `Host`.
fn host_field(text: &str) -> Result<Box<str>, Problem> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte);
    match !text.is_empty() && text.bytes().all(legal) {
        true => Ok(text.into()),
        false => {
            let reason = "write a name or address, with a port where needed";
            Err(ReverseProblem::NotAHost { reason }.into())
        }
    }
}
