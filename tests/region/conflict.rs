//! Two people sign two records of one version: nobody can know which was meant. The node that sees
//! both refuses writes and says so, until a higher version comes.

use crate::content::content;
use crate::nodes::{Records, from_now, said, three};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn two_records_of_one_version_are_healed_by_a_higher_one() {
    let nodes = three();
    let mut meant = Records::new(&nodes, "au");
    for node in &nodes {
        meant.import(node);
    }
    for (node, phase) in nodes.iter().zip(["active", "replica", "replica"]) {
        node.wait("a first primary", |slot| slot["phase"] == phase);
    }
    let mut other = meant.fork();
    meant.switch("eu", from_now(HOUR));
    other.switch("us", from_now(HOUR));
    meant.import(&nodes[0]);
    for node in &nodes {
        node.wait("the second record", |slot| slot["next"]["to"] == "eu");
    }
    let us = &nodes[2];
    let refused = us.command(&["region", "import", &other.packed()]);
    assert_eq!(refused.status.code(), Some(65), "{}", said(&refused));
    let why = "another record of version 2 is held: sign a higher version";
    assert!(said(&refused).contains(why), "{}", said(&refused));

    let answer = us.admin().push(&content(1)).expect("an answer");
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert!(answer.body.contains("state_conflict"), "{}", answer.body);
    let shown = us.command(&["region", "show"]);
    assert_eq!(shown.status.code(), Some(1));
    let words = "us-1 refuses writes of c/e: state_conflict";
    assert!(said(&shown).contains(words), "{}", said(&shown));
    let checked = us.command(&["status", "--check"]);
    assert_eq!(checked.status.code(), Some(1), "{}", said(&checked));

    meant.switch("us", from_now(HOUR * 2));
    meant.import(&nodes[1]);
    us.wait("the end of the conflict", |slot| slot["phase"] == "replica");
    let answer = us.admin().push(&content(2)).expect("an answer");
    assert_eq!(answer.status, 200, "{}", answer.body);
    for node in &nodes {
        node.wait("the content", |slot| slot["head"] == "1-1");
        node.wait_until_all_agree();
    }
    for node in nodes {
        assert!(node.relay.stop().success());
    }
}

/// What a node has given its word on, and the record, survive a restart; so does what it refuses.
#[test]
fn a_node_comes_back_with_the_record_that_it_had() {
    let nodes = three();
    let mut records = Records::new(&nodes, "au");
    let first = records.packed();
    for node in &nodes {
        records.import(node);
    }
    nodes[0].wait("a first primary", |slot| slot["phase"] == "active");
    records.switch("eu", from_now(HOUR));
    records.import(&nodes[0]);
    for node in &nodes {
        node.wait("the second record", |slot| slot["next"]["to"] == "eu");
    }
    let answer = nodes[0].admin().push(&content(1)).expect("an answer");
    assert_eq!(answer.revision.as_deref(), Some("1-1"), "{}", answer.body);
    let [au, eu, us] = nodes;
    let au = au.restart();
    let back = au.wait("its word", |slot| slot["phase"] == "active");
    assert_eq!(
        (&back["head"], &back["next"]["to"]),
        (&"1-1".into(), &"eu".into())
    );
    let old = au.command(&["region", "import", &first]);
    assert_eq!(old.status.code(), Some(65), "{}", said(&old));
    assert!(
        said(&old).contains("version 1 is older than version 2"),
        "{}",
        said(&old)
    );
    let answer = us.admin().push(&content(2)).expect("an answer");
    assert_eq!(answer.revision.as_deref(), Some("1-2"), "{}", answer.body);
    for node in [au, eu, us] {
        assert!(node.relay.stop().success());
    }
}
