//! The admin listener as operators, monitors and scrapers meet it: over TCP and over its Unix
//! socket, asked with plain sockets and with the program's own commands.
//!
//! The relay runs inside the test, on sockets that the test opened: whoever connects before it
//! accepts waits in the kernel, so no test waits for a start. It ends with the test.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use smol::channel::Sender;
use staffetta::config::Environment;
use staffetta::limits::Limits;
use staffetta::net::clock::Clock;
use staffetta::net::load::{Origin, load};
use staffetta::net::log::{Format, Level, Log};
use staffetta::net::signal::Signal;
use staffetta::net::sockets::{Inherited, Listener, Reach};
use staffetta::net::{Control, Setup};

const PROGRAM: &str = env!("CARGO_BIN_EXE_staffetta");
const DEMO_SEED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/seeds/demo.json");
const CLIENT_KEY: &str = "a-client-key-that-is-secret";
const TOKEN: &str = "an-admin-token-that-is-secret";

struct Relay {
    folder: PathBuf,
    sdk: SocketAddr,
    tcp: SocketAddr,
    control: Sender<Signal>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// A relay of two slots; `change` edits its configuration first.
    fn start(name: &str, change: impl FnOnce(&mut Value)) -> Relay {
        Relay::start_with(name, Limits::PRODUCTION, change)
    }

    fn start_with(name: &str, limits: Limits, change: impl FnOnce(&mut Value)) -> Relay {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("admin-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::copy(DEMO_SEED, folder.join("seed.json")).unwrap();
        fs::write(folder.join("admin.token"), TOKEN).unwrap();
        let mut config = json!({
            "listen": ["127.0.0.1:0"],
            "admin": { "token_file": "admin.token" },
            "seed": { "file": "seed.json" },
            "instance": { "guid": "11111111-2222-3333-4444-555555555555" },
            "client_keys": [{ "id": "line", "key": CLIENT_KEY }],
            "slots": [
                { "collection": "inventory", "environment": "dev" },
                { "collection": "payments", "environment": "prod" },
            ],
        });
        change(&mut config);
        let path = folder.join("config.json");
        fs::write(&path, config.to_string()).unwrap();

        let port = || Listener::tcp(SocketAddr::from(([127, 0, 0, 1], 0)), &limits).unwrap();
        let (sdk, admin) = (port(), port());
        let unix = Listener::unix(&folder.join("admin.sock"), Reach::Owner, &limits).unwrap();
        let (sdk_address, tcp) = (local(&sdk), local(&admin));
        let inherited = Inherited {
            sdk: vec![sdk],
            admin: vec![admin, unix],
        };
        let (control, commands) = smol::channel::bounded(1);
        let thread = std::thread::spawn(move || {
            let environment = Environment::new(&path, None, None);
            let loaded = load(Origin { path, environment }, &limits).expect("a configuration");
            let clock = Clock::system();
            let log = Log::stderr(clock.clone(), Format::Plain, Level::Error, &limits);
            let control = Control::Channel(commands);
            staffetta::net::run(Setup {
                loaded,
                limits,
                clock,
                log,
                inherited,
                control,
            })
            .expect("the relay runs");
        });
        Relay {
            folder,
            sdk: sdk_address,
            tcp,
            control,
            thread: Some(thread),
        }
    }

    fn usual(name: &str) -> Relay {
        Relay::start(name, |_| {})
    }

    /// The answer over TCP, whole.
    fn over_tcp(&self, request_line: &str, fields: &str) -> String {
        exchange(TcpStream::connect(self.tcp).unwrap(), request_line, fields)
    }

    fn over_unix(&self, request_line: &str) -> String {
        let socket = UnixStream::connect(self.folder.join("admin.sock")).unwrap();
        exchange(socket, request_line, "")
    }

    fn status(&self) -> Value {
        let answer = self.over_unix("GET /status");
        serde_json::from_str(body(&answer)).expect("JSON")
    }

    /// Replaces the seed; the next reload sees it.
    fn seed(&self, text: &str) {
        fs::write(self.folder.join("new.json"), text).unwrap();
        fs::rename(self.folder.join("new.json"), self.folder.join("seed.json")).unwrap();
    }

    fn command(&self, words: &[&str]) -> Output {
        let socket = format!("unix:{}", self.folder.join("admin.sock").display());
        let command = Command::new(PROGRAM)
            .args(words)
            .args(["--admin", &socket])
            .output();
        command.unwrap()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.control.try_send(Signal::Terminate);
        let ended = self.thread.take().map(JoinHandle::join);
        let _ = fs::remove_dir_all(&self.folder);
        if !std::thread::panicking() {
            assert!(matches!(ended, Some(Ok(()))), "the relay ended badly");
        }
    }
}

fn local(listener: &Listener) -> SocketAddr {
    match listener {
        Listener::Tcp(listener) => listener.local_addr().unwrap(),
        Listener::Unix(_) => panic!("has no port"),
    }
}

fn exchange(mut socket: impl Read + Write, request_line: &str, fields: &str) -> String {
    let request = format!(
        "{request_line} HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n\
         Content-Length: 0\r\n{fields}\r\n"
    );
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

fn code(answer: &str) -> &str {
    answer.get(9..12).unwrap_or("none")
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The demo seed with one flag of `payments` in `prod` that no SDK would survive.
fn broken_seed() -> String {
    let mut seed: Value = serde_json::from_str(&fs::read_to_string(DEMO_SEED).unwrap()).unwrap();
    for environment in seed["environments"].as_array_mut().unwrap() {
        let is_prod = environment["environment_id"] == "prod";
        for feature in environment["features"].as_array_mut().unwrap() {
            if is_prod && feature["feature_id"] == "fast-checkout" {
                feature["type"] = "COLOUR".into();
            }
        }
    }
    seed.to_string()
}

const READABLE: [(&str, &str); 5] = [
    ("/live", "text/plain; charset=utf-8"),
    ("/ready", "text/plain; charset=utf-8"),
    ("/status", "application/json"),
    ("/metrics", "text/plain; version=0.0.4; charset=utf-8"),
    ("/", "text/html; charset=utf-8"),
];

#[test]
fn everything_that_reads_is_open_on_both_sockets() {
    let relay = Relay::usual("reads");
    for (path, kind) in READABLE {
        let get = format!("GET {path}");
        for answer in [relay.over_tcp(&get, ""), relay.over_unix(&get)] {
            assert_eq!(code(&answer), "200", "{answer}");
            let field = format!("content-type: {kind}\r\n");
            assert!(answer.contains(&field), "{answer}");
            let length = format!("content-length: {}\r\n", body(&answer).len());
            assert!(answer.contains(&length), "{answer}");
            assert!(!answer.contains("access-control-"), "{answer}");
        }
        let head = relay.over_tcp(&format!("HEAD {path}?a=b"), "");
        assert_eq!((code(&head), body(&head)), ("200", ""), "{head}");
        assert!(head.contains("content-length: ") && !head.contains("content-length: 0"));
    }
}

#[test]
fn commands_over_tcp_need_the_token() {
    let relay = Relay::usual("token");
    let bearing = |token: &str| format!("Authorization: Bearer {token}\r\n");
    for fields in [
        String::new(),
        bearing("wrong"),
        bearing(CLIENT_KEY),
        format!("Authorization: {TOKEN}\r\n"),
    ] {
        let answer = relay.over_tcp("POST /reload", &fields);
        assert_eq!(code(&answer), "401", "{answer}");
        assert!(answer.contains("www-authenticate: Bearer\r\n"), "{answer}");
    }
    assert_eq!(
        code(&relay.over_tcp("POST /reload", &bearing(TOKEN))),
        "200"
    );
    assert_eq!(code(&relay.over_unix("POST /reload")), "200");
    assert_eq!(relay.status()["refusals"]["wrong_key"], 4);
}

#[test]
fn without_a_configured_token_only_the_socket_commands() {
    let relay = Relay::start("no-token", |config| config["admin"] = json!({}));
    let answer = relay.over_tcp("POST /reload", "Authorization: Bearer \r\n");
    assert_eq!(code(&answer), "403", "{answer}");
    assert!(answer.contains("admin.token_file"), "{answer}");
    assert_eq!(code(&relay.over_unix("POST /reload")), "200");
}

#[test]
fn unknown_paths_and_methods_are_told_apart() {
    let relay = Relay::usual("paths");
    for line in ["GET /nothing", "GET /status/", "POST /live/x", "GET //live"] {
        assert_eq!(code(&relay.over_tcp(line, "")), "404", "{line}");
    }
    for (line, allow) in [
        ("POST /status", "GET, HEAD"),
        ("DELETE /", "GET, HEAD"),
        ("GET /reload", "POST"),
        ("HEAD /reload", "POST"),
    ] {
        let answer = relay.over_unix(line);
        assert_eq!(code(&answer), "405", "{answer}");
        let field = format!("allow: {allow}\r\n");
        assert!(answer.contains(&field), "{answer}");
    }
}

#[test]
fn a_refused_seed_is_told_everywhere_and_changes_nothing() {
    // It looks at the seed when it is told to, and not between.
    let limits = Limits {
        seed_interval: Duration::from_secs(3600),
        ..Limits::PRODUCTION
    };
    let relay = Relay::start_with("refused", limits, |_| {});
    let served = |status: &Value| status["slots"][1]["serves"]["digest"].clone();
    let before = served(&relay.status());
    assert!(relay.command(&["status", "--check"]).status.success());

    relay.seed(&broken_seed());
    let reload = relay.command(&["reload"]);
    assert_eq!(reload.status.code(), Some(1), "{}", printed(&reload));

    let status = relay.status();
    assert_eq!(served(&status), before);
    assert_eq!(status["slots"][0]["last_error"], Value::Null);
    assert_eq!(status["slots"][1]["last_error"]["times"], 1);
    let problem = status["problems"][0].as_str().unwrap();
    for word in ["payments/prod", "fast-checkout", "COLOUR"] {
        assert!(problem.contains(word), "{problem}");
    }
    assert_eq!(code(&relay.over_tcp("GET /ready", "")), "200");
    let metrics = relay.over_tcp("GET /metrics", "");
    for line in [
        "staffetta_slot_problem{slot=\"payments/prod\"} 1",
        "staffetta_slot_problem{slot=\"inventory/dev\"} 0",
        "staffetta_problems 1",
        "staffetta_reloads_total 1",
    ] {
        assert!(
            metrics.contains(&format!("\n{line}\n")),
            "{line}: {metrics}"
        );
    }
    assert!(relay.over_tcp("GET /", "").contains("fast-checkout"));
    let check = relay.command(&["status", "--check"]);
    assert_eq!(check.status.code(), Some(1));
    let line = printed(&check);
    assert!(line.starts_with("problem: slot payments/prod"), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");

    relay.seed(&fs::read_to_string(DEMO_SEED).unwrap());
    assert!(relay.command(&["reload"]).status.success());
    assert!(relay.command(&["status", "--check"]).status.success());
}

#[test]
fn a_relay_without_its_seed_is_alive_and_not_ready() {
    let relay = Relay::start("missing", |config| {
        config["seed"]["file"] = "no.json".into()
    });
    assert_eq!(code(&relay.over_tcp("GET /live", "")), "200");
    let ready = relay.over_tcp("GET /ready", "");
    assert_eq!(code(&ready), "503", "{ready}");
    assert!(ready.contains("inventory/dev, payments/prod"), "{ready}");
    let status = relay.status();
    assert_eq!(status["ready"], false);
    assert_eq!(status["slots"][0]["serves"], Value::Null);
    assert_eq!(status["problems"].as_array().unwrap().len(), 2, "{status}");
}

#[test]
fn the_commands_show_what_the_relay_says() {
    let relay = Relay::usual("commands");
    let table = printed(&relay.command(&["status"]));
    for part in ["payments/prod", "seed version 1", "No problems."] {
        assert!(table.contains(part), "{table}");
    }
    let document = relay.command(&["status", "--json"]);
    let document: Value = serde_json::from_slice(&document.stdout).unwrap();
    assert_eq!(document["slots"].as_array().unwrap().len(), 2);

    let address = relay.tcp.to_string();
    let token_file = relay.folder.join("admin.token");
    let reload = |more: &[&str]| {
        let words = ["reload", "--admin", &address];
        let command = Command::new(PROGRAM).args(words).args(more).output();
        command.unwrap()
    };
    let refused = reload(&[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(printed(&refused).contains("Bearer"), "{refused:?}");
    let applied = reload(&["--token-file", token_file.to_str().unwrap()]);
    assert!(applied.status.success(), "{applied:?}");
    assert!(printed(&applied).contains("2 unchanged"), "{applied:?}");
}

#[test]
fn secrets_and_what_clients_send_stay_inside() {
    let relay = Relay::usual("secrets");
    let path = "/apprapp/feature/v1/instances/an-odd-guid/config?action=sdkConfig\
                &collection_id=odd-collection&environment_id=dev";
    let key = format!("Authorization: {CLIENT_KEY}\r\n");
    let socket = TcpStream::connect(relay.sdk).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    assert_eq!(code(&exchange(socket, &format!("GET {path}"), &key)), "404");
    assert_eq!(relay.status()["refusals"]["unknown_instance"], 1);
    for (path, _) in READABLE {
        let answer = relay.over_tcp(&format!("GET {path}"), "");
        for word in [CLIENT_KEY, TOKEN, "an-odd-guid", "odd-collection"] {
            assert!(!answer.contains(word), "{word} in {answer}");
        }
    }
}
