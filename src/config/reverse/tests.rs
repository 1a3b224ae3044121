//! Routes and clusters as operators write and paste them.

mod cluster;
mod route;
mod yarp;

use crate::config::{Config, ConfigError, Environment};
use crate::limits::Limits;
use crate::model::proxy::ReverseProxy;

/// A whole file around a `ReverseProxy` section.
fn file(section: &str, extra: &str) -> String {
    format!(
        r#"{{ {extra} "ReverseProxy": {section},
            "instance": {{ "guid": "g-1" }}, "client_keys": [{{ "id": "a", "key": "k" }}],
            "seed": {{ "file": "s" }},
            "slots": [ {{ "collection": "inventory", "environment": "dev" }} ] }}"#
    )
}

fn load(text: &str) -> Result<Config, Vec<ConfigError>> {
    Config::parse(
        text.as_bytes(),
        &Environment::default(),
        &Limits::PRODUCTION,
    )
}

/// The section, and the warnings about it.
fn proxy(section: &str) -> (ReverseProxy, Vec<String>) {
    let config = load(&file(section, "")).unwrap_or_else(|errors| panic!("{errors:?}"));
    let warnings = config.warnings.iter().map(ToString::to_string);
    let warnings = warnings.filter_map(|text| text.strip_prefix("$.ReverseProxy").map(Into::into));
    (config.reverse_proxy.unwrap(), warnings.collect())
}

/// The mistakes of a section, without the path of the section itself.
fn mistakes(section: &str) -> Vec<String> {
    let errors = load(&file(section, "")).expect_err(section);
    let told = errors.iter().map(ToString::to_string);
    told.map(|text| {
        text.strip_prefix("$.ReverseProxy")
            .unwrap_or(&text)
            .to_owned()
    })
    .collect()
}

/// One cluster `c` of one destination with more keys, and a route to it.
fn cluster(keys: &str) -> String {
    format!(
        r#"{{ "Clusters": {{ "c": {{ {keys} "Destinations": {{
            "d": {{ "Address": "http://10.0.0.1" }} }} }} }} }}"#
    )
}

fn route(keys: &str) -> String {
    format!(
        r#"{{ "Routes": {{ "r": {{ {keys} }} }}, "Clusters": {{ "c": {{ "Destinations": {{
            "d": {{ "Address": "http://10.0.0.1" }} }} }} }} }}"#
    )
}

#[test]
fn what_may_not_be_meant_is_warned_about() {
    let affinity = r#""SessionAffinity": {"Enabled": true, "AffinityKeyName": "Aff",
        "Cookie": {"SameSite": "None", "SecurePolicy": "SameAsRequest"}}, "Metadata": {"Site": 3},"#;
    let (_, warnings) = proxy(&cluster(affinity));
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[1].starts_with(".Clusters.c.Metadata.Site: nothing reads"),
        "{warnings:?}"
    );
    assert!(warnings[0].starts_with(".Clusters.c.SessionAffinity.Cookie.SameSite: browsers drop"));
    let two = r#"{ "Clusters": { "a": X, "b": X, "c": {} } }"#.replace(
        'X',
        r#"{"SessionAffinity": {"Enabled": true, "AffinityKeyName": "Aff"},
            "Destinations": {"d": {"Address": "http://a"}}}"#,
    );
    let (_, warnings) = proxy(&two);
    assert!(
        warnings[0].starts_with(".Clusters.c: has no destination"),
        "{warnings:?}"
    );
    let shared = ".Clusters.b.SessionAffinity.AffinityKeyName: is the cookie of another";
    assert!(
        warnings.len() == 2 && warnings[1].starts_with(shared),
        "{warnings:?}"
    );
    let tls = r#""tls": {"cert": "a", "key": "b"},"#;
    let config = load(&file(&two, tls)).unwrap();
    let open = config
        .warnings
        .iter()
        .filter(|warning| warning.to_string().contains("SecurePolicy"));
    assert_eq!(open.count(), 2);
}

#[test]
fn a_relay_without_slots_needs_somewhere_to_lead_to() {
    let text = file(&cluster(""), "");
    let start = text.find("\"client_keys\"").unwrap();
    let front = format!("{} \"slots\": [] }}", &text[..start]);
    let config = load(&front).unwrap();
    assert!(config.slots.is_empty());
    assert!(
        config
            .warnings
            .iter()
            .all(|warning| warning.path.starts_with("$.tls"))
    );
    let errors = load(
        &front
            .replace("ReverseProxy", "connect")
            .replace("Clusters", "allow"),
    );
    let told: Vec<String> = errors
        .unwrap_err()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(
        told.iter()
            .any(|text| text.starts_with("$.slots: is empty")),
        "{told:?}"
    );
}

#[test]
fn bounds_hold() {
    let limits = Limits {
        routes_max: 1,
        clusters_max: 1,
        destinations_max: 1,
        proxy_entries_max: 1,
        ..Limits::PRODUCTION
    };
    let text = file(
        r#"{ "Routes": { "a": {}, "b": {} }, "Clusters": { "a": {}, "b": {} } }"#,
        "",
    );
    let told = Config::parse(text.as_bytes(), &Environment::default(), &limits).unwrap_err();
    assert_eq!(told.len(), 2);
    let text = file(
        &cluster(r#""Metadata": { "a": 1, "b": 2 },"#).replace("\"d\"", "\"e\": {}, \"d\""),
        "",
    );
    let told = Config::parse(text.as_bytes(), &Environment::default(), &limits).unwrap_err();
    assert!(
        told.len() == 2
            && told
                .iter()
                .all(|error| error.to_string().contains("more than 1"))
    );
}
