//! What nodes ask of each other, as targets of requests.
//!
//! Owns the paths below `/v1/`, both ways: the status (`after` and `wait_ms` make it a question
//! that waits for news), the state record, and a slot. A parameter that cannot be read, stands
//! twice or is not known makes a target of nobody: a question that is misunderstood is not to be
//! answered at once and asked again at once.
//!
//! Never says who may ask.

use crate::model::SlotKey;
use crate::time::Duration;

/// Where the status is.
pub const STATUS: &str = "/v1/region/status";
/// Where the state record is.
pub const STATE: &str = "/v1/region/state";
/// What a node has heard of all nodes; on the admin listener only.
pub const NODES: &str = "/v1/region/nodes";
const REGION: &str = "/v1/region/";
const SLOTS: &str = "/v1/slots/";

/// A question for the status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// Boot and serial: to be answered once the status is another one than this...
    pub after: Option<(u64, u64)>,
    /// ...or after this time.
    pub wait: Duration,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Status(Question),
    State,
    Slot(SlotKey),
}

/// Whether a target is about regions and slots at all, whatever it names there.
pub fn is_meant(target: &str) -> bool {
    target.starts_with(REGION) || target.starts_with(SLOTS)
}

impl Target {
    /// Reads path and query of a request; `None` when nothing is there. Bounded by the length of
    /// `text`.
    pub fn parse(text: &str) -> Option<Target> {
        let (path, query) = match text.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (text, None),
        };
        if path == STATUS {
            return Question::parse(query.unwrap_or("")).map(Target::Status);
        }
        let target = match path.strip_prefix(SLOTS) {
            Some(slot) => SlotKey::parse(slot).map(Target::Slot),
            None => (path == STATE).then_some(Target::State),
        };
        target.filter(|_| query.is_none())
    }

    /// The target as it is asked for.
    pub fn write(&self) -> String {
        match self {
            Target::Status(question) => question.write(),
            Target::State => STATE.to_owned(),
            Target::Slot(slot) => format!("{SLOTS}{slot}"),
        }
    }
}

impl Question {
    fn parse(query: &str) -> Option<Question> {
        let (mut after, mut wait) = (None, None);
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let is_new = match parameter.split_once('=')? {
                ("after", text) => {
                    let (boot, serial) = text.split_once('-')?;
                    after.replace((number(boot)?, number(serial)?)).is_none()
                }
                ("wait_ms", text) => wait.replace(number(text)?).is_none(),
                _ => false,
            };
            if !is_new {
                return None;
            }
        }
        // Without something to wait for, nothing is waited for.
        let wait = wait.filter(|_| after.is_some()).unwrap_or_default();
        Some(Question {
            after,
            wait: Duration::from_millis(wait),
        })
    }

    fn write(&self) -> String {
        match self.after {
            Some((boot, serial)) => {
                let wait_ms = self.wait.as_millis();
                format!("{STATUS}?after={boot}-{serial}&wait_ms={wait_ms}")
            }
            None => STATUS.to_owned(),
        }
    }
}

fn number(text: &str) -> Option<u64> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_understood() {
        let slot = SlotKey::parse("line3/dev").unwrap();
        let waiting = Question {
            after: Some((u64::MAX, 12)),
            wait: Duration::from_secs(10),
        };
        for target in [
            Target::Status(Question::default()),
            Target::Status(waiting),
            Target::State,
            Target::Slot(slot),
        ] {
            let text = target.write();
            assert!(is_meant(&text), "{text}");
            assert_eq!(Target::parse(&text), Some(target), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_nobodys_target() {
        for text in [
            "/v1/region/",
            "/v1/region/statuses",
            "/v1/region/state?",
            "/v1/slots/line3",
            "/v1/slots/line3/dev?a=b",
            "/v1/slots/line3/dev/",
            "/v1/region/status?after=1",
            "/v1/region/status?after=1-",
            "/v1/region/status?after=+1-2",
            "/v1/region/status?wait_ms=1&wait_ms=1",
            "/v1/region/status?wait=1",
            "/v1/region/status?wait_ms=99999999999999999999",
        ] {
            assert!(is_meant(text), "{text}");
            assert_eq!(Target::parse(text), None, "{text}");
        }
        assert!(!is_meant("/v1/regions") && !is_meant("/apprapp/v1/slots/a/b"));
    }
}
