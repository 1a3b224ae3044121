//! Who may use whom.
//!
//! `state` decides and `wire` translates; neither knows the other, and neither can wait, read a
//! clock or say anything: what they need is handed to them, and a simulation can be the world.
//! `net` does all of that and decides nothing. The table below is the whole of it.

use crate::source::{Source, paths};
use crate::{Rule, sample};

pub const RULES: &[Rule] = &[ROOMS, PURE, CLOCK];

/// Rooms with a limited view: the room, and what it may use of the crate besides itself.
const TABLE: &[(&str, &[&str])] = &[
    ("model", &["time"]),
    ("time", &[]),
    ("limits", &["time", "model"]),
    ("config", &["model", "limits", "time"]),
    ("state", &["model", "time", "limits"]),
    ("wire", &["model", "time", "limits"]),
];

/// Rooms in which nothing may wait, block, read a clock or speak.
const PURE_ROOMS: &[&str] = &["model", "time", "limits", "state", "wire"];

/// What the world begins with.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::thread",
    "std::process",
    "std::env",
    "std::os",
    "std::sync::mpsc",
    "std::io::stdin",
    "std::io::stdout",
    "std::io::stderr",
    "std::net::TcpStream",
    "std::net::TcpListener",
    "std::net::UdpSocket",
    "std::net::ToSocketAddrs",
    "std::net::self",
    "std::net::*",
    "smol",
    "async_signal",
    "futures_lite::future::block_on",
    "listenfd",
    "log",
    "rustix",
    "rustls",
    "socket2",
];

const ROOMS: Rule = Rule {
    name: "rooms",
    samples: || {
        vec![
            sample(
                "src/state/fanout.rs",
                "use crate::model::SlotKey;\n\
             use crate::{time::Instant, wire::sse};<--\n\
             use super::slots;\n\
             fn a() { super::super::net::log::write(); }<--\n\
             fn b() { crate::state::slots::c(); }",
            ),
            sample(
                "src/wire/http/head.rs",
                "use crate::state::slots;<--\nuse super::super::sse;",
            ),
            sample(
                "src/wire/mod.rs",
                "use super::config::Config;<--\nuse crate::limits::Limits;",
            ),
            sample(
                "src/model.rs",
                "use crate::limits::Limits;<--\n\
                 use bytes::Bytes;\n\
                 use super::time::WallMs;\n\
                 #[cfg(test)]\n\
                 mod tests { use super::*; }",
            ),
            sample(
                "src/config.rs",
                "use crate::net::disk;<--\nuse crate::model::Id;",
            ),
            sample("src/net/driver.rs", "use crate::{config, state, wire};"),
        ]
    },
    check: |source| {
        let Some((room, allowed)) =
            room(source).and_then(|room| TABLE.iter().find(|(name, _)| *name == room).copied())
        else {
            return Vec::new();
        };
        let strange = paths(source).into_iter().filter_map(|(line, path)| {
            let used = top_level_name(source, line, &path)?;
            let fine = used == room || allowed.contains(&used);
            (!fine).then(|| {
                let advice = format!(
                    "`{room}` may not use `{used}`, only {allowed:?}: let `net` carry it between \
                     them, or declare the noun that both need in `model`"
                );
                source.violation(line, advice)
            })
        });
        strange.collect()
    },
};

const PURE: Rule = Rule {
    name: "pure rooms",
    samples: || {
        vec![
            sample(
                "src/state/slots.rs",
                "use std::{collections::BTreeMap, fs};<--\n\
             use std::io::IoSlice;\n\
             use std::net::IpAddr;\n\
             fn a() { std::thread::yield_now() }<--\n\
             use smol::Timer;<--\n\
             #[cfg(test)]\n\
             mod tests { use std::fs; }",
            ),
            sample("src/net/listen.rs", "use std::net::TcpListener;"),
        ]
    },
    check: |source| {
        if !room(source).is_some_and(|room| PURE_ROOMS.contains(&room)) {
            return Vec::new();
        }
        let outside = paths(source).into_iter().filter(|(line, path)| {
            let path = path.join("::");
            let starts = |impure: &&str| {
                path.strip_prefix(*impure)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
            };
            !source.lines[*line].is_test && IMPURE.iter().any(starts)
        });
        outside
            .map(|(line, path)| {
                let advice = format!(
                    "`{}` reaches outside: take the value as an argument, or move this into `net`",
                    path.join("::")
                );
                source.violation(line, advice)
            })
            .collect()
    },
};

const CLOCK: Rule = Rule {
    name: "clock",
    samples: || {
        vec![
            sample(
                "src/net/driver.rs",
                "use std::time::{Duration, Instant};<--\n\
             use std::time;<--\n\
             use crate::time::Instant;\n\
             fn a() { std::time::SystemTime::now(); }<--\n\
                 #[cfg(test)]\n\
                 use std::time::Instant;",
            ),
            sample("src/net/clock.rs", "use std::time::{Instant, SystemTime};"),
        ]
    },
    check: |source| {
        let reads = ["src/time.rs", "src/net/clock.rs"].contains(&source.path.as_str());
        if !source.ships() || reads {
            return Vec::new();
        }
        let clocks = ["Instant", "SystemTime", "UNIX_EPOCH", "self", "*"];
        let read = paths(source).into_iter().filter(|(line, path)| {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            match path[..] {
                _ if source.lines[*line].is_test => false,
                ["std", "time"] => true,
                ["std", "time", what, ..] => clocks.contains(&what),
                _ => false,
            }
        });
        let advice = "only `net::clock` reads the clock: use `crate::time`, and take `now` as the \
                      last argument";
        read.map(|(line, _)| source.violation(line, advice))
            .collect()
    },
};

/// The room that a file of `src/` belongs to.
fn room(source: &Source) -> Option<&str> {
    let inside = source.path.strip_prefix("src/")?;
    inside.split('/').next()?.split('.').next()
}

/// The name below the crate's root that `path` leads to, if it goes by the root.
fn top_level_name<'a>(source: &Source, line: usize, path: &'a [String]) -> Option<&'a str> {
    let ups = path.iter().take_while(|word| *word == "super").count();
    let named = match path.first()?.as_str() {
        "crate" | "staffetta" => path.get(1),
        "super" if ups >= depth(source, line) => path.get(ups),
        _ => None,
    };
    named.map(String::as_str)
}

/// How many `super` lead from this line to the root of the crate. The only modules inside a file
/// are those of its unit tests.
fn depth(source: &Source, line: usize) -> usize {
    let names = source.path.split('/').count() - 1;
    let file = names - usize::from(source.path.ends_with("/mod.rs"));
    file + usize::from(source.lines[line].is_test && !source.path.ends_with("tests.rs"))
}
