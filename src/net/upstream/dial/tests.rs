//! Real sockets: which address is taken, and what a connection is set to.

use super::*;
use crate::net::clock::Clock;
use crate::net::disk::Disk;
use crate::net::upstream::resolve::{Ask, Resolver};
use crate::net::upstream::rig::way;
use smol::LocalExecutor;
use std::net::TcpListener;

/// Dials `name`, which resolves by `ask`, at `port`.
fn dialled(name: &str, port: u16, ask: Ask) -> Result<Stream, Problem> {
    let limits = Limits {
        upstream_connect_timeout: std::time::Duration::from_secs(5),
        ..Limits::PRODUCTION
    };
    let executor = LocalExecutor::new();
    let (resolver, lane) = Resolver::asking(ask, &limits);
    executor.spawn(lane.run()).detach();
    let disk = Disk::new(&limits).0;
    let net = Net::new(Clock::system(), limits, resolver, disk, 1);
    let way = way(&format!("http://{name}:{port}"));
    let dialled = smol::block_on(executor.run(dial(&net, &way)));
    dialled.map_err(|error| error.problem)
}

#[test]
fn addresses_are_tried_until_one_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // Nobody listens on the first of them.
    let ask: Ask = |_| {
        Ok(["127.0.0.2", "127.0.0.1"]
            .map(|a| a.parse().unwrap())
            .into())
    };
    let Stream::Plain(wire) = dialled("a.test", port, ask).unwrap() else {
        panic!("no plain socket");
    };
    let socket = wire.socket().unwrap();
    let address = socket.peer_addr().unwrap().as_socket().unwrap();
    assert_eq!(address.to_string(), format!("127.0.0.1:{port}"));
    assert!(socket.tcp_nodelay().unwrap() && socket.keepalive().unwrap());
    let limits = Limits::PRODUCTION;
    assert_eq!(
        socket.tcp_keepalive_interval().unwrap(),
        limits.upstream_keepalive_interval
    );
    let user_timeout = Some(limits.upstream_unacknowledged_timeout);
    assert_eq!(socket.tcp_user_timeout().unwrap(), user_timeout);
}

#[test]
fn the_last_reason_is_told_where_none_answers() {
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let ask: Ask = |_| Ok(vec!["127.0.0.1".parse().unwrap()]);
    let refused = dialled("a.test", closed, ask).err();
    assert_eq!(
        refused,
        Some(Problem::Connect(io::ErrorKind::ConnectionRefused))
    );
    let ask: Ask = |_| Err(io::ErrorKind::NotFound);
    let unknown = dialled("a.test", closed, ask).err();
    assert_eq!(unknown, Some(Problem::Resolve(io::ErrorKind::NotFound)));
}

#[test]
fn a_port_is_named_where_it_is_shown() {
    for (url, shown) in [
        ("https://a.test", "a.test:443"),
        ("http://[::1]", "[::1]:80"),
    ] {
        let endpoint = Endpoint::parse(url).unwrap();
        assert_eq!(host_and_port(&endpoint), shown);
    }
}
