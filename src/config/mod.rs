//! The configuration file → [`Config`], valid by construction.
//!
//! Owns the names, types, defaults and bounds of every key, and finds all mistakes at once: an
//! operator on a gateway fixes a file in one go or not at all. What loads may still raise warnings,
//! which the relay logs and `staffetta check` prints.
//!
//! Never reads a file, the environment or the clock: what a configuration depends on besides its
//! text comes in as [`Environment`]. Whether a named file exists is found out when it is read,
//! since a relay serves what it can.
//!
//! Read in this order: the types here, `parse` (the keys one by one), `section` (how mistakes are
//! collected), `error` (how they are said).

mod clients;
mod endpoint;
mod error;
mod nearest;
mod parse;
mod pattern;
mod proxy;
mod region;
mod relaxed;
mod reverse;
mod secret;
mod section;
#[cfg(test)]
mod tests;
pub mod timespan;
mod tree;
mod upstream;
mod values;

pub use endpoint::{Endpoint, Host, Scheme};
pub use error::{Concern, ConfigError, ConfigWarning, Problem, ReverseConcern, ReverseProblem};
pub use nearest::nearest;
pub use pattern::SlotPattern;
pub use proxy::Proxy;
pub use region::{PEERS, RecordTrust, Region};
pub use secret::{Secret, SecretSource};
pub use upstream::{Events, UpstreamConfig, Upstreams};

use crate::limits::{Limits, MemoryLoad};
use crate::model::proxy::ReverseProxy;
use crate::model::{Id, SlotKey};
use crate::time::Duration;
use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Begins the path of a file that systemd hands over; it stays in the path where nobody says which
/// folder that is.
pub const CREDENTIALS: &str = "${CREDENTIALS_DIRECTORY}";

/// What the operator wants.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where SDKs connect. Not empty; sockets inherited from systemd win over it.
    pub listen: Vec<Listen>,
    /// `None` = plain HTTP only.
    pub tls: Option<Tls>,
    pub admin: Admin,
    pub state_dir: Option<PathBuf>,
    pub seed: Option<SeedFile>,
    pub start: Start,
    /// How long a normal start may take, from the beginning of the process.
    pub start_timeout: Duration,
    pub instance: Instance,
    /// May be empty, which is warned about.
    pub client_keys: Vec<ClientKey>,
    /// In the order of the file, without repeats. Empty only where there is a reverse proxy.
    pub slots: Vec<SlotKey>,
    /// Those of `slots` that are pushed to. Where there are any, there is a `state_dir`.
    pub operator_slots: BTreeSet<SlotKey>,
    /// `None` = an isolated site.
    pub upstream: Option<Upstreams>,
    pub events: Events,
    pub limits: ConfiguredLimits,
    pub log: Log,
    pub connect: Connect,
    /// `None` = other paths are answered 404.
    pub reverse_proxy: Option<ReverseProxy>,
    /// `None` = every write is for this relay. Where there is one, there is a `state_dir`.
    pub region: Option<Region>,
    /// What loads and may not be meant.
    pub warnings: Vec<ConfigWarning>,
}

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Listen {
    /// Whether only this machine can connect.
    pub fn is_local(&self) -> bool {
        match self {
            Listen::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Listen::Unix(_) => true,
        }
    }
}

impl fmt::Display for Listen {
    /// As the config writes it, and as `--admin` takes it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => address.fmt(formatter),
            Listen::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

/// The certificate chain and its key, as PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// Where and how the relay is looked after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// `None` = the default rule, see [`Admin::addresses`].
    pub listen: Option<Vec<Listen>>,
    /// What commands over TCP need; without it they are refused there.
    pub token: Option<SecretSource>,
}

impl Admin {
    /// The configured addresses; by default the socket in the unit's runtime directory, so that
    /// file modes guard it, or else a port that only this machine reaches.
    pub fn addresses(&self, environment: &Environment) -> Vec<Listen> {
        match (&self.listen, environment.admin_socket()) {
            (Some(listen), _) => listen.clone(),
            (None, Some(socket)) => vec![socket],
            (None, None) => vec![Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 7071)))],
        }
    }
}

/// The seed that the relay serves and watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedFile {
    pub file: PathBuf,
}

/// Where the first data comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Fast when a seed is configured, else normal.
    Auto,
    /// From the upstream, before listening.
    Normal,
    /// From what is on disk, listening at once.
    Fast,
}

/// Whose place the relay takes: the service instance in the paths and the region in the host names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    pub guid: Id,
    pub region: Option<Id>,
}

/// One credential that SDKs use, and what it opens.
#[derive(Clone, Debug)]
pub struct ClientKey {
    /// Names the key in logs, metrics and tokens. Unique.
    pub id: Id,
    pub secret: SecretSource,
    /// Empty = all slots.
    pub slots: Vec<SlotPattern>,
}

impl ClientKey {
    /// Whether the key may use `slot`.
    pub fn allows(&self, slot: &SlotKey) -> bool {
        self.slots.is_empty() || self.slots.iter().any(|pattern| pattern.matches(slot))
    }
}

/// The bounds that an operator sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfiguredLimits {
    /// SDK connections at once.
    pub connections: usize,
    /// What `staffetta check` compares the memory sum with.
    pub memory_bytes: usize,
}

/// What the relay writes to standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    pub format: LogFormat,
    pub level: LogLevel,
}

/// The shape of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Journal prefixes under systemd, plain elsewhere.
    Auto,
    Plain,
    Json,
    Journal,
}

/// The least urgent lines that are written, in order of urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
}

/// Which tunnels the relay plays the far end of, besides the generated names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connect {
    /// Host names in lower case, without port.
    pub allow: Vec<String>,
}

/// What a configuration depends on besides its text.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The configuration file's own folder: relative paths start there.
    pub config_directory: PathBuf,
    /// systemd's `CREDENTIALS_DIRECTORY`.
    pub credentials_directory: Option<PathBuf>,
    /// systemd's `RUNTIME_DIRECTORY`.
    pub runtime_directory: Option<PathBuf>,
    /// `HTTPS_PROXY`, or `https_proxy`.
    pub https_proxy: Option<String>,
    /// `NO_PROXY`, or `no_proxy`.
    pub no_proxy: Option<String>,
}

impl Environment {
    /// Makes sense of what the process was given: the path of the configuration file and the values
    /// of the two variables. systemd puts colons between several directories; the first is ours.
    pub fn new(
        config_file: &Path,
        credentials_directory: Option<PathBuf>,
        runtime_directory: Option<&str>,
    ) -> Environment {
        let first = runtime_directory.and_then(|list| list.split(':').next());
        Environment {
            config_directory: config_file.parent().unwrap_or(Path::new("")).to_owned(),
            credentials_directory: credentials_directory
                .filter(|path| !path.as_os_str().is_empty()),
            runtime_directory: first.filter(|path| !path.is_empty()).map(PathBuf::from),
            https_proxy: None,
            no_proxy: None,
        }
    }

    /// The admin socket of the unit, if systemd runs us in one.
    pub fn admin_socket(&self) -> Option<Listen> {
        let directory = self.runtime_directory.as_ref();
        directory.map(|directory| Listen::Unix(directory.join("admin.sock")))
    }

    /// With the proxy that the variables name; an empty one is none.
    pub fn with_proxy(self, https_proxy: Option<String>, no_proxy: Option<String>) -> Environment {
        let given = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        Environment {
            https_proxy: given(https_proxy),
            no_proxy: given(no_proxy),
            ..self
        }
    }
}

impl Config {
    /// Reads the text of a configuration file.
    ///
    /// The error lists every mistake, in the order of the keys. Bounded by
    /// `Limits::config_bytes_max`.
    pub fn parse(
        text: &[u8],
        environment: &Environment,
        limits: &Limits,
    ) -> Result<Config, Vec<ConfigError>> {
        parse::parse(text, environment, limits)
    }

    /// What this asks of the machine, but for documents, of which a configuration says nothing.
    pub fn load(&self) -> MemoryLoad {
        let upstreams = |upstreams: &Upstreams| 1 + usize::from(upstreams.backup.is_some());
        let proxy = self.reverse_proxy.as_ref();
        MemoryLoad {
            connections: self.limits.connections,
            is_tls: self.tls.is_some(),
            is_pushed_to: !self.operator_slots.is_empty(),
            is_routed: self.region.is_some(),
            slots: self.slots.len(),
            upstreams: self.upstream.as_ref().map_or(0, upstreams),
            replicas: match self.region {
                Some(_) => self.operator_slots.len(),
                None => 0,
            },
            forwards: proxy.is_some(),
            forwards_tls: proxy.is_some_and(speaks_tls),
            ..MemoryLoad::default()
        }
    }

    /// Whether the first data is fetched before anybody is served.
    pub fn is_normal_start(&self) -> bool {
        match self.start {
            Start::Auto => self.upstream.is_some() && self.seed.is_none(),
            Start::Normal => true,
            Start::Fast => false,
        }
    }

    /// The changed keys that `new` needs a restart for; a reload applies everything else.
    pub fn needs_restart(&self, new: &Config) -> Vec<&'static str> {
        let same_upstream = match (&self.upstream, &new.upstream) {
            (Some(old), Some(new)) => old.is_same_but_keys(new),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let node = |config: &Config| config.region.as_ref().map(|region| region.node.clone());
        let routed = |config: &Config| {
            let proxy = config.reverse_proxy.iter();
            let slots = proxy.flat_map(ReverseProxy::region_slots);
            slots.cloned().collect::<Vec<Id>>()
        };
        let same_slots = self.slots == new.slots && self.operator_slots == new.operator_slots;
        let changes = [
            ("listen", self.listen != new.listen),
            ("admin.listen", self.admin.listen != new.admin.listen),
            ("state_dir", self.state_dir != new.state_dir),
            ("instance", self.instance != new.instance),
            ("slots", !same_slots),
            ("upstream", !same_upstream),
            ("events", self.events != new.events),
            ("limits", self.limits != new.limits),
            ("log.format", self.log.format != new.log.format),
            ("region.node", node(self) != node(new)),
            ("RegionSlot of a route", routed(self) != routed(new)),
        ];
        let changed = changes.into_iter().filter(|(_, changed)| *changed);
        changed.map(|(key, _)| key).collect()
    }

    /// Takes what needs a restart from the configuration of the running relay, in whose place this
    /// one comes: the next reload is compared with what is in force, not with what was asked for.
    pub fn keep_running(&mut self, running: &Config) {
        self.listen.clone_from(&running.listen);
        self.admin.listen.clone_from(&running.admin.listen);
        self.state_dir.clone_from(&running.state_dir);
        self.instance.clone_from(&running.instance);
        self.slots.clone_from(&running.slots);
        self.operator_slots.clone_from(&running.operator_slots);
        self.upstream.clone_from(&running.upstream);
        self.events.clone_from(&running.events);
        self.limits.clone_from(&running.limits);
        self.log.format = running.log.format;
        match (&mut self.region, &running.region) {
            (Some(region), Some(running)) => region.node.clone_from(&running.node),
            (region, running) => region.clone_from(running),
        }
    }
}

fn speaks_tls(proxy: &ReverseProxy) -> bool {
    let clusters = proxy.clusters.iter();
    let mut destinations = clusters.flat_map(|cluster| &cluster.destinations);
    destinations.any(|destination| destination.address.is_tls)
}
