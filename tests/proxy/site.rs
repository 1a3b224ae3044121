//! A relay with a reverse proxy, as a test wants it.

use std::ffi::OsString;

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::destination::Destination;
use crate::harness::relay::Relay;
use crate::harness::site::Site;

const SEED: &str = include_str!("../../seeds/demo.json");

/// The cookie's name in these tests.
pub const COOKIE: &str = "Plant.Affinity";

/// A relay that serves the demo, and forwards.
pub struct Front {
    pub relay: Relay,
    pub site: Site,
}

impl Front {
    /// Every path but IBM's own goes to one cluster, which is `cluster` but for its destinations.
    pub fn start(cluster: Value, destinations: &[(&str, &Destination)]) -> Front {
        Front::by(proxy("/{**rest}", cluster, destinations), |_| {})
    }

    /// With a `ReverseProxy` section, and a configuration that is edited first.
    pub fn by(proxy: Value, edit: impl FnOnce(&mut Value)) -> Front {
        Front::through(&[], proxy, edit)
    }

    /// As [`Front::by`], run by the command `through`.
    pub fn through(through: &[OsString], proxy: Value, edit: impl FnOnce(&mut Value)) -> Front {
        let mut site = Site::new("proxy", SEED);
        site.config["ReverseProxy"] = proxy;
        site.config["log"] = json!({ "level": "debug" });
        edit(&mut site.config);
        Front {
            relay: Relay::start_through(&site, through),
            site,
        }
    }

    /// Puts another section in force.
    pub fn reload(&mut self, proxy: Value) {
        self.site.config["ReverseProxy"] = proxy;
        self.site.write_config();
        let (status, text) = self.relay.reload();
        assert_eq!(status, 200, "{text}");
    }

    pub fn client(&self) -> Client {
        Client::connect(self.relay.address)
    }

    /// A GET on a connection of its own.
    pub fn get(&self, path: &str, cookie: Option<&str>) -> Answer {
        self.client().get(path, cookie)
    }

    /// The status of the relay.
    pub fn status(&self) -> Value {
        let (status, text) = self.relay.ask("GET /status");
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).expect("JSON")
    }
}

/// A section with one route, one cluster, and metadata of destinations behind a `+` in their name.
pub fn proxy(path: &str, mut cluster: Value, destinations: &[(&str, &Destination)]) -> Value {
    for (name, destination) in destinations {
        let (id, mark) = name.split_once('+').unwrap_or((name, ""));
        let mut value = json!({ "Address": destination.url() });
        if !mark.is_empty() {
            value["Metadata"] = json!({ mark: "true" });
        }
        cluster["Destinations"][id] = value;
    }
    json!({
        "Routes": { "all": { "ClusterId": "plant", "Match": { "Path": path } } },
        "Clusters": { "plant": cluster },
    })
}

/// A cluster with affinity under a failure policy.
pub fn sticky(policy: &str) -> Value {
    json!({
        "LoadBalancingPolicy": "RoundRobin",
        "SessionAffinity": {
            "Enabled": true, "AffinityKeyName": COOKIE, "FailurePolicy": policy
        },
    })
}
