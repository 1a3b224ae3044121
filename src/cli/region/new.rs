//! `region new`: the first record of a cluster.
//!
//! Regions with their nodes (the first is the writer), who is primary, and perhaps who takes turns.
//! Timings are the contract's unless somebody knows better: with clocks that are kept by GPS they
//! can be a tenth of that, and a switch takes a tenth of the time.

use super::plan::{self, Founding, Site, TIMING};
use super::rotate::Options;
use super::{Failure, document, end, entry, now};
use crate::cli::{Command, Exit, UsageError, explain, path_value};
use crate::limits::Limits;
use crate::model::Id;
use crate::model::region::Timing;
use crate::time::Duration;
use std::path::Path;

/// The command.
pub const COMMAND: Command = Command {
    name: "new",
    usage: "region new --cluster NAME --region NAME=NODE@URL[,NODE@URL]... --primary REGION \
            [--turns HH:MM=REGION,... [--period SECONDS] [--from TIME]] \
            [--timing KEY=MS,...] [--out FILE]",
    summary: "The first record of a cluster, version 1: its regions (the first node of each is \
              its writer), which one is primary, and which take turns from the next midnight in \
              UTC (or TIME) on.",
    run,
};

fn run(parser: &mut lexopt::Parser) -> Result<Exit, UsageError> {
    use lexopt::prelude::*;
    let (mut cluster, mut primary, mut out) = (None, None, None);
    let (mut sites, mut timing, mut options) = (Vec::new(), TIMING, Options::default());
    while let Some(argument) = parser.next()? {
        match argument {
            Long("cluster") => cluster = Some(entry::id_value("--cluster", parser)?),
            Long("region") => sites.push(site_value(parser)?),
            Long("primary") => primary = Some(entry::id_value("--primary", parser)?),
            Long("timing") => timing = timing_value(parser)?,
            Long("out") => out = Some(path_value(parser)?),
            Short('h') | Long("help") => return Ok(explain(&COMMAND)),
            Long(name) => {
                let name = name.to_owned();
                if !options.take(&name, parser)? {
                    return Err(lexopt::Error::UnexpectedOption(format!("--{name}")).into());
                }
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let issued_at = now();
    if sites.is_empty() {
        return Err(UsageError::Missing("--region NAME=NODE@URL"));
    }
    let founding = Founding {
        cluster: cluster.ok_or(UsageError::Missing("--cluster NAME"))?,
        sites,
        primary: primary.ok_or(UsageError::Missing("--primary REGION"))?,
        timing,
        turns: options.turns(issued_at)?,
        issued_at,
    };
    Ok(end("new", found(&founding, out.as_deref())))
}

fn found(founding: &Founding, out: Option<&Path>) -> Result<Exit, Failure> {
    let planned = plan::new(founding, &Limits::PRODUCTION);
    let planned = planned.map_err(|error| (Exit::Refused, error.to_string()))?;
    document::give(&planned.text, out)?;
    document::tell(&planned.words);
    Ok(Exit::Done)
}

/// `eu=eu-1@https://10.49.0.5:7070,eu-2@https://10.49.0.6:7070`.
pub fn site_value(parser: &mut lexopt::Parser) -> Result<Site, UsageError> {
    let value = entry::text_value(parser)?;
    site(&value).ok_or(UsageError::BadValue {
        option: "--region",
        value,
        wanted: "NAME=NODE@URL,NODE@URL,...",
    })
}

fn site(text: &str) -> Option<Site> {
    let (name, nodes) = text.split_once('=')?;
    let node = |text: &str| {
        let (node, url) = text.split_once('@')?;
        Some((Id::new(node)?, url.to_owned()))
    };
    Some(Site {
        name: Id::new(name)?,
        nodes: nodes.split(',').map(node).collect::<Option<_>>()?,
    })
}

/// `guard=500,grace=500`: what is not named keeps its value.
fn timing_value(parser: &mut lexopt::Parser) -> Result<Timing, UsageError> {
    let value = entry::text_value(parser)?;
    timing(&value).ok_or(UsageError::BadValue {
        option: "--timing",
        value,
        wanted: "KEY=MS,...; keys are max_skew, guard, grace, drain, hold and poll",
    })
}

fn timing(text: &str) -> Option<Timing> {
    let mut timing = TIMING;
    for part in text.split(',') {
        let (key, millis) = part.split_once('=')?;
        let duration = Duration::from_millis(millis.parse().ok()?);
        let place = match key {
            "max_skew" => &mut timing.max_skew,
            "guard" => &mut timing.guard,
            "grace" => &mut timing.grace,
            "drain" => &mut timing.drain,
            "hold" => &mut timing.hold,
            "poll" => &mut timing.poll,
            _ => return None,
        };
        *place = duration;
    }
    Some(timing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_named_with_its_nodes() {
        let eu = site("eu=eu-1@https://10.49.0.5:7070,eu-2@http://eu-2").unwrap();
        let nodes: Vec<(&str, &str)> = eu
            .nodes
            .iter()
            .map(|(name, url)| (name.as_str(), url.as_str()))
            .collect();
        assert_eq!(eu.name.as_str(), "eu");
        assert_eq!(
            nodes,
            [("eu-1", "https://10.49.0.5:7070"), ("eu-2", "http://eu-2")]
        );
        for bad in [
            "",
            "eu",
            "eu=",
            "eu=eu-1",
            "eu=a b@https://x",
            "=eu-1@https://x",
        ] {
            assert_eq!(site(bad), None, "{bad}");
        }
    }

    #[test]
    fn timings_that_are_not_named_keep_their_values() {
        let quick = timing("guard=300,max_skew=300").unwrap();
        assert_eq!(quick.guard, Duration::from_millis(300));
        assert_eq!((quick.hold, quick.poll), (TIMING.hold, TIMING.poll));
        for bad in ["", "guard", "guard=", "guard=1s", "guards=1"] {
            assert_eq!(timing(bad), None, "{bad}");
        }
    }
}
