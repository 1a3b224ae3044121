//! One kept connection to a relay's admin socket: what a writer of a plant would use.

use crate::harness::PATIENCE;
use crate::harness::site::Site;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

/// The slot of all tests.
pub const SLOT: &str = "/v1/slots/c/e";

pub struct Admin(BufReader<UnixStream>);

/// What the relay said.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    /// The entity tag, without its quotes.
    pub revision: Option<String>,
    pub body: String,
}

impl Admin {
    /// None when the relay is gone.
    pub fn reach(site: &Site) -> Option<Admin> {
        let socket = UnixStream::connect(site.scratch.path("admin.sock")).ok()?;
        socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
        Some(Admin(BufReader::new(socket)))
    }

    /// Sends a request; no answer when the relay is gone.
    pub fn ask(&mut self, request_line: &str, fields: &str, body: &str) -> Option<Answer> {
        let length = body.len();
        let request = format!(
            "{request_line} HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: {length}\r\n\r\n{body}"
        );
        self.0.get_mut().write_all(request.as_bytes()).ok()?;
        let (mut status, mut revision, mut length) = (0, None, 0);
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).ok().filter(|read| *read > 0)?;
            match line.trim_end().split_once(": ") {
                Some(("etag", tag)) => revision = Some(tag.trim_matches('"').to_owned()),
                Some(("content-length", digits)) => length = digits.parse().ok()?,
                Some(_) => {}
                None if line == "\r\n" => break,
                None => status = line.get(9..12)?.parse().ok()?,
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).ok()?;
        Some(Answer {
            status,
            revision,
            body: String::from_utf8(body).ok()?,
        })
    }

    /// Gives the slot a new document.
    pub fn push(&mut self, document: &str) -> Option<Answer> {
        self.ask(&format!("PUT {SLOT}"), "", document)
    }
}
