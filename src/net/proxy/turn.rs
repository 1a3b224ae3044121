//! A request of a route that a region is primary for: here, or elsewhere, when it is its turn.
//!
//! Owns the way to another node: head, consent, content. The head asks with `Expect: 100-continue`
//! whether the node takes the request; until it says so, nothing of the content has left, so that a
//! refusal (421) is followed by another attempt without any of it being kept here. After the
//! consent it is an exchange like that with a destination, and `Routing` has nothing more to do
//! with it.
//!
//! Requests that change nothing (`GET`, `HEAD`, `OPTIONS`) go to the local cluster at once.
//!
//! Never sent on twice: what a node has taken in is not offered to another one.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use futures_lite::future::or;

use crate::model::Id;
use crate::model::region::{Outcome, Reason};
use crate::net::connection::Connection;
use crate::net::driver::Driver;
use crate::net::http::fault_answer;
use crate::net::region::peer::{self, Failure};
use crate::net::region::routed::{self, Errand, Ticket, Turn};
use crate::net::region::serve;
use crate::net::region::write::{self, Arrival};
use crate::net::upstream::UpstreamError;
use crate::net::upstream::dial::{Stream, Way, dial, host_and_port};
use crate::net::upstream::error::Problem;
use crate::net::upstream::fetch::{Reading, read_content, read_more, send};
use crate::state::region::Forwarded;
use crate::wire::DecodeError;
use crate::wire::forward::{self, Hop, Onward};
use crate::wire::http::answer::{Asked, Head as AnswerHead};
use crate::wire::http::response::Answer;
use crate::wire::http::{Head, Method};
use crate::wire::region::peer::{self as fields, PeerHead};
use crate::wire::region::problem;

use super::exchange::{Course, End, Exchange, Fault};
use super::forward::{Served, local};
use super::request::Request;
use super::{Call, address_of};

/// What a request with a route of regions waits for, and who brought it.
pub struct Entrance {
    slot: Id,
    arrival: Arrival,
}

impl Entrance {
    /// What a request has to pass, if its route and its method want it.
    ///
    /// # Errors
    /// The answer to what cannot be read, or was here before.
    pub fn of(driver: &Driver, slot: Option<&Id>, head: &Head<'_>) -> Result<Option<Self>, Answer> {
        let is_safe = matches!(head.method, Method::Get | Method::Head | Method::Options);
        let Some(slot) = slot else {
            return Ok(None);
        };
        let is_peer = serve::is_peer(driver, head);
        if is_safe && is_peer {
            // No node sends it on, and the key would go on to a server.
            return Err(Answer::text(404, "reads are not sent on\n"));
        }
        if is_safe {
            return Ok(None);
        }
        let arrival = match is_peer {
            true => Arrival::Peer(serve::incoming(head).map_err(fault_answer)?, None),
            false if was_here(driver, head) => {
                let text = "this request has been here before\n";
                let outcome = Outcome::NotAttempted.as_str();
                return Err(Answer::text(502, text).with(fields::OUTCOME, outcome));
            }
            false => Arrival::Client {
                may_forward: !head.stays_here,
                key: None,
            },
        };
        Ok(Some(Entrance {
            slot: slot.clone(),
            arrival,
        }))
    }

    /// Whether a node has sent it on.
    pub fn is_from_peer(&self) -> bool {
        matches!(self.arrival, Arrival::Peer(..))
    }
}

/// Whether a client's request comes by way of this very node: then peers do not know each other by
/// their key, and would send it on in rings.
fn was_here(driver: &Driver, head: &Head<'_>) -> bool {
    let own = driver.region.as_ref().map(|region| &region.name);
    let ways = forward::fields(head.raw).filter(|(name, _)| name.eq_ignore_ascii_case("via"));
    let mut names = ways.flat_map(|(_, value)| fields::via_names(value));
    names.any(|name| Some(&name) == own)
}

/// Serves a request when it is its turn. Bounded by the record's `hold` until then.
pub async fn serve(
    connection: &Rc<Connection>,
    buffer: &mut Vec<u8>,
    call: &Call,
    entrance: &Entrance,
    mut request: Request,
) -> Served {
    let driver = &connection.driver;
    // What is here of its content; `buffer` has what came behind that.
    let bytes = request.up.len() + buffer.len();
    let ticket = match routed::enter(driver, &entrance.slot, &entrance.arrival, bytes) {
        Ok(ticket) => ticket,
        Err(answer) => return request.own(answer),
    };
    loop {
        match next(connection, buffer, &ticket).await {
            Some(Turn::Here) => return local(connection, buffer, call, request).await,
            Some(Turn::Elsewhere(errand)) => {
                let attempt = Attempt {
                    connection,
                    ticket: &ticket,
                    errand: &errand,
                };
                match Box::pin(attempt.run(buffer, call, request)).await {
                    Tried::Served(served) => return served,
                    Tried::Again(kept) => request = kept,
                }
            }
            Some(Turn::Refused(refusal)) => {
                return request.own(write::answer_of(driver, &refusal));
            }
            // Whatever it was is given up already.
            Some(Turn::Abandoned) => {}
            None => return Served::Broken,
        }
    }
}

/// The next turn; `None` when the client goes before it. What it sends ahead is kept, up to the
/// bound of a head.
async fn next(connection: &Connection, buffer: &mut Vec<u8>, ticket: &Ticket) -> Option<Turn> {
    let bytes_max = connection.driver.limits.head_bytes_max;
    let mut turn = pin!(ticket.next());
    poll_fn(|context| {
        if let Poll::Ready(turn) = turn.as_mut().poll(context) {
            return Poll::Ready(Some(turn));
        }
        while buffer.len() < bytes_max {
            let left = bytes_max - buffer.len();
            let sink = |bytes: &[u8]| buffer.extend_from_slice(bytes);
            match connection.poll_read_some(context, left, sink) {
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(None),
                Poll::Pending => break,
            }
        }
        Poll::Pending
    })
    .await
}

/// A request on its way to another node.
struct Attempt<'a> {
    connection: &'a Rc<Connection>,
    ticket: &'a Ticket,
    errand: &'a Errand,
}

/// What came of it.
enum Tried {
    Served(Served),
    /// It was not taken, and nothing of its content is gone.
    Again(Request),
}

/// What a node says to a head.
enum Consent {
    /// It wants the content; this came behind its word.
    Given(Stream, Vec<u8>),
    /// It has answered.
    Answered(peer::Answered),
}

impl Attempt<'_> {
    async fn run(&self, buffer: &mut Vec<u8>, call: &Call, request: Request) -> Tried {
        let asked = or(async { Some(self.ask(&request).await) }, async {
            // Nothing but the end of it can be told meanwhile, and what follows is told as well.
            self.ticket.next().await;
            None
        });
        match asked.await {
            None => Tried::Again(request),
            Some(Ok(Consent::Given(stream, inbox))) => {
                self.ticket.handle_forwarded(Forwarded::Answered);
                Tried::Served(self.carry(buffer, call, request, (stream, inbox)).await)
            }
            Some(Ok(Consent::Answered(answered))) => self.judge(answered, request),
            Some(Err(failure)) => {
                self.ticket.handle_forwarded(match failure {
                    Failure::NotSent(_) => Forwarded::NotSent,
                    Failure::Lost(_) => Forwarded::Lost,
                });
                Tried::Again(request)
            }
        }
    }

    /// What the node answered in place of its consent.
    fn judge(&self, answered: peer::Answered, request: Request) -> Tried {
        let is_nodes = answered.field(fields::OUTCOME).is_some();
        let refusal = problem::read(&answered.body).filter(|_| is_nodes);
        if let Some(refusal) = refusal.filter(|_| answered.status == 421) {
            self.ticket.handle_forwarded(Forwarded::Refused(refusal));
            return Tried::Again(request);
        }
        self.ticket.handle_forwarded(Forwarded::Answered);
        let answer = Answer {
            status: answered.status,
            fields: answered.fields,
            body: answered.body,
        };
        Tried::Served(request.own(answer))
    }

    async fn ask(&self, request: &Request) -> Result<Consent, Failure> {
        let driver = &self.connection.driver;
        let net = &driver.proxy.net;
        let (way, key) = peer::reach(driver, &self.errand.node).map_err(Failure::NotSent)?;
        let host = host_and_port(&way.endpoint);
        let at_host = |problem| UpstreamError::new(&host, problem);
        let mut stream = dial(net, &way).await.map_err(Failure::NotSent)?;
        let head = self.head(request, &way, peer::bearer(&key));
        let head = head.map_err(|fault| Failure::NotSent(at_host(Problem::Protocol(fault))))?;
        self.ticket.handle_sent();
        let lost = |problem| Failure::Lost(at_host(problem));
        send(&mut stream, &head, net).await.map_err(lost)?;
        // Its deadline is routing's, which gives it up.
        let silence = self.errand.record.timing.hold + driver.limits.region.ask_timeout;
        let reading = Reading { net, silence };
        consent(stream, reading, driver.limits.region.status_bytes_max)
            .await
            .map_err(lost)
    }

    /// The head as it goes to the node: of the client's, with what this node says about it.
    fn head(&self, request: &Request, way: &Way, key: String) -> Result<Vec<u8>, DecodeError> {
        let driver = &self.connection.driver;
        let Errand { record, epoch, .. } = self.errand;
        let own = driver.region.as_ref().map(|region| &region.name);
        let own = own.ok_or(DecodeError::Malformed("no region"))?;
        let said = PeerHead {
            cluster: record.cluster.clone(),
            from: own.clone(),
            hops: 1,
            epoch: *epoch,
            left: self.errand.deadline.since(driver.clock.now()),
        };
        let mut told = said.fields().to_vec();
        told.push(("authorization", key));
        told.push(("via", fields::via_entry(own)));
        told.push(("expect", "100-continue".to_owned()));
        let (client, is_tls) = {
            let io = self.connection.io();
            (io.peer().map(|peer| peer.to_string()), io.is_tls())
        };
        let head = Head::parse(&request.head, &driver.limits)?;
        let head = head.ok_or(DecodeError::Malformed("request head"))?;
        let onward = Onward {
            address: &address_of(&way.endpoint),
            host: Some(head.host),
            client: client.as_deref(),
            is_tls,
            hop: Hop::ToPeer(&told),
        };
        forward::request(&request.head, &head, onward)
    }

    /// Carries content and answer, once the node wants them.
    async fn carry(
        &self,
        buffer: &mut Vec<u8>,
        call: &Call,
        request: Request,
        (mut stream, inbox): (Stream, Vec<u8>),
    ) -> Served {
        let connection = self.connection;
        let is_awaited = request.is_awaited();
        if is_awaited && connection.write(&[forward::CONTINUE]).await.is_err() {
            return Served::Broken;
        }
        let (outline, content, up) = request.into_parts();
        let is_whole = content.is_read();
        let timeout = call.rules.proxy.clusters[call.cluster()].activity_timeout;
        let parts = (outline, content, up);
        let mut exchange =
            Exchange::new(connection, buffer, &mut stream, parts, timeout).hearing(inbox);
        let outcome = exchange.run().await;
        let Course {
            status,
            is_sent,
            is_closing,
            ..
        } = exchange.course();
        connection.disarm();
        match outcome {
            Ok(End::Answered { .. }) if is_sent && !is_closing => Served::Kept,
            Ok(End::Answered { .. }) => Served::Ended,
            // Only a GET can ask for another protocol.
            Ok(End::Tunnel) => Served::Broken,
            Err(Fault::ClientMalformed(fault)) if status.is_none() => Served::Answer {
                answer: fault_answer(fault),
                is_whole: false,
            },
            Err(Fault::ClientGone | Fault::ClientSilent | Fault::ClientMalformed(_)) => {
                Served::Broken
            }
            Err(Fault::Closed(_) | Fault::Malformed(_) | Fault::Silent) => match status {
                Some(_) => Served::Broken,
                None => {
                    let refusal = self
                        .ticket
                        .refusal(Reason::ForwardTimeout, Outcome::Unknown);
                    let answer = write::answer_of(&connection.driver, &refusal);
                    Served::Answer { answer, is_whole }
                }
            },
        }
    }
}

/// Reads what a node says to a head: that it wants the content, or an answer.
async fn consent(
    mut stream: Stream,
    reading: Reading<'_>,
    bytes_max: usize,
) -> Result<Consent, Problem> {
    let limits = &reading.net.limits;
    let mut inbox = Vec::new();
    let mut interim = 0;
    loop {
        let found = AnswerHead::parse(&inbox, Asked::Content, limits).map_err(Problem::Protocol)?;
        let skipped = match found {
            Some(head) if head.status == 100 => {
                let length = head.length;
                inbox.drain(..length);
                return Ok(Consent::Given(stream, inbox));
            }
            Some(head) if head.is_interim() => head.length,
            Some(head) => {
                let (length, status, body) = (head.length, head.status, head.body.clone());
                let fields = peer::kept(&head);
                inbox.drain(..length);
                let body = read_content(&mut stream, inbox, body, bytes_max, reading).await?;
                return Ok(Consent::Answered(peer::Answered {
                    status,
                    fields,
                    body,
                }));
            }
            None => 0,
        };
        if skipped > 0 {
            interim += 1;
            inbox.drain(..skipped);
            if interim > limits.interim_answers_max {
                let many = DecodeError::Malformed("too many interim answers");
                return Err(Problem::Protocol(many));
            }
        } else if read_more(&mut stream, &mut inbox, reading).await? == 0 {
            return Err(Problem::Closed(io::ErrorKind::UnexpectedEof));
        }
    }
}
