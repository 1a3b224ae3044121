//! The key `region`: this relay's place among the sites that share their writes.
//!
//! Part of `parse`, with the same rule: note the mistake and go on. Who is primary for what is not
//! here: that is in the state record, which changes while relays run. Here is what one relay goes
//! by: its name in records, who may sign them, and what peers show each other.
//!
//! Never reads a file: whether a record is sound and the peer key long enough is found out when
//! they are read.

use super::SecretSource;
use super::error::{Concern, Problem, RegionProblem};
use super::parse::Reader;
use super::section::{Place, Section};
use super::values::id;
use crate::model::Id;
use std::path::PathBuf;

/// A public key of minisign: two letters, eight bytes of id, 32 of key.
const KEY_BYTES: usize = 42;

/// How a relay takes part in region routing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// This relay's name, as state records have it.
    pub node: Id,
    /// A file with a state record, watched as the seed is; peers and the admin bring others.
    pub record: Option<PathBuf>,
    pub trust: RecordTrust,
    /// What peers show each other.
    pub peer_key: SecretSource,
    /// Roots that peers' certificates are trusted by in place of the system's, PEM.
    pub ca_file: Option<PathBuf>,
}

/// Whose state records count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordTrust {
    /// Those signed with one of these keys of minisign, as the second line of its `.pub` file. Not
    /// empty.
    Signed(Vec<String>),
    /// All that are sound.
    Unsigned,
}

/// What the peers of a region are called among those who have keys.
pub const PEERS: &str = "region.peers";

impl Reader<'_> {
    /// The relay's place. `keeps`: there is a folder for its word; `is_routed`: there is something
    /// that a region can be primary for.
    pub fn region(&mut self, place: Place<'_>, keeps: bool, is_routed: bool) -> Option<Region> {
        let whole = place.path.clone();
        let mut section = place.section(&mut self.mistakes)?;
        if !keeps {
            self.mistakes.error(&whole, RegionProblem::NotKept.into());
        }
        if !is_routed {
            self.mistakes
                .error(&whole, RegionProblem::NothingRouted.into());
        }
        let node = section.require("node", &mut self.mistakes);
        let node = node.and_then(|place| place.read(&mut self.mistakes, id));
        let record = section.take("record");
        let record = record.map(|place| self.file(&place));
        let trust = self.record_trust(&mut section);
        let inline = section.path_of("peer_key");
        let peer_key = self.secret(&mut section, "peer_key", "peer_key_file", true);
        let bytes_min = self.limits.region.peer_key_bytes_min;
        if let Some(SecretSource::Inline(key)) = &peer_key
            && key.bytes().len() < bytes_min
        {
            let problem = RegionProblem::KeyTooShort { bytes_min };
            self.mistakes.error(&inline, problem.into());
        }
        let ca_file = section.take("ca_file");
        let ca_file = ca_file.map(|place| self.file(&place));
        section.finish(&mut self.mistakes);
        Some(Region {
            node: node?,
            record: record.map_or(Some(None), |read| read.map(Some))?,
            trust: trust?,
            peer_key: peer_key?,
            ca_file: ca_file.map_or(Some(None), |read| read.map(Some))?,
        })
    }

    fn record_trust(&mut self, section: &mut Section<'_>) -> Option<RecordTrust> {
        const CHOICES: [(&str, bool); 2] = [("signed", true), ("none", false)];
        let trust = section.take("trust");
        let trust_path = section.path_of("trust");
        let is_signed = match trust {
            Some(place) => self.choice(&place, &["signed", "none"], &CHOICES),
            None => Some(true),
        };
        let keys_path = section.path_of("public_keys");
        let keys = section.take("public_keys");
        match (is_signed?, keys) {
            (true, Some(place)) => {
                let places = place.list(&mut self.mistakes, self.limits.region.signers_max)?;
                if places.is_empty() {
                    let instead = "name the keys that sign state records";
                    self.mistakes.error(&place.path, Problem::Empty { instead });
                }
                let read = |place: &Place<'_>| place.read(&mut self.mistakes, public_key);
                let keys: Vec<Option<String>> = places.iter().map(read).collect();
                keys.into_iter()
                    .collect::<Option<_>>()
                    .map(RecordTrust::Signed)
            }
            (true, None) => {
                self.mistakes
                    .error(&keys_path, RegionProblem::NoSigner.into());
                None
            }
            (false, Some(place)) => {
                let problem = Problem::BothGiven { other: "trust" };
                self.mistakes.error(&place.path, problem);
                None
            }
            (false, None) => {
                self.mistakes.warning(&trust_path, Concern::RecordsUnsigned);
                Some(RecordTrust::Unsigned)
            }
        }
    }
}

/// The second line of a `minisign.pub`.
fn public_key(text: &str) -> Result<String, Problem> {
    let bytes = data_encoding::BASE64.decode(text.trim().as_bytes());
    let is_key = |bytes: Vec<u8>| bytes.len() == KEY_BYTES && bytes.starts_with(b"Ed");
    match bytes.is_ok_and(is_key) {
        true => Ok(text.trim().to_owned()),
        false => Err(RegionProblem::NotAPublicKey.into()),
    }
}

#[cfg(test)]
mod tests;
