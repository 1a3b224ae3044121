//! Mistakes in clusters, their cookies and their destinations.

use super::*;

/// Keys of a cluster, the path that is named and a part of what is said.
const CLUSTER_MISTAKES: &[(&str, &str, &str)] = &[
    (
        r#""LoadBalancingPolicy": "First","#,
        "LoadBalancingPolicy",
        "must be one of PowerOf",
    ),
    (
        r#""LoadBalancing": "x","#,
        "LoadBalancing",
        "did you mean `LoadBalancingPolicy`?",
    ),
    (
        r#""HttpRequest": {"ActivityTimeout": 100},"#,
        "HttpRequest.ActivityTimeout",
        "of days",
    ),
    (
        r#""HttpRequest": {"ActivityTimeout": "5"},"#,
        "HttpRequest.ActivityTimeout",
        "of days",
    ),
    (
        r#""HttpRequest": {"ActivityTimeout": "1m"},"#,
        "HttpRequest.ActivityTimeout",
        "time span",
    ),
    (
        r#""HttpRequest": {"ActivityTimeout": "0:0"},"#,
        "HttpRequest.ActivityTimeout",
        "above zero",
    ),
    (
        r#""HealthCheck": {"Active": {"Enabled": 1}},"#,
        "HealthCheck.Active.Enabled",
        "true or",
    ),
    (
        r#""HealthCheck": {"Active": {"Enabled": true, "Interval": "0:0:0.5"}},"#,
        "HealthCheck.Active.Interval",
        "at least 1 s",
    ),
    (
        r#""HealthCheck": {"Active": {"Enabled": true, "Path": "up"}},"#,
        "HealthCheck.Active.Path",
        "must begin with `/`",
    ),
    (
        r#""HealthCheck": {"Active": {"Enabled": true, "Query": "a=b"}},"#,
        "HealthCheck.Active.Query",
        "must begin with `?`",
    ),
    (
        r#""HealthCheck": {"Passive": {"Enabled": true, "Policy": "Mine"}},"#,
        "HealthCheck.Passive.Policy",
        "must be one of TransportFailureRate",
    ),
    (
        r#""Metadata": {"ConsecutiveFailuresHealthPolicy.Threshold": "0"},"#,
        "Metadata[\"ConsecutiveFailuresHealthPolicy.Threshold\"]",
        "from 1 to",
    ),
    (
        r#""Metadata": {"TransportFailureRateHealthPolicy.RateLimit": "NaN"},"#,
        "Metadata[\"TransportFailureRateHealthPolicy.RateLimit\"]",
        "at most 1",
    ),
    (
        r#""SessionAffinity": {"Enabled": true},"#,
        "SessionAffinity.AffinityKeyName",
        "missing",
    ),
    (
        r#""SessionAffinity": {"Enabled": null},"#,
        "SessionAffinity.Enabled",
        "and is null",
    ),
    (
        r#""SessionAffinity": [1],"#,
        "SessionAffinity",
        "must be an object",
    ),
];

/// Keys of a cookie, with affinity enabled.
const COOKIE_MISTAKES: &[(&str, &str, &str)] = &[
    (r#""MaxAge": 3600"#, "MaxAge", "is a number of days"),
    (r#""MaxAge": "00:00:00.9""#, "MaxAge", "deletes the cookie"),
    (r#""MaxAge": "-00:00:01""#, "MaxAge", "must be above zero"),
    (r#""Expiration": """#, "", ""),
    (r#""Expiration": "3h""#, "Expiration", "is no time span"),
    (r#""Domain": "a;b""#, "Domain", "without `;`"),
    (r#""Domain": "a\r\nb""#, "Domain", "visible ASCII"),
    (r#""Domain": """#, "Domain", "not empty"),
    (r#""Path": "/a;b""#, "Path", "without `;`"),
    (r#""Path": "/\n""#, "Path", "visible ASCII"),
    (
        r#""SameSite": "0""#,
        "SameSite",
        "must be one of Unspecified, None, Lax, Strict",
    ),
    (r#""SecurePolicy": true"#, "SecurePolicy", "must be one of"),
    (r#""HttpOnly": "yes""#, "HttpOnly", "must be true or false"),
    (r#""HttpOnly": null"#, "HttpOnly", "and is null"),
    (r#""Secure": true"#, "Secure", "unknown key"),
];

#[test]
fn each_mistake_of_a_cluster_is_named() {
    for (keys, path, what) in CLUSTER_MISTAKES {
        let told = mistakes(&cluster(keys));
        let start = format!(".Clusters.c.{path}: ");
        assert!(
            told.len() == 1 && told[0].starts_with(&start),
            "{keys}: {told:?}"
        );
        assert!(told[0].contains(what), "{keys}: {told:?}");
    }
    for (keys, path, what) in COOKIE_MISTAKES {
        let keys = format!(
            r#""SessionAffinity": {{"Enabled": true, "AffinityKeyName": "a",
               "Cookie": {{ {keys} }} }},"#
        );
        if path.is_empty() {
            proxy(&cluster(&keys));
            continue;
        }
        let told = mistakes(&cluster(&keys));
        let start = format!(".Clusters.c.SessionAffinity.Cookie.{path}: ");
        assert!(
            told.len() == 1 && told[0].starts_with(&start),
            "{keys}: {told:?}"
        );
        assert!(told[0].contains(what), "{keys}: {told:?}");
    }
    for name in ["a b", "a=b", "a;", "é", "\\u0001", "a[0]", "(a)"] {
        let keys =
            format!(r#""SessionAffinity": {{"Enabled": true, "AffinityKeyName": "{name}"}},"#);
        let told = mistakes(&cluster(&keys));
        assert!(
            told.len() == 1 && told[0].contains("no cookie name"),
            "{name}: {told:?}"
        );
    }
}

#[test]
fn ids_that_other_proxies_read_otherwise_are_refused() {
    for (id, what) in [
        ("a:1", "cannot stand in a key"),
        ("\\u017ferver", "U+017F"),
        ("", "empty"),
    ] {
        for section in [
            format!(r#"{{ "Clusters": {{ "{id}": {{}} }} }}"#),
            cluster("").replace("\"d\"", &format!("\"{id}\"")),
        ] {
            let told = mistakes(&section);
            assert!(
                told.len() == 1 && told[0].contains(what),
                "{section}: {told:?}"
            );
        }
    }
    let twice = cluster("").replace(
        "\"d\":",
        "\"straße\": {\"Address\": \"http://a\"}, \"STRAßE\":",
    );
    let told = mistakes(&twice);
    assert!(
        told.len() == 1 && told[0].contains("there twice"),
        "{told:?}"
    );
}

#[test]
fn each_mistake_of_a_destination_is_named() {
    for (destination, path, what) in [
        (r#"{}"#, ".Address", "is missing"),
        (r#"{"Address": ""}"#, ".Address", "is missing"),
        (r#"{"Address": "10.0.0.1:80"}"#, ".Address", "is no URL"),
        (
            r#"{"Address": "tcp://a"}"#,
            ".Address",
            "must begin with `https://`",
        ),
        (
            r#"{"Address": "http://a", "Health": "/up"}"#,
            ".Health",
            "is no URL",
        ),
        (
            r#"{"Address": "http://a", "Host": "a b"}"#,
            ".Host",
            "is no host",
        ),
        (
            r#"{"Address": "http://a", "Metadata": {"Backup": 1}}"#,
            ".Metadata.Backup",
            "true or",
        ),
        (
            r#"{"Addres": "http://a", "Address": "http://a"}"#,
            ".Addres",
            "unknown key",
        ),
        (r#"null"#, "", "must be an object"),
    ] {
        let section = format!(
            r#"{{ "Clusters": {{ "c": {{ "Destinations": {{ "d": {destination} }} }} }} }}"#
        );
        let told = mistakes(&section);
        let start = format!(".Clusters.c.Destinations.d{path}: ");
        assert!(
            told.len() == 1 && told[0].starts_with(&start),
            "{destination}: {told:?}"
        );
        assert!(told[0].contains(what), "{destination}: {told:?}");
    }
}
