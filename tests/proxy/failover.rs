//! Destinations that go, come back, stand by or drain.

use serde_json::json;

use crate::destination::{Destination, answer};
use crate::site::{Front, proxy, sticky};

const POLICIES: [&str; 2] = ["Redistribute", "Return503Error"];

#[test]
fn a_dead_primary_is_replaced_within_one_request_and_gets_its_clients_back() {
    for policy in POLICIES {
        let (mut primary, backup) = (Destination::named("primary"), Destination::named("backup"));
        let mut cluster = sticky(policy);
        cluster["HealthCheck"]["Active"] = json!({
            "Enabled": true, "Interval": "00:00:01", "Timeout": "00:00:01", "Path": "/health"
        });
        let destinations = [("main", &primary), ("spare+Backup", &backup)];
        let front = Front::start(cluster, &destinations);
        let bound = front.get("/", None);
        assert_eq!(bound.text(), "primary");
        primary.stop();
        // A new client, at once.
        let moved = front.get("/", None);
        assert_eq!(moved.text(), "backup", "{policy}");
        let cookie = moved.cookie();
        // A bound one moves where the policy lets it.
        let kept = front.get("/", Some(&bound.cookie()));
        match policy {
            "Redistribute" => assert_eq!(kept.text(), "backup"),
            _ => assert!([502, 503].contains(&kept.status), "{kept:?}"),
        }
        front.relay.log.wait_for("destination main");
        assert_eq!(front.get("/", Some(&cookie)).text(), "backup");
        let mark = front.relay.log.mark();
        primary.restart(|_, socket| answer(socket, "200 OK", "", "primary"));
        front.relay.log.wait_from(mark, "healthy again", |line| {
            line.contains("healthy again").then_some(())
        });
        let back = front.get("/", Some(&cookie));
        assert_eq!(back.text(), "primary", "{policy}");
        assert_ne!(back.cookie(), cookie);
    }
}

#[test]
fn an_answer_of_the_relays_own_binds_nobody() {
    let mut a = Destination::named("a");
    let front = Front::start(sticky("Redistribute"), &[("a", &a)]);
    a.stop();
    let answer = front.get("/", None);
    assert_eq!(answer.status, 502);
    assert!(answer.fields("set-cookie").is_empty(), "{answer:?}");
}

#[test]
fn who_is_bound_under_503_is_not_moved_by_a_refused_connection() {
    let (mut a, b) = (Destination::named("a"), Destination::named("b"));
    let front = Front::start(sticky("Return503Error"), &[("dest-A", &a), ("dest-B", &b)]);
    a.stop();
    let answer = front.get("/", Some("Plant.Affinity=615d6cd1b28160f0"));
    assert_eq!(answer.status, 502);
    assert!(b.requests().is_empty());
}

#[test]
fn whoever_drains_keeps_its_clients_and_gets_no_new_ones() {
    let (a, b) = (Destination::named("a"), Destination::named("b"));
    let cluster = || sticky("Redistribute");
    let mut front = Front::start(cluster(), &[("dest-A", &a), ("dest-B", &b)]);
    front.reload(proxy(
        "/{**rest}",
        cluster(),
        &[("dest-A+Draining", &a), ("dest-B", &b)],
    ));
    for _ in 0..4 {
        assert_eq!(front.get("/", None).text(), "b");
        let kept = front.get("/", Some("Plant.Affinity=615d6cd1b28160f0"));
        assert_eq!((kept.text(), kept.fields("set-cookie").len()), ("a", 0));
    }
    // All draining is none draining.
    let section = proxy("/{**rest}", cluster(), &[("dest-A+Draining", &a)]);
    front.reload(section);
    assert_eq!(front.get("/", None).text(), "a");
}

#[test]
fn what_went_out_once_is_never_sent_again() {
    let (a, b) = (
        Destination::start(|request, socket| {
            let is_fatal = request.path() == "/die";
            !is_fatal && answer(socket, "200 OK", "", "a")
        }),
        Destination::named("b"),
    );
    let front = Front::start(sticky("Redistribute"), &[("dest-A", &a), ("dest-B", &b)]);
    let cookie = Some("Plant.Affinity=615d6cd1b28160f0");
    let mut client = front.client();
    assert_eq!(client.get("/", cookie).text(), "a");
    let answer = client.get("/die", cookie);
    assert_eq!(answer.status, 502);
    assert!(answer.fields("set-cookie").is_empty());
    // On the connection of the first, one copy, and none elsewhere.
    assert_eq!((a.connections(), a.requests().len()), (1, 2));
    assert!(b.requests().is_empty());
    assert_eq!(client.get("/", cookie).text(), "a");
}

#[test]
fn a_connection_that_was_closed_while_idle_is_not_used() {
    let a = Destination::start(|_, socket| {
        answer(socket, "200 OK", "", "a");
        false
    });
    let front = Front::start(sticky("Redistribute"), &[("a", &a)]);
    let mut client = front.client();
    for _ in 0..20 {
        let answer = client.get("/", None);
        // Between the answer and the end there is a moment that nobody can see into.
        assert!([200, 502].contains(&answer.status), "{answer:?}");
    }
    assert!(a.connections() > 10);
}
