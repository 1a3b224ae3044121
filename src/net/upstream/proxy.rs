//! A tunnel through an HTTP proxy, for requests and for change sockets alike.
//!
//! Owns the `CONNECT` of the relay's own connections (the listener's is `net::tunnels`). What is
//! asked of the upstream goes through the tunnel as it would without one, so that a proxy sees host
//! names and nothing else.
//!
//! Never logs in: a proxy that wants that is told apart (407). Bytes that come before anything was
//! sent through the tunnel are refused, since nobody behind it speaks first.

use futures_lite::AsyncWriteExt as _;

use crate::net::io::Wire;
use crate::wire::DecodeError;
use crate::wire::http::Method;
use crate::wire::http::answer::{Asked, Head};
use crate::wire::http::request::Request;

use super::client::Net;
use super::error::Problem;
use super::fetch::read_head;

/// Asks the proxy at the other end of `wire` for a tunnel to `target`, `host:port`.
///
/// Bounded by the time-out of the dial.
pub async fn open_tunnel(wire: &mut Wire, target: &str, net: &Net) -> Result<(), Problem> {
    let request = Request::new(Method::Connect, target);
    let request = request.with("user-agent", super::client::USER_AGENT);
    let bytes = request.encode(target).map_err(super::fetch::unsendable)?;
    let failed = |error: std::io::Error| Problem::Closed(error.kind());
    wire.write_all(&bytes).await.map_err(failed)?;
    wire.flush().await.map_err(failed)?;
    let mut buffer = Vec::new();
    let took = |head: &Head<'_>| (head.status, head.length);
    let (status, length) = read_head(wire, &mut buffer, Asked::Tunnel, net, took).await?;
    match status {
        200..300 if buffer.len() == length => Ok(()),
        200..300 => {
            let early = DecodeError::Malformed("bytes before the tunnel was used");
            Err(Problem::Protocol(early))
        }
        status => Err(Problem::Proxy { status }),
    }
}
