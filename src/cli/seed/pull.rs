//! `seed pull --config FILE --out FILE`: a seed out of what an upstream serves.
//!
//! Asks for every slot of the configuration, judges each document as the relay would, and makes one
//! file of them that was read back before it is written: what comes out is served, or nothing comes
//! out and the old file stays. Asks each slot once; whoever runs this sees what failed and tries
//! again.
//!
//! A line on standard error for each slot, since a modem takes minutes for what a cable does at
//! once.

use super::COMMAND;
use crate::cli::run::origin;
use crate::cli::{Exit, UsageError, complain, explain, path_value, say};
use crate::limits::Limits;
use crate::model::{Role, SlotKey, Snapshot};
use crate::net::clock::Clock;
use crate::net::disk::{Access, Disk, atomic_write};
use crate::net::load::{LoadError, Loaded, LoadedUpstream, load};
use crate::net::upstream::{Net, Resolver, Upstream};
use crate::wire::merge::merge;
use crate::wire::seed::Seed;
use smol::LocalExecutor;
use std::path::{Path, PathBuf};

/// Why there is no seed: the line for the operator, and how the command ends.
type Failure = (Exit, String);

/// Reads the rest of the command line and pulls.
pub fn run(parser: &mut lexopt::Parser) -> Result<Exit, UsageError> {
    use lexopt::prelude::*;
    let (mut config, mut out, mut role) = (None, None, Role::Primary);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("config") => config = Some(path_value(parser)?),
            Long("out") => out = Some(path_value(parser)?),
            Long("from") => {
                let value = parser.value()?.to_string_lossy().into_owned();
                let found = Role::ALL.into_iter().find(|role| role.as_str() == value);
                role = found.ok_or(UsageError::BadValue {
                    option: "--from",
                    value,
                    wanted: "primary or backup",
                })?;
            }
            Short('h') | Long("help") => return Ok(explain(&COMMAND)),
            other => return Err(other.unexpected().into()),
        }
    }
    let config = config.ok_or(UsageError::Missing("--config FILE"))?;
    let out = out.ok_or(UsageError::Missing("--out FILE"))?;
    match from_config(config, role, &out, &Limits::PRODUCTION) {
        Ok(line) => {
            say(format_args!("{line}"));
            Ok(Exit::Done)
        }
        Err((exit, line)) => {
            complain(format_args!("staffetta seed pull: {line}"));
            Ok(exit)
        }
    }
}

fn from_config(
    config: PathBuf,
    role: Role,
    out: &Path,
    limits: &Limits,
) -> Result<String, Failure> {
    let shown = config.display().to_string();
    let loaded = load(origin(config), limits).map_err(|error| match error {
        LoadError::Unreadable(problem) => (Exit::Failed, problem),
        LoadError::Wrong(errors) => {
            let lines: Vec<String> = errors
                .iter()
                .map(|error| format!("{shown}: {error}"))
                .collect();
            (Exit::Configuration, lines.join("\n"))
        }
    })?;
    let (upstream, name) = (upstream(&loaded, role)?, role.as_str());
    let mut client = Client::new(upstream, limits);
    // The operator's slots are nobody else's.
    let mut slots = loaded.config.slots.clone();
    slots.retain(|slot| !loaded.config.operator_slots.contains(slot));
    let documents = collect(&slots, limits, |slot| client.fetch(slot))?;
    let line = write(&documents, out, limits)?;
    Ok(format!("{line}, from the {name}, {}", upstream.config.url))
}

fn upstream(loaded: &Loaded, role: Role) -> Result<&LoadedUpstream, Failure> {
    let name = role.as_str();
    let found = loaded
        .upstreams
        .as_ref()
        .and_then(|upstreams| upstreams.of(role));
    let Some(upstream) = found else {
        let line = format!("$.upstream.{name}: is missing; there is nobody to ask");
        return Err((Exit::Configuration, line));
    };
    match upstream.api_key {
        Some(_) => Ok(upstream),
        None => Err((Exit::Failed, loaded.problems.join("\n"))),
    }
}

/// The upstream, and all that it takes to ask it.
struct Client {
    executor: LocalExecutor<'static>,
    net: Net,
    upstream: Upstream,
}

impl Client {
    fn new(loaded: &LoadedUpstream, limits: &Limits) -> Client {
        let executor = LocalExecutor::new();
        let (disk, disk_lane) = Disk::new(limits);
        let (resolver, name_lane) = Resolver::new(limits);
        executor.spawn(disk_lane.run()).detach();
        executor.spawn(name_lane.run()).detach();
        let clock = Clock::system();
        let random_seed = clock.now().as_micros() ^ u64::from(std::process::id());
        Client {
            executor,
            net: Net::new(clock, limits.clone(), resolver, disk, random_seed),
            upstream: Upstream::new(&loaded.config, loaded.api_key.clone()),
        }
    }

    /// Blocks until the document is here, or the client's own time-outs are over.
    fn fetch(&mut self, slot: &SlotKey) -> Result<Vec<u8>, String> {
        let answer = self.upstream.config(&self.net, slot);
        let answer = smol::block_on(self.executor.run(answer));
        answer
            .map(|answer| answer.bytes)
            .map_err(|error| error.to_string())
    }
}

/// The document of every slot, judged; `fetch` gets one from the upstream.
fn collect(
    slots: &[SlotKey],
    limits: &Limits,
    mut fetch: impl FnMut(&SlotKey) -> Result<Vec<u8>, String>,
) -> Result<Vec<(SlotKey, Snapshot)>, Failure> {
    let mut documents = Vec::new();
    for (number, slot) in (1..).zip(slots) {
        let failed = |problem| (Exit::Failed, format!("{slot}: {problem}"));
        let bytes = fetch(slot).map_err(failed)?;
        let seed = Seed::parse(&bytes, limits);
        let document = seed.and_then(|seed| seed.snapshot(slot, limits));
        let document = document.map_err(|error| (Exit::Refused, format!("{slot}: {error}")))?;
        let counts = document.counts;
        complain(format_args!(
            "{number} of {}: {slot}, {} bytes, {} features, {} properties, {} segments",
            slots.len(),
            bytes.len(),
            counts.features,
            counts.properties,
            counts.segments
        ));
        documents.push((slot.clone(), document));
    }
    Ok(documents)
}

/// Makes the seed and writes it; gives the line that says so.
fn write(
    documents: &[(SlotKey, Snapshot)],
    out: &Path,
    limits: &Limits,
) -> Result<String, Failure> {
    let refused = |error: crate::wire::merge::MergeError| (Exit::Refused, error.to_string());
    let merged = merge(documents, limits).map_err(refused)?;
    for slot in &merged.reordered {
        complain(format_args!(
            "note: {slot}: its items stand in another order than the upstream's"
        ));
    }
    for slot in &merged.empty {
        complain(format_args!(
            "note: {slot} was not asked for; to this seed it is a slot without flags"
        ));
    }
    // What a seed says of flags and segments is nobody else's business.
    let written = atomic_write(out, merged.json.as_bytes(), Access::Private);
    written.map_err(|error| (Exit::Failed, error.to_string()))?;
    let (out, count, bytes) = (out.display(), documents.len(), merged.json.len());
    Ok(format!("{out}: {count} slots, {bytes} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const DEMO: &str = include_str!("../../../seeds/demo.json");
    const LIMITS: Limits = Limits::PRODUCTION;

    fn slots() -> Vec<SlotKey> {
        let seed = Seed::parse(DEMO.as_bytes(), &LIMITS).unwrap();
        seed.slots().into_iter().collect()
    }

    /// What the service would answer.
    fn answer(slot: &SlotKey) -> Vec<u8> {
        let seed = Seed::parse(DEMO.as_bytes(), &LIMITS).unwrap();
        seed.snapshot(slot, &LIMITS).unwrap().json.to_vec()
    }

    fn out(test: &str) -> PathBuf {
        let name = format!("staffetta-pull-{test}-{}.json", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_file(&path);
        path
    }

    #[test]
    fn what_was_pulled_is_a_seed_for_every_slot() {
        let out = out("whole");
        let documents = collect(&slots(), &LIMITS, |slot| Ok(answer(slot))).unwrap();
        let line = write(&documents, &out, &LIMITS).unwrap();
        assert!(line.contains(": 4 slots, "), "{line}");
        let bytes = fs::read(&out).unwrap();
        let seed = Seed::parse(&bytes, &LIMITS).unwrap();
        for (slot, document) in &documents {
            assert_eq!(
                seed.snapshot(slot, &LIMITS).unwrap().digest,
                document.digest
            );
        }
        fs::remove_file(&out).unwrap();
    }

    #[test]
    fn one_failure_is_the_end_and_says_which_slot() {
        let mut asked = 0;
        let failed = collect(&slots(), &LIMITS, |slot| {
            asked += 1;
            match asked {
                1 => Ok(answer(slot)),
                _ => Err("no route".into()),
            }
        });
        let (exit, line) = failed.unwrap_err();
        assert_eq!(
            (exit, line.as_str()),
            (Exit::Failed, "inventory/prod: no route")
        );
        assert_eq!(asked, 2);
    }

    #[test]
    fn what_would_not_be_served_is_refused() {
        let bad = |slot: &SlotKey| {
            Ok(answer(slot)
                .iter()
                .map(|byte| byte.to_ascii_lowercase())
                .collect())
        };
        let (exit, line) = collect(&slots(), &LIMITS, bad).unwrap_err();
        assert_eq!(exit, Exit::Refused);
        assert!(line.starts_with("inventory/dev: feature `"), "{line}");
    }

    #[test]
    fn a_seed_that_cannot_be_made_leaves_the_old_one() {
        let out = out("old");
        fs::write(&out, "old").unwrap();
        let mut documents = collect(&slots(), &LIMITS, |slot| Ok(answer(slot))).unwrap();
        let renamed = String::from_utf8(answer(&documents[0].0)).unwrap();
        let renamed = renamed.replace("Development", "Workshop");
        let (slot, document) = &mut documents[0];
        let seed = Seed::parse(renamed.as_bytes(), &LIMITS).unwrap();
        *document = seed.snapshot(slot, &LIMITS).unwrap();
        let (exit, line) = write(&documents, &out, &LIMITS).unwrap_err();
        assert_eq!(exit, Exit::Refused);
        assert!(
            line.starts_with("environment `dev` is not the same"),
            "{line}"
        );
        assert_eq!(fs::read_to_string(&out).unwrap(), "old");
        fs::remove_file(&out).unwrap();
    }
}
