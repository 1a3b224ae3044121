//! A record as text, in the one way in which the relay writes it.
//!
//! Keys in the order of the contract, two spaces a level, an object on one line where it is about
//! one thing: people sign what they can read. A record that is read, written and read again is the
//! same but for its digest, which is over the bytes.
//!
//! Nothing needs escaping: names, URLs and times are ASCII without quotes.

use super::{SCHEMA, moment};
use crate::model::region::{Matching, Node, Record, Region, Rotation, SlotClass, Switch};
use crate::time::Duration;
use std::fmt::Write as _;

/// The document of `record`, with a line feed at its end. Bounded by the size of the record.
pub fn write(record: &Record) -> String {
    let timing = &record.timing;
    let millis = |duration: Duration| duration.as_millis();
    let mut text = format!(
        "{{\n  \"schema\": \"{SCHEMA}\",\n  \"cluster\": \"{}\",\n  \"version\": {},\n  \
         \"issued_at\": \"{}\",\n  \"timing\": {{ \"max_skew_ms\": {}, \"guard_ms\": {}, \
         \"grace_ms\": {}, \"drain_ms\": {}, \"hold_ms\": {}, \"poll_ms\": {} }},\n",
        record.cluster,
        record.version,
        moment::write(record.issued_at),
        millis(timing.max_skew),
        millis(timing.guard),
        millis(timing.grace),
        millis(timing.drain),
        millis(timing.hold),
        millis(timing.poll),
    );
    text.push_str("  \"regions\": {\n");
    let regions = record
        .regions
        .iter()
        .map(|region| region_line(record, region));
    push_list(&mut text, "    ", regions);
    text.push_str("  },\n  \"slots\": [\n");
    let classes = record
        .classes
        .iter()
        .map(|class| class_lines(record, class));
    push_list(&mut text, "    ", classes);
    text.push_str("  ]\n}\n");
    text
}

/// The entries, each on lines of its own, with commas between them.
fn push_list(text: &mut String, indent: &str, entries: impl Iterator<Item = String>) {
    let entries: Vec<String> = entries.collect();
    let last = entries.len().saturating_sub(1);
    for (index, entry) in entries.iter().enumerate() {
        let comma = if index < last { "," } else { "" };
        // Writing to a string has no way to fail.
        let _ = writeln!(text, "{indent}{entry}{comma}");
    }
}

fn region_line(record: &Record, region: &Region) -> String {
    let is_here = |node: &&Node| record.region_name(node.region) == region.name.as_str();
    let nodes = record.nodes.iter().filter(is_here);
    let nodes: Vec<String> = nodes
        .map(|node| format!("\"{}\": \"{}\"", node.name, node.url))
        .collect();
    format!(
        "\"{}\": {{ \"writer\": \"{}\", \"nodes\": {{ {} }} }}",
        region.name,
        record.node_name(region.writer),
        nodes.join(", ")
    )
}

fn class_lines(record: &Record, class: &SlotClass) -> String {
    let mut text = format!(
        "{{ \"match\": {}, \"primary\": \"{}\", \"epoch\": {}, \"switches\": [",
        matching(&class.matching),
        record.region_name(class.primary.region),
        class.epoch
    );
    if !class.switches.is_empty() {
        text.push('\n');
        let switches = class.switches.iter().map(|planned| switch(record, planned));
        push_list(&mut text, "      ", switches);
        text.push_str("    ");
    }
    text.push(']');
    if let Some(rotation) = &class.rotation {
        text.push_str(",\n      \"rotation\": ");
        text.push_str(&rotation_lines(record, rotation));
    }
    text.push_str(" }");
    text
}

fn matching(matching: &Matching) -> String {
    let keys = [
        ("collection", &matching.collection),
        ("environment", &matching.environment),
        ("route", &matching.route),
    ];
    let given = keys.iter().filter_map(|(key, id)| {
        let id = id.as_ref()?;
        Some(format!("\"{key}\": \"{id}\""))
    });
    match given.collect::<Vec<String>>().join(", ") {
        empty if empty.is_empty() => String::from("{}"),
        given => format!("{{ {given} }}"),
    }
}

fn switch(record: &Record, switch: &Switch) -> String {
    format!(
        "{{ \"at\": \"{}\", \"to\": \"{}\", \"epoch\": {} }}",
        moment::write(switch.at),
        record.region_name(switch.to.region),
        switch.epoch
    )
}

fn rotation_lines(record: &Record, rotation: &Rotation) -> String {
    let leg = |leg: &crate::model::region::Leg| {
        format!(
            "{{ \"offset_s\": {}, \"to\": \"{}\" }}",
            leg.offset.as_secs(),
            record.region_name(leg.to.region)
        )
    };
    let legs: Vec<String> = rotation.legs.iter().map(leg).collect();
    format!(
        "{{ \"anchor\": \"{}\", \"period_s\": {}, \"epoch0\": {},\n        \"legs\": [{}] }}",
        moment::write(rotation.anchor),
        rotation.period.as_secs(),
        rotation.epoch_first,
        legs.join(", ")
    )
}
