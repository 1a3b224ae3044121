//! The keys about where data comes from and goes to: `upstream` and `events`.
//!
//! Part of `parse`, with the same rule: note the mistake and go on. Nothing is connected to or
//! resolved here, and no key is read: whether an upstream works is found out by asking it.

use super::SecretSource;
use super::endpoint::Endpoint;
use super::error::{Concern, Problem};
use super::parse::Reader;
use super::proxy::Proxy;
use super::section::{Place, Section};
use super::values::id;
use crate::model::{Id, Role};
use crate::time::Duration;
use std::path::PathBuf;

/// Whom the relay gets its documents from.
#[derive(Clone, Debug)]
pub struct Upstreams {
    pub primary: UpstreamConfig,
    /// Another place than the primary.
    pub backup: Option<UpstreamConfig>,
    /// How often the primary is tried while the backup serves.
    pub retry_primary: Duration,
}

/// One upstream: the service, or another relay.
#[derive(Clone, Debug)]
pub struct UpstreamConfig {
    pub url: Endpoint,
    /// The instance that is asked for there.
    pub guid: Id,
    pub api_key: SecretSource,
    /// Where the key is changed for a token; `None` = by the rule for `url`.
    pub iam_url: Option<Endpoint>,
    /// Roots to trust in place of the system's, PEM.
    pub ca_file: Option<PathBuf>,
    pub proxy: Option<Proxy>,
}

/// What becomes of usage and analytics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Events {
    /// Most that waits on disk for delivery.
    pub spool_bytes: usize,
}

impl Upstreams {
    /// The configuration of one of the two.
    pub fn of(&self, role: Role) -> Option<&UpstreamConfig> {
        match role {
            Role::Primary => Some(&self.primary),
            Role::Backup => self.backup.as_ref(),
        }
    }

    /// Whether `other` differs in nothing but keys, which a reload reads again.
    pub fn is_same_but_keys(&self, other: &Upstreams) -> bool {
        let same = |role| match (self.of(role), other.of(role)) {
            (Some(one), Some(other)) => one.is_same_but_key(other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        self.retry_primary == other.retry_primary && Role::ALL.into_iter().all(same)
    }
}

impl UpstreamConfig {
    /// The proxy by which `target`, which this upstream has to do with, is reached.
    pub fn proxy_to(&self, target: &Endpoint) -> Option<&Endpoint> {
        let proxy = self.proxy.as_ref()?;
        proxy.leads_to(target).then_some(&proxy.endpoint)
    }

    /// Whether `other` is the same upstream, reached in the same way, whatever its key.
    pub fn is_same_but_key(&self, other: &UpstreamConfig) -> bool {
        self.url == other.url
            && self.guid == other.guid
            && self.iam_url == other.iam_url
            && self.ca_file == other.ca_file
            && self.proxy == other.proxy
    }
}

impl Reader<'_> {
    /// The two upstreams; `guid` is the relay's own instance, if that could be read.
    pub fn upstreams(&mut self, place: Place<'_>, guid: Option<&Id>) -> Option<Upstreams> {
        let mut section = place.section(&mut self.mistakes)?;
        let (first, second) = (section.path_of("primary"), section.path_of("backup"));
        let primary = section.require("primary", &mut self.mistakes);
        let primary = primary.and_then(|place| self.upstream(place, guid));
        let backup = section.take("backup");
        let backup = backup.map(|place| self.upstream(place, guid));
        let bounds = (
            self.limits.retry_primary_min,
            self.limits.retry_primary_max,
            self.limits.retry_primary_default,
        );
        let retry_primary = self.seconds(&mut section, "retry_primary_s", bounds);
        section.finish(&mut self.mistakes);
        if let (Some(primary), Some(Some(backup))) = (&primary, &backup)
            && (&primary.url, &primary.guid) == (&backup.url, &backup.guid)
        {
            self.mistakes
                .error(&second, Problem::SameAs { path: first });
        }
        Some(Upstreams {
            primary: primary?,
            backup: match backup {
                Some(backup) => Some(backup?),
                None => None,
            },
            retry_primary,
        })
    }

    fn upstream(&mut self, place: Place<'_>, guid: Option<&Id>) -> Option<UpstreamConfig> {
        let mut section = place.section(&mut self.mistakes)?;
        let url = section.require("url", &mut self.mistakes);
        let url = url.and_then(|place| self.endpoint(&place));
        let own = section.take("guid");
        let guid = match own {
            Some(place) => place.read(&mut self.mistakes, id),
            None => guid.cloned(),
        };
        let api_key = self.secret(&mut section, "api_key", "api_key_file", true);
        let iam_url = section.take("iam_url");
        let iam_url = iam_url.map(|place| self.endpoint(&place));
        let ca_file = section.take("ca_file");
        let ca_file = ca_file.map(|place| self.file(&place));
        let proxy = self.proxy(&mut section, url.as_ref());
        section.finish(&mut self.mistakes);
        Some(UpstreamConfig {
            url: url?,
            guid: guid?,
            api_key: api_key?,
            iam_url: iam_url.map_or(Some(None), |read| read.map(Some))?,
            ca_file: ca_file.map_or(Some(None), |read| read.map(Some))?,
            proxy,
        })
    }

    fn endpoint(&mut self, place: &Place<'_>) -> Option<Endpoint> {
        let endpoint = place.read(&mut self.mistakes, Endpoint::parse)?;
        if endpoint.is_open() {
            self.mistakes.warning(&place.path, Concern::KeyInTheOpen);
        }
        Some(endpoint)
    }

    fn proxy(&mut self, section: &mut Section<'_>, url: Option<&Endpoint>) -> Option<Proxy> {
        if let Some(place) = section.take("proxy") {
            return place.read(&mut self.mistakes, Proxy::configured);
        }
        let environment = self.environment;
        let https_proxy = environment.https_proxy.as_deref()?;
        let proxy = Proxy::from_variables(https_proxy, environment.no_proxy.as_deref());
        match proxy {
            Ok(proxy) => Some(proxy),
            // Whoever sets the variable means it, and only `NO_PROXY` could tell otherwise.
            Err(_) => {
                let problem = Problem::BadProxyVariable;
                if url.is_some() {
                    self.mistakes.error(&section.path_of("proxy"), problem);
                }
                None
            }
        }
    }

    /// What is kept for delivery.
    pub fn events(&mut self, place: Option<Place<'_>>, has_upstream: bool) -> Events {
        let spool_bytes = self.limits.spool_bytes_default;
        let mut events = Events { spool_bytes };
        let Some(place) = place else { return events };
        if !has_upstream {
            self.mistakes
                .warning(&place.path, Concern::NobodyToReportTo);
        }
        let Some(mut section) = place.section(&mut self.mistakes) else {
            return events;
        };
        if let Some(place) = section.take("spool_bytes") {
            let (from, to) = (self.limits.spool_bytes_min, self.limits.spool_bytes_ceiling);
            let size = self.size(&place, from, to);
            events.spool_bytes = size.unwrap_or(spool_bytes);
        }
        section.finish(&mut self.mistakes);
        events
    }

    /// Whole seconds from the first to the second bound; without the key the third.
    pub fn seconds(
        &mut self,
        section: &mut Section<'_>,
        key: &'static str,
        (from, to, default): (Duration, Duration, Duration),
    ) -> Duration {
        let whole = |duration: Duration| usize::try_from(duration.as_secs()).unwrap_or(usize::MAX);
        let Some(place) = section.take(key) else {
            return default;
        };
        let seconds = place.number(&mut self.mistakes, whole(from), whole(to));
        seconds.map_or(default, |seconds| Duration::from_secs(seconds as u64))
    }
}

#[cfg(test)]
mod tests;
