//! Records as they come, and everything that is refused.

use super::*;
use crate::limits::Limits;
use crate::model::region::{Epoch, Record, Subject};
use crate::wire::json::JsonProblem;
use crate::wire::json::slice::Kind;

/// The contract's own example, as `text` writes it.
const DOCUMENT: &str = include_str!("../../../tests/records/plant-7.json");

/// What minisign 0.11 made of it.
const SIGNATURE: &str = include_str!("../../../tests/records/plant-7.json.minisig");
const SIGNER: &str = "RWRpEGf+AKmKXzFJisjQVMzM1XbZJLFEMoxktihjO4LBZomcxZn3TX9W";
const OTHER_SIGNER: &str = "RWRuT1B24xp3bB8/lHo+PWwZQAsNoQxRuDfFHpS5XXtEV9Bd70YWsT2x";

/// The same with `-l`.
const LEGACY: &str = include_str!("../../../tests/records/legacy.minisig");

fn read(text: &str) -> Result<Record, RecordError> {
    super::read(text.as_bytes(), &Limits::PRODUCTION)
}

/// The example with one thing changed is refused for that.
fn refused(from: &str, to: &str) -> (String, RecordProblem) {
    assert!(DOCUMENT.contains(from), "{from}");
    let error = read(&DOCUMENT.replacen(from, to, 1)).unwrap_err();
    (error.path, error.problem)
}

fn sealed() -> Envelope {
    Envelope {
        document: DOCUMENT.into(),
        signature: Some(SIGNATURE.into()),
    }
}

fn signers(keys: &[&str]) -> Vec<Signer> {
    keys.iter().map(|key| Signer::parse(key).unwrap()).collect()
}

#[test]
fn the_example_of_the_contract_is_read() {
    let record = read(DOCUMENT).unwrap();
    assert_eq!(record.cluster.as_str(), "plant-7");
    assert_eq!((record.version, record.nodes.len()), (42, 3));
    assert_eq!(record.node_name(record.classes[1].primary.writer), "au-1");
    let slot = Subject::parse("line3/dev").unwrap();
    assert_eq!(record.class_of(&slot).unwrap().epoch, Epoch(5));
    let route = Subject::parse("route:orders").unwrap();
    assert_eq!(record.class_of(&route).unwrap().epoch, Epoch(100));
    assert_eq!(record.classes[1].rotation.as_ref().unwrap().legs.len(), 2);
}

#[test]
fn a_record_is_written_as_it_was_read() {
    assert_eq!(write(&read(DOCUMENT).unwrap()), DOCUMENT);
}

#[test]
fn what_minisign_signed_is_verified_over_the_exact_bytes() {
    let keys = signers(&[OTHER_SIGNER, SIGNER]);
    assert_eq!(sealed().verify(&keys), Ok(String::from("5F8AA900FE671069")));
    let mut changed = sealed();
    changed.document.push(b' ');
    let refused = changed.verify(&keys).unwrap_err().problem;
    assert_eq!(refused, RecordProblem::BadSignature);
}

#[test]
fn a_signature_of_somebody_else_is_none() {
    let refused = sealed().verify(&signers(&[OTHER_SIGNER])).unwrap_err();
    let id = String::from("\"5F8AA900FE671069\"");
    assert_eq!(refused.problem, RecordProblem::UnknownSigner { id });
    let with = |signature: Option<&str>| {
        let envelope = Envelope {
            signature: signature.map(String::from),
            ..sealed()
        };
        envelope.verify(&signers(&[SIGNER])).unwrap_err().problem
    };
    assert_eq!(with(None), RecordProblem::Unsigned);
    for bad in [
        "",
        "a\nb\nc\nd",
        LEGACY,
        &SIGNATURE.replace("plant-7", "plant-8"),
    ] {
        let problem = with(Some(bad));
        let expected = [RecordProblem::NotASignature, RecordProblem::BadSignature];
        assert!(expected.contains(&problem), "{problem:?}");
    }
}

#[test]
fn what_is_packed_is_unpacked() {
    let limits = Limits::PRODUCTION;
    let packed = pack(DOCUMENT.as_bytes(), Some(SIGNATURE));
    assert_eq!(unpack(packed.as_bytes(), &limits), Ok(sealed()));
    let unsigned = unpack(pack(b"{}", None).as_bytes(), &limits).unwrap();
    assert_eq!(unsigned.signature, None);
}

#[test]
fn an_envelope_that_is_none_is_refused() {
    let limits = Limits::PRODUCTION;
    let problem = |text: &str| unpack(text.as_bytes(), &limits).unwrap_err().problem;
    assert_eq!(problem(r#"{"document":"e30"}"#), RecordProblem::NotBase64);
    assert_eq!(problem("{}"), RecordProblem::Missing);
    assert_eq!(
        problem(r#"{"document":"e30=","by":"me"}"#),
        RecordProblem::UnknownKey
    );
    let bytes_max = limits.region.record_bytes_max;
    let large = "x".repeat(bytes_max + 1);
    assert_eq!(problem(&large), RecordProblem::TooLarge { bytes_max });
    let key = String::from("document");
    let twice = RecordProblem::Json(JsonProblem::DuplicateKey { key });
    assert_eq!(problem(r#"{"document":"e30=","document":"e30="}"#), twice);
}

#[test]
fn what_is_no_text_of_a_record_is_refused() {
    assert_eq!(
        read("").unwrap_err().problem,
        RecordProblem::Json(JsonProblem::Empty)
    );
    let (path, problem) = refused("\"version\": 42", "\"version\": 42, \"version\": 43");
    let key = String::from("version");
    assert_eq!(
        (path.as_str(), problem),
        ("$", RecordProblem::Json(JsonProblem::DuplicateKey { key }))
    );
    let (path, problem) = refused("region/1", "region/2");
    let found = String::from("\"staffetta.region/2\"");
    assert_eq!(
        (path.as_str(), problem),
        ("$.schema", RecordProblem::WrongSchema { found })
    );
    let (path, problem) = refused("\"switches\": []", "\"switchs\": []");
    assert_eq!(
        (path.as_str(), problem),
        ("$.slots[0].switchs", RecordProblem::UnknownKey)
    );
    let (path, problem) = refused("\"writer\": \"au-1\", ", "");
    assert_eq!(
        (path.as_str(), problem),
        ("$.regions.au.writer", RecordProblem::Missing)
    );
    let (path, problem) = refused("\"version\": 42", "\"version\": \"42\"");
    let wrong = RecordProblem::WrongKind {
        expected: "a whole number",
        found: Kind::String,
    };
    assert_eq!((path.as_str(), problem), ("$.version", wrong));
    for number in ["0", "-1", "1.5", "1e3", "9007199254740993"] {
        let (_, problem) = refused("\"version\": 42", &format!("\"version\": {number}"));
        let range = RecordProblem::OutOfRange {
            from: 1,
            to: NUMBER_MAX,
        };
        assert_eq!(problem, range, "{number}");
    }
}

#[test]
fn names_times_and_places_that_are_none_are_refused() {
    let (path, problem) = refused("plant-7", "plant 7");
    assert_eq!(
        (path.as_str(), problem),
        ("$.cluster", RecordProblem::NotAnId)
    );
    let (path, problem) = refused("\"eu-2\":", "\"eu/2\":");
    assert_eq!(
        (path.as_str(), problem),
        ("$.regions.eu.nodes[\"eu/2\"]", RecordProblem::NotAnId)
    );
    let (path, problem) = refused("09:00:00Z", "09:00:00+02:00");
    assert_eq!(
        (path.as_str(), problem),
        ("$.issued_at", RecordProblem::NotATime)
    );
    for url in [
        "ftp://10.61.0.5",
        "https://",
        "https://a/b",
        "https://a?b",
        "https://me@a",
        "https://a:99999",
        "https://a:",
        "https://[::1",
        "https://a b",
    ] {
        let (_, problem) = refused("https://10.61.0.5:7070", url);
        assert_eq!(problem, RecordProblem::NotAUrl, "{url}");
    }
}

#[test]
fn nobody_is_called_like_another_or_lives_with_him() {
    let (path, problem) = refused("\"au-1\": \"", "\"eu-1\": \"http://[::1]:1\", \"au-1\": \"");
    assert_eq!(
        (path.as_str(), problem),
        ("$.regions.eu.nodes[\"eu-1\"]", RecordProblem::DuplicateNode)
    );
    let (_, problem) = refused("https://10.49.0.6:7070", "HTTPS://10.61.0.5:7070/");
    assert_eq!(problem, RecordProblem::DuplicateUrl);
}

#[test]
fn references_lead_somewhere() {
    let name = |name: &str| format!("{name:?}");
    let (path, problem) = refused("\"writer\": \"eu-1\"", "\"writer\": \"au-1\"");
    let unknown = RecordProblem::UnknownWriter { name: name("au-1") };
    assert_eq!((path.as_str(), problem), ("$.regions.eu.writer", unknown));
    for (from, to, place) in [
        (
            "\"primary\": \"eu\"",
            "\"primary\": \"us\"",
            "$.slots[0].primary",
        ),
        (
            "\"to\": \"eu\", \"epoch\"",
            "\"to\": \"us\", \"epoch\"",
            "$.slots[1].switches[0].to",
        ),
        (
            "0, \"to\": \"au\"",
            "0, \"to\": \"us\"",
            "$.slots[1].rotation.legs[0].to",
        ),
    ] {
        let (path, problem) = refused(from, to);
        let unknown = RecordProblem::UnknownRegion { name: name("us") };
        assert_eq!((path.as_str(), problem), (place, unknown));
    }
}

#[test]
fn a_guard_below_the_skew_is_none() {
    let (path, problem) = refused("\"guard_ms\": 2000", "\"guard_ms\": 1999");
    assert_eq!(
        (path.as_str(), problem),
        ("$.timing.guard_ms", RecordProblem::GuardBelowSkew)
    );
}

#[test]
fn everything_is_matched_and_nothing_for_nothing() {
    let (path, problem) = refused("{ \"match\": {}", "{ \"match\": { \"route\": \"orders\" }");
    assert_eq!(
        (path.as_str(), problem),
        ("$.slots", RecordProblem::NoCatchAll)
    );
    let (path, problem) = refused("{ \"collection\": \"line3\" }", "{}");
    assert_eq!(
        (path.as_str(), problem),
        ("$.slots[1]", RecordProblem::Unreachable)
    );
    let mixed = "{ \"collection\": \"line3\", \"route\": \"orders\" }";
    let (path, problem) = refused("{ \"collection\": \"line3\" }", mixed);
    assert_eq!(
        (path.as_str(), problem),
        ("$.slots[0].match", RecordProblem::MixedMatch)
    );
}

#[test]
fn times_and_epochs_rise_with_room_between_them() {
    let switch = "\"epoch\": 101 }";
    let with = |at: &str, epoch: u64| {
        let second =
            format!("{switch}, {{ \"at\": \"{at}\", \"to\": \"au\", \"epoch\": {epoch} }}");
        refused(switch, &second)
    };
    let (path, problem) = with("2026-07-01T06:00:00Z", 102);
    assert_eq!(
        (path.as_str(), problem),
        ("$.slots[1].switches[1].at", RecordProblem::TimesNotRising)
    );
    let (path, problem) = with("2026-07-01T06:00:18.999Z", 102);
    let close = RecordProblem::TooClose {
        found_ms: 18_999,
        least_ms: 19_000,
    };
    assert_eq!(
        (path.as_str(), problem),
        ("$.slots[1].switches[1].at", close)
    );
    let (path, problem) = with("2026-07-01T07:00:00Z", 101);
    assert_eq!(
        (path.as_str(), problem),
        (
            "$.slots[1].switches[1].epoch",
            RecordProblem::EpochsNotRising
        )
    );
    let (path, problem) = refused("\"epoch\": 101", "\"epoch\": 100");
    assert_eq!(
        (path.as_str(), problem),
        (
            "$.slots[1].switches[0].epoch",
            RecordProblem::EpochsNotRising
        )
    );
}

#[test]
fn a_rotation_keeps_its_distance_around_its_end_and_from_what_is_planned() {
    let (path, problem) = refused("\"epoch0\": 102", "\"epoch0\": 101");
    assert_eq!(
        (path.as_str(), problem),
        ("$.slots[1].rotation.epoch0", RecordProblem::EpochsNotRising)
    );
    let (path, problem) = refused("07-02T00:00:00Z", "07-01T06:00:01Z");
    assert!(
        matches!(problem, RecordProblem::TooClose { .. }),
        "{problem:?}"
    );
    assert_eq!(path, "$.slots[1].rotation.anchor");
    let (path, problem) = refused("28800", "18");
    assert!(
        matches!(problem, RecordProblem::TooClose { .. }),
        "{problem:?}"
    );
    assert_eq!(path, "$.slots[1].rotation.legs[1].offset_s");
    let (path, problem) = refused("28800", "86390");
    assert!(
        matches!(problem, RecordProblem::TooClose { .. }),
        "{problem:?}"
    );
    assert_eq!(path, "$.slots[1].rotation.period_s");
    let (_, problem) = refused("28800", "0");
    assert_eq!(problem, RecordProblem::TimesNotRising);
    let (_, problem) = refused("28800", "86400");
    assert_eq!(problem, RecordProblem::BeyondPeriod);
    let legs = "[{ \"offset_s\": 0, \"to\": \"au\" }, { \"offset_s\": 28800, \"to\": \"eu\" }]";
    let (_, problem) = refused(legs, "[]");
    assert_eq!(problem, RecordProblem::Empty);
}

#[test]
fn refusals_say_where_and_what_in_one_line() {
    let changed = DOCUMENT.replace("\"epoch\": 101", "\"epoch\": 9");
    let error = read(&changed).unwrap_err().to_string();
    let expected = "must be greater than the epoch before, in $.slots[1].switches[0].epoch";
    assert_eq!(error, expected);
}

#[test]
fn no_cut_or_changed_byte_makes_a_reader_panic() {
    let packed = pack(DOCUMENT.as_bytes(), Some(SIGNATURE));
    let keys = signers(&[SIGNER]);
    let mut random = fastrand::Rng::with_seed(7);
    let mut verified = 0;
    for _ in 0..3_000 {
        let mut bytes = packed.clone().into_bytes();
        let at = random.usize(0..bytes.len());
        match random.u32(0..4) {
            0 => bytes.truncate(at),
            _ => bytes[at] = random.u8(..),
        }
        if let Ok(envelope) = unpack(&bytes, &Limits::PRODUCTION) {
            verified += u32::from(envelope.verify(&keys).is_ok());
            let _ = super::read(&envelope.document, &Limits::PRODUCTION);
        }
        let mut document = DOCUMENT.as_bytes().to_vec();
        document[at % DOCUMENT.len()] = random.u8(..);
        if let Ok(record) = super::read(&document, &Limits::PRODUCTION) {
            let again = read(&write(&record)).unwrap();
            assert_eq!(write(&again), write(&record));
        }
    }
    assert!(verified < 300, "hardly a change was found: {verified}");
}
