//! From a listening socket to served connections.
//!
//! Owns who gets in: up to `connections_max` SDK connections are served, up to `lobby_max` more are
//! told to come back, the rest are closed unheard. A connection's place is the connection itself:
//! it is counted when it is made and given back when it is dropped, so the count cannot leak.
//!
//! The loop runs in a task of its own, never in the executor's root future, which is polled on
//! every wake.

use std::io;
use std::rc::Rc;

use futures_lite::future::yield_now;
use smol::{Async, Timer};
use socket2::{Domain, SockAddr, Socket};

use super::connection::{Connection, Door};
use super::driver::Driver;
use super::http;
use super::io::Io;
use super::log::Cause;
use super::sockets::Listener;

/// Accepts for ever.
pub async fn accept(driver: Rc<Driver>, listener: Async<Socket>, is_admin: bool) {
    loop {
        match listener.read_with(|socket| socket.accept()).await {
            Ok((socket, peer)) => {
                if let Err(error) = admit(&driver, socket, &peer, is_admin) {
                    note_failure(&driver, &error);
                }
                // Whoever connects faster than this loop accepts must not keep it from the others.
                yield_now().await;
            }
            Err(error) => {
                note_failure(&driver, &error);
                Timer::after(driver.limits.accept_pause).await;
            }
        }
    }
}

/// A listener as `accept` takes it. Accepted sockets have the options of their listener; a kernel
/// that lacks one of them serves without it.
pub fn prepare(driver: &Driver, listener: Listener) -> io::Result<Async<Socket>> {
    if let Err(error) = listener.tune(&driver.limits) {
        driver.log.warn(format_args!(
            "{listener}: a socket option is not available: {error}"
        ));
    }
    let socket = match listener {
        Listener::Tcp(listener) => Socket::from(listener),
        Listener::Unix(listener) => Socket::from(listener),
    };
    Async::new(socket)
}

fn admit(driver: &Rc<Driver>, socket: Socket, peer: &SockAddr, is_admin: bool) -> io::Result<()> {
    let is_local = socket.domain().is_ok_and(|domain| domain == Domain::UNIX);
    let Some(door) = door(driver, is_admin, is_local) else {
        driver.count(|counters| counters.connections_dropped += 1);
        return Ok(());
    };
    let io = Io::accepted(Async::new(socket)?, peer);
    let connection = Connection::new(driver.clone(), door, io);
    driver.spawn_for_client(http::serve(connection));
    Ok(())
}

fn door(driver: &Driver, is_admin: bool, is_local: bool) -> Option<Door> {
    let (open, limits) = (driver.open(), &driver.limits);
    if is_admin {
        let door = if is_local {
            Door::AdminLocal
        } else {
            Door::AdminTcp
        };
        return (open.admin < limits.admin_connections_max).then_some(door);
    }
    if open.sdk < limits.connections_max {
        return Some(Door::Sdk);
    }
    driver.log.limited(
        Cause::ConnectionsFull,
        driver.clock.now(),
        format_args!(
            "{} connections are open, which is the limit; more are answered 503 \
             (limits.connections)",
            open.sdk
        ),
    );
    (open.lobby < limits.lobby_max).then_some(Door::Lobby)
}

fn note_failure(driver: &Driver, error: &io::Error) {
    driver.count(|counters| counters.accept_failures += 1);
    driver.log.limited(
        Cause::Accept,
        driver.clock.now(),
        format_args!(
            "a connection could not be accepted: {error}; if descriptors ran out, raise the unit's \
             LimitNOFILE"
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::net::rig::Rig;
    use std::cell::Cell;
    use std::net::TcpStream;

    #[test]
    fn a_flood_of_connections_leaves_others_their_turn() {
        let rig = Rig::new(Limits::PRODUCTION);
        let listener = Listener::tcp("127.0.0.1:0".parse().unwrap(), &rig.driver.limits).unwrap();
        let address = listener.to_string();
        let _flood = [(); 5].map(|()| TcpStream::connect(&address).unwrap());
        let socket = prepare(&rig.driver, listener).unwrap();
        rig.driver.spawn(accept(rig.driver.clone(), socket, false));
        let (driver, seen) = (rig.driver.clone(), Rc::new(Cell::new(None)));
        let told = seen.clone();
        rig.driver
            .spawn(async move { told.set(Some(driver.open().sdk)) });
        rig.settle();
        assert_eq!(seen.get(), Some(1));
        assert_eq!(rig.driver.open().sdk, 5);
    }
}
