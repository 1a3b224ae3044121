//! A test double of IBM's service: tokens, documents, change messages, usage, and every failure.
//!
//! Written from what the service's own SDKs send and expect, and from nothing of the relay: what
//! both misread alike, no test would find. One [`Double`] plays one node, so a primary with its
//! backup is two of them. It runs on threads of its own inside a test program, or as the example
//! `double` for scripts and people; both offer the same operations, methods here and small JSON
//! requests on the control port there.
//!
//! It is strict with its client where the service would be (tokens, methods, forms, 30 entries a
//! report) and counts what a client costs it. How it fails is told by [`behaviour`].
//!
//! Invariant: when a method that changes something returns, whoever asks next meets the change.
//! Sockets are told and cut at once, too, but their ends are seen by their threads a moment later:
//! wait for those with [`Stage::wait_until`].

pub mod behaviour;
mod connection;
mod control;
mod http;
mod listen;
mod operations;
mod socket;
pub mod stage;
mod token;
mod transport;
pub mod usage;

use listen::Door;
use stage::Stage;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

/// What a double is from its beginning to its end.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its name in counts.
    pub node: String,
    /// Where it listens.
    pub bind: IpAddr,
    /// The port that it plays the service on; 0 for one of the kernel's choice.
    pub port: u16,
    /// The port of the control API; 0 as above.
    pub control_port: u16,
    /// PEM files with the certificate chain and its key. Without them it speaks plain HTTP.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// The only key that is given tokens; any key if absent.
    pub api_key: Option<String>,
    /// The only instance that is known; any if absent.
    pub guid: Option<String>,
    /// How often sockets get `test message` unless told otherwise.
    pub heartbeat_ms: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            node: "double".to_owned(),
            bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            control_port: 0,
            tls: None,
            api_key: None,
            guid: None,
            heartbeat_ms: 25_000,
        }
    }
}

/// A running double. What it can do is in [`Stage`]; it ends when this is dropped.
pub struct Double {
    /// Where it plays the service.
    pub address: SocketAddr,
    /// Where it takes orders.
    pub control: SocketAddr,
    stage: Arc<Stage>,
    listeners: Vec<JoinHandle<()>>,
}

impl Double {
    /// Listens on both ports, then returns.
    ///
    /// Fails when a port is taken or the certificate cannot be read.
    pub fn start(options: Options) -> io::Result<Double> {
        let tls = match &options.tls {
            Some((chain, key)) => Some(transport::tls(chain, key)?),
            None => None,
        };
        let listener = TcpListener::bind((options.bind, options.port))?;
        let control = TcpListener::bind((options.bind, options.control_port))?;
        let (address, control_address) = (listener.local_addr()?, control.local_addr()?);
        let (stage, wakes) = Stage::new(options)?;
        let stage = Arc::new(stage);
        let doors = [(Door::Stage(tls), listener), (Door::Control, control)];
        let start = |((door, listener), wake)| listen::start(&stage, door, listener, wake);
        let listeners: Vec<JoinHandle<()>> = doors
            .into_iter()
            .zip(wakes)
            .map(start)
            .collect::<io::Result<_>>()?;
        Ok(Double {
            address,
            control: control_address,
            stage,
            listeners,
        })
    }
}

impl Deref for Double {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

impl Drop for Double {
    fn drop(&mut self) {
        self.stage.stop();
        for listener in self.listeners.drain(..) {
            // One that panicked has printed why, and a drop has nobody to tell.
            let _ = listener.join();
        }
    }
}
