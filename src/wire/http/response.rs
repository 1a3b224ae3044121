//! Answers, from a status and a few fields to the bytes on the wire.
//!
//! Everything but the configuration document itself goes through here, and through the codec
//! crate's `Encoder`: tokens, admin pages, refusals. The document has a head of its own
//! (`wire::publication`), because it goes out thousands of times.
//!
//! Invariants: the date is always given, since this room reads no clock; an answer has a length or
//! is an answer that may not have one (204, 101).

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use futures_lite::AsyncRead;
use http_types::{Response, StatusCode};

use super::Method;

/// An answer that fits in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// Names and values; values that are not visible ASCII are left out, since they cannot be sent.
    pub fields: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// An answer of `status` with no fields and no body.
    pub fn new(status: u16) -> Answer {
        Answer {
            status,
            fields: Vec::new(),
            body: Vec::new(),
        }
    }

    /// The answer with a JSON body.
    pub fn json(status: u16, body: impl Into<Vec<u8>>) -> Answer {
        Answer::new(status)
            .with("content-type", "application/json")
            .with_body(body)
    }

    /// The answer with a plain text body.
    pub fn text(status: u16, body: impl Into<Vec<u8>>) -> Answer {
        Answer::new(status)
            .with("content-type", "text/plain; charset=utf-8")
            .with_body(body)
    }

    /// Adds a field.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Answer {
        self.fields.push((name, value.into()));
        self
    }

    /// Sets the body.
    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Answer {
        self.body = body.into();
        self
    }

    /// The bytes of the answer to a request of `method`. `date` is the value of `Date`; `close`
    /// announces the end of the connection.
    ///
    /// Bounded by the answer's own size.
    pub fn encode(self, method: Method, date: &str, close: bool) -> Vec<u8> {
        let status = StatusCode::try_from(self.status).unwrap_or(StatusCode::InternalServerError);
        if self.status == 204 {
            return self.encode_without_length(date, close);
        }
        let mut response = Response::new(status);
        for (name, value) in &self.fields {
            if is_sendable(value) {
                response.insert_header(*name, value.as_str());
            }
        }
        // The crate sets a content type with a body; ours, or none, is what counts.
        let content_type = response.header("content-type").cloned();
        response.set_body(self.body);
        match content_type {
            Some(values) => drop(response.insert_header("content-type", &values)),
            None => drop(response.remove_header("content-type")),
        }
        response.insert_header("date", if is_sendable(date) { date } else { "" });
        if close {
            response.insert_header("connection", "close");
        }
        drain(async_h1::server::Encoder::new(response, method.into()))
    }

    /// 204 may not have a length (RFC 9110 8.6), which the encoder would send.
    fn encode_without_length(self, date: &str, close: bool) -> Vec<u8> {
        let mut text = String::from("HTTP/1.1 204 No Content\r\n");
        let fields = self.fields.iter().filter(|(_, value)| is_sendable(value));
        for (name, value) in fields {
            text.extend([name, ": ", value, "\r\n"]);
        }
        text.extend(["date: ", date, "\r\n"]);
        text.push_str(if close {
            "connection: close\r\n\r\n"
        } else {
            "\r\n"
        });
        text.into_bytes()
    }
}

impl From<Method> for http_types::Method {
    fn from(method: Method) -> http_types::Method {
        match method {
            Method::Get => http_types::Method::Get,
            Method::Head => http_types::Method::Head,
            Method::Post => http_types::Method::Post,
            Method::Put => http_types::Method::Put,
            Method::Delete => http_types::Method::Delete,
            Method::Patch => http_types::Method::Patch,
            Method::Options => http_types::Method::Options,
            Method::Connect => http_types::Method::Connect,
        }
    }
}

/// The header type of the codec crate panics on anything else.
pub(super) fn is_sendable(value: &str) -> bool {
    value
        .bytes()
        .all(|byte| byte == b'\t' || (0x20..0x7f).contains(&byte))
}

/// Reads an encoder whose body lies in memory to its end: it never has to wait.
pub(super) fn drain(mut encoder: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut bytes = vec![0; 1024];
    let mut filled = 0;
    loop {
        if filled == bytes.len() {
            bytes.resize(bytes.len() * 2, 0);
        }
        match now(futures_lite::future::poll_fn(|context| {
            Pin::new(&mut encoder).poll_read(context, &mut bytes[filled..])
        })) {
            Some(Ok(count)) if count > 0 => filled += count,
            _ => break,
        }
    }
    bytes.truncate(filled);
    bytes
}

/// Polls a future that has nothing to wait for.
fn now<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &str = "Sun, 29 Nov 2026 22:00:00 GMT";

    fn text(answer: Answer, method: Method, close: bool) -> String {
        String::from_utf8(answer.encode(method, DATE, close)).unwrap()
    }

    #[test]
    fn an_answer_has_its_length_and_date() {
        let text = text(Answer::json(401, "{}"), Method::Get, true);
        assert!(text.starts_with("HTTP/1.1 401 Unauthorized\r\n"), "{text}");
        for line in [
            "connection: close",
            "content-length: 2",
            "content-type: application/json",
        ] {
            assert!(
                text.contains(&format!("\r\n{line}\r\n")),
                "{line} in {text}"
            );
        }
        assert!(text.contains(&format!("date: {DATE}\r\n")) && text.ends_with("\r\n\r\n{}"));
    }

    #[test]
    fn no_content_has_no_length() {
        let text = text(
            Answer::new(204).with("allow", "GET"),
            Method::Options,
            false,
        );
        assert!(!text.contains("content-length"), "{text}");
        assert!(text.contains("allow: GET\r\n") && text.ends_with("\r\n\r\n"));
    }

    #[test]
    fn head_gets_the_length_and_no_body() {
        let text = text(Answer::text(200, "abc"), Method::Head, false);
        assert!(
            text.contains("content-length: 3\r\n") && text.ends_with("\r\n\r\n"),
            "{text}"
        );
    }

    #[test]
    fn values_that_cannot_be_sent_are_left_out() {
        let text = text(
            Answer::new(200).with("x-a", "é\r\nx-b: c"),
            Method::Get,
            false,
        );
        assert!(!text.contains("x-a") && !text.contains("x-b"), "{text}");
    }

    #[test]
    fn large_bodies_come_out_whole() {
        let body = vec![b'x'; 100_000];
        let bytes = Answer::text(200, body.clone()).encode(Method::Get, DATE, false);
        assert!(bytes.ends_with(&body));
    }
}
