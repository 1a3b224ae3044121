//! A server behind the relay, on threads of the test.
//!
//! Owns what it was asked, byte by byte, and the sockets on which it was. What it answers is the
//! test's to say. It can go away like a process that is killed, and come back on the same port.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::harness::PATIENCE;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Request {
    /// Request line and fields, the empty line left out.
    pub head: String,
    pub body: Vec<u8>,
}

impl Request {
    /// The values of a field, in their order.
    pub fn fields(&self, name: &str) -> Vec<&str> {
        let lines = self.head.split("\r\n").skip(1);
        let fields = lines.filter_map(|line| line.split_once(": "));
        fields
            .filter(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .collect()
    }

    pub fn path(&self) -> &str {
        self.head.split(' ').nth(1).expect("a request line")
    }
}

/// What a destination does with a request: writes to the socket, and says whether it keeps it.
pub type Handler = dyn Fn(&Request, &mut TcpStream) -> bool + Send + Sync;

struct Shared {
    handler: Box<Handler>,
    is_stopped: AtomicBool,
    connections: AtomicUsize,
    seen: Mutex<Seen>,
    news: Condvar,
}

#[derive(Default)]
struct Seen {
    requests: Vec<Request>,
    /// Connections that ended before or within a request.
    cut: usize,
    sockets: Vec<TcpStream>,
}

/// A running server.
pub struct Destination {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl Destination {
    /// Starts a server whose every request is given to `handler`.
    pub fn start(
        handler: impl Fn(&Request, &mut TcpStream) -> bool + Send + Sync + 'static,
    ) -> Destination {
        Destination::at(
            "127.0.0.1:0".parse().expect("an address"),
            Box::new(handler),
        )
    }

    /// A server that answers each request with its name.
    pub fn named(name: &'static str) -> Destination {
        Destination::start(move |_, socket| answer(socket, "200 OK", "", name))
    }

    fn at(address: SocketAddr, handler: Box<Handler>) -> Destination {
        let listener = TcpListener::bind(address).expect("the port is free");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            handler,
            is_stopped: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            seen: Mutex::default(),
            news: Condvar::new(),
        });
        let accepting = shared.clone();
        let acceptor = std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                if accepting.is_stopped.load(Ordering::SeqCst) {
                    return;
                }
                accepting.connections.fetch_add(1, Ordering::SeqCst);
                let shared = accepting.clone();
                let clone = socket.try_clone().expect("a descriptor is left");
                shared.seen().sockets.push(clone);
                std::thread::spawn(move || serve(&shared, socket));
            }
        });
        Destination {
            address,
            shared,
            acceptor: Some(acceptor),
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends like a killed process: nothing listens, and every connection is closed.
    pub fn stop(&mut self) {
        let Some(acceptor) = self.acceptor.take() else {
            return;
        };
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        acceptor.join().expect("the acceptor ends");
        for socket in self.shared.seen().sockets.drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Comes back on the same port, with another handler.
    pub fn restart(
        &mut self,
        handler: impl Fn(&Request, &mut TcpStream) -> bool + Send + Sync + 'static,
    ) {
        self.stop();
        *self = Destination::at(self.address, Box::new(handler));
    }

    /// Requests that arrived whole so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.seen().requests.clone()
    }

    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Waits for a connection that ends before its request is whole, or while it is answered.
    pub fn wait_for_cut(&self) {
        let deadline = Instant::now() + PATIENCE;
        let mut seen = self.shared.seen();
        while seen.cut == 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no connection was cut");
            let waited = self.shared.news.wait_timeout(seen, left);
            seen = waited.expect("no holder panics").0;
        }
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("no holder panics")
    }
}

fn serve(shared: &Shared, socket: TcpStream) {
    socket.set_nodelay(true).expect("a TCP socket");
    let mut reader = BufReader::new(socket.try_clone().expect("a descriptor is left"));
    let mut writer = socket;
    loop {
        match read(&mut reader) {
            Ok(Some(request)) => {
                shared.seen().requests.push(request.clone());
                if (shared.handler)(&request, &mut writer) {
                    continue;
                }
                let _ = writer.shutdown(Shutdown::Both);
                return;
            }
            Ok(None) => return,
            Err(_) => {
                shared.seen().cut += 1;
                shared.news.notify_all();
                return;
            }
        }
    }
}

/// Reads one request. `None` is an end between two.
fn read(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<Request>> {
    let eof = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return if head.is_empty() {
                Ok(None)
            } else {
                Err(eof())
            };
        }
        assert!(line.ends_with("\r\n"), "a line of the relay: {line:?}");
        if line == "\r\n" {
            break;
        }
        head += &line;
    }
    let mut request = Request {
        head: head.trim_end().to_owned(),
        body: Vec::new(),
    };
    let length = request
        .fields("content-length")
        .first()
        .map(|text| text.parse());
    if let Some(length) = length {
        request.body.resize(length.expect("a length"), 0);
        reader.read_exact(&mut request.body)?;
    } else if !request.fields("transfer-encoding").is_empty() {
        while let chunk @ [_, ..] = &read_chunk(reader)?[..] {
            request.body.extend_from_slice(chunk);
        }
    }
    Ok(Some(request))
}

/// One chunk; the last one is empty.
pub fn read_chunk(reader: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    let size = usize::from_str_radix(line.trim_end(), 16).expect("a chunk's size");
    let mut chunk = vec![0; size + 2];
    reader.read_exact(&mut chunk)?;
    assert!(chunk.ends_with(b"\r\n"));
    chunk.truncate(size);
    Ok(chunk)
}

/// Writes an answer with a length; `fields` are whole lines. The connection is kept.
pub fn answer(socket: &mut TcpStream, status: &str, fields: &str, body: &str) -> bool {
    let length = body.len();
    let text = format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {length}\r\n\r\n{body}");
    socket.write_all(text.as_bytes()).is_ok()
}
