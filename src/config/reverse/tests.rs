//! Routes and clusters as operators write and paste them.

use crate::config::{Config, ConfigError, Environment};
use crate::limits::Limits;
use crate::model::Id;
use crate::model::proxy::*;
use crate::time::Duration;

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
fn the_samples_of_the_affinity_page_load_with_values_for_their_placeholders() {
    let sample = r#"{
        "Clusters": {
          "cluster1": {
            "SessionAffinity": {
              "Enabled": "true", // defaults to 'false'
              "Policy": "HashCookie", // defaults to 'HashCookie'
              "FailurePolicy": "Return503Error", // defaults to 'Redistribute'
              "AffinityKeyName": "Key1",
              "Cookie": {
                "Domain": "localhost",
                "Expiration": "03:00:00",
                "HttpOnly": true,
                "IsEssential": true,
                "MaxAge": "1.00:00:00",
                "Path": "mypath",
                "SameSite": "Strict",
                "SecurePolicy": "Always"
              },
            },
          },
        },
      }"#;
    let (proxy, warnings) = proxy(sample);
    let affinity = proxy.clusters[0].affinity.clone().unwrap();
    let want = Affinity {
        failure: FailurePolicy::Refuse,
        cookie_name: "Key1".into(),
        cookie: CookieShape {
            path: "mypath".into(),
            domain: Some("localhost".into()),
            expiration: Some(Duration::from_secs(3 * 3600)),
            max_age: Some(Duration::from_secs(86_400)),
            http_only: true,
            same_site: Some(SameSite::Strict),
            secure: Secure::Always,
        },
    };
    assert_eq!(affinity, want);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].contains(".Cookie.Path: does not begin with `/`"),
        "{warnings:?}"
    );
    assert!(
        warnings[1].contains(".cluster1: has no destination"),
        "{warnings:?}"
    );
    let disabled = sample.replace("\"true\"", "\"false\"");
    for policy in ["ArrCookie", "Cookie", "CustomHeader"] {
        let section = disabled.replace("\"HashCookie\"", &format!("\"{policy}\""));
        let (proxy, _) = self::proxy(&section);
        assert_eq!(proxy.clusters[0].affinity, None);
    }
}

#[test]
fn everything_has_yarps_defaults() {
    let (proxy, warnings) = proxy(
        r#"{ "Routes": { "r": { "ClusterId": "c", "Match": { "Path": "{**catch-all}" } } },
             "Clusters": { "C": {
               "SessionAffinity": { "Enabled": true, "AffinityKeyName": "Aff" },
               "HealthCheck": { "Active": { "Enabled": true }, "Passive": { "Enabled": "True" } },
               "Destinations": { "d/1": { "Address": "https://Node.example:10000/app/" } } } } }"#,
    );
    assert_eq!(warnings, [""; 0]);
    let route = &proxy.routes[0];
    assert_eq!((&*route.id, route.cluster, route.order), ("r", 0, 0));
    let every = PathTemplate {
        segments: Vec::new(),
        takes_rest: true,
    };
    assert_eq!(
        (&route.path, route.hosts.len(), route.methods.len()),
        (&every, 0, 0)
    );
    let want = Cluster {
        id: "C".into(),
        balance: Balance::PowerOfTwoChoices,
        affinity: Some(Affinity {
            failure: FailurePolicy::Redistribute,
            cookie_name: "Aff".into(),
            cookie: CookieShape::default(),
        }),
        health: Health {
            available: Available::HealthyOrPanic,
            active: Some(ActiveCheck {
                interval: Duration::from_secs(15),
                timeout: Duration::from_secs(10),
                path: "".into(),
                query: "".into(),
                failures: 2,
            }),
            passive: Some(PassiveCheck {
                reactivation: Duration::from_secs(60),
                failure_rate: 0.3,
            }),
        },
        activity_timeout: Duration::from_secs(100),
        destinations: vec![Destination {
            id: "d/1".into(),
            address: Address {
                is_tls: true,
                host: "node.example".into(),
                port: 10000,
                path: "/app".into(),
            },
            health: None,
            host: None,
            is_backup: false,
            is_draining: false,
        }],
    };
    assert_eq!(proxy.clusters, [want]);
}

#[test]
fn names_are_in_any_case_and_values_text_or_not() {
    let text = r#"{ "ROUTES": { "r": { "clusterid": "PLANT", "order": "-3", "match": {
             "path": "~/a/{id}/{*rest}", "HOSTS": ["*.Example.com:8080", "*", "[::1]"],
             "methods": ["get", "Post"] } } },
           "clusters": { "plant": { "loadbalancingpolicy": "roundrobin", "HttpClient": {},
             "httprequest": { "activitytimeout": "00:01", "version": 2,
               "AllowResponseBuffering": "false" },
             "metadata": { "consecutivefailureshealthpolicy.threshold": 3,
               "TransportFailureRateHealthPolicy.RateLimit": 0.5 },
             "sessionaffinity": { "enabled": " TRUE ", "policy": "hashcookie",
               "failurepolicy": "redistribute", "affinitykeyname": "Aff",
               "cookie": { "samesite": "lax", "securepolicy": "sameasrequest",
                 "httponly": "False" } },
             "healthcheck": { "availabledestinationspolicy": "healthyandunknown",
               "active": { "enabled": true, "interval": "00:00:05", "timeout": "00:00:01.5",
                 "policy": "", "path": "/health", "query": "?deep=1" },
               "passive": { "enabled": true, "reactivationperiod": "00:02:00" } },
             "destinations": { "a": { "address": "http://[fe80::1]:81", "host": "plant:1",
               "health": "http://10.0.0.9/up", "metadata": { "backup": "true" } },
               "b": { "address": "http://b", "metadata": { "Draining": true } } } } } }"#;
    let load = |key: &str| load(&file(text, "").replace("\"ReverseProxy\"", key)).unwrap();
    let proxy = load("\"REVERSEproxy\"").reverse_proxy.unwrap();
    let route = &proxy.routes[0];
    let segments = [Segment::Literal("a".into()), Segment::Any];
    assert_eq!(route.path.segments, segments);
    assert!(route.path.takes_rest);
    assert_eq!(
        (route.order, &*route.methods),
        (-3, &["GET".into(), "POST".into()][..])
    );
    let hosts = [
        (HostName::Below(".example.com".into()), Some(8080)),
        (HostName::Any, None),
        (HostName::Exact("[::1]".into()), None),
    ];
    assert_eq!(
        route.hosts,
        hosts.map(|(name, port)| HostPattern { name, port })
    );
    let cluster = &proxy.clusters[0];
    assert_eq!(cluster.balance, Balance::RoundRobin);
    assert_eq!(cluster.activity_timeout, Duration::from_secs(60));
    let cookie = &cluster.affinity.as_ref().unwrap().cookie;
    assert_eq!(
        (cookie.same_site, cookie.http_only),
        (Some(SameSite::Lax), false)
    );
    assert_eq!(cookie.secure, Secure::SameAsRequest);
    assert_eq!(cluster.health.available, Available::HealthyAndUnknown);
    let active = cluster.health.active.as_ref().unwrap();
    assert_eq!(
        (active.failures, active.timeout),
        (3, Duration::from_millis(1500))
    );
    assert_eq!((&*active.path, &*active.query), ("/health", "?deep=1"));
    let passive = cluster.health.passive.as_ref().unwrap();
    assert_eq!(
        (passive.failure_rate, passive.reactivation.as_secs()),
        (0.5, 120)
    );
    let [a, b] = &cluster.destinations[..] else {
        panic!("two destinations");
    };
    assert!(a.is_backup && !a.is_draining && b.is_draining && !b.is_backup);
    assert_eq!(a.address.to_string(), "http://[fe80::1]:81");
    assert_eq!(a.health.as_ref().unwrap().to_string(), "http://10.0.0.9/up");
    assert_eq!(a.host.as_deref(), Some("plant:1"));
}

#[test]
fn what_yarp_has_and_the_relay_does_not_is_refused_by_name() {
    for (keys, path) in [
        (r#""Transforms": [{"PathPrefix": "/a"}],"#, "Transforms"),
        (
            r#""AuthorizationPolicy": "Default","#,
            "AuthorizationPolicy",
        ),
        (r#""CorsPolicy": "Default","#, "CorsPolicy"),
        (r#""RateLimiterPolicy": "a","#, "RateLimiterPolicy"),
        (r#""OutputCachePolicy": "a","#, "OutputCachePolicy"),
        (r#""TimeoutPolicy": "a","#, "TimeoutPolicy"),
        (r#""timeout": "00:00:01","#, "timeout"),
        (r#""MaxRequestBodySize": 1000,"#, "MaxRequestBodySize"),
        (r#""Extensions": {"a": {"b": 1}},"#, "Extensions"),
    ] {
        let section = route(&format!(
            r#"{keys} "ClusterId": "c", "Match": {{ "Path": "/" }}"#
        ));
        let told = mistakes(&section);
        let start = format!(".Routes.r.{path}: YARP has this and the relay does not: ");
        assert!(told.len() == 1 && told[0].starts_with(&start), "{told:?}");
    }
    for key in ["Headers", "QueryParameters"] {
        let matched = format!(r#"{{ "Path": "/", "{key}": [{{ "Name": "a" }}] }}"#);
        let told = mistakes(&route(&format!(r#""ClusterId": "c", "Match": {matched}"#)));
        let start = format!(".Routes.r.Match.{key}: YARP has this");
        assert!(told.len() == 1 && told[0].starts_with(&start), "{told:?}");
    }
    for (keys, path) in [
        (
            r#""HttpClient": {"SslProtocols": ["Tls12"]},"#,
            "HttpClient.SslProtocols",
        ),
        (
            r#""HttpClient": {"DangerousAcceptAnyServerCertificate": true},"#,
            "HttpClient.DangerousAcceptAnyServerCertificate",
        ),
        (
            r#""HttpClient": {"MaxConnectionsPerServer": 5},"#,
            "HttpClient.MaxConnectionsPerServer",
        ),
        (
            r#""HttpClient": {"WebProxy": {"Address": "a"}},"#,
            "HttpClient.WebProxy",
        ),
        (
            r#""HttpRequest": {"Version": "2", "VersionPolicy": "RequestVersionExact"},"#,
            "HttpRequest.Version",
        ),
        (
            r#""HttpRequest": {"VersionPolicy": "RequestVersionOrHigher"},"#,
            "HttpRequest.VersionPolicy",
        ),
        (
            r#""SessionAffinity": {"Enabled": true, "AffinityKeyName": "a", "Policy": "Cookie"},"#,
            "SessionAffinity.Policy",
        ),
    ] {
        let told = mistakes(&cluster(keys));
        let start = format!(".Clusters.c.{path}: YARP has this and the relay does not: ");
        assert!(told.len() == 1 && told[0].starts_with(&start), "{told:?}");
    }
}

#[test]
fn what_asks_for_nothing_is_taken() {
    let keys = r#""Transforms": [], "AuthorizationPolicy": "anonymous", "CorsPolicy": "Disable",
        "TimeoutPolicy": "", "MaxRequestBodySize": -1, "ClusterId": "c", "Extensions": {},
        "Match": { "Path": "/", "Headers": [], "Hosts": [], "Methods": null }"#;
    assert_eq!(proxy(&route(keys)).0.routes.len(), 1);
    let keys = r#""HttpClient": {"DangerousAcceptAnyServerCertificate": false},
        "HttpRequest": {"Version": "1.1", "VersionPolicy": "RequestVersionExact"},
        "SessionAffinity": {}, "HealthCheck": {"Active": {"Enabled": false, "Policy": "Mine",
        "Interval": "00:00:00.001", "Path": "?"}}, "LoadBalancingPolicy": "","#;
    let (proxy, _) = proxy(&cluster(keys));
    assert_eq!(proxy.clusters[0].health, Health::default());
}

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

#[test]
fn each_mistake_of_a_route_is_named() {
    let full = r#""ClusterId": "c", "Match": { "Path": "/a" }"#;
    for (keys, path, what) in [
        (r#""Match": { "Path": "/a" }"#, ".ClusterId", "is missing"),
        (
            r#""ClusterId": "x", "Match": { "Path": "/a" }"#,
            ".ClusterId",
            "under `Clusters`",
        ),
        (r#""ClusterId": "c""#, ".Match", "needs `Path` or `Hosts`"),
        (
            r#""ClusterId": "c", "Match": {"Methods": ["GET"]}"#,
            ".Match",
            "needs `Path` or",
        ),
        (
            &format!("{full}, \"Order\": 1.5"),
            ".Order",
            "must be a whole number",
        ),
        (
            &format!("{full}, \"Order\": 3000000000"),
            ".Order",
            "must be a whole number",
        ),
        (&format!("{full}, \"Prio\": 1"), ".Prio", "unknown key"),
        (
            &full.replace("}", ", \"Methods\": [\"TRACE\"] }"),
            ".Match.Methods[0]",
            "no method",
        ),
        (
            &full.replace("}", ", \"Hosts\": \"a\" }"),
            ".Match.Hosts",
            "must be a list",
        ),
        (
            &full.replace("}", ", \"Hosts\": [\"a/b\"] }"),
            ".Match.Hosts[0]",
            "no host",
        ),
        (
            &full.replace("}", ", \"Hosts\": [\"a:x\"] }"),
            ".Match.Hosts[0]",
            "a number",
        ),
        (
            &full.replace("}", ", \"Hosts\": [\"é.x\"] }"),
            ".Match.Hosts[0]",
            "`xn--`",
        ),
        (
            &full.replace("}", ", \"Hosts\": [\"a.*\"] }"),
            ".Match.Hosts[0]",
            "no host",
        ),
    ] {
        let told = mistakes(&route(keys));
        let start = format!(".Routes.r{path}: ");
        assert!(
            told.len() == 1 && told[0].starts_with(&start),
            "{keys}: {told:?}"
        );
        assert!(told[0].contains(what), "{keys}: {told:?}");
    }
}

#[test]
fn paths_that_the_relay_does_not_match_are_refused() {
    let full = r#""ClusterId": "c", "Match": { "Path": "/a" }"#;
    for (path, what) in [
        ("/a//b", "an empty segment"),
        ("//", "an empty segment"),
        ("/a/../b", "no request has"),
        ("/a?b", "before the `?`"),
        ("/{**a}/b", "must be its end"),
        ("/{a}/{A}", "one name"),
        ("/{}", "no name"),
        ("/{**}", "no name"),
        ("/{***a}", "`{**rest}`"),
        ("/{a:int}", "no constraint"),
        ("/{a?}", "no constraint"),
        ("/{a=b}", "no constraint"),
        ("/a{b}", "either text or one"),
        ("/{a}.{b}", "either text or one"),
        ("/{{a}}", "either text or one"),
        ("/{a", "either text or one"),
    ] {
        let told = mistakes(&route(&full.replace("/a", path)));
        let start = ".Routes.r.Match.Path: ";
        assert!(
            told.len() == 1 && told[0].starts_with(start),
            "{path}: {told:?}"
        );
        assert!(told[0].contains(what), "{path}: {told:?}");
    }
}

#[test]
fn two_routes_for_the_same_requests_are_a_mistake() {
    let routes = |other: &str| {
        format!(
            r#"{{ "Routes": {{ "r": {{ "ClusterId": "c", "Match": {{ "Path": "/A/{{x}}",
                "Methods": ["GET", "PUT"] }} }}, "s": {{ "ClusterId": "c", {other} }} }},
                "Clusters": {{ "c": {{ "Destinations": {{ "d": {{ "Address": "http://a" }} }} }} }} }}"#
        )
    };
    let same = r#""Match": { "Path": "a/{y}/", "Methods": ["put", "get"] }"#;
    let told = mistakes(&routes(same));
    assert_eq!(
        told,
        [".Routes.s: is the same as $.ReverseProxy.Routes.r; they must differ"]
    );
    for other in [
        &same.replace("/{y}", "/{**y}"),
        &same.replace("\"put\", ", ""),
        &same.replace("]", "], \"Hosts\": [\"a\"]"),
        &format!("{same}, \"Order\": 1"),
    ] {
        assert_eq!(proxy(&routes(other)).0.routes.len(), 2);
    }
}

#[test]
fn a_route_may_be_a_regions() {
    let section = |slot: &str| {
        format!(
            r#"{{ "Routes": {{ "r": {{ "ClusterId": "c", "Match": {{ "Path": "/a" }},
                "Metadata": {{ "regionslot": {slot} }} }} }}, "Clusters": {{ "c": {{
                "Destinations": {{ "d": {{ "Address": "http://a" }} }} }} }} }}"#
        )
    };
    let region = r#""state_dir": "/s", "region": { "node": "eu-1", "trust": "none",
        "peer_key": "a-peer-key-of-thirty-two-letters" },"#;
    let config = load(&file(&section("\"orders\""), region)).unwrap();
    let slots = config.reverse_proxy.unwrap();
    assert!(slots.region_slots().into_iter().eq(&Id::new("orders")));
    let nobodys = mistakes(&section("\"orders\""));
    let place = ".Routes.r.Metadata.RegionSlot: says who is primary";
    assert!(
        nobodys.len() == 1 && nobodys[0].starts_with(place),
        "{nobodys:?}"
    );
    assert_eq!(mistakes(&section("\"a b\"")).len(), 1);
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
