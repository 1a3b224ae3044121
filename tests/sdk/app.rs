//! One application process with the real SDK in it.

use crate::harness::lines::Lines;
use crate::harness::relay::{Relay, with_the_thread};
use crate::harness::site::Site;
use crate::harness::{GUID, KEY, REGION};
use crate::proxy;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const APP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sdk/app.py");

/// From the start of an application to its first values, and for each of its answers: sixteen
/// interpreters import the SDK side by side.
pub const START_MAX: Duration = Duration::from_secs(60);

/// The slots of the demo, each of which gets an application.
pub const SLOTS: [(&str, &str); 4] = [
    ("inventory", "dev"),
    ("inventory", "prod"),
    ("payments", "dev"),
    ("payments", "prod"),
];

/// How an application finds the relay.
#[derive(Clone, Default)]
pub struct Route {
    /// The command that enters the network to run in.
    pub through: Vec<OsString>,
    /// What the application gives to the SDK as its service URL, if anything.
    pub service: Option<String>,
    /// The whole environment of the process.
    pub environment: Vec<(&'static str, OsString)>,
}

impl Route {
    /// Nothing but a proxy setting: the SDK believes that it talks to the service.
    pub fn by_proxy(relay: &Relay) -> Route {
        Route {
            environment: proxy(relay),
            ..Route::default()
        }
    }

    /// The token through the proxy setting, all else by the service URL.
    pub fn by_service_url(relay: &Relay) -> Route {
        Route {
            service: Some(format!("http://{}", relay.address)),
            ..Route::by_proxy(relay)
        }
    }
}

/// Lays `seed` at a site, for its applications to read the ids of entities from.
pub fn entities(site: &Site, seed: &str) -> PathBuf {
    let path = site.scratch.path("entities.json");
    std::fs::write(&path, seed).expect("the scratch directory is writable");
    path
}

/// A running application.
pub struct App {
    child: Child,
    said: Lines,
    /// What the SDK itself logs.
    pub log: Lines,
    pub slot: (&'static str, &'static str),
}

impl App {
    /// Starts an application of `slot` and waits until its SDK has asked for its configuration.
    pub fn start(
        python: &Path,
        slot: (&'static str, &'static str),
        route: &Route,
        seed: &Path,
    ) -> App {
        let options = json!({
            "region": REGION, "guid": GUID, "key": KEY, "seed": seed,
            "collection": slot.0, "environment": slot.1, "override": route.service,
        });
        App::spawn(python, slot, route, &options)
    }

    /// Starts an application whose SDK reads `seed` by itself, without any relay.
    pub fn offline(python: &Path, slot: (&'static str, &'static str), seed: &Path) -> App {
        let options = json!({
            "region": REGION, "guid": GUID, "key": KEY, "seed": seed, "bootstrap": seed,
            "collection": slot.0, "environment": slot.1,
        });
        // Usage goes to a port where nobody listens: offline is offline.
        let nobody = ("HTTPS_PROXY", OsString::from("http://127.0.0.1:9"));
        let route = Route {
            environment: vec![nobody],
            ..Route::default()
        };
        App::spawn(python, slot, &route, &options)
    }

    fn spawn(
        python: &Path,
        slot: (&'static str, &'static str),
        route: &Route,
        options: &Value,
    ) -> App {
        let mut words = route.through.clone();
        words.extend(with_the_thread());
        words.push(python.into());
        words.push(APP.into());
        words.push(options.to_string().into());
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .env_clear()
            .envs(route.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the interpreter starts");
        let said = Lines::of("application", child.stdout.take().expect("stdout is piped"));
        let log = Lines::of("SDK", child.stderr.take().expect("stderr is piped"));
        App {
            child,
            said,
            log,
            slot,
        }
    }

    /// A place in what the application has said, to wait from.
    pub fn mark(&self) -> usize {
        self.said.mark()
    }

    /// Waits for `event` from `mark` on.
    pub fn wait(&self, mark: usize, event: &str, patience: Duration) -> Value {
        let pick = |line: &str| {
            let said: Value = serde_json::from_str(line).ok()?;
            (said["event"] == event).then_some(said)
        };
        let found = self.said.find_within(patience, mark, pick);
        found.unwrap_or_else(|| {
            panic!(
                "{:?}: no {event:?}; the SDK logged\n{}",
                self.slot,
                self.log.all()
            )
        })
    }

    /// Waits until the SDK has its configuration and its WebSocket is open.
    pub fn wait_until_running(&self) {
        self.wait(0, "loaded", START_MAX);
        self.wait_until_connected();
    }

    /// Waits until the SDK's WebSocket is open.
    pub fn wait_until_connected(&self) {
        let opened = "Received opened connection from websocket";
        let found = self
            .log
            .find_within(START_MAX, 0, |line| line.contains(opened).then_some(()));
        assert!(
            found.is_some(),
            "{:?}: no WebSocket; the SDK logged\n{}",
            self.slot,
            self.log.all()
        );
    }

    /// Waits for an update from `mark` on after which every flag and property is as `expected`.
    ///
    /// There may be updates before it: the SDK fetches whenever its socket opens, and says so
    /// whether or not anything is new.
    /// Gives when that was, by the application's clock.
    pub fn wait_until(
        &mut self,
        mut mark: usize,
        expected: &Value,
        patience: Duration,
    ) -> SystemTime {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let update = self.wait(mark, "update", left);
            mark = self.mark();
            if self.evaluate() == *expected {
                let since_epoch = update["at"]
                    .as_f64()
                    .expect("the application tells the time");
                return UNIX_EPOCH + Duration::from_secs_f64(since_epoch);
            }
        }
    }

    /// How often `event` has been said since `mark`.
    pub fn count(&self, mark: usize, event: &str) -> usize {
        let word = format!("\"event\": \"{event}\"");
        self.said
            .all()
            .lines()
            .skip(mark)
            .filter(|line| line.contains(&word))
            .count()
    }

    /// Sends the word `command` and waits for the answer `event`.
    pub fn ask(&mut self, command: &str, event: &str) -> Value {
        let mark = self.mark();
        let input = self.child.stdin.as_mut().expect("stdin is piped");
        writeln!(input, "{command}").expect("the application reads");
        self.wait(mark, event, START_MAX)
    }

    /// Every flag and property for every entity.
    pub fn evaluate(&mut self) -> Value {
        self.ask("evaluate", "values")
    }
}

impl Drop for App {
    fn drop(&mut self) {
        // Already ended children are refused by both calls; there is nobody to tell.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
