//! I/O: waits, never decides.
//!
//! Everything that touches a socket, a file, a clock, a signal or a thread. The tasks of this room
//! carry bytes between the network and `wire`, tell `state` what happened, and do what it says.
//!
//! Read `driver` first: it is the only owner of state. [`run`] starts it all and fits a screen.

pub mod admin;
pub mod clock;
pub mod connection;
pub mod disk;
pub mod document;
pub mod driver;
pub mod follow;
pub mod http;
pub mod io;
pub mod keep;
pub mod lane;
pub mod listen;
pub mod load;
pub mod log;
pub mod notify;
pub mod pipe;
pub mod proxy;
pub mod push;
mod reactor;
pub mod region;
pub mod reload;
#[cfg(test)]
mod rig;
pub mod route;
pub mod seed;
pub mod signal;
pub mod sockets;
pub mod spool;
mod start;
pub mod stream;
pub mod tls;
pub mod tunnels;
pub mod upstream;
pub mod watch;

use std::io as std_io;
use std::rc::Rc;

use futures_lite::future::or;
use smol::LocalExecutor;
use smol::channel::Receiver;

use crate::limits::Limits;

use clock::Clock;
use load::Loaded;
use log::Log;
use notify::Notify;
use signal::{Signal, Signals};
use sockets::{Inherited, SocketError};

/// What a relay is started with.
pub struct Setup {
    pub loaded: Loaded,
    pub limits: Limits,
    pub clock: Clock,
    pub log: Log,
    pub inherited: Inherited,
    /// Where commands come from.
    pub control: Control,
}

/// Who tells the relay to reload and to end.
pub enum Control {
    /// The process's signals.
    Signals,
    /// Whoever holds the other end: a program that has a relay in it.
    Channel(Receiver<Signal>),
}

/// Why the relay could not start.
#[derive(Debug)]
pub enum RunError {
    Signals(std_io::Error),
    Socket(SocketError),
    /// Every address of the SDK listener failed.
    Listen(std_io::Error),
    /// Another relay is running with the state folder.
    State(disk::DiskError),
    /// A normal start, and no document for some slot.
    NoDocument(follow::Missing),
}

impl std::fmt::Display for RunError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunError::Signals(error) => write!(formatter, "signals cannot be received: {error}"),
            RunError::Socket(error) => write!(formatter, "{error}"),
            RunError::State(error) => write!(
                formatter,
                "{error}: give each relay a `state_dir` of its own"
            ),
            RunError::Listen(error) => write!(formatter, "a socket cannot be used: {error}"),
            RunError::NoDocument(missing) => missing.fmt(formatter),
        }
    }
}

/// Runs a relay until it is told to end. Blocks.
///
/// The seed comes first: when the first connection is accepted, what the seed holds is served.
pub fn run(setup: Setup) -> Result<(), RunError> {
    let Setup {
        loaded,
        mut limits,
        clock,
        log,
        inherited,
        control,
    } = setup;
    limits.connections_max = loaded.config.limits.connections;
    reactor::start();
    // Whoever has a relay in it speaks to its manager itself.
    let (mut signals, notify) = match control {
        Control::Signals => {
            let signals = Signals::new().map_err(RunError::Signals)?;
            (Commands::Signals(signals), Notify::from_environment())
        }
        Control::Channel(receiver) => (Commands::Channel(receiver), Notify::default()),
    };
    let executor = Rc::new(LocalExecutor::new());
    let (disk, lane) = disk::Disk::new(&limits);
    executor.spawn(lane.run()).detach();
    let net = start::net(clock, limits, disk, &executor);
    let driver = start::driver(loaded, net, (log, notify), executor.clone());
    let main = executor.spawn(async move {
        let running = driver.clone();
        let mut running = driver.task(async move { running.run().await });
        let commands = driver.clone();
        driver.spawn(async move {
            loop {
                match signals.next().await {
                    // Beside this task: a disk that hangs must not keep the next signal waiting.
                    Signal::Hangup => {
                        let driver = commands.clone();
                        commands.spawn(async move { drop(reload::reload(&driver).await) });
                    }
                    Signal::Terminate => {
                        commands
                            .log
                            .note(format_args!("ending: streams are closed first"));
                        commands.drain();
                    }
                }
            }
        });
        let started = async { start::start(&driver, inherited).await.map(|()| true) };
        let ended = async {
            (&mut running).await;
            Ok(false)
        };
        if or(started, ended).await? {
            driver.notify.ready(&driver);
            driver.spawn(notify::watch(driver.clone()));
            running.await;
            spool::settle(&driver).await;
        }
        driver.log.note(format_args!("ended"));
        Ok(())
    });
    smol::block_on(executor.run(main))
}

enum Commands {
    Signals(Signals),
    Channel(Receiver<Signal>),
}

impl Commands {
    async fn next(&mut self) -> Signal {
        match self {
            Commands::Signals(signals) => signals.next().await,
            // The holder is gone: so is the reason to run.
            Commands::Channel(receiver) => match receiver.recv().await {
                Ok(signal) => signal,
                Err(_) => {
                    receiver.close();
                    std::future::pending().await
                }
            },
        }
    }
}
