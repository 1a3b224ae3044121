//! The two ports: accepting, and closing and opening again on order.
//!
//! One thread for each port, and one for each connection within a bound. Waiting is done by `poll`
//! on the listener and on a pipe that the stage writes to when orders change.

use super::connection;
use super::stage::Stage;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ServerConfig;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// Connections to both ports together: more than any test of one relay has reason for.
const CONNECTIONS_MAX: usize = 1_024;
/// Room for a TLS handshake and a document; the default is four times that.
const STACK_BYTES: usize = 512 * 1024;
/// How long after a failed attempt to listen the next one comes.
const AGAIN: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

/// What a port is for.
#[derive(Clone)]
pub enum Door {
    /// The service is played here.
    Stage(Option<Arc<ServerConfig>>),
    /// Orders are taken here.
    Control,
}

/// Accepts on a thread of its own until the stage stops. `woken` tells it to look at its orders.
pub fn start(
    stage: &Arc<Stage>,
    door: Door,
    listener: TcpListener,
    woken: UnixStream,
) -> io::Result<JoinHandle<()>> {
    listener.set_nonblocking(true)?;
    woken.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let stage = Arc::clone(stage);
    if matches!(door, Door::Stage(_)) {
        stage.change(|state| state.listening = true);
    }
    let run = move || run(&stage, &door, listener, address, woken);
    Builder::new().name("double-listen".to_owned()).spawn(run)
}

fn run(
    stage: &Arc<Stage>,
    door: &Door,
    listener: TcpListener,
    address: SocketAddr,
    mut woken: UnixStream,
) {
    let plays = matches!(door, Door::Stage(_));
    let mut listener = Some(listener);
    loop {
        let (stopping, refuse) =
            stage.look(|state| (state.stopping, plays && state.behaviours.tcp.refuse));
        if stopping {
            return;
        }
        if refuse && listener.is_some() {
            listener = None;
            stage.change(|state| state.listening = false);
        } else if !refuse && listener.is_none() {
            listener = listen_again(address);
            if listener.is_some() {
                stage.change(|state| state.listening = true);
            }
        }
        let again = (!refuse && listener.is_none()).then_some(&AGAIN);
        let mut waited = vec![PollFd::new(&woken, PollFlags::IN)];
        waited.extend(
            listener
                .as_ref()
                .map(|listener| PollFd::new(listener, PollFlags::IN)),
        );
        // Interrupted or in vain, the loop looks again.
        let _ = poll(&mut waited, again);
        drop(waited);
        drain(&mut woken);
        while let Some(Ok((tcp, _))) = listener.as_ref().map(TcpListener::accept) {
            admit(stage, door, tcp);
        }
    }
}

/// The same port again, which somebody else may have meanwhile.
fn listen_again(address: SocketAddr) -> Option<TcpListener> {
    let listener = TcpListener::bind(address).ok()?;
    listener.set_nonblocking(true).ok()?;
    Some(listener)
}

/// Reads a pipe empty whose bytes say nothing but that they came.
pub fn drain(woken: &mut UnixStream) {
    let mut bytes = [0; 64];
    while woken.read(&mut bytes).is_ok_and(|length| length > 0) {}
}

fn admit(stage: &Arc<Stage>, door: &Door, tcp: TcpStream) {
    let ready = tcp
        .set_nonblocking(false)
        .and_then(|()| tcp.set_nodelay(true));
    let tcp = Arc::new(tcp);
    let plays = matches!(door, Door::Stage(_));
    let id = match ready {
        Ok(()) => stage.connect(Arc::clone(&tcp), plays, CONNECTIONS_MAX),
        Err(_) => None,
    };
    let Some(id) = id else { return };
    let (serving, door) = (Arc::clone(stage), door.clone());
    let serve = move || {
        connection::serve(&serving, id, tcp, &door);
        serving.disconnect(id);
    };
    let thread = Builder::new()
        .name("double-connection".to_owned())
        .stack_size(STACK_BYTES);
    if thread.spawn(serve).is_err() {
        stage.disconnect(id);
    }
}
