//! The mistakes that `region` can have, and what is read of it.

use super::super::*;
use std::path::Path;

/// A key that minisign has made.
const SIGNER: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
const PEER_KEY: &str = "a-peer-key-of-thirty-two-letters";

/// A file with a slot of the operator, `region` of these keys, and `extra` ones.
fn file(region: &str, extra: &str) -> String {
    format!(
        r#"{{ {extra} "region": {{ {region} }}, "tls": {{ "cert": "c", "key": "k" }},
            "instance": {{ "guid": "g-1" }}, "client_keys": [ {{ "id": "a", "key": "k" }} ],
            "slots": [ {{ "collection": "c", "environment": "e", "source": "operator" }} ] }}"#
    )
}

fn sound() -> String {
    format!(r#""node": "eu-1", "public_keys": ["{SIGNER}"], "peer_key": "{PEER_KEY}""#)
}

fn parse(text: &str) -> Result<Config, Vec<ConfigError>> {
    let path = Path::new("/etc/staffetta/config.json");
    let environment = Environment::new(path, None, None);
    Config::parse(text.as_bytes(), &environment, &Limits::PRODUCTION)
}

/// Each line of the error list, as it is printed.
fn errors(text: &str) -> Vec<String> {
    let errors = parse(text).expect_err(text);
    errors.iter().map(ConfigError::to_string).collect()
}

const STATE: &str = r#""state_dir": "/s","#;

#[test]
fn all_keys_are_read() {
    let region = r#""node": "eu-1", "record": "region.json", "trust": "none",
        "peer_key_file": "/k/peer.key", "ca_file": "peers.pem""#;
    let config = parse(&file(region, STATE)).unwrap();
    let region = config.region.unwrap();
    assert_eq!(region.node.as_str(), "eu-1");
    let record = region.record.unwrap();
    assert_eq!(record, Path::new("/etc/staffetta/region.json"));
    assert_eq!(region.trust, RecordTrust::Unsigned);
    let key = SecretSource::File("/k/peer.key".into());
    assert_eq!(region.peer_key, key);
    assert_eq!(
        region.ca_file.as_deref(),
        Some(Path::new("/etc/staffetta/peers.pem"))
    );
}

#[test]
fn records_have_to_be_signed_unless_it_is_said() {
    let signed = parse(&file(&sound(), STATE)).unwrap();
    assert!(signed.warnings.is_empty(), "{:?}", signed.warnings);
    let trust = signed.region.unwrap().trust;
    assert_eq!(trust, RecordTrust::Signed(vec![SIGNER.to_owned()]));
    let unsigned = format!(r#""node": "eu-1", "trust": "none", "peer_key": "{PEER_KEY}""#);
    let unsigned = parse(&file(&unsigned, STATE)).unwrap();
    let warnings: Vec<String> = unsigned.warnings.iter().map(ToString::to_string).collect();
    assert!(
        warnings.len() == 1 && warnings[0].starts_with("$.region.trust: "),
        "{warnings:?}"
    );
}

#[test]
fn each_mistake_is_named_with_its_path() {
    let sound = sound();
    for (from, to, path, part) in [
        (r#""node": "eu-1","#, "", "node", "is missing"),
        ("eu-1", "eu 1", "node", "is no identifier"),
        ("\"node\"", "\"name\": 1, \"node\"", "name", "unknown key"),
        (SIGNER, "RWQf6LRC", "public_keys[0]", "minisign"),
        (&format!("[\"{SIGNER}\"]"), "[]", "public_keys", "is empty"),
        (
            &format!("\"public_keys\": [\"{SIGNER}\"],"),
            "",
            "public_keys",
            "`\"trust\": \"none\"`",
        ),
        (
            "\"node\"",
            "\"trust\": \"none\", \"node\"",
            "public_keys",
            "excludes `trust`",
        ),
        (
            "\"node\"",
            "\"trust\": \"some\", \"node\"",
            "trust",
            "signed, none",
        ),
        (PEER_KEY, "short", "peer_key", "at least 32 characters"),
        (
            &format!(", \"peer_key\": \"{PEER_KEY}\""),
            "",
            "",
            "needs `peer_key_file` or `peer_key`",
        ),
    ] {
        let edited = sound.replacen(from, to, 1);
        assert_ne!(edited, sound, "{from}");
        let lines = errors(&file(&edited, STATE));
        let dot = if path.is_empty() { "" } else { "." };
        let start = format!("$.region{dot}{path}: ");
        let fits = |line: &String| line.starts_with(&start) && line.contains(part);
        assert!(
            lines.len() == 1 && lines.iter().all(fits),
            "wanted {start}{part}, got {lines:#?}"
        );
    }
}

#[test]
fn a_word_has_to_be_kept_and_be_about_something() {
    let lines = errors(&file(&sound(), ""));
    let is_said = lines
        .iter()
        .any(|line| line.starts_with("$.region: ") && line.contains("`state_dir`"));
    assert!(is_said, "{lines:#?}");
    let text = file(
        &sound(),
        &format!("{STATE} \"seed\": {{ \"file\": \"s\" }},"),
    );
    let lines = errors(&text.replacen(r#", "source": "operator""#, "", 1));
    assert!(
        lines.len() == 1 && lines[0].contains("nothing to route"),
        "{lines:#?}"
    );
}

#[test]
fn no_client_key_is_called_as_peers_are() {
    let text = file(&sound(), STATE).replace(r#""id": "a""#, r#""id": "region.peers""#);
    let errors = errors(&text);
    let place = "$.client_keys[0].id: is what the nodes";
    assert!(
        errors.len() == 1 && errors[0].starts_with(place),
        "{errors:?}"
    );
}
