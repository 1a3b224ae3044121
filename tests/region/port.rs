//! A port for relays that come and go.
//!
//! A port of the kernel's choice is anybody's while the relay that had it is down. Here the test
//! holds it, bound and without listening: connections are refused for as long as nobody listens,
//! and the kernel gives it to nobody who asks for any port. A relay binds it by its number.

use crate::harness::site::Site;
use serde_json::json;
use socket2::{Domain, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr};

/// A port of loopback, for as long as this lives.
pub struct Port {
    pub address: SocketAddr,
    _bound: Socket,
}

impl Port {
    /// A free one.
    pub fn reserve() -> Port {
        let bound = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        // As the relay does: so both may be bound, as only one of them listens.
        bound.set_reuse_address(true).expect("an open socket");
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        bound.bind(&any.into()).expect("a free port");
        let address = bound.local_addr().expect("it is bound");
        let address = address.as_socket().expect("an address of IP");
        Port {
            address,
            _bound: bound,
        }
    }

    /// The same, as the one listener of a site.
    pub fn of(site: &mut Site) -> Port {
        let port = Port::reserve();
        site.config["listen"] = json!([port.address.to_string()]);
        port
    }
}
