//! Findings as an operator sees them, over real files.

use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

/// 2026-08-01.
const NOW: Wall = Wall::from_unix(1_785_542_400);

const SEED: &str = r#"{ "environments": [ { "name": "Dev", "environment_id": "dev",
    "features": [], "properties": [] } ],
    "collections": [ { "name": "Inventory", "collection_id": "inventory" } ], "segments": [] }"#;

const CONFIG: &str = r#"{
    "listen": "127.0.0.1:7070",
    "tls": { "cert": "relay.crt", "key": "relay.key" },
    "seed": { "file": "seed.json" },
    "instance": { "guid": "g-1" },
    "client_keys": [ { "id": "line", "key_file": "line.key" } ],
    "slots": [ { "collection": "inventory", "environment": "dev" } ],
    "limits": { "connections": 16 } }"#;

/// A folder with everything that a sound configuration names.
struct Site(PathBuf);

impl Site {
    fn new(test: &str) -> Site {
        let name = format!("staffetta-check-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        let site = Site(path);
        site.certify((2025, 1, 1), (2036, 1, 1));
        site.write("line.key", "0123456789abcdef0123456789abcdef\n");
        site.write("seed.json", SEED);
        site.write("config.json", CONFIG);
        site
    }

    fn certify(&self, start: (i32, u8, u8), end: (i32, u8, u8)) {
        let key = rcgen::KeyPair::generate().unwrap();
        let names = ["127.0.0.1", "iam.cloud.ibm.com", "iam.test.cloud.ibm.com"];
        let mut params = rcgen::CertificateParams::new(names.map(str::to_owned)).unwrap();
        params.not_before = rcgen::date_time_ymd(start.0, start.1, start.2);
        params.not_after = rcgen::date_time_ymd(end.0, end.1, end.2);
        self.write("relay.crt", &params.self_signed(&key).unwrap().pem());
        self.write("relay.key", &key.serialize_pem());
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    }

    /// Replaces `from` in the configuration by `to`.
    fn edit(&self, from: &str, to: &str) {
        assert!(CONFIG.contains(from));
        self.write("config.json", &CONFIG.replace(from, to));
    }

    fn check(&self, now: Wall) -> Vec<String> {
        let file = self.0.join("config.json");
        let environment = Environment::new(&file, None, None);
        let report = check(&file, None, &environment, now);
        let line = |finding: &Finding| format!("{:?} {}", finding.severity, finding.line);
        report.findings.iter().map(line).collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn assert_only(lines: &[String], start: &str, part: &str) {
    let fits = |line: &String| line.starts_with(start) && line.contains(part);
    assert!(
        lines.len() == 1 && lines.iter().all(fits),
        "wanted {start} {part}, got {lines:#?}"
    );
}

#[test]
fn a_sound_site_has_no_findings() {
    let site = Site::new("sound");
    assert_eq!(site.check(NOW), Vec::<String>::new());
}

#[test]
fn a_missing_or_broken_config_is_an_error() {
    let site = Site::new("config");
    site.write("config.json", "{");
    assert_only(&site.check(NOW), "Error $", "not valid JSON");
    fs::remove_file(site.0.join("config.json")).unwrap();
    assert_only(&site.check(NOW), "Error ", "there is no such file");
}

#[test]
fn credentials_that_only_the_unit_has_are_warnings() {
    let site = Site::new("credentials");
    let in_unit = |name: &str| format!("${{CREDENTIALS_DIRECTORY}}/{name}");
    site.edit("line.key", &in_unit("line.key"));
    let part = "CREDENTIALS_DIRECTORY is not set";
    assert_only(&site.check(NOW), "Warning $.client_keys[0].key_file", part);
    site.edit("relay.key", &in_unit("relay.key"));
    assert_only(&site.check(NOW), "Warning $.tls.key", part);
    let upstream = format!(
        r#""seed.json" }}, "upstream": {{ "primary": {{ "url": "https://relay.example",
            "api_key_file": "{}", "ca_file": "{}" }} }}"#,
        in_unit("api"),
        in_unit("ca")
    );
    site.edit(r#""seed.json" }"#, &upstream);
    let lines = site.check(NOW);
    assert!(
        lines.iter().all(|line| line.starts_with("Warning ")),
        "{lines:#?}"
    );
}

#[test]
fn each_bad_file_is_named_with_its_path() {
    let other = rcgen::KeyPair::generate().unwrap().serialize_pem();
    let key = "$.client_keys[0].key_file";
    let cases = [
        (
            "line.key",
            "\n",
            format!("Error {key}"),
            "line.key is empty",
        ),
        ("line.key", "two words", format!("Error {key}"), "no header"),
        (
            "line.key",
            "short",
            format!("Warning {key}"),
            "5 characters",
        ),
        (
            "relay.crt",
            "x",
            "Error $.tls.cert".into(),
            "no certificate in",
        ),
        ("relay.key", "x", "Error $.tls.key".into(), "no key in"),
        (
            "relay.key",
            &other,
            "Error $.tls".into(),
            "does not go with",
        ),
        ("seed.json", "", "Error $.seed.file".into(), "seed.json"),
        ("seed.json", "{}", "Error $.seed.file".into(), "seed.json"),
    ];
    let site = Site::new("files");
    for (name, content, start, part) in cases {
        let before = fs::read_to_string(site.0.join(name)).unwrap();
        site.write(name, content);
        assert_only(&site.check(NOW), &start, part);
        site.write(name, &before);
    }
}

#[test]
fn each_missing_file_is_named_with_its_path() {
    let site = Site::new("missing");
    for (name, start) in [
        ("line.key", "Error $.client_keys[0].key_file"),
        ("relay.crt", "Error $.tls.cert"),
        ("relay.key", "Error $.tls.key"),
        ("seed.json", "Error $.seed.file"),
    ] {
        let before = fs::read_to_string(site.0.join(name)).unwrap();
        fs::remove_file(site.0.join(name)).unwrap();
        assert_only(&site.check(NOW), start, "there is no file");
        site.write(name, &before);
    }
}

#[test]
fn secrets_that_all_may_read_are_a_warning() {
    let site = Site::new("open");
    for name in ["line.key", "relay.key"] {
        let path = site.0.join(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_only(&site.check(NOW), "Warning $", "every user of this machine");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
}

#[test]
fn two_files_with_one_secret_are_an_error() {
    let site = Site::new("twins");
    site.write("twin.key", "0123456789abcdef0123456789abcdef");
    let one = r#"{ "id": "line", "key_file": "line.key" }"#;
    let two = format!(r#"{one}, {{ "id": "b", "key_file": "twin.key" }}"#);
    site.edit(one, &two);
    let part = "has the same secret as $.client_keys[0]";
    assert_only(&site.check(NOW), "Error $.client_keys[1]", part);
}

#[test]
fn dates_of_the_certificate_are_held_against_the_clock() {
    let site = Site::new("dates");
    site.certify((2025, 1, 1), (2026, 8, 20));
    assert_only(&site.check(NOW), "Warning $.tls.cert", "ends on 2026-08-20");
    let late = Wall::from_unix(1_798_761_600);
    assert_only(&site.check(late), "Error $.tls.cert", "ended on 2026-08-20");
    let early = Wall::from_unix(1_710_000_000);
    assert_only(
        &site.check(early),
        "Error $.tls.cert",
        "not valid before 2025-01-01",
    );
    let never_set = Wall::from_unix(60);
    assert_only(&site.check(never_set), "Warning the clock", "was never set");
}

#[test]
fn names_that_the_certificate_lacks_are_a_warning() {
    let site = Site::new("names");
    site.edit(r#""guid": "g-1""#, r#""guid": "g-1", "region": "eu-de""#);
    let part = "is not for eu-de.apprapp.cloud.ibm.com";
    assert_only(&site.check(NOW), "Warning $.tls.cert", part);
    site.edit("127.0.0.1:7070", "10.0.0.7:7070");
    assert_only(
        &site.check(NOW),
        "Warning $.listen[0]",
        "is not for 10.0.0.7",
    );
}

#[test]
fn a_slot_that_the_seed_lacks_is_an_error() {
    let site = Site::new("slot");
    site.edit(r#""environment": "dev""#, r#""environment": "prod""#);
    assert_only(
        &site.check(NOW),
        "Error $.slots[0]: inventory/prod",
        "seed.json",
    );
}

/// The site with an upstream of these keys besides its URL.
fn with_upstream(site: &Site, keys: &str) {
    let guid = r#""instance": { "guid": "g-1" },"#;
    let folder = site.0.display();
    let upstream = format!(
        r#"{guid} "state_dir": "{folder}",
        "upstream": {{ "primary": {{ "url": "https://up.example", {keys} }} }},"#
    );
    site.edit(guid, &upstream);
}

#[test]
fn an_upstream_with_its_files_has_no_findings() {
    let site = Site::new("upstream");
    site.write("ibm.key", "key\n");
    with_upstream(
        &site,
        r#""api_key_file": "ibm.key", "ca_file": "relay.crt""#,
    );
    assert_eq!(site.check(NOW), Vec::<String>::new());
}

#[test]
fn each_bad_file_of_an_upstream_is_named_with_its_path() {
    let site = Site::new("upstream-files");
    let key = "Error $.upstream.primary.api_key_file";
    with_upstream(&site, r#""api_key_file": "ibm.key""#);
    assert_only(&site.check(NOW), key, "there is no file");
    site.write("ibm.key", "");
    assert_only(&site.check(NOW), key, "ibm.key is empty");
    site.write("ibm.key", "two words");
    assert_only(&site.check(NOW), key, "holds a space");
    site.write("ibm.key", "key");
    let path = site.0.join("ibm.key");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert_only(&site.check(NOW), "Warning $", "every user of this machine");
    with_upstream(&site, r#""api_key": "k", "ca_file": "seed.json""#);
    let part = "seed.json: holds no certificate";
    assert_only(&site.check(NOW), "Error $.upstream.primary.ca_file", part);
    with_upstream(&site, r#""api_key": "k", "ca_file": "none.crt""#);
    let part = "none.crt: no such file";
    assert_only(&site.check(NOW), "Error $.upstream.primary.ca_file", part);
}

#[test]
fn a_state_folder_that_is_not_there_is_a_warning() {
    let site = Site::new("upstream-state");
    let guid = r#""instance": { "guid": "g-1" },"#;
    let upstream = format!(
        r#"{guid} "state_dir": "nowhere",
        "upstream": {{ "primary": {{ "url": "https://up.example", "api_key": "k" }} }},"#
    );
    site.edit(guid, &upstream);
    assert_only(
        &site.check(NOW),
        "Warning $.state_dir",
        "there is no folder",
    );
}

#[test]
fn the_sample_with_upstreams_has_no_errors() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let file = seeds.join("upstream-config.json");
    let report = check(&file, None, &Environment::new(&file, None, None), NOW);
    assert_eq!(report.count(Severity::Error), 0, "{:#?}", report.findings);
    assert_eq!(
        report
            .sound
            .iter()
            .filter(|line| line.ends_with("(not asked)"))
            .count(),
        2,
        "{:#?}",
        report.sound
    );
}

/// A record of two nodes, one of which is reached without TLS.
const RECORD: &str = r#"{ "schema": "staffetta.region/1", "cluster": "plant", "version": 7,
    "issued_at": "2026-06-30T09:00:00Z",
    "timing": { "max_skew_ms": 200, "guard_ms": 200, "grace_ms": 300, "drain_ms": 100,
                "hold_ms": 2000, "poll_ms": 200 },
    "regions": {
        "au": { "writer": "au-1", "nodes": { "au-1": "http://10.0.0.1:7070" } },
        "eu": { "writer": "eu-1", "nodes": { "eu-1": "https://10.0.0.2:7070" } } },
    "slots": [ { "match": {}, "primary": "au", "epoch": 5, "switches": [] } ] }"#;

#[test]
fn what_a_region_takes_is_looked_at_as_the_relay_does() {
    let site = Site::new("region");
    let slots = r#""environment": "dev" } ],"#;
    let region = r#""region": { "node": "us-1", "record": "region.json", "trust": "none",
        "peer_key_file": "peer.key" },"#;
    let operators = r#""environment": "dev", "source": "operator" } ], "state_dir": "s","#;
    site.edit(slots, &format!("{operators} {region}"));
    site.write("peer.key", "short\n");
    site.write("region.json", RECORD);
    let lines = site.check(NOW);
    let is_said = |start: &str| lines.iter().any(|line| line.starts_with(start));
    let is_short = is_said("Error $.region.peer_key_file: at least 32");
    assert!(is_short, "{lines:?}");
    let is_bare = is_said("Error $.region.record: ");
    assert!(is_bare, "a document is no record: {lines:?}");
    site.write("peer.key", "0123456789abcdef0123456789abcdef\n");
    let record = crate::wire::region::pack(RECORD.as_bytes(), None);
    site.write("region.json", &record);
    let lines = site.check(NOW).join("\n");
    assert!(!lines.contains("Error"), "{lines}");
    assert!(lines.contains("no node us-1"), "{lines}");
    assert!(lines.contains("along the way: au-1"), "{lines}");
}
