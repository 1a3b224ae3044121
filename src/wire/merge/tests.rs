//! Claims about a seed that was made of documents: each slot is in it as it was, whatever the slots
//! share, and what cannot be one seed is refused by name.
//!
//! The property test makes whole instances from a seeded generator: environments, collections,
//! items that belong to some of these, segments that rules name. Each slot's document is what the
//! service would answer for it.

use super::*;

const LIMITS: Limits = Limits::PRODUCTION;

fn slot(text: &str) -> SlotKey {
    SlotKey::parse(text).unwrap()
}

fn read(text: &str, slot: &SlotKey) -> Snapshot {
    let seed = Seed::parse(text.as_bytes(), &LIMITS).unwrap();
    seed.snapshot(slot, &LIMITS).unwrap()
}

/// What the service answers for a slot.
fn answer(slot: &SlotKey, features: &[String], segments: &[String]) -> (SlotKey, Snapshot) {
    let (features, segments) = (features.join(" , "), segments.join(","));
    let (collection, environment) = (&slot.collection, &slot.environment);
    let text = format!(
        r#"{{"environments":[{{"name":"E {environment}","environment_id":"{environment}",
        "properties":[],"color_code":"blue","features":[{features}]}}],
        "collections":[{{"collection_id":"{collection}","name":"C \u0022{collection}"}}],
        "segments":[{segments}],"version":1.50}}"#
    );
    (slot.clone(), read(&text, slot))
}

fn feature(id: &str, segment: Option<&str>, rest: &str) -> String {
    let rules = segment.map(|segment| {
        format!(r#"{{"order":1,"value":"$default","rules":[{{"segments":["{segment}"]}}]}}"#)
    });
    format!(
        r#"{{"name":"N","feature_id":"{id}","type":"NUMERIC","enabled_value":1.50,
        "disabled_value":1e2,"enabled":true,"segment_rules":[{}]{rest}}}"#,
        rules.unwrap_or_default()
    )
}

fn segment(id: &str) -> String {
    format!(r#"{{"segment_id":"{id}","name":"S","rules":[]}}"#)
}

/// All documents of an instance whose slots share what they can.
fn instance(random: &mut fastrand::Rng) -> Vec<(SlotKey, Snapshot)> {
    let segments: Vec<String> = (0..random.usize(..5)).map(|at| format!("s{at}")).collect();
    let collections: Vec<String> = (0..random.usize(1..4)).map(|at| format!("c{at}")).collect();
    let mut documents = Vec::new();
    for environment in 0..random.usize(1..4) {
        let items: Vec<(String, u8, Option<usize>)> = (0..random.usize(..9))
            .map(|at| {
                let named =
                    (!segments.is_empty() && random.bool()).then(|| random.usize(..segments.len()));
                let named_id = named.and_then(|at| segments.get(at)).map(String::as_str);
                let rest = [
                    "",
                    r#","rollout_percentage":7"#,
                    r#","collections":[{"collection_id":"c0"},{"collection_id":"c1"},
                        {"collection_id":"c2"}],"tags":"t""#,
                ][random.usize(..3)];
                (
                    feature(&format!("f{at}"), named_id, rest),
                    random.u8(..8),
                    named,
                )
            })
            .collect();
        for (at, collection) in collections.iter().enumerate() {
            if random.u8(..5) == 0 && !documents.is_empty() {
                continue;
            }
            let own: Vec<_> = items.iter().filter(|item| item.1 >> at & 1 == 1).collect();
            let features: Vec<String> = own.iter().map(|item| item.0.clone()).collect();
            let named: BTreeSet<usize> = own.iter().filter_map(|item| item.2).collect();
            let named: Vec<String> = named.iter().map(|at| segment(&segments[*at])).collect();
            let slot = slot(&format!("{collection}/e{environment}"));
            documents.push(answer(&slot, &features, &named));
        }
    }
    random.shuffle(&mut documents);
    documents
}

#[test]
fn a_seed_gives_back_each_document_it_was_made_of() {
    let mut shared = 0;
    for round in 0..150 {
        let mut random = fastrand::Rng::with_seed(round);
        let documents = instance(&mut random);
        let merged = merge(&documents, &LIMITS).unwrap_or_else(|error| panic!("{round}: {error}"));
        assert_eq!(merged.reordered, [], "round {round}");
        for (slot, document) in &documents {
            let again = read(&merged.json, slot);
            assert_eq!(again.digest, document.digest, "round {round}, {slot}");
            assert_eq!(again.counts, document.counts, "round {round}, {slot}");
        }
        let seed = Seed::parse(merged.json.as_bytes(), &LIMITS).unwrap();
        assert_eq!(seed.slots().len(), documents.len() + merged.empty.len());
        for slot in &merged.empty {
            assert_eq!(
                read(&merged.json, slot).counts.features,
                0,
                "{round}, {slot}"
            );
        }
        let items: u32 = documents
            .iter()
            .map(|(_, document)| document.counts.features)
            .sum();
        let kept = merged.json.matches("feature_id").count();
        shared += usize::try_from(items).unwrap() - kept;
    }
    assert!(shared > 200, "{shared} items were shared");
}

#[test]
fn the_demo_taken_apart_and_put_together_is_the_demo() {
    let demo = include_str!("../../../seeds/demo.json");
    let seed = Seed::parse(demo.as_bytes(), &LIMITS).unwrap();
    let documents: Vec<_> = seed.slots().into_iter().collect();
    let documents: Vec<_> = documents
        .into_iter()
        .map(|slot| (slot.clone(), read(demo, &slot)))
        .collect();
    assert_eq!(documents.len(), 4);
    let merged = merge(&documents, &LIMITS).unwrap();
    assert_eq!((merged.reordered, merged.empty), (vec![], vec![]));
}

#[test]
fn a_flag_that_changed_between_two_requests_is_named() {
    let one = answer(&slot("a/dev"), &[feature("f", None, "")], &[]);
    let changed = feature("f", None, "").replace("true", "false");
    let other = answer(&slot("b/dev"), std::slice::from_ref(&changed), &[]);
    let error = merge(&[one, other], &LIMITS).unwrap_err();
    let text = "feature `f` is not the same in a/dev and in b/dev";
    assert!(error.to_string().starts_with(text), "{error}");
    // In another environment it is another flag.
    let one = answer(&slot("a/dev"), &[feature("f", None, "")], &[]);
    let other = answer(&slot("b/prod"), &[changed], &[]);
    let merged = merge(&[one, other], &LIMITS).unwrap();
    assert_eq!(merged.empty, [slot("a/prod"), slot("b/dev")]);
}

#[test]
fn segments_environments_and_documents_that_differ_are_refused() {
    let rule = [feature("f", Some("s"), "")];
    let one = || answer(&slot("a/dev"), &rule, &[segment("s")]);
    let other = segment("s").replace("\"S\"", "\"T\"");
    let other = answer(&slot("a/prod"), &rule, &[other]);
    let error = merge(&[one(), other], &LIMITS).unwrap_err().to_string();
    assert!(error.starts_with("segment `s` is not the same"), "{error}");
    let edit = |from: &str, to: &str| {
        let key = slot("b/dev");
        let (_, document) = answer(&key, &rule, &[segment("s")]);
        let text = str::from_utf8(&document.json).unwrap().replace(from, to);
        (key.clone(), read(&text, &key))
    };
    let error = merge(&[one(), edit("blue", "#000")], &LIMITS)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("environment `dev` is not the same"),
        "{error}"
    );
    let error = merge(&[one(), edit("1.50}", "2}")], &LIMITS).unwrap_err();
    assert!(
        matches!(error, MergeError::DocumentsDiffer { .. }),
        "{error}"
    );
    assert_eq!(merge(&[], &LIMITS).unwrap_err(), MergeError::Nothing);
}

#[test]
fn orders_are_kept_as_far_as_they_agree() {
    let features =
        |ids: &[&str]| -> Vec<String> { ids.iter().map(|id| feature(id, None, "")).collect() };
    let documents = |orders: [&[&str]; 3]| -> Vec<(SlotKey, Snapshot)> {
        let slots = ["a/dev", "b/dev", "c/dev"].map(slot);
        let answer = |(slot, ids): (&SlotKey, &[&str])| answer(slot, &features(ids), &[]);
        slots.iter().zip(orders).map(answer).collect()
    };
    // Only the third says which of the first two comes first.
    let merged = merge(&documents([&["y"], &["x"], &["x", "y"]]), &LIMITS).unwrap();
    assert_eq!(merged.reordered, []);
    let merged = merge(&documents([&["x", "y"], &["y", "x"], &["x"]]), &LIMITS).unwrap();
    assert_eq!(merged.reordered, [slot("b/dev")]);
}

#[test]
fn a_seed_over_the_bound_is_refused() {
    let documents = [answer(&slot("a/dev"), &[feature("f", None, "")], &[])];
    let tight = Limits {
        seed_bytes_max: 100,
        ..LIMITS
    };
    let error = merge(&documents, &tight).unwrap_err();
    assert!(matches!(error, MergeError::Refused(..)), "{error}");
}
