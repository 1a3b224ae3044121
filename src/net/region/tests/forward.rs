//! Writes on their way to whoever is primary, and what becomes of them.

use super::*;

#[test]
fn a_client_is_answered_by_whom_its_write_was_sent_on_to() {
    let sites = settled("region-forward");
    let answer = push(&sites, EU, "Idempotency-Key: k\r\n", "a");
    assert_done(&answer, "5-1");
    assert!(slot(&sites, AU).contains(r#""value":"a""#));
    assert_done(&push(&sites, EU, "Idempotency-Key: k\r\n", "a"), "5-1");
    let stale = push(&sites, EU, "If-Match: \"5-9\"\r\n", "b");
    assert!(stale.starts_with("HTTP/1.1 412 "), "{stale}");
    let only_first = push(&sites, EU, "If-None-Match: *\r\n", "b");
    assert!(only_first.starts_with("HTTP/1.1 412 "), "{only_first}");
    let here = push(&sites, EU, "X-Relay-No-Forward: 1\r\n", "b");
    assert_refused(&here, 421, "not_primary");
    assert!(here.contains(r#""primary":"au-1""#), "{here}");
    assert!(slot(&sites, AU).contains(r#""value":"a""#));
}

#[test]
fn a_clients_forged_headers_are_its_own_business() {
    let sites = settled("region-forged");
    let forged = sent_on(&[("X-Relay-Cluster", "other"), ("X-Relay-Epoch", "99")]);
    assert_done(&push(&sites, AU, &forged, "a"), "5-1");
    assert_done(&push(&sites, EU, &forged, "b"), "5-2");
}

#[test]
fn a_node_that_reaches_itself_hears_of_the_loop() {
    let sites = Sites::new("region-self", &NAMES);
    let text = document(1, &["eu-1", "au-1"], "");
    let text = text.replace("http://eu-1.test", "http://x.au-1.test");
    sites.bring(AU, &text).unwrap();
    sites.advance(SECOND);
    assert_refused(&push(&sites, AU, "", "a"), 502, "loop");
}

#[test]
fn nodes_that_take_each_other_for_primary_are_mended_by_the_first_write() {
    for index in [AU, EU] {
        let sites = differing(&format!("region-ring-{index}"));
        let mut client = sites.connect(index, Door::AdminLocal);
        sites.send(&mut client, &put("", &content("a")));
        sites.advance(SECOND);
        assert_done(&sites.read(&mut client), "6-1");
        assert!(status(&sites, EU).contains(r#""version":2"#));
        assert!(slot(&sites, EU).contains(r#""value":"a""#));
    }
}

#[test]
fn a_write_that_nobody_takes_is_held_as_long_as_the_record_says() {
    let sites = settled("region-hold");
    sites.stop(AU);
    let mut client = sites.connect(EU, Door::AdminLocal);
    sites.send(&mut client, &put("", &content("a")));
    sites.advance(Duration::from_millis(1_900));
    assert_eq!(sites.read(&mut client), "");
    sites.advance(Duration::from_millis(200));
    assert_refused(&sites.read(&mut client), 503, "hold_timeout");
}

#[test]
fn a_write_that_was_sent_and_not_answered_is_of_unknown_outcome() {
    let sites = settled("region-lost");
    sites.cut(AU, EU);
    let mut client = sites.connect(EU, Door::AdminLocal);
    sites.send(&mut client, &put("", &content("a")));
    sites.heal();
    sites.advance(Duration::from_millis(2_100));
    let answer = sites.read(&mut client);
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    assert!(answer.contains(r#""reason":"forward_timeout""#), "{answer}");
    assert!(
        answer.contains("\r\nx-relay-outcome: unknown\r\n"),
        "{answer}"
    );
    assert!(
        slot(&sites, AU).starts_with("HTTP/1.1 204 "),
        "it was not sent again"
    );
}

#[test]
fn a_peer_without_the_right_key_is_named_in_the_refusal() {
    let sites = settled("region-keys");
    let driver = sites.driver(AU);
    let mut loaded = load_again(&sites, AU);
    loaded.region.as_mut().unwrap().peer_key = Secret::new(&[b'x'; 32]);
    *driver.loaded.borrow_mut() = loaded.into();
    let mut client = sites.connect(EU, Door::AdminLocal);
    sites.send(&mut client, &put("", &content("a")));
    sites.advance(Duration::from_millis(2_100));
    let answer = sites.read(&mut client);
    assert_refused(&answer, 503, "hold_timeout");
    assert!(
        answer.contains("au-1 answered 404") && answer.contains("peer key"),
        "{answer}"
    );
}

/// What the config of one relay names, read again.
fn load_again(sites: &Sites, index: usize) -> Loaded {
    let origin = sites.driver(index).loaded.borrow().origin.clone();
    load::load(origin, &limits()).unwrap()
}

#[test]
fn writes_lose_nothing_in_a_planned_switch() {
    let sites = settled_by("region-switch", &switch_to_eu());
    assert_done(&push(&sites, AU, "", "first"), "5-1");
    sites.advance(Duration::from_millis(8_750));
    let mut clients = [AU, EU].map(|index| sites.connect(index, Door::AdminLocal));
    sites.send(&mut clients[0], &put("", &content("second")));
    sites.send(&mut clients[1], &put("", &content("third")));
    sites.advance(SECOND);
    let answers = clients.each_mut().map(|client| sites.read(client));
    assert_done(&answers[0], "6-1");
    assert_done(&answers[1], "6-2");
    let held = slot(&sites, EU);
    assert!(held.contains("\r\nx-relay-parent: 5-1\r\n"), "{held}");
    assert!(status(&sites, AU).contains(r#""sealed":{"epoch":5,"head":"5-1"}"#));
    assert!(status(&sites, EU).contains(r#""unsealed_takeover":false"#));
}

#[test]
fn more_writes_than_may_be_held_are_told_to_come_back() {
    const FEW: Bounds = Bounds {
        parked_max: 2,
        ..SHORT
    };
    let sites = holding("region-full", &FEW);
    let mut clients = [(); 3].map(|()| sites.connect(EU, Door::AdminLocal));
    for (number, client) in clients.iter_mut().enumerate() {
        sites.send(client, &put("", &content(&number.to_string())));
    }
    let [first, second, third] = clients.each_mut().map(|client| sites.read(client));
    assert_eq!((first.as_str(), second.as_str()), ("", ""));
    assert_refused(&third, 503, "hold_full");
    assert!(third.contains("\r\nretry-after: "), "{third}");
}

#[test]
fn a_document_that_is_not_judged_in_time_is_told_to_come_back() {
    let sites = settled("region-unjudged");
    let (hangs, stuck) = std::sync::mpsc::channel::<()>();
    let driver = sites.driver(EU);
    let task = driver.clone();
    driver.spawn(async move {
        let _ = task.proxy.net.work.run(move || stuck.recv()).await;
    });
    let mut client = sites.connect(EU, Door::AdminLocal);
    let long = content(&"x".repeat(driver.limits.packed_on_loop_bytes_max));
    sites.send(&mut client, &put("", &long));
    sites.advance(Duration::from_millis(1_900));
    assert_eq!(sites.read(&mut client), "");
    sites.advance(Duration::from_millis(200));
    assert_refused(&sites.read(&mut client), 503, "crowded");
    drop(hangs);
}

#[test]
fn a_body_over_its_bound_is_refused_before_any_of_it_goes_to_a_peer() {
    let sites = settled("region-large");
    let length = Limits::PRODUCTION.push_bytes_max + 1;
    let head = format!("PUT /v1/slots/c/e HTTP/1.1\r\nHost: r\r\nContent-Length: {length}\r\n\r\n");
    for index in [EU, AU] {
        let mut client = sites.connect(index, Door::AdminLocal);
        sites.send(&mut client, head.as_bytes());
        sites.advance(Duration::from_millis(10));
        assert_refused(&sites.read(&mut client), 413, "body_too_large");
    }
    assert_done(&push(&sites, EU, "", "a"), "5-1");
}
