//! Debian's nginx behind the relay, as one process of the test.
//!
//! It gets two sockets that the test has opened, one for HTTP and one for TLS, in place of its
//! standard input and output: so its ports are free, and nobody has to wait until it listens. What
//! it writes to its log, one line a request, tells on which connection that came. Ends with the
//! test: its first process is told so, by its own id, and ends the other.

use std::cell::RefCell;
use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::debian;
use crate::harness::lines::Lines;
use crate::harness::relay::with_the_thread;
use crate::harness::site::{Scratch, certificates};
use crate::python::skip;

/// With one worker: without any, it cannot take over sockets. The worker stays who it is, since it
/// has to read and write below the test's own directory.
const CONFIG: &str = "
daemon off;
worker_processes 1;
user root;
pid FOLDER/nginx.pid;
error_log stderr error;
events { worker_connections 256; }
http {
  log_format serial 'request $connection $connection_requests $request_method $uri $status';
  access_log /dev/stderr serial;
  client_body_temp_path FOLDER/body; proxy_temp_path FOLDER/proxy;
  fastcgi_temp_path FOLDER/fastcgi; uwsgi_temp_path FOLDER/uwsgi; scgi_temp_path FOLDER/scgi;
  server {
    listen PLAIN;
    listen TLS ssl;
    ssl_certificate CERTIFICATES/relay.crt;
    ssl_certificate_key CERTIFICATES/relay.key;
    root FOLDER/root;
    absolute_redirect off;
    client_max_body_size 0;
    SETTINGS
  }
}
";

/// A running nginx.
pub struct Nginx {
    child: Child,
    log: Lines,
    scratch: Scratch,
    pub plain: SocketAddr,
    pub tls: SocketAddr,
}

/// A request as nginx saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// The number of its connection.
    pub connection: u64,
    /// Its own number on that.
    pub turn: u64,
    /// Method, path and status.
    pub what: String,
}

impl Nginx {
    /// Starts it with `settings` in its one server; `None` when the test is to be skipped.
    pub fn start(settings: &str) -> Option<Nginx> {
        if let Err(why) = debian::need(&[("nginx", "nginx-light")]) {
            skip(&format!("nginx is not there: {why}"));
            return None;
        }
        let scratch = Scratch::new("nginx");
        std::fs::create_dir_all(scratch.path("root/folder")).expect("target/tmp is writable");
        let sockets = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
        let [plain, tls] = sockets.each_ref().map(|socket| {
            socket.set_nonblocking(true).expect("a socket");
            socket.local_addr().expect("it is bound")
        });
        let config = CONFIG
            .replace("PLAIN", &plain.to_string())
            .replace("TLS", &tls.to_string())
            .replace("FOLDER", path_text(scratch.path("")).trim_end_matches('/'))
            .replace("CERTIFICATES", &path_text(certificates().to_owned()))
            .replace("SETTINGS", settings);
        std::fs::write(scratch.path("nginx.conf"), config).expect("target/tmp is writable");
        let in_order = |word: OsString| match word == "KILL" {
            true => OsString::from("TERM"),
            false => word,
        };
        let mut words: Vec<OsString> = with_the_thread().into_iter().map(in_order).collect();
        words.extend(["nginx", "-e", "stderr", "-c"].map(OsString::from));
        words.push(scratch.path("nginx.conf").into());
        let [input, output] = sockets.map(|socket| Stdio::from(OwnedFd::from(socket)));
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            // The numbers of the two, as nginx hands its sockets to its successor.
            .env("NGINX", "0;1;")
            .stdin(input)
            .stdout(output)
            .stderr(Stdio::piped())
            .spawn()
            .expect("nginx starts");
        let log = Lines::of("nginx", child.stderr.take().expect("stderr is piped"));
        Some(Nginx {
            child,
            log,
            scratch,
            plain,
            tls,
        })
    }

    /// Puts a file where requests for `path` find it.
    pub fn put(&self, path: &str, bytes: &[u8]) {
        let file = self.scratch.path("root").join(path);
        std::fs::write(file, bytes).expect("target/tmp is writable");
    }

    /// A `ReverseProxy` section that sends everything to it.
    pub fn section(&self, is_tls: bool) -> Value {
        let address = match is_tls {
            true => format!("https://{}", self.tls),
            false => format!("http://{}", self.plain),
        };
        json!({
            "Routes": { "all": { "ClusterId": "plant", "Match": { "Path": "/{**rest}" } } },
            "Clusters": { "plant": { "Destinations": { "nginx": { "Address": address } } } },
        })
    }

    /// Waits until it has logged `count` requests for paths that begin with `path`, and gives them
    /// in the order of their ends.
    pub fn requests(&self, path: &str, count: usize) -> Vec<Logged> {
        let found = RefCell::new(Vec::new());
        self.log
            .wait_from(0, &format!("{count} requests for {path}"), |line| {
                let logged = read(line)?;
                let mut found = found.borrow_mut();
                if logged.what.split(' ').nth(1)?.starts_with(path) {
                    found.push(logged);
                }
                (found.len() == count).then_some(())
            });
        found.into_inner()
    }
}

fn path_text(path: PathBuf) -> String {
    path.into_os_string()
        .into_string()
        .expect("a path in UTF-8")
}

fn read(line: &str) -> Option<Logged> {
    let mut words = line.strip_prefix("request ")?.splitn(3, ' ');
    Some(Logged {
        connection: words.next()?.parse().ok()?,
        turn: words.next()?.parse().ok()?,
        what: words.next()?.to_owned(),
    })
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // An already ended child is refused by both calls; there is nobody to tell.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}
