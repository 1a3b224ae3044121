//! What one seed stands for: sites, clocks, faults and the record.

use fastrand::Rng;
use staffetta::model::region::{
    Epoch, Leg, Matching, Node, NodeIndex, Record, Region, RegionIndex, Rotation, Seat, SlotClass,
    Subject, Switch, Timing,
};
use staffetta::model::{Digest, Id};
use staffetta::time::{Duration, WallMs};

/// What the clocks of all worlds show at their beginning.
pub const BEGIN_MS: u64 = 1_900_000_000_000;

/// For how long writes come.
pub const SPAN_MS: u64 = 6_000;

pub const GUARD_MS: u64 = 200;

pub const TIMING: Timing = Timing {
    max_skew: Duration::from_millis(GUARD_MS),
    guard: Duration::from_millis(GUARD_MS),
    grace: Duration::from_millis(200),
    drain: Duration::from_millis(100),
    hold: Duration::from_millis(1_200),
    poll: Duration::from_millis(300),
};

pub struct Plan {
    pub seed: u64,
    pub random: Rng,
    pub record: Record,
    /// A record that is brought to one node while all is running, and when.
    pub later: Option<(u64, Record)>,
    pub skews_ms: Vec<i64>,
    /// Without it, nodes do not see each other's clocks.
    pub compares_clocks: bool,
    /// Of 1,000 messages.
    pub lost: u32,
    /// Disks take long now and then.
    pub stalls: bool,
    /// Crashes and cuts, in all.
    pub faults: usize,
}

pub fn id(text: &str) -> Id {
    Id::new(text).expect("ids of the simulation are ids")
}

/// Two slots and a route.
pub fn subjects() -> Vec<Subject> {
    let parse = |text| Subject::parse(text).expect("subjects of the simulation are subjects");
    ["line3/dev", "line4/dev", "route:orders"]
        .map(parse)
        .to_vec()
}

impl Plan {
    pub fn new(seed: u64) -> Plan {
        let mut random = Rng::with_seed(seed);
        let record = record(&mut random);
        let half = GUARD_MS as i64 / 2;
        let skews_ms = record
            .nodes
            .iter()
            .map(|_| random.i64(-half..=half))
            .collect();
        let mut plan = Plan {
            seed,
            skews_ms,
            compares_clocks: true,
            lost: if random.bool() { 0 } else { random.u32(0..80) },
            stalls: true,
            faults: random.usize(0..5),
            later: None,
            record,
            random,
        };
        if plan.random.u32(0..4) == 0 {
            plan.later = later(&plan.record, &mut plan.random);
        }
        plan
    }

    pub fn without_faults(seed: u64) -> Plan {
        let mut plan = Plan::new(seed);
        plan.lost = 0;
        plan.stalls = false;
        plan.faults = 0;
        plan.later = None;
        plan
    }

    /// Clocks that differ by four times the guard, and nobody to tell.
    pub fn beyond_guard(seed: u64) -> Plan {
        let mut plan = Plan::new(seed);
        let bound = GUARD_MS as i64 * 2;
        for skew in &mut plan.skews_ms {
            *skew = if plan.random.bool() { bound } else { -bound };
        }
        plan.compares_clocks = false;
        plan.faults += 3;
        plan
    }
}

fn record(random: &mut Rng) -> Record {
    let mut nodes = Vec::new();
    let mut regions = Vec::new();
    for region in 0..random.u16(2..=3) {
        regions.push(Region {
            name: id(&format!("r{region}")),
            writer: NodeIndex(nodes.len() as u16),
        });
        for node in 0..random.usize(1..=2) {
            nodes.push(Node {
                name: id(&format!("r{region}-{node}")),
                url: format!("http://r{region}-{node}:7070"),
                region: RegionIndex(region),
            });
        }
    }
    let mut record = Record {
        cluster: id("plant"),
        version: 1,
        digest: Digest([1; 32]),
        issued_at: WallMs::from_unix_ms(BEGIN_MS - 60_000),
        timing: TIMING,
        regions,
        nodes,
        classes: Vec::new(),
    };
    let line3 = Matching {
        collection: Some(id("line3")),
        ..Matching::default()
    };
    record.classes = vec![
        class(&record, line3, random),
        class(&record, Matching::default(), random),
    ];
    record
}

fn seat(record: &Record, random: &mut Rng, but: Option<Seat>) -> Seat {
    loop {
        let index = random.usize(0..record.regions.len());
        let seat = Seat {
            region: RegionIndex(index as u16),
            writer: record.regions[index].writer,
        };
        if Some(seat) != but {
            return seat;
        }
    }
}

fn class(record: &Record, matching: Matching, random: &mut Rng) -> SlotClass {
    let spacing = TIMING.spacing_min();
    let mut class = SlotClass {
        matching,
        primary: seat(record, random, None),
        epoch: Epoch(random.u64(1..5)),
        switches: Vec::new(),
        rotation: None,
    };
    let mut at = WallMs::from_unix_ms(BEGIN_MS + 2_000) + more(random, 1_500);
    let mut last = (class.primary, class.epoch);
    for _ in 0..random.usize(0..4) {
        let to = seat(record, random, Some(last.0));
        let epoch = Epoch(last.1.0 + random.u64(1..3));
        class.switches.push(Switch { at, to, epoch });
        last = (to, epoch);
        at = at + spacing + more(random, 1_000);
    }
    if random.u32(0..4) == 0 {
        let first = seat(record, random, None);
        let second = seat(record, random, Some(first));
        let half = spacing + more(random, 500);
        class.rotation = Some(Rotation {
            anchor: at,
            period: half * 2,
            epoch_first: Epoch(last.1.0 + 1),
            legs: vec![
                Leg {
                    offset: Duration::ZERO,
                    to: first,
                },
                Leg {
                    offset: half,
                    to: second,
                },
            ],
        });
    }
    class
}

/// The next version: one switch more for everything else, in time for all to hear of it.
fn later(record: &Record, random: &mut Rng) -> Option<(u64, Record)> {
    let mut next = record.clone();
    next.version = 2;
    next.digest = Digest([2; 32]);
    let class = next.classes.last_mut()?;
    if class.rotation.is_some() {
        return None;
    }
    let (seat_before, epoch) = match class.switches.last() {
        Some(last) => (last.to, last.epoch),
        None => (class.primary, class.epoch),
    };
    let spacing = TIMING.spacing_min();
    let earliest = class
        .switches
        .last()
        .map_or(BEGIN_MS, |last| last.at.as_unix_ms());
    let at = WallMs::from_unix_ms(earliest.max(BEGIN_MS + 2_000)) + spacing + more(random, 1_000);
    let switch = Switch {
        at,
        to: seat(record, random, Some(seat_before)),
        epoch: Epoch(epoch.0 + 1),
    };
    class.switches.push(switch);
    let brought = at.as_unix_ms() - BEGIN_MS - random.u64(800..1_800);
    Some((brought, next))
}

fn more(random: &mut Rng, millis: u64) -> Duration {
    Duration::from_millis(random.u64(0..millis))
}
