//! A client on the other end of a pipe: speaks, reads as it likes, and judges what it read.

use std::io::{self, Read, Write};
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use staffetta::limits::Limits;
use staffetta::net::pipe::End;
use staffetta::wire::http::Body;

/// What a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Sse,
    SseEventsOnly,
    WebSocket,
    Go,
    Fetch,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 5] = [
        Kind::Sse,
        Kind::SseEventsOnly,
        Kind::WebSocket,
        Kind::Go,
        Kind::Fetch,
    ];

    fn request(self) -> String {
        let (path, more) = match self {
            Kind::Sse => (
                "/apprapp/feature/v1/instances/g-1/environments/e/sse/subscribe\
                ?collection_id=c",
                "",
            ),
            Kind::SseEventsOnly => (
                "/apprapp/feature/v1/instances/g-1/environments/e/sse/\
                subscribe?collection_id=c&events_only=true",
                "",
            ),
            Kind::WebSocket | Kind::Go => (
                "/apprapp/wsfeature?instance_id=g-1&collection_id=c&\
                environment_id=e",
                "Upgrade: websocket\r\nConnection: Upgrade\r\n\
                Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
            ),
            Kind::Fetch => (
                "/apprapp/feature/v1/instances/g-1/config?action=sdkConfig&\
                collection_id=c&environment_id=e",
                "",
            ),
        };
        let agent = if self == Kind::Go {
            "User-Agent: appconfiguration-go-sdk/0.5.9\r\n"
        } else {
            ""
        };
        format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer secret\r\n{agent}{more}\r\n"
        )
    }
}

/// A client and all it has read.
pub struct Client {
    pub kind: Kind,
    wire: Stream,
    tls: Option<Box<ClientConnection>>,
    unsent: Vec<u8>,
    received: Vec<u8>,
    is_gone: bool,
    is_closing: bool,
    joined_at: u64,
    /// Something was published while the request or the stream was open.
    saw_publication: bool,
    pings: u32,
}

struct Stream(Option<End>);

impl Client {
    /// A client that has said what it wants. `published` versions were out before it came.
    pub fn new(
        kind: Kind,
        end: End,
        trust: Option<CertificateDer<'static>>,
        published: u64,
    ) -> Client {
        Client {
            kind,
            wire: Stream(Some(end)),
            tls: trust.map(connect),
            unsent: kind.request().into_bytes(),
            received: Vec::new(),
            is_gone: false,
            is_closing: false,
            joined_at: published,
            saw_publication: false,
            pings: 0,
        }
    }

    /// Reads up to about `bytes_max` bytes and sends what is waiting; how many bytes moved.
    pub fn read(&mut self, bytes_max: usize) -> usize {
        let mut moved = self.send();
        let mut buffer = [0; 512];
        while moved < bytes_max {
            let Some(count) = self.read_once(&mut buffer) else {
                break;
            };
            moved += count;
        }
        moved + self.send()
    }

    fn read_once(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let Some(tls) = &mut self.tls else {
            let count = self.wire.read(buffer).ok().filter(|count| *count > 0)?;
            self.received.extend_from_slice(&buffer[..count]);
            return Some(count);
        };
        let count = tls
            .read_tls(&mut self.wire)
            .ok()
            .filter(|count| *count > 0)?;
        tls.process_new_packets().expect("the relay speaks TLS");
        while let Ok(plain @ 1..) = tls.reader().read(buffer) {
            self.received.extend_from_slice(&buffer[..plain]);
        }
        Some(count)
    }

    fn send(&mut self) -> usize {
        let mut moved = 0;
        if let Some(tls) = &mut self.tls {
            if !tls.is_handshaking() && !self.unsent.is_empty() {
                tls.writer()
                    .write_all(&self.unsent)
                    .expect("the session takes a request");
                self.unsent.clear();
            }
            while tls.wants_write() {
                match tls.write_tls(&mut self.wire) {
                    Ok(count @ 1..) => moved += count,
                    _ => break,
                }
            }
            return moved;
        }
        while !self.unsent.is_empty() {
            let Ok(count @ 1..) = self.wire.write(&self.unsent) else {
                break;
            };
            self.unsent.drain(..count);
            moved += count;
        }
        moved
    }

    /// Goes without a word.
    pub fn vanish(&mut self) {
        self.wire.0 = None;
        self.is_gone = true;
    }

    /// Pings, on a WebSocket.
    pub fn ping(&mut self) {
        if self.is_websocket() && !self.is_gone && !self.is_closing {
            self.pings += 1;
            self.unsent.extend(b"\x89\x82\x00\x00\x00\x00hi");
            self.send();
        }
    }

    /// Closes in order, on a WebSocket.
    pub fn close(&mut self) {
        if self.is_websocket() && !self.is_gone && !self.is_closing {
            self.is_closing = true;
            self.unsent.extend(b"\x88\x82\x00\x00\x00\x00\x03\xe8");
            self.send();
        }
    }

    /// The world says that something was published.
    pub fn note_publication(&mut self) {
        self.saw_publication = true;
    }

    fn is_websocket(&self) -> bool {
        matches!(self.kind, Kind::WebSocket | Kind::Go)
    }

    /// Whether the relay has to count this client as a subscriber, once all is quiet.
    pub fn is_streaming(&self) -> bool {
        let open = !self.is_gone && !self.is_closing && !self.was_reset();
        open && self.kind != Kind::Fetch
    }

    /// Whether the relay reset the connection: too slow with its request, or too far behind. Its
    /// SDK comes back.
    pub fn was_reset(&self) -> bool {
        self.wire.0.as_ref().is_some_and(End::is_reset)
    }

    /// Whether what was read is whole, and ends on `newest`.
    pub fn check(&self, newest: u64) -> Result<(), String> {
        if self.is_gone || self.was_reset() {
            return Ok(());
        }
        let text = &self.received;
        let end = text.windows(4).position(|window| window == b"\r\n\r\n");
        let end = end.ok_or("no head came")? + 4;
        let (head, rest) = text.split_at(end);
        let head = String::from_utf8_lossy(head);
        match self.kind {
            Kind::Fetch => self.check_fetch(&head, rest, newest),
            Kind::Sse | Kind::SseEventsOnly => self.check_events(&head, rest, newest),
            Kind::WebSocket | Kind::Go => self.check_frames(&head, rest, newest),
        }
    }

    fn check_fetch(&self, head: &str, body: &[u8], newest: u64) -> Result<(), String> {
        if head.starts_with("HTTP/1.1 503") && self.joined_at == 0 {
            return Ok(());
        }
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length
            .and_then(|text| text.parse().ok())
            .ok_or("no length")?;
        if body.len() != length {
            return Err(format!("{} bytes of {length}", body.len()));
        }
        let version = whole_version(body)?;
        let plausible = (self.joined_at.max(1)..=newest).contains(&version);
        if plausible {
            Ok(())
        } else {
            Err(format!("version {version} of {newest}"))
        }
    }

    fn check_events(&self, head: &str, rest: &[u8], newest: u64) -> Result<(), String> {
        if !head.starts_with("HTTP/1.1 200") {
            return Err(format!("answered {head}"));
        }
        let events = unchunk(rest)?;
        let events = String::from_utf8(events).map_err(|_| "the stream is not text")?;
        let mut last = 0;
        let mut names = Vec::new();
        for event in events
            .split("\n\n")
            .filter(|event| event.contains("event: "))
        {
            let field = |name: &str| {
                event
                    .lines()
                    .find_map(|line| line.strip_prefix(name))
                    .unwrap_or_default()
            };
            let version: u64 = field("id: ")
                .parse()
                .map_err(|_| "an event without a version")?;
            if version < last {
                return Err(format!("version {version} after {last}"));
            }
            last = version;
            names.push(field("event: ").to_owned());
            let carries = matches!(field("event: "), "SSEConfig_payload" | "Registration")
                && self.kind == Kind::Sse;
            if carries && whole_version(field("data: ").as_bytes())? != version {
                return Err("a document of another version".to_owned());
            }
        }
        if names.first().is_some_and(|name| name != "Registration") {
            return Err(format!("the first event is {}", names[0]));
        }
        if last == newest {
            Ok(())
        } else {
            Err(format!("ends on {last}, newest is {newest}"))
        }
    }

    fn check_frames(&self, head: &str, mut rest: &[u8], newest: u64) -> Result<(), String> {
        if !head.starts_with("HTTP/1.1 101") {
            return Err(format!("answered {head}"));
        }
        let (mut changes, mut pongs, mut closed) = (0, 0, false);
        while let [first, length, ..] = *rest {
            let frame = rest.get(..2 + usize::from(length)).ok_or("a torn frame")?;
            if closed {
                return Err("a frame after the close".to_owned());
            }
            match (first, &frame[2..]) {
                (0x81, b"test message") => {}
                (0x81, _) => changes += 1,
                (0x8a, b"hi") => pongs += 1,
                (0x88, _) => closed = true,
                _ => return Err(format!("an odd frame {frame:02x?}")),
            }
            rest = &rest[frame.len()..];
        }
        if !rest.is_empty() {
            return Err("a torn frame at the end".to_owned());
        }
        if self.is_closing {
            return if closed {
                Ok(())
            } else {
                Err("a close was not answered".to_owned())
            };
        }
        if pongs > self.pings || (pongs == 0 && self.pings > 0) {
            return Err(format!("{pongs} pongs for {} pings", self.pings));
        }
        let must_hear = self.saw_publication || (self.kind == Kind::Go && newest > 0);
        if must_hear && changes == 0 {
            return Err("was not told of a change".to_owned());
        }
        Ok(())
    }
}

/// The version of a document that is whole: it names it first and last.
fn whole_version(document: &[u8]) -> Result<u64, String> {
    let value: serde_json::Value = serde_json::from_slice(document)
        .map_err(|error| format!("a torn document of {} bytes: {error}", document.len()))?;
    match (value["version"].as_u64(), value["end"].as_u64()) {
        (Some(first), Some(last)) if first == last => Ok(first),
        _ => Err("a mixed document".to_owned()),
    }
}

/// The content of a chunked stream that need not have ended, cut at the last whole chunk's end.
fn unchunk(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let (mut body, mut at, mut content) = (Body::chunked(), 0, Vec::new());
    loop {
        let piece = body
            .decode(&bytes[at..], &Limits::PRODUCTION)
            .map_err(|e| e.to_string())?;
        content.extend_from_slice(&bytes[at..][piece.content.clone()]);
        at += piece.consumed;
        if piece.consumed == 0 {
            return Ok(content);
        }
    }
}

fn connect(trust: CertificateDer<'static>) -> Box<ClientConnection> {
    let mut roots = RootCertStore::empty();
    roots.add(trust).expect("the certificate can be trusted");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the versions are known")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("relay.test").expect("a name");
    Box::new(ClientConnection::new(Arc::new(config), name).expect("a session"))
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.as_mut().map_or(Ok(0), |end| end.read(buffer))
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let gone = Err(io::ErrorKind::BrokenPipe.into());
        self.0
            .as_mut()
            .map_or(gone, |end| end.write(&[io::IoSlice::new(bytes)]))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
