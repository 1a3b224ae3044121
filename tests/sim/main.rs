//! The real net tasks over in-memory pipes on a virtual clock.
//!
//! Nothing here sleeps, opens a socket or starts a thread: a world is a driver, its executor, a
//! clock whose hands the test moves, and clients on the other ends of pipes. Every choice (who
//! reads how much, who pings, who leaves, when something is published) comes from one seed, which a
//! failure prints; `SIM_SEED=n cargo test --test sim` runs that one alone.
//!
//! `region` has worlds of its own: several sites, without tasks and pipes.
//!
//! What must hold, whatever the seed: no frame is torn or mixed with another, every client that is
//! still there ends on the newest version once it is quiet, nobody waits for a wake-up that does
//! not come, and the gauges are the real numbers.

mod client;
mod failover;
mod region;
mod upstream;
mod world;

use failover::Failover;
use world::World;

/// Worlds that run in plain text, and over TLS (a handshake costs a millisecond in a test build).
const PLAIN_SEEDS: u64 = 3_000;
const TLS_SEEDS: u64 = 150;
/// Sessions between two upstreams that fail for some minutes, and for a day.
const FAILOVER_SEEDS: u64 = 1_500;
const DEAD_DAY_SEEDS: u64 = 60;

fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("SIM_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
    {
        Some(seed) => vec![seed],
        None => (0..count).collect(),
    }
}

#[test]
fn every_client_ends_on_the_newest_version_whatever_the_network_does() {
    for seed in seeds(PLAIN_SEEDS) {
        World::new(seed, false).run();
    }
}

#[test]
fn the_same_holds_over_tls() {
    for seed in seeds(TLS_SEEDS) {
        World::new(seed, true).run();
    }
}

#[test]
fn a_task_that_is_cancelled_anywhere_leaves_nothing_behind() {
    for seed in seeds(40) {
        for polls in 0..60 {
            World::new(seed, false).cancel_after(polls);
        }
    }
}

#[test]
fn a_client_that_takes_nothing_is_reset_and_the_others_are_not() {
    for seed in seeds(200) {
        World::new(seed, false).stall();
    }
}

#[test]
fn a_session_comes_back_to_the_primary_with_the_newest_document() {
    for seed in seeds(FAILOVER_SEEDS) {
        Failover::new(seed, seed % 5 != 0).run();
    }
}

#[test]
fn a_dead_day_costs_three_hundred_dials_at_most() {
    for seed in seeds(DEAD_DAY_SEEDS) {
        Failover::new(seed, seed % 3 != 0).dead_day(seed % 2 == 0);
    }
}
