//! Keys of upstreams that are read again while the relay runs.

use crate::harness::relay::Relay;
use crate::place::{SLOTS, double, notify, set, site, until_marked, until_open};
use serde_json::json;

#[test]
fn the_key_of_another_upstream_does_not_go_to_the_one_that_is_followed() {
    let (followed, next) = (double("followed", "upstream"), double("next", "next"));
    let mut site = site("moved", "fast", &followed, None);
    let relay = Relay::start(&site);
    until_open(&followed, &relay, 4);
    until_marked(&relay, "shop/dev", "upstream");
    let url = format!("http://{}", next.address);
    site.config["upstream"]["primary"] = json!({ "url": url, "api_key": "secret-of-next" });
    site.write_config();
    // The second one finds nothing that differs from the first.
    for after in ["after one", "after two"] {
        let (status, verdict) = relay.reload();
        assert_eq!(status, 200, "{verdict}");
        set(&followed, after);
        notify(&followed);
        for slot in SLOTS {
            until_marked(&relay, slot, after);
        }
    }
    let (followed, next) = (followed.counts(), next.counts());
    assert_eq!((followed.token_requests, followed.sockets_open), (1, 4));
    assert_eq!(next.connections, 0);
    assert!(relay.stop().success());
}
