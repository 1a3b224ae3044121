//! HTTP/1.1 as a server reads and writes it, and as a client does.
//!
//! `head` turns the bytes of a request head into a [`Head`], strictly: whatever two readers could
//! understand differently is refused, because a relay stands between two readers. `body` is a pull
//! decoder: it says which bytes of the input are content, and copies none. `response` encodes. The
//! client's side is `request`, which encodes, and `answer`, which reads the head of what comes
//! back.
//!
//! Sources: RFC 9110 and RFC 9112. The codec crate's own decoder is not used on a network: it takes
//! ambiguous framing, and one non-ASCII header value ends the process.

pub mod answer;
pub mod body;
pub mod head;
pub mod request;
pub mod response;

pub use body::Body;
pub use head::{Head, Method, Target};
