//! Routes: what each mistake is called, and which of them a region may have.

use super::*;
use crate::model::Id;

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
