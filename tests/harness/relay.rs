//! A relay process of one test: started, asked through its admin socket, ended by its own id.
//!
//! The kernel is told to end the child with the thread that started it, so that a test program that
//! is itself killed leaves no relay behind. Ports are the kernel's choice and read from the log.

use super::PATIENCE;
use super::lines::Lines;
use super::site::{PROGRAM, Site};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// A running relay.
pub struct Relay {
    pub child: Child,
    admin: PathBuf,
    /// What it logs.
    pub log: Lines,
    /// The first listener for SDKs.
    pub address: SocketAddr,
}

impl Relay {
    /// Starts the relay of `site` and waits until it listens.
    pub fn start(site: &Site) -> Relay {
        Relay::start_through(site, &[])
    }

    /// As [`Relay::start`], run by the command `through` (one that enters a namespace and then
    /// becomes the relay, keeping the process id).
    pub fn start_through(site: &Site, through: &[OsString]) -> Relay {
        let mut words = through.to_vec();
        words.extend(with_the_thread());
        words.extend([PROGRAM, "run", "--config"].map(OsString::from));
        words.push(site.write_config().into());
        Relay::start_by(site, &words, &[])
    }

    /// Starts the relay of `site` by a command and an environment of the test's own.
    pub fn start_by(site: &Site, words: &[OsString], environment: &[(&str, OsString)]) -> Relay {
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the relay's program starts");
        let log = Lines::of("relay", child.stderr.take().expect("stderr is piped"));
        let mut relay = Relay {
            child,
            admin: site.scratch.path("admin.sock"),
            log,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        relay.address = relay
            .log
            .wait_from(0, "`listening on ADDRESS (SDK`", |line| {
                let (_, rest) = line.split_once("listening on ")?;
                rest.split_once(" (SDK")?.0.parse().ok()
            });
        relay.log.wait_for("(admin)");
        relay
    }

    /// Sends `request_line` (method and path) to the admin socket; gives status and body.
    pub fn ask(&self, request_line: &str) -> (u16, String) {
        let mut socket = UnixStream::connect(&self.admin).expect("the admin socket is there");
        socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
        let request = format!(
            "{request_line} HTTP/1.1\r\nHost: admin\r\nContent-Length: 0\r\n\
             Connection: close\r\n\r\n"
        );
        socket
            .write_all(request.as_bytes())
            .expect("the admin socket takes a request");
        let mut answer = String::new();
        socket
            .read_to_string(&mut answer)
            .expect("the admin socket answers in UTF-8");
        let status = answer.get(9..12).and_then(|digits| digits.parse().ok());
        let body = answer
            .split_once("\r\n\r\n")
            .map(|(_, body)| body.to_owned());
        match (status, body) {
            (Some(status), Some(body)) => (status, body),
            _ => panic!("{request_line}: not an HTTP answer: {answer:?}"),
        }
    }

    /// Makes the relay look at its seed at once, and gives its verdict.
    pub fn reload(&self) -> (u16, String) {
        self.ask("POST /reload")
    }

    /// Sends `signal` to the process.
    pub fn signal(&self, signal: Signal) {
        let id = Pid::from_child(&self.child);
        kill_process(id, signal).expect("the relay has not been waited for yet");
    }

    /// Ends the relay as an operator would and gives its exit status.
    pub fn stop(self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Waits for the end of the relay.
    pub fn wait(mut self) -> ExitStatus {
        self.child.wait().expect("it is our child")
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // Already ended children are refused by both calls; there is nobody to tell.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command that ends what it runs together with the thread that started it; nothing where
/// `setpriv` is missing, and then only a killed test program leaves a child behind.
pub fn with_the_thread() -> Vec<OsString> {
    let setpriv = ["/usr/bin/setpriv", "/bin/setpriv"]
        .into_iter()
        .find(|path| Path::new(path).exists());
    setpriv.map_or(Vec::new(), |path| {
        [path, "--pdeathsig", "KILL", "--"]
            .map(OsString::from)
            .to_vec()
    })
}
