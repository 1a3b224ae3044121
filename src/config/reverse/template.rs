//! Path templates and host patterns of routes, from text.
//!
//! Owns the part of ASP.NET's route templates that the relay does: literals, `{name}` for one
//! segment, and `{**rest}` or `{*rest}` at the end, which differ only in links that nobody makes
//! here. Constraints, defaults, optional parameters and segments of several parts are refused by
//! name.
//!
//! Hosts are those of ASP.NET's `RequireHost`: a name, `*.` and a name, `*`, each with a port or
//! without.

use crate::config::error::{Problem, ReverseProblem};
use crate::model::casing;
use crate::model::proxy::{HostName, HostPattern, PathTemplate, Segment};

/// Reads a path template. Bounded by the length of `text`, squared in its parameters.
pub fn path_template(text: &str) -> Result<PathTemplate, Problem> {
    let path = text
        .strip_prefix('~')
        .filter(|rest| rest.starts_with('/'))
        .unwrap_or(text);
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    let mut template = PathTemplate::default();
    let mut names: Vec<&str> = Vec::new();
    if path.is_empty() && !text.ends_with("//") {
        return Ok(template);
    }
    for part in path.split('/') {
        if template.takes_rest {
            return refuse("`{**rest}` must be its end");
        }
        match parameter(part)? {
            None => template
                .segments
                .push(Segment::Literal(literal(part)?.into())),
            Some(name) => {
                let bare = name.trim_start_matches('*');
                if names.iter().any(|other| casing::same(other, bare)) {
                    return refuse("two of its parameters have one name");
                }
                names.push(bare);
                match name.len() - bare.len() {
                    0 => template.segments.push(Segment::Any),
                    1 | 2 => template.takes_rest = true,
                    _ => return refuse("write `{**rest}` for the rest"),
                }
            }
        }
    }
    Ok(template)
}

/// The name in a segment that is one parameter.
fn parameter(part: &str) -> Result<Option<&str>, Problem> {
    if !part.contains(['{', '}']) {
        return Ok(None);
    }
    let name = part
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    let Some(name) = name.filter(|name| !name.contains(['{', '}'])) else {
        let instead = "a segment of a path is either text or one `{name}`";
        return Err(ReverseProblem::NotDone { instead }.into());
    };
    if name.contains([':', '=', '?']) {
        let instead =
            "a parameter has no constraint, no default, and must be there: write `{name}`";
        return Err(ReverseProblem::NotDone { instead }.into());
    }
    match name.trim_start_matches('*') {
        "" => refuse("a parameter has no name"),
        bare if bare.contains('*') => refuse("write `{**rest}` for the rest"),
        _ => Ok(Some(name)),
    }
}

fn literal(part: &str) -> Result<&str, Problem> {
    match part {
        "" => refuse("it has an empty segment"),
        "." | ".." => refuse("no request has `.` or `..` in it that goes by a route"),
        _ if part.contains('?') => refuse("it ends before the `?`"),
        _ => Ok(part),
    }
}

fn refuse<T>(reason: &'static str) -> Result<T, Problem> {
    Err(ReverseProblem::NotATemplate { reason }.into())
}

/// Reads a host pattern. Bounded by the length of `text`.
pub fn host_pattern(text: &str) -> Result<HostPattern, Problem> {
    let refuse = |reason| Err(ReverseProblem::NotAHost { reason }.into());
    let end = text.rfind(']').map_or(0, |end| end + 1);
    let (name, port) = match text[end..].rfind(':') {
        Some(colon) => (&text[..end + colon], Some(&text[end + colon + 1..])),
        None => (text, None),
    };
    let port = match port {
        None | Some("*") => None,
        Some(digits) => match digits.parse() {
            Ok(port) => Some(port),
            Err(_) => return refuse("its port must be a number, or `*`"),
        },
    };
    let below = name.strip_prefix("*.");
    let bare = below.unwrap_or(name);
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let is_literal = bare.strip_prefix('[').is_some_and(|rest| {
        let address = rest.strip_suffix(']').map(str::parse::<std::net::Ipv6Addr>);
        address.is_some_and(|address| address.is_ok())
    });
    if name == "*" {
        let name = HostName::Any;
        return Ok(HostPattern { name, port });
    }
    if !bare.is_ascii() {
        return refuse("write it as requests have it, in ASCII, with `xn--`");
    }
    let is_name = !bare.is_empty() && bare.bytes().all(legal);
    if !is_name && (!is_literal || below.is_some()) {
        return refuse("write a name or an address, `*.` and a name, or `*`");
    }
    let bare = bare.to_ascii_lowercase();
    Ok(HostPattern {
        name: match below {
            Some(_) => HostName::Below(format!(".{bare}").into()),
            None => HostName::Exact(bare.into()),
        },
        port,
    })
}
