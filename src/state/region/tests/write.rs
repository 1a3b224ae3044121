//! Writes at the primary: one after the other, and what each is answered.

use super::*;

#[test]
fn the_primary_applies_one_push_after_the_other() {
    let mut node = node("au-1", planned());
    let (_, first) = pushed(&mut node, push(1), 4_000);
    let (_, second) = pushed(&mut node, push(2), 4_000);
    let (id, head) = first_apply(&first);
    assert_eq!(second, [], "it waits for the first");
    node.handle_applied(id, Applied::Stored(head), now(4_001));
    let orders = about_requests(settle(&mut node, 4_001));
    let (_, head) = first_apply(&orders);
    assert_eq!(head.revision, Revision::parse("5-2").unwrap());
}

#[test]
fn the_last_rows_of_the_table_decide_in_their_order() {
    let mut node = node("au-1", planned());
    let mut first = push(1);
    first.key = Some("key".into());
    let (request, orders) = pushed(&mut node, first, 4_000);
    let (_, head) = first_apply(&orders);
    let digest = Digest([1; 32]);
    node.handle_applied(
        request,
        Applied::Stored(Head { digest, ..head }),
        now(4_000),
    );
    let stored = Revision::parse("5-1").unwrap();
    let unchanged = |orders: &[Order]| match orders {
        [Order::Answer { answer, .. }] => {
            let (revision, is_change) = (stored, false);
            *answer
                == Answer::Applied {
                    revision,
                    is_change,
                }
        }
        _ => false,
    };
    let mut stale = push(1);
    stale.precondition = Precondition::OneOf([Revision { epoch: 5, seq: 0 }].into());
    let (_, orders) = pushed(&mut node, stale, 4_000);
    assert_eq!(refusal_in(&orders).unwrap().0, Reason::PreconditionFailed);
    let (_, orders) = pushed(&mut node, push(1), 4_000);
    assert!(unchanged(&orders), "the same content: {orders:?}");
    let mut again = push(2);
    again.key = Some("key".into());
    let (_, orders) = pushed(&mut node, again, 4_000);
    assert!(unchanged(&orders), "the same name: {orders:?}");
    assert_eq!(apply(&mut node, 2, 4_000), Revision::parse("5-2").unwrap());
}

#[test]
fn a_push_that_ends_after_the_guard_has_begun_is_not_called_applied() {
    let mut node = node("au-1", planned());
    let (request, orders) = pushed(&mut node, push(1), AT - 3_500);
    let (_, head) = first_apply(&orders);
    assert_eq!(
        phase(&mut node, AT - 2_500),
        Phase::Drain,
        "the seal waits for it"
    );
    let answer = node.handle_applied(request, Applied::Stored(head), now(AT - 2_000));
    let Some(Answer::Refused(refusal)) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(
        (refusal.reason, refusal.outcome),
        (Reason::StoreFailed, Outcome::Unknown)
    );
    assert_eq!(phase(&mut node, AT - 1_999), Phase::Sealed);
}

#[test]
fn a_slot_that_was_taken_over_empty_takes_its_first_push() {
    let mut node = node("eu-1", planned());
    assert_eq!(phase(&mut node, AT + 4_000), Phase::Active);
    let write = Write {
        precondition: Precondition::NoContent,
        ..push(1)
    };
    let (_, orders) = pushed(&mut node, write, AT + 5_000);
    let [Order::Apply { head, .. }] = orders.as_slice() else {
        panic!("{orders:?}");
    };
    assert_eq!(head.revision, Revision::parse("6-1").unwrap());
    assert_eq!(head.parent, Revision::default());
}

#[test]
fn what_is_held_back_is_bounded() {
    let limits = Limits::PRODUCTION;
    let mut node = node("eu-1", planned());
    let mut large = push(1);
    large.bytes = limits.region.parked_bytes_max;
    let (_, orders) = pushed(&mut node, large, AT - 2_000);
    assert_eq!(orders, [], "it fits");
    let (_, orders) = pushed(&mut node, push(2), AT - 2_000);
    assert_eq!(
        refusal_in(&orders),
        Some((Reason::HoldFull, Outcome::NotAttempted))
    );
    let mut huge = push(3);
    huge.bytes = limits.push_bytes_max + 1;
    let refusal = node.accept(huge, now(AT - 2_000)).unwrap_err();
    assert_eq!(refusal.reason, Reason::BodyTooLarge);
}

#[test]
fn routes_run_side_by_side_and_are_waited_for_only_until_the_guard() {
    let mut node = node("au-1", planned());
    let write = |_| Write {
        subject: ROUTE,
        digest: None,
        ..push(0)
    };
    let mut running = Vec::new();
    for number in 0..3 {
        let (request, orders) = pushed(&mut node, write(number), AT - 3_500);
        assert!(matches!(orders[..], [Order::Apply { .. }]), "{orders:?}");
        running.push(request);
    }
    settle(&mut node, AT - 3_000);
    assert_eq!(node.phase(ROUTE), Some(Phase::Drain));
    settle(&mut node, AT - 2_000);
    assert_eq!(node.phase(ROUTE), Some(Phase::Sealed));
    for request in running {
        let answer = node.handle_applied(request, Applied::Passed, now(AT));
        assert_eq!(answer, Some(Answer::Pass));
    }
}
