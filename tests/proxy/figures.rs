//! What people are told about a relay that forwards.

use serde_json::json;

use crate::destination::Destination;
use crate::site::{Front, proxy};

#[test]
fn a_relay_without_slots_is_ready_and_tells_of_its_clusters() {
    let a = Destination::named("a");
    let front = Front::by(proxy("/{**rest}", json!({}), &[("node-1", &a)]), |config| {
        config["slots"] = json!([]);
        config["client_keys"] = json!([]);
        let file = config.as_object_mut().expect("an object");
        file.remove("seed");
    });
    assert_eq!(front.relay.ask("GET /ready"), (200, "ready\n".to_owned()));
    assert_eq!(front.get("/", None).text(), "a");
    let status = front.status();
    assert_eq!(status["ready"], true);
    let cluster = &status["clusters"][0];
    assert_eq!(
        (&cluster["id"], &cluster["requests"]["unbound"]),
        (&json!("plant"), &json!(1))
    );
    let destination = &cluster["destinations"][0];
    assert_eq!(destination["id"], "node-1");
    assert_eq!(destination["address"], a.url());
    assert_eq!(destination["in_flight"], 0);
    let (_, page) = front.relay.ask("GET /");
    assert!(page.contains("plant: 1 of 1 healthy"), "{page}");
    let line = front.relay.log.wait_from(0, "a request", |line| {
        line.contains("by route all").then(|| line.to_owned())
    });
    assert!(line.contains(": 200, unbound,"), "{line}");
}
