//! How the double fails, as it is told to: one struct for answers, one for sockets, one for TCP.
//!
//! All of it is JSON, the same in a test (`json!`) and on the control port. Unknown keys are
//! refused, so that a misspelt failure is not a test that always passes.

use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What goes wrong with the answers of one operation. Without any field: nothing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Answering {
    /// How many requests it concerns; all that follow if absent.
    pub times: Option<u32>,
    /// Concerns this slot only, written `collection/environment`.
    pub slot: Option<String>,
    /// Concerns requests only in whose body this text is.
    pub containing: Option<String>,
    /// Waits before anything else.
    pub delay_ms: u64,
    /// Never answers, and reads no more.
    pub silence: bool,
    /// Answers in bytes that are not HTTP, then closes.
    pub noise: bool,
    /// Answers 200 with a page of HTML, as the portal of a hotel does.
    pub garbage: bool,
    /// Answers 302 to this place.
    pub redirect: Option<String>,
    /// Answers this, with `body`.
    pub status: Option<u16>,
    /// Adds `Retry-After` in seconds to an answer with `status`.
    pub retry_after: Option<u64>,
    /// The body; with status 200 if there is no `status`.
    pub body: Option<String>,
    /// Added to the answer, or in place of its own header of that name.
    pub headers: BTreeMap<String, String>,
    /// Closes after half of the body.
    pub truncate: bool,
    /// Does what was asked, then closes without a word.
    pub drop: bool,
    /// Sends the body in chunks.
    pub chunked: bool,
    /// Documents: never compressed.
    pub plain: bool,
    /// Tokens: how long they last, instead of an hour.
    pub lifetime_s: Option<u64>,
    /// Upgrades: replaces a document right before the 101 to its slot, once, and tells nobody.
    pub swap_document: Option<Swap>,
}

/// A document that takes the place of another.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Swap {
    /// `collection/environment`.
    pub slot: String,
    /// The document, or a text that is it byte for byte.
    pub document: Value,
}

/// What is to go wrong with one operation, in order: the first that concerns a request is taken.
#[derive(Debug, Default)]
pub struct Script(Vec<Answering>);

impl Script {
    /// From one [`Answering`], a list of them, or `null` for none.
    fn read(value: &Value) -> Result<Script, String> {
        let read = match value {
            Value::Null => Ok(Vec::new()),
            Value::Array(_) => Vec::deserialize(value),
            _ => Answering::deserialize(value).map(|one| vec![one]),
        };
        read.map(Script).map_err(|error| error.to_string())
    }

    /// What to do about a request for `slot` (if it is for one) with this body; counts it.
    pub fn take(&mut self, slot: Option<&str>, body: &str) -> Answering {
        let concerns = |answering: &Answering| {
            let swap = answering
                .swap_document
                .as_ref()
                .map(|swap| swap.slot.as_str());
            let wanted = answering.slot.as_deref().or(swap);
            wanted.is_none_or(|wanted| slot == Some(wanted))
                && answering
                    .containing
                    .as_deref()
                    .is_none_or(|text| body.contains(text))
                && answering.times != Some(0)
        };
        let Some(at) = self.0.iter().position(concerns) else {
            return Answering::default();
        };
        let taken = self.0[at].clone();
        self.0[at].times = self.0[at].times.map(|times| times - 1);
        self.0[at].swap_document = None;
        taken
    }
}

/// What sockets are like, and what is done to them once.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sockets {
    /// Concerns this slot only, written `collection/environment`.
    pub slot: Option<String>,
    /// How often `test message` is sent; 0 for never; the double's own interval if absent.
    pub heartbeat_ms: Option<u64>,
    /// Sends nothing and reads nothing, as a machine that hangs.
    pub silent: bool,
    /// Closes the present sockets with this code.
    pub close: Option<u16>,
    /// Ends the present sockets without a close frame.
    pub drop: bool,
    /// Resets the present sockets.
    pub abort: bool,
}

impl Sockets {
    /// Whether it concerns the sockets of `slot`.
    pub fn concern(&self, slot: &str) -> bool {
        self.slot.as_deref().is_none_or(|wanted| wanted == slot)
    }
}

/// What the double's port is like.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tcp {
    /// Connects, and then says nothing: new connections, and requests on old ones.
    pub accept_only: bool,
    /// Does not listen. What is connected stays.
    pub refuse: bool,
}

/// Everything that is to go wrong.
#[derive(Debug, Default)]
pub struct Behaviours {
    pub token: Script,
    pub config: Script,
    pub upgrade: Script,
    pub usage: Script,
    pub analytics: Script,
    pub socket: Sockets,
    pub tcp: Tcp,
}

impl Behaviours {
    /// Replaces what `orders` has by name; `null` is back to normal. All or nothing.
    pub fn change(&mut self, orders: &Map<String, Value>) -> Result<(), String> {
        let mut read = Vec::new();
        for (name, value) in orders {
            read.push(Order::read(name, value).map_err(|problem| format!("{name}: {problem}"))?);
        }
        for order in read {
            match order {
                Order::Token(script) => self.token = script,
                Order::Config(script) => self.config = script,
                Order::Upgrade(script) => self.upgrade = script,
                Order::Usage(script) => self.usage = script,
                Order::Analytics(script) => self.analytics = script,
                Order::Socket(sockets) => self.socket = sockets,
                Order::Tcp(tcp) => self.tcp = tcp,
            }
        }
        Ok(())
    }
}

enum Order {
    Token(Script),
    Config(Script),
    Upgrade(Script),
    Usage(Script),
    Analytics(Script),
    Socket(Sockets),
    Tcp(Tcp),
}

impl Order {
    fn read(name: &str, value: &Value) -> Result<Order, String> {
        Ok(match name {
            "token" => Order::Token(Script::read(value)?),
            "config" => Order::Config(Script::read(value)?),
            "upgrade" => Order::Upgrade(Script::read(value)?),
            "usage" => Order::Usage(Script::read(value)?),
            "analytics" => Order::Analytics(Script::read(value)?),
            "socket" => Order::Socket(or_default(value)?),
            "tcp" => Order::Tcp(or_default(value)?),
            _ => return Err("no such behaviour".to_owned()),
        })
    }
}

fn or_default<T: Default + for<'de> Deserialize<'de>>(value: &Value) -> Result<T, String> {
    let read = Option::<T>::deserialize(value).map_err(|error| error.to_string())?;
    Ok(read.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn behaviours(orders: &Value) -> Behaviours {
        let mut behaviours = Behaviours::default();
        let orders = orders.as_object().expect("an object");
        behaviours.change(orders).expect("good orders");
        behaviours
    }

    #[test]
    fn a_failure_ends_after_its_times_and_the_next_begins() {
        let mut script =
            behaviours(&json!({ "config": [{ "status": 503, "times": 2 }, { "status": 500 }] }))
                .config;
        let statuses = [(); 4].map(|()| script.take(None, "").status);
        assert_eq!(statuses, [Some(503), Some(503), Some(500), Some(500)]);
    }

    #[test]
    fn a_failure_of_one_slot_spares_the_others() {
        let mut script = behaviours(&json!({ "config": { "status": 503, "slot": "a/b" } })).config;
        assert_eq!(script.take(Some("a/c"), "").status, None);
        assert_eq!(script.take(Some("a/b"), "").status, Some(503));
    }

    #[test]
    fn a_document_is_swapped_once_and_for_its_slot_only() {
        let swap = json!({ "slot": "a/b", "document": { "new": true } });
        let mut script = behaviours(&json!({ "upgrade": { "swap_document": swap } })).upgrade;
        assert!(script.take(Some("a/c"), "").swap_document.is_none());
        assert!(script.take(Some("a/b"), "").swap_document.is_some());
        assert!(script.take(Some("a/b"), "").swap_document.is_none());
    }

    #[test]
    fn a_misspelt_order_changes_nothing() {
        let mut behaviours = behaviours(&json!({ "tcp": { "refuse": true } }));
        let orders = json!({ "tcp": null, "config": { "stauts": 503 } });
        let refused = behaviours.change(orders.as_object().expect("an object"));
        assert!(refused.is_err_and(|problem| problem.contains("stauts")));
        assert!(behaviours.tcp.refuse);
    }
}
