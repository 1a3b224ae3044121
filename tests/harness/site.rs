//! A site as an operator would lay it out: one directory with a config, a seed and certificates.
//!
//! The directory lies under cargo's own `target/tmp` and goes with the test. Certificates are made
//! once per test program by `staffetta cert`, because that is how an operator makes them.

use super::{GUID, KEY, REGION};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The relay's program, built by cargo for this test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_staffetta");

/// A directory that is removed when the test is over.
pub struct Scratch(PathBuf);

impl Scratch {
    /// An empty directory whose name tells the process and the order of creation.
    pub fn new(name: &str) -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let unique = format!("{name}-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(unique);
        fs::create_dir_all(&path).expect("target/tmp is writable");
        Scratch(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left behind is in cargo's own directory and goes with `cargo clean`.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// One site: its directory and the configuration, which a test may edit before it starts the relay.
pub struct Site {
    pub scratch: Scratch,
    pub config: Value,
}

impl Site {
    /// A site with every slot that `seed` fills, one key for all of them, TLS, and `seed` itself.
    pub fn new(name: &str, seed: &str) -> Site {
        let scratch = Scratch::new(name);
        let certificates = certificates();
        let config = json!({
            "listen": ["127.0.0.1:0"],
            "tls": {
                "cert": certificates.join("relay.crt"),
                "key": certificates.join("relay.key"),
            },
            "admin": { "listen": format!("unix:{}", scratch.path("admin.sock").display()) },
            "seed": { "file": scratch.path("seed.json") },
            "instance": { "guid": GUID, "region": REGION },
            "client_keys": [{ "id": "all", "key": KEY }],
            "slots": slots_of(seed),
        });
        let site = Site { scratch, config };
        site.replace_seed(seed);
        site
    }

    /// Replaces the seed as an operator is told to: written beside it, then moved over it.
    pub fn replace_seed(&self, seed: &str) {
        let beside = self.scratch.path("seed.json.new");
        fs::write(&beside, seed).expect("the scratch directory is writable");
        fs::rename(&beside, self.scratch.path("seed.json")).expect("same directory");
    }

    /// Writes the configuration and gives its path.
    pub fn write_config(&self) -> PathBuf {
        let path = self.scratch.path("relay.json");
        fs::write(&path, self.config.to_string()).expect("the scratch directory is writable");
        path
    }
}

fn slot(collection: &str, environment: &str) -> Value {
    json!({ "collection": collection, "environment": environment })
}

/// A slot for each collection in each environment of `seed`.
fn slots_of(seed: &str) -> Vec<Value> {
    let seed: Value = serde_json::from_str(seed).expect("a site begins with a good seed");
    let ids = |list: &str, id: &str| -> Vec<String> {
        let items = seed[list].as_array().expect("a list").iter();
        items
            .filter_map(|item| item[id].as_str())
            .map(str::to_owned)
            .collect()
    };
    let environments = ids("environments", "environment_id");
    let collections = ids("collections", "collection_id");
    let of = |collection: &String| {
        let slots = environments
            .iter()
            .map(|environment| slot(collection, environment));
        slots.collect::<Vec<Value>>()
    };
    collections.iter().flat_map(of).collect()
}

/// The directory with what `staffetta cert` makes, the same for all sites of this test program.
pub fn certificates() -> &'static Path {
    static DIRECTORY: OnceLock<Scratch> = OnceLock::new();
    let scratch = DIRECTORY.get_or_init(|| {
        remove_left_behind("certificates-");
        let scratch = Scratch::new("certificates");
        let made = Command::new(PROGRAM)
            .arg("cert")
            .arg("--dir")
            .arg(&scratch.0)
            .output()
            .expect("the relay's program starts");
        let complaint = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "staffetta cert: {complaint}");
        scratch
    });
    &scratch.0
}

/// Removes the directories of test programs that have ended: what lives as long as its program is
/// never dropped.
fn remove_left_behind(prefix: &str) {
    let entries = fs::read_dir(env!("CARGO_TARGET_TMPDIR")).expect("target/tmp is readable");
    for entry in entries.flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        let process = name
            .strip_prefix(prefix)
            .and_then(|rest| rest.split_once('-'));
        let ended = process.is_some_and(|(id, _)| !Path::new("/proc").join(id).exists());
        if ended {
            // Somebody else may be at it too.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
