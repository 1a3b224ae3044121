//! A site with a state folder, and what its relay serves.

use crate::harness::relay::Relay;
use crate::harness::site::Site;
use crate::harness::{GUID, KEY, PATIENCE};
use serde_json::{Value, json};
use std::cell::Cell;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;

/// A seed whose one property tells which it is. It is long enough to take several blocks.
pub fn seed(marker: usize) -> Value {
    let member = json!([{ "collection_id": "c", "name": "C" }]);
    let property = |id: &str, value: String| {
        json!({
            "property_id": id, "name": id, "type": "STRING", "format": "TEXT",
            "value": value, "segment_rules": [], "collections": member,
        })
    };
    json!({
        "environments": [{
            "environment_id": "e", "name": "E", "features": [],
            "properties": [
                property("marker", marker.to_string()),
                property("ballast", format!("{marker} ").repeat(2_000)),
            ],
        }],
        "collections": member,
        "segments": [],
    })
}

/// A site of one slot that keeps its state and tells what it keeps.
pub fn site(name: &str) -> Site {
    let mut site = Site::new(name, &seed(0).to_string());
    let folder = site.scratch.path("state");
    fs::create_dir(&folder).expect("the scratch directory is writable");
    let config = site.config.as_object_mut().expect("a config");
    config.insert("state_dir".into(), json!(folder));
    config.insert("log".into(), json!({ "level": "debug", "format": "plain" }));
    config.remove("tls");
    site
}

/// The file of the one slot.
pub fn kept(site: &Site) -> PathBuf {
    site.scratch.path("state/live/c@e.slot")
}

/// Takes the seed away, so that only what was kept can be served.
pub fn without_seed(site: &Site) {
    // It may be gone already.
    let _ = fs::remove_file(site.scratch.path("seed.json"));
}

/// Where the config document came from, and the document.
pub fn document(address: SocketAddr) -> Option<(String, Value)> {
    let request = format!(
        "GET /apprapp/feature/v1/instances/{GUID}/config?action=sdkConfig&environment_id=e\
         &collection_id=c HTTP/1.1\r\nHost: r\r\nAuthorization: {KEY}\r\nConnection: close\r\n\r\n"
    );
    let mut socket = TcpStream::connect(address).expect("the relay listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
    socket.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
    if head.starts_with("HTTP/1.1 503") {
        return None;
    }
    let source = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        let is_source = name.eq_ignore_ascii_case("x-config-source");
        is_source.then(|| value.to_owned())
    });
    let body = serde_json::from_str(body).expect("a whole document");
    Some((source.expect("a source"), body))
}

/// Which seed a document is from; whole, because both properties agree.
pub fn marker(document: &Value) -> usize {
    let properties = &document["environments"][0]["properties"];
    let marker = properties[0]["value"].as_str().expect("a marker");
    let ballast = properties[1]["value"].as_str().expect("ballast");
    assert_eq!(ballast, format!("{marker} ").repeat(2_000));
    marker.parse().expect("a number")
}

/// Waits until the log says that `count` documents are kept.
pub fn wait_kept(relay: &Relay, count: usize) {
    let seen = Cell::new(0);
    relay.log.wait_from(0, "a document that is kept", |line| {
        seen.set(seen.get() + usize::from(line.contains(": kept ")));
        (seen.get() == count).then_some(())
    });
}
