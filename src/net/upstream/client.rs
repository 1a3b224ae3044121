//! An upstream as the rest of the relay sees it: a document, a change socket, a place for reports.
//!
//! Owns the service's paths as the relay asks for them, and the credential on each: the relay's own
//! token, or the key that the nodes of a region share. [`Upstream`] is one of the two, or the
//! writer of another region; [`Net`] is what they share to reach anything at all.
//!
//! A 401 makes one more attempt with another token, if the one that was refused is not fresh. No
//! other failure is tried again here: when to do so is the session's to say.
//!
//! Sources: what IBM's SDKs send, and what they take for success (200 JSON, 101, 2xx).

use std::cell::RefCell;
use std::io;
use std::ops::Deref as _;
use std::path::PathBuf;
use std::rc::Rc;

use fastrand::Rng;
use smol::lock::Semaphore;

use crate::config::{Endpoint, Secret, UpstreamConfig};
use crate::limits::Limits;
use crate::model::report::ReportKind;
use crate::model::{Id, SlotKey};
use crate::net::clock::Clock;
use crate::net::disk::Disk;
use crate::net::lane::Jobs;
use crate::net::pipe::End;
use crate::wire::DecodeError;
use crate::wire::http::Method;
use crate::wire::http::request::Request;

use super::dial::{Way, host_and_port};
use super::error::{Problem, TlsProblem, UpstreamError};
use super::fetch::{deliver, fetch};
use super::resolve::Resolver;
use super::socket::{self, Socket};
use super::tls::{self, ClientTls};
use super::token::{Tokens, iam_of};

/// Who the relay says it is.
pub const USER_AGENT: &str = concat!("staffetta/", env!("CARGO_PKG_VERSION"));

/// What leads to an endpoint in tests, in place of the network.
pub type Pipes = Rc<dyn Fn(&Endpoint) -> io::Result<End>>;

/// Who vouches for servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The authorities of the system.
    System,
    /// Those of a file, and no others.
    File(PathBuf),
}

/// What all outgoing connections share.
pub struct Net {
    pub clock: Clock,
    pub limits: Limits,
    pub resolver: Resolver,
    pub disk: Disk,
    /// For what would hold the loop: the disk's lane, unless it is given one of its own.
    pub work: Jobs,
    /// In place of the network, for tests; `None` in production.
    pub pipes: Option<Pipes>,
    random: RefCell<Rng>,
    trusted: RefCell<Vec<(Trust, ClientTls)>>,
    one_reads: Semaphore,
}

impl Net {
    /// The network of this machine.
    pub fn new(
        clock: Clock,
        limits: Limits,
        resolver: Resolver,
        disk: Disk,
        random_seed: u64,
    ) -> Net {
        Net {
            clock,
            limits,
            resolver,
            work: disk.deref().clone(),
            disk,
            pipes: None,
            random: RefCell::new(Rng::with_seed(random_seed)),
            trusted: RefCell::new(Vec::new()),
            one_reads: Semaphore::new(1),
        }
    }

    /// Sixteen bytes that nobody else will have chosen; not secret.
    pub fn nonce(&self) -> [u8; 16] {
        self.random.borrow_mut().u128(..).to_be_bytes()
    }

    /// Reads the files of authorities anew when they are needed next.
    pub fn forget_authorities(&self) {
        self.trusted.borrow_mut().clear();
    }

    /// What handshakes are made with where `trust` vouches. Read once; a failure is looked into
    /// again by the next who asks.
    pub async fn client_tls(&self, trust: &Trust) -> Result<ClientTls, Problem> {
        let _place = self.one_reads.acquire().await;
        let known = |trusted: &Vec<(Trust, ClientTls)>| {
            let found = trusted.iter().find(|(known, _)| known == trust);
            found.map(|(_, config)| config.clone())
        };
        if let Some(config) = known(&self.trusted.borrow()) {
            return Ok(config);
        }
        let (file, limits) = match trust {
            Trust::System => (None, self.limits.clone()),
            Trust::File(path) => (Some(path.clone()), self.limits.clone()),
        };
        let job = self.disk.run(move || tls::load(file.as_deref(), &limits));
        let loaded: Result<_, TlsProblem> = job.await.map_err(|_| Problem::Busy)?;
        let config = loaded.map_err(Problem::Tls)?;
        let mut trusted = self.trusted.borrow_mut();
        trusted.push((trust.clone(), config.clone()));
        Ok(config)
    }
}

/// The service, or another relay.
pub struct Upstream {
    way: Way,
    guid: Id,
    credential: Credential,
}

/// What a request shows.
enum Credential {
    Tokens(Box<Tokens>),
    /// This very key, which no IAM has to be asked about.
    Key(Rc<str>),
}

/// A document, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigAnswer {
    /// JSON by its type; nothing of it was looked at.
    pub bytes: Vec<u8>,
    /// `X-Config-Path`: the relays that it came through.
    pub path: Option<String>,
}

impl Upstream {
    /// An upstream; nothing is asked of it yet. Without a key, which could not be read, nothing
    /// will be.
    pub fn new(config: &UpstreamConfig, api_key: Option<Secret>) -> Upstream {
        let trust = match &config.ca_file {
            Some(path) => Trust::File(path.clone()),
            None => Trust::System,
        };
        let way = |endpoint: Endpoint| Way {
            proxy: config.proxy_to(&endpoint).cloned(),
            endpoint,
            trust: trust.clone(),
        };
        let iam_url = config.iam_url.clone();
        let iam_url = iam_url.unwrap_or_else(|| iam_of(&config.url));
        Upstream {
            credential: Credential::Tokens(Box::new(Tokens::new(way(iam_url), api_key))),
            way: way(config.url.clone()),
            guid: config.guid.clone(),
        }
    }

    /// Another node of this relay's cluster, which takes `key` for all that is asked of it. A key
    /// that cannot stand in a header makes every request fail.
    pub fn peer(way: Way, guid: Id, key: &Secret) -> Upstream {
        Upstream {
            credential: Credential::Key(String::from_utf8_lossy(key.bytes()).into()),
            way,
            guid,
        }
    }

    /// Where it is.
    pub fn endpoint(&self) -> &Endpoint {
        &self.way.endpoint
    }

    /// Of which instance.
    pub fn guid(&self) -> &Id {
        &self.guid
    }

    /// The tokens that it is asked with; a peer is asked with none.
    pub fn tokens(&self) -> Option<&Tokens> {
        match &self.credential {
            Credential::Tokens(tokens) => Some(tokens),
            Credential::Key(_) => None,
        }
    }

    /// Takes an API key that was read again, from now on. With another one, tokens that were had by
    /// the old one are forgotten; where the same was refused, IAM is asked again.
    pub fn replace_key(&self, api_key: Option<Secret>, net: &Net) {
        if let Some(tokens) = self.tokens() {
            tokens.replace_key(api_key, net);
        }
    }

    /// The time of day was set: what failed for its sake is tried again by whoever asks next.
    pub fn handle_clock_step(&self, net: &Net) {
        if let Some(tokens) = self.tokens() {
            tokens.handle_clock_step(net);
        }
    }

    /// The document of `slot`. Bounded by `upstream_total_timeout` twice (token and document), and
    /// by `document_bytes_max`.
    pub async fn config(&self, net: &Net, slot: &SlotKey) -> Result<ConfigAnswer, UpstreamError> {
        let SlotKey {
            collection,
            environment,
        } = slot;
        let guid = &self.guid;
        // Ids need no escaping.
        let target = format!(
            "/apprapp/feature/v1/instances/{guid}/config?action=sdkConfig\
             &collection_id={collection}&environment_id={environment}"
        );
        let response = self
            .authorized(net, async |token: &str| {
                let request = request(Method::Get, &target, token);
                let request = request.with("accept", "application/json");
                fetch(net, &self.way, request, net.limits.document_bytes_max).await
            })
            .await?;
        match (response.status, response.is_json) {
            (200, true) => Ok(ConfigAnswer {
                bytes: response.body,
                path: response.config_path,
            }),
            (200, false) => Err(self.error(Problem::Protocol(DecodeError::Malformed(
                "content that is not JSON",
            )))),
            (status, _) => Err(self.error(Problem::Status {
                status,
                retry_after: None,
            })),
        }
    }

    /// The change socket of `slot`. Bounded by the time-outs of a connection and of silence.
    pub async fn subscribe(&self, net: &Net, slot: &SlotKey) -> Result<Socket, UpstreamError> {
        let SlotKey {
            collection,
            environment,
        } = slot;
        let target = format!(
            "/apprapp/wsfeature?instance_id={}&collection_id={collection}\
             &environment_id={environment}",
            self.guid
        );
        self.authorized(net, async |token: &str| {
            socket::open(net, &self.way, request(Method::Get, &target, token)).await
        })
        .await
    }

    /// Delivers `body`, JSON. `Ok` means that it was accepted. Bounded by `upstream_total_timeout`
    /// twice.
    pub async fn report(
        &self,
        net: &Net,
        kind: ReportKind,
        body: Vec<u8>,
    ) -> Result<(), UpstreamError> {
        let guid = &self.guid;
        let target = match kind {
            ReportKind::Usage => format!("/apprapp/events/v1/instances/{guid}/usage"),
            ReportKind::Analytics => format!("/apprapp/metrics/v1/instances/{guid}/analytics"),
        };
        self.authorized(net, async |token: &str| {
            let request = request(Method::Post, &target, token);
            let request = request.with_body("application/json", body.clone());
            deliver(net, &self.way, request).await
        })
        .await
    }

    /// Does `attempt` with the credential; once more with another token, where one was refused.
    async fn authorized<T>(
        &self,
        net: &Net,
        attempt: impl AsyncFn(&str) -> Result<T, UpstreamError>,
    ) -> Result<T, UpstreamError> {
        let tokens = match &self.credential {
            Credential::Tokens(tokens) => tokens,
            Credential::Key(key) => return Box::pin(attempt(key)).await,
        };
        let token = tokens.current(net).await?;
        match Box::pin(attempt(&token)).await {
            Err(error) if is_unauthorized(&error) && tokens.handle_refused(&token, net) => {
                let token = tokens.current(net).await?;
                Box::pin(attempt(&token)).await
            }
            outcome => outcome,
        }
    }

    fn error(&self, problem: Problem) -> UpstreamError {
        UpstreamError::new(&host_and_port(&self.way.endpoint), problem)
    }
}

fn request(method: Method, target: &str, token: &str) -> Request {
    Request::new(method, target)
        .with("authorization", format!("Bearer {token}"))
        .with("user-agent", USER_AGENT)
}

fn is_unauthorized(error: &UpstreamError) -> bool {
    matches!(error.problem, Problem::Status { status: 401, .. })
}

#[cfg(test)]
mod tests;
