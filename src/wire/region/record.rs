//! A state record: from the bytes that were signed to a [`Record`] that fits together.
//!
//! Reads the document once, strictly: no key twice, none that is unknown, names that are names, and
//! every reference followed, so that nobody has to look one up later. Whether the times and epochs
//! of an entry rise is `order`'s to say.
//!
//! Never compares a record with another one, and never asks for the time.

use super::error::{RecordError, RecordProblem, quoted};
use super::object::Value;
use super::{NUMBER_MAX, SCHEMA, order};
use crate::limits::Limits;
use crate::model::region::{
    Epoch, Leg, Matching, Node, NodeIndex, Record, Region, RegionIndex, Rotation, Seat, SlotClass,
    Switch, Timing,
};
use crate::model::{Digest, Id};
use crate::time::Duration;
use crate::wire::json;
use ring::digest::{SHA256, digest};

/// Reads a document. Bounded by its length, at most `region.record_bytes_max`.
///
/// # Errors
/// The first thing that is wrong, with its place.
pub fn read(document: &[u8], limits: &Limits) -> Result<Record, RecordError> {
    if document.len() > limits.region.record_bytes_max {
        let bytes_max = limits.region.record_bytes_max;
        return Err(RecordError::at("$", RecordProblem::TooLarge { bytes_max }));
    }
    let text = json::text(document)?;
    json::judge(text, limits.json_depth_max)?;
    let mut object = Value::root(text).object()?;
    object.schema(SCHEMA)?;
    let mut record = Record {
        cluster: object.require("cluster")?.id()?,
        version: object.require("version")?.whole(1, NUMBER_MAX)?,
        digest: digest_of(document),
        issued_at: object.require("issued_at")?.time()?,
        timing: timing(object.require("timing")?, limits)?,
        regions: Vec::new(),
        nodes: Vec::new(),
        classes: Vec::new(),
    };
    regions(object.require("regions")?, &mut record, limits)?;
    record.classes = classes(object.require("slots")?, &record, limits)?;
    object.finish()?;
    Ok(record)
}

/// SHA-256 over the bytes that were signed.
fn digest_of(document: &[u8]) -> Digest {
    let mut bytes = Digest::default();
    for (to, from) in bytes.0.iter_mut().zip(digest(&SHA256, document).as_ref()) {
        *to = *from;
    }
    bytes
}

fn timing(value: Value<'_>, limits: &Limits) -> Result<Timing, RecordError> {
    let most = u64::try_from(limits.region.timing_max.as_millis()).unwrap_or(NUMBER_MAX);
    let mut object = value.object()?;
    let mut millis = |key, least| {
        let value = object.require(key)?;
        value.whole(least, most).map(Duration::from_millis)
    };
    let timing = Timing {
        max_skew: millis("max_skew_ms", 1)?,
        guard: millis("guard_ms", 1)?,
        grace: millis("grace_ms", 1)?,
        drain: millis("drain_ms", 1)?,
        hold: millis("hold_ms", 1)?,
        poll: millis("poll_ms", 100)?,
    };
    let place = format!("{}.guard_ms", object.place.path);
    object.finish()?;
    match timing.guard >= timing.max_skew {
        true => Ok(timing),
        false => Err(RecordError::at(place, RecordProblem::GuardBelowSkew)),
    }
}

fn regions(value: Value<'_>, record: &mut Record, limits: &Limits) -> Result<(), RecordError> {
    let place = value.path.clone();
    for (name, value) in value.named(limits.region.nodes_max)? {
        let region = RegionIndex(index(record.regions.len()));
        let mut object = value.object()?;
        let first = record.nodes.len();
        let nodes = object.require("nodes")?;
        for (name, value) in nodes.named(limits.region.nodes_max)? {
            if record.find_node(&name).is_some() {
                return Err(value.refuse(RecordProblem::DuplicateNode));
            }
            let url = url(&value)?;
            if record.nodes.iter().any(|node| node.url == url) {
                return Err(value.refuse(RecordProblem::DuplicateUrl));
            }
            record.nodes.push(Node { name, url, region });
        }
        let writer = object.require("writer")?;
        let wanted = writer.id()?;
        let found = record.find_node(&wanted);
        let Some(found) = found.filter(|found| usize::from(found.0) >= first) else {
            let name = quoted(wanted.as_str());
            return Err(writer.refuse(RecordProblem::UnknownWriter { name }));
        };
        object.finish()?;
        record.regions.push(Region {
            name,
            writer: found,
        });
    }
    let count_max = limits.region.nodes_max;
    match record.nodes.len() {
        0 => Err(RecordError::at(place, RecordProblem::Empty)),
        count if count > count_max => {
            Err(RecordError::at(place, RecordProblem::TooMany { count_max }))
        }
        _ => Ok(()),
    }
}

/// Bounded by `region.nodes_max`.
fn index(position: usize) -> u16 {
    u16::try_from(position).unwrap_or(u16::MAX)
}

/// A URL of scheme and authority only; host in lower case, no `/` at the end.
fn url(value: &Value<'_>) -> Result<String, RecordError> {
    let text = value.string()?.to_ascii_lowercase();
    let text = text.strip_suffix('/').unwrap_or(&text);
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    let is_sound = rest.is_some_and(|authority| {
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            Some(_) | None => (authority, None),
        };
        let is_port = |port: &str| {
            port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok()
        };
        let inner = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let is_host = match inner {
            Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
            None => {
                let legal = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
                !host.is_empty() && host.len() <= Id::LENGTH_MAX * 2 && host.bytes().all(legal)
            }
        };
        is_host && port.is_none_or(is_port)
    });
    match is_sound {
        true => Ok(text.to_string()),
        false => Err(value.refuse(RecordProblem::NotAUrl)),
    }
}

fn classes(
    value: Value<'_>,
    record: &Record,
    limits: &Limits,
) -> Result<Vec<SlotClass>, RecordError> {
    let mut classes: Vec<SlotClass> = Vec::new();
    for value in value.list(limits.region.classes_max)? {
        let place = value.path.clone();
        let class = class(value, record, limits)?;
        let is_covered = |before: &SlotClass| order::covers(&before.matching, &class.matching);
        if classes.iter().any(is_covered) {
            return Err(RecordError::at(place, RecordProblem::Unreachable));
        }
        order::check(&class, &record.timing, &place)?;
        classes.push(class);
    }
    match classes
        .last()
        .is_some_and(|last| last.matching.is_catch_all())
    {
        true => Ok(classes),
        false => Err(value.refuse(RecordProblem::NoCatchAll)),
    }
}

fn class(value: Value<'_>, record: &Record, limits: &Limits) -> Result<SlotClass, RecordError> {
    let mut object = value.object()?;
    let matching = matching(object.require("match")?)?;
    let primary = seat(&object.require("primary")?, record)?;
    let epoch = epoch(&object.require("epoch")?)?;
    let mut switches = Vec::new();
    if let Some(list) = object.take("switches") {
        for value in list.list(limits.region.switches_max)? {
            let mut object = value.object()?;
            switches.push(Switch {
                at: object.require("at")?.time()?,
                to: seat(&object.require("to")?, record)?,
                epoch: self::epoch(&object.require("epoch")?)?,
            });
            object.finish()?;
        }
    }
    let rotation = object.take("rotation");
    let rotation = rotation
        .map(|value| rotation_of(value, record, limits))
        .transpose()?;
    object.finish()?;
    Ok(SlotClass {
        matching,
        primary,
        epoch,
        switches,
        rotation,
    })
}

fn matching(value: Value<'_>) -> Result<Matching, RecordError> {
    let mut object = value.object()?;
    let mut id = |key| object.take(key).map(|value| value.id()).transpose();
    let matching = Matching {
        collection: id("collection")?,
        environment: id("environment")?,
        route: id("route")?,
    };
    let is_slot = matching.collection.is_some() || matching.environment.is_some();
    if matching.route.is_some() && is_slot {
        return Err(object.place.refuse(RecordProblem::MixedMatch));
    }
    object.finish()?;
    Ok(matching)
}

fn rotation_of(
    value: Value<'_>,
    record: &Record,
    limits: &Limits,
) -> Result<Rotation, RecordError> {
    let mut object = value.object()?;
    let anchor = object.require("anchor")?.time()?;
    let period_max = limits.region.period_max.as_secs();
    let period_s = object.require("period_s")?.whole(1, period_max)?;
    let epoch_first = epoch(&object.require("epoch0")?)?;
    let list = object.require("legs")?;
    let mut legs = Vec::new();
    for value in list.list(limits.region.legs_max)? {
        let mut object = value.object()?;
        let offset = object.require("offset_s")?;
        let offset_s = offset.whole(0, period_max)?;
        if offset_s >= period_s {
            return Err(offset.refuse(RecordProblem::BeyondPeriod));
        }
        let to = seat(&object.require("to")?, record)?;
        object.finish()?;
        legs.push(Leg {
            offset: Duration::from_secs(offset_s),
            to,
        });
    }
    object.finish()?;
    if legs.is_empty() {
        return Err(list.refuse(RecordProblem::Empty));
    }
    Ok(Rotation {
        anchor,
        period: Duration::from_secs(period_s),
        epoch_first,
        legs,
    })
}

fn epoch(value: &Value<'_>) -> Result<Epoch, RecordError> {
    value.whole(1, NUMBER_MAX).map(Epoch)
}

/// A region of the record by its name, and its writer.
fn seat(value: &Value<'_>, record: &Record) -> Result<Seat, RecordError> {
    let wanted = value.id()?;
    let found = record
        .regions
        .iter()
        .enumerate()
        .find(|(_, region)| region.name == wanted);
    match found {
        Some((position, region)) => Ok(Seat {
            region: RegionIndex(index(position)),
            writer: NodeIndex(region.writer.0),
        }),
        None => {
            let name = quoted(wanted.as_str());
            Err(value.refuse(RecordProblem::UnknownRegion { name }))
        }
    }
}
