//! One entry of `Routes`.
//!
//! Owns the keys of a route, and what makes two routes the same: ASP.NET fails each request that
//! two of them take with equal precedence, and the plainest case of it can be seen at load.
//!
//! Policies that stand for code elsewhere (authorization, CORS, rate limits, caches, transforms)
//! are refused, but for the names that switch them off.
//!
//! A route's `Metadata` has one entry of ours: `RegionSlot`.

use super::template::{host_pattern, path_template};
use super::{NotDone, metadata, part, refuse, scalar, value};
use crate::config::error::{Problem, ReverseProblem};
use crate::config::parse::Reader;
use crate::config::section::{Mistakes, Place, Section};
use crate::config::values::id;
use crate::model::casing;
use crate::model::proxy::{PathTemplate, Route, Segment};

const ROUTE_NOT_DONE: [NotDone; 10] = [
    (
        "AuthorizationPolicy",
        "Anonymous",
        "the destinations must ask for credentials themselves",
    ),
    ("RateLimiterPolicy", "Disable", "remove it"),
    ("OutputCachePolicy", "", "nothing is cached; remove it"),
    (
        "TimeoutPolicy",
        "Disable",
        "set `HttpRequest.ActivityTimeout` of the cluster",
    ),
    (
        "Timeout",
        "",
        "set `HttpRequest.ActivityTimeout` of the cluster",
    ),
    (
        "CorsPolicy",
        "Disable",
        "the destinations must answer browsers themselves",
    ),
    (
        "MaxRequestBodySize",
        "-1",
        "bodies pass through and are not bounded; remove it",
    ),
    (
        "Transforms",
        "",
        "paths and fields go on as they came; remove it",
    ),
    ("Extensions", "", "it is for code; remove it"),
    ("RouteId", "", "a route is named by its key; remove it"),
];

/// The entry of `Metadata` that gives a route to regions.
pub const REGION_SLOT: &str = "RegionSlot";

const MATCH_NOT_DONE: [NotDone; 2] = [
    ("Headers", "", "routes go by path, host and method only"),
    (
        "QueryParameters",
        "",
        "routes go by path, host and method only",
    ),
];

const METHODS: [&str; 7] = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"];

impl Reader<'_> {
    /// A route to one of `clusters`, which are named by their ids.
    pub fn route(&mut self, name: &str, place: Place<'_>, clusters: &[&str]) -> Option<Route> {
        let max = self.limits.proxy_entries_max;
        let mistakes = &mut self.mistakes;
        let mut section = place.section_of_any_case(mistakes)?;
        refuse(&mut section, &ROUTE_NOT_DONE, mistakes);
        let region_slot = metadata(&mut section, &[REGION_SLOT], max, mistakes);
        let region_slot = region_slot
            .first()
            .map(|(_, place)| scalar::read(place, mistakes, id));
        let path = section.path_of("ClusterId");
        let cluster = value(&mut section, "ClusterId");
        if cluster.is_none() {
            mistakes.error(&path, Problem::Missing);
        }
        let cluster = cluster.and_then(|place| {
            scalar::read(&place, mistakes, |text| {
                let found = clusters.iter().position(|id| casing::same(id, text));
                found.ok_or(ReverseProblem::NoCluster.into())
            })
        });
        let order = value(&mut section, "Order");
        let (from, to) = (i64::from(i32::MIN), i64::from(i32::MAX));
        let order = order.and_then(|place| scalar::whole(&place, mistakes, from, to));
        let whole = section.path_of("Match");
        let matched = part(&mut section, "Match", mistakes);
        section.finish(mistakes);
        let Some(mut matched) = matched else {
            mistakes.error(&whole, ReverseProblem::NeitherPathNorHosts.into());
            return None;
        };
        refuse(&mut matched, &MATCH_NOT_DONE, mistakes);
        let template = value(&mut matched, "Path");
        let has_path = template.is_some();
        let template = template.map(|place| scalar::read(&place, mistakes, path_template));
        let hosts = texts(&mut matched, "Hosts", max, mistakes);
        if !has_path && hosts.is_empty() {
            mistakes.error(&whole, ReverseProblem::NeitherPathNorHosts.into());
        }
        let hosts = hosts
            .iter()
            .filter_map(|place| scalar::read(place, mistakes, host_pattern));
        let hosts = hosts.collect();
        let methods = texts(&mut matched, "Methods", max, mistakes);
        let methods = methods
            .iter()
            .filter_map(|place| scalar::read(place, mistakes, method));
        let methods = methods.collect();
        matched.finish(mistakes);
        let every = PathTemplate {
            segments: Vec::new(),
            takes_rest: true,
        };
        Some(Route {
            id: name.into(),
            cluster: cluster?,
            path: template.unwrap_or(Some(every))?,
            hosts,
            methods,
            order: order
                .and_then(|order| i32::try_from(order).ok())
                .unwrap_or(0),
            region_slot: region_slot.map_or(Some(None), |read| read.map(Some))?,
        })
    }
}

/// Whether two routes take the same requests with the same precedence.
pub fn is_same(one: &Route, other: &Route) -> bool {
    let same_segment = |(one, other): (&Segment, &Segment)| match (one, other) {
        (Segment::Literal(one), Segment::Literal(other)) => casing::same(one, other),
        (Segment::Any, Segment::Any) => true,
        (Segment::Literal(_), Segment::Any) | (Segment::Any, Segment::Literal(_)) => false,
    };
    let (path, others) = (&one.path, &other.path);
    let pairs = path.segments.iter().zip(&others.segments);
    one.order == other.order
        && path.takes_rest == others.takes_rest
        && path.segments.len() == others.segments.len()
        && pairs.into_iter().all(same_segment)
        && is_same_set(&one.hosts, &other.hosts)
        && is_same_set(&one.methods, &other.methods)
}

fn is_same_set<T: PartialEq>(one: &[T], other: &[T]) -> bool {
    one.iter().all(|entry| other.contains(entry)) && other.iter().all(|entry| one.contains(entry))
}

/// The entries of a list; none where it is missing or empty.
fn texts<'t>(
    section: &mut Section<'t>,
    key: &'static str,
    max: usize,
    mistakes: &mut Mistakes,
) -> Vec<Place<'t>> {
    let place = value(section, key).filter(|place| !scalar::is_empty(place));
    let entries = place.and_then(|place| place.list(mistakes, max));
    entries.unwrap_or_default()
}

fn method(text: &str) -> Result<Box<str>, Problem> {
    let is = |known: &&&str| known.eq_ignore_ascii_case(text);
    let known = METHODS.iter().find(is).copied();
    known
        .map(Into::into)
        .ok_or(ReverseProblem::NotAMethod.into())
}
