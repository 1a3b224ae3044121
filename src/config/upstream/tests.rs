//! The mistakes that `upstream`, `events` and a normal start can have, and what is read of them.

use super::super::*;
use crate::time::Duration;
use std::path::Path;

/// The smallest valid file, with `extra` keys in front.
fn file(extra: &str) -> String {
    format!(
        r#"{{ {extra} "state_dir": "/s", "tls": {{ "cert": "c", "key": "k" }},
            "instance": {{ "guid": "g-1" }}, "client_keys": [ {{ "id": "a", "key": "k" }} ],
            "slots": [ {{ "collection": "inventory", "environment": "dev" }} ] }}"#
    )
}

/// A primary of these keys.
fn upstream(primary: &str) -> String {
    file(&format!(r#""upstream": {{ "primary": {{ {primary} }} }},"#))
}

const PRIMARY: &str = r#""url": "https://a.example", "api_key": "key-1""#;

fn parse_in(text: &str, environment: &Environment) -> Result<Config, Vec<ConfigError>> {
    Config::parse(text.as_bytes(), environment, &Limits::PRODUCTION)
}

fn parse(text: &str) -> Result<Config, Vec<ConfigError>> {
    let path = Path::new("/etc/staffetta/config.json");
    parse_in(text, &Environment::new(path, None, None))
}

fn read(text: &str) -> Upstreams {
    parse(text).expect(text).upstream.expect(text)
}

/// Each line of the error list, as it is printed.
fn errors(text: &str) -> Vec<String> {
    let errors = parse(text).expect_err(text);
    errors.iter().map(ConfigError::to_string).collect()
}

fn warnings(text: &str) -> Vec<String> {
    let config = parse(text).expect(text);
    config.warnings.iter().map(ToString::to_string).collect()
}

fn assert_only(lines: &[String], start: &str, part: &str) {
    let fits = |line: &String| line.starts_with(start) && line.contains(part);
    assert!(
        lines.len() == 1 && lines.iter().all(fits),
        "wanted {start} {part}, got {lines:#?}"
    );
}

#[test]
fn each_mistake_about_an_upstream_is_named_with_its_path() {
    let key = r#""api_key": "k""#;
    for (primary, path, part) in [
        (key.to_owned(), "primary.url", "is missing"),
        (
            format!(r#""url": "a.example", {key}"#),
            "primary.url",
            "begin with",
        ),
        (
            format!(r#""url": "https://a?b", {key}"#),
            "primary.url",
            "without `?`",
        ),
        (
            r#""url": "https://a""#.into(),
            "primary",
            "needs `api_key_file` or `api_key`",
        ),
        (
            format!(r#"{PRIMARY}, "api_key_file": "f""#),
            "primary.api_key",
            "excludes `api_key_file`",
        ),
        (
            format!(r#"{PRIMARY}, "guid": "a/b""#),
            "primary.guid",
            "no identifier",
        ),
        (
            format!(r#"{PRIMARY}, "iam_url": "x""#),
            "primary.iam_url",
            "begin with",
        ),
        (
            format!(r#"{PRIMARY}, "ca_file": """#),
            "primary.ca_file",
            "is empty",
        ),
        (
            format!(r#"{PRIMARY}, "proxy": "https://p""#),
            "primary.proxy",
            "is spoken to by",
        ),
        (
            format!(r#"{PRIMARY}, "uri": "x""#),
            "primary.uri",
            "did you mean `url`?",
        ),
    ] {
        let path = format!("$.upstream.{path}: ");
        assert_only(&errors(&upstream(&primary)), &path, part);
    }
}

#[test]
fn each_mistake_beside_the_upstreams_is_named_with_its_path() {
    let primary = format!(r#""primary": {{ {PRIMARY} }}"#);
    let with = |keys: &str| format!(r#""upstream": {{ {primary}, {keys} }},"#);
    let events = |keys: &str| format!(r#""upstream": {{ {primary} }}, "events": {{ {keys} }},"#);
    for (extra, path, part) in [
        (
            r#""upstream": {},"#.into(),
            "upstream.primary",
            "is missing",
        ),
        (
            with(r#""retry_primary_s": 4"#),
            "upstream.retry_primary_s",
            "from 5 to 3600",
        ),
        (with(r#""retry": 15"#), "upstream.retry", "unknown key"),
        (
            with(r#""backup": { "url": "https://A.example:443/", "api_key": "other" }"#),
            "upstream.backup",
            "is the same as $.upstream.primary",
        ),
        (
            with(r#""backup": { "url": "https://b.example" }"#),
            "upstream.backup",
            "needs `api_key_file`",
        ),
        (
            events(r#""spool_bytes": 1"#),
            "events.spool_bytes",
            "from 262144 to 1073741824",
        ),
        (
            events(r#""spool_bytes": "2GiB""#),
            "events.spool_bytes",
            "from 262144",
        ),
        (
            events(r#""spool_byte": 1"#),
            "events.spool_byte",
            "did you mean `spool_bytes`?",
        ),
        (
            r#""start": "normal","#.into(),
            "start",
            "there is none: add `upstream`",
        ),
        (
            r#""start_timeout_s": 0,"#.into(),
            "start_timeout_s",
            "from 1 to 3600",
        ),
    ] {
        assert_only(&errors(&file(&extra)), &format!("$.{path}: "), part);
    }
}

#[test]
fn all_mistakes_of_both_upstreams_are_found_at_once() {
    let lines = errors(&file(
        r#""start": "normal", "start_timeout_s": "2m", "events": 7, "upstream": {
            "primary": { "url": 1, "guid": 2, "api_key": "", "iam_url": 3, "ca_file": 4 },
            "backup": { "proxy": 5, "odd": 6 }, "retry_primary_s": -1 },"#,
    ));
    assert_eq!(lines.len(), 12, "{lines:#?}");
}

#[test]
fn what_is_left_out_has_its_default() {
    let config = parse(&upstream(PRIMARY)).unwrap();
    assert_eq!(config.events.spool_bytes, 8 << 20);
    assert_eq!(config.start_timeout, Duration::from_secs(120));
    assert_eq!(config.warnings, []);
    let upstreams = config.upstream.unwrap();
    assert_eq!(upstreams.retry_primary, Duration::from_secs(15));
    assert!(upstreams.backup.is_none());
    let primary = upstreams.primary;
    assert_eq!(primary.guid.as_str(), "g-1");
    assert!(primary.iam_url.is_none() && primary.ca_file.is_none() && primary.proxy.is_none());
}

#[test]
fn whole_upstreams_are_read() {
    let config = parse(&file(
        r#""start": "normal", "start_timeout_s": 60, "events": { "spool_bytes": "1 MiB" },
        "upstream": { "retry_primary_s": 30,
            "primary": { "url": "https://eu-de.apprapp.cloud.ibm.com", "guid": "g-2",
                "api_key_file": "ibm.key", "proxy": "http://proxy:3128" },
            "backup": { "url": "http://[::1]:7070/up", "api_key": "k",
                "iam_url": "https://iam.example", "ca_file": "ca.crt" } },"#,
    ));
    let config = config.unwrap();
    assert_eq!(config.start_timeout, Duration::from_secs(60));
    assert_eq!(config.events.spool_bytes, 1 << 20);
    let upstreams = config.upstream.unwrap();
    assert_eq!(upstreams.retry_primary, Duration::from_secs(30));
    let (primary, backup) = (upstreams.primary, upstreams.backup.unwrap());
    assert_eq!(primary.guid.as_str(), "g-2");
    let key = SecretSource::File("/etc/staffetta/ibm.key".into());
    assert_eq!(primary.api_key, key);
    let proxy = primary.proxy_to(&primary.url).unwrap();
    assert_eq!(proxy.to_string(), "http://proxy:3128");
    assert_eq!(backup.url.to_string(), "http://[::1]:7070/up");
    assert_eq!(backup.guid.as_str(), "g-1");
    assert_eq!(backup.iam_url.unwrap().to_string(), "https://iam.example");
    assert_eq!(backup.ca_file.unwrap(), Path::new("/etc/staffetta/ca.crt"));
    assert!(backup.proxy.is_none());
}

#[test]
fn one_place_with_two_instances_is_two_upstreams() {
    let backup = r#""backup": { "url": "https://a.example", "guid": "g-2", "api_key": "k" }"#;
    let text = file(&format!(
        r#""upstream": {{ "primary": {{ {PRIMARY} }}, {backup} }},"#
    ));
    assert!(read(&text).backup.is_some());
}

#[test]
fn variables_give_a_proxy_where_the_key_gives_none() {
    let variables = |https_proxy: &str, no_proxy: &str| {
        let environment = Environment::default();
        environment.with_proxy(Some(https_proxy.into()), Some(no_proxy.into()))
    };
    let proxy = |text: &str, environment: &Environment| {
        let upstreams = parse_in(text, environment).expect(text).upstream;
        let primary = upstreams.expect(text).primary;
        primary.proxy_to(&primary.url).map(ToString::to_string)
    };
    let plain = upstream(PRIMARY);
    let from_variable = Some("http://proxy:3128".to_owned());
    assert_eq!(
        proxy(&plain, &variables("http://proxy:3128", "")),
        from_variable
    );
    assert_eq!(
        proxy(&plain, &variables("http://proxy:3128", ".example")),
        None
    );
    assert_eq!(proxy(&plain, &variables("", "")), None);
    let own = upstream(&format!(r#"{PRIMARY}, "proxy": "http://own""#));
    let from_key = Some("http://own".to_owned());
    assert_eq!(proxy(&own, &variables("http://proxy:3128", "*")), from_key);
    // A variable that cannot be used is no reason to go around the proxy, and is not repeated.
    let bad = variables("http://user:pass@proxy", "");
    let errors = parse_in(&plain, &bad).unwrap_err();
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_only(
        &lines,
        "$.upstream.primary.proxy: ",
        "`HTTPS_PROXY` holds no proxy",
    );
    assert!(!lines[0].contains("pass@"));
    assert!(parse_in(&own, &bad).is_ok() && parse_in(&file(""), &bad).is_ok());
}

#[test]
fn doubts_about_an_upstream_are_warnings() {
    let open = r#""url": "http://gw:7070", "api_key": "k""#;
    let part = "can be read along the way";
    assert_only(&warnings(&upstream(open)), "$.upstream.primary.url: ", part);
    let iam = format!(r#"{PRIMARY}, "iam_url": "http://gw""#);
    assert_only(
        &warnings(&upstream(&iam)),
        "$.upstream.primary.iam_url: ",
        part,
    );
    let local = r#""url": "http://127.0.0.1:7070", "api_key": "k""#;
    assert_eq!(warnings(&upstream(local)), Vec::<String>::new());
    let homeless = upstream(PRIMARY).replace(r#""state_dir": "/s","#, "");
    assert_only(
        &warnings(&homeless),
        "$.state_dir: ",
        "are lost at a restart",
    );
    let idle = file(r#""seed": { "file": "s" }, "events": {},"#);
    assert_only(&warnings(&idle), "$.events: ", "are only counted");
    assert_only(
        &warnings(&file("")),
        "$.seed: ",
        "neither seed nor upstream",
    );
}

#[test]
fn auto_is_normal_only_with_an_upstream_and_no_seed() {
    let seed = r#""seed": { "file": "s" },"#;
    let primary = format!(r#""upstream": {{ "primary": {{ {PRIMARY} }} }},"#);
    for (extra, is_normal) in [
        (String::new(), false),
        (seed.into(), false),
        (primary.clone(), true),
        (format!("{seed} {primary}"), false),
        (format!(r#"{primary} "start": "fast","#), false),
        (format!(r#"{seed} {primary} "start": "normal","#), true),
    ] {
        let config = parse(&file(&extra)).expect(&extra);
        assert_eq!(config.is_normal_start(), is_normal, "{extra}");
    }
}

#[test]
fn reload_takes_new_keys_and_names_everything_else() {
    let old = parse(&upstream(PRIMARY)).unwrap();
    let needs = |text: &str| old.needs_restart(&parse(text).expect(text));
    let key = PRIMARY.replace("key-1", "key-2");
    assert!(needs(&upstream(&key)).is_empty());
    let file_key = r#""url": "https://a.example", "api_key_file": "f""#;
    assert!(needs(&upstream(file_key)).is_empty());
    for changed in [
        file(r#""seed": { "file": "s" },"#),
        upstream(&PRIMARY.replace("a.example", "b.example")),
        upstream(&format!(r#"{PRIMARY}, "guid": "g-2""#)),
        upstream(&format!(r#"{PRIMARY}, "proxy": "http://p""#)),
        upstream(&format!(r#"{PRIMARY}, "ca_file": "c""#)),
        upstream(PRIMARY).replace("} },", r#"}, "retry_primary_s": 16 },"#),
    ] {
        assert_eq!(needs(&changed), ["upstream"], "{changed}");
    }
    let spool = r#""upstream": {"#;
    let spool = upstream(PRIMARY).replace(
        spool,
        r#""events": { "spool_bytes": 300000 }, "upstream": {"#,
    );
    assert_eq!(needs(&spool), ["events"]);
}
