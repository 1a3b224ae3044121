//! The real JavaScript SDK on a page that comes from the same relay as everything that it asks
//! for: a front before two relays. So its browser keeps the cookie, which the SDK never sees, and
//! the page stays with its node until that is killed.

use super::application::{self, Application};
use super::expected::Seeds;
use super::{RECONNECT_MAX, sdk_and_browser, status, usage_reports};
use crate::app::SLOTS;
use crate::front::front;
use crate::harness::PATIENCE;
use crate::harness::relay::Relay;
use crate::harness::site::Site;
use serde_json::{Value, json};

/// Clients that were bound, and those that were bound anew because their node could not be had.
fn bound(front: &Relay) -> (Value, Value) {
    let cluster = &status(front)["clusters"][0];
    assert_eq!(cluster["id"], "nodes");
    (cluster["requests"]["new"].clone(), cluster["again"].clone())
}

/// Whether a node has an event stream.
fn is_serving((relay, _): &(Relay, Site)) -> bool {
    let status = status(relay);
    let mut slots = status["slots"].as_array().expect("a list").iter();
    slots.any(|slot| slot["clients"]["sse"] != 0)
}

#[test]
fn an_application_on_a_page_of_the_front_stays_with_its_node() {
    let Some((installed, browser)) = sdk_and_browser() else {
        return;
    };
    let seeds = Seeds::of(installed);
    let seed = &seeds.first.seed;
    let mut nodes: Vec<(Relay, Site)> = Vec::new();
    for _ in 0..2 {
        let site = Site::new("node", seed);
        nodes.push((Relay::start(&site), site));
    }
    let page = application::page(installed, SLOTS[3], None, seed);
    let mut site = front(&nodes, seed);
    let proxy = &mut site.config["ReverseProxy"];
    proxy["Routes"]["app"] = json!({ "ClusterId": "pages", "Match": { "Path": "/app/{**rest}" } });
    let address = format!("http://{}", page.socket);
    proxy["Clusters"]["pages"] = json!({ "Destinations": { "page": { "Address": address } } });
    let front = Relay::start(&site);
    let address = format!("http://{}/app/page.html", front.address);
    let mut app = Application::on_page(browser, &site, SLOTS[3], page, &address);
    let wait_until_served = |app: &Application, mark| {
        app.wait_for_values(mark, "registration", &seeds.first, PATIENCE);
        app.wait(mark, "ready");
        app.wait_until_reported(mark, "usage");
        // Its reports go out together: whatever is under way to a node that is killed is lost.
        app.wait(mark, "settled");
    };
    wait_until_served(&app, 0);
    // The event stream was answered first, and bound the page.
    assert_eq!(bound(&front), (json!(1), json!(0)));
    let serving = nodes.iter().position(is_serving).expect("one has the page");
    for _ in 0..3 {
        let mark = app.reload();
        wait_until_served(&app, mark);
        assert_eq!(nodes.iter().position(is_serving), Some(serving));
    }
    assert_eq!(bound(&front), (json!(1), json!(0)));
    let (killed, killed_site) = nodes.remove(serving);
    let (left, left_site) = &nodes[0];
    assert!(!is_serving(&nodes[0]));
    assert!(usage_reports(&killed) >= 4);
    assert_eq!(usage_reports(left), 0);
    // Its node is killed: one new cookie, and all goes on at the other one.
    let mark = app.mark();
    drop((killed, killed_site));
    app.wait_for_values(mark, "registration", &seeds.first, RECONNECT_MAX);
    let mark = app.mark();
    left_site.replace_seed(&seeds.changed.seed);
    app.wait_for_values(mark, "update", &seeds.changed, PATIENCE);
    // Whatever was under way with the old cookie has brought the new one by now, the same to all.
    let moved = bound(&front);
    assert!(
        moved.0 == json!(1) && moved.1.as_u64() >= Some(1),
        "{moved:?}"
    );
    let mark = app.reload();
    app.wait_for_values(mark, "registration", &seeds.changed, PATIENCE);
    app.wait_until_reported(mark, "usage");
    assert_eq!(bound(&front), moved);
    assert!(usage_reports(left) >= 1);
    // What went out on a connection that died is not sent twice: 502, and the SDK goes on.
    app.check_lost_reports(1);
    app.leave();
    app.end();
    assert!(front.stop().success());
}
