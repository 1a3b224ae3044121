//! The answer that matters: a slot's document, as fast as the socket takes it.
//!
//! The head and the document are made once per snapshot; what is added here is `Age` and `Date`.
//! Usually one gathering write takes it all. Where the client is slow, the answer is registered
//! with the fan-out while it is being written, because it keeps its snapshot alive like a slow
//! stream does, and is evicted like one.

use std::io;
use std::rc::Rc;

use crate::model::{KeyIndex, SlotIndex};
use crate::wire::publication::{Form, Publication};

use super::connection::Connection;
use super::driver::Driver;

/// Which document, for whom, in which form.
#[derive(Clone, Copy)]
pub struct Ask {
    pub slot: SlotIndex,
    pub key: KeyIndex,
    pub form: Form,
    pub compressed: bool,
    pub head_only: bool,
    /// Whole seconds since the content was confirmed.
    pub age_s: u64,
}

/// A config answer that was decided on.
pub struct Document {
    pub ask: Ask,
    pub publication: Rc<Publication>,
    /// The client has this very answer already.
    pub not_modified: bool,
}

impl Ask {
    /// The answer from the newest snapshot; a slot that had one has one for ever.
    pub fn resume(self, driver: &Driver) -> io::Result<Document> {
        let newest = driver.state.borrow().fanout.newest(self.slot).cloned();
        let publication = newest.ok_or(io::ErrorKind::NotFound)?;
        Ok(Document {
            ask: self,
            publication,
            not_modified: false,
        })
    }
}

/// Writes the answer whole.
pub async fn send(connection: &Rc<Connection>, document: &Document, close: bool) -> io::Result<()> {
    let moment = moment(connection, document, close);
    let path = connection.driver.path_field(document.ask.slot);
    if document.not_modified {
        let head = document
            .publication
            .not_modified(document.ask.form, document.ask.compressed);
        return connection
            .write(&[head.as_bytes(), path.as_bytes(), moment.as_bytes()])
            .await;
    }
    let prepared = document
        .publication
        .answer(document.ask.form, document.ask.compressed);
    let body: &[u8] = if document.ask.head_only {
        &[]
    } else {
        &prepared.body
    };
    let parts: [&[u8]; 4] = [&prepared.head, path.as_bytes(), moment.as_bytes(), body];
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let written = connection.try_write(&parts)?;
    if written == length && connection.io().try_flush().is_ok() {
        return Ok(());
    }
    let driver = &connection.driver;
    let place = driver.hold(connection, document)?;
    let mut skip = written;
    let rest = parts.map(|part| {
        let skipped = skip.min(part.len());
        skip -= skipped;
        &part[skipped..]
    });
    let result = connection.write(&rest).await;
    drop(place);
    result
}

/// The fields that depend on the moment, and the empty line.
fn moment(connection: &Connection, document: &Document, close: bool) -> heapless::String<96> {
    let mut text = heapless::String::new();
    let date = connection.driver.clock.date();
    let date = std::str::from_utf8(&date).unwrap_or("");
    let close = if close { "connection: close\r\n" } else { "" };
    // 96 bytes hold the longest: "age: " and 20 digits, "date: " and 29 characters, "connection:
    // close".
    let _ = std::fmt::Write::write_fmt(
        &mut text,
        format_args!("age: {}\r\ndate: {date}\r\n{close}\r\n", document.ask.age_s),
    );
    text
}
