//! Three nodes of three regions, and the records that say who is primary.
//!
//! Timings are a tenth of those that ship, so that a switch takes a second; what holds a record
//! together (spacing, guard and skew) is checked by the same reader as ever.

use crate::admin::Admin;
use crate::harness::PATIENCE;
use crate::harness::relay::Relay;
use crate::harness::site::{PROGRAM, Scratch, Site, certificates};
use crate::port::Port;
use crate::site::site;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

/// How long things take in these tests. A write that was begun before the drain has to end in it:
/// two shared cores and a debug build want a part of a second for that.
pub const TIMING: &str = "max_skew=300,guard=300,grace=300,drain=500,hold=3000,poll=200";
/// The same, with more patience for the seal of a primary that a slow disk holds up.
pub const PATIENT: &str = "max_skew=300,guard=300,grace=2000,drain=500,hold=3000,poll=200";
/// What both say of a write that is under way, or held, at a switch.
pub const DRAIN: Duration = Duration::from_millis(500);
pub const HOLD: Duration = Duration::from_secs(3);

/// Regions; each has one node, whose name ends with `-1`.
pub const REGIONS: [&str; 3] = ["au", "eu", "us"];

/// What nodes show each other, and nobody else.
pub const PEER_KEY: &str = "what-nodes-of-this-test-show-each-other";

/// A running node.
pub struct Node {
    pub name: String,
    pub site: Site,
    pub relay: Relay,
    /// Where it is found again after a restart.
    pub port: Port,
}

impl Node {
    /// The node of a region, with one slot, which is the operator's, and nothing in it.
    pub fn start(region: &str) -> Node {
        let mut site = site(&format!("region-{region}"));
        site.config["slots"][0]["source"] = json!("operator");
        let config = site.config.as_object_mut().expect("a config");
        config.remove("seed");
        Node::of(region, site)
    }

    /// The node of a region at a site that keeps its state and has a slot of the operator; what the
    /// site says of regions stays.
    pub fn of(region: &str, mut site: Site) -> Node {
        let name = format!("{region}-1");
        let mut part = json!({ "node": name, "trust": "none", "peer_key": PEER_KEY });
        if has_tls(&site) {
            part["ca_file"] = json!(certificates().join("ca.crt"));
        }
        let more = site.config["region"].as_object().cloned();
        let part_of = part.as_object_mut().expect("an object");
        part_of.extend(more.unwrap_or_default());
        site.config["region"] = part;
        let port = Port::of(&mut site);
        let relay = Relay::start(&site);
        Node {
            name,
            site,
            relay,
            port,
        }
    }

    /// Stops it like an operator, and starts it again at the same place.
    pub fn restart(self) -> Node {
        assert!(self.relay.stop().success());
        let relay = Relay::start(&self.site);
        Node { relay, ..self }
    }

    /// Runs a command that talks to this node.
    pub fn command(&self, words: &[&str]) -> Output {
        let socket = format!("unix:{}", self.site.scratch.path("admin.sock").display());
        staffetta(&[words, &["--admin", &socket]].concat())
    }

    /// Waits until `region show` finds that all nodes agree: they hear of each other each `poll`.
    pub fn wait_until_all_agree(&self) {
        let started = Instant::now();
        loop {
            let shown = said(&self.command(&["region", "show"]));
            if shown.contains("All nodes agree.") {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "{}: {shown}", self.name);
        }
    }

    pub fn admin(&self) -> Admin {
        Admin::reach(&self.site).expect("a running node")
    }

    /// What this node says of its slot: its line of the region status.
    pub fn slot(&self) -> Value {
        let mut lines = self.lines();
        lines.next().expect("a slot")
    }

    fn lines(&self) -> impl Iterator<Item = Value> {
        let (status, body) = self.relay.ask("GET /v1/region/status");
        assert_eq!(status, 200, "{body}");
        let mut status: Value = serde_json::from_str(&body).expect("a status in JSON");
        let lines = status["slots"].as_array_mut().map(std::mem::take);
        lines.expect("a list").into_iter()
    }

    /// Waits until this node says something of its slot.
    pub fn wait(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        self.wait_until(what, || self.slot(), holds)
    }

    /// The same of the slot or the route `name`.
    pub fn wait_line(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let line = || self.lines().find(|line| line["slot"] == name);
        self.wait_until(what, || line().expect("a line"), holds)
    }

    fn wait_until(
        &self,
        what: &str,
        line: impl Fn() -> Value,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        let started = Instant::now();
        loop {
            let found = line();
            if holds(&found) {
                return found;
            }
            let log = || self.relay.log.all();
            assert!(started.elapsed() < PATIENCE, "{what}: {found}\n{}", log());
        }
    }
}

/// Whether peers reach a site by TLS.
fn has_tls(site: &Site) -> bool {
    site.config.get("tls").is_some()
}

/// Three nodes that have no record yet.
pub fn three() -> [Node; 3] {
    REGIONS.map(Node::start)
}

/// Runs the program.
pub fn staffetta(words: &[&str]) -> Output {
    let run = Command::new(PROGRAM).args(words).output();
    run.expect("the program starts")
}

/// What a command said, which must have done what it was told.
pub fn done(output: &Output) -> String {
    let said = said(output);
    assert!(output.status.success(), "{said}");
    said
}

/// Both outputs of a command.
pub fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// The record of some nodes as it grows: the last document lies in a file.
pub struct Records {
    scratch: Rc<Scratch>,
    /// Whose records these are, where two people make them.
    author: usize,
    version: usize,
}

impl Records {
    /// The first record: everything is `primary`'s.
    pub fn new<'n>(nodes: impl IntoIterator<Item = &'n Node>, primary: &str) -> Records {
        Records::timed(nodes, primary, TIMING)
    }

    /// The same with timings of the test's own.
    pub fn timed<'n>(
        nodes: impl IntoIterator<Item = &'n Node>,
        primary: &str,
        timing: &str,
    ) -> Records {
        let records = Records {
            scratch: Rc::new(Scratch::new("records")),
            author: 0,
            version: 1,
        };
        let sites = nodes.into_iter().zip(REGIONS).map(|(node, region)| {
            let (name, address) = (&node.name, node.port.address);
            let scheme = if has_tls(&node.site) { "https" } else { "http" };
            format!("{region}={name}@{scheme}://{address}")
        });
        let sites: Vec<String> = sites.collect();
        let out = records.document();
        let mut words = vec!["region", "new", "--cluster", "plant", "--primary", primary];
        words.extend(["--timing", timing, "--out", &out]);
        for site in &sites {
            words.extend(["--region", site]);
        }
        done(&staffetta(&words));
        records
    }

    fn file(&self, kind: &str) -> String {
        let name = format!("{kind}-{}-{}.json", self.version, self.author);
        let path: PathBuf = self.scratch.path(&name);
        path.display().to_string()
    }

    /// The last document.
    pub fn document(&self) -> String {
        self.file("document")
    }

    /// Somebody else goes on from the last record.
    pub fn fork(&self) -> Records {
        let records = Records {
            scratch: self.scratch.clone(),
            author: self.author + 1,
            version: self.version,
        };
        std::fs::copy(self.document(), records.document()).expect("the last document");
        records
    }

    /// One switch more: everything to `to` at `at`.
    pub fn switch(&mut self, to: &str, at: SystemTime) {
        let before = self.document();
        self.version += 1;
        let (out, at) = (
            self.document(),
            humantime::format_rfc3339_millis(at).to_string(),
        );
        let words = [
            "region", "switch", &before, "--all", "--to", to, "--at", &at, "--out", &out,
        ];
        done(&staffetta(&words));
    }

    /// The last record, packed.
    pub fn packed(&self) -> String {
        let out = self.file("record");
        let words = [
            "region",
            "pack",
            &self.document(),
            "--unsigned",
            "--out",
            &out,
        ];
        done(&staffetta(&words));
        out
    }

    /// Hands the last record to a node.
    pub fn import(&self, node: &Node) {
        let packed = self.packed();
        done(&node.command(&["region", "import", &packed]));
    }
}

/// The time `wait` from now.
pub fn from_now(wait: Duration) -> SystemTime {
    SystemTime::now() + wait
}
