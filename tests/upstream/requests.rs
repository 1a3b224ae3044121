//! The relay's client against the test double of the service, over real sockets.
//!
//! The two were written by the same description and know nothing of each other: what they agree
//! about is what the service does.

use crate::double::{Double, Options};
use crate::harness::PATIENCE;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use smol::LocalExecutor;
use staffetta::config::{Endpoint, Secret, SecretSource, UpstreamConfig};
use staffetta::limits::Limits;
use staffetta::model::report::ReportKind;
use staffetta::model::{Id, SlotKey};
use staffetta::net::clock::Clock;
use staffetta::net::disk::Disk;
use staffetta::net::upstream::{Net, Resolver, Upstream, UpstreamError};
use staffetta::state::session::{Inbound, Loss};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const SLOT: &str = "shop/prod";
const DOCUMENT: &str = "{\"environments\": []}";

struct Site {
    double: Double,
    net: Net,
    upstream: Upstream,
    executor: LocalExecutor<'static>,
    slot: SlotKey,
}

/// A folder for one test, removed with it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn start(options: Options, scheme: &str, ca_file: Option<PathBuf>) -> Site {
    start_with(options, scheme, ca_file, PATIENCE)
}

/// The same, for a client that waits for `patience` while nothing comes.
fn start_with(
    options: Options,
    scheme: &str,
    ca_file: Option<PathBuf>,
    patience: Duration,
) -> Site {
    let double = Double::start(Options {
        api_key: Some("key".to_owned()),
        guid: Some("g".to_owned()),
        heartbeat_ms: 50,
        ..options
    });
    let double = double.expect("ports of the kernel's choice are free");
    double.set_document(SLOT, DOCUMENT);
    let limits = Limits {
        upstream_idle_timeout: patience,
        upstream_connect_timeout: Duration::from_secs(5),
        ..Limits::PRODUCTION
    };
    let executor = LocalExecutor::new();
    let (disk, disk_lane) = Disk::new(&limits);
    let (resolver, name_lane) = Resolver::new(&limits);
    executor.spawn(disk_lane.run()).detach();
    executor.spawn(name_lane.run()).detach();
    let key = Secret::new(b"key").expect("a key");
    let url = format!("{scheme}://localhost:{}", double.address.port());
    let config = UpstreamConfig {
        url: Endpoint::parse(&url).expect("a URL"),
        guid: Id::new("g").expect("an id"),
        api_key: SecretSource::Inline(key.clone()),
        iam_url: None,
        ca_file,
        proxy: None,
    };
    Site {
        double,
        net: Net::new(Clock::system(), limits, resolver, disk, 1),
        upstream: Upstream::new(&config, Some(key)),
        executor,
        slot: SlotKey::parse(SLOT).expect("a slot"),
    }
}

impl Site {
    fn run<T>(&self, work: impl Future<Output = T>) -> T {
        smol::block_on(self.executor.run(work))
    }

    fn config(&self) -> Result<Vec<u8>, UpstreamError> {
        let answer = self.run(self.upstream.config(&self.net, &self.slot));
        answer.map(|answer| answer.bytes)
    }

    fn behave(&self, orders: &Value) {
        self.double.behave(orders).expect("known behaviours");
    }
}

fn follows(site: &Site) {
    assert_eq!(site.config().expect("a document"), DOCUMENT.as_bytes());
    let opened = site.run(site.upstream.subscribe(&site.net, &site.slot));
    let mut socket = opened.unwrap_or_else(|error| panic!("no socket: {error}"));
    assert_eq!(site.run(socket.next()), Ok(Inbound::Heartbeat));
    socket.ping();
    site.double.notify(SLOT, None);
    let mut heard = Vec::new();
    while !(heard.contains(&Inbound::Change) && heard.contains(&Inbound::Other)) {
        heard.push(site.run(socket.next()).expect("an open socket"));
    }
    site.run(socket.close(&site.net));
    let usage = json!({
        "collection_id": "shop",
        "environment_id": "prod",
        "usages": [{
            "feature_id": "f",
            "entity_id": "e",
            "segment_id": null,
            "evaluation_time": "2026-11-30T02:00:00Z",
            "count": 3,
        }],
    });
    let usage = usage.to_string().into_bytes();
    let report = site.upstream.report(&site.net, ReportKind::Usage, usage);
    site.run(report).expect("an accepted report");
    let counts = site.double.counts();
    assert_eq!((counts.slot(SLOT).fetches, counts.upgrades), (1, 1));
    assert_eq!(counts.token_requests, 1, "one token serves all of it");
}

#[test]
fn a_slot_is_followed_without_tls() {
    follows(&start(Options::default(), "http", None));
}

#[test]
fn a_slot_is_followed_over_tls_by_the_authority_that_is_named() {
    let key = KeyPair::generate().expect("a key pair");
    let params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
    let cert = params.self_signed(&key).expect("a certificate").pem();
    let name = format!("staffetta-upstream-{}", std::process::id());
    let folder = Folder(std::env::temp_dir().join(name));
    fs::create_dir_all(&folder.0).expect("a folder");
    let (cert_path, key_path) = (folder.0.join("cert.pem"), folder.0.join("key.pem"));
    fs::write(&cert_path, cert).expect("a file");
    fs::write(&key_path, key.serialize_pem()).expect("a file");
    let options = Options {
        tls: Some((cert_path.clone(), key_path.clone())),
        ..Options::default()
    };
    follows(&start(options.clone(), "https", Some(cert_path)));
    let stranger = start(options, "https", Some(key_path));
    assert_eq!(
        stranger.config().map_err(|error| error.loss()),
        Err(Loss::Unreachable)
    );
}

#[test]
fn failures_are_what_the_session_takes_them_for() {
    let site = start(Options::default(), "http", None);
    let wait = Some(Duration::from_secs(7));
    for (answering, loss) in [
        (
            json!({"status": 503, "retry_after": 7}),
            Loss::Refused { retry_after: wait },
        ),
        (json!({"status": 404}), Loss::Denied),
        (json!({"status": 401}), Loss::Denied),
        (json!({"garbage": true}), Loss::Unusable),
        (json!({"noise": true}), Loss::Unusable),
        (json!({"redirect": "http://portal.test/"}), Loss::Unusable),
        (json!({"truncate": true}), Loss::Closed),
        (json!({"truncate": true, "chunked": true}), Loss::Closed),
        (json!({"drop": true}), Loss::Closed),
    ] {
        site.behave(&json!({ "config": answering }));
        assert_eq!(
            site.config().map_err(|error| error.loss()),
            Err(loss),
            "{answering}"
        );
    }
    site.behave(&json!({"config": {"chunked": true, "plain": true}}));
    assert!(site.config().is_ok());
    site.behave(&json!({"config": null, "upgrade": {"status": 503, "retry_after": 7}}));
    let refused = site.run(site.upstream.subscribe(&site.net, &site.slot));
    let loss = refused.err().map(|error| error.loss());
    assert_eq!(loss, Some(Loss::Refused { retry_after: wait }));
    site.behave(&json!({"upgrade": null, "tcp": {"refuse": true}}));
    assert_eq!(
        site.config().map_err(|error| error.loss()),
        Err(Loss::Unreachable)
    );
}

#[test]
fn who_answers_nothing_is_unreachable() {
    // A double that is late with the token already comes to the same.
    let patience = Duration::from_millis(300);
    let site = start_with(Options::default(), "http", None, patience);
    site.behave(&json!({"config": {"silence": true}}));
    let asked = Instant::now();
    assert_eq!(
        site.config().map_err(|error| error.loss()),
        Err(Loss::Unreachable)
    );
    assert!(asked.elapsed() >= patience, "{:?}", asked.elapsed());
}
