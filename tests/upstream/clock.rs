//! A gateway without a battery: its clock stands at 1970 until somebody sets it.
//!
//! The clock is turned back by libfaketime, which only a program sees that reads the time by way of
//! the C library. The relay asks the kernel itself; `just clock` builds one that does not, and runs
//! this test with it.

use crate::double::{Double, Options};
use crate::harness::PATIENCE;
use crate::harness::relay::{Relay, with_the_thread};
use crate::place::{get, options, set, site_by_url, until_marked, until_open};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Names the relay that reads the time by way of the C library.
const PROGRAM: &str = "STAFFETTA_BY_LIBC";

/// The two clocks are compared every 2 s; after that nothing waits.
const AT_ONCE: Duration = Duration::from_secs(2);

fn library() -> PathBuf {
    let folder = format!("/usr/lib/{}-linux-gnu/faketime", std::env::consts::ARCH);
    let library = Path::new(&folder).join("libfaketimeMT.so.1");
    assert!(library.exists(), "{library:?}: install `faketime`");
    library
}

/// Sets the relay's clock: it reads the file each time that it looks.
fn set_clock(file: &Path, time: &str) {
    let beside = file.with_extension("new");
    fs::write(&beside, format!("@{time}\n")).expect("the scratch directory is writable");
    fs::rename(&beside, file).expect("same directory");
}

fn clock(relay: &Relay) -> Value {
    let (status, body) = relay.ask("GET /status");
    assert_eq!(status, 200, "{body}");
    let status: Value = serde_json::from_str(&body).expect("the status is JSON");
    status["clock"].clone()
}

/// A double under a certificate that is good from 2020 on.
fn double(cert: &Path, key: &Path) -> Double {
    let pair = KeyPair::generate().expect("a key pair");
    let mut params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
    params.not_before = date_time_ymd(2020, 1, 1);
    let signed = params.self_signed(&pair).expect("a certificate");
    fs::write(cert, signed.pem()).expect("the scratch directory is writable");
    fs::write(key, pair.serialize_pem()).expect("the scratch directory is writable");
    let options = Options {
        tls: Some((cert.to_owned(), key.to_owned())),
        ..options("primary")
    };
    let double = Double::start(options).expect("ports of the kernel's choice are free");
    set(&double, "upstream");
    double
}

#[test]
fn a_relay_of_1970_serves_its_seed_and_follows_once_the_clock_is_set() {
    let Some(program) = std::env::var_os(PROGRAM) else {
        // Not `eprintln`: the test runner would keep it to itself while the test passes.
        let _ = writeln!(std::io::stderr(), "\n*** NOT RUN: `just clock` runs this\n");
        return;
    };
    let mut site = site_by_url("clock", "fast", "https://localhost:1", None);
    let path = |name: &str| site.scratch.path(name);
    let (cert, key, time) = (path("cert.pem"), path("key.pem"), path("time"));
    let upstream = double(&cert, &key);
    let url = format!("https://localhost:{}", upstream.address.port());
    site.config["upstream"]["primary"]["url"] = json!(url);
    site.config["upstream"]["primary"]["ca_file"] = json!(cert);
    set_clock(&time, "1970-01-01 00:00:10");
    let mut words = with_the_thread();
    words.extend([program, "run".into(), "--config".into()]);
    words.push(site.write_config().into());
    let environment: [(&str, OsString); 4] = [
        ("LD_PRELOAD", library().into()),
        ("FAKETIME_TIMESTAMP_FILE", time.clone().into()),
        ("FAKETIME_NO_CACHE", "1".into()),
        ("DONT_FAKE_MONOTONIC", "1".into()),
    ];
    let relay = Relay::start_by(&site, &words, &environment);
    assert_eq!(clock(&relay)["state"], "not set");
    assert_eq!(
        get(&relay, "shop/dev").head.header("x-config-source"),
        Some("seed")
    );
    let tried = |line: &str| {
        line.contains("follows no upstream")
            .then(|| line.to_owned())
    };
    let line = relay.log.wait_from(0, "the failed handshake", tried);
    assert!(line.contains("clock"), "{line}");
    assert_eq!(upstream.counts().requests, 0);

    let mark = relay.log.mark();
    set_clock(&time, "2026-11-30 00:00:00");
    let set = |line: &str| line.contains("the clock was set").then(Instant::now);
    let noticed = relay.log.find_within(PATIENCE, mark, set);
    let noticed = noticed.unwrap_or_else(|| panic!("unnoticed\n{}", relay.log.all()));
    until_open(&upstream, &relay, 4);
    let took = noticed.elapsed();
    println!("followed {took:?} after the clock was seen to be set");
    assert!(took < AT_ONCE, "{took:?}\n{}", relay.log.all());
    until_marked(&relay, "shop/dev", "upstream");
    assert_eq!(clock(&relay)["state"], "set");
    assert!(relay.stop().success());
}
