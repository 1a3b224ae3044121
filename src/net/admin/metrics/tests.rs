//! The text of a scrape, read back line by line as a scraper and `promtool check metrics` would.

use std::collections::{HashMap, HashSet};

use super::*;
use crate::model::Role;
use crate::wire::status::{Cluster, Destination, LastError};
use crate::wire::status::{sample, sample_following, sample_upstream};

fn scrape() -> Scrape {
    let mut status = sample();
    let mut empty = status.slots[0].clone();
    empty.slot = "payments/prod".into();
    empty.serves = None;
    empty.last_error = Some(LastError {
        problem: "feature `<\"x\">`: no type".into(),
        since_s: 1,
        times: 1,
    });
    status.slots.push(empty);
    status.slots[0].following = Some(sample_following());
    status.upstreams = Some(Role::ALL.map(sample_upstream).into());
    status.clusters.push(Cluster {
        id: "plant".into(),
        requests: [("new".to_owned(), 3), ("resolved".to_owned(), 4)].into(),
        again: 1,
        destinations: vec![Destination {
            id: "node-1".into(),
            address: "http://10.0.0.1".into(),
            is_healthy: true,
            active: None,
            passive: None,
            in_flight: 5,
            backup: false,
            draining: false,
        }],
    });
    let mut counters = Counters::default();
    counters.requests = 7;
    counters.refuse(Reject::WrongKey);
    Scrape {
        status: status.judged(),
        counters,
        evictions: 2,
        started_s: 1_700_000_000,
    }
}

/// Name, labels and value of a sample line.
fn sample_of(line: &str) -> (&str, &str, &str) {
    let (series, value) = line.rsplit_once(' ').expect("a value");
    match series.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}').expect("closed"), value),
        None => (series, "", value),
    }
}

#[test]
fn every_sample_has_help_type_and_a_lawful_name() {
    let text = Scrape::encode(scrape());
    let (mut helped, mut typed) = (HashSet::new(), HashMap::new());
    let mut series = HashSet::new();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help text");
            assert!(helped.insert(name), "{name} twice");
            assert!(help.ends_with('.') && help.len() > 3, "{line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert!(helped.contains(name), "{name} has no help");
            assert!(typed.insert(name, kind).is_none(), "{name} twice");
        } else {
            let (name, labels, value) = sample_of(line);
            let kind = typed.get(name).copied();
            let is_counter = name.ends_with("_total");
            assert_eq!(
                kind,
                Some(if is_counter { "counter" } else { "gauge" }),
                "{line}"
            );
            assert!(name.starts_with("staffetta_"), "{line}");
            assert!(value.parse::<u64>().is_ok(), "{line}");
            assert!(series.insert((name, labels)), "{line} twice");
        }
    }
    assert_eq!(helped.len(), typed.len());
    assert!(series.len() > 50, "{text}");
}

#[test]
fn every_counter_of_the_relay_is_a_metric() {
    let text = Scrape::encode(scrape());
    let fields = format!("{:#?}", Counters::default());
    let names = fields.lines().filter_map(|line| {
        let (name, _) = line.strip_prefix("    ")?.split_once(':')?;
        (!name.starts_with(' ')).then_some(name)
    });
    let mut count = 0;
    for name in names {
        let declared = format!("# TYPE staffetta_{name}_total counter\n");
        assert!(text.contains(&declared), "{name} is missing");
        count += 1;
    }
    assert!(count > 15, "{fields}");
}

#[test]
fn values_are_those_of_the_relay() {
    let text = Scrape::encode(scrape());
    for line in [
        "staffetta_requests_total 7",
        "staffetta_refusals_total{reason=\"wrong_key\"} 1",
        "staffetta_refusals_total{reason=\"throttled\"} 0",
        "staffetta_expiries_total{reason=\"stall\"} 0",
        "staffetta_evictions_total 2",
        "staffetta_start_time_seconds 1700000000",
        "staffetta_ready 0",
        "staffetta_slot_has_snapshot{slot=\"inventory/dev\"} 1",
        "staffetta_slot_has_snapshot{slot=\"payments/prod\"} 0",
        "staffetta_slot_problem{slot=\"payments/prod\"} 1",
        "staffetta_slot_version{slot=\"inventory/dev\"} 3",
        "staffetta_slot_age_seconds{slot=\"inventory/dev\"} 754",
        "staffetta_clients{slot=\"inventory/dev\",kind=\"websocket\"} 2",
        "staffetta_connections_open{door=\"sdk\"} 3",
        "staffetta_event_reports_total{kind=\"usage\"} 0",
        "staffetta_seed_problem 0",
        "staffetta_state_writable 1",
        "staffetta_state_saves_failed_total 0",
        "staffetta_upstream_token{role=\"backup\"} 1",
        "staffetta_upstream_active{slot=\"inventory/dev\",role=\"primary\"} 1",
        "staffetta_upstream_active{slot=\"inventory/dev\",role=\"backup\"} 0",
        "staffetta_upstream_live{slot=\"inventory/dev\"} 1",
        "staffetta_upstream_dials_total{slot=\"inventory/dev\",role=\"backup\"} 1",
        "staffetta_slot_stale_refused_total{slot=\"inventory/dev\"} 0",
        "staffetta_forwarded_total{cluster=\"plant\",outcome=\"new\"} 3",
        "staffetta_forwarded_again_total{cluster=\"plant\"} 1",
        "staffetta_destination_healthy{cluster=\"plant\",destination=\"node-1\"} 1",
        "staffetta_destination_in_flight{cluster=\"plant\",destination=\"node-1\"} 5",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
}

#[test]
fn labels_are_slots_and_our_own_words() {
    let text = Scrape::encode(scrape());
    assert!(!text.contains("<\"x\">"), "{text}");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (_, labels, _) = sample_of(line);
        for label in labels.split(',').filter(|label| !label.is_empty()) {
            let (name, _) = label.split_once('=').expect("a label");
            let known = [
                "slot",
                "kind",
                "reason",
                "door",
                "version",
                "role",
                "cluster",
                "outcome",
                "destination",
            ];
            assert!(known.contains(&name), "{line}");
        }
    }
}
