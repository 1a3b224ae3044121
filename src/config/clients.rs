//! The keys that say what is served to whom: `slots`, `client_keys`, and where secrets come from.
//!
//! Part of `parse`, with the same rule: note the mistake and go on. What is compared here is only
//! what stands in the file; two key files with one content are found when they are read.

use super::error::{Concern, Problem, RegionProblem};
use super::parse::Reader;
use super::region::PEERS;
use super::section::{Place, Section};
use super::values::{id, inline_secret};
use super::{ClientKey, SecretSource, SlotPattern};
use crate::model::SlotKey;
use std::collections::BTreeSet;

/// The slots, and those of them that are the operator's.
pub type FoundSlots = (Vec<SlotKey>, BTreeSet<SlotKey>);

impl Reader<'_> {
    /// The configured slots, in order. A relay that only goes before others has none. What is
    /// pushed must be kept, which takes a `state_dir`.
    pub fn slots(&mut self, root: &mut Section<'_>, may_be_none: bool, keeps: bool) -> FoundSlots {
        let Some(place) = root.require("slots", &mut self.mistakes) else {
            return FoundSlots::default();
        };
        let places = place.list(&mut self.mistakes, self.limits.slots_max);
        if places.as_ref().is_some_and(Vec::is_empty) && !may_be_none {
            let instead = "name at least one collection and environment";
            self.mistakes.error(&place.path, Problem::Empty { instead });
        }
        let mut found: Vec<(String, SlotKey)> = Vec::new();
        let mut operators = BTreeSet::new();
        for place in places.into_iter().flatten() {
            let path = place.path.clone();
            let Some((key, is_operators)) = self.slot(place, keeps) else {
                continue;
            };
            if is_operators {
                operators.insert(key.clone());
            }
            match found.iter().find(|(_, seen)| *seen == key) {
                Some((first, _)) => {
                    let first = first.clone();
                    self.mistakes.error(&path, Problem::SameAs { path: first });
                }
                None => found.push((path, key)),
            }
        }
        let slots = found.into_iter().map(|(_, key)| key).collect();
        (slots, operators)
    }

    /// A slot, and whether it is the operator's.
    fn slot(&mut self, place: Place<'_>, keeps: bool) -> Option<(SlotKey, bool)> {
        let mut section = place.section(&mut self.mistakes)?;
        let source = section.take("source");
        let is_operators = source.as_ref().and_then(|place| {
            let operator = [("operator", true)];
            self.choice(place, &["operator"], &operator)
        });
        if let Some(place) = source.filter(|_| is_operators == Some(true) && !keeps) {
            self.mistakes.error(&place.path, Problem::PushesNotKept);
        }
        let mut part = |key| {
            let place = section.require(key, &mut self.mistakes)?;
            place.read(&mut self.mistakes, id)
        };
        let (collection, environment) = (part("collection"), part("environment"));
        section.finish(&mut self.mistakes);
        let key = SlotKey {
            collection: collection?,
            environment: environment?,
        };
        Some((key, is_operators == Some(true)))
    }

    /// The configured keys, in order; patterns are held against `slots`.
    pub fn client_keys(&mut self, root: &mut Section<'_>, slots: &[SlotKey]) -> Vec<ClientKey> {
        let place = root.take("client_keys");
        let places = place.and_then(|place| place.list(&mut self.mistakes, self.limits.keys_max));
        let mut found: Vec<(String, ClientKey)> = Vec::new();
        for place in places.into_iter().flatten() {
            let path = place.path.clone();
            let Some(key) = self.client_key(place, slots) else {
                continue;
            };
            if key.id.as_str() == PEERS {
                let problem = RegionProblem::NameOfPeers.into();
                self.mistakes.error(&format!("{path}.id"), problem);
            }
            for (first, seen) in &found {
                if seen.id == key.id {
                    let same = format!("{first}.id");
                    let problem = Problem::SameAs { path: same };
                    self.mistakes.error(&format!("{path}.id"), problem);
                }
                if seen.secret == key.secret {
                    let name = match key.secret {
                        SecretSource::Inline(_) => "key",
                        SecretSource::File(_) => "key_file",
                    };
                    let same = format!("{first}.{name}");
                    let problem = Problem::SameAs { path: same };
                    self.mistakes.error(&format!("{path}.{name}"), problem);
                }
            }
            found.push((path, key));
        }
        if found.is_empty() && !slots.is_empty() {
            self.mistakes
                .warning("$.client_keys", Concern::NoClientKeys);
        }
        found.into_iter().map(|(_, key)| key).collect()
    }

    fn client_key(&mut self, place: Place<'_>, slots: &[SlotKey]) -> Option<ClientKey> {
        let mut section = place.section(&mut self.mistakes)?;
        let place = section.require("id", &mut self.mistakes);
        let key_id = place.and_then(|place| place.read(&mut self.mistakes, id));
        let secret = self.secret(&mut section, "key", "key_file", true);
        let patterns = section.take("slots");
        let patterns = patterns.map(|place| self.patterns(&place, slots));
        section.finish(&mut self.mistakes);
        Some(ClientKey {
            id: key_id?,
            secret: secret?,
            slots: patterns.unwrap_or_default(),
        })
    }

    fn patterns(&mut self, place: &Place<'_>, slots: &[SlotKey]) -> Vec<SlotPattern> {
        let places = place.list(&mut self.mistakes, self.limits.slots_max);
        // An empty list must not come to mean "all": it looks like "none".
        if places.as_ref().is_some_and(Vec::is_empty) {
            let instead = "leave the key out to allow all slots";
            self.mistakes.error(&place.path, Problem::Empty { instead });
        }
        let mut patterns = Vec::new();
        for place in places.into_iter().flatten() {
            let read = |text: &str| SlotPattern::parse(text).ok_or(Problem::NotAPattern);
            let Some(pattern) = place.read(&mut self.mistakes, read) else {
                continue;
            };
            if !slots.iter().any(|slot| pattern.matches(slot)) {
                let concern = Concern::PatternWithoutSlot;
                self.mistakes.warning(&place.path, concern);
            }
            patterns.push(pattern);
        }
        patterns
    }

    /// The secret that stands under `inline` or in the file under `file`.
    pub fn secret(
        &mut self,
        section: &mut Section<'_>,
        inline: &'static str,
        file: &'static str,
        required: bool,
    ) -> Option<SecretSource> {
        match (section.take(inline), section.take(file)) {
            (Some(place), Some(_)) => {
                let problem = Problem::BothGiven { other: file };
                self.mistakes.error(&place.path, problem);
                None
            }
            (Some(place), None) => {
                let secret = place.read(&mut self.mistakes, inline_secret)?;
                Some(SecretSource::Inline(secret))
            }
            (None, Some(place)) => self.file(&place).map(SecretSource::File),
            (None, None) if required => {
                let (one, other) = (file, inline);
                let problem = Problem::NeitherGiven { one, other };
                self.mistakes.error(&section.path, problem);
                None
            }
            (None, None) => None,
        }
    }
}
