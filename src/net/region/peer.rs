//! One request to another node of the record: one connection, the whole answer in memory.
//!
//! Owns how a node is reached (the URL that the record has of it, trusted by `region.ca_file` or by
//! whom the system trusts), the peer key on each request, and the one difference that routing lives
//! by: whether a byte of a request may have left or not.
//!
//! Never judges an answer, and never asks twice. What goes out is made when there is a connection,
//! so that the time it tells of is not yet spent on making one.

use crate::config::{Endpoint, Secret};
use crate::model::region::Node;
use crate::net::driver::Driver;
use crate::net::upstream::UpstreamError;
use crate::net::upstream::client::{Trust, USER_AGENT};
use crate::net::upstream::dial::{Way, dial, host_and_port};
use crate::net::upstream::error::Problem;
use crate::net::upstream::fetch::{Reading, encode, read_content, read_head, send};
use crate::time::Duration;
use crate::wire::http::answer::{Asked, Head};
use crate::wire::http::request::Request;
use crate::wire::region::peer;

use super::peer_key;

/// Fields of an answer that anybody reads or passes on.
const KEPT: [&str; 6] = [
    "content-type",
    "etag",
    "retry-after",
    "x-config-source",
    peer::OUTCOME,
    peer::PARENT,
];

/// What a node answered, of whatever status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    pub status: u16,
    /// Names in lower case, and values that are visible ASCII.
    pub fields: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl Answered {
    /// The value of a field, if it is one that is kept.
    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(kept, _)| *kept == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// Not one byte of the request was sent.
    NotSent(UpstreamError),
    /// Some was: nobody knows what became of it.
    Lost(UpstreamError),
}

impl Failure {
    /// What went wrong, for people.
    pub fn error(&self) -> &UpstreamError {
        match self {
            Failure::NotSent(error) | Failure::Lost(error) => error,
        }
    }
}

/// What an answer may take.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub bytes_max: usize,
    /// Longest time in which nothing comes.
    pub silence: Duration,
}

/// Sends what `request` makes to a node; it is asked for when there is a connection, right before
/// the first byte leaves.
///
/// Bounded by `upstream_connect_timeout` and `bounds`; the whole is the caller's to bound.
pub async fn ask(
    driver: &Driver,
    node: &Node,
    bounds: Bounds,
    request: impl FnOnce() -> Request,
) -> Result<Answered, Failure> {
    let net = &driver.proxy.net;
    let (way, key) = reach(driver, node).map_err(Failure::NotSent)?;
    let host = host_and_port(&way.endpoint);
    let at_host = |problem| UpstreamError::new(&host, problem);
    let mut stream = dial(net, &way).await.map_err(Failure::NotSent)?;
    let request = request()
        .with("authorization", bearer(&key))
        .with("user-agent", USER_AGENT)
        .with("connection", "close");
    let bytes = encode(&way, request).map_err(|problem| Failure::NotSent(at_host(problem)))?;
    let lost = |problem| Failure::Lost(at_host(problem));
    send(&mut stream, &bytes, net).await.map_err(lost)?;
    drop(bytes);
    let silence = bounds.silence;
    let reading = Reading { net, silence };
    let mut buffer = Vec::new();
    let took = |head: &Head<'_>| (head.length, head.status, head.body.clone(), kept(head));
    let head = read_head(&mut stream, &mut buffer, Asked::Content, reading, took).await;
    let (length, status, content, fields) = head.map_err(lost)?;
    buffer.drain(..length);
    let body = read_content(&mut stream, buffer, content, bounds.bytes_max, reading).await;
    Ok(Answered {
        status,
        fields,
        body: body.map_err(lost)?,
    })
}

/// Where a node is, and what it is shown there.
///
/// # Errors
/// Its URL cannot be read, or there is no peer key.
pub fn reach(driver: &Driver, node: &Node) -> Result<(Way, Secret), UpstreamError> {
    let refuse = |problem| UpstreamError::new(node.name.as_str(), problem);
    let endpoint =
        Endpoint::parse(&node.url).map_err(|_| refuse(Problem::Unsendable("URL in the record")))?;
    let loaded = driver.loaded.borrow();
    let region = loaded.config.region.as_ref();
    let trust = match region.and_then(|region| region.ca_file.clone()) {
        Some(file) => Trust::File(file),
        None => Trust::System,
    };
    drop(loaded);
    let key = peer_key(driver).ok_or_else(|| refuse(Problem::NoKey))?;
    let way = Way {
        endpoint,
        proxy: None,
        trust,
    };
    Ok((way, key))
}

/// The value of `Authorization` for a node.
pub fn bearer(key: &Secret) -> String {
    format!("Bearer {}", String::from_utf8_lossy(key.bytes()))
}

/// The fields of an answer that are kept.
pub fn kept(head: &Head<'_>) -> Vec<(&'static str, String)> {
    let text = |value: &[u8]| {
        let is_plain = value.iter().all(|byte| (0x20..0x7f).contains(byte));
        is_plain.then(|| String::from_utf8_lossy(value).into_owned())
    };
    let known = |(name, value): (&str, &[u8])| {
        let name = KEPT.iter().find(|kept| kept.eq_ignore_ascii_case(name))?;
        Some((*name, text(value)?))
    };
    head.fields().filter_map(known).collect()
}
