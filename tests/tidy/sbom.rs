//! The list of what is in a relay, as `cross/dist` hands it out, is complete.
//!
//! The list itself says what is linked in, and fails when it does not know what a crate of
//! cryptography is for; here it is held against the lock file, read on its own.

use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

fn list() -> Value {
    let output = Command::new("python3")
        .args(["cross/sbom", "x86_64-unknown-linux-musl"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("python3 runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// `name@version` of every package in the lock file but our own.
fn locked() -> BTreeSet<String> {
    let lock = include_str!("../../Cargo.lock");
    let value = |line: Option<&str>, key: &str| {
        let value = line.and_then(|line| line.strip_prefix(key));
        value.map(|value| value.trim_matches('"').to_owned())
    };
    let packages = lock.split("[[package]]\n").skip(1).map(|package| {
        let mut lines = package.lines();
        let name = value(lines.next(), "name = ").expect("a name first");
        let version = value(lines.next(), "version = ").expect("then a version");
        format!("{name}@{version}")
    });
    let ours = format!("staffetta@{}", env!("CARGO_PKG_VERSION"));
    packages.filter(|package| *package != ours).collect()
}

#[test]
fn every_crate_and_the_cryptography_is_listed() {
    let list = list();
    let components = list["components"].as_array().expect("components");
    let of_scope = |scope: Option<&str>| -> BTreeSet<String> {
        let fits = |component: &&Value| scope.is_none_or(|scope| component["scope"] == scope);
        let found = components.iter().filter(fits);
        found
            .filter_map(|component| component["bom-ref"].as_str())
            .map(str::to_owned)
            .collect()
    };
    let (all, linked) = (of_scope(None), of_scope(Some("required")));
    let locked = locked();
    let missing: Vec<&String> = locked.difference(&all).collect();
    assert!(locked.len() > 100 && missing.is_empty(), "{missing:?}");
    for name in ["musl", "ring", "rustls", "minisign-verify", "sha1"] {
        let is_linked = |component: &String| component.split('@').next() == Some(name);
        assert!(linked.iter().any(is_linked), "{name}");
    }
    let properties = list["metadata"]["properties"].as_array().expect("some");
    let values = properties.iter().filter(|property| {
        let name = property["name"].as_str().unwrap_or_default();
        name.starts_with("staffetta:cryptography:")
    });
    let text: String = values.filter_map(|value| value["value"].as_str()).collect();
    for algorithm in ["AES-256-GCM", "BLAKE2b", "Ed25519", "SHA-1,", "SHA-512"] {
        assert!(text.contains(algorithm), "{algorithm} in {text}");
    }
}
