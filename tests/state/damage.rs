//! Files that a bad card or another hand has changed, and two relays with one folder.

use crate::harness::relay::Relay;
use crate::site::{document, kept, marker, seed, site, wait_kept, without_seed};
use serde_json::Value;
use std::fs;
use std::process::Command;

#[test]
fn unusable_files_are_set_aside_and_the_start_goes_on_from_the_seed() {
    let site = site("damage");
    let relay = Relay::start(&site);
    wait_kept(&relay, 1);
    assert!(relay.stop().success());
    let whole = fs::read(kept(&site)).expect("it was kept");
    let nul = vec![0; whole.len()];
    let half = whole[..whole.len() / 2].to_vec();
    let mut flipped = whole.clone();
    flipped[whole.len() / 3] ^= 1;
    for (number, bad) in [nul, half, flipped].into_iter().enumerate() {
        fs::write(kept(&site), bad).expect("the state folder is writable");
        site.replace_seed(&seed(number).to_string());
        let relay = Relay::start(&site);
        let (source, found) = document(relay.address).expect("a document");
        assert_eq!((source.as_str(), marker(&found)), ("seed", number));
        let (_, status) = relay.ask("GET /status");
        let status: Value = serde_json::from_str(&status).expect("a status document");
        let aside = &status["state_dir"]["bad_files"];
        assert_eq!(aside, &serde_json::json!(["c@e.slot.bad"]), "{status}");
        wait_kept(&relay, 1);
        assert!(relay.stop().success());
        assert!(kept(&site).with_extension("slot.bad").exists());
        without_seed(&site);
        let relay = Relay::start(&site);
        let (source, found) = document(relay.address).expect("a document");
        assert_eq!((source.as_str(), marker(&found)), ("cache", number));
    }
}

#[test]
fn a_second_relay_with_the_same_folder_does_not_start() {
    let site = site("taken");
    let relay = Relay::start(&site);
    let second = Command::new(crate::harness::site::PROGRAM)
        .args(["run", "--config"])
        .arg(site.write_config())
        .output()
        .expect("the relay's program starts");
    let complaint = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1), "{complaint}");
    let told = complaint.contains("another relay is running with it") && complaint.contains("live");
    assert!(told, "{complaint}");
    assert_eq!(
        document(relay.address).map(|(source, _)| source).as_deref(),
        Some("seed")
    );
}
