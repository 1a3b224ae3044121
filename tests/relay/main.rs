//! The relay over real sockets, byte by byte where it matters.
//!
//! Each test starts a relay of its own on ports of the kernel's choice and speaks to it without any
//! HTTP library, because the cases are those that libraries do not send. What must hold whatever
//! the transport is tried plain, through TLS and through a tunnel, whole and in single bytes.

#[path = "../harness/mod.rs"]
mod harness;

mod access;
mod bodies;
mod client;
mod cors;
mod crowd;
mod documents;
mod fanout;
mod figures;
mod heads;
mod hellos;
mod life;
mod network;
mod process;
mod refusal;
mod request;
mod rows;
mod seed;
mod shortened;
mod slow;
mod storm;
mod stream;
mod tls;
mod tunnel;
mod way;
mod websocket;
mod wire;
