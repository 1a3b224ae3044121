//! Requests of the relay itself, from a method and a few fields to the bytes on the wire.
//!
//! Owns what the relay sends as a client: to the service, to IAM, to another relay, to a proxy. The
//! codec crate's client `Encoder` writes it, over a body that lies in memory.
//!
//! Invariants: the target goes out exactly as it was given, or not at all; a value that cannot
//! stand in a header is an error of whoever configured it, never a panic; a request without content
//! announces none, since some servers refuse a `GET` that does.

use http_types::Url;

use super::Method;
use super::response::{drain, is_sendable};

/// A request that fits in memory.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    pub method: Method,
    /// Path and query; for `CONNECT`, `host:port`.
    pub target: String,
    pub fields: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

/// What of a request cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsendable {
    /// The target would not arrive as it is written.
    Target,
    /// The value of this field is not visible ASCII.
    Field(&'static str),
}

impl Request {
    /// A request for `target` without fields or content.
    pub fn new(method: Method, target: impl Into<String>) -> Request {
        Request {
            method,
            target: target.into(),
            fields: Vec::new(),
            body: Vec::new(),
        }
    }

    /// Adds a field.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Request {
        self.fields.push((name, value.into()));
        self
    }

    /// Sets the content and its type.
    pub fn with_body(self, content_type: &str, body: impl Into<Vec<u8>>) -> Request {
        let mut request = self.with("content-type", content_type);
        request.body = body.into();
        request
    }

    /// The bytes of the request, to the host (and port) `authority`.
    ///
    /// Bounded by the request's own size.
    pub fn encode(self, authority: &str) -> Result<Vec<u8>, Unsendable> {
        let url = self.url()?;
        let has_content = !self.body.is_empty();
        let mut request = http_types::Request::new(self.method.into(), url);
        request.set_body(self.body);
        // The crate names a type with a body; ours, or none, is what counts.
        let _ = request.remove_header("content-type");
        let host = ("host", authority.to_owned());
        for (name, value) in self.fields.into_iter().chain([host]) {
            if value.is_empty() || !is_sendable(&value) {
                return Err(Unsendable::Field(name));
            }
            let _ = request.insert_header(name, value.as_str());
        }
        let bytes = drain(async_h1::client::Encoder::new(request));
        Ok(match has_content || self.method == Method::Post {
            true => bytes,
            false => without_line(bytes, b"content-length: 0\r\n"),
        })
    }

    /// The target on a fixed host: the crate wants a whole URL and writes the rest of it only.
    fn url(&self) -> Result<Url, Unsendable> {
        let (prefix, is_intact): (_, fn(&Url, &str) -> bool) = match self.method {
            Method::Connect => ("http://", |url, target| {
                let (host, port) = (url.host_str(), url.port_or_known_default());
                host.zip(port)
                    .is_some_and(|(host, port)| format!("{host}:{port}") == target)
            }),
            _ => ("http://a", |url, target| {
                let query = url.query().map(|query| format!("?{query}"));
                target.starts_with('/')
                    && url.fragment().is_none()
                    && format!("{}{}", url.path(), query.unwrap_or_default()) == target
            }),
        };
        let url = Url::parse(&format!("{prefix}{}", self.target)).ok();
        url.filter(|url| is_intact(url, &self.target))
            .ok_or(Unsendable::Target)
    }
}

/// `bytes` without the first occurrence of `line` among the lines of the head.
fn without_line(mut bytes: Vec<u8>, line: &[u8]) -> Vec<u8> {
    let found = bytes.windows(line.len()).position(|window| window == line);
    if let Some(start) = found.filter(|start| bytes[..*start].ends_with(b"\n")) {
        bytes.drain(start..start + line.len());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(request: Request) -> String {
        String::from_utf8(request.encode("a.test:8080").unwrap()).unwrap()
    }

    #[test]
    fn a_get_announces_no_content() {
        let request = Request::new(Method::Get, "/config?a=b&c=d%20").with("accept", "x/y");
        assert_eq!(
            text(request),
            "GET /config?a=b&c=d%20 HTTP/1.1\r\nhost: a.test:8080\r\naccept: x/y\r\n\r\n"
        );
    }

    #[test]
    fn a_post_has_its_length_and_type() {
        let request = Request::new(Method::Post, "/").with_body("application/json", "{}");
        assert_eq!(
            text(request),
            "POST / HTTP/1.1\r\nhost: a.test:8080\r\ncontent-length: 2\r\n\
             content-type: application/json\r\n\r\n{}"
        );
        let empty = text(Request::new(Method::Post, "/"));
        assert!(empty.contains("content-length: 0\r\n"), "{empty}");
        let large = Request::new(Method::Post, "/").with_body("a/b", vec![b'x'; 100_000]);
        assert!(text(large).ends_with(&"x".repeat(100_000)));
    }

    #[test]
    fn a_tunnel_is_asked_for_by_host_and_port() {
        for target in ["a.test:443", "[::1]:80", "10.0.0.1:8443"] {
            let bytes = Request::new(Method::Connect, target)
                .encode(target)
                .unwrap();
            let head = String::from_utf8(bytes).unwrap();
            let start = format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n");
            assert!(head.starts_with(&start), "{head}");
            assert!(!head.contains("content-length"), "{head}");
        }
    }

    #[test]
    fn what_would_not_arrive_is_not_sent() {
        for target in [
            "", "a", "/a b", "/a#b", "/a/../b", "/é", "/a\r\nb", "//b/c?\"", "?a",
        ] {
            let sent = Request::new(Method::Get, target).encode("a");
            assert_eq!(sent, Err(Unsendable::Target), "{target:?}");
        }
        for value in ["é", "a\r\nb: c", "\0", ""] {
            let request = Request::new(Method::Get, "/").with("authorization", value);
            assert_eq!(request.encode("a"), Err(Unsendable::Field("authorization")));
        }
    }
}
