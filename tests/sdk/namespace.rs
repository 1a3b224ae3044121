//! A network of its own for one test, with its own hosts file and its own port 443.
//!
//! Needs root or unprivileged user namespaces. Nothing is configured by name, so nothing can be
//! left behind: the namespaces end with their last process.

use crate::harness::lines::Lines;
use crate::harness::relay::with_the_thread;
use crate::harness::site::Scratch;
use std::ffi::OsString;
use std::fs;
use std::process::{Child, ChildStdin, Command, Stdio};

const HOLD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sdk/namespace.py");

/// An open namespace.
pub struct Namespace {
    holder: Child,
    /// Open for as long as the namespace is wanted.
    _input: ChildStdin,
    enter: Vec<OsString>,
}

impl Namespace {
    /// Opens a namespace in which every name of `hosts` is 127.0.0.1, or tells why not.
    pub fn open(scratch: &Scratch, hosts: &str) -> Result<Namespace, String> {
        let file = scratch.path("hosts");
        let text = format!("127.0.0.1 localhost {hosts}\n");
        fs::write(&file, text).map_err(|error| error.to_string())?;
        let file = file.into_os_string();
        let attempts: [(&[&str], &[&str]); 2] = [
            (&["--net", "--mount"], &["--net", "--mount"]),
            (
                &["--user", "--map-root-user", "--net", "--mount"],
                &["--user", "--preserve-credentials", "--net", "--mount"],
            ),
        ];
        let mut complaints = String::new();
        for (unshare, enter) in attempts {
            match hold(unshare, enter, &file) {
                Ok(namespace) => return Ok(namespace),
                Err(complaint) => complaints += &complaint,
            }
        }
        Err(format!("no network namespace: {complaints}"))
    }

    /// The command that runs what follows it inside, keeping its process id.
    pub fn enter(&self) -> Vec<OsString> {
        self.enter.clone()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Already ended children are refused by both calls; there is nobody to tell.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn hold(unshare: &[&str], enter: &[&str], hosts: &OsString) -> Result<Namespace, String> {
    let mut words = with_the_thread();
    words.push("unshare".into());
    words.extend(unshare.iter().map(OsString::from));
    words.extend(["--", "python3", HOLD].map(OsString::from));
    words.push(hosts.clone());
    let mut holder = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let complaints = Lines::of("unshare", holder.stderr.take().expect("stderr is piped"));
    let output = Lines::of("unshare", holder.stdout.take().expect("stdout is piped"));
    let ready = |line: &str| (line == "ready").then_some(());
    if output
        .find_within(crate::harness::PATIENCE, 0, ready)
        .is_none()
    {
        let _ = holder.kill();
        let _ = holder.wait();
        return Err(complaints.all());
    }
    let mut command: Vec<OsString> = vec!["nsenter".into(), "--target".into()];
    command.push(holder.id().to_string().into());
    command.extend(enter.iter().map(OsString::from));
    command.push("--".into());
    let input = holder.stdin.take().expect("stdin is piped");
    Ok(Namespace {
        holder,
        _input: input,
        enter: command,
    })
}
