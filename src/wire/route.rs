//! Which route a request goes by: order, path, methods, host.
//!
//! Owns the precedence of routes, as ASP.NET's endpoint routing has it: the smallest `Order` first;
//! then the more literal path, segment by segment; then a route that names methods; then one that
//! names hosts, exact names before `*.`, longer before shorter, a port before none. What is equal
//! in all of it goes by the order of the file, where ASP.NET would answer 500.
//!
//! A path is compared as ASP.NET sees it, decoded but for `%2F`, in any case of letters. Unlike
//! ASP.NET nothing is normalised: a path with a `.` or `..` segment, escaped or not, goes by no
//! route, because the destination would see another path than the one that was matched. Not done
//! either: constraints, defaults and optional parameters, segments of several parts, headers and
//! query, all of which the configuration refuses; and an exact host wins only after the path.

use std::borrow::Cow;
use std::cmp::Reverse;

use super::percent;
use crate::model::casing;
use crate::model::proxy::{HostName, HostPattern, PathTemplate, Route, Segment};

/// What was found for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// The place of the route among those given to [`Router::new`].
    Route(usize),
    /// Routes for this path and host take other methods only: 405.
    OtherMethod,
    None,
}

/// A request as routes see it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// In upper case.
    pub method: &'a str,
    /// Path and query, raw.
    pub target: &'a str,
    /// The value of `Host`.
    pub host: &'a str,
    /// Tells the port that a host without one means.
    pub is_tls: bool,
}

/// All routes in the order in which they are tried.
#[derive(Clone, Debug, Default)]
pub struct Router {
    routes: Vec<Route>,
    order: Vec<usize>,
}

impl Router {
    /// Sorts the routes. Bounded by O(n log n) in their number.
    pub fn new(routes: &[Route]) -> Router {
        let mut order: Vec<usize> = (0..routes.len()).collect();
        order.sort_by_cached_key(|place| {
            let route = &routes[*place];
            (route.order, digits(&route.path), route.methods.is_empty())
        });
        Router {
            routes: routes.to_vec(),
            order,
        }
    }

    /// The route for a request. Bounded by the number of routes times the length of the path.
    pub fn find(&self, asked: Asked<'_>) -> Match {
        let path = asked.target.split('?').next().unwrap_or("");
        let Some(segments) = segments(path) else {
            return Match::None;
        };
        let (name, port) = host_and_port(asked.host, asked.is_tls);
        let mut best: Option<(usize, Specificity)> = None;
        let mut found = Match::None;
        for place in &self.order {
            let route = &self.routes[*place];
            // Only a host can still decide between routes of one rank.
            if best
                .as_ref()
                .is_some_and(|(best, _)| !self.is_level(*best, *place))
            {
                break;
            }
            let Some(specificity) = host_specificity(&route.hosts, &name, port) else {
                continue;
            };
            if !takes_path(&route.path, &segments) {
                continue;
            }
            if !route.methods.is_empty() && !route.methods.iter().any(|own| **own == *asked.method)
            {
                found = Match::OtherMethod;
                continue;
            }
            if best.as_ref().is_none_or(|(_, best)| specificity > *best) {
                best = Some((*place, specificity));
            }
        }
        best.map_or(found, |(place, _)| Match::Route(place))
    }

    /// Whether order, path and methods leave it open which of the two comes first.
    fn is_level(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.routes[one], &self.routes[other]);
        one.order == other.order
            && one.methods.is_empty() == other.methods.is_empty()
            && digits(&one.path) == digits(&other.path)
    }
}

/// ASP.NET's inbound precedence, a digit a segment: 1 literal, 3 parameter, 5 the rest.
fn digits(path: &PathTemplate) -> Vec<u8> {
    let digit = |segment: &Segment| match segment {
        Segment::Literal(_) => 1,
        Segment::Any => 3,
    };
    let rest = path.takes_rest.then_some(5);
    path.segments.iter().map(digit).chain(rest).collect()
}

/// The segments of a raw path, decoded. `None` for a path that no route takes. One slash at the end
/// makes no segment, as in ASP.NET.
fn segments(path: &str) -> Option<Vec<Cow<'_, str>>> {
    let path = path.strip_prefix('/')?;
    if path.is_empty() {
        return Some(Vec::new());
    }
    let path = path.strip_suffix('/').unwrap_or(path);
    path.split('/').map(segment).collect()
}

/// What stands in one segment; escapes that make no text, or a NUL, stay as they are.
fn segment(raw: &str) -> Option<Cow<'_, str>> {
    let decoded = percent::decode(raw).filter(|text| !text.contains('\0'));
    let mut text = decoded.unwrap_or(Cow::Borrowed(raw));
    if text.contains('/') {
        // ASP.NET leaves an escaped slash alone; decoded, it would part two segments.
        text = Cow::Owned(text.replace('/', "%2F"));
    }
    (text != "." && text != "..").then_some(text)
}

fn takes_path(template: &PathTemplate, segments: &[Cow<'_, str>]) -> bool {
    let wanted = template.segments.len();
    let fits = match template.takes_rest {
        true => segments.len() >= wanted,
        false => segments.len() == wanted,
    };
    let takes = |(own, given): (&Segment, &Cow<'_, str>)| match own {
        Segment::Literal(text) => casing::same(text, given),
        Segment::Any => !given.is_empty(),
    };
    fits && template.segments.iter().zip(segments).all(takes)
}

/// How closely a route names the host: named at all, exactly, length, port.
type Specificity = (bool, bool, Reverse<usize>, bool);

/// That of the pattern that names this host most closely. `None` = the route is for other hosts.
fn host_specificity(hosts: &[HostPattern], name: &str, port: Option<u16>) -> Option<Specificity> {
    if hosts.is_empty() {
        return Some((false, false, Reverse(usize::MAX), false));
    }
    let fitting = hosts.iter().filter_map(|pattern| {
        let has_port = pattern.port.is_some();
        if has_port && pattern.port != port {
            return None;
        }
        match &pattern.name {
            HostName::Any => has_port.then_some((true, false, Reverse(usize::MAX), true)),
            HostName::Exact(own) => (**own == *name).then_some((true, true, Reverse(0), has_port)),
            HostName::Below(own) => {
                let left = name.len().checked_sub(own.len())?;
                let fits = left > 0 && name.ends_with(&**own);
                // The fewer letters the `*` stands for, the closer.
                fits.then_some((true, false, Reverse(left), has_port))
            }
        }
    });
    let any = hosts.contains(&ANY_HOST);
    fitting
        .max()
        .or(any.then_some((false, false, Reverse(usize::MAX), false)))
}

/// `*`, which names every host and so none.
const ANY_HOST: HostPattern = HostPattern {
    name: HostName::Any,
    port: None,
};

/// A `Host` in lower case, and its port or the usual one.
fn host_and_port(host: &str, is_tls: bool) -> (String, Option<u16>) {
    let usual = if is_tls { 443 } else { 80 };
    let end = host.rfind(']').map_or(0, |end| end + 1);
    let (name, port) = match host[end..].rfind(':') {
        Some(colon) => (&host[..end + colon], host[end + colon + 1..].parse().ok()),
        None => (host, Some(usual)),
    };
    (name.to_ascii_lowercase(), port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(path: &str) -> PathTemplate {
        let parts = path.split('/').filter(|part| !part.is_empty());
        let mut template = PathTemplate::default();
        for part in parts {
            match part {
                "{**}" => template.takes_rest = true,
                "{}" => template.segments.push(Segment::Any),
                text => template.segments.push(Segment::Literal(text.into())),
            }
        }
        template
    }

    fn host(text: &str) -> HostPattern {
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => (name, Some(port.parse().unwrap())),
            None => (text, None),
        };
        let name = match name.strip_prefix('*') {
            Some("") => HostName::Any,
            Some(below) => HostName::Below(below.into()),
            None => HostName::Exact(name.into()),
        };
        HostPattern { name, port }
    }

    fn route(path: &str) -> Route {
        Route {
            id: path.into(),
            cluster: 0,
            path: template(path),
            hosts: Vec::new(),
            methods: Vec::new(),
            order: 0,
            region_slot: None,
        }
    }

    fn asked<'a>(method: &'a str, target: &'a str, host: &'a str) -> Asked<'a> {
        Asked {
            method,
            target,
            host,
            is_tls: false,
        }
    }

    /// The path of the route that takes `target`.
    fn taker<'a>(paths: &[&'a str], target: &str) -> Option<&'a str> {
        let routes: Vec<Route> = paths.iter().map(|path| route(path)).collect();
        match Router::new(&routes).find(asked("GET", target, "a")) {
            Match::Route(place) => Some(paths[place]),
            _ => None,
        }
    }

    #[test]
    fn the_more_literal_path_wins_wherever_it_stands() {
        let paths = ["/{**}", "/a/{**}", "/a/{}", "/a/b", "/{}/b", "/a", "/"];
        for (target, want) in [
            ("/a/b", "/a/b"),
            ("/a/b/", "/a/b"),
            ("/A/B?x=/c", "/a/b"),
            ("/a/c", "/a/{}"),
            ("/a/c/d", "/a/{**}"),
            ("/c/b", "/{}/b"),
            ("/a", "/a"),
            ("/a/", "/a"),
            ("/", "/"),
            ("/?b", "/"),
            ("/c", "/{**}"),
            ("/a//", "/a/{**}"),
            ("//a/b", "/{**}"),
            ("//", "/{**}"),
        ] {
            assert_eq!(taker(&paths, target), Some(want), "{target}");
        }
        assert_eq!(taker(&["/a/{**}"], "/a"), Some("/a/{**}"));
        assert_eq!(taker(&["/a/{}"], "/a/"), None);
        assert_eq!(taker(&["/a/{}"], "/a//"), None);
        assert_eq!(taker(&["/a"], "/a/b"), None);
    }

    #[test]
    fn escapes_are_decoded_but_an_escaped_slash_parts_nothing() {
        for (path, target, is_taken) in [
            ("/a b", "/a%20b", true),
            ("/é", "/%c3%89", true),
            ("/a/{}", "/a/b%2Fc", true),
            ("/a/b/c", "/a/b%2fc", false),
            ("/a%2Fb", "/a%2fb", true),
            ("/a/{}", "/a/%ff", true),
            ("/a/{}", "/a/%zz", true),
            ("/a/{}", "/a/%00", true),
        ] {
            assert_eq!(
                taker(&[path], target).is_some(),
                is_taken,
                "{path} {target}"
            );
        }
    }

    #[test]
    fn a_path_that_leads_elsewhere_goes_by_no_route() {
        for target in [
            "/a/../b",
            "/a/..",
            "/./a",
            "/a/%2e%2E/b",
            "/a/.%2e",
            "/%2e",
            "/a/../",
        ] {
            assert_eq!(taker(&["/{**}"], target), None, "{target}");
        }
        for target in ["/a/...", "/a/.b", "/..a", "/a?b=/../c"] {
            assert!(taker(&["/{**}"], target).is_some(), "{target}");
        }
    }

    #[test]
    fn the_smaller_order_comes_before_any_path() {
        let mut routes = vec![route("/a"), route("/{**}")];
        routes[1].order = -1;
        let router = Router::new(&routes);
        assert_eq!(router.find(asked("GET", "/a", "a")), Match::Route(1));
    }

    #[test]
    fn what_is_equal_goes_by_the_order_of_the_file() {
        let routes = [route("/a/{}"), route("/a/{}")];
        let router = Router::new(&routes);
        assert_eq!(router.find(asked("GET", "/a/b", "a")), Match::Route(0));
    }

    #[test]
    fn other_methods_are_told_from_other_paths() {
        let mut only_post = route("/a");
        only_post.methods = vec!["POST".into(), "PUT".into()];
        let router = Router::new(&[only_post.clone()]);
        assert_eq!(router.find(asked("PUT", "/a", "a")), Match::Route(0));
        assert_eq!(router.find(asked("OPTIONS", "/a", "a")), Match::OtherMethod);
        assert_eq!(router.find(asked("GET", "/b", "a")), Match::None);
        let router = Router::new(&[route("/a"), only_post]);
        assert_eq!(router.find(asked("PUT", "/a", "a")), Match::Route(1));
        assert_eq!(router.find(asked("GET", "/a", "a")), Match::Route(0));
    }

    #[test]
    fn the_closest_host_wins() {
        let patterns = [
            "*",
            "*.example.com",
            "*.a.example.com",
            "a.example.com",
            "a.example.com:8080",
            "*:81",
        ];
        let mut routes = vec![route("/")];
        for pattern in patterns {
            routes.push(route("/"));
            routes.last_mut().unwrap().hosts = vec![host(pattern)];
        }
        let router = Router::new(&routes);
        for (host, want) in [
            ("A.example.com", 4),
            ("a.example.com:80", 4),
            ("a.example.com:8080", 5),
            ("b.example.com", 2),
            ("x.a.example.com", 3),
            ("example.com", 0),
            ("example.org:81", 6),
            ("[::1]:81", 6),
            ("[::1]", 0),
        ] {
            let found = router.find(asked("GET", "/", host));
            assert_eq!(found, Match::Route(want), "{host}");
        }
        let only = Router::new(&routes[2..3]);
        assert_eq!(only.find(asked("GET", "/", "notexample.com")), Match::None);
        assert_eq!(only.find(asked("GET", "/", "example.com")), Match::None);
        let tls = Asked {
            is_tls: true,
            ..asked("GET", "/", "x:443")
        };
        let mut routes = vec![route("/")];
        routes[0].hosts = vec![host("*:443")];
        let router = Router::new(&routes);
        assert_eq!(router.find(tls), Match::Route(0));
        assert_eq!(router.find(Asked { host: "x", ..tls }), Match::Route(0));
        assert_eq!(router.find(asked("GET", "/", "x")), Match::None);
    }
}
