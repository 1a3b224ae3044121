//! Sites that route writes to each other, on one virtual clock that each of them sees skewed.
//!
//! Nodes run the real `state::region`; disks, links, clients and clocks are played: disks are slow,
//! one at a time, and lose what they had not done when their node dies; links delay, lose and part;
//! clocks differ from node to node. Records have switches and rotations at random times. Every
//! choice comes from one seed; `SIM_SEED=n cargo test --test sim region` runs that one alone.
//!
//! What must hold while clocks differ by less than the record allows: never two primaries at one
//! time; what was answered with 200 is in the content that all nodes end on, put there by exactly
//! one of them, or among the orphans of a switch that was made without a seal; every request is
//! answered in its time, and was at most at one other node. And the check itself can fail: with
//! clocks that differ by more, it finds what it looks for.

mod links;
mod node;
mod plan;
mod sites;

use plan::Plan;
use sites::Sites;

/// Worlds of each of the tests that share them, which run side by side.
const SEEDS: u64 = 250;

/// Lives through a share of the worlds; what came of all of them.
fn live(share: u64) {
    let seeds = super::seeds(SEEDS).into_iter();
    let seeds: Vec<u64> = match std::env::var("SIM_SEED") {
        Ok(_) => seeds.collect(),
        Err(_) => seeds.map(|seed| seed + share * SEEDS).collect(),
    };
    let (mut switches, mut unsealed) = (0, 0);
    for seed in &seeds {
        let told = Sites::new(Plan::new(*seed)).run();
        assert_eq!(told.overlaps, 0, "two primaries at one time: seed {seed}");
        switches += told.entered;
        unsealed += told.unsealed;
    }
    if seeds.len() > 1 {
        assert!(switches > SEEDS * 3, "hardly a switch was made: {switches}");
        assert!(
            unsealed > SEEDS / 10,
            "hardly one without a seal: {unsealed}"
        );
        assert!(
            unsealed < switches / 2,
            "hardly one with a seal: {unsealed} of {switches}"
        );
    }
}

#[test]
fn there_is_never_more_than_one_primary_and_no_answer_is_a_lie() {
    live(0);
}

#[test]
fn the_same_in_other_worlds() {
    live(1);
}

#[test]
fn the_same_in_worlds_again() {
    live(2);
}

#[test]
fn the_same_in_the_last_of_a_thousand() {
    live(3);
}

#[test]
fn without_faults_every_switch_is_sealed_and_nothing_is_lost() {
    for seed in super::seeds(100) {
        let told = Sites::new(Plan::without_faults(seed)).run();
        assert_eq!(told.overlaps, 0, "seed {seed}");
        assert_eq!(told.unsealed, 0, "seed {seed}");
        assert_eq!(told.orphans, 0, "seed {seed}");
        assert_eq!(told.refused, 0, "seed {seed}");
    }
}

#[test]
fn clocks_that_differ_by_more_than_the_guard_are_found_out() {
    let overlaps = |seed: &u64| Sites::new(Plan::beyond_guard(*seed)).run().overlaps > 0;
    let found = (0..60).filter(overlaps).count();
    assert!(found >= 5, "two primaries in {found} of 60 worlds only");
}
