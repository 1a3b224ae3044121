//! What nodes of several regions say to each other: records, headers, status, refusals, paths.
//!
//! Claims: what is read and written again reads as the same; what is taken of a record keeps its
//! bounds, its epochs rise, and each seat is a region of it with that region's own writer; names of
//! reserved fields are the same in any case.

use staffetta::limits::Limits;
use staffetta::model::region::{Record, Seat};
use staffetta::wire::region::peer::{PeerHead, is_reserved, via_entry, via_names};
use staffetta::wire::region::target::{Target, is_meant};
use staffetta::wire::region::{self, pack, unpack};

const LIMITS: &Limits = &Limits::PRODUCTION;

pub const RECORD_WORDS: &[&str] = &[
    "\"match\"",
    "{}",
    "\"collection\"",
    "\"environment\"",
    "\"route\"",
    "\"switches\": []",
    "\"rotation\"",
    "\"legs\"",
    "\"offset_s\"",
    "\"period_s\"",
    "\"epoch\"",
    "\"epoch0\"",
    "\"au\"",
    "\"eu\"",
    "\"at\": \"2026-07-01T06:00:00Z\"",
    "9007199254740992",
    "9007199254740993",
    "0",
    "-1",
    "1e3",
    "600000",
    "http://a:1",
    "\"version\"",
];

pub const WORDS: &[&str] = &[
    "null",
    "{}",
    "[]",
    "\"\"",
    "0",
    "18446744073709551615",
    "-1",
    "1.5",
    "\"a\"",
    "\"a/b\"",
    "\"route:a\"",
    "\"5-1\"",
    "\"unknown\"",
    "\"active\"",
    "\"loop\"",
    "\"applied\"",
    "\\u0000",
    "\"document\"",
    "\"signature\"",
    "AAAA",
    "====",
];

pub const PEER_WORDS: &[&str] = &[
    "x-relay-cluster: a\n",
    "X-Relay-From: b\n",
    "x-relay-hops: 1\n",
    "x-relay-epoch: 5\n",
    "x-relay-deadline: 18446744073709551615\n",
    "via: 1.1 a, 1.1 b\n",
    "\n",
    ": ",
    "4294967296",
    "+",
    " ",
    ",",
];

pub const TARGET_WORDS: &[&str] = &[
    "/v1/region/",
    "status",
    "state",
    "/v1/slots/",
    "a/b",
    "?",
    "&",
    "=",
    "after",
    "wait_ms",
    "1-1",
    "18446744073709551616",
    "-",
    "+1",
    "%61",
];

pub fn record(input: &[u8]) {
    let Ok(record) = region::read(input, LIMITS) else {
        return;
    };
    sound(&record);
    let again = region::read(region::write(&record).as_bytes(), LIMITS);
    let again = again.expect("what was written can be read");
    let digest = record.digest;
    assert_eq!(Record { digest, ..again }, record);
}

fn sound(record: &Record) {
    let bounds = LIMITS.region;
    assert!(record.nodes.len() <= bounds.nodes_max);
    assert!(record.classes.len() <= bounds.classes_max);
    assert!(record.timing.guard >= record.timing.max_skew);
    let is_seat = |seat: &Seat| {
        let region = record.regions.get(usize::from(seat.region.0));
        region.is_some_and(|region| region.writer == seat.writer)
            && record
                .node(seat.writer)
                .is_some_and(|node| node.region == seat.region)
    };
    let last = record.classes.last().expect("one that matches all");
    assert!(
        record
            .classes
            .iter()
            .any(|class| class.matching.is_catch_all()),
        "{last:?}"
    );
    for class in &record.classes {
        assert!(is_seat(&class.primary));
        assert!(class.switches.len() <= bounds.switches_max);
        let mut epoch = class.epoch;
        let mut at = None;
        for switch in &class.switches {
            assert!(is_seat(&switch.to) && switch.epoch > epoch && Some(switch.at) > at);
            (epoch, at) = (switch.epoch, Some(switch.at));
        }
        if let Some(rotation) = &class.rotation {
            assert!(rotation.epoch_first > epoch && !rotation.legs.is_empty());
            assert!(rotation.legs.len() <= bounds.legs_max);
            assert!(rotation.legs.iter().all(|leg| is_seat(&leg.to)));
            assert!(rotation.legs.iter().all(|leg| leg.offset < rotation.period));
        }
    }
}

pub fn envelope(input: &[u8]) {
    if let Ok(envelope) = unpack(input, LIMITS) {
        let packed = pack(&envelope.document, envelope.signature.as_deref());
        if packed.len() <= LIMITS.region.record_bytes_max {
            assert_eq!(unpack(packed.as_bytes(), LIMITS), Ok(envelope));
        }
    }
}

pub fn peer(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let fields = || text.lines().filter_map(|line| line.split_once(':'));
    let has_any = fields().any(|(name, _)| is_reserved(name));
    for (name, value) in fields() {
        assert_eq!(is_reserved(name), is_reserved(&name.to_ascii_uppercase()));
        for node in via_names(value) {
            assert!(via_names(&via_entry(&node)).eq([node]));
        }
    }
    match PeerHead::parse(fields()) {
        Ok(None) => assert!(!has_any),
        Ok(Some(head)) => {
            let written = head.fields();
            let again = PeerHead::parse(written.iter().map(|(name, value)| (*name, &**value)));
            assert_eq!(again, Ok(Some(head)));
        }
        Err(_) => assert!(has_any),
    }
}

pub fn status(input: &[u8]) {
    if let Some(status) = region::status::read(input) {
        let written = region::status::write(&status);
        assert_eq!(region::status::read(written.as_bytes()), Some(status));
    }
}

pub fn problem(input: &[u8]) {
    if let Some(refusal) = region::problem::read(input) {
        let written = region::problem::write(&refusal);
        assert_eq!(region::problem::read(written.as_bytes()), Some(refusal));
    }
}

pub fn target(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Some(target) = Target::parse(&text) {
        assert!(is_meant(&text));
        assert_eq!(Target::parse(&target.write()), Some(target));
    }
}
