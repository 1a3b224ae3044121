//! Every mistake that the configuration can have, with the path and the words an operator sees.

use super::*;

/// The smallest valid file, with `extra` keys in front.
fn file(extra: &str) -> String {
    format!(
        r#"{{ {extra}
            "instance": {{ "guid": "g-1" }},
            "slots": [ {{ "collection": "inventory", "environment": "dev" }} ] }}"#
    )
}

fn environment() -> Environment {
    Environment::new(
        Path::new("/etc/staffetta/config.json"),
        Some("/run/credentials/staffetta".into()),
        Some("/run/staffetta:/run/other"),
    )
}

fn parse(text: &str) -> Result<Config, Vec<ConfigError>> {
    Config::parse(text.as_bytes(), &environment(), &Limits::PRODUCTION)
}

/// Each line of the error list, as it is printed.
fn errors(text: &str) -> Vec<String> {
    let errors = parse(text).expect_err(text);
    errors.iter().map(ConfigError::to_string).collect()
}

fn warnings(text: &str) -> Vec<String> {
    let config = parse(text).unwrap();
    config.warnings.iter().map(ToString::to_string).collect()
}

/// `extra` keys, the path that is named and a part of the text that follows.
const MISTAKES: &[(&str, &str, &str)] = &[
    (r#""lisen": 1,"#, "$.lisen", "did you mean `listen`?"),
    (r#""zzz": 1,"#, "$.zzz", "unknown key; remove it"),
    (r#""a b": 1,"#, "$[\"a b\"]", "unknown key"),
    (r#""start": "auto", "start": "fast","#, "$.start", "twice"),
    (
        r#""ReverseProxy": 1,"#,
        "$.ReverseProxy",
        "must be an object",
    ),
    (
        r#""seed": {"file": "s", "public_keys": ["k"]},"#,
        "$.seed.public_keys",
        "not supported yet",
    ),
    (r#""seed": {},"#, "$.seed.file", "is missing"),
    (
        r#""seed": null,"#,
        "$.seed",
        "must be an object, and is null",
    ),
    (r#""seed": {"file": ""},"#, "$.seed.file", "is empty"),
    (
        r#""listen": 7070,"#,
        "$.listen",
        "must be text, and is a number",
    ),
    (
        r#""listen": "localhost:7070","#,
        "$.listen",
        "is no address",
    ),
    (
        r#""listen": ["[::]:7070", "7070"],"#,
        "$.listen[1]",
        "is no address",
    ),
    (r#""listen": [],"#, "$.listen", "is empty"),
    (
        r#""listen": ["[::]:1", "[::]:1"],"#,
        "$.listen[1]",
        "is the same as $.listen[0]",
    ),
    (r#""listen": "unix:","#, "$.listen", "is empty"),
    (
        r#""listen": "127.0.0.1:1", "admin": {"listen": "127.0.0.1:1"},"#,
        "$.admin.listen",
        "is the same as $.listen",
    ),
    (r#""tls": {"cert": "a"},"#, "$.tls.key", "is missing"),
    (r#""tls": {"key": "a"},"#, "$.tls.cert", "is missing"),
    (
        r#""tls": {"cert": "a", "key": "${HOME}/b"},"#,
        "$.tls.key",
        "only `${CREDENTIALS",
    ),
    (
        r#""admin": {"token": "a", "token_file": "b"},"#,
        "$.admin.token",
        "excludes `token_file`",
    ),
    (r#""admin": {"token": ""},"#, "$.admin.token", "is empty"),
    (
        r#""admin": {"tokn": ""},"#,
        "$.admin.tokn",
        "did you mean `token`?",
    ),
    (r#""start": "normal","#, "$.start", "use `auto` or `fast`"),
    (
        r#""start": "slow","#,
        "$.start",
        "must be one of auto, normal, fast",
    ),
    (r#""state_dir": 1,"#, "$.state_dir", "must be text"),
    (
        r#""limits": {"connections": 0},"#,
        "$.limits.connections",
        "must be from 1 to 65536",
    ),
    (
        r#""limits": {"connections": 65537},"#,
        "$.limits.connections",
        "must be from 1",
    ),
    (
        r#""limits": {"connections": -1},"#,
        "$.limits.connections",
        "must be a whole number",
    ),
    (
        r#""limits": {"memory": "32 MB"},"#,
        "$.limits.memory",
        "is no size",
    ),
    (
        r#""limits": {"memory": "8KiB"},"#,
        "$.limits.memory",
        "must be from 6291456",
    ),
    (
        r#""limits": {"memory": 1},"#,
        "$.limits.memory",
        "must be from 6291456",
    ),
    (
        r#""limits": {"memory": "99999999999999GiB"},"#,
        "$.limits.memory",
        "is no size",
    ),
    (
        r#""log": {"format": "xml"},"#,
        "$.log.format",
        "auto, plain, json, journal",
    ),
    (
        r#""log": {"level": "trace"},"#,
        "$.log.level",
        "error, warn, info, debug",
    ),
    (
        r#""connect": {"allow": ["http://a"]},"#,
        "$.connect.allow[0]",
        "is no host name",
    ),
    (
        r#""connect": {"allow": ["a:443"]},"#,
        "$.connect.allow[0]",
        "is no host name",
    ),
    (
        r#""client_keys": {},"#,
        "$.client_keys",
        "must be a list, and is an object",
    ),
    (
        r#""client_keys": [{"key": "k"}],"#,
        "$.client_keys[0].id",
        "is missing",
    ),
    (
        r#""client_keys": [{"id": "a"}],"#,
        "$.client_keys[0]",
        "needs `key_file` or `key`",
    ),
    (
        r#""client_keys": [{"id": "a b", "key": "k"}],"#,
        "$.client_keys[0].id",
        "no identifier",
    ),
    (
        r#""client_keys": [{"id": "a", "key": "k k"}],"#,
        "$.client_keys[0].key",
        "no header",
    ),
    (
        r#""client_keys": [{"id": "a", "key": "k", "slots": []}],"#,
        "$.client_keys[0].slots",
        "leave the key out to allow all",
    ),
    (
        r#""client_keys": [{"id": "a", "key": "k", "slots": ["inv*"]}],"#,
        "$.client_keys[0].slots[0]",
        "is no slot pattern",
    ),
    (
        r#""client_keys": [{"id": "a", "key": "k"}, {"id": "a", "key": "l"}],"#,
        "$.client_keys[1].id",
        "is the same as $.client_keys[0].id",
    ),
    (
        r#""client_keys": [{"id": "a", "key": "k"}, {"id": "b", "key": "k"}],"#,
        "$.client_keys[1].key",
        "is the same as $.client_keys[0].key",
    ),
    (
        r#""client_keys": [{"id": "a", "key_file": "k"}, {"id": "b", "key_file": "k"}],"#,
        "$.client_keys[1].key_file",
        "is the same as $.client_keys[0].key_file",
    ),
];

#[test]
fn each_mistake_is_named_with_its_path_and_once() {
    for (extra, path, text) in MISTAKES {
        let lines = errors(&file(extra));
        let named = lines.iter().any(|line| {
            let rest = line
                .strip_prefix(path)
                .and_then(|rest| rest.strip_prefix(": "));
            rest.is_some_and(|rest| rest.contains(text))
        });
        assert!(named, "{extra}\n wanted {path}: {text}\n got {lines:#?}");
        assert_eq!(lines.len(), 1, "{extra} {lines:#?}");
    }
}

#[test]
fn mistakes_in_what_must_be_there_are_named() {
    let cases: [(&str, &[&str]); 6] = [
        ("{}", &["$.instance: is missing", "$.slots: is missing"]),
        (
            r#"{"instance": {}, "slots": []}"#,
            &["$.instance.guid: is missing", "$.slots: is empty"],
        ),
        (
            r#"{"instance": {"guid": "a/b"}, "slots": [{"collection": "c"}, {"environment": "e"}]}"#,
            &[
                "$.instance.guid: is no identifier",
                "$.slots[0].environment: is missing",
                "$.slots[1].collection: is missing",
            ],
        ),
        (
            r#"{"instance": {"guid": "g"}, "slots": [
                {"collection": "c", "environment": "e"}, {"collection": "c", "environment": "e"},
                {"collection": "c", "environment": "f", "source": "operator"}, "c/g",
                {"collection": "c", "environment": "h", "source": "me"}]}"#,
            &[
                "$.slots[1]: is the same as $.slots[0]",
                "$.slots[2].source: what is pushed must survive a restart",
                "$.slots[3]: must be an object, and is text",
                "$.slots[4].source: ",
            ],
        ),
        ("[]", &["$: must be an object, and is a list"]),
        ("{", &["$: not valid JSON: EOF"]),
    ];
    for (text, wanted) in cases {
        let lines = errors(text);
        assert_eq!(lines.len(), wanted.len(), "{text} {lines:#?}");
        for (line, start) in lines.iter().zip(wanted) {
            assert!(line.starts_with(start), "{line} ≠ {start}");
        }
    }
}

#[test]
fn a_slot_is_the_operators_where_it_says_so() {
    let config = parse(
        r#"{"instance": {"guid": "g"}, "state_dir": "/s", "slots": [
            {"collection": "c", "environment": "e", "source": "operator"},
            {"collection": "c", "environment": "f"}]}"#,
    );
    let config = config.unwrap();
    let operators: Vec<String> = config
        .operator_slots
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(operators, ["c/e"]);
    let mut other = config.clone();
    other.operator_slots.clear();
    assert_eq!(config.needs_restart(&other), ["slots"]);
}

#[test]
fn all_mistakes_are_found_at_once() {
    let lines = errors(&file(
        r#""listen": "x", "tls": {}, "log": {"format": 1, "level": 2}, "extra": 0,"#,
    ));
    assert_eq!(lines.len(), 6, "{lines:#?}");
}

#[test]
fn a_file_over_the_limit_is_not_read() {
    let limits = Limits {
        config_bytes_max: 100,
        ..Limits::PRODUCTION
    };
    let text = file(&" ".repeat(100));
    let errors = Config::parse(text.as_bytes(), &environment(), &limits).unwrap_err();
    let bytes_max = 100;
    assert_eq!(errors[0].problem, Problem::TooLarge { bytes_max });
}

#[test]
fn bytes_that_are_no_json_never_panic() {
    for text in [
        "",
        "\u{0}",
        "nul",
        "{\"a\":}",
        "\u{feff}",
        "[[[[",
        "{\"\\ud800\":1}",
    ] {
        assert!(parse(text).is_err());
    }
    let deep = "[".repeat(100_000);
    assert!(errors(&deep)[0].contains("recursion limit"));
    let not_utf8 = Config::parse(b"\xff\xfe{", &environment(), &Limits::PRODUCTION);
    assert!(not_utf8.is_err());
}

#[test]
fn defaults_are_those_of_the_table() {
    let config = parse(&file("")).unwrap();
    assert_eq!(config.listen, [Listen::Tcp("[::]:7070".parse().unwrap())]);
    assert_eq!(config.start, Start::Auto);
    assert_eq!(config.limits.connections, 1024);
    assert_eq!(config.limits.memory_bytes, 32 * 1024 * 1024);
    assert_eq!(config.log.format, LogFormat::Auto);
    assert_eq!(config.log.level, LogLevel::Info);
    assert!(config.tls.is_none() && config.seed.is_none() && config.state_dir.is_none());
    assert!(config.admin.token.is_none() && config.connect.allow.is_empty());
}

#[test]
fn admin_defaults_to_the_runtime_directory_or_the_loopback() {
    let admin = parse(&file("")).unwrap().admin;
    let socket = Listen::Unix("/run/staffetta/admin.sock".into());
    assert_eq!(admin.addresses(&environment()), [socket]);
    let bare = Environment::new(Path::new("config.json"), None, None);
    let port = Listen::Tcp("127.0.0.1:7071".parse().unwrap());
    assert_eq!(admin.addresses(&bare), [port]);
}

#[test]
fn a_whole_file_is_read() {
    let config = parse(
        r#"{
        "listen": ["[::]:7070", "unix:sdk.sock"],
        "tls": { "cert": "/etc/staffetta/relay.crt", "key": "relay.key" },
        "admin": { "listen": "127.0.0.1:7071", "token_file": "${CREDENTIALS_DIRECTORY}/admin" },
        "state_dir": "/var/lib/staffetta",
        "seed": { "file": "seed.json", "public_keys": [] },
        "start": "fast",
        "instance": { "guid": "11111111-2222-3333-4444-555555555555", "region": "us-south" },
        "client_keys": [
            { "id": "line-3", "key_file": "line3.key", "slots": ["inventory/*"] },
            { "id": "all", "key": "abc\n" } ],
        "slots": [
            { "collection": "payments", "environment": "prod" },
            { "collection": "inventory", "environment": "dev" } ],
        "limits": { "connections": 10, "memory": "16 MiB" },
        "log": { "format": "json", "level": "debug" },
        "connect": { "allow": ["IAM.plant.local"] } }"#,
    )
    .unwrap();
    assert_eq!(config.warnings, []);
    assert_eq!(
        config.listen[1],
        Listen::Unix("/etc/staffetta/sdk.sock".into())
    );
    let tls = config.tls.unwrap();
    assert_eq!(tls.key, Path::new("/etc/staffetta/relay.key"));
    let token = SecretSource::File("/run/credentials/staffetta/admin".into());
    assert_eq!(config.admin.token, Some(token));
    assert_eq!(
        config.seed.unwrap().file,
        Path::new("/etc/staffetta/seed.json")
    );
    assert_eq!(config.slots[0].to_string(), "payments/prod");
    assert!(config.client_keys[0].allows(&config.slots[1]));
    assert!(!config.client_keys[0].allows(&config.slots[0]));
    assert!(config.client_keys[1].allows(&config.slots[0]));
    let inline = SecretSource::Inline(Secret::new(b"abc").unwrap());
    assert_eq!(config.client_keys[1].secret, inline);
    assert_eq!(config.limits.memory_bytes, 16 << 20);
    assert_eq!(config.connect.allow, ["iam.plant.local"]);
}

#[test]
fn doubts_are_warnings() {
    let all = warnings(&file(""));
    assert_eq!(all.len(), 3, "{all:#?}");
    let extra = r#""seed": {"file": "s"}, "tls": {"cert": "c", "key": "k"},
        "client_keys": [{"id": "a", "key": "k", "slots": ["payments/*", "*"]}],"#;
    let unmatched = warnings(&file(extra));
    assert_eq!(unmatched.len(), 1, "{unmatched:#?}");
    assert!(unmatched[0].starts_with("$.client_keys[0].slots[0]: matches none"));
    let open = warnings(&file(
        r#""admin": {"listen": ["127.0.0.1:1", "0.0.0.0:2"]},"#,
    ));
    assert!(
        open.iter()
            .any(|line| line.starts_with("$.admin.listen: listens beyond"))
    );
}

#[test]
fn a_credential_without_its_directory_is_a_warning() {
    let text = file(r#""seed": {"file": "${CREDENTIALS_DIRECTORY}/seed"},"#);
    let bare = Environment::default();
    let config = Config::parse(text.as_bytes(), &bare, &Limits::PRODUCTION).unwrap();
    assert!(
        config
            .warnings
            .iter()
            .any(|w| w.concern == Concern::CredentialsUnset)
    );
    assert_eq!(
        config.seed.unwrap().file,
        Path::new("${CREDENTIALS_DIRECTORY}/seed")
    );
}

#[test]
fn any_number_of_listeners_may_ask_for_any_port() {
    let config = parse(&file(
        r#""listen": ["127.0.0.1:0", "127.0.0.1:0"], "admin": {"listen": "127.0.0.1:0"},"#,
    ));
    assert_eq!(config.unwrap().listen.len(), 2);
}

#[test]
fn a_byte_order_mark_is_let_pass() {
    assert!(parse(&format!("\u{feff}{}", file(""))).is_ok());
}

#[test]
fn reload_names_what_it_cannot_apply() {
    let old = parse(&file("")).unwrap();
    let keys = parse(&file(r#""client_keys": [{"id": "a", "key": "k"}],"#)).unwrap();
    assert!(old.needs_restart(&keys).is_empty());
    let extra = r#""listen": "[::]:1", "admin": {"listen": "[::1]:2"}, "state_dir": "s",
        "limits": {"connections": 2}, "log": {"format": "json", "level": "debug"},"#;
    let changed = parse(&file(extra).replace("g-1", "g-2").replace("dev", "prod")).unwrap();
    let keys = [
        "listen",
        "admin.listen",
        "state_dir",
        "instance",
        "slots",
        "limits",
        "log.format",
    ];
    assert_eq!(old.needs_restart(&changed), keys);
    // What is in force stays what it was, and the next reload names the same keys again.
    let mut in_force = changed.clone();
    in_force.keep_running(&old);
    assert!(old.needs_restart(&in_force).is_empty());
    assert_eq!(in_force.needs_restart(&changed), keys);
    assert_ne!(in_force.log.level, old.log.level);
}
