//! The keys of the configuration, one by one: names, defaults, bounds.
//!
//! A function a section. Each notes its mistakes and goes on, so that all are found; only at the
//! end is there a `Config` or a list. The table of keys in the README says the same to users.

use super::error::{Concern, ConfigError, Problem};
use super::section::{Mistakes, Place, Section, in_range};
use super::tree::{self, Node};
use super::values::{address, bytes, host_name, id, plain_path};
use super::*;
use std::net::{Ipv6Addr, SocketAddr};

const PORT_DEFAULT: u16 = 7070;

/// Reads a whole file; `Config::parse` says the rest.
pub fn parse(
    text: &[u8],
    environment: &Environment,
    limits: &Limits,
) -> Result<Config, Vec<ConfigError>> {
    let mut reader = Reader {
        environment,
        limits,
        mistakes: Mistakes::default(),
    };
    let node = read_text(text, limits, &mut reader.mistakes);
    match node.and_then(|node| reader.config(&node)) {
        Some(mut config) if reader.mistakes.errors.is_empty() => {
            config.warnings = reader.mistakes.warnings;
            Ok(config)
        }
        _ => Err(reader.mistakes.errors),
    }
}

fn read_text(text: &[u8], limits: &Limits, mistakes: &mut Mistakes) -> Option<Node> {
    let bytes_max = limits.config_bytes_max;
    if text.len() > bytes_max {
        mistakes.error("$", Problem::TooLarge { bytes_max });
        return None;
    }
    let reason = |error: serde_json::Error| Problem::Syntax {
        reason: error.to_string(),
    };
    mistakes.keep("$", tree::parse(text).map_err(reason))
}

const LOG_DEFAULT: Log = Log {
    format: LogFormat::Auto,
    level: LogLevel::Info,
};

fn listen_default() -> Listen {
    Listen::Tcp(SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT_DEFAULT)))
}

/// What the sections need while they are read.
pub struct Reader<'e> {
    pub environment: &'e Environment,
    pub limits: &'e Limits,
    pub mistakes: Mistakes,
}

impl Reader<'_> {
    /// `None` = at least one mistake was noted.
    fn config(&mut self, node: &Node) -> Option<Config> {
        let path = "$".to_owned();
        let mut root = Place { path, node }.section(&mut self.mistakes)?;
        let listen = root.take("listen").map(|place| self.listen(place));
        let tls = root.take("tls").and_then(|place| self.tls(place));
        let admin = root.take("admin").and_then(|place| self.admin(place));
        let state_dir = root.take("state_dir");
        let keeps = state_dir.is_some();
        let state_dir = state_dir.and_then(|place| self.path(&place));
        let seed = root.take("seed").map(|place| self.seed(place));
        let upstream = root.take("upstream");
        let has_upstream = upstream.is_some();
        let start = root.take("start");
        let start = start.and_then(|place| self.start(&place, has_upstream));
        let start_timeout = self.start_timeout(&mut root);
        let instance = root
            .require("instance", &mut self.mistakes)
            .and_then(|place| self.instance(place));
        let region = root.take("region");
        let reverse_proxy = root.take_of_any_case("ReverseProxy");
        let has = (tls.is_some(), region.is_some());
        let reverse_proxy = reverse_proxy.map(|place| self.reverse_proxy(place, has));
        let may_be_none = reverse_proxy.is_some();
        let (slots, operator_slots) = self.slots(&mut root, may_be_none, keeps);
        let guid = instance.as_ref().map(|instance| &instance.guid);
        let upstream = upstream.map(|place| self.upstreams(place, guid));
        let events = root.take("events");
        // Without an upstream, reports are for the writers of other regions.
        let events = self.events(events, has_upstream || region.is_some());
        let routes = reverse_proxy.iter().flatten();
        let mut routes = routes.flat_map(|proxy| &proxy.routes);
        let is_routed =
            !operator_slots.is_empty() || routes.any(|route| route.region_slot.is_some());
        let region = region.and_then(|place| self.region(place, keeps, is_routed));
        let client_keys = self.client_keys(&mut root, &slots);
        let configured = root
            .take("limits")
            .map(|place| self.configured_limits(place));
        let log = root.take("log").and_then(|place| self.log(place));
        let connect = root.take("connect").and_then(|place| self.connect(place));
        root.finish(&mut self.mistakes);
        self.same_addresses(listen.as_deref(), admin.as_ref());
        let fills_itself = slots.len() == operator_slots.len();
        let sources = (seed.is_some() || fills_itself, has_upstream);
        self.note_absences(sources, state_dir.is_some(), tls.is_some());
        Some(Config {
            listen: listen.unwrap_or_else(|| vec![listen_default()]),
            tls,
            admin: admin.unwrap_or(Admin {
                listen: None,
                token: None,
            }),
            state_dir,
            seed: seed.flatten(),
            start: start.unwrap_or(Start::Auto),
            start_timeout,
            instance: instance?,
            client_keys,
            slots,
            operator_slots,
            upstream: upstream.flatten(),
            events,
            limits: configured.unwrap_or(self.limits_default()),
            log: log.unwrap_or(LOG_DEFAULT),
            connect: connect.unwrap_or_default(),
            reverse_proxy: reverse_proxy.flatten(),
            region,
            warnings: Vec::new(),
        })
    }

    /// What may not be meant to be absent. `sources`: whether slots are filled from here, and from
    /// an upstream.
    fn note_absences(&mut self, sources: (bool, bool), keeps: bool, has_tls: bool) {
        match sources {
            (false, false) => self.mistakes.warning("$.seed", Concern::NoSource),
            (_, true) if !keeps => {
                self.mistakes.warning("$.state_dir", Concern::NothingKept);
            }
            (_, _) => {}
        }
        if !has_tls {
            self.mistakes.warning("$.tls", Concern::NoTls);
        }
    }

    fn listen(&mut self, place: Place<'_>) -> Vec<Listen> {
        let whole = place.path.clone();
        let places = place.one_or_list(&mut self.mistakes, self.limits.listeners_max);
        let mut found: Vec<(String, Listen)> = Vec::new();
        for place in places.iter().flatten() {
            let environment = self.environment;
            let listen = place.read(&mut self.mistakes, |text| address(text, environment));
            let Some(listen) = listen else { continue };
            // Port 0 asks for any free port, so two of them are two ports.
            let any_port = matches!(&listen, Listen::Tcp(address) if address.port() == 0);
            match found.iter().find(|(_, seen)| *seen == listen && !any_port) {
                Some((path, _)) => {
                    let path = path.clone();
                    self.mistakes.error(&place.path, Problem::SameAs { path });
                }
                None => found.push((place.path.clone(), listen)),
            }
        }
        if places.is_some_and(|places| places.is_empty()) {
            let instead = "name at least one address, or leave the key out";
            self.mistakes.error(&whole, Problem::Empty { instead });
        }
        found.into_iter().map(|(_, listen)| listen).collect()
    }

    fn tls(&mut self, place: Place<'_>) -> Option<Tls> {
        let mut section = place.section(&mut self.mistakes)?;
        let cert = section.require("cert", &mut self.mistakes);
        let key = section.require("key", &mut self.mistakes);
        section.finish(&mut self.mistakes);
        let cert = cert.and_then(|place| self.file(&place));
        let key = key.and_then(|place| self.file(&place));
        Some(Tls {
            cert: cert?,
            key: key?,
        })
    }

    fn admin(&mut self, place: Place<'_>) -> Option<Admin> {
        let mut section = place.section(&mut self.mistakes)?;
        let listen_path = section.path_of("listen");
        let listen = section.take("listen").map(|place| self.listen(place));
        let token = self.secret(&mut section, "token", "token_file", false);
        section.finish(&mut self.mistakes);
        let remote = listen.iter().flatten().any(|listen| !listen.is_local());
        if remote && token.is_none() {
            let concern = Concern::AdminWithoutToken;
            self.mistakes.warning(&listen_path, concern);
        }
        Some(Admin { listen, token })
    }

    /// One address cannot be both.
    fn same_addresses(&mut self, listen: Option<&[Listen]>, admin: Option<&Admin>) {
        let admin = admin.and_then(|admin| admin.listen.as_deref());
        let shared = |listen: &Listen| {
            let any_port = matches!(listen, Listen::Tcp(address) if address.port() == 0);
            !any_port && admin.is_some_and(|admin| admin.contains(listen))
        };
        if listen.is_some_and(|listen| listen.iter().any(shared)) {
            let path = "$.listen".to_owned();
            let problem = Problem::SameAs { path };
            self.mistakes.error("$.admin.listen", problem);
        }
    }

    fn seed(&mut self, place: Place<'_>) -> Option<SeedFile> {
        let mut section = place.section(&mut self.mistakes)?;
        let file = section.require("file", &mut self.mistakes);
        if let Some(keys) = section.take("public_keys") {
            let list = keys.list(&mut self.mistakes, self.limits.keys_max);
            if list.is_some_and(|list| !list.is_empty()) {
                self.mistakes.error(&keys.path, Problem::NotSupportedYet);
            }
        }
        section.finish(&mut self.mistakes);
        let file = self.file(&file?)?;
        Some(SeedFile { file })
    }

    fn start(&mut self, place: &Place<'_>, has_upstream: bool) -> Option<Start> {
        const STARTS: [(&str, Start); 3] = [
            ("auto", Start::Auto),
            ("normal", Start::Normal),
            ("fast", Start::Fast),
        ];
        let start = self.choice(place, &["auto", "normal", "fast"], &STARTS)?;
        if start == Start::Normal && !has_upstream {
            let problem = Problem::NormalWithoutUpstream;
            self.mistakes.error(&place.path, problem);
        }
        Some(start)
    }

    fn start_timeout(&mut self, root: &mut Section<'_>) -> Duration {
        let bounds = (
            Duration::from_secs(1),
            self.limits.start_timeout_max,
            self.limits.start_timeout_default,
        );
        self.seconds(root, "start_timeout_s", bounds)
    }

    fn instance(&mut self, place: Place<'_>) -> Option<Instance> {
        let mut section = place.section(&mut self.mistakes)?;
        let guid = section.require("guid", &mut self.mistakes);
        let guid = guid.and_then(|place| place.read(&mut self.mistakes, id));
        let region = section.take("region");
        let region = region.and_then(|place| place.read(&mut self.mistakes, id));
        section.finish(&mut self.mistakes);
        Some(Instance {
            guid: guid?,
            region,
        })
    }

    fn configured_limits(&mut self, place: Place<'_>) -> ConfiguredLimits {
        let mut found = self.limits_default();
        let Some(mut section) = place.section(&mut self.mistakes) else {
            return found;
        };
        if let Some(place) = section.take("connections") {
            let max = self.limits.connections_ceiling;
            let connections = place.number(&mut self.mistakes, 1, max);
            found.connections = connections.unwrap_or(found.connections);
        }
        if let Some(place) = section.take("memory") {
            let from = self.limits.memory_bytes_min;
            // A gateway's memory fits into 32 bits, and so must the sum on a 32-bit relay.
            let memory_bytes = self.size(&place, from, i32::MAX as usize);
            found.memory_bytes = memory_bytes.unwrap_or(found.memory_bytes);
        }
        section.finish(&mut self.mistakes);
        found
    }

    fn limits_default(&self) -> ConfiguredLimits {
        ConfiguredLimits {
            connections: self.limits.connections_max,
            memory_bytes: self.limits.memory_bytes_default,
        }
    }

    /// A number of bytes, or text with a unit.
    pub fn size(&mut self, place: &Place<'_>, from: usize, to: usize) -> Option<usize> {
        if let Node::Text(text) = place.node {
            let size = bytes(text).and_then(|bytes| in_range(bytes, from, to));
            return self.mistakes.keep(&place.path, size);
        }
        place.number(&mut self.mistakes, from, to)
    }

    fn log(&mut self, place: Place<'_>) -> Option<Log> {
        const FORMATS: [(&str, LogFormat); 4] = [
            ("auto", LogFormat::Auto),
            ("plain", LogFormat::Plain),
            ("json", LogFormat::Json),
            ("journal", LogFormat::Journal),
        ];
        const LEVELS: [(&str, LogLevel); 4] = [
            ("error", LogLevel::Error),
            ("warn", LogLevel::Warn),
            ("info", LogLevel::Info),
            ("debug", LogLevel::Debug),
        ];
        let mut section = place.section(&mut self.mistakes)?;
        let format = section.take("format");
        let format = format
            .and_then(|place| self.choice(&place, &["auto", "plain", "json", "journal"], &FORMATS));
        let level = section.take("level");
        let level = level
            .and_then(|place| self.choice(&place, &["error", "warn", "info", "debug"], &LEVELS));
        section.finish(&mut self.mistakes);
        Some(Log {
            format: format.unwrap_or(LOG_DEFAULT.format),
            level: level.unwrap_or(LOG_DEFAULT.level),
        })
    }

    fn connect(&mut self, place: Place<'_>) -> Option<Connect> {
        let mut section = place.section(&mut self.mistakes)?;
        let allow = section.take("allow");
        let allow = allow.and_then(|place| place.list(&mut self.mistakes, self.limits.slots_max));
        section.finish(&mut self.mistakes);
        let names = allow.into_iter().flatten();
        let names = names.filter_map(|place| place.read(&mut self.mistakes, host_name));
        Some(Connect {
            allow: names.collect(),
        })
    }

    /// The value of the table's entry that the text names; `choices` are told for any other text.
    pub fn choice<T: Copy>(
        &mut self,
        place: &Place<'_>,
        choices: &'static [&'static str],
        table: &[(&str, T)],
    ) -> Option<T> {
        place.read(&mut self.mistakes, |text| {
            let found = table.iter().find(|(name, _)| *name == text);
            found
                .map(|(_, value)| *value)
                .ok_or(Problem::NotOneOf { choices })
        })
    }

    /// A path that is written to or listened on.
    fn path(&mut self, place: &Place<'_>) -> Option<PathBuf> {
        let environment = self.environment;
        place.read(&mut self.mistakes, |text| plain_path(text, environment))
    }

    /// A path that is read, which may lie among the unit's credentials.
    pub fn file(&mut self, place: &Place<'_>) -> Option<PathBuf> {
        let text = place.text(&mut self.mistakes)?;
        let Some(rest) = text.strip_prefix(CREDENTIALS) else {
            return self.path(place);
        };
        if rest.contains("${") {
            self.mistakes.error(&place.path, Problem::UnknownVariable);
            return None;
        }
        match &self.environment.credentials_directory {
            Some(directory) => Some(directory.join(rest.trim_start_matches('/'))),
            None => {
                let concern = Concern::CredentialsUnset;
                self.mistakes.warning(&place.path, concern);
                Some(PathBuf::from(text))
            }
        }
    }
}
