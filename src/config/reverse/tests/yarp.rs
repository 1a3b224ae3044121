//! Sections as YARP's pages and its users have them: what is taken, and what is refused by name.

use super::*;
use crate::model::proxy::*;
use crate::time::Duration;

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
