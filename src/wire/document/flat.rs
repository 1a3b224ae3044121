//! The flat document of the older config path: Java, Android and Python before 0.3.
//!
//! Features, properties and segments at the top, as pieces of the snapshot. References to secrets
//! are left out: none of these SDKs knows the type, and Python's stop reading properties at the
//! first one they do not know. Never reads anything but a snapshot, which was validated.

use crate::model::Snapshot;
use crate::wire::json::slice;
use bytes::Bytes;

/// The flat form of a snapshot. Bounded by the length of its document.
pub fn flat(snapshot: &Snapshot) -> Bytes {
    // Snapshots are UTF-8 by construction, and what is missing from one reads as empty.
    let text = std::str::from_utf8(&snapshot.json).unwrap_or("{}");
    let names = ["environments", "collections", "segments"];
    let [environments, collections, segments] = slice::members(text, names).unwrap_or_default();
    let names = ["features", "properties"];
    let [features, properties] = environments
        .and_then(first)
        .and_then(|environment| slice::members(environment, names))
        .unwrap_or_default();
    let properties = properties.and_then(slice::elements).unwrap_or_default();
    let readable: Vec<&str> = properties
        .into_iter()
        .filter(|property| !refers_to_a_secret(property))
        .collect();
    let flat = [
        "{\"features\":",
        features.unwrap_or("[]"),
        ",\"properties\":[",
        &readable.join(","),
        "],\"segments\":",
        segments.unwrap_or("[]"),
        ",\"collection\":",
        collections.and_then(first).unwrap_or("{}"),
        "}",
    ];
    Bytes::from(flat.concat())
}

fn first(array: &str) -> Option<&str> {
    slice::elements(array)?.into_iter().next()
}

fn refers_to_a_secret(property: &str) -> bool {
    let [kind] = slice::members(property, ["type"]).unwrap_or_default();
    kind.and_then(slice::string).as_deref() == Some("SECRETREF")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Counts, Digest};
    use crate::wire::json;

    #[test]
    fn the_flat_form_lifts_the_environment_and_leaves_secrets_out() {
        let document = br#"{"environments":[{"environment_id":"dev",
            "features":[{"feature_id":"f","x":1.50}],
            "properties":[{"property_id":"s","type":"SECRETREF"},{"property_id":"p","type":"X"}]}],
            "collections":[{"collection_id":"shop"}],"segments":[{"segment_id":"g"}]}"#;
        let snapshot = Snapshot {
            gzip: None,
            json: Bytes::from_static(document),
            digest: Digest::default(),
            counts: Counts::default(),
            rollouts_filled: 0,
        };
        let expected = r#"{"features":[{"feature_id":"f","x":1.50}],"properties":[{"property_id":"p","type":"X"}],"segments":[{"segment_id":"g"}],"collection":{"collection_id":"shop"}}"#;
        let flat = flat(&snapshot);
        assert_eq!(std::str::from_utf8(&flat).unwrap(), expected);
        assert!(json::check(expected, 8).is_ok());
    }
}
