//! Claims about [`Fanout`]: who is sent what next, what is left out, and what nobody is sent.

use super::*;
use crate::time::Duration;

const SLOT: SlotIndex = SlotIndex(0);
const LATER: Instant = Instant::from_micros(3_600_000_000);

fn fanout() -> Fanout<u64> {
    Fanout::new(2, &Limits::PRODUCTION)
}

fn join(fanout: &mut Fanout<u64>, kind: Kind) -> Key {
    let subscription = Subscription {
        slot: SLOT,
        kind,
        key: KeyIndex(0),
        greet: false,
    };
    fanout.subscribe(subscription, LATER).unwrap()
}

fn publish(fanout: &mut Fanout<u64>, version: u64) {
    fanout.publish(
        SLOT,
        Version(version),
        Rc::new(version),
        Instant::from_micros(1),
    );
}

fn drain(fanout: &mut Fanout<u64>) -> Vec<Key> {
    std::iter::from_fn(|| fanout.poll_dirty()).collect()
}

#[test]
fn a_stream_begins_with_the_document_and_goes_on_with_changes() {
    let mut fanout = fanout();
    publish(&mut fanout, 1);
    let key = join(&mut fanout, Kind::Sse);
    assert_eq!(drain(&mut fanout), [key]);
    assert_eq!(fanout.next(key), Some(Next::Registration(Rc::new(1))));
    assert_eq!(fanout.next(key), None);
    publish(&mut fanout, 2);
    assert_eq!(drain(&mut fanout), [key]);
    assert_eq!(fanout.next(key), Some(Next::Change(Rc::new(2))));
}

#[test]
fn a_slow_client_skips_to_the_newest() {
    let mut fanout = fanout();
    let key = join(&mut fanout, Kind::Sse);
    for version in 1..=3 {
        publish(&mut fanout, version);
    }
    assert_eq!(drain(&mut fanout), [key]);
    assert_eq!(fanout.next(key), Some(Next::Registration(Rc::new(3))));
    assert_eq!(fanout.next(key), None);
}

#[test]
fn a_websocket_is_not_told_what_it_has_fetched() {
    let mut fanout = fanout();
    publish(&mut fanout, 1);
    let key = join(&mut fanout, Kind::WebSocket);
    assert_eq!(fanout.next(key), None);
    publish(&mut fanout, 2);
    assert!(matches!(fanout.next(key), Some(Next::Registration(_))));
}

#[test]
fn a_websocket_that_opens_right_after_a_change_is_told() {
    let mut fanout = fanout();
    fanout.open();
    publish(&mut fanout, 1);
    let soon = Instant::from_micros(1) + Duration::from_secs(1);
    let subscription = Subscription {
        slot: SLOT,
        kind: Kind::WebSocket,
        key: KeyIndex(0),
        greet: false,
    };
    let key = fanout.subscribe(subscription, soon).unwrap();
    assert!(fanout.next(key).is_some());
}

#[test]
fn what_was_there_at_the_start_is_no_change() {
    let mut fanout = fanout();
    publish(&mut fanout, 1);
    fanout.open();
    let subscription = Subscription {
        slot: SLOT,
        kind: Kind::WebSocket,
        key: KeyIndex(0),
        greet: false,
    };
    let key = fanout
        .subscribe(subscription, Instant::from_micros(2))
        .unwrap();
    assert_eq!(fanout.next(key), None);
}

#[test]
fn a_greeted_websocket_is_told_once() {
    let mut fanout = fanout();
    publish(&mut fanout, 1);
    let subscription = Subscription {
        slot: SLOT,
        kind: Kind::WebSocket,
        key: KeyIndex(0),
        greet: true,
    };
    let key = fanout.subscribe(subscription, LATER).unwrap();
    assert!(fanout.next(key).is_some());
    assert_eq!(fanout.next(key), None);
}

#[test]
fn waiting_clients_get_the_first_document() {
    let mut fanout = fanout();
    let keys = [Kind::WebSocket, Kind::Sse].map(|kind| join(&mut fanout, kind));
    for key in keys {
        assert_eq!(fanout.next(key), None);
    }
    publish(&mut fanout, 1);
    for key in keys {
        assert_eq!(fanout.next(key), Some(Next::Registration(Rc::new(1))));
    }
}

#[test]
fn a_flood_of_pings_leaves_one_pong() {
    let mut fanout = fanout();
    let key = join(&mut fanout, Kind::WebSocket);
    for ping in 0..100_u8 {
        fanout.pong(key, Bytes::copy_from_slice(&[ping]));
        fanout.heartbeat();
    }
    let last = Control::Pong(Bytes::from_static(&[99]));
    assert_eq!(fanout.next(key), Some(Next::Control(last)));
    assert_eq!(fanout.next(key), Some(Next::Control(Control::Heartbeat)));
    assert_eq!(fanout.next(key), None);
}

#[test]
fn what_waits_goes_out_before_the_close() {
    let mut fanout = fanout();
    let key = join(&mut fanout, Kind::WebSocket);
    fanout.heartbeat();
    fanout.pong(key, Bytes::new());
    fanout.close(key, 1012);
    for control in [
        Control::Pong(Bytes::new()),
        Control::Heartbeat,
        Control::Close(1012),
    ] {
        assert_eq!(fanout.next(key), Some(Next::Control(control)));
    }
    assert_eq!(fanout.next(key), None);
}

#[test]
fn nothing_follows_a_close() {
    let mut fanout = fanout();
    let key = join(&mut fanout, Kind::Sse);
    fanout.close(key, 1012);
    fanout.heartbeat();
    publish(&mut fanout, 1);
    assert_eq!(fanout.next(key), Some(Next::Control(Control::Close(1012))));
    assert_eq!(fanout.next(key), None);
    assert!(fanout.is_closed(key));
}

#[test]
fn a_removed_key_closes_its_own_streams_only() {
    let mut fanout = fanout();
    let stays = join(&mut fanout, Kind::Sse);
    let subscription = Subscription {
        slot: SLOT,
        kind: Kind::Sse,
        key: KeyIndex(7),
        greet: false,
    };
    let goes = fanout.subscribe(subscription, LATER).unwrap();
    fanout.close_where(|_, key| key == KeyIndex(7), 1012);
    assert_eq!(fanout.next(stays), None);
    assert_eq!(fanout.next(goes), Some(Next::Control(Control::Close(1012))));
}

#[test]
fn the_fifth_snapshot_evicts_the_writers_of_the_oldest() {
    let mut fanout = fanout();
    let mut keys = Vec::new();
    for version in 1..=4 {
        publish(&mut fanout, version);
        let key = join(&mut fanout, Kind::Sse);
        fanout.next(key);
        keys.push(key);
    }
    assert_eq!(fanout.poll_evicted(), None);
    publish(&mut fanout, 5);
    assert_eq!(fanout.poll_evicted(), Some(keys[0]));
    assert_eq!(fanout.poll_evicted(), None);
    assert_eq!(fanout.next(keys[0]), None);
    assert_eq!(fanout.evictions(), 1);
}

#[test]
fn a_slow_fetch_counts_as_a_writer() {
    let mut fanout = fanout();
    publish(&mut fanout, 1);
    let fetch = fanout.hold(SLOT, Version(1), KeyIndex(0)).unwrap();
    for version in 2..=4 {
        publish(&mut fanout, version);
        let key = join(&mut fanout, Kind::Sse);
        fanout.next(key);
    }
    publish(&mut fanout, 5);
    assert_eq!(fanout.poll_evicted(), Some(fetch));
}

#[test]
fn the_table_has_a_bound_and_gives_places_back() {
    let limits = Limits {
        connections_max: 1,
        fanout_batch: 0,
        ..Limits::PRODUCTION
    };
    let mut fanout: Fanout<u64> = Fanout::new(1, &limits);
    let key = join(&mut fanout, Kind::Sse);
    let subscription = Subscription {
        slot: SLOT,
        kind: Kind::Sse,
        key: KeyIndex(0),
        greet: false,
    };
    assert_eq!(fanout.subscribe(subscription, LATER), Err(SubscribersFull));
    fanout.unsubscribe(key);
    fanout.unsubscribe(key);
    assert!(fanout.subscribe(subscription, LATER).is_ok());
    assert_eq!(fanout.gauges(SLOT), [0, 1, 0, 0]);
}

#[test]
fn closing_goes_on_where_it_stopped() {
    let mut fanout = fanout();
    for _ in 0..5 {
        join(&mut fanout, Kind::Sse);
    }
    assert_eq!(fanout.close_some(2, 1012), 3);
    assert_eq!(fanout.close_some(2, 1012), 1);
    assert_eq!(fanout.close_some(2, 1012), 0);
}
