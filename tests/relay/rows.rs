//! Tables of raw requests: what is sent, what must come back, what must be left of the connection.
//!
//! Every row goes by every way. All rows are tried before the table fails, because the pattern of
//! what fails says more than the first of it.

use crate::client::{Client, Outcome, show};
use crate::harness::relay::Relay;
use crate::request;
use crate::way::{WAYS, Way};

/// What must be true of the connection after the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Closed, with nothing more to read.
    Closed,
    /// Another request on it is answered.
    Open,
    /// The relay's own choice.
    Either,
}

/// One case.
pub struct Row {
    pub name: &'static str,
    pub request: Vec<u8>,
    /// One entry an answer: the statuses that it may have. Empty: closed without any answer.
    pub answers: &'static [&'static [u16]],
    pub after: After,
}

/// A row that is answered once with `status` and whose connection is closed.
pub fn refused(
    name: &'static str,
    request: impl Into<Vec<u8>>,
    status: &'static [&'static [u16]],
) -> Row {
    Row {
        name,
        request: request.into(),
        answers: status,
        after: After::Closed,
    }
}

/// A row whose requests are answered in turn and whose connection stays.
pub fn answered(
    name: &'static str,
    request: impl Into<Vec<u8>>,
    answers: &'static [&'static [u16]],
) -> Row {
    Row {
        name,
        request: request.into(),
        answers,
        after: After::Open,
    }
}

/// A row whose connection may be closed or not.
pub fn told(
    name: &'static str,
    request: impl Into<Vec<u8>>,
    answers: &'static [&'static [u16]],
) -> Row {
    Row {
        name,
        request: request.into(),
        answers,
        after: After::Either,
    }
}

/// Tries every row by every way.
pub fn try_all(relay: &Relay, rows: &[Row]) {
    let mut failures = Vec::new();
    for way in WAYS {
        for row in rows {
            if let Err(failure) = try_one(relay, way, row) {
                failures.push(format!("{} by {way:?}: {failure}", row.name));
            }
        }
    }
    let (count, list) = (failures.len(), failures.join("\n"));
    assert!(
        failures.is_empty(),
        "{count} failures:\n{list}\nthe relay logged\n{}",
        relay.log.all()
    );
}

fn try_one(relay: &Relay, way: Way, row: &Row) -> Outcome<()> {
    let mut client = Client::connect(relay, way);
    client.send(&row.request);
    for allowed in row.answers {
        let answer = client.answer(row.request.starts_with(b"HEAD "))?;
        if !allowed.contains(&answer.status()) {
            let (status, body) = (answer.status(), show(&answer.body));
            return Err(format!("{status} instead of {allowed:?}: {body}"));
        }
    }
    match row.after {
        After::Closed => client.closes(),
        After::Either => Ok(()),
        After::Open => match client.exchange(request::config().as_bytes())?.status() {
            200 => Ok(()),
            other => Err(format!("the next request got {other}")),
        },
    }
}
