//! `swarm`: opens clients of one kind, prints `ready`, then makes one round for each line
//! `round [SEED]` on its standard input and prints its times. See tests/bench/README.md.
//!
//! It never connects anywhere but loopback, and ends at `quit`, at the end of its input, or after
//! `--seconds-max`.

use lexopt::{Arg, Parser, ValueExt};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use staffetta_bench::events::EventName;
use staffetta_bench::mqtt;
use staffetta_bench::reader::Kind;
use staffetta_bench::swarm::{Change, Command, Plan, Swarm};
use staffetta_bench::transport::{Route, TlsTarget};
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: swarm --kind sse|ws|keepalive|mqtt --to 127.0.0.1:PORT --path PATH [options]
  --clients N          how many clients (2000; at most 10000)
  --stuck N            more clients that never read once they are set up (0)
  --header TEXT        a header for every request; may be repeated
  --refetch PATH       each ws client fetches PATH when it is told of a change
  --last-event NAME    the SSE event that ends a change: payload or update (update)
  --admin 127.0.0.1:PORT  where a round asks for the change (POST /reload)
  --admin-token TOKEN
  --publish PATH       a round publishes the file that its command names there
  --put 127.0.0.1:PORT a round puts the file that its command names there
  --put-path PATH      at this path
  --seed FILE          where a round moves the file that its command names
  --tls-ca FILE        speak TLS and trust these certificates
  --tls-name NAME      the server's name (localhost)
  --connecting-max N   connections that are not set up yet, at once (16)
  --seconds-max N      the end of it all (600)
";

struct Arguments {
    kind: String,
    last_event: EventName,
    clients: usize,
    stuck: usize,
    to: SocketAddrV4,
    path: String,
    headers: Vec<String>,
    refetch: Option<String>,
    admin: Option<SocketAddrV4>,
    admin_token: String,
    publish: Option<String>,
    put: Option<SocketAddrV4>,
    put_path: String,
    seed: Option<PathBuf>,
    tls_ca: Option<PathBuf>,
    tls_name: String,
    connecting_max: usize,
    seconds_max: u64,
}

fn parse() -> Result<Arguments, lexopt::Error> {
    let mut parser = Parser::from_env();
    let mut found = Arguments {
        kind: String::new(),
        last_event: EventName::Update,
        clients: 2000,
        stuck: 0,
        to: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0),
        path: String::from("/"),
        headers: Vec::new(),
        refetch: None,
        admin: None,
        admin_token: String::new(),
        publish: None,
        put: None,
        put_path: String::from("/"),
        seed: None,
        tls_ca: None,
        tls_name: String::from("localhost"),
        connecting_max: 16,
        seconds_max: 600,
    };
    while let Some(argument) = parser.next()? {
        let Arg::Long(name) = argument else {
            return Err(argument.unexpected());
        };
        let name = name.to_owned();
        let value = parser.value()?;
        match name.as_str() {
            "kind" => found.kind = value.string()?,
            "last-event" if value == "payload" => found.last_event = EventName::Payload,
            "last-event" if value == "update" => found.last_event = EventName::Update,
            "clients" => found.clients = value.parse()?,
            "stuck" => found.stuck = value.parse()?,
            "to" => found.to = value.parse()?,
            "path" => found.path = value.string()?,
            "header" => found.headers.push(value.string()?),
            "refetch" => found.refetch = Some(value.string()?),
            "admin" => found.admin = Some(value.parse()?),
            "admin-token" => found.admin_token = value.string()?,
            "publish" => found.publish = Some(value.string()?),
            "put" => found.put = Some(value.parse()?),
            "put-path" => found.put_path = value.string()?,
            "seed" => found.seed = Some(value.into()),
            "tls-ca" => found.tls_ca = Some(value.into()),
            "tls-name" => found.tls_name = value.string()?,
            "connecting-max" => found.connecting_max = value.parse()?,
            "seconds-max" => found.seconds_max = value.parse()?,
            _ => return Err(format!("--{name} {value:?} is not known").into()),
        }
    }
    if found.clients + found.stuck > 10_000 || found.connecting_max == 0 {
        return Err("--clients, --stuck or --connecting-max is out of bounds".into());
    }
    Ok(found)
}

fn plan(arguments: &Arguments) -> Result<Plan, lexopt::Error> {
    let kind = match arguments.kind.as_str() {
        "sse" => Kind::Sse(arguments.last_event),
        "ws" => Kind::WebSocket,
        "keepalive" => Kind::KeepAlive,
        "mqtt" => Kind::Mqtt,
        _ => return Err("--kind must be sse, ws, keepalive or mqtt".into()),
    };
    let tls = arguments.tls_ca.as_deref();
    let tls = tls
        .map(|file| tls_target(file, &arguments.tls_name))
        .transpose()?;
    let extra = match kind {
        Kind::Sse(_) => "Accept: text/event-stream\r\n",
        Kind::WebSocket => {
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        }
        Kind::KeepAlive | Kind::Mqtt => "",
    };
    let get = |path: &str, extra: &str| head("GET", path, &arguments.headers, extra);
    let ask = arguments.admin.map(|to| {
        let authorization = [format!("Authorization: Bearer {}", arguments.admin_token)];
        let request = head("POST", "/reload", &authorization, "Content-Length: 0\r\n");
        Change::Ask {
            route: Route { to, tls: None },
            request,
            seed: arguments.seed.clone(),
        }
    });
    let publish = arguments.publish.clone();
    let publish = publish.map(|path| Change::Publish { path });
    let put = arguments.put.map(|to| Change::Put {
        route: Route { to, tls: None },
        path: arguments.put_path.clone(),
    });
    Ok(Plan {
        kind,
        clients: arguments.clients,
        stuck: arguments.stuck,
        request: match kind {
            Kind::Mqtt => mqtt::subscriber(&arguments.path),
            _ => get(&arguments.path, extra),
        },
        refetch: arguments.refetch.as_deref().map(|path| get(path, "")),
        route: Route {
            to: arguments.to,
            tls,
        },
        change: publish.or(put).or(ask),
        connecting_max: arguments.connecting_max,
        round_timeout: Duration::from_secs(10),
        connect_timeout: Duration::from_secs(120),
    })
}

fn head(method: &str, path: &str, headers: &[String], extra: &str) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{extra}");
    for header in headers {
        let _ = write!(text, "{header}\r\n");
    }
    text.push_str("\r\n");
    text.into_bytes()
}

fn tls_target(ca: &Path, name: &str) -> Result<TlsTarget, lexopt::Error> {
    let mut roots = rustls::RootCertStore::empty();
    let unreadable = |problem: String| format!("{}: {problem}", ca.display());
    for certificate in CertificateDer::pem_file_iter(ca).map_err(|e| unreadable(e.to_string()))? {
        let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
        roots
            .add(certificate)
            .map_err(|error| unreadable(error.to_string()))?;
    }
    let mut config = rustls::ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    let name = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
    Ok(TlsTarget {
        config: Arc::new(config),
        name,
    })
}

fn run(plan: Plan, deadline: Instant) -> Result<(), staffetta_bench::swarm::SwarmError> {
    let start = Instant::now();
    let mut swarm = Swarm::connect(plan)?;
    let took_us = start.elapsed().as_micros();
    println!(
        "ready connections={} connect_us={took_us}",
        swarm.connections()
    );
    while let Command::Round(seed) = swarm.next_command(deadline)? {
        let round = swarm.round(seed)?;
        let error = swarm.first_error.take().unwrap_or_default();
        println!("{round} ended={} error={error}", swarm.ended);
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments = match parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("swarm: {error}\n{USAGE}");
            return ExitCode::from(64);
        }
    };
    let deadline = Instant::now() + Duration::from_secs(arguments.seconds_max);
    let plan = match plan(&arguments) {
        Ok(plan) => plan,
        Err(error) => {
            eprintln!("swarm: {error}\n{USAGE}");
            return ExitCode::from(64);
        }
    };
    match run(plan, deadline) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("swarm: {error}");
            ExitCode::FAILURE
        }
    }
}
