//! What can be wrong with a configuration, and how it is said.
//!
//! Every mistake names the place as a JSON path and what to do about it. The operator reads these
//! lines on a gateway without a manual at hand, so each must be enough by itself. Values of secrets
//! are never part of a message.
//!
//! The leaf of this room: all its readers say their mistakes by it, and it knows none of them.
//! `region` and `reverse` are what only those sections can have wrong.

mod region;
mod reverse;

pub use region::RegionProblem;
pub use reverse::{ReverseConcern, ReverseProblem};

use std::fmt;

/// One mistake of the operator: the relay does not start (exit code 78) or keeps what it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// JSON path of the value, such as `$.slots[2].collection`.
    pub path: String,
    pub problem: Problem,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path, self.problem)
    }
}

/// Something that loads and may still not be meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigWarning {
    /// JSON path of the value.
    pub path: String,
    pub concern: Concern,
}

impl fmt::Display for ConfigWarning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path, self.concern)
    }
}

/// What is wrong with the value at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The file is larger than `Limits::config_bytes_max`.
    TooLarge { bytes_max: usize },
    /// Not JSON; the reason is the parser's, with line and column.
    Syntax { reason: String },
    /// The same key twice in one object.
    DuplicateKey,
    /// A key that no version knows.
    UnknownKey { nearest: Option<&'static str> },
    /// A key that a later version will know.
    NotSupportedYet,
    /// A key that must be there and is not.
    Missing,
    /// A value of the wrong JSON type.
    WrongType {
        expected: &'static str,
        found: &'static str,
    },
    /// Text or a list without content.
    Empty { instead: &'static str },
    /// More entries than the relay serves.
    TooMany { max: usize },
    /// Not an identifier of the service.
    NotAnId,
    /// Neither `ADDRESS:PORT` nor `unix:PATH`.
    NotAnAddress,
    /// Longer than a Unix socket's address can be.
    SocketPathTooLong { bytes_max: usize },
    /// Not `collection/environment` with `*` in place of a part.
    NotAPattern,
    /// Not a URL that the relay can ask, and why.
    NotAUrl { reason: &'static str },
    /// `HTTPS_PROXY` names nothing that the relay can use.
    BadProxyVariable,
    /// Not a plain host name.
    NotAHostName,
    /// Not a number of bytes.
    NotASize,
    /// A number outside of what works.
    OutOfRange { from: u64, to: u64 },
    /// Text outside of a closed list.
    NotOneOf { choices: &'static [&'static str] },
    /// The same value as at another path.
    SameAs { path: String },
    /// Two keys that exclude each other.
    BothGiven { other: &'static str },
    /// One of two keys must be there.
    NeitherGiven {
        one: &'static str,
        other: &'static str,
    },
    /// A key that cannot be sent in a header as it is.
    NotSendable,
    /// `${…}` that is not expanded.
    UnknownVariable,
    /// `start: normal` where there is nothing to start from.
    NormalWithoutUpstream,
    /// A slot that is pushed to, and no folder to keep pushes in.
    PushesNotKept,
    /// What only `region` can have wrong.
    Region(RegionProblem),
    /// What only `ReverseProxy` can have wrong.
    Reverse(ReverseProblem),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::TooLarge { bytes_max } => {
                write!(f, "the file is larger than {bytes_max} bytes")
            }
            Problem::Syntax { reason } => write!(f, "not valid JSON: {reason}"),
            Problem::DuplicateKey => f.write_str("the key is there twice; keep one"),
            Problem::UnknownKey { nearest } => match nearest {
                Some(name) => write!(f, "unknown key; did you mean `{name}`?"),
                None => f.write_str("unknown key; remove it"),
            },
            Problem::NotSupportedYet => f.write_str("not supported yet by this version; remove it"),
            Problem::Missing => f.write_str("is missing"),
            Problem::WrongType { expected, found } => {
                write!(f, "must be {expected}, and is {found}")
            }
            Problem::Empty { instead } => write!(f, "is empty; {instead}"),
            Problem::TooMany { max } => write!(f, "has more than {max} entries"),
            Problem::NotAnId => {
                f.write_str("is no identifier: use 1 to 128 letters, digits, `.`, `-` and `_`")
            }
            Problem::NotAnAddress => f.write_str(
                "is no address: write IP address and port, such as `[::]:7070`, or `unix:PATH`",
            ),
            Problem::SocketPathTooLong { bytes_max } => {
                write!(
                    f,
                    "is too long for a Unix socket: at most {bytes_max} bytes"
                )
            }
            Problem::NotAPattern => f.write_str(
                "is no slot pattern: write `collection/environment`, with `*` for either part",
            ),
            Problem::NotAHostName => {
                f.write_str("is no host name: write it without scheme, port and path")
            }
            Problem::NotAUrl { reason } => write!(f, "is no URL for this: {reason}"),
            Problem::BadProxyVariable => f.write_str(
                "is not set, and `HTTPS_PROXY` holds no proxy that can be used: it must be \
                 `http://HOST:PORT`, without user and password",
            ),
            Problem::NotASize => {
                f.write_str("is no size: write a number of bytes, or text such as `32MiB`")
            }
            Problem::OutOfRange { from, to } => write!(f, "must be from {from} to {to}"),
            Problem::NotOneOf { choices } => write!(f, "must be one of {}", choices.join(", ")),
            Problem::SameAs { path } => write!(f, "is the same as {path}; they must differ"),
            Problem::BothGiven { other } => {
                write!(f, "excludes `{other}`, which is there too; keep one")
            }
            Problem::NeitherGiven { one, other } => write!(f, "needs `{one}` or `{other}`"),
            Problem::NotSendable => f.write_str(
                "has characters that no header can carry; `staffetta key new` makes a key",
            ),
            Problem::UnknownVariable => {
                f.write_str("only `${CREDENTIALS_DIRECTORY}` is expanded, at the start of the path")
            }
            Problem::NormalWithoutUpstream => f.write_str(
                "a normal start fetches from an upstream, and there is none: add `upstream`, or \
                 use `auto` or `fast`",
            ),
            Problem::PushesNotKept => f.write_str(
                "what is pushed must survive a restart, and there is no folder to keep it in: set \
                 `state_dir`",
            ),
            Problem::Region(problem) => problem.fmt(f),
            Problem::Reverse(problem) => problem.fmt(f),
        }
    }
}

impl From<RegionProblem> for Problem {
    fn from(problem: RegionProblem) -> Problem {
        Problem::Region(problem)
    }
}

impl From<ReverseProblem> for Problem {
    fn from(problem: ReverseProblem) -> Problem {
        Problem::Reverse(problem)
    }
}

/// What may not be meant about the value at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concern {
    /// A pattern of a client key that no slot matches.
    PatternWithoutSlot,
    /// Nobody can authenticate.
    NoClientKeys,
    /// No source of data at all.
    NoSource,
    /// `${CREDENTIALS_DIRECTORY}` outside of a unit that sets it.
    CredentialsUnset,
    /// Admin on the network without a token.
    AdminWithoutToken,
    /// Only HTTP is served.
    NoTls,
    /// A credential leaves this machine without TLS.
    KeyInTheOpen,
    /// An upstream without a folder to keep things in.
    NothingKept,
    /// A spool that nobody empties.
    NobodyToReportTo,
    /// Whoever reaches a relay can say who is primary.
    RecordsUnsigned,
    /// What only `ReverseProxy` can leave in doubt.
    Reverse(ReverseConcern),
}

impl fmt::Display for Concern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Concern::PatternWithoutSlot => "matches none of the configured slots",
            Concern::NoClientKeys => "there is no client key: every SDK will be refused",
            Concern::NoSource => "there is neither seed nor upstream: no slot will ever have data",
            Concern::CredentialsUnset => {
                "CREDENTIALS_DIRECTORY is not set (systemd sets it by LoadCredential=): \
                 the file cannot be read"
            }
            Concern::AdminWithoutToken => {
                "listens beyond this machine without a token: reading is open to the network, \
                 and commands are refused there; set `admin.token_file`"
            }
            Concern::NoTls => {
                "there is no `tls`: server SDKs fetch tokens and open their WebSocket over TLS; \
                 `staffetta cert` makes a certificate"
            }
            Concern::KeyInTheOpen => {
                "without TLS the API key and all that is fetched can be read along the way; use \
                 `https://`"
            }
            Concern::NothingKept => {
                "is not set: what the upstream sent and reports on their way to it are lost at a \
                 restart"
            }
            Concern::NobodyToReportTo => {
                "there is no upstream to deliver to: usage and analytics are only counted"
            }
            Concern::RecordsUnsigned => {
                "state records count without a signature: whoever has the admin token or the peer \
                 key can say which region is primary"
            }
            Concern::Reverse(concern) => concern.as_str(),
        })
    }
}

impl From<ReverseConcern> for Concern {
    fn from(concern: ReverseConcern) -> Concern {
        Concern::Reverse(concern)
    }
}
