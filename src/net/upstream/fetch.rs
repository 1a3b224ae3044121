//! One request to an upstream: one connection, the whole answer in memory, within bounds.
//!
//! Owns the three deadlines (connect, silence, the whole), what counts as success, and the
//! unpacking of gzip, which goes to a lane where it would hold the loop.
//!
//! Never follows a redirect: a login page of a hotel network answers with one, and the service does
//! not. Never hands over half an answer: one that was cut off is an error, whatever was in it.

use futures_lite::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::time::Duration;
use crate::wire::http::Body;
use crate::wire::http::answer::{Asked, Head, status_of};
use crate::wire::http::request::{Request, Unsendable};
use crate::wire::{DecodeError, gzip};

use super::client::Net;
use super::deadline::within;
use super::dial::{Stream, Way, dial, host_and_port};
use super::error::{Problem, Step, UpstreamError};

/// Read from a connection at once.
const READ_BYTES: usize = 16 * 1024;

/// An answer of 2xx, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub is_json: bool,
    /// The value of `X-Config-Path`.
    pub config_path: Option<String>,
    /// The content, unpacked.
    pub body: Vec<u8>,
}

/// Asks `request` of the server at the end of `way`. The target goes behind the endpoint's prefix.
///
/// Bounded by `upstream_total_timeout` and, as it comes and unpacked, by `bytes_max`.
pub async fn fetch(
    net: &Net,
    way: &Way,
    request: Request,
    bytes_max: usize,
) -> Result<Response, UpstreamError> {
    let patience = net.limits.upstream_total_timeout;
    let work = Box::pin(exchange(net, way, request, bytes_max));
    let host = host_and_port(&way.endpoint);
    match within(&net.clock, patience, work).await {
        Some(outcome) => outcome,
        None => Err(UpstreamError::new(&host, Problem::Timeout(Step::Whole))),
    }
}

async fn exchange(
    net: &Net,
    way: &Way,
    request: Request,
    bytes_max: usize,
) -> Result<Response, UpstreamError> {
    let host = host_and_port(&way.endpoint);
    let at_host = |problem| UpstreamError::new(&host, problem);
    let mut stream = ask(net, way, request.with("accept-encoding", "gzip")).await?;
    let read = receive(&mut stream, bytes_max, net).await;
    drop(stream);
    let (packed, mut response) = read.map_err(at_host)?;
    if packed {
        let body = std::mem::take(&mut response.body);
        response.body = inflate(body, bytes_max, net).await.map_err(at_host)?;
    }
    Ok(response)
}

/// Sends `request` and reads no further than the head of the answer: that it is one of 2xx is all
/// that is asked for, whatever else is wrong with it. What was taken and is sent again counts
/// twice.
///
/// Bounded by `upstream_total_timeout`.
pub async fn deliver(net: &Net, way: &Way, request: Request) -> Result<(), UpstreamError> {
    let host = host_and_port(&way.endpoint);
    let at_host = |problem| UpstreamError::new(&host, problem);
    let work = Box::pin(async {
        let mut stream = ask(net, way, request).await?;
        let mut buffer = Vec::new();
        let took = |head: &Head<'_>| refusal(head, net);
        let read = read_head(&mut stream, &mut buffer, Asked::Content, net, took).await;
        let is_taken = status_of(&buffer).is_some_and(|status| (200..300).contains(&status));
        match read {
            _ if is_taken => Ok(()),
            Ok(None) => Ok(()),
            Ok(Some(problem)) | Err(problem) => Err(at_host(problem)),
        }
    });
    match within(&net.clock, net.limits.upstream_total_timeout, work).await {
        Some(outcome) => outcome,
        None => Err(at_host(Problem::Timeout(Step::Whole))),
    }
}

/// Sends `request` on a connection of its own, on which the answer comes.
async fn ask(net: &Net, way: &Way, request: Request) -> Result<Stream, UpstreamError> {
    let host = host_and_port(&way.endpoint);
    let at_host = |problem| UpstreamError::new(&host, problem);
    let bytes = encode(way, request.with("connection", "close")).map_err(at_host)?;
    let mut stream = dial(net, way).await?;
    send(&mut stream, &bytes, net).await.map_err(at_host)?;
    Ok(stream)
}

/// The bytes of `request` as they go to the server at the end of `way`.
pub fn encode(way: &Way, mut request: Request) -> Result<Vec<u8>, Problem> {
    request.target.insert_str(0, &way.endpoint.prefix);
    request
        .encode(&way.endpoint.authority())
        .map_err(unsendable)
}

/// What of a request cannot be sent, in an operator's words.
pub fn unsendable(what: Unsendable) -> Problem {
    Problem::Unsendable(match what {
        Unsendable::Target => "URL",
        Unsendable::Field("authorization") => "API key or its token",
        Unsendable::Field(name) => name,
    })
}

/// Sends all of `bytes`. Bounded by the silence that is allowed.
pub async fn send<S>(stream: &mut S, bytes: &[u8], net: &Net) -> Result<(), Problem>
where
    S: AsyncWrite + Unpin,
{
    let sending = async {
        stream.write_all(bytes).await?;
        stream.flush().await
    };
    match within(&net.clock, net.limits.upstream_idle_timeout, sending).await {
        Some(Ok(())) => Ok(()),
        Some(Err(error)) => Err(Problem::Closed(error.kind())),
        None => Err(Problem::Timeout(Step::Answer)),
    }
}

/// How an answer is read.
#[derive(Clone, Copy)]
pub struct Reading<'n> {
    pub net: &'n Net,
    /// Longest time in which nothing comes.
    pub silence: Duration,
}

impl<'n> From<&'n Net> for Reading<'n> {
    fn from(net: &'n Net) -> Reading<'n> {
        let silence = net.limits.upstream_idle_timeout;
        Reading { net, silence }
    }
}

/// Reads the head of the answer that counts, past interim ones, to the end of an empty `buffer`.
/// Returns what `took` takes out of it; the head stays in the buffer, at its start.
pub async fn read_head<'n, S, T>(
    stream: &mut S,
    buffer: &mut Vec<u8>,
    asked: Asked,
    reading: impl Into<Reading<'n>>,
    took: impl Fn(&Head<'_>) -> T,
) -> Result<T, Problem>
where
    S: AsyncRead + Unpin,
{
    let reading = reading.into();
    let limits = &reading.net.limits;
    let mut interim = 0;
    loop {
        let skipped = match Head::parse(buffer, asked, limits).map_err(Problem::Protocol)? {
            Some(head) if !head.is_interim() => return Ok(took(&head)),
            Some(head) => head.length,
            None => 0,
        };
        if skipped > 0 {
            interim += 1;
            if interim > limits.interim_answers_max {
                let many = DecodeError::Malformed("too many interim answers");
                return Err(Problem::Protocol(many));
            }
            buffer.drain(..skipped);
        } else if read_more(stream, buffer, reading).await? == 0 {
            return Err(Problem::Closed(std::io::ErrorKind::UnexpectedEof));
        }
    }
}

/// Reads once, to the end of `buffer`; zero is the end. A TLS stream that ends without saying so
/// has not ended well, and is an error. Bounded by the silence that is allowed.
pub async fn read_more<S>(
    stream: &mut S,
    buffer: &mut Vec<u8>,
    Reading { net, silence }: Reading<'_>,
) -> Result<usize, Problem>
where
    S: AsyncRead + Unpin,
{
    let length = buffer.len();
    buffer.resize(length + READ_BYTES, 0);
    let reading = stream.read(&mut buffer[length..]);
    let outcome = within(&net.clock, silence, reading).await;
    let (count, result) = match outcome {
        Some(Ok(count)) => (count, Ok(count)),
        Some(Err(error)) => (0, Err(Problem::Closed(error.kind()))),
        None => (0, Err(Problem::Timeout(Step::Answer))),
    };
    buffer.truncate(length + count);
    result
}

/// What is kept of a head.
struct Kept {
    length: usize,
    body: Body,
    packed: Option<bool>,
    response: Response,
    retry_after: Option<Duration>,
    redirect: Option<Box<str>>,
}

impl Kept {
    fn of(head: &Head<'_>, net: &Net) -> Kept {
        let is_gzip = |coding: &str| {
            ["gzip", "x-gzip"]
                .iter()
                .any(|g| g.eq_ignore_ascii_case(coding))
        };
        let packed = match head.content_encoding {
            None => Some(false),
            Some(coding) => is_gzip(coding).then_some(true),
        };
        Kept {
            length: head.length,
            body: head.body.clone(),
            packed,
            response: Response {
                status: head.status,
                is_json: head.is_json(),
                config_path: head.config_path.map(str::to_owned),
                body: Vec::new(),
            },
            retry_after: head.retry_after(&net.limits, net.clock.wall()),
            redirect: head.location.and_then(host_of),
        }
    }

    /// Whether the answer is one of success.
    fn judge(&self) -> Result<bool, Problem> {
        match self.response.status {
            200..300 => self.packed.ok_or(Problem::Protocol(DecodeError::Malformed(
                "a content coding that was not asked for",
            ))),
            300..400 => Err(Problem::Redirect {
                to: self.redirect.clone(),
            }),
            status => Err(Problem::Status {
                status,
                retry_after: self.retry_after,
            }),
        }
    }
}

/// The problem with an answer that is no success, and no content of it is read.
pub fn refusal(head: &Head<'_>, net: &Net) -> Option<Problem> {
    Kept::of(head, net).judge().err()
}

/// The host of a URL, where there is one that can be shown.
fn host_of(location: &str) -> Option<Box<str>> {
    let url = http_types::Url::parse(location).ok()?;
    url.host_str().map(Into::into)
}

/// Reads a whole answer of success: whether it is packed, and what it is.
async fn receive<S>(
    stream: &mut S,
    bytes_max: usize,
    net: &Net,
) -> Result<(bool, Response), Problem>
where
    S: AsyncRead + Unpin,
{
    let mut buffer = Vec::new();
    let took = |head: &Head<'_>| Kept::of(head, net);
    let mut kept = read_head(stream, &mut buffer, Asked::Content, net, took).await?;
    let packed = kept.judge()?;
    buffer.drain(..kept.length);
    let content = read_content(stream, buffer, kept.body, bytes_max, net).await?;
    kept.response.body = content;
    Ok((packed, kept.response))
}

/// Reads the content of an answer, whole; `buffer` is what came behind its head.
///
/// Bounded by `bytes_max` and the silence that is allowed.
pub async fn read_content<'n, S>(
    stream: &mut S,
    mut buffer: Vec<u8>,
    mut body: Body,
    bytes_max: usize,
    reading: impl Into<Reading<'n>>,
) -> Result<Vec<u8>, Problem>
where
    S: AsyncRead + Unpin,
{
    let reading = reading.into();
    let too_large = Problem::TooLarge { bytes_max };
    let announced = body.remaining();
    if announced.is_some_and(|length| length > bytes_max as u64) {
        return Err(too_large);
    }
    let mut content = Vec::new();
    loop {
        let consumed = body.decode_all(&buffer, &reading.net.limits, |bytes| {
            if content.len() + bytes.len() > bytes_max {
                return Err(DecodeError::BodyTooLarge);
            }
            content.extend_from_slice(bytes);
            Ok(())
        });
        let consumed = consumed.map_err(|error| match error {
            DecodeError::BodyTooLarge => too_large.clone(),
            error => Problem::Protocol(error),
        })?;
        buffer.drain(..consumed);
        if body.is_end() {
            return Ok(content);
        }
        if read_more(stream, &mut buffer, reading).await? == 0 {
            let cut = |_| Problem::Closed(std::io::ErrorKind::UnexpectedEof);
            body.handle_end().map_err(cut)?;
        }
    }
}

/// Unpacks `body`; what takes long does so on the lane for work.
async fn inflate(body: Vec<u8>, bytes_max: usize, net: &Net) -> Result<Vec<u8>, Problem> {
    let inflated = match body.len() > net.limits.packed_on_loop_bytes_max {
        false => gzip::inflate(&body, bytes_max),
        true => {
            let job = net.work.run(move || gzip::inflate(&body, bytes_max));
            job.await.map_err(|_| Problem::Busy)?
        }
    };
    inflated.map_err(|error| match error {
        DecodeError::BodyTooLarge => Problem::TooLarge { bytes_max },
        error => Problem::Protocol(error),
    })
}

#[cfg(test)]
mod tests;
