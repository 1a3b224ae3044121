//! The key `ReverseProxy`, in YARP's own shape → [`ReverseProxy`].
//!
//! An operator may paste the section of an `appsettings.json`. Names of keys, ids and policies are
//! in any case of letters, values may be text or not (`scalar`), and what YARP has and the relay
//! does not is refused by name, never ignored, unless it says what is so anyway. Unlike YARP,
//! which ignores them, unknown keys are mistakes.
//!
//! Part of `parse`, with the same rule: note the mistake and go on. `cluster`, `affinity` and
//! `health` read the one half, `route` and `template` the other; `error::reverse` has the words.

mod affinity;
mod cluster;
mod health;
mod route;
mod scalar;
mod template;
#[cfg(test)]
mod tests;

use super::error::{Problem, ReverseConcern, ReverseProblem};
use super::parse::Reader;
use super::section::{Mistakes, Place, Section};
use crate::model::casing;
use crate::model::proxy::{Cluster, ReverseProxy, Route};

impl Reader<'_> {
    /// The section; `has_tls` is the relay's own.
    pub fn reverse_proxy(
        &mut self,
        place: Place<'_>,
        (has_tls, has_region): (bool, bool),
    ) -> Option<ReverseProxy> {
        let mut section = place.section_of_any_case(&mut self.mistakes)?;
        let clusters = section.take("Clusters");
        let routes = section.take("Routes");
        section.finish(&mut self.mistakes);
        let (clusters_max, routes_max) = (self.limits.clusters_max, self.limits.routes_max);
        let clusters = self.named(clusters, clusters_max);
        let ids: Vec<&str> = clusters.iter().map(|(id, _)| *id).collect();
        let mut found = Vec::new();
        for (id, place) in clusters {
            found.extend(self.cluster(id, place, has_tls));
        }
        self.shared_cookies(&found);
        let mut proxy = ReverseProxy {
            routes: Vec::new(),
            clusters: found.into_iter().map(|(_, cluster)| cluster).collect(),
        };
        let mut paths = Vec::new();
        for (id, place) in self.named(routes, routes_max) {
            let path = place.path.clone();
            if let Some(route) = self.route(id, place, &ids) {
                if route.region_slot.is_some() && !has_region {
                    let path = format!("{path}.Metadata.{}", route::REGION_SLOT);
                    self.mistakes.error(&path, ReverseProblem::NoRegion.into());
                }
                self.same_route(&path, &route, &paths, &proxy.routes);
                paths.push(path);
                proxy.routes.push(route);
            }
        }
        Some(proxy)
    }

    /// The entries of a map of ids, at most `max`; ids are checked, and differ in more than case.
    fn named<'t>(&mut self, place: Option<Place<'t>>, max: usize) -> Vec<(&'t str, Place<'t>)> {
        let Some(place) = place else {
            return Vec::new();
        };
        let path = place.path.clone();
        let section = place.section_of_any_case(&mut self.mistakes);
        let entries = section.map(Section::places).unwrap_or_default();
        if entries.len() > max {
            self.mistakes.error(&path, Problem::TooMany { max });
            return Vec::new();
        }
        for (id, place) in &entries {
            if let Some(reason) = bad_id(id) {
                let problem = ReverseProblem::BadId { reason };
                self.mistakes.error(&place.path, problem.into());
            }
        }
        entries
    }

    /// Two clusters with one cookie name fight over it, which YARP only says in a comment.
    fn shared_cookies(&mut self, clusters: &[(String, Cluster)]) {
        let name = |cluster: &Cluster| {
            let affinity = cluster.affinity.as_ref();
            affinity.map(|affinity| affinity.cookie_name.to_ascii_lowercase())
        };
        for (place, (path, cluster)) in clusters.iter().enumerate() {
            let mut before = clusters[..place]
                .iter()
                .filter_map(|(_, other)| name(other));
            if name(cluster).is_some_and(|own| before.any(|other| other == own)) {
                let path = format!("{path}.SessionAffinity.AffinityKeyName");
                self.mistakes
                    .warning(&path, ReverseConcern::CookieShared.into());
            }
        }
    }

    /// Two routes for the same requests: YARP answers 500 to each of them.
    fn same_route(&mut self, path: &str, route: &Route, paths: &[String], before: &[Route]) {
        let same = before.iter().position(|other| route::is_same(route, other));
        if let Some(other) = same.and_then(|place| paths.get(place)) {
            let other = other.clone();
            self.mistakes.error(path, Problem::SameAs { path: other });
        }
    }
}

fn bad_id(id: &str) -> Option<&'static str> {
    if id.is_empty() {
        Some("it is empty")
    } else if id.contains(':') {
        Some("`:` parts the sections of a .NET configuration, and cannot stand in a key")
    } else if id.contains(casing::LONG_S) {
        Some("U+017F, the long s, gives other cookies on other hosts")
    } else if id.contains(char::is_control) {
        Some("it has control characters")
    } else {
        None
    }
}

/// What YARP has and the relay does not: the key, the value that asks for nothing, and what to do.
type NotDone = (&'static str, &'static str, &'static str);

/// Refuses the keys of `table`, unless they are empty or ask for nothing.
fn refuse(section: &mut Section<'_>, table: &[NotDone], mistakes: &mut Mistakes) {
    for (key, harmless, instead) in table {
        let Some(place) = section.take(key) else {
            continue;
        };
        let is_harmless = |text: &str| !harmless.is_empty() && text.eq_ignore_ascii_case(harmless);
        let text = match scalar::is_empty(&place) {
            true => continue,
            false => scalar::text(&place, &mut Mistakes::default()),
        };
        if !text.is_some_and(|text| is_harmless(text.trim())) {
            let problem = ReverseProblem::NotDone { instead };
            mistakes.error(&place.path, problem.into());
        }
    }
}

/// The entries of `Metadata`, all text. Those that `known` does not name are warned about.
fn metadata<'t>(
    section: &mut Section<'t>,
    known: &[&'static str],
    max: usize,
    mistakes: &mut Mistakes,
) -> Vec<(&'static str, Place<'t>)> {
    let place = section
        .take("Metadata")
        .filter(|place| !scalar::is_empty(place));
    let Some(mut entries) = place.and_then(|place| place.section_of_any_case(mistakes)) else {
        return Vec::new();
    };
    let path = entries.path.clone();
    let take = |key: &&'static str| entries.take(key).map(|place| (*key, place));
    let found = known.iter().filter_map(take).collect();
    let left = entries.places();
    if left.len() > max {
        mistakes.error(&path, Problem::TooMany { max });
        return found;
    }
    for (_, place) in left {
        if scalar::text(&place, mistakes).is_some() {
            mistakes.warning(&place.path, ReverseConcern::UnreadMetadata.into());
        }
    }
    found
}

/// The section under `key`; `None` where it is missing or empty.
fn part<'t>(
    section: &mut Section<'t>,
    key: &'static str,
    mistakes: &mut Mistakes,
) -> Option<Section<'t>> {
    let place = section.take(key).filter(|place| !scalar::is_empty(place))?;
    place.section_of_any_case(mistakes)
}

/// The value under `key`; `None` where it is missing or empty, which is the default in .NET.
fn value<'t>(section: &mut Section<'t>, key: &'static str) -> Option<Place<'t>> {
    section.take(key).filter(|place| !is_blank(place))
}

fn is_blank(place: &Place<'_>) -> bool {
    matches!(place.node, super::tree::Node::Text(text) if text.is_empty())
}
