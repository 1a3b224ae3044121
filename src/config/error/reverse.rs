//! What can be wrong or doubtful about `ReverseProxy`, and how it is said.
//!
//! Whoever pastes a section that YARP loads must be told of everything that would not be the same
//! here: what the relay does not do is refused by name, with what to do about it. What YARP takes
//! and fails on later, at the first request, is refused too.
//!
//! Part of `error`: the path is said there.

use std::fmt;

/// What is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReverseProblem {
    /// Part of YARP, and not of this relay.
    NotDone { instead: &'static str },
    /// Neither true nor false.
    NotABool,
    /// Not in the form of a .NET time span.
    NotATimeSpan,
    /// A number alone, which is days.
    Days,
    /// Zero or less.
    NotPositive,
    /// An interval that would be a flood.
    TooOften { min_s: u64 },
    /// Not a whole number, or out of bounds.
    NotWhole { from: i64, to: i64 },
    /// Not a share of 1.
    NotARate,
    /// A cookie name that no header can carry.
    NotAToken,
    /// An attribute that would end before its end.
    NotAnAttribute,
    /// A lifetime that is sent as zero, which deletes the cookie.
    SubSecond,
    /// An id that YARP could not read, or would read in two ways.
    BadId { reason: &'static str },
    /// The id of no cluster.
    NoCluster,
    /// A route for every request, which YARP wants to be said.
    NeitherPathNorHosts,
    /// Not a path template, and why.
    NotATemplate { reason: &'static str },
    /// Not a host, and why.
    NotAHost { reason: &'static str },
    /// Not a method that the relay knows.
    NotAMethod,
    /// Regions have a part in this route and not in the relay.
    NoRegion,
    /// Not a part of a URL.
    MustBegin { with: &'static str },
}

impl fmt::Display for ReverseProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReverseProblem::NotDone { instead } => {
                write!(f, "YARP has this and the relay does not: {instead}")
            }
            ReverseProblem::NotABool => f.write_str("must be true or false"),
            ReverseProblem::NotATimeSpan => f.write_str(
                "is no time span: write `hours:minutes:seconds`, such as `00:00:30`, with `days.` \
                 in front where needed",
            ),
            ReverseProblem::Days => f.write_str(
                "is a number of days, which is hardly meant: write `00:00:30` for 30 seconds and \
                 `30.00:00:00` for 30 days",
            ),
            ReverseProblem::NotPositive => f.write_str("must be above zero"),
            ReverseProblem::TooOften { min_s } => {
                write!(f, "is too often: at least {min_s} s must lie between two")
            }
            ReverseProblem::NotWhole { from, to } => {
                write!(f, "must be a whole number from {from} to {to}")
            }
            ReverseProblem::NotARate => f.write_str("must be above 0 and at most 1, such as `0.3`"),
            ReverseProblem::NotAToken => f.write_str(
                "is no cookie name: use letters, digits and the characters of `!#$%&'*+-.^_|~`",
            ),
            ReverseProblem::NotAnAttribute => f.write_str(
                "must be visible ASCII without `;`, and not empty: it goes into `Set-Cookie` as it \
                 is",
            ),
            ReverseProblem::SubSecond => f.write_str(
                "is less than a second and would be sent as 0, which deletes the cookie",
            ),
            ReverseProblem::BadId { reason } => write!(f, "is no id: {reason}"),
            ReverseProblem::NoCluster => f.write_str("names nothing under `Clusters`"),
            ReverseProblem::NeitherPathNorHosts => {
                f.write_str("needs `Path` or `Hosts`; for every request, set `Path` to `/{**rest}`")
            }
            ReverseProblem::NotATemplate { reason } => write!(f, "is no path: {reason}"),
            ReverseProblem::NotAHost { reason } => write!(f, "is no host: {reason}"),
            ReverseProblem::NotAMethod => f.write_str(
                "is no method of the relay: DELETE, GET, HEAD, OPTIONS, PATCH, POST or PUT",
            ),
            ReverseProblem::NoRegion => f.write_str(
                "says who is primary for this route, which takes `region`: configure it",
            ),
            ReverseProblem::MustBegin { with } => {
                write!(f, "must begin with `{with}` and be visible ASCII")
            }
        }
    }
}

/// What may not be meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReverseConcern {
    /// Browsers take the path of the page instead.
    PathWithoutSlash,
    /// Browsers drop the cookie.
    SameSiteNoneWithoutSecure,
    /// A cookie of a relay with TLS also goes over plain HTTP.
    CookieInTheOpen,
    /// Two clusters would overwrite each other's cookie.
    CookieShared,
    /// Nothing reads this entry.
    UnreadMetadata,
    /// Every request is answered 503.
    NoDestination,
}

impl ReverseConcern {
    /// What to know about it.
    pub const fn as_str(self) -> &'static str {
        match self {
            ReverseConcern::PathWithoutSlash => {
                "does not begin with `/`: browsers ignore it and take the folder of the page"
            }
            ReverseConcern::SameSiteNoneWithoutSecure => {
                "browsers drop a cookie with `SameSite` None unless it is secure: set \
                 `SecurePolicy` to Always"
            }
            ReverseConcern::CookieInTheOpen => {
                "is None, YARP's default: the cookie also goes over plain HTTP; the relay has TLS, \
                 so set SameAsRequest or Always"
            }
            ReverseConcern::CookieShared => {
                "is the cookie of another cluster too: a client of both loses its destination with \
                 every change between them"
            }
            ReverseConcern::UnreadMetadata => "nothing reads this entry",
            ReverseConcern::NoDestination => "has no destination: every request is answered 503",
        }
    }
}
