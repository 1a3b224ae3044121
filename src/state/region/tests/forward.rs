//! Writes that belong to another node: sent on, tried again, given up.

use super::*;

#[test]
fn a_refused_forward_is_tried_again_until_the_time_is_up() {
    let mut node = node("us-1", planned());
    let (request, orders) = pushed(&mut node, push(1), 4_000);
    assert!(
        matches!(
            orders[..],
            [Order::Forward {
                peer: NodeIndex(0),
                ..
            }]
        ),
        "{orders:?}"
    );
    let refusal = refused_by("au-1", Reason::NotPrimary, 1);
    let mut forwards = 0;
    for millis in (4_000..16_000).step_by(200) {
        node.handle_forwarded(request, Forwarded::Refused(refusal.clone()), now(millis));
        assert_eq!(about_requests(settle(&mut node, millis)), [], "not at once");
        let orders = about_requests(settle(&mut node, millis + 200));
        forwards += orders
            .iter()
            .filter(|order| matches!(order, Order::Forward { .. }))
            .count();
    }
    assert_eq!(forwards, 59);
    let orders = about_requests(settle(&mut node, 16_000));
    assert_eq!(orders, [], "answered when its time was up");
    assert_eq!(node.status(now(16_000)).parked, 0);
    let counted: Vec<u64> = node.refusals().map(|(_, _, count)| count).collect();
    assert_eq!(counted, [60]);
}

/// The refusal that is all that follows.
#[track_caller]
fn only_refusal(orders: &[Order]) -> &Refusal {
    match orders {
        [
            Order::Answer {
                answer: Answer::Refused(refusal),
                ..
            },
        ] => refusal,
        _ => panic!("{orders:?}"),
    }
}

/// What a peer refuses with.
fn refused_by(primary: &str, reason: Reason, version: u64) -> Refusal {
    Refusal {
        reason,
        outcome: Outcome::NotAttempted,
        subject: None,
        epoch: Some(Epoch(5)),
        primary: Some(id(primary)),
        version: Some(version),
        words: String::new(),
    }
}

#[test]
fn when_records_differ_the_client_is_told_what_must_be_corrected() {
    let mut node = node("us-1", planned());
    let (request, _) = pushed(&mut node, push(1), 4_000);
    let refusal = refused_by("eu-1", Reason::StaleEpoch, 2);
    node.handle_forwarded(request, Forwarded::Refused(refusal), now(15_900));
    let orders = settle(&mut node, 15_900);
    let pull = Order::PullRecord { peer: NodeIndex(0) };
    assert!(orders.contains(&pull), "{orders:?}");
    let orders = about_requests(settle(&mut node, 16_000));
    let refusal = only_refusal(&orders);
    let words = "global state must be corrected: this node holds v1 (primary au-1), au-1 sent v2 \
                 (primary eu-1)";
    assert_eq!(
        (refusal.reason, refusal.words.as_str()),
        (Reason::HoldTimeout, words)
    );
    assert_eq!(node.disagreements().len(), 1);
}

#[test]
fn what_was_sent_and_not_answered_is_unknown_and_not_sent_again() {
    let mut node = node("us-1", planned());
    let (request, _) = pushed(&mut node, push(1), 4_000);
    node.handle_sent(request);
    node.handle_forwarded(request, Forwarded::Lost, now(4_100));
    let orders = about_requests(settle(&mut node, 4_100));
    assert_eq!(orders.len(), 1);
    let expected = (Reason::ForwardTimeout, Outcome::Unknown);
    assert_eq!(refusal_in(&orders), Some(expected));
}

#[test]
fn a_forward_that_hangs_is_given_up_with_what_is_known_of_it() {
    for (is_sent, expected) in [
        (true, (Reason::ForwardTimeout, Outcome::Unknown)),
        (false, (Reason::HoldTimeout, Outcome::NotAttempted)),
    ] {
        let mut node = node("us-1", planned());
        let (request, _) = pushed(&mut node, push(1), 4_000);
        if is_sent {
            node.handle_sent(request);
        }
        let orders = about_requests(settle(&mut node, 16_000));
        assert_eq!(orders[0], Order::Abandon { id: request });
        assert_eq!(refusal_in(&orders), Some(expected));
    }
}

#[test]
fn who_does_not_want_a_hop_is_told_where_to_go() {
    let mut node = node("us-1", planned());
    let mut write = push(1);
    write.origin = Origin::Client { may_forward: false };
    let (_, orders) = pushed(&mut node, write, 4_000);
    let refusal = only_refusal(&orders);
    assert_eq!(
        (refusal.reason, &refusal.primary),
        (Reason::NotPrimary, &Some(id("au-1")))
    );
}
