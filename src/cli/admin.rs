//! The way from a command to the running relay: one request to its admin listener.
//!
//! Owns where the relay is looked for, the request, and the strict reading of the answer: HTTP/1.1
//! with a plain `Content-Length`, bounded, all under one deadline. The command line has no event
//! loop, so the socket blocks; every wait is cut to what is left of the deadline.
//!
//! Never follows a redirect, never resolves a name: an admin address is a socket or a number.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use super::UsageError;
use crate::config::{Admin, Environment, Listen, Secret};
use crate::limits::Limits;
use crate::net::clock::Clock;
use crate::net::disk::read_bounded;
use crate::time::{Duration, Instant};

/// Where the unit's runtime directory has the socket.
const SYSTEM_SOCKET: &str = "/run/staffetta/admin.sock";

/// Header fields of an answer; the relay sends fewer than ten.
const FIELDS_MAX: usize = 32;

/// What the relay said.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    /// The value of `ETag`.
    pub etag: Option<String>,
    pub body: Vec<u8>,
}

impl Reply {
    /// The body as lines for people.
    pub fn lines(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.body);
        text.lines().map(str::to_owned).collect()
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub enum AdminError {
    /// Nobody is there, or we may not.
    Connect(Listen, io::Error),
    Broken(io::Error),
    TimedOut(Duration),
    /// The other end is no relay.
    Malformed(&'static str),
    TooLarge {
        bytes_max: usize,
    },
}

impl fmt::Display for AdminError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdminError::Connect(address, error) => {
                write!(formatter, "cannot reach the relay at {address}: {error}")?;
                formatter.write_str(match error.kind() {
                    io::ErrorKind::PermissionDenied => {
                        "; the socket is its user's and root's: use sudo"
                    }
                    _ => "; is it running there? --admin names another address",
                })
            }
            AdminError::Broken(error) => write!(formatter, "the relay broke off: {error}"),
            AdminError::TimedOut(timeout) => {
                let seconds = timeout.as_secs();
                write!(formatter, "no answer from the relay within {seconds} s")
            }
            AdminError::Malformed(what) => {
                write!(formatter, "what answered is no relay of ours ({what})")
            }
            AdminError::TooLarge { bytes_max } => {
                write!(formatter, "the answer is longer than {bytes_max} bytes")
            }
        }
    }
}

/// The value of `--admin`.
pub fn address_value(parser: &mut lexopt::Parser) -> Result<Listen, UsageError> {
    let value = parser.value()?;
    let value = value.to_string_lossy();
    parse_address(&value).ok_or(UsageError::BadValue {
        option: "--admin",
        value: value.into_owned(),
        wanted: "unix:PATH or ADDRESS:PORT",
    })
}

fn parse_address(text: &str) -> Option<Listen> {
    match text.strip_prefix("unix:") {
        Some("") => None,
        Some(path) => Some(Listen::Unix(path.into())),
        None => text.parse().ok().map(Listen::Tcp),
    }
}

/// Where the relay is when nobody says so: where it listens by default, seen from its own unit
/// (`RUNTIME_DIRECTORY` is set), from a shell beside that unit, or without one.
pub fn default_address() -> Listen {
    let runtime = std::env::var("RUNTIME_DIRECTORY").ok();
    let is_there = Path::new(SYSTEM_SOCKET).exists();
    choose_address(runtime.as_deref(), is_there)
}

fn choose_address(runtime_directory: Option<&str>, system_socket_is_there: bool) -> Listen {
    let environment = Environment::new(Path::new(""), None, runtime_directory);
    if environment.runtime_directory.is_none() && system_socket_is_there {
        return Listen::Unix(PathBuf::from(SYSTEM_SOCKET));
    }
    let unconfigured = Admin {
        listen: None,
        token: None,
    };
    let mut addresses = unconfigured.addresses(&environment).into_iter();
    let fallback = || Listen::Unix(PathBuf::from(SYSTEM_SOCKET));
    addresses.next().unwrap_or_else(fallback)
}

/// The admin token in the file `path`, for requests over TCP. The error is one line.
pub fn token(path: &Path, limits: &Limits) -> Result<Secret, String> {
    let path_shown = path.display();
    let content = match read_bounded(path, limits.credential_bytes_max) {
        Ok(Some(content)) => content,
        Ok(None) => return Err(format!("{path_shown}: no such file")),
        Err(error) => return Err(error.to_string()),
    };
    match Secret::new(&content).filter(Secret::is_sendable) {
        Some(token) => Ok(token),
        None => Err(format!("{path_shown}: holds no token")),
    }
}

/// What is asked.
pub struct Request<'a> {
    pub method: &'static str,
    pub path: &'a str,
    /// Beyond those that every request has.
    pub fields: &'a [(&'static str, &'a str)],
    pub body: &'a [u8],
    /// How long the whole of it may take.
    pub timeout: Duration,
}

/// Asks the relay at `address` for `method path`, within `Limits::admin_timeout`.
///
/// Bounded by `Limits::admin_answer_bytes_max`.
pub fn ask(
    address: &Listen,
    (method, path): (&'static str, &'static str),
    token: Option<&Secret>,
    limits: &Limits,
) -> Result<Reply, AdminError> {
    let request = Request {
        method,
        path,
        fields: &[],
        body: b"",
        timeout: limits.admin_timeout,
    };
    send(address, &request, token, limits)
}

/// Sends a request, within its own time.
///
/// Bounded by `Limits::admin_answer_bytes_max`.
pub fn send(
    address: &Listen,
    request: &Request<'_>,
    token: Option<&Secret>,
    limits: &Limits,
) -> Result<Reply, AdminError> {
    let clock = Clock::system();
    let patience = Patience {
        until: clock.now() + request.timeout,
        timeout: request.timeout,
        clock,
    };
    let mut stream = Stream::connect(address, &patience)?;
    stream.patience(&patience)?;
    let sent = stream.write_all(&head(request, token));
    match sent.and_then(|()| stream.write_all(request.body)) {
        Ok(()) => {}
        // What it says to a request that it did not read to its end may be there all the same.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        Err(error) => return Err(patience.explain(error)),
    }
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    loop {
        if let Some(reply) = read_reply(&answer, limits.admin_answer_bytes_max)? {
            return Ok(reply);
        }
        stream.patience(&patience)?;
        match stream.read(&mut piece) {
            Ok(0) => return Err(AdminError::Broken(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => answer.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(patience.explain(error)),
        }
    }
}

fn head(request: &Request<'_>, token: Option<&Secret>) -> Vec<u8> {
    let Request {
        method,
        path,
        fields,
        body,
        timeout: _,
    } = request;
    let mut head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-length: {}\r\n",
        body.len()
    );
    for (name, value) in *fields {
        head.extend([name, ": ", value, "\r\n"]);
    }
    let mut head = head.into_bytes();
    if let Some(token) = token {
        head.extend_from_slice(b"authorization: Bearer ");
        head.extend_from_slice(token.bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// Reads an answer, if `bytes` holds all of it.
fn read_reply(bytes: &[u8], bytes_max: usize) -> Result<Option<Reply>, AdminError> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    let head = match response.parse(bytes) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) if bytes.len() > bytes_max => {
            return Err(AdminError::TooLarge { bytes_max });
        }
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(AdminError::Malformed("not HTTP")),
    };
    let (Some(1), Some(status)) = (response.version, response.code) else {
        return Err(AdminError::Malformed("not HTTP/1.1"));
    };
    let (mut length, mut etag) = (None, None);
    for field in response.headers.iter() {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        if is("transfer-encoding") || (is("content-length") && length.is_some()) {
            return Err(AdminError::Malformed("an unclear length"));
        }
        if is("content-length") {
            length = plain_number(field.value);
        }
        if is("etag") {
            etag = String::from_utf8(field.value.to_vec()).ok();
        }
    }
    let length = length.ok_or(AdminError::Malformed("no length"))?;
    if length > bytes_max {
        return Err(AdminError::TooLarge { bytes_max });
    }
    let body = &bytes[head..];
    match body.len() {
        have if have < length => Ok(None),
        have if have > length => Err(AdminError::Malformed("more than its length")),
        _ => Ok(Some(Reply {
            status,
            etag,
            body: body.to_vec(),
        })),
    }
}

fn plain_number(digits: &[u8]) -> Option<usize> {
    let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(digits).ok().filter(|_| plain)?;
    text.parse().ok()
}

/// The one deadline.
struct Patience {
    clock: Clock,
    until: Instant,
    timeout: Duration,
}

impl Patience {
    fn left(&self) -> Result<Duration, AdminError> {
        let left = self.until - self.clock.now();
        match left.is_zero() {
            true => Err(AdminError::TimedOut(self.timeout)),
            false => Ok(left),
        }
    }

    fn explain(&self, error: io::Error) -> AdminError {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                AdminError::TimedOut(self.timeout)
            }
            _ => AdminError::Broken(error),
        }
    }
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn connect(address: &Listen, patience: &Patience) -> Result<Stream, AdminError> {
        let failed = |error| AdminError::Connect(address.clone(), error);
        match address {
            Listen::Tcp(address) => TcpStream::connect_timeout(address, patience.left()?)
                .map(Stream::Tcp)
                .map_err(failed),
            Listen::Unix(path) => UnixStream::connect(path).map(Stream::Unix).map_err(failed),
        }
    }

    /// No read or write waits longer than what is left.
    fn patience(&self, patience: &Patience) -> Result<(), AdminError> {
        let left = Some(patience.left()?);
        let set = match self {
            Stream::Tcp(stream) => stream
                .set_read_timeout(left)
                .and_then(|()| stream.set_write_timeout(left)),
            Stream::Unix(stream) => stream
                .set_read_timeout(left)
                .and_then(|()| stream.set_write_timeout(left)),
        };
        set.map_err(AdminError::Broken)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.write_all(bytes),
            Stream::Unix(stream) => stream.write_all(bytes),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    const BYTES_MAX: usize = 64;

    fn read(text: &str) -> Result<Option<Reply>, String> {
        read_reply(text.as_bytes(), BYTES_MAX).map_err(|error| error.to_string())
    }

    #[test]
    fn an_answer_is_read_when_all_of_it_is_there() {
        let text = "HTTP/1.1 422 X\r\netag: \"0-1\"\r\ncontent-length: 4\r\n\
                    \r\na\nb\n";
        for end in 0..text.len() {
            assert_eq!(read(&text[..end]), Ok(None), "{end}");
        }
        let reply = read(text).unwrap().unwrap();
        assert_eq!((reply.status, reply.lines().len()), (422, 2));
        assert_eq!(reply.etag.as_deref(), Some("\"0-1\""));
    }

    #[test]
    fn odd_answers_are_refused() {
        for (text, why) in [
            ("SSH-2.0-OpenSSH\r\n", "not HTTP"),
            ("HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n", "HTTP/1.1"),
            ("HTTP/1.1 200 OK\r\n\r\n", "no length"),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: +1\r\n\r\na",
                "no length",
            ),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\na",
                "unclear",
            ),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
                "unclear",
            ),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab",
                "more than",
            ),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 65\r\n\r\n",
                "longer than 64",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why), "{text:?}: {error}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "x".repeat(BYTES_MAX));
        assert!(read(&endless).unwrap_err().contains("longer"));
    }

    #[test]
    fn addresses_are_sockets_or_numbers() {
        let unix = |path: &str| Listen::Unix(path.into());
        assert_eq!(parse_address("unix:/a"), Some(unix("/a")));
        for good in ["127.0.0.1:7071", "[::1]:7071"] {
            assert!(
                matches!(parse_address(good), Some(Listen::Tcp(_))),
                "{good}"
            );
        }
        for bad in ["", "unix:", "localhost:7071", "127.0.0.1", "/a"] {
            assert_eq!(parse_address(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_relay_is_looked_for_where_it_listens_by_default() {
        let unix = |path: &str| Listen::Unix(path.into());
        let tcp = Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 7071)));
        assert_eq!(choose_address(None, false), tcp);
        assert_eq!(choose_address(None, true), unix(SYSTEM_SOCKET));
        assert_eq!(choose_address(Some(""), true), unix(SYSTEM_SOCKET));
        for there in [false, true] {
            let found = choose_address(Some("/run/a:/run/b"), there);
            assert_eq!(found, unix("/run/a/admin.sock"));
        }
    }

    #[test]
    fn nobody_there_is_told_with_the_address() {
        let path = std::env::temp_dir().join("staffetta-no-such-relay.sock");
        let address = Listen::Unix(path);
        let error = ask(&address, ("GET", "/live"), None, &Limits::PRODUCTION);
        let text = error.unwrap_err().to_string();
        assert!(
            text.contains("no-such-relay.sock") && text.contains("--admin"),
            "{text}"
        );
    }
}
