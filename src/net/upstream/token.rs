//! The relay's token for one upstream, as far as it takes I/O.
//!
//! Owns where IAM is and who asks it: one request at a time, whoever else wants a token waits for
//! that, or goes on with the one that is held while it is good. When and whether to ask is
//! `state::token`'s to say.
//!
//! Where IAM is, unless the configuration names it: IBM's own for hosts of IBM, the private one for
//! private hosts; for any other host the host itself, since a relay plays IAM as well.

use std::cell::RefCell;
use std::rc::Rc;

use smol::lock::Semaphore;

use crate::config::{Endpoint, Host, Scheme, Secret};
use crate::state::session::Loss;
use crate::state::token::{Next, Token};
use crate::wire::http::Method;
use crate::wire::http::request::Request;
use crate::wire::iam::client::{Grant, form, parse_grant};

use super::client::{Net, USER_AGENT};
use super::deadline::within;
use super::dial::{Way, host_and_port};
use super::error::{Problem, UpstreamError};
use super::fetch::fetch;

/// The domain of IBM's cloud, whose hosts have their IAM apart.
const IBM: &str = ".cloud.ibm.com";

/// The token of one upstream.
pub struct Tokens {
    way: Way,
    api_key: RefCell<Option<Secret>>,
    token: RefCell<Token>,
    /// Why IAM gave none, the last time.
    failed: RefCell<Option<UpstreamError>>,
    one_at_a_time: Semaphore,
}

/// Whether there is a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// No, and nobody wanted one.
    NotAsked,
    Valid,
    /// IAM gave none. The problem is one line for an operator.
    Failed {
        is_refused: bool,
        problem: String,
    },
}

impl Tokens {
    /// Tokens for `api_key` from the IAM at the end of `way`. Without a key there are none.
    pub fn new(way: Way, api_key: Option<Secret>) -> Tokens {
        Tokens {
            way,
            api_key: RefCell::new(api_key),
            token: RefCell::new(Token::default()),
            failed: RefCell::new(None),
            one_at_a_time: Semaphore::new(1),
        }
    }

    /// Takes a key that was read again, from now on.
    pub fn replace_key(&self, api_key: Option<Secret>, net: &Net) {
        let now = net.clock.now();
        let is_denied = |error: &UpstreamError| error.loss() == Loss::Denied;
        if *self.api_key.borrow() != api_key {
            *self.api_key.borrow_mut() = api_key;
            *self.failed.borrow_mut() = None;
            self.token.borrow_mut().forget(now);
        } else if self.failed.borrow().as_ref().is_some_and(is_denied) {
            self.token.borrow_mut().hurry(now);
        }
    }

    /// Whether there is a key to ask with.
    pub fn has_key(&self) -> bool {
        self.api_key.borrow().is_some()
    }

    /// How things stand, for people.
    pub fn standing(&self, net: &Net) -> Standing {
        match (self.next(net), &*self.failed.borrow()) {
            (Next::Use(_) | Next::Refresh(_), _) => Standing::Valid,
            (Next::Ask | Next::Wait(_), None) => Standing::NotAsked,
            (Next::Ask | Next::Wait(_), Some(error)) => Standing::Failed {
                is_refused: matches!(error.problem, Problem::KeyRefused { .. }),
                problem: error.to_string(),
            },
        }
    }

    /// A token that is good now, asked for if need be.
    ///
    /// # Errors
    /// Why IAM gives none; soon after a failure that one, without asking.
    pub async fn current(&self, net: &Net) -> Result<Rc<str>, UpstreamError> {
        let spare = match self.next(net) {
            Next::Use(token) => return Ok(token),
            Next::Refresh(token) => Some(token),
            Next::Ask | Next::Wait(_) => None,
        };
        let place = match (self.one_at_a_time.try_acquire(), spare) {
            (Some(place), _) => place,
            // Somebody asks already.
            (None, Some(token)) => return Ok(token),
            (None, None) => self.one_at_a_time.acquire().await,
        };
        let next = self.next(net);
        let outcome = match next {
            Next::Use(token) => Ok(token),
            Next::Ask => self.ask(net).await,
            Next::Refresh(token) => Ok(self.refresh(net).await.unwrap_or(token)),
            Next::Wait(_) => {
                let failed = self.failed.borrow().clone();
                Err(failed.unwrap_or_else(|| self.error(Problem::Busy)))
            }
        };
        drop(place);
        outcome
    }

    /// The time of day was set: an IAM whose certificate was not valid yet may be asked at once.
    pub fn handle_clock_step(&self, net: &Net) {
        let is_clock = |error: &UpstreamError| error.loss() == Loss::ClockNotSet;
        if self.failed.borrow().as_ref().is_some_and(is_clock) {
            self.token.borrow_mut().hurry(net.clock.now());
        }
    }

    /// The upstream refused `token`: whether another one is worth a try.
    pub fn handle_refused(&self, token: &str, net: &Net) -> bool {
        let (limits, now) = (&net.limits, net.clock.now());
        self.token.borrow_mut().handle_refused(token, limits, now)
    }

    fn next(&self, net: &Net) -> Next {
        self.token.borrow().poll(net.clock.now())
    }

    fn error(&self, problem: Problem) -> UpstreamError {
        UpstreamError::new(&host_and_port(&self.way.endpoint), problem)
    }

    /// Asks for another token while one is held that will do: whoever carries a request does not
    /// wait long for it, and the next one not at all.
    async fn refresh(&self, net: &Net) -> Option<Rc<str>> {
        let patience = net.limits.token_refresh_timeout;
        let key = self.api_key.borrow().clone();
        if let Some(outcome) = within(&net.clock, patience, self.ask(net)).await {
            return outcome.ok();
        }
        if *self.api_key.borrow() == key {
            let (limits, now) = (&net.limits, net.clock.now());
            self.token.borrow_mut().handle_failed(None, limits, now);
        }
        None
    }

    async fn ask(&self, net: &Net) -> Result<Rc<str>, UpstreamError> {
        let asked = self.api_key.borrow().clone();
        let Some(api_key) = &asked else {
            return Err(self.error(Problem::NoKey));
        };
        let outcome = Box::pin(self.request(api_key, net)).await;
        let (limits, now) = (&net.limits, net.clock.now());
        // The key may be another one by now; then this is the answer to a question of yesterday.
        let is_current = *self.api_key.borrow() == asked;
        match outcome {
            Ok(Grant { token, lifetime }) => {
                if is_current {
                    let mut held = self.token.borrow_mut();
                    held.handle_granted(&token, lifetime, limits, now);
                }
                Ok(token.into())
            }
            Err(error) => {
                if is_current {
                    let mut held = self.token.borrow_mut();
                    match error.loss() {
                        Loss::Unreachable | Loss::Closed | Loss::ClockNotSet => {
                            held.handle_unreached(limits, now);
                        }
                        _ => held.handle_failed(error.retry_after(), limits, now),
                    }
                    *self.failed.borrow_mut() = Some(error.clone());
                }
                Err(error)
            }
        }
    }

    async fn request(&self, api_key: &Secret, net: &Net) -> Result<Grant, UpstreamError> {
        let request = Request::new(Method::Post, "/identity/token")
            .with("accept", "application/json")
            .with("user-agent", USER_AGENT)
            .with_body("application/x-www-form-urlencoded", form(api_key.bytes()));
        let bytes_max = net.limits.iam_answer_bytes_max;
        let response = fetch(net, &self.way, request, bytes_max).await;
        let response = response.map_err(|error| match error.problem {
            // IAM's word for a key that it does not know is 400.
            Problem::Status {
                status: status @ (400 | 401 | 403),
                ..
            } => self.error(Problem::KeyRefused { status }),
            _ => error,
        })?;
        parse_grant(&response.body, &net.limits, net.clock.wall())
            .map_err(|error| self.error(Problem::Protocol(error)))
    }
}

/// Where the IAM of an upstream is.
pub fn iam_of(url: &Endpoint) -> Endpoint {
    let host = match &url.host {
        Host::Name(name) if name.ends_with(IBM) => match name.starts_with("private.") {
            true => "private.iam.cloud.ibm.com",
            false => "iam.cloud.ibm.com",
        },
        Host::Name(_) | Host::Address(_) => return url.clone(),
    };
    Endpoint {
        scheme: Scheme::Https,
        host: Host::Name(host.to_owned()),
        port: Scheme::Https.port(),
        prefix: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iam_is_ibms_for_hosts_of_ibm_and_else_the_same_place() {
        for (url, iam) in [
            (
                "https://eu-de.apprapp.cloud.ibm.com",
                "https://iam.cloud.ibm.com",
            ),
            (
                "https://private.eu-de.apprapp.cloud.ibm.com",
                "https://private.iam.cloud.ibm.com",
            ),
            ("http://relay:7070/a", "http://relay:7070/a"),
            ("https://10.0.0.1", "https://10.0.0.1"),
            (
                "https://cloud.ibm.com.example",
                "https://cloud.ibm.com.example",
            ),
        ] {
            let iam_url = iam_of(&Endpoint::parse(url).unwrap());
            assert_eq!(iam_url.to_string(), iam, "{url}");
        }
    }
}
