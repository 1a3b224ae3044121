//! Everything that the configuration names, read from disk: client keys, certificate, admin token.
//!
//! Blocks: it runs before the loop turns, or in the disk lane. What cannot be read is not fatal
//! here; it is collected as a problem, and the start (which serves what it can) and the reload
//! (which keeps what it has) decide differently about it.

use std::path::{Path, PathBuf};

use crate::config::{ClientKey, Config, ConfigError, Environment, Secret, SecretSource};
use crate::limits::Limits;
use crate::model::{SlotIndex, SlotKey};
use crate::state::access::{AllowedSlots, LoadedKey};

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
    /// One line each: what could not be read, and what follows from it.
    pub problems: Vec<String>,
}

/// Why there is no configuration at all.
#[derive(Debug)]
pub enum LoadError {
    /// The file cannot be read.
    Unreadable(String),
    /// The file is wrong; every mistake in it.
    Wrong(Vec<ConfigError>),
}

/// Reads the configuration and what it names.
pub fn load(origin: Origin, limits: &Limits) -> Result<Loaded, LoadError> {
    let text = match disk::read_bounded(&origin.path, limits.config_bytes_max) {
        Ok(Some(text)) => text,
        Ok(None) => {
            let message = format!("{}: no such file", origin.path.display());
            return Err(LoadError::Unreadable(message));
        }
        Err(error) => return Err(LoadError::Unreadable(error.to_string())),
    };
    let config = Config::parse(&text, &origin.environment, limits).map_err(LoadError::Wrong)?;
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
    Ok(Loaded {
        origin,
        config,
        keys,
        unreadable,
        tls,
        admin_token,
        problems,
    })
}

impl Loaded {
    /// Takes the slots of the running relay in the place of its own, which take effect at the next
    /// start; what keys may use is worked out anew.
    pub fn keep_slots(&mut self, slots: &[SlotKey]) {
        self.config.slots = slots.to_vec();
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
