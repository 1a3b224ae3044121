//! Nodes that speak to each other by TLS, on the port that they serve SDKs on, and trust whom
//! `region.ca_file` names: nobody's write goes to somebody else, and the log says why.

use crate::content::content;
use crate::harness::site::{Scratch, certificates};
use crate::nodes::{Node, Records, done, staffetta};
use crate::site::site;
use serde_json::json;

/// A node with TLS, which trusts the authority of this test, or another one.
fn node(region: &str, other: Option<&Scratch>) -> Node {
    let mut site = site(&format!("trust-{region}"));
    site.config["slots"][0]["source"] = json!("operator");
    let config = site.config.as_object_mut().expect("a config");
    config.remove("seed");
    let file = |name: &str| certificates().join(name);
    let tls = json!({ "cert": file("relay.crt"), "key": file("relay.key") });
    config.insert("tls".into(), tls);
    if let Some(other) = other {
        let part = json!({ "ca_file": other.path("ca.crt") });
        config.insert("region".into(), part);
    }
    Node::of(region, site)
}

#[test]
fn peers_are_spoken_to_by_tls_and_trusted_by_their_own_authority() {
    let other = Scratch::new("other-authority");
    let folder = other.path("").display().to_string();
    done(&staffetta(&["cert", "--dir", &folder]));
    let nodes = [node("au", None), node("eu", None), node("us", Some(&other))];
    let records = Records::new(&nodes, "au");
    for node in &nodes {
        records.import(node);
    }
    let [au, eu, us] = &nodes;
    au.wait("the primary", |slot| slot["phase"] == "active");
    for node in [eu, us] {
        node.wait("its part", |slot| slot["phase"] == "replica");
    }
    let answer = eu.admin().push(&content(1)).expect("an answer");
    assert_eq!(
        answer.status,
        200,
        "{}\n{}",
        answer.body,
        eu.relay.log.all()
    );
    assert_eq!(answer.revision.as_deref(), Some("1-1"), "{}", answer.body);
    eu.wait("the content", |slot| slot["head"] == "1-1");

    let answer = us.admin().push(&content(2)).expect("an answer");
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert!(answer.body.contains("hold_timeout"), "{}", answer.body);
    let log = us.relay.log.all();
    let line = log
        .lines()
        .find(|line| line.contains("peer au-1 does not answer"));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("certificate"), "{line}");
    assert_eq!(au.slot()["head"], "1-1");
}
