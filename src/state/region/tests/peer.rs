//! What a node takes from its peers, and what it asks of them.

use super::*;

#[test]
fn a_peers_push_is_parked_applied_or_refused_and_never_sent_on() {
    let incoming = |epoch| Incoming {
        cluster: id("plant"),
        from: id("us-1"),
        via: vec![id("us-1")],
        hops: 1,
        epoch: Epoch(epoch),
        left: Duration::from_millis(500),
    };
    let peers = |number| Write {
        origin: Origin::Peer,
        ..push(number)
    };
    let mut node = node("eu-1", planned());
    let refused = node
        .receive(&incoming(5), peers(1), now(4_000))
        .unwrap_err();
    assert_eq!(
        (refused.reason, refused.primary),
        (Reason::NotPrimary, Some(id("au-1")))
    );
    settle(&mut node, AT - 2_000);
    let parked = node.receive(&incoming(6), peers(1), now(AT - 2_000));
    assert!(parked.is_ok(), "{parked:?}");
    assert_eq!(about_requests(settle(&mut node, AT - 2_000)), []);
    let orders = about_requests(settle(&mut node, AT - 1_500));
    assert_eq!(
        refusal_in(&orders),
        Some((Reason::HoldTimeout, Outcome::NotAttempted))
    );
    let stale = node
        .receive(&incoming(5), peers(1), now(AT - 2_000))
        .unwrap_err();
    assert_eq!(stale.reason, Reason::StaleEpoch);
    let early = node
        .receive(&incoming(7), peers(1), now(AT - 2_000))
        .unwrap_err();
    assert_eq!(early.reason, Reason::UnknownEpoch);
    let orders = settle(&mut node, AT - 2_000);
    let pull = Order::PullRecord { peer: NodeIndex(2) };
    assert!(
        orders.contains(&pull),
        "its record may be newer: {orders:?}"
    );
}

#[test]
fn a_newer_record_of_a_peer_is_pulled_and_another_name_is_nobody() {
    let mut node = node("us-1", planned());
    let mut newer = planned();
    newer.version = 2;
    hear(
        &mut node,
        told("au-1", &newer, Phase::Active, 5, None),
        4_000,
    );
    let orders = settle(&mut node, 4_300);
    assert!(
        orders.contains(&Order::PullRecord { peer: NodeIndex(0) }),
        "{orders:?}"
    );
    let mut stranger = told("eu-1", &newer, Phase::Active, 6, None);
    stranger.wall = now(0).wall;
    hear(&mut node, stranger, 5_500);
    assert_eq!(phase(&mut node, 5_600), Phase::Replica);
}

#[test]
fn a_seal_is_waited_for_at_the_peer_before_it_is_made() {
    let record = planned();
    let mut node = node("eu-1", record.clone());
    hear(
        &mut node,
        told("au-1", &record, Phase::Active, 5, None),
        AT - 5_000,
    );
    let asks = |orders: Vec<Order>| {
        let ask = |order: &Order| match order {
            Order::Ask(ask) if ask.peer == NodeIndex(0) => Some(ask.after),
            _ => None,
        };
        orders.iter().filter_map(ask).collect::<Vec<_>>()
    };
    assert_eq!(
        asks(settle(&mut node, AT - 4_001)),
        [],
        "a poll after the last"
    );
    assert_eq!(asks(settle(&mut node, AT - 4_000)), [Some((9, 9))]);
}

#[test]
fn a_primary_takes_nothing_from_a_peer() {
    let mut node = node("au-1", planned());
    apply(&mut node, 1, 4_000);
    let there = Head {
        revision: Revision::parse("5-9").unwrap(),
        ..Head::default()
    };
    assert_eq!(node.follow(SLOT, &there), Follow::Keep);
}
