//! Claims about what a slot gets from a seed: whose items, which bytes, and at whose fault.

use super::*;
use crate::model::Counts;
use crate::wire::document::{ItemKind, Problem};
use crate::wire::json::JsonProblem;
use crate::wire::json::compact;

const LIMITS: Limits = Limits::PRODUCTION;

fn feature(id: &str, rest: &str) -> String {
    format!(
        r#"{{"name":"N","feature_id":"{id}","type":"NUMERIC","enabled_value":1.50,
        "disabled_value":1e2,"enabled":true,"segment_rules":[]{rest}}}"#
    )
}

fn property(id: &str, rest: &str) -> String {
    format!(
        r#"{{"property_id":"{id}","name":"N","type":"BOOLEAN","value":true{rest},
        "segment_rules":[{{"order":1,"value":"$default","rules":[{{"segments":["staff"]}}]}}]}}"#
    )
}

fn environment(id: &str, features: &[String], properties: &[String]) -> String {
    let (features, properties) = (features.join(" ,\n"), properties.join(","));
    format!(
        r#"{{"environment_id":"{id}","odd":[1,{{"x":2.0}}],"properties":[{properties}],"features":[ {features} ]}}"#
    )
}

fn document(environments: &[String]) -> String {
    let environments = environments.join(", ");
    format!(
        r#"{{"segments":[{{"segment_id":"guests"}},{{"segment_id":"staff","name":"","rules":[]}}],
        "environments":[{environments}],"new":{{}},"collections":[{{"collection_id":"shop"}},
        {{"collection_id":"inventory","name":"Stock"}}]}}"#
    )
}

const IN_SHOP: &str = r#","rollout_percentage":7,"collections":[{"collection_id":"shop"}]"#;
const IN_STOCK: &str = r#","rollout_percentage":7,"collections":[{"collection_id":"inventory"}]"#;
const IN_BOTH: &str = r#","rollout_percentage":7,
    "collections":[{"collection_id":"shop"},{"collection_id":"inventory","name":"Stock"}]"#;

fn snapshot(text: &str, slot: &str) -> Result<Snapshot, DocumentError> {
    let key = SlotKey::parse(slot).unwrap();
    Seed::parse(text.as_bytes(), &LIMITS)?.snapshot(&key, &LIMITS)
}

fn json(snapshot: &Snapshot) -> &str {
    std::str::from_utf8(&snapshot.json).unwrap()
}

#[test]
fn a_slot_gets_its_environment_at_index_0_and_its_own_items() {
    let dev = environment("dev", &[feature("a", IN_SHOP)], &[]);
    let items = [
        feature("b", IN_STOCK),
        feature("c", IN_SHOP),
        feature("d", IN_BOTH),
    ];
    let prod = environment("prod", &items, &[]);
    let seed = document(&[dev, prod]);
    let found = snapshot(&seed, "shop/prod").unwrap();
    let wanted = environment("prod", &items[1..], &[]);
    let expected = format!(
        r#"{{"segments":[],
        "environments":[{wanted}],"new":{{}},"collections":[{{"collection_id":"shop"}}]}}"#
    );
    assert_eq!(json(&found), compact(&expected));
    let counts = Counts {
        features: 2,
        properties: 0,
        segments: 0,
    };
    assert_eq!(found.counts, counts);
}

#[test]
fn an_answer_to_an_sdk_is_served_as_received() {
    let text = "\r\n{ \"environments\" : [ {\"environment_id\":\"dev\", \"features\":[],\r\n\
                \"properties\": [ ]} ], \"segments\":[ ], \
                \"collections\":[{\"collection_id\":\"shop\" } ] }\r\n";
    let with_mark = format!("\u{feff}{text}");
    for text in [text, &with_mark] {
        let found = snapshot(text, "shop/dev").unwrap();
        assert_eq!(json(&found), text.trim_start_matches('\u{feff}').trim());
    }
}

#[test]
fn only_segments_that_kept_rules_name_are_kept() {
    let seed = document(&[environment("dev", &[], &[property("p", "")])]);
    let found = snapshot(&seed, "shop/dev").unwrap();
    assert_eq!(found.counts.segments, 1);
    assert!(json(&found).starts_with(r#"{"segments":[{"segment_id":"staff","#));
}

#[test]
fn an_item_without_collections_is_everybodys() {
    let seed = document(&[environment("dev", &[], &[property("p", "")])]);
    for slot in ["shop/dev", "inventory/dev"] {
        assert_eq!(
            snapshot(&seed, slot).unwrap().counts.properties,
            1,
            "{slot}"
        );
    }
}

#[test]
fn a_missing_percentage_is_filled_and_nothing_else_is_touched() {
    let rule = r#"{"order":1,"value":3,"rules":[{"segments":[]}]}"#;
    let bare = feature("a", "").replace("[]", &format!("[ {rule}]"));
    let seed = document(&[environment(
        "dev",
        &[bare.clone(), feature("b", IN_BOTH)],
        &[],
    )]);
    let found = snapshot(&seed, "shop/dev").unwrap();
    assert_eq!(found.rollouts_filled, 2);
    let filled = bare
        .replace("{\"name", "{\"rollout_percentage\":100,\"name")
        .replace("{\"order", "{\"rollout_percentage\":100,\"order");
    assert!(json(&found).contains(&compact(&filled)), "{}", json(&found));
    assert_eq!(
        snapshot(json(&found), "shop/dev").unwrap().rollouts_filled,
        0
    );
}

#[test]
fn a_bad_flag_elsewhere_does_not_take_a_slot_down() {
    let bad = feature("bad", IN_STOCK).replace("NUMERIC", "DATE");
    let good = feature("good", IN_SHOP);
    let seed = document(&[
        environment("dev", &[bad.clone(), good.clone()], &[]),
        environment("prod", &[good], &[]),
    ]);
    assert!(snapshot(&seed, "shop/dev").is_ok());
    assert!(snapshot(&seed, "inventory/prod").is_ok());
    let error = snapshot(&seed, "inventory/dev").unwrap_err();
    let item = error.item.clone().unwrap();
    assert_eq!(
        (item.kind, item.id.as_deref()),
        (ItemKind::Feature, Some("bad"))
    );
    assert_eq!(error.path, "$.environments[0].features[0].type");
}

#[test]
fn bad_syntax_anywhere_takes_the_whole_file_down() {
    let seed = document(&[environment("dev", &[], &[]), environment("prod", &[], &[])]);
    let doubled = seed.replace(r#""x":2.0"#, r#""x":2,"x":2"#);
    let error = Seed::parse(doubled.as_bytes(), &LIMITS).err().unwrap();
    assert_eq!(error.path, "$.environments[0].odd[1]");
    let Problem::Json { problem, .. } = error.problem else {
        panic!("{error}");
    };
    assert_eq!(problem, JsonProblem::DuplicateKey { key: "x".into() });
}

#[test]
fn bounds_are_held_exactly() {
    let seed = document(&[environment(
        "dev",
        &[feature("a", IN_BOTH), feature("b", "")],
        &[],
    )]);
    let key = SlotKey::parse("shop/dev").unwrap();
    let bytes = snapshot(&seed, "shop/dev").unwrap().json.len();
    let tight = Limits {
        seed_bytes_max: seed.len(),
        document_bytes_max: bytes,
        items_max: 2,
        ..LIMITS
    };
    let refused = |limits: &Limits| {
        Seed::parse(seed.as_bytes(), limits)
            .and_then(|seed| seed.snapshot(&key, limits))
            .map_err(|error| error.problem)
            .err()
    };
    assert_eq!(refused(&tight), None);
    let bytes_max = bytes - 1;
    let tighter = Limits {
        document_bytes_max: bytes_max,
        ..tight.clone()
    };
    assert_eq!(
        refused(&tighter),
        Some(Problem::TooLarge { bytes, bytes_max })
    );
    let (bytes, bytes_max) = (seed.len(), seed.len() - 1);
    let tighter = Limits {
        seed_bytes_max: bytes_max,
        ..tight.clone()
    };
    assert_eq!(
        refused(&tighter),
        Some(Problem::TooLarge { bytes, bytes_max })
    );
    let tighter = Limits {
        items_max: 1,
        ..tight
    };
    let problem = Problem::TooMany {
        kind: ItemKind::Feature,
        count: 2,
        count_max: 1,
    };
    assert_eq!(refused(&tighter), Some(problem));
}

#[test]
fn what_all_sdks_accept_is_accepted() {
    let fine = [
        r#","rollout_percentage":0,"format":null,"experiment":null,"rollout_configuration":null"#,
        r#","rollout_percentage":100,"rollout_type":"MANUAL","unknown":{"deep":[[]]},"metrics":[]"#,
        r#","description":7,"tags":["not","read","of","features"]"#,
        r#","rollout_configuration":{"start_at":"2026-01-05T08:00:00+01:00","more":1,
            "phases":[{"percentage":10,"duration":null},{"percentage":100,"duration":1,
            "duration_type":"days"}]},"rollout_type":"PROGRESSIVE""#,
    ];
    for rest in fine {
        let seed = document(&[environment("dev", &[feature("a", rest)], &[])]);
        assert_eq!(snapshot(&seed, "shop/dev").map(|_| ()), Ok(()), "{rest}");
    }
}

/// Every subset of items in every arrangement of two environments and white space.
#[test]
fn a_snapshot_is_its_own_snapshot() {
    let memberships = [IN_SHOP, IN_STOCK, IN_BOTH, ""];
    for choice in 0..256_usize {
        let item = |at: usize| memberships[choice >> (2 * at) & 3];
        let features: Vec<_> = (0..4)
            .map(|at| feature(&format!("f{at}"), item(at)))
            .collect();
        let properties: Vec<_> = (0..choice % 3)
            .map(|at| property(&format!("p{at}"), item(at + 1)))
            .collect();
        let mut environments = vec![
            environment("dev", &features, &properties),
            environment("prod", &features[choice % 4..], &[]),
        ];
        environments.rotate_left(choice % 2);
        let mut seed = document(&environments);
        if choice % 5 == 0 {
            seed = seed.replace(',', " ,\n\t");
        }
        for slot in ["shop/dev", "inventory/prod"] {
            let once = snapshot(&seed, slot).unwrap();
            let twice = snapshot(json(&once), slot).unwrap();
            assert_eq!(json(&once), json(&twice), "choice {choice}, {slot}");
            assert_eq!(once.digest, twice.digest);
            assert_eq!(once.counts, twice.counts);
            let (_, environment) = slot.split_once('/').unwrap();
            let first = format!(r#""environments":[{{"environment_id":"{environment}""#);
            assert!(json(&once).contains(&first), "choice {choice}, {slot}");
        }
    }
}

#[test]
fn the_digest_of_a_slot_depends_on_its_own_content_only() {
    let one = environment("dev", &[feature("a", IN_SHOP), feature("b", IN_STOCK)], &[]);
    let other = one.replace("\"N\",\"feature_id\":\"b\"", "\"M\",\"feature_id\":\"b\"");
    let [one, other] = [one, other].map(|environment| document(&[environment]));
    let digest = |seed: &str, slot| snapshot(seed, slot).unwrap().digest;
    assert_ne!(one, other);
    assert_eq!(digest(&one, "shop/dev"), digest(&other, "shop/dev"));
    assert_ne!(
        digest(&one, "inventory/dev"),
        digest(&other, "inventory/dev")
    );
}

/// Damage is either refused or leaves a document that is served as it is; it never panics.
#[test]
fn no_damage_gets_through_half() {
    let rollout = r#","rollout_type":"PROGRESSIVE","rollout_configuration":
        {"start_at":"2026-01-05T08:00:00Z","phases":[{"percentage":10}]}"#;
    let environments = [environment(
        "dev",
        &[feature("a", rollout)],
        &[property("p", "")],
    )];
    let whole = document(&environments).into_bytes();
    let mut state = 7_u64;
    let mut below = |bound: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % bound
    };
    let mut taken = 0;
    for round in 0..6000 {
        let mut bytes = whole.clone();
        for _ in 0..=below(3) {
            let at = below(bytes.len());
            match below(4) {
                0 => bytes[at] = b"{}[]\",:0-9eE.ntf\\u \n\x00\xff"[below(22)],
                1 if bytes.len() > 1 => drop(bytes.remove(at)),
                2 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, b"{}[]\",:01"[below(9)]),
            }
        }
        let key = SlotKey::parse("shop/dev").unwrap();
        let seed = Seed::parse(&bytes, &LIMITS);
        let Ok(once) = seed.and_then(|seed| seed.snapshot(&key, &LIMITS)) else {
            continue;
        };
        taken += 1;
        let twice = snapshot(json(&once), "shop/dev");
        assert_eq!(
            twice.map(|twice| twice.json),
            Ok(once.json),
            "round {round}"
        );
    }
    assert!((100..5000).contains(&taken), "{taken} of 6000 were taken");
}

#[test]
fn an_export_and_an_answer_that_say_the_same_have_one_digest() {
    let answer = document(&[environment(
        "dev",
        &[feature("a", r#","rollout_percentage":7"#)],
        &[property("p", "")],
    )]);
    let export = document(&[environment(
        "dev",
        &[feature("a", IN_BOTH), feature("b", IN_STOCK)],
        &[property(
            "p",
            r#","collections":[{"collection_id":"shop"}]"#,
        )],
    )]);
    let [answer, export] = [answer, export].map(|seed| snapshot(&seed, "shop/dev").unwrap());
    assert_ne!(json(&answer), json(&export));
    assert_eq!(answer.digest, export.digest);
}
