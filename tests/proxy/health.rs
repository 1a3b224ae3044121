//! What the checks say, and what follows.

use serde_json::json;

use crate::destination::{Destination, answer};
use crate::site::{Front, sticky};

fn checked(available: &str) -> serde_json::Value {
    let mut cluster = sticky("Redistribute");
    cluster["HealthCheck"] = json!({
        "AvailableDestinationsPolicy": available,
        "Active": { "Enabled": true, "Interval": "00:00:01", "Path": "/health", "Query": "?q" }
    });
    cluster["Metadata"] = json!({ "ConsecutiveFailuresHealthPolicy.Threshold": "1" });
    cluster
}

fn ill() -> Destination {
    Destination::start(|request, socket| match request.path() {
        "/health?q" => answer(socket, "500 No", "", ""),
        _ => answer(socket, "200 OK", "", "ill"),
    })
}

#[test]
fn an_unhealthy_destination_gets_nothing_while_another_is_well() {
    let (ill, well) = (ill(), Destination::named("well"));
    let front = Front::start(checked("HealthyOrPanic"), &[("ill", &ill), ("well", &well)]);
    front.relay.log.wait_for("destination ill");
    for _ in 0..6 {
        assert_eq!(front.get("/", None).text(), "well");
    }
    let status = front.status();
    let destination = &status["clusters"][0]["destinations"][0];
    assert_eq!(destination["active"], "unhealthy");
    assert_eq!(status["problems"].as_array().map(Vec::len), Some(1));
    assert_eq!(front.relay.ask("GET /ready").0, 200);
}

#[test]
fn when_all_are_unhealthy_all_are_used_or_none() {
    for (available, expected) in [("HealthyOrPanic", 200), ("HealthyAndUnknown", 503)] {
        let ill = ill();
        let front = Front::start(checked(available), &[("ill", &ill)]);
        front.relay.log.wait_for("destination ill");
        let answer = front.get("/", None);
        assert_eq!(answer.status, expected, "{answer:?}");
        assert_eq!(answer.fields("set-cookie").is_empty(), expected == 503);
    }
}
