//! The relay before other servers: requests that are not for itself.
//!
//! Owns the routes in force and the connections to destinations. `forward` is one request from its
//! route to its answer; below it, `request` is what is known of one beforehand, `exchange` carries
//! bytes both ways, `tunnel` what follows a 101, `rest` what one side has not taken yet; `pool`
//! keeps idle connections, `probe` asks destinations for their health. `turn` is a request that
//! waits until it is known which region's cluster has it. Connections are made by `upstream::dial`,
//! as all outgoing ones are.
//!
//! Where a request goes is decided in `state::destinations`, what of its head goes on in
//! `wire::forward`, and which route it takes in `wire::route`. No byte of content passes through
//! any of them.
//!
//! Invariants: a request is sent to one destination once; another is tried only while there was no
//! connection. An answer of the relay's own binds nobody. A cookie is never logged.

mod exchange;
mod forward;
mod pool;
mod probe;
mod request;
mod rest;
mod tunnel;
mod turn;

use std::cell::RefCell;
use std::rc::Rc;

use crate::config::{Endpoint, Host, Scheme};
use crate::model::Reject;
use crate::model::proxy::{Address, Affinity, ReverseProxy};
use crate::state::destinations::Destinations;
use crate::state::slab::Key;
use crate::time::Instant;
use crate::wire::affinity;
use crate::wire::http::{Head, Target};
use crate::wire::route::{Asked, Match, Router};

use super::connection::{Connection, Door};
use super::driver::Driver;
use super::route::Action;
use super::upstream::Net;
use super::upstream::client::Trust;
use super::upstream::dial::Way;

pub use forward::{Served, serve};
pub use pool::Pool;
pub use probe::drain;
use turn::Entrance;

/// Methods that a request can have, for the `Allow` of a 405.
const METHODS: [&str; 7] = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"];

/// Routes, and the connections behind them.
pub struct Proxy {
    pub net: Rc<Net>,
    pub pool: Pool,
    rules: RefCell<Rc<Rules>>,
}

/// The configuration in force. A request keeps that of its beginning.
#[derive(Default)]
struct Rules {
    router: Router,
    proxy: ReverseProxy,
}

/// A request that has a route.
pub struct Call {
    rules: Rc<Rules>,
    route: usize,
    /// An event stream of IBM's SDK in browsers, for which any refusal would be final.
    is_stream: bool,
    /// What it has to wait for.
    entrance: Option<Entrance>,
}

impl Proxy {
    /// No routes yet; `replace` brings them.
    pub fn new(net: Rc<Net>) -> Proxy {
        Proxy {
            net,
            pool: Pool::default(),
            rules: RefCell::default(),
        }
    }
}

/// Puts routes and clusters in force, from the next request on. Requests under way go on.
pub fn replace(driver: &Driver, proxy: Option<&ReverseProxy>) {
    let proxy = proxy.cloned().unwrap_or_default();
    let now = driver.clock.now();
    let mut state = driver.state.borrow_mut();
    state
        .destinations
        .replace(&proxy.clusters, affinity::key, now);
    drop(state);
    let router = Router::new(&proxy.routes);
    *driver.proxy.rules.borrow_mut() = Rc::new(Rules { router, proxy });
    driver.wake();
}

/// Decides about a request that is not for the relay itself; `None` where no route is for it.
/// `is_stream`: any refusal would be final for who asks.
///
/// Bounded by the number of routes times the length of the path.
pub fn decide(connection: &Connection, head: &Head<'_>, is_stream: bool) -> Option<Action> {
    let Target::Path(target) = head.target else {
        return None;
    };
    let driver = &connection.driver;
    let rules = driver.proxy.rules.borrow().clone();
    let method = http_types::Method::from(head.method);
    let asked = Asked {
        method: method.as_ref(),
        target,
        host: head.host,
        is_tls: connection.io().is_tls(),
    };
    let route = match rules.router.find(asked) {
        Match::None => return None,
        Match::OtherMethod => {
            let takes = |method: &&str| {
                let asked = Asked { method, ..asked };
                matches!(rules.router.find(asked), Match::Route(_))
            };
            let methods: Vec<&str> = METHODS.into_iter().filter(takes).collect();
            let answer = driver.refuse(Reject::MethodNotAllowed);
            return Some(Action::Answer(answer.with("allow", methods.join(", "))));
        }
        Match::Route(route) => route,
    };
    Some(match (connection.door, is_stream) {
        (Door::Lobby, true) => Action::Drop,
        (Door::Lobby, false) => Action::Answer(driver.refuse(Reject::Overloaded)),
        _ => {
            let slot = rules.proxy.routes[route].region_slot.as_ref();
            match Entrance::of(driver, slot, head) {
                Ok(entrance) => Action::Forward(Call {
                    rules,
                    route,
                    is_stream,
                    entrance,
                }),
                Err(answer) => Action::Answer(answer),
            }
        }
    })
}

impl Call {
    /// Whether another node has sent it on.
    fn is_from_peer(&self) -> bool {
        self.entrance.as_ref().is_some_and(Entrance::is_from_peer)
    }

    fn cluster(&self) -> usize {
        self.rules.proxy.routes[self.route].cluster
    }

    fn affinity(&self) -> Option<&Affinity> {
        self.rules.proxy.clusters[self.cluster()].affinity.as_ref()
    }
}

/// An endpoint as the address of a server.
fn address_of(endpoint: &Endpoint) -> Address {
    Address {
        is_tls: endpoint.scheme == Scheme::Https,
        host: endpoint.host.to_string().into(),
        port: endpoint.port,
        path: endpoint.prefix.as_str().into(),
    }
}

/// The way to an address: straight, and trusting whom the system trusts.
fn way(address: &Address) -> Way {
    let host = match address.host.parse() {
        Ok(address) => Host::Address(address),
        Err(_) => Host::Name(address.host.to_string()),
    };
    Way {
        endpoint: Endpoint {
            scheme: match address.is_tls {
                true => Scheme::Https,
                false => Scheme::Http,
            },
            host,
            port: address.port,
            prefix: address.path.to_string(),
        },
        proxy: None,
        trust: Trust::System,
    }
}

/// Lets `note` change what is known of a destination, and logs it when its health is another one
/// than before.
fn note_health(
    driver: &Driver,
    destination: Key,
    problem: Option<&str>,
    note: impl FnOnce(&mut Destinations, Instant),
) {
    let now = driver.clock.now();
    let mut state = driver.state.borrow_mut();
    let before = state.destinations.is_healthy(destination, now);
    note(&mut state.destinations, now);
    let after = state.destinations.is_healthy(destination, now);
    let address = state.destinations.destination(destination);
    let Some((destination, is_healthy)) = address.zip(after).filter(|_| before != after) else {
        return;
    };
    let (id, address) = (&destination.id, &destination.address);
    match (is_healthy, problem) {
        (true, _) => driver.log.note(format_args!(
            "destination {id} ({address}) is healthy again"
        )),
        (false, Some(problem)) => driver.log.warn(format_args!(
            "destination {id} ({address}) is unhealthy: {problem}"
        )),
        (false, None) => driver.log.warn(format_args!(
            "destination {id} ({address}) is unhealthy: too many of its requests fail"
        )),
    }
}
