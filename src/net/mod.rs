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
pub mod http;
pub mod io;
pub mod lane;
pub mod listen;
pub mod load;
pub mod log;
pub mod notify;
pub mod pipe;
pub mod reload;
#[cfg(test)]
mod rig;
pub mod route;
pub mod seed;
pub mod signal;
pub mod sockets;
pub mod stream;
pub mod tls;
pub mod tunnels;
pub mod upstream;
pub mod watch;

use std::io as std_io;
use std::rc::Rc;

use smol::LocalExecutor;
use smol::channel::Receiver;

use crate::limits::Limits;
use crate::state::access::TokenForm;
use crate::state::relay::Relay;
use crate::wire::iam;

use clock::Clock;
use driver::{Driver, Parts};
use load::Loaded;
use log::Log;
use notify::Notify;
use signal::{Signal, Signals};
use sockets::{Inherited, Listener, Reach, SocketError};

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
}

impl std::fmt::Display for RunError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunError::Signals(error) => write!(formatter, "signals cannot be received: {error}"),
            RunError::Socket(error) => write!(formatter, "{error}"),
            RunError::Listen(error) => write!(formatter, "a socket cannot be used: {error}"),
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
    let driver = make_driver(loaded, limits, clock, (log, notify), disk, executor.clone());
    let main = executor.spawn(async move {
        start(&driver, inherited).await?;
        driver.notify.ready(&driver);
        driver.spawn(notify::watch(driver.clone()));
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
        driver.run().await;
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

fn make_driver(
    loaded: Loaded,
    limits: Limits,
    clock: Clock,
    (log, notify): (Log, Notify),
    disk: disk::Disk,
    executor: Rc<LocalExecutor<'static>>,
) -> Rc<Driver> {
    let form = TokenForm {
        key_id: iam::peek_key_id,
        is_signed_by: iam::verify,
    };
    let watches_seed = loaded.config.seed.is_some();
    let slots = loaded.config.slots.clone();
    let mut state = Relay::new(slots, watches_seed, form, &limits, clock.now());
    state.access.replace(loaded.keys.clone(), loaded.unreadable);
    let random_seed = clock.now().as_micros() ^ u64::from(std::process::id());
    let loaded = Rc::new(loaded);
    Driver::new(Parts {
        limits,
        clock,
        log,
        notify,
        disk,
        executor,
        state,
        loaded,
        random_seed,
    })
}

/// Reads the seed, then listens.
async fn start(driver: &Rc<Driver>, inherited: Inherited) -> Result<(), RunError> {
    let loaded = driver.loaded.borrow().clone();
    for warning in &loaded.config.warnings {
        driver.log.warn(format_args!("{warning}"));
    }
    for problem in &loaded.problems {
        driver.log.error(format_args!("{problem}"));
    }
    // A seed that cannot be used is noted where it is found; the relay waits for a better one.
    let _ = seed::read(driver).await;
    driver.state.borrow_mut().fanout.open();
    let (sdk, admin) = listeners(driver, inherited)?;
    for (listener, is_admin) in sdk
        .into_iter()
        .map(|sdk| (sdk, false))
        .chain(admin.into_iter().map(|admin| (admin, true)))
    {
        let what = match (is_admin, loaded.tls.is_some()) {
            (true, _) => "admin",
            (false, true) => "SDK, HTTP and TLS",
            (false, false) => "SDK, HTTP",
        };
        driver
            .log
            .note(format_args!("listening on {listener} ({what})"));
        let socket = listen::prepare(driver, listener).map_err(RunError::Listen)?;
        driver.spawn_listener(listen::accept(driver.clone(), socket, is_admin));
    }
    Ok(())
}

/// The sockets to serve: those that were passed in, else those of the configuration.
fn listeners(
    driver: &Driver,
    inherited: Inherited,
) -> Result<(Vec<Listener>, Vec<Listener>), RunError> {
    let loaded = driver.loaded.borrow().clone();
    let config = &loaded.config;
    let bind = |addresses: &[crate::config::Listen], reach: Reach| {
        let bind = |address: &crate::config::Listen| match address {
            crate::config::Listen::Tcp(address) => Listener::tcp(*address, &driver.limits),
            crate::config::Listen::Unix(path) => Listener::unix(path, reach, &driver.limits),
        };
        addresses
            .iter()
            .map(bind)
            .collect::<Result<Vec<Listener>, SocketError>>()
    };
    let sdk = match inherited.sdk.is_empty() {
        true => bind(&config.listen, Reach::Local).map_err(RunError::Socket)?,
        false => inherited.sdk,
    };
    let admin = match inherited.admin.is_empty() {
        true => {
            let addresses = config.admin.addresses(&loaded.origin.environment);
            bind(&addresses, Reach::Owner).map_err(RunError::Socket)?
        }
        false => inherited.admin,
    };
    Ok((sdk, admin))
}
