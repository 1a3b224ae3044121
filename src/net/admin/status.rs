//! The relay's state, gathered for people.
//!
//! Owns which value of which part of the relay goes where in the document of `/status`. Everything
//! is copied in one go, without waiting in between, so that a document never mixes two moments.
//! Judging what is a problem is not done here: that is `wire::status`.
//!
//! Never copies a secret, or what a client sent.

mod region;
mod upstream;

use crate::model::Reject;
use crate::model::report::ReportKind;
use crate::state::destinations::health::Verdict;
use crate::state::destinations::{Destinations, View};
use crate::state::events::{Counts, Events};
use crate::state::fanout::{Gauges, Kind};
use crate::state::slots::{Held, Slot};
use crate::state::spool::Spool;
use crate::time::{Instant, Wall};
use crate::wire::status::{self, Status};

use super::super::clock::writable;
use super::super::driver::Driver;
use super::super::load::Loaded;

/// The status of this moment.
///
/// Bounded by the number of slots.
pub fn collect(driver: &Driver) -> Status {
    let now = driver.clock.now();
    let loaded = driver.loaded.borrow().clone();
    let state = driver.state.borrow();
    let open = driver.open();
    let instance = &loaded.config.instance;
    let slots = state.slots.iter();
    let status = Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        state: match driver.is_draining() {
            true => status::Phase::Draining,
            false => status::Phase::Serving,
        },
        ready: false,
        problems: loaded.problems.clone(),
        notes: Vec::new(),
        uptime_s: (now - driver.started).as_secs(),
        clock: clock(driver.clock.wall()),
        instance: status::Instance {
            guid: driver.guid.to_string(),
            region: instance.region.as_ref().map(ToString::to_string),
        },
        seed: seed(driver, &loaded, now),
        upstreams: upstream::upstreams(driver),
        state_dir: state_dir(driver, &loaded, state.saves.waiting(), now),
        slots: slots
            .map(|(index, slot)| status::Slot {
                following: upstream::following(driver, index, now),
                ..self::slot(slot, state.fanout.gauges(index), now)
            })
            .collect(),
        connections: status::Connections {
            sdk: open.sdk,
            lobby: open.lobby,
            admin: open.admin,
            limit: driver.limits.connections_max,
        },
        keys: status::Keys {
            configured: loaded.config.client_keys.len(),
            unreadable: state.access.unreadable(),
        },
        tls: driver.tls.borrow().is_some(),
        events: events(&state.events),
        refusals: state
            .counters
            .refusals()
            .filter(|(_, count)| *count > 0)
            .map(|(reject, count)| (Reject::as_str(reject).to_owned(), count))
            .collect(),
        clusters: clusters(&loaded, &state.destinations, now),
        region: region::region(driver, now),
    };
    status.judged()
}

fn clusters(loaded: &Loaded, destinations: &Destinations, now: Instant) -> Vec<status::Cluster> {
    let proxy = loaded.config.reverse_proxy.as_ref();
    let clusters = proxy.map_or(&[][..], |proxy| &proxy.clusters);
    let clusters = clusters.iter().enumerate().map(|(place, cluster)| {
        let (outcomes, again) = destinations.outcomes(place);
        let outcomes = outcomes.map(|(outcome, count)| (outcome.as_str().to_owned(), count));
        let views = destinations.views(place, now);
        status::Cluster {
            id: cluster.id.to_string(),
            requests: outcomes.collect(),
            again,
            destinations: views.map(|view| destination(&view)).collect(),
        }
    });
    clusters.collect()
}

fn destination(view: &View<'_>) -> status::Destination {
    let verdict = |verdict: Option<Verdict>| verdict.map(|verdict| verdict.as_str().to_owned());
    status::Destination {
        id: view.destination.id.to_string(),
        address: view.destination.address.to_string(),
        is_healthy: view.is_healthy,
        active: verdict(view.active),
        passive: verdict(view.passive),
        in_flight: view.in_flight,
        backup: view.destination.is_backup,
        draining: view.destination.is_draining,
    }
}

fn clock(wall: Wall) -> status::Clock {
    status::Clock {
        state: match wall.is_plausible() {
            true => status::ClockState::Set,
            false => status::ClockState::NotSet,
        },
        time: moment(wall),
    }
}

fn moment(wall: Wall) -> String {
    humantime::format_rfc3339_seconds(writable(wall).to_system()).to_string()
}

fn seed(driver: &Driver, loaded: &Loaded, now: Instant) -> Option<status::Seed> {
    let file = &loaded.config.seed.as_ref()?.file;
    let seed = driver.seed.borrow();
    let problem = seed.problem.as_ref();
    Some(status::Seed {
        file: file.display().to_string(),
        read_s: seed.read_at.map(|at| (now - at).as_secs()),
        bytes: seed.bytes as u64,
        problem: problem.map(|(problem, _)| problem.clone()),
        problem_s: problem.map(|(_, since)| (now - *since).as_secs()),
    })
}

fn state_dir(
    driver: &Driver,
    loaded: &Loaded,
    waiting: usize,
    now: Instant,
) -> Option<status::StateDir> {
    let folder = loaded.config.state_dir.as_ref()?;
    let keep = driver.keep.borrow();
    let problem = keep.problem.as_ref().or(keep.unreadable.as_ref());
    Some(status::StateDir {
        folder: folder.display().to_string(),
        problem: problem.map(|(problem, _)| problem.clone()),
        problem_s: problem.map(|(_, since)| (now - *since).as_secs()),
        saved_s: keep.saved_at.map(|at| (now - at).as_secs()),
        waiting,
        bad_files: keep.bad_files.clone(),
    })
}

fn slot(slot: &Slot, gauges: Gauges, now: Instant) -> status::Slot {
    let mut clients = status::Clients::default();
    for (kind, count) in Kind::ALL.into_iter().zip(gauges) {
        match kind {
            Kind::WebSocket => clients.websocket = count,
            Kind::Sse => clients.sse = count,
            Kind::SseEventsOnly => clients.sse_events_only = count,
            Kind::Fetch => clients.fetch = count,
        }
    }
    status::Slot {
        slot: slot.key.to_string(),
        serves: slot.held.as_ref().map(|held| served(slot, held, now)),
        following: None,
        clients,
        last_error: slot.refusal.as_ref().map(|refusal| status::LastError {
            problem: refusal.problem.clone(),
            since_s: (now - refusal.since).as_secs(),
            times: refusal.times,
        }),
        superseded: slot.superseded.map(|seed| status::SupersededSeed {
            digest: seed.digest.to_string(),
            since_s: (now - seed.since).as_secs(),
        }),
        stale_refused: slot.stale,
    }
}

fn served(slot: &Slot, held: &Held, now: Instant) -> status::Served {
    let snapshot = &held.snapshot;
    status::Served {
        source: held.source.as_str().to_owned(),
        version: held.version.0,
        revision: slot.revision().map(|revision| revision.to_string()),
        pushed_at: slot.pushed_at().map(moment),
        age_s: (now - held.since).as_secs(),
        confirmed_s: (now - held.confirmed).as_secs(),
        digest: snapshot.digest.to_string(),
        features: snapshot.counts.features,
        properties: snapshot.counts.properties,
        segments: snapshot.counts.segments,
        bytes: snapshot.json.len() as u64,
        rollouts_filled: snapshot.rollouts_filled,
    }
}

fn events(events: &Events) -> status::Events {
    let counts = |kind| {
        let Counts {
            reports,
            entries,
            malformed,
            malformed_entries,
        } = events.counts(kind);
        status::EventCounts {
            reports,
            entries,
            malformed,
            malformed_entries,
        }
    };
    let spool = events.spool();
    let deliveries = spool.map(Spool::deliveries).unwrap_or_default();
    status::Events {
        counted_only: spool.is_none(),
        waiting: spool.map_or(0, Spool::waiting_entries),
        waiting_bytes: spool.map_or(0, Spool::memory_bytes),
        disk_bytes: spool.map_or(0, Spool::disk_bytes),
        disk_problem: spool.and_then(Spool::disk_problem).map(str::to_owned),
        delivered: deliveries.batches,
        delivered_entries: deliveries.entries,
        set_aside: deliveries.set_aside_batches,
        set_aside_entries: deliveries.set_aside_entries,
        dropped_entries: deliveries.dropped_entries,
        may_repeat: deliveries.unmarked_batches,
        usage: counts(ReportKind::Usage),
        analytics: counts(ReportKind::Analytics),
    }
}
