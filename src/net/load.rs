//! Everything that the configuration names, read from disk: client keys, certificate, admin token,
//! the upstreams' keys.
//!
//! Blocks: it runs before the loop turns, or in the disk lane. What cannot be read is not fatal
//! here; it is collected as a problem, and the start (which serves what it can) and the reload
//! (which keeps what it has) decide differently about it.

use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::config::{
    ClientKey, Config, ConfigError, Environment, PEERS, RecordTrust, Secret, SecretSource,
    UpstreamConfig,
};
use crate::limits::Limits;
use crate::model::{Id, Role, SlotIndex, SlotKey};
use crate::state::access::{AllowedSlots, LoadedKey};
use crate::wire::region::Signer;

use super::disk;
use super::tls::{self, ServerTls};

/// Where the configuration was read from, to read it again.
#[derive(Clone, Debug)]
pub struct Origin {
    pub path: PathBuf,
    pub environment: Environment,
}

/// A configuration with what it names.
pub struct Loaded {
    pub origin: Origin,
    pub config: Config,
    pub keys: Vec<LoadedKey>,
    /// Configured keys that could not be read.
    pub unreadable: usize,
    pub tls: Option<ServerTls>,
    pub admin_token: Option<Secret>,
    /// `None` = an isolated site.
    pub upstreams: Option<LoadedUpstreams>,
    /// `None` = this relay has no part in region routing.
    pub region: Option<LoadedRegion>,
    /// One line each: what could not be read, and what follows from it.
    pub problems: Vec<String>,
}

/// The upstreams with their keys.
#[derive(Clone, Debug)]
pub struct LoadedUpstreams {
    pub primary: LoadedUpstream,
    pub backup: Option<LoadedUpstream>,
}

impl LoadedUpstreams {
    /// One of the two.
    pub fn of(&self, role: Role) -> Option<&LoadedUpstream> {
        match role {
            Role::Primary => Some(&self.primary),
            Role::Backup => self.backup.as_ref(),
        }
    }
}

/// One upstream with its key.
#[derive(Clone, Debug)]
pub struct LoadedUpstream {
    pub config: UpstreamConfig,
    /// `None` = it could not be read: nothing can be asked there.
    pub api_key: Option<Secret>,
}

/// Whose records count, and what peers show each other.
#[derive(Clone, Debug)]
pub struct LoadedRegion {
    /// `None` = records count unsigned.
    pub signers: Option<Vec<Signer>>,
    /// `None` = it could not be read: peers are neither asked nor answered.
    pub peer_key: Option<Secret>,
}

/// Why there is no configuration at all.
#[derive(Debug)]
pub enum LoadError {
    /// The file cannot be read.
    Unreadable(String),
    /// The file is wrong; every mistake in it.
    Wrong(Vec<ConfigError>),
}

/// Reads the configuration, and nothing that it names.
///
/// # Errors
/// See [`LoadError`]. Bounded by `Limits::config_bytes_max`.
pub fn read_config(origin: &Origin, limits: &Limits) -> Result<Config, LoadError> {
    let text = match disk::read_bounded(&origin.path, limits.config_bytes_max) {
        Ok(Some(text)) => text,
        Ok(None) => {
            let message = format!("{}: no such file", origin.path.display());
            return Err(LoadError::Unreadable(message));
        }
        Err(error) => return Err(LoadError::Unreadable(error.to_string())),
    };
    Config::parse(&text, &origin.environment, limits).map_err(LoadError::Wrong)
}

/// Reads the configuration and what it names.
pub fn load(origin: Origin, limits: &Limits) -> Result<Loaded, LoadError> {
    let config = read_config(&origin, limits)?;
    let mut problems = Vec::new();
    let mut keys = Vec::new();
    let mut unreadable = 0;
    for (number, client_key) in config.client_keys.iter().enumerate() {
        match secret(&client_key.secret, limits) {
            Ok(secret) => keys.push(LoadedKey {
                id: client_key.id.clone(),
                secret: secret.bytes().into(),
                slots: allowed(client_key, &config.slots),
            }),
            Err(problem) => {
                unreadable += 1;
                problems.push(format!(
                    "client key `{}`: {problem}; until it can be read, unknown keys get 503 \
                     ($.client_keys[{number}])",
                    client_key.id
                ));
            }
        }
    }
    let tls = server_tls(&config, limits).unwrap_or_else(|problem| {
        problems.push(format!("{problem}; no TLS until then ($.tls)"));
        None
    });
    let token = config
        .admin
        .token
        .as_ref()
        .map(|token| secret(token, limits))
        .transpose();
    let admin_token = token.unwrap_or_else(|problem| {
        problems.push(format!(
            "admin token: {problem}; no commands over TCP ($.admin)"
        ));
        None
    });
    let upstreams = upstreams(&config, limits, &mut problems);
    let region = region(&config, limits, &mut problems);
    Ok(Loaded {
        origin,
        config,
        keys,
        unreadable,
        tls,
        admin_token,
        upstreams,
        region,
        problems,
    })
}

impl Loaded {
    /// Who may have documents and hand over reports: the client keys, and the peers of a region,
    /// which follow this relay as they would the service.
    pub fn keys_in_use(&self) -> Vec<LoadedKey> {
        let region = self.region.as_ref();
        let peer_key = region.and_then(|region| region.peer_key.as_ref());
        let peers = peer_key.zip(Id::new(PEERS)).map(|(key, id)| LoadedKey {
            id,
            secret: key.bytes().into(),
            slots: AllowedSlots::All,
        });
        self.keys.iter().cloned().chain(peers).collect()
    }

    /// Takes from the running relay what takes effect at the next start; what keys may use is
    /// worked out anew. A part in region routing begins and ends with a start, so that a relay is
    /// never left with one and without the keys to it.
    pub fn keep_running(&mut self, running: &Loaded) {
        let slots = &running.config.slots;
        self.config.keep_running(&running.config);
        if self.region.is_some() != running.region.is_some() {
            self.region.clone_from(&running.region);
        }
        for key in &mut self.keys {
            let configured = self
                .config
                .client_keys
                .iter()
                .find(|other| other.id == key.id);
            if let Some(configured) = configured {
                key.slots = allowed(configured, slots);
            }
        }
    }
}

fn allowed(client_key: &ClientKey, slots: &[SlotKey]) -> AllowedSlots {
    if client_key.slots.is_empty() {
        return AllowedSlots::All;
    }
    let slots = (0..).map(SlotIndex).zip(slots);
    let allowed = slots
        .filter(|(_, slot)| client_key.allows(slot))
        .map(|(index, _)| index);
    AllowedSlots::Only(allowed.collect())
}

fn upstreams(
    config: &Config,
    limits: &Limits,
    problems: &mut Vec<String>,
) -> Option<LoadedUpstreams> {
    let upstreams = config.upstream.as_ref()?;
    let mut load = |role: Role, config: &UpstreamConfig| {
        let role = role.as_str();
        let api_key = secret(&config.api_key, limits).map_err(|problem| {
            problems.push(format!(
                "API key of the {role}: {problem}; it is not asked until then ($.upstream.{role})"
            ));
        });
        if let Some(file) = &config.ca_file
            && let Err(problem) = authorities(file, limits)
        {
            problems.push(format!(
                "authorities of the {role}: {problem}; it is not trusted until then \
                 ($.upstream.{role}.ca_file)"
            ));
        }
        LoadedUpstream {
            config: config.clone(),
            api_key: api_key.ok(),
        }
    };
    Some(LoadedUpstreams {
        primary: load(Role::Primary, &upstreams.primary),
        backup: upstreams
            .backup
            .as_ref()
            .map(|backup| load(Role::Backup, backup)),
    })
}

fn region(config: &Config, limits: &Limits, problems: &mut Vec<String>) -> Option<LoadedRegion> {
    let region = config.region.as_ref()?;
    let signers = match &region.trust {
        RecordTrust::Unsigned => None,
        RecordTrust::Signed(keys) => {
            let signers = keys.iter().enumerate().filter_map(|(number, key)| {
                let signer = Signer::parse(key);
                if signer.is_none() {
                    problems.push(format!(
                        "no public key of minisign: nothing that it signs counts \
                         ($.region.public_keys[{number}])"
                    ));
                }
                signer
            });
            Some(signers.collect())
        }
    };
    let bytes_min = limits.region.peer_key_bytes_min;
    let peer_key = secret(&region.peer_key, limits).and_then(|key| match key.bytes().len() {
        length if length >= bytes_min => Ok(key),
        _ => Err(format!("shorter than {bytes_min} characters")),
    });
    let peer_key = peer_key.map_err(|problem| {
        problems.push(format!(
            "peer key: {problem}; no peer is asked or answered until then ($.region.peer_key_file)"
        ));
    });
    if let Some(file) = &region.ca_file
        && let Err(problem) = authorities(file, limits)
    {
        problems.push(format!(
            "authorities of the peers: {problem}; no peer is trusted until then \
             ($.region.ca_file)"
        ));
    }
    Some(LoadedRegion {
        signers,
        peer_key: peer_key.ok(),
    })
}

/// The certificates in a file of authorities; at least one.
///
/// # Errors
/// One line for an operator: the file cannot be read, or holds none. Bounded by
/// `config_bytes_max`.
pub fn authorities(file: &Path, limits: &Limits) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = read(file, limits.config_bytes_max)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) | Err(_) => Err(format!(
            "{}: holds no certificate; it must begin with -----BEGIN CERTIFICATE-----",
            file.display()
        )),
    }
}

fn secret(source: &SecretSource, limits: &Limits) -> Result<Secret, String> {
    let path = match source {
        SecretSource::Inline(secret) => return Ok(secret.clone()),
        SecretSource::File(path) => path,
    };
    let content = read(path, limits.credential_bytes_max)?;
    match Secret::new(&content) {
        Some(secret) if secret.is_sendable() => Ok(secret),
        Some(_) => Err(format!(
            "{}: holds a space or a byte outside ASCII, which no client can send",
            path.display()
        )),
        None => Err(format!("{}: is empty", path.display())),
    }
}

fn server_tls(config: &Config, limits: &Limits) -> Result<Option<ServerTls>, String> {
    let Some(files) = &config.tls else {
        return Ok(None);
    };
    let cert = read(&files.cert, limits.config_bytes_max)?;
    let key = read(&files.key, limits.config_bytes_max)?;
    let config = tls::server_config((&files.cert, &cert), (&files.key, &key));
    config.map(Some).map_err(|error| error.to_string())
}

fn read(path: &Path, bytes_max: usize) -> Result<Vec<u8>, String> {
    match disk::read_bounded(path, bytes_max) {
        Ok(Some(content)) => Ok(content),
        Ok(None) => Err(format!("{}: no such file", path.display())),
        Err(error) => Err(error.to_string()),
    }
}
