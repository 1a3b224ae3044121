//! A fleet costs the upstream one socket for each slot, and one fetch for each change.

use crate::crowd::{Crowd, raise_descriptors};
use crate::harness::PATIENCE;
use crate::harness::relay::Relay;
use crate::place::{SLOTS, double, fetches, notify, set, site, until_marked, until_open};

const ROUNDS: usize = 3;

#[test]
fn a_fleet_costs_one_socket_a_slot_and_one_fetch_a_change() {
    raise_descriptors();
    let upstream = double("primary", "first");
    let site = site("fleet", "normal", &upstream, None);
    let relay = Relay::start(&site);
    let slots = SLOTS.len() as u64;
    until_open(&upstream, &relay, slots);
    // One before it listened, and one after each 101.
    let begun = upstream.wait_until(PATIENCE, |counts| {
        counts.slots.values().all(|slot| slot.fetches == 2)
    });
    assert!(begun.is_some(), "{:?}", upstream.counts());
    let mut crowd = Crowd::connect(&relay, 1_000, 200, &SLOTS);
    for round in 1..=ROUNDS {
        let mark = format!("round {round}");
        set(&upstream, &mark);
        notify(&upstream);
        crowd.until_told(round);
        for slot in SLOTS {
            until_marked(&relay, slot, &mark);
        }
        assert_eq!(fetches(&upstream), slots * (2 + round as u64));
    }
    let counts = upstream.counts();
    for slot in SLOTS {
        let counts = counts.slot(slot);
        assert_eq!((counts.sockets_open, counts.sockets_ever), (1, 1), "{slot}");
    }
    assert_eq!((counts.sockets_open, counts.tokens), (slots, 1));
    assert!(relay.stop().success());
}
