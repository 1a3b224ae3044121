//! Why an upstream could not be asked, or what was wrong with its answer.
//!
//! The environment's fault, always: a name, a network, a proxy, a certificate, a server. For the
//! session it is a [`Loss`]; for an operator it is one line that names the host and what to do.
//!
//! Never holds a byte that the peer sent but numbers and a host name: it goes into logs.

use std::fmt;
use std::io;

use crate::state::session::Loss;
use crate::time::Duration;
use crate::wire::DecodeError;

/// A failure, and whose host it happened with.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamError {
    /// Host and port as they are configured.
    pub host: Box<str>,
    pub problem: Problem,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Problem {
    /// The name has no address, or nobody could be asked for it.
    Resolve(io::ErrorKind),
    /// No address took the connection; the last one's reason.
    Connect(io::ErrorKind),
    /// This process has no network of that kind: a sandbox, or a kernel without IPv6.
    NoNetwork,
    /// The proxy did not open the tunnel.
    Proxy { status: u16 },
    /// No trusted session.
    Tls(TlsProblem),
    /// Not done in its time.
    Timeout(Step),
    /// Something that is not HTTP, or not what was asked for.
    Protocol(DecodeError),
    /// Anything but success.
    Status {
        status: u16,
        retry_after: Option<Duration>,
    },
    /// Sent somewhere else, which is never followed: the host that was named, if it was one.
    Redirect { to: Option<Box<str>> },
    /// IAM refused the API key.
    KeyRefused { status: u16 },
    /// The API key could not be read.
    NoKey,
    /// More than its bound, as it came or unpacked.
    TooLarge { bytes_max: usize },
    /// Ended in the middle.
    Closed(io::ErrorKind),
    /// What is configured cannot stand in a request; the part of it.
    Unsendable(&'static str),
    /// The relay itself had no room or is ending.
    Busy,
}

/// What is wrong with TLS.
#[derive(Clone, Debug, PartialEq)]
pub enum TlsProblem {
    /// By this machine's clock the certificate is of the future. Clocks of gateways start in the
    /// past, so this says more about the clock.
    NotYetValid,
    Expired,
    /// Issued by nobody that is trusted.
    UnknownIssuer,
    /// For another name.
    WrongName,
    /// The file of trusted authorities could not be used.
    Roots,
    /// Anything else, in the library's words.
    Other(rustls::Error),
}

/// What took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Resolve,
    Connect,
    Answer,
    Whole,
}

impl UpstreamError {
    /// The failure of `host`.
    pub fn new(host: &str, problem: Problem) -> UpstreamError {
        UpstreamError {
            host: host.into(),
            problem,
        }
    }

    /// Whether the other side has understood and will say the same again: the key, its rights or
    /// the ids are wrong.
    pub fn is_denied(&self) -> bool {
        matches!(
            self.problem,
            Problem::KeyRefused { .. }
                | Problem::Status {
                    status: 401 | 403 | 404,
                    ..
                }
        )
    }

    /// Whether the right time of day may be all that is missing.
    pub fn is_clock_not_set(&self) -> bool {
        self.problem == Problem::Tls(TlsProblem::NotYetValid)
    }

    /// As the session hears of it.
    pub fn loss(&self) -> Loss {
        match &self.problem {
            _ if self.is_denied() => Loss::Denied,
            _ if self.is_clock_not_set() => Loss::ClockNotSet,
            Problem::Status { retry_after, .. } => Loss::Refused {
                retry_after: *retry_after,
            },
            Problem::Resolve(_)
            | Problem::Connect(_)
            | Problem::NoNetwork
            | Problem::Proxy { .. }
            | Problem::Tls(_)
            | Problem::Timeout(_)
            | Problem::Busy => Loss::Unreachable,
            Problem::Closed(_) => Loss::Closed,
            // A key that is wrong or missing stays so until an operator comes.
            Problem::NoKey | Problem::KeyRefused { .. } | Problem::Unsendable(_) => Loss::Denied,
            Problem::Protocol(_) | Problem::Redirect { .. } | Problem::TooLarge { .. } => {
                Loss::Unusable
            }
        }
    }

    /// How long the other side wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.problem {
            Problem::Status { retry_after, .. } => retry_after,
            _ => None,
        }
    }
}

impl TlsProblem {
    /// What the library says, sorted by what an operator can do about it.
    pub fn of(error: rustls::Error) -> TlsProblem {
        use rustls::CertificateError as Certificate;
        match &error {
            rustls::Error::InvalidCertificate(problem) => match problem {
                Certificate::NotValidYet | Certificate::NotValidYetContext { .. } => {
                    TlsProblem::NotYetValid
                }
                Certificate::Expired | Certificate::ExpiredContext { .. } => TlsProblem::Expired,
                // An authority that was made anew has its old name and another key.
                Certificate::UnknownIssuer | Certificate::BadSignature => TlsProblem::UnknownIssuer,
                Certificate::NotValidForName | Certificate::NotValidForNameContext { .. } => {
                    TlsProblem::WrongName
                }
                _ => TlsProblem::Other(error),
            },
            _ => TlsProblem::Other(error),
        }
    }
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.host, self.problem)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Resolve(kind) => write!(
                f,
                "the name cannot be resolved ({kind}); check the spelling and /etc/resolv.conf"
            ),
            Problem::Connect(kind) => write!(f, "cannot connect ({kind}); check network and port"),
            Problem::NoNetwork => f.write_str(
                "the relay has no network of this kind; its unit's air-gap profile forbids it, or \
                 this kernel has no IPv6",
            ),
            Problem::Proxy { status: 407 } => f.write_str(
                "the proxy wants a login (407), which the relay has none of; let it pass this host",
            ),
            Problem::Proxy { status } => {
                write!(
                    f,
                    "the proxy refuses the tunnel ({status}); let it pass this host"
                )
            }
            Problem::Tls(problem) => problem.fmt(f),
            Problem::Timeout(step) => step.fmt(f),
            Problem::Protocol(error) => {
                write!(
                    f,
                    "not the answer of a service or relay ({error}); check the URL"
                )
            }
            Problem::Status {
                status,
                retry_after,
            } => {
                write!(f, "answered {status}; {}", advice(*status))?;
                match retry_after {
                    Some(wait) => write!(f, ", not before {} s", wait.as_secs()),
                    None => Ok(()),
                }
            }
            Problem::Redirect { to } => {
                let to = to.as_deref().unwrap_or("another place");
                write!(
                    f,
                    "sends the relay on to {to}: a login page? Check network and URL"
                )
            }
            Problem::KeyRefused { status } => {
                write!(
                    f,
                    "IAM refuses the API key ({status}); check `api_key_file`"
                )
            }
            Problem::NoKey => f.write_str("the API key cannot be read; check `api_key_file`"),
            Problem::TooLarge { bytes_max } => {
                write!(f, "the answer is longer than {bytes_max} bytes")
            }
            Problem::Closed(kind) => write!(f, "the connection ended too early ({kind})"),
            Problem::Unsendable(what) => {
                write!(f, "the {what} cannot be sent: it is not printable ASCII")
            }
            Problem::Busy => f.write_str("the relay is too busy to ask, or is ending"),
        }
    }
}

/// What a status asks of an operator.
const fn advice(status: u16) -> &'static str {
    match status {
        401 | 403 => "check the API key and its rights",
        404 => "check guid, collection and environment",
        429 => "asked too often",
        500.. => "the other side has a problem",
        _ => "check the URL",
    }
}

impl fmt::Display for TlsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsProblem::NotYetValid => {
                f.write_str("its certificate is not yet valid: is the clock not set?")
            }
            TlsProblem::Expired => {
                f.write_str("its certificate has expired; or the clock is wrong")
            }
            TlsProblem::UnknownIssuer => f.write_str(
                "its certificate is from nobody that is trusted here; install the authority in the \
                 system, or name it in an upstream's `ca_file`",
            ),
            TlsProblem::WrongName => f.write_str("its certificate is for another name"),
            TlsProblem::Roots => f.write_str(
                "there is no usable file of certificate authorities; install the system's, or name \
                 one in an upstream's `ca_file`",
            ),
            TlsProblem::Other(error) => write!(f, "no TLS session ({error})"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Resolve => "the name is not resolved in time; check /etc/resolv.conf",
            Step::Connect => "no connection in time; check network, firewall and proxy",
            Step::Answer => {
                "connected, but no answer comes; if that stays so, large packets may be lost (MTU)"
            }
            Step::Whole => "the answer takes too long; the network is too slow",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_with_host_and_advice() {
        let error = |problem| UpstreamError::new("a.test:443", problem);
        let status = |status, retry_after| {
            error(Problem::Status {
                status,
                retry_after,
            })
        };
        let wait = Some(Duration::from_secs(7));
        for (error, part) in [
            (error(Problem::Tls(TlsProblem::NotYetValid)), "clock"),
            (error(Problem::NoNetwork), "air-gap"),
            (error(Problem::Proxy { status: 407 }), "login"),
            (error(Problem::Timeout(Step::Answer)), "MTU"),
            (status(404, None), "guid"),
            (status(503, wait), "not before 7 s"),
        ] {
            let line = error.to_string();
            assert!(
                line.starts_with("a.test:443: ") && line.contains(part),
                "{line}"
            );
            assert!(!line.contains('\n'), "{line}");
        }
        assert_eq!(status(429, wait).retry_after(), wait);
        assert!(status(401, None).is_denied() && !status(503, None).is_denied());
    }

    #[test]
    fn the_session_hears_what_it_acts_upon() {
        let retry_after = Some(Duration::from_secs(7));
        let status = |status| Problem::Status {
            status,
            retry_after,
        };
        for (problem, loss) in [
            (status(401), Loss::Denied),
            (status(404), Loss::Denied),
            (status(503), Loss::Refused { retry_after }),
            (Problem::KeyRefused { status: 400 }, Loss::Denied),
            (Problem::Tls(TlsProblem::NotYetValid), Loss::ClockNotSet),
            (Problem::Tls(TlsProblem::Expired), Loss::Unreachable),
            (Problem::Timeout(Step::Answer), Loss::Unreachable),
            (Problem::Redirect { to: None }, Loss::Unusable),
        ] {
            assert_eq!(UpstreamError::new("a.test:443", problem).loss(), loss);
        }
    }
}
