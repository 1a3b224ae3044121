//! A client that reads answers more strictly than any SDK does.
//!
//! It accepts only what the standard lets a server send: CRLF line ends, no folded or odd header
//! lines, exactly one way of framing a body, none at all on 1xx and 204. A redirect is a failure
//! whoever asked, because SDKs would follow it away from the relay.

use crate::harness::PATIENCE;
use crate::harness::relay::Relay;
use crate::way::{Delivery, Socket, Way, connect};
use std::io::{ErrorKind, Read, Write};
use std::time::Instant;

/// What went wrong, for people. Expectations name the case, so a text is enough.
pub type Outcome<T> = Result<T, String>;

/// Status line and headers of an answer.
#[derive(Clone, Debug)]
pub struct Head {
    pub status: u16,
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// The value of the header `name` (lower case), if it is there exactly once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(key, _)| key == name);
        let value = values.next().map(|(_, value)| value.as_str());
        values.next().is_none().then_some(value).flatten()
    }

    /// Whether the header `name` is there at all.
    pub fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(key, _)| key == name)
    }
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub head: Head,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// The body as text; a body that is none is shown, not hidden.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// One connection to the relay.
pub struct Client {
    socket: Box<dyn Socket>,
    delivery: Delivery,
    /// Bytes read and not yet used.
    ahead: Vec<u8>,
}

impl Client {
    pub fn connect(relay: &Relay, way: Way) -> Client {
        Client::over(connect(relay, way.transport), way.delivery)
    }

    pub fn over(socket: Box<dyn Socket>, delivery: Delivery) -> Client {
        Client {
            socket,
            delivery,
            ahead: Vec::new(),
        }
    }

    /// Sends `bytes`. A relay that has refused may close before the end; its answer tells.
    pub fn send(&mut self, bytes: &[u8]) {
        let piece = match self.delivery {
            Delivery::Whole => bytes.len().max(1),
            Delivery::ByteByByte => 1,
        };
        for part in bytes.chunks(piece) {
            let sent = self
                .socket
                .write_all(part)
                .and_then(|()| self.socket.flush());
            if sent.is_err() {
                return;
            }
        }
    }

    /// Sends a request and reads its answer.
    pub fn exchange(&mut self, request: &[u8]) -> Outcome<Answer> {
        self.send(request);
        self.answer(request.starts_with(b"HEAD "))
    }

    /// Reads one answer; `headless` answers (to HEAD) carry the length of a body that is not there.
    pub fn answer(&mut self, to_head: bool) -> Outcome<Answer> {
        let head = self.head()?;
        let bodiless = to_head || head.status < 200 || head.status == 204 || head.status == 304;
        let body = if bodiless {
            Vec::new()
        } else {
            self.body(&head)?
        };
        Ok(Answer { head, body })
    }

    /// Reads the head of an answer and leaves its body: a stream, or a changed protocol.
    pub fn head(&mut self) -> Outcome<Head> {
        let text = self.take_through(b"\r\n\r\n")?;
        let text = std::str::from_utf8(&text).map_err(|_| format!("a head in UTF-8: {text:?}"))?;
        let mut lines = text
            .strip_suffix("\r\n\r\n")
            .ok_or("no end of head")?
            .split("\r\n");
        let status = parse_status_line(lines.next().ok_or("no status line")?)?;
        let headers = lines.map(parse_header).collect::<Outcome<Vec<_>>>()?;
        let head = Head { status, headers };
        check_framing(&head)?;
        Ok(head)
    }

    fn body(&mut self, head: &Head) -> Outcome<Vec<u8>> {
        if head.has("transfer-encoding") {
            let mut body = Vec::new();
            while let Some(piece) = self.chunk()? {
                body.extend(piece);
            }
            return Ok(body);
        }
        let length = head
            .header("content-length")
            .ok_or("a body that nothing frames")?;
        let length = length
            .parse()
            .map_err(|_| format!("Content-Length: {length}"))?;
        self.take(length)
    }

    /// The next piece of a chunked body; none at its end.
    pub fn chunk(&mut self) -> Outcome<Option<Vec<u8>>> {
        let line = self.take_through(b"\r\n")?;
        let text = String::from_utf8_lossy(&line[..line.len() - 2]).into_owned();
        let size = usize::from_str_radix(&text, 16).map_err(|_| format!("chunk size {text:?}"))?;
        let piece = self.take(size)?;
        match self.take(2)?.as_slice() {
            b"\r\n" => Ok((size > 0).then_some(piece)),
            other => Err(format!("after a chunk of {size} comes {other:?}")),
        }
    }

    /// Takes exactly `length` bytes.
    pub fn take(&mut self, length: usize) -> Outcome<Vec<u8>> {
        while self.ahead.len() < length {
            self.read_more()?;
        }
        Ok(self.ahead.drain(..length).collect())
    }

    fn take_through(&mut self, end: &[u8]) -> Outcome<Vec<u8>> {
        loop {
            let found = self
                .ahead
                .windows(end.len())
                .position(|window| window == end);
            if let Some(place) = found {
                return self.take(place + end.len());
            }
            self.read_more()?;
        }
    }

    fn read_more(&mut self) -> Outcome<()> {
        let mut piece = [0; 16 * 1024];
        match self.socket.read(&mut piece) {
            Ok(0) => Err(format!("closed after {}", show(&self.ahead))),
            Ok(length) => {
                self.ahead.extend_from_slice(&piece[..length]);
                Ok(())
            }
            Err(error) => Err(format!("{error} after {}", show(&self.ahead))),
        }
    }

    /// Checks that the relay closes without another byte.
    pub fn closes(&mut self) -> Outcome<()> {
        if !self.ahead.is_empty() {
            return Err(format!("more than was asked for: {}", show(&self.ahead)));
        }
        let before = Instant::now();
        let mut piece = [0; 1024];
        match self.socket.read(&mut piece) {
            Ok(0) => Ok(()),
            Ok(length) => Err(format!(
                "more than was asked for: {}",
                show(&piece[..length])
            )),
            Err(error) if is_timeout(error.kind()) => {
                Err(format!("still open after {} s", before.elapsed().as_secs()))
            }
            // A reset, or TLS without its farewell: closed all the same.
            Err(_) => Ok(()),
        }
    }
}

fn is_timeout(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Connects, sends one request, reads one answer.
pub fn ask(relay: &Relay, way: Way, request: impl AsRef<[u8]>) -> Answer {
    let request = request.as_ref();
    let answer = Client::connect(relay, way).exchange(request);
    answer.unwrap_or_else(|error| {
        let patience = PATIENCE.as_secs();
        panic!(
            "{} by {way:?}: {error} (patience {patience} s)\n{}",
            show(request),
            relay.log.all()
        )
    })
}

fn parse_status_line(line: &str) -> Outcome<u16> {
    let bad = || format!("status line {line:?}");
    let rest = line.strip_prefix("HTTP/1.1 ").ok_or_else(bad)?;
    let (digits, reason) = rest.split_once(' ').ok_or_else(bad)?;
    let status: u16 = digits.parse().map_err(|_| bad())?;
    let printable = reason.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if digits.len() != 3 || !printable || !(100..600).contains(&status) {
        return Err(bad());
    }
    // 304 is the one that a client asks for itself, by a condition.
    let redirect = (300..400).contains(&status) && status != 304;
    if redirect {
        Err(format!("a redirect: {line}"))
    } else {
        Ok(status)
    }
}

fn parse_header(line: &str) -> Outcome<(String, String)> {
    let bad = || format!("header line {line:?}");
    let (name, value) = line.split_once(':').ok_or_else(bad)?;
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let value = value.trim_matches(' ');
    let printable = value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if name.is_empty() || !name.bytes().all(token) || !printable {
        return Err(bad());
    }
    Ok((name.to_ascii_lowercase(), value.to_owned()))
}

fn check_framing(head: &Head) -> Outcome<()> {
    let names = ["content-length", "transfer-encoding"];
    let framings = head
        .headers
        .iter()
        .filter(|(name, _)| names.contains(&name.as_str()))
        .count();
    let none = head.status < 200 || head.status == 204;
    if none && framings > 0 {
        return Err(format!(
            "a body is announced on {}: {:?}",
            head.status, head.headers
        ));
    }
    if framings > 1 {
        return Err(format!("two framings: {:?}", head.headers));
    }
    match head.header("transfer-encoding") {
        None | Some("chunked") => Ok(()),
        Some(other) => Err(format!("Transfer-Encoding: {other}")),
    }
}

/// Bytes for people: printable ones as they are, the rest escaped, the middle left out.
pub fn show(bytes: &[u8]) -> String {
    let text = |part: &[u8]| part.escape_ascii().to_string();
    match bytes.len() {
        0..=600 => format!("{:?}", text(bytes)),
        length => {
            let (start, end) = (text(&bytes[..300]), text(&bytes[length - 200..]));
            format!("{start:?} ... {end:?} ({length} bytes)")
        }
    }
}

/// A relay that answers with `bytes` whatever it is asked.
struct Canned(std::io::Cursor<Vec<u8>>);

impl Read for Canned {
    fn read(&mut self, space: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(space)
    }
}

impl Write for Canned {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn canned(bytes: &str) -> Outcome<Answer> {
    let socket = Canned(std::io::Cursor::new(bytes.into()));
    Client::over(Box::new(socket), Delivery::Whole).exchange(b"GET / HTTP/1.1\r\n\r\n")
}

#[test]
fn the_client_is_as_strict_as_it_says() {
    let good = [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        "HTTP/1.1 204 No Content\r\nVary: a\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n",
    ];
    for answer in good {
        assert!(canned(answer).is_ok(), "{answer:?}: {:?}", canned(answer));
    }
    let bad = [
        "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nhi",
        "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi0\r\n\r\n",
    ];
    for answer in bad {
        assert!(canned(answer).is_err(), "{answer:?}: {:?}", canned(answer));
    }
}
