//! The reverse proxy: affinity cookies, routes and time spans.
//!
//! Claims: a cookie is read as by a reader that starts again at each character; a route that is
//! found takes the request, and none that takes it comes before; a time span is read as by a reader
//! of one character at a time, and what it says in full reads the same.

use staffetta::config::timespan;
use staffetta::model::casing;
use staffetta::model::proxy::{HostName, HostPattern, PathTemplate, Route, Segment};
use staffetta::wire::affinity::cookie as cookies;
use staffetta::wire::route::{Asked, Match, Router};

pub const COOKIE_WORDS: &[&str] = &[
    "Aff=", "aff=", "Aff=a; ", "Aff", "=", "\"", ";", ",", " ", "\t", "\n", "%41", "%", "%zz", "@",
    "\\", "a=", "é",
];

pub const ROUTE_WORDS: &[&str] = &[
    "\n", "/", "//", "{}", "{**}", "a", "A", "b", "%2F", "%2e", "..", ".", "?", "-1 ", "1 ",
    "GET ", "PUT ", "*.a ", "b.a ", "*:81 ", "/a/{**}", "/a/{}",
];

pub const TIMESPAN_WORDS: &[&str] = &[
    "00:00:01",
    "1.02:03:04.5",
    "-",
    ":",
    ".",
    "0",
    "9",
    "23",
    "59",
    "60",
    " ",
    "\t",
    "10675199",
    ".4775807",
    "02:48:05",
];

pub fn cookie(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let lines: Vec<&str> = text.split('\n').collect();
    let read = cookies::read(lines.iter().copied(), "Aff");
    let mut found: Option<Vec<u8>> = None;
    for line in &lines {
        let line = line.as_bytes();
        let mut at = 0;
        while at < line.len() {
            match naive_pair(line, at) {
                None => at += 1,
                Some((name, value, next)) => {
                    if name.eq_ignore_ascii_case(b"Aff") && !value.is_empty() {
                        found = Some(value.to_vec());
                    }
                    at = next;
                }
            }
        }
    }
    match (&read, found) {
        (None, found) => assert_eq!(found, None),
        (Some(read), Some(raw)) => {
            let decoded = naive_unescape(&raw);
            let is_text = std::str::from_utf8(&decoded).is_ok();
            assert_eq!(read.as_bytes(), if is_text { decoded } else { raw });
        }
        (Some(read), None) => panic!("{read:?} is nowhere"),
    }
}

/// Name, value, and where to go on.
fn naive_pair(line: &[u8], at: usize) -> Option<(&[u8], &[u8], usize)> {
    let is_gap = |at: usize| line.get(at).is_some_and(|byte| b" \t,;".contains(byte));
    let mut start = at;
    while is_gap(start) {
        start += 1;
    }
    if start == line.len() {
        return Some((b"", b"", start));
    }
    let mut end = start;
    while line
        .get(end)
        .is_some_and(|byte| (0x21..0x7f).contains(byte) && !b"()<>@,;:\\\"/[]?={}".contains(byte))
    {
        end += 1;
    }
    let name = &line[start..end];
    if name.is_empty() || line.get(end) != Some(&b'=') {
        return None;
    }
    let from = end + 1;
    let is_quoted = line.get(from) == Some(&b'"');
    let mut end = from + usize::from(is_quoted);
    while line
        .get(end)
        .is_some_and(|byte| (0x21..0x7f).contains(byte) && !b"\",;\\".contains(byte))
    {
        end += 1;
    }
    let mut value = &line[from..end];
    if is_quoted {
        if line.get(end) == Some(&b'"') {
            end += 1;
            value = &line[from..end];
        } else {
            value = b"";
        }
    }
    let mut next = end;
    let mut has_separator = false;
    while is_gap(next) {
        has_separator |= b",;".contains(&line[next]);
        next += 1;
    }
    (has_separator || next == line.len()).then_some((name, value, next))
}

fn naive_unescape(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < raw.len() {
        let digits = raw.get(at + 1..at + 3).unwrap_or_default();
        let is_hex = digits.len() == 2 && digits.iter().all(u8::is_ascii_hexdigit);
        if raw[at] == b'%' && is_hex {
            let digits = std::str::from_utf8(digits).expect("ASCII");
            out.push(u8::from_str_radix(digits, 16).expect("two hex digits"));
            at += 3;
        } else {
            out.push(raw[at]);
            at += 1;
        }
    }
    out
}

/// The first line is method, host and target; each other one a route: order, method or `-`, host
/// or `-`, and path.
pub fn route(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut lines = text.lines();
    let mut words = lines.next().unwrap_or("").splitn(3, ' ');
    let mut word = || words.next().unwrap_or("");
    let asked = Asked {
        method: word(),
        host: word(),
        target: word(),
        is_tls: false,
    };
    let routes: Vec<Route> = lines.take(8).map(naive_route).collect();
    let router = Router::new(&routes);
    let found = router.find(asked);
    let path = asked.target.split('?').next().unwrap_or("");
    let takes =
        |route: &Route| takes_path(&route.path, path) && takes_host(&route.hosts, asked.host);
    let has_method = |route: &Route| {
        route.methods.is_empty() || route.methods.iter().any(|own| &**own == asked.method)
    };
    let rank = |route: &Route| {
        let digit = |segment: &Segment| if *segment == Segment::Any { '3' } else { '1' };
        let mut digits: String = route.path.segments.iter().map(digit).collect();
        digits.extend(route.path.takes_rest.then_some('5'));
        (route.order, digits, route.methods.is_empty())
    };
    match found {
        Match::Route(place) => {
            let best = &routes[place];
            assert!(takes(best) && has_method(best), "{best:?}");
            for other in routes
                .iter()
                .filter(|route| takes(route) && has_method(route))
            {
                assert!(rank(best) <= rank(other), "{other:?} before {best:?}");
            }
        }
        Match::OtherMethod => {
            assert!(routes.iter().any(takes));
            assert!(!routes.iter().any(|route| takes(route) && has_method(route)));
        }
        Match::None => assert!(!routes.iter().any(takes), "{asked:?}"),
    }
    assert_eq!(router.find(asked), found);
}

fn naive_route(line: &str) -> Route {
    let mut words = line.splitn(4, ' ');
    let mut word = || words.next().unwrap_or("");
    let order = word().parse().unwrap_or(0);
    let methods = match word() {
        "" | "-" => Vec::new(),
        method => vec![method.into()],
    };
    let hosts = match word() {
        "" | "-" => Vec::new(),
        host => {
            let (name, port) = host.split_once(':').unwrap_or((host, ""));
            let name = match name.strip_prefix('*') {
                Some("") => HostName::Any,
                Some(below) => HostName::Below(below.to_ascii_lowercase().into()),
                None => HostName::Exact(name.to_ascii_lowercase().into()),
            };
            let port = port.parse().ok();
            vec![HostPattern { name, port }]
        }
    };
    let mut path = PathTemplate::default();
    for part in word().split('/').filter(|part| !part.is_empty()) {
        match part {
            _ if path.takes_rest => {}
            "{**}" => path.takes_rest = true,
            "{}" => path.segments.push(Segment::Any),
            text => path.segments.push(Segment::Literal(text.into())),
        }
    }
    Route {
        id: "r".into(),
        cluster: 0,
        path,
        hosts,
        methods,
        order,
        region_slot: None,
    }
}

fn takes_path(template: &PathTemplate, path: &str) -> bool {
    let Some(path) = path.strip_prefix('/') else {
        return false;
    };
    let mut given: Vec<String> = path.split('/').map(naive_segment).collect();
    if given
        .iter()
        .any(|segment| segment == "." || segment == "..")
    {
        return false;
    }
    if given.last().is_some_and(String::is_empty) {
        given.pop();
    }
    let mut given = given.into_iter();
    for segment in &template.segments {
        let fits = match (segment, given.next()) {
            (_, None) => false,
            (Segment::Any, Some(text)) => !text.is_empty(),
            (Segment::Literal(own), Some(text)) => {
                casing::upper_text(own) == casing::upper_text(&text)
            }
        };
        if !fits {
            return false;
        }
    }
    template.takes_rest || given.next().is_none()
}

fn naive_segment(raw: &str) -> String {
    let is_whole = raw.split('%').skip(1).all(|rest| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    });
    let decoded = String::from_utf8(naive_unescape(raw.as_bytes())).ok();
    match decoded.filter(|text| is_whole && !text.contains('\0')) {
        Some(text) => text.replace('/', "%2F"),
        None => raw.to_owned(),
    }
}

fn takes_host(hosts: &[HostPattern], host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    let bracket = host.rfind(']').unwrap_or(0);
    let (name, port) = match host.rfind(':').filter(|colon| *colon >= bracket) {
        Some(colon) => (&host[..colon], host[colon + 1..].parse().ok()),
        None => (&*host, Some(80)),
    };
    let takes = |pattern: &HostPattern| {
        let fits = match &pattern.name {
            HostName::Any => true,
            HostName::Exact(own) => name == &**own,
            HostName::Below(own) => name.len() > own.len() && name.ends_with(&**own),
        };
        fits && (pattern.port.is_none() || pattern.port == port)
    };
    hosts.is_empty() || hosts.iter().any(takes)
}

pub fn timespan(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let ticks = timespan::ticks(&text);
    assert_eq!(ticks, naive_ticks(&text), "{text:?}");
    let duration = timespan::duration(&text);
    let Some(ticks) = ticks else {
        assert_eq!(duration, None);
        return;
    };
    match u64::try_from(ticks) {
        Ok(ticks) => assert_eq!(
            duration.map(|span| span.as_nanos()),
            Some(u128::from(ticks) * 100)
        ),
        Err(_) => assert_eq!(duration, None),
    }
    let sign = if ticks < 0 { "-" } else { "" };
    let rest = ticks.unsigned_abs();
    let (seconds, fraction) = (rest / 10_000_000, rest % 10_000_000);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let written = format!(
        "{sign}{}.{:02}:{:02}:{:02}.{fraction:07}",
        hours / 24,
        hours % 24,
        minutes % 60,
        seconds % 60
    );
    assert_eq!(
        timespan::ticks(&written),
        Some(ticks),
        "{text:?} is {written}"
    );
    assert!(!timespan::is_days(&written));
}

/// Takes the text apart into numbers and the characters between them, then asks which shape it is.
fn naive_ticks(text: &str) -> Option<i64> {
    let is_blank = |c: &char| *c == ' ' || *c == '\t';
    let start = text.chars().position(|c| !is_blank(&c))?;
    let mut letters: Vec<char> = text.chars().skip(start).collect();
    while letters.last().is_some_and(is_blank) {
        letters.pop();
    }
    let is_negative = letters.first() == Some(&'-');
    let mut shape = String::new();
    let mut numbers: Vec<String> = Vec::new();
    for letter in &letters[usize::from(is_negative)..] {
        if letter.is_ascii_digit() {
            if !shape.ends_with('n') {
                shape.push('n');
                numbers.push(String::new());
            }
            numbers.last_mut()?.push(*letter);
        } else {
            shape.push(*letter);
        }
    }
    let number = |place: usize| numbers[place].trim_start_matches('0').to_owned();
    let value = |place: usize| -> Option<i128> {
        let digits = number(place);
        let digits = if digits.is_empty() {
            "0".to_owned()
        } else {
            digits
        };
        digits.parse().ok().filter(|_| digits.len() < 20)
    };
    let fraction = |place: usize| -> Option<i128> {
        let digits = &numbers[place];
        (digits.len() <= 7)
            .then(|| format!("{digits:0<7}").parse().ok())
            .flatten()
    };
    let (days, clock) = match shape.as_str() {
        "n" => (value(0)?, [0, 0, 0, 0]),
        "n:n" => (0, [value(0)?, value(1)?, 0, 0]),
        "n:n:n" | "n:n:n." => (0, [value(0)?, value(1)?, value(2)?, 0]),
        "n:n:n.n" => (0, [value(0)?, value(1)?, value(2)?, fraction(3)?]),
        "n.n:n" => (value(0)?, [value(1)?, value(2)?, 0, 0]),
        "n.n:n:n" | "n.n:n:n." => (value(0)?, [value(1)?, value(2)?, value(3)?, 0]),
        "n.n:n:n.n" => (value(0)?, [value(1)?, value(2)?, value(3)?, fraction(4)?]),
        _ => return None,
    };
    let [hours, minutes, seconds, fraction] = clock;
    if hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    let seconds = ((days * 24 + hours) * 60 + minutes) * 60 + seconds;
    let ticks = seconds * 10_000_000 + fraction;
    i64::try_from(if is_negative { -ticks } else { ticks }).ok()
}
