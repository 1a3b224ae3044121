//! The admin listener.

use std::rc::Rc;

use crate::model::{Reject, SlotKey};
use crate::wire::http::response::Answer;
use crate::wire::http::{Head, Method, Target};

use super::connection::{Connection, Door};
use super::driver::Driver;
use super::reload;
use super::route::{Action, Wanted};

/// What an admin asks for that changes something.
pub enum Command {
    Reload,
}

/// Decides about a request on an admin listener.
pub fn decide(connection: &Rc<Connection>, head: &Head<'_>) -> Action {
    let driver = &connection.driver;
    let Target::Path(path) = head.target else {
        return Action::Answer(driver.refuse(Reject::UnknownPath));
    };
    let _ = connection.door == Door::AdminLocal;
    match (head.method, path) {
        (Method::Get, "/live") => Action::Answer(Answer::text(200, "live\n")),
        (Method::Get, "/ready") => Action::Answer(ready(driver)),
        (Method::Post, "/reload") => Action::Body(Wanted::Admin(Command::Reload)),
        _ => Action::Answer(driver.refuse(Reject::UnknownPath)),
    }
}

fn ready(driver: &Driver) -> Answer {
    let missing: Vec<String> = driver
        .state
        .borrow()
        .slots
        .missing()
        .map(SlotKey::to_string)
        .collect();
    match missing.is_empty() {
        true => Answer::text(200, "ready\n"),
        false => Answer::text(503, format!("no snapshot for: {}\n", missing.join(", "))),
    }
}

/// Does what was asked for.
pub async fn run(driver: &Rc<Driver>, command: Command, _body: Vec<u8>) -> Answer {
    match command {
        Command::Reload => {
            let report = reload::reload(driver).await;
            let status = if report.is_applied { 200 } else { 422 };
            Answer::text(status, report.lines.join("\n") + "\n")
        }
    }
}
