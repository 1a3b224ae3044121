//! Clients come back to the destination that they had.

use serde_json::json;

use crate::client::Answer;
use crate::destination::Destination;
use crate::site::{COOKIE, Front, proxy, sticky};

fn binds_nobody(answer: &Answer) {
    assert!(answer.fields("set-cookie").is_empty(), "{answer:?}");
}

#[test]
fn the_first_answer_binds_and_the_next_fifty_do_not() {
    let (a, b) = (Destination::named("a"), Destination::named("b"));
    let front = Front::start(sticky("Redistribute"), &[("dest-A", &a), ("dest-B", &b)]);
    let first = front.get("/x", None);
    let cookie = first.cookie();
    let expected = match first.text() {
        "a" => "615d6cd1b28160f0",
        _ => "53c079ed4c377b0d",
    };
    assert_eq!(cookie, format!("{COOKIE}={expected}"));
    let all = first.fields("set-cookie")[0];
    assert_eq!(all, format!("{cookie}; path=/; httponly"));
    let mut client = front.client();
    for _ in 0..50 {
        let answer = client.get("/x", Some(&cookie));
        assert_eq!(answer.text(), first.text());
        binds_nobody(&answer);
    }
    let requests = &front.status()["clusters"][0]["requests"];
    assert_eq!(
        (&requests["new"], &requests["resolved"]),
        (&json!(1), &json!(50))
    );
    // The cookie itself is nobody's to read.
    assert!(!front.relay.log.all().contains(expected));
    let (_, metrics) = front.relay.ask("GET /metrics");
    let line = "staffetta_forwarded_total{cluster=\"plant\",outcome=\"resolved\"} 50";
    assert!(metrics.lines().any(|found| found == line), "{metrics}");
}

#[test]
fn a_cookie_of_yarp_resolves() {
    let (a, b) = (Destination::named("a"), Destination::named("b"));
    let front = Front::start(sticky("Redistribute"), &[("dest-A", &a), ("DEST-b", &b)]);
    for _ in 0..4 {
        let answer = front.get("/", Some(&format!("x=1; {COOKIE}=53c079ed4c377b0d")));
        assert_eq!(answer.text(), "b");
        binds_nobody(&answer);
    }
}

#[test]
fn who_loses_its_destination_gets_one_new_cookie_or_503() {
    for policy in ["Redistribute", "Return503Error"] {
        let (a, b) = (Destination::named("a"), Destination::named("b"));
        let mut front = Front::start(sticky(policy), &[("a", &a), ("b", &b)]);
        let bound = [(); 2].map(|()| front.get("/", None));
        let of_a = bound.iter().find(|answer| answer.text() == "a");
        let cookie = of_a.expect("they take turns").cookie();
        front.reload(proxy("/{**rest}", sticky(policy), &[("b", &b)]));
        let answer = front.get("/", Some(&cookie));
        match policy {
            "Redistribute" => {
                let renewed = answer.cookie();
                assert_eq!((answer.status, answer.text()), (200, "b"));
                binds_nobody(&front.get("/", Some(&renewed)));
            }
            _ => {
                assert_eq!((answer.status, answer.text()), (503, ""));
                binds_nobody(&answer);
                assert_eq!(front.get("/", None).status, 200);
            }
        }
    }
}

#[test]
fn an_address_may_change_and_an_id_may_not() {
    let (a, b) = (Destination::named("a"), Destination::named("b"));
    let mut front = Front::start(sticky("Redistribute"), &[("one", &a)]);
    let cookie = front.get("/", None).cookie();
    front.reload(proxy("/{**rest}", sticky("Redistribute"), &[("ONE", &b)]));
    let answer = front.get("/", Some(&cookie));
    assert_eq!(answer.text(), "b");
    binds_nobody(&answer);
}

#[test]
fn the_relays_own_paths_are_not_forwarded() {
    let a = Destination::named("a");
    let front = Front::start(sticky("Redistribute"), &[("a", &a)]);
    let own = format!(
        "/apprapp/feature/v1/instances/{}/config?action=sdkConfig&collection_id=payments\
         &environment_id=prod",
        crate::harness::GUID
    );
    assert_eq!(front.get(&own, None).status, 401);
    assert!(a.requests().is_empty());
    let foreign = own.replace("payments", "elsewhere");
    assert_eq!(front.get(&foreign, None).text(), "a");
    assert_eq!(a.requests()[0].path(), foreign);
}

#[test]
fn other_methods_are_told_which_ones_there_are() {
    let a = Destination::named("a");
    let mut section = proxy("/x", sticky("Redistribute"), &[("a", &a)]);
    section["Routes"]["all"]["Match"]["Methods"] = json!(["GET", "PUT"]);
    let front = Front::by(section, |_| {});
    let mut client = front.client();
    client.send(b"POST /x HTTP/1.1\r\nHost: r\r\nContent-Length: 0\r\n\r\n");
    let answer = client.read("POST");
    assert_eq!(
        (answer.status, answer.fields("allow")),
        (405, vec!["GET, PUT"])
    );
    assert_eq!(client.get("/y", None).status, 404);
    assert!(a.requests().is_empty());
}
