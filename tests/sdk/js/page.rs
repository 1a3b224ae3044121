//! The server that the page comes from, and to which it says what it sees.
//!
//! Serves five files, below any path, and takes lines. One thread a connection, one request a
//! connection: a browser opens some that it never uses.

use crate::child::Said;
use crate::harness::PATIENCE;
use crate::harness::lines::Lines;
use serde_json::Value;
use std::io::{BufRead, BufReader, PipeWriter, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// What the page is made of, and its way to speak.
struct Content {
    bundle: PathBuf,
    options: String,
    said: Mutex<PipeWriter>,
    /// Says when the page is to be loaded again, and ends when the test has seen enough.
    leave: Mutex<Receiver<()>>,
}

/// A served page. Its threads end with the test program.
pub struct Page {
    pub socket: SocketAddr,
    pub said: Said,
    /// Sent to for a reload, and taken away to let the page be left.
    pub leave: Option<Sender<()>>,
}

impl Page {
    /// Serves the application with `options`.
    pub fn serve(bundle: &Path, options: &Value) -> Page {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let socket = listener.local_addr().expect("it is bound");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let (leave, left) = channel();
        let content = Arc::new(Content {
            bundle: bundle.to_owned(),
            options: options.to_string(),
            said: Mutex::new(writer),
            leave: Mutex::new(left),
        });
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let content = Arc::clone(&content);
                std::thread::spawn(move || content.answer(connection));
            }
        });
        Page {
            socket,
            said: Said(Lines::of("page", reader)),
            leave: Some(leave),
        }
    }

    /// Where the page is, on a name that the relay does not have.
    pub fn address(&self) -> String {
        format!("http://localhost:{}/page.html", self.socket.port())
    }
}

impl Content {
    /// Answers one request. A browser that goes away in the middle is nobody's failure: what it was
    /// to say is then missed by the test itself.
    fn answer(&self, mut connection: TcpStream) -> Option<()> {
        connection.set_read_timeout(Some(PATIENCE)).ok()?;
        let (path, body) = read(&connection)?;
        let (kind, body) = match path.rsplit('/').next()? {
            "page.html" => ("text/html", include_bytes!("page.html").to_vec()),
            "page.mjs" => ("text/javascript", include_bytes!("page.mjs").to_vec()),
            "application.mjs" => {
                let file = include_bytes!("application.mjs");
                ("text/javascript", file.to_vec())
            }
            "sdk.js" => ("text/javascript", std::fs::read(&self.bundle).ok()?),
            "options.json" => ("application/json", self.options.clone().into_bytes()),
            "said" => {
                self.say(&body)?;
                ("text/plain", Vec::new())
            }
            "leave" => {
                // An error is an answer too: the sender is gone.
                let next = match self.leave.lock().ok()?.recv() {
                    Ok(()) => "page.html",
                    Err(_) => "left.html",
                };
                ("text/plain", next.into())
            }
            "left.html" => {
                self.say(br#"{"event":"left"}"#)?;
                ("text/html", b"<!doctype html>".to_vec())
            }
            _ => ("text/plain", Vec::new()),
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
             Cache-Control: no-store\r\nConnection: close\r\n\r\n",
            body.len()
        );
        connection.write_all(head.as_bytes()).ok()?;
        connection.write_all(&body).ok()
    }

    fn say(&self, line: &[u8]) -> Option<()> {
        let mut said = self.said.lock().ok()?;
        said.write_all(line).ok()?;
        said.write_all(b"\n").ok()
    }
}

/// The path and the body of the one request.
fn read(connection: &TcpStream) -> Option<(String, Vec<u8>)> {
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, body))
}
