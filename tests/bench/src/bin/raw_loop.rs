//! `raw_loop`: the floor that the relay is measured against.
//!
//! A program on the same runtime that does the least: it reads until an empty line, looks at the
//! path, and writes bytes that were prepared at the start. A GET is answered with the whole
//! document. Event streams and WebSockets are kept, and `POST /reload` writes one prepared change
//! to all of them in one loop; a socket that takes no more is finished by a task of its own.
//!
//! No token is checked, no clock is read, no limit is kept: what a relay does beyond this is what
//! the ratio shows. It must not be used for anything else. Listens on loopback only.

use lexopt::{Arg, Parser, ValueExt};
use smol::{Async, LocalExecutor};
use std::cell::{Cell, RefCell};
use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

const HEAD_BYTES_MAX: usize = 4096;

/// One kept stream.
struct Subscriber {
    socket: Rc<Async<TcpStream>>,
    change: Rc<[u8]>,
    /// Its last change is still being written.
    busy: Cell<bool>,
    closed: Cell<bool>,
}

/// Everything that is written, prepared, and who it is written to.
struct Prepared {
    document: Rc<[u8]>,
    registration: Rc<[u8]>,
    event_change: Rc<[u8]>,
    upgrade: Rc<[u8]>,
    frame_change: Rc<[u8]>,
    done: Rc<[u8]>,
    subscribers: RefCell<Vec<Rc<Subscriber>>>,
}

impl Prepared {
    fn new(document: &[u8]) -> Prepared {
        let json = [&b"data: "[..], document, b"\n\n"].concat();
        let event = |name: &str| [format!("event: {name}\n").as_bytes(), &json].concat();
        let update = b"event: SSEEvent_update\ndata: 1\n\n";
        let change = [&event("SSEConfig_payload")[..], update].concat();
        let stream = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
            transfer-encoding: chunked\r\n\r\n";
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            document.len()
        );
        Prepared {
            document: [answer.as_bytes(), document].concat().into(),
            registration: [&stream[..], &chunk(&event("Registration"))]
                .concat()
                .into(),
            event_change: chunk(&change).into(),
            upgrade: b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\
                connection: upgrade\r\n\r\n"[..]
                .into(),
            frame_change: b"\x81\x07changed"[..].into(),
            done: b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"[..].into(),
            subscribers: RefCell::default(),
        }
    }
}

fn chunk(payload: &[u8]) -> Vec<u8> {
    [
        format!("{:x}\r\n", payload.len()).as_bytes(),
        payload,
        b"\r\n",
    ]
    .concat()
}

type Executor = &'static LocalExecutor<'static>;

/// Reads to the end of a head; `None` at the end of the stream.
async fn read_head(socket: &Async<TcpStream>, head: &mut [u8]) -> io::Result<Option<usize>> {
    let mut length = 0;
    loop {
        match socket.get_ref().read(&mut head[length..]) {
            Ok(0) => return Ok(None),
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                socket.readable().await?;
                continue;
            }
            Err(error) => return Err(error),
        }
        if head[..length].ends_with(b"\r\n\r\n") {
            return Ok(Some(length));
        }
    }
}

async fn write_all(socket: &Async<TcpStream>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match socket.get_ref().write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => socket.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn serve(
    executor: Executor,
    socket: Rc<Async<TcpStream>>,
    prepared: Rc<Prepared>,
) -> io::Result<()> {
    let mut head = [0; HEAD_BYTES_MAX];
    while let Some(length) = read_head(&socket, &mut head).await? {
        let line_end = head[..length].iter().position(|&byte| byte == b'\r');
        let line = &head[..line_end.unwrap_or(length)];
        if contains(line, b"/sse/subscribe") {
            write_all(&socket, &prepared.registration).await?;
            let change = prepared.event_change.clone();
            executor.spawn(subscribe(socket, change, prepared)).detach();
            return Ok(());
        }
        if contains(line, b"/wsfeature") {
            write_all(&socket, &prepared.upgrade).await?;
            let change = prepared.frame_change.clone();
            executor.spawn(subscribe(socket, change, prepared)).detach();
            return Ok(());
        }
        if line.starts_with(b"POST /reload") {
            write_all(&socket, &prepared.done).await?;
            broadcast(executor, &prepared);
        } else {
            write_all(&socket, &prepared.document).await?;
        }
    }
    Ok(())
}

fn contains(line: &[u8], part: &[u8]) -> bool {
    line.windows(part.len()).any(|window| window == part)
}

/// Keeps a stream until its peer closes.
async fn subscribe(socket: Rc<Async<TcpStream>>, change: Rc<[u8]>, prepared: Rc<Prepared>) {
    let subscriber = Rc::new(Subscriber {
        socket: socket.clone(),
        change,
        busy: Cell::new(false),
        closed: Cell::new(false),
    });
    prepared.subscribers.borrow_mut().push(subscriber.clone());
    loop {
        let mut skipped = [0; 64];
        match socket.get_ref().read(&mut skipped) {
            Ok(count) if count > 0 => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if socket.readable().await.is_err() {
                    break;
                }
            }
            _ => break,
        }
    }
    subscriber.closed.set(true);
}

/// The loop that a fan-out is compared with.
fn broadcast(executor: Executor, prepared: &Prepared) {
    let mut subscribers = prepared.subscribers.borrow_mut();
    subscribers.retain(|subscriber| !subscriber.closed.get());
    for subscriber in subscribers
        .iter()
        .filter(|subscriber| !subscriber.busy.get())
    {
        let written = match subscriber.socket.get_ref().write(&subscriber.change) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(_) => continue,
        };
        if written < subscriber.change.len() {
            subscriber.busy.set(true);
            let subscriber = subscriber.clone();
            let finish = async move {
                let rest = &subscriber.change[written..];
                let _ = write_all(&subscriber.socket, rest).await;
                subscriber.busy.set(false);
            };
            executor.spawn(finish).detach();
        }
    }
}

async fn accept(
    executor: Executor,
    listener: Async<TcpListener>,
    prepared: Rc<Prepared>,
) -> io::Result<()> {
    loop {
        let (socket, _) = listener.accept().await?;
        socket.get_ref().set_nodelay(true)?;
        let task = serve(executor, Rc::new(socket), prepared.clone());
        executor.spawn(task).detach();
    }
}

fn parse() -> Result<(SocketAddrV4, PathBuf), lexopt::Error> {
    let mut parser = Parser::from_env();
    let mut listen = None;
    let mut document = None;
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("listen") => listen = Some(parser.value()?.parse::<SocketAddrV4>()?),
            Arg::Long("document") => document = Some(PathBuf::from(parser.value()?)),
            argument => return Err(argument.unexpected()),
        }
    }
    let listen = listen.filter(|address| address.ip().is_loopback());
    let listen = listen.ok_or("--listen 127.0.0.1:PORT is missing")?;
    Ok((listen, document.ok_or("--document FILE is missing")?))
}

fn listen(address: SocketAddrV4) -> io::Result<TcpListener> {
    use socket2::{Domain, Socket, Type};
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(4096)?;
    Ok(socket.into())
}

fn run(address: SocketAddrV4, document: PathBuf) -> io::Result<()> {
    let prepared = Rc::new(Prepared::new(&std::fs::read(document)?));
    let listener = Async::new(listen(address)?)?;
    println!("listening on {}", listener.get_ref().local_addr()?);
    let executor: Executor = Box::leak(Box::new(LocalExecutor::new()));
    // The root future is polled at every wake: it must hold no socket.
    let accepting = executor.spawn(accept(executor, listener, prepared));
    smol::block_on(executor.run(accepting))
}

fn main() -> ExitCode {
    let outcome = parse().map_err(|error| error.to_string());
    let outcome = outcome
        .and_then(|(address, document)| run(address, document).map_err(|error| error.to_string()));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("raw_loop: {problem}");
            ExitCode::FAILURE
        }
    }
}
