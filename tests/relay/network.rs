//! Two networks of a test's own with one cable between them, which it can pull.
//!
//! Needs root and `ip`. Nothing is configured by name outside, so nothing can be left behind: a
//! network ends with its last process and its last socket. A socket belongs to the network of the
//! thread that opened it, and can then be used by every other.

use crate::harness::PATIENCE;
use crate::harness::lines::Lines;
use crate::harness::relay::with_the_thread;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};

/// The relay's address on the cable.
pub const RELAY_ADDRESS: &str = "192.0.2.1";

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Relay,
    Clients,
}

pub struct Network {
    relay: Holder,
    clients: Holder,
}

impl Network {
    /// Lays the cable, or tells why not.
    pub fn open() -> Result<Network, String> {
        let network = Network {
            relay: Holder::open()?,
            clients: Holder::open()?,
        };
        let (relay, clients) = (network.relay.id(), network.clients.id());
        let cable = [
            "ip", "link", "add", "cable", "netns", &relay, "type", "veth",
        ];
        run(&[&cable[..], &["peer", "name", "cable", "netns", &clients]].concat())?;
        let address = format!("{RELAY_ADDRESS}/24");
        for (side, address) in [
            (Side::Relay, address.as_str()),
            (Side::Clients, "192.0.2.2/24"),
        ] {
            network.run(side, &["ip", "link", "set", "lo", "up"])?;
            network.run(side, &["ip", "address", "add", address, "dev", "cable"])?;
            network.run(side, &["ip", "link", "set", "cable", "up"])?;
        }
        Ok(network)
    }

    /// Pulls the cable at the clients' end: from now on nothing arrives on either side.
    pub fn pull(&self) {
        let pulled = self.run(Side::Clients, &["ip", "link", "set", "cable", "down"]);
        pulled.expect("a cable that is there");
    }

    /// Puts it back.
    pub fn put_back(&self) {
        let back = self.run(Side::Clients, &["ip", "link", "set", "cable", "up"]);
        back.expect("a cable that is there");
    }

    /// The command that runs what follows it on `side`, keeping its process id.
    pub fn enter(&self, side: Side) -> Vec<OsString> {
        let id = self.holder(side).id();
        let words = ["nsenter", "--target", &id, "--net", "--"];
        words.map(OsString::from).to_vec()
    }

    /// Does `work` in a thread on `side`.
    pub fn on<T: Send>(&self, side: Side, work: impl FnOnce() -> T + Send) -> T {
        let path = format!("/proc/{}/ns/net", self.holder(side).id());
        let network = File::open(path).expect("its holder runs");
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
                    .expect("root may change networks");
                work()
            });
            worker.join().unwrap_or_else(|panic| {
                std::panic::resume_unwind(panic);
            })
        })
    }

    fn holder(&self, side: Side) -> &Holder {
        match side {
            Side::Relay => &self.relay,
            Side::Clients => &self.clients,
        }
    }

    fn run(&self, side: Side, words: &[&str]) -> Result<(), String> {
        let id = self.holder(side).id();
        run(&[&["nsenter", "--target", &id, "--net", "--"], words].concat())
    }
}

fn run(words: &[&str]) -> Result<(), String> {
    let output = Command::new(words[0]).args(&words[1..]).output();
    let output = output.map_err(|error| format!("{}: {error}", words[0]))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    let failed = || format!("{}: {complaint}", words.join(" "));
    output.status.success().then_some(()).ok_or_else(failed)
}

/// A process that does nothing but keep a network open; it ends with its input.
struct Holder(Child);

impl Holder {
    fn open() -> Result<Holder, String> {
        let mut words = with_the_thread();
        let hold = ["unshare", "--net", "--", "sh", "-c", "echo ready; exec cat"];
        words.extend(hold.map(OsString::from));
        let child = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut holder = Holder(child.map_err(|error| error.to_string())?);
        let complaints = Lines::of("unshare", holder.0.stderr.take().expect("piped"));
        let output = Lines::of("unshare", holder.0.stdout.take().expect("piped"));
        let ready = |line: &str| (line == "ready").then_some(());
        match output.find_within(PATIENCE, 0, ready) {
            Some(()) => Ok(holder),
            None => Err(format!("no network of its own: {}", complaints.all())),
        }
    }

    fn id(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Already ended children are refused by both calls; there is nobody to tell.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
