//! What has changed between two documents of one slot, for people.
//!
//! Goes item by item and names the keys that differ, with their values where these are short. Two
//! values are the same when their digests are: order of keys and white space do not count, and
//! neither does what items say about their collections, just as in the digest of a snapshot.
//! Invariant: two snapshots with different digests have at least one change.
//!
//! Works on the text of both documents and builds no tree over either. What a document says is
//! shown on one line, escaped and clipped.

use super::document::ItemKind;
use super::json::{check, compact, slice};
use crate::limits::Limits;
use crate::model::Snapshot;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Longest value that is shown, in characters.
const SHOWN_MAX: usize = 60;

/// Something that one document has, or has otherwise, and the other has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub subject: Subject,
    pub what: What,
}

/// What has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The document itself, outside of its three arrays.
    Document,
    /// An item, by its id.
    Item(ItemKind, String),
    /// The order in which the items of a kind stand.
    Order(ItemKind),
}

/// How it has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    Added,
    Removed,
    /// The keys that differ, sorted; none for an order.
    Changed(Vec<Member>),
}

/// One key of an item that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub key: String,
    /// The old and the new value; `None` when they are too long to be told apart on a line.
    pub values: Option<[String; 2]>,
}

impl fmt::Display for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.what {
            What::Added => "+ ",
            What::Removed => "- ",
            What::Changed(_) => "~ ",
        })?;
        match &self.subject {
            Subject::Document => formatter.write_str("document")?,
            Subject::Item(kind, id) => write!(formatter, "{} {}", kind.as_str(), clipped(id))?,
            Subject::Order(kind) => write!(formatter, "order of the {}", kind.array())?,
        }
        let What::Changed(members) = &self.what else {
            return Ok(());
        };
        for (index, member) in members.iter().enumerate() {
            let separator = if index == 0 { ": " } else { "; " };
            write!(formatter, "{separator}{}", clipped(&member.key))?;
            if let Some([old, new]) = &member.values {
                write!(formatter, " {old} -> {new}")?;
            }
        }
        Ok(())
    }
}

/// Everything that differs, by kind and id. Bounded by the length of both documents.
pub fn changes(old: &Snapshot, new: &Snapshot, limits: &Limits) -> Vec<Change> {
    let texts = [old, new].map(|snapshot| str::from_utf8(&snapshot.json).unwrap_or_default());
    let mut walk = Walk {
        depth_max: limits.json_depth_max,
        changes: Vec::new(),
    };
    let arrays = [
        ItemKind::Environment,
        ItemKind::Collection,
        ItemKind::Segment,
    ];
    let arrays_of = |text| slice::members(text, arrays.map(ItemKind::array)).unwrap_or_default();
    let [old, new] = texts.map(arrays_of);
    let [old_environments, old_collections, old_segments] = old;
    let [new_environments, new_collections, new_segments] = new;
    walk.members(Subject::Document, texts, &arrays.map(ItemKind::array));
    let environments = [old_environments, new_environments];
    walk.items(ItemKind::Environment, environments);
    walk.items(ItemKind::Collection, [old_collections, new_collections]);
    let [old, new] = environments.map(|array| inner_arrays(array).unwrap_or_default());
    let ([old_features, old_properties], [new_features, new_properties]) = (old, new);
    walk.items(ItemKind::Feature, [old_features, new_features]);
    walk.items(ItemKind::Property, [old_properties, new_properties]);
    walk.items(ItemKind::Segment, [old_segments, new_segments]);
    walk.changes
}

/// Features and properties of the one environment that a snapshot has.
fn inner_arrays(environments: Option<&str>) -> Option<[Option<&str>; 2]> {
    let environment = environments.and_then(slice::elements)?.first().copied()?;
    let names = [ItemKind::Feature.array(), ItemKind::Property.array()];
    slice::members(environment, names)
}

/// The comparison in the making.
struct Walk {
    depth_max: usize,
    changes: Vec<Change>,
}

impl Walk {
    /// Compares two arrays of items of one kind.
    fn items(&mut self, kind: ItemKind, arrays: [Option<&str>; 2]) {
        let [old, new] = arrays.map(|array| entries(kind, array));
        let (old_by_id, new_by_id) = (by_id(&old), by_id(&new));
        let ids: BTreeSet<&str> = old_by_id.keys().chain(new_by_id.keys()).copied().collect();
        for id in ids {
            let subject = Subject::Item(kind, id.to_owned());
            match (old_by_id.get(id), new_by_id.get(id)) {
                (Some(old), Some(new)) => self.members(subject, [old, new], left_out(kind)),
                (Some(_), None) => self.push(subject, What::Removed),
                (None, Some(_)) => self.push(subject, What::Added),
                (None, None) => {}
            }
        }
        let common = |entries: &[(Cow<'_, str>, &str)], other: &BTreeMap<&str, &str>| {
            let ids = entries.iter().map(|(id, _)| id.to_string());
            ids.filter(|id| other.contains_key(id.as_str()))
                .collect::<Vec<String>>()
        };
        if common(&old, &new_by_id) != common(&new, &old_by_id) {
            self.push(Subject::Order(kind), What::Changed(Vec::new()));
        }
    }

    /// Compares the members of two objects, but for those of `left_out`.
    fn members(&mut self, subject: Subject, objects: [&str; 2], left_out: &[&str]) {
        let [old, new] = objects.map(|object| {
            let members = slice::all_members(object).unwrap_or_default();
            let counts = |(key, _): &(Cow<'_, str>, &str)| !left_out.contains(&key.as_ref());
            members
                .into_iter()
                .filter(counts)
                .collect::<BTreeMap<_, _>>()
        });
        let keys: BTreeSet<&Cow<'_, str>> = old.keys().chain(new.keys()).collect();
        let differing = keys.into_iter().filter_map(|key| {
            let values = [old.get(key).copied(), new.get(key).copied()];
            let [old, new] = values.map(|value| value.map(|value| check(value, self.depth_max)));
            (old != new).then(|| Member {
                key: key.to_string(),
                values: shown(values),
            })
        });
        let members: Vec<Member> = differing.collect();
        if !members.is_empty() {
            self.push(subject, What::Changed(members));
        }
    }

    fn push(&mut self, subject: Subject, what: What) {
        self.changes.push(Change { subject, what });
    }
}

/// The members of an item that are compared elsewhere, or count for nobody.
fn left_out(kind: ItemKind) -> &'static [&'static str] {
    match kind {
        ItemKind::Environment => &["features", "properties"],
        ItemKind::Feature | ItemKind::Property => &["collections"],
        ItemKind::Collection | ItemKind::Segment => &[],
    }
}

/// The items of an array with their ids.
fn entries(kind: ItemKind, array: Option<&str>) -> Vec<(Cow<'_, str>, &str)> {
    let entry = |piece| {
        let [id] = slice::members(piece, [kind.id_key()])?;
        Some((id.and_then(slice::string)?, piece))
    };
    let elements = array.and_then(slice::elements).unwrap_or_default();
    elements.into_iter().filter_map(entry).collect()
}

fn by_id<'e>(entries: &'e [(Cow<'_, str>, &'e str)]) -> BTreeMap<&'e str, &'e str> {
    let entry = |(id, piece): &'e (Cow<'_, str>, &'e str)| (id.as_ref(), *piece);
    entries.iter().map(entry).collect()
}

/// Both values on a line. Of an array or object a beginning says nothing: it is shown whole or not.
fn shown(values: [Option<&str>; 2]) -> Option<[String; 2]> {
    let values = values.map(|value| value.map(compact));
    let is_deep = |value: &str| {
        matches!(
            slice::Kind::of(value),
            slice::Kind::Array | slice::Kind::Object
        )
    };
    let fits = |value: &str| value.chars().nth(SHOWN_MAX).is_none();
    let mut given = values.iter().flatten();
    if given.any(|value| is_deep(value) && !fits(value)) {
        return None;
    }
    Some(values.map(|value| value.map_or("(none)".into(), |value| clipped(&value))))
}

/// On one line and short enough for one. Quotes stay as they are: most of this is JSON.
fn clipped(text: &str) -> String {
    let mut clipped = String::new();
    for character in text.chars().take(SHOWN_MAX) {
        match character {
            '"' | '\'' | '\\' => clipped.push(character),
            _ => clipped.extend(character.escape_debug()),
        }
    }
    if text.chars().nth(SHOWN_MAX).is_some() {
        clipped.push('…');
    }
    clipped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SlotKey;
    use crate::wire::seed::Seed;

    const LIMITS: Limits = Limits::PRODUCTION;
    const SEED: &str = include_str!("../../seeds/demo.json");

    fn snapshot(text: &str) -> Snapshot {
        let key = SlotKey::parse("inventory/dev").unwrap();
        let seed = Seed::parse(text.as_bytes(), &LIMITS).unwrap();
        seed.snapshot(&key, &LIMITS).unwrap()
    }

    fn lines(old: &str, new: &str) -> Vec<String> {
        let found = changes(&snapshot(old), &snapshot(new), &LIMITS);
        found.iter().map(ToString::to_string).collect()
    }

    /// A document of one environment with these features.
    fn document(features: &[&str]) -> String {
        let features = features.join(",");
        format!(
            r#"{{"environments":[{{"environment_id":"dev","name":"Dev","features":[{features}],
            "properties":[]}}],"collections":[{{"collection_id":"inventory"}}],"segments":[]}}"#
        )
    }

    fn feature(id: &str, rest: &str) -> String {
        format!(
            r#"{{"feature_id":"{id}","name":"N","type":"STRING","format":"TEXT",
            "enabled_value":"on","disabled_value":"off","enabled":true,"segment_rules":[],
            "rollout_percentage":100{rest}}}"#
        )
    }

    #[test]
    fn white_space_order_of_keys_and_memberships_are_no_change() {
        let spaced = SEED.replace('\n', "\r\n\t");
        assert_eq!(lines(SEED, &spaced), Vec::<String>::new());
        let one = document(&[&feature("a", "")]);
        let member = feature("a", r#","collections":[{"collection_id":"inventory"}]"#);
        let other = document(&[&member]).replace(r#""name":"Dev","features""#, r#""features""#);
        let other = other.replace(r#""properties":[]}"#, r#""properties":[],"name":"Dev"}"#);
        assert_eq!(lines(&one, &other), Vec::<String>::new());
    }

    #[test]
    fn items_and_keys_are_named_with_their_values_and_sorted() {
        let old = document(&[
            &feature("b", ""),
            &feature("a", r#","tags":"x""#),
            &feature("c", ""),
        ]);
        let b = feature("b", "")
            .replace("true", "false")
            .replace("\"N\"", "\"M\\n\\u202e\"");
        let a = feature("a", &format!(r#","odd":{{"deep":"{}"}}"#, "y".repeat(80)));
        let new = document(&[&b, &a, &feature("d", "")]).replace("Dev", "\u{202e}Dev");
        assert_eq!(
            lines(&old, &new),
            [
                r#"~ environment dev: name "Dev" -> "\u{202e}Dev""#,
                r#"~ feature a: odd; tags "x" -> (none)"#,
                r#"~ feature b: enabled true -> false; name "N" -> "M\n\u202e""#,
                "- feature c",
                "+ feature d",
            ]
        );
    }

    #[test]
    fn long_values_are_clipped() {
        let long = feature("a", "").replace("\"on\"", &format!("\"{}\"", "z".repeat(100)));
        let [line] = &lines(&document(&[&feature("a", "")]), &document(&[&long]))[..] else {
            panic!("one change");
        };
        let wanted = format!("~ feature a: enabled_value \"on\" -> \"{}…", "z".repeat(59));
        assert_eq!(*line, wanted);
    }

    #[test]
    fn another_order_is_a_change_like_the_digest_says() {
        let (a, b) = (feature("a", ""), feature("b", ""));
        let (one, other) = (document(&[&a, &b]), document(&[&b, &a]));
        assert_ne!(snapshot(&one).digest, snapshot(&other).digest);
        assert_eq!(lines(&one, &other), ["~ order of the features"]);
    }

    /// Whatever byte of the demo changes: if the digest tells, so does the list.
    #[test]
    fn what_changes_the_digest_is_listed() {
        let old = snapshot(SEED);
        let mut random = fastrand::Rng::with_seed(4);
        let mut listed = 0;
        for round in 0..100 {
            let mut bytes = SEED.as_bytes().to_vec();
            let at = random.usize(..bytes.len());
            bytes[at] = b"abz019 tf"[random.usize(..9)];
            let key = SlotKey::parse("inventory/dev").unwrap();
            let Ok(new) =
                Seed::parse(&bytes, &LIMITS).and_then(|seed| seed.snapshot(&key, &LIMITS))
            else {
                continue;
            };
            let found = changes(&old, &new, &LIMITS);
            assert_eq!(found.is_empty(), old.digest == new.digest, "round {round}");
            listed += usize::from(!found.is_empty());
        }
        assert!(listed > 5, "{listed}");
    }
}
