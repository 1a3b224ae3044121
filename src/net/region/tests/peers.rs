//! What peers ask of each other, and who may.

use super::*;

#[test]
fn peers_paths_are_nobody_elses() {
    let sites = Sites::new("region-paths", &NAMES);
    for path in ["/v1/region/status", "/v1/region/state", "/v1/slots/c/e"] {
        for key in ["secret", "", "a-peer-key-of-thirty-two-letterz"] {
            let answer = sites.ask(AU, Door::Sdk, &get(path, key));
            assert!(answer.starts_with("HTTP/1.1 404 "), "{path}: {answer}");
            assert!(!answer.contains("peer"), "{answer}");
        }
    }
    let status = status(&sites, AU);
    assert!(status.starts_with("HTTP/1.1 200 "), "{status}");
    assert!(status.contains(r#""node":"au-1""#), "{status}");
    let forged = sent_on(&[]).replace(PEER_KEY, "secret");
    let answer = sites.ask(AU, Door::Sdk, &put(&forged, &content("a")));
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
}

#[test]
fn peers_ask_what_is_not_there_and_hear_so() {
    let sites = Sites::new("region-strange", &NAMES);
    for (line, status) in [
        ("GET /v1/region/state", 404),
        ("GET /v1/region/statuses", 404),
        ("GET /v1/region/status?after=1", 404),
        ("PUT /v1/region/state", 405),
        ("POST /v1/region/status", 405),
        ("GET /v1/slots/c/none", 404),
        ("GET /v1/slots/c/e", 204),
        ("DELETE /v1/slots/c/e", 405),
        ("PUT /v1/slots/c/e", 400),
    ] {
        let key = format!("Authorization: Bearer {PEER_KEY}\r\nContent-Length: 0\r\n\r\n");
        let request = format!("{line} HTTP/1.1\r\nHost: r\r\n{key}");
        let answer = sites.ask(AU, Door::Sdk, request.as_bytes());
        let expected = format!("HTTP/1.1 {status} ");
        assert!(answer.starts_with(&expected), "{line}: {answer}");
    }
}

#[test]
fn a_newer_record_reaches_the_others_by_itself() {
    let sites = settled("region-travels");
    sites.bring(AU, &document(2, &NAMES, "")).unwrap();
    assert!(status(&sites, EU).contains(r#""version":1"#));
    sites.advance(SECOND);
    assert!(status(&sites, EU).contains(r#""version":2"#));
    let state = "/v1/region/state";
    let states = [AU, EU].map(|index| {
        let answer = sites.ask(index, Door::Sdk, &get(state, PEER_KEY));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    });
    assert_eq!(states[0], states[1], "as it was signed");
}

#[test]
fn a_question_waits_for_news_and_not_for_ever() {
    let sites = settled("region-news");
    let known = |index| {
        let text = status(&sites, index);
        let number = |name: &str| {
            let rest = text.split_once(&format!("\"{name}\":")).unwrap().1;
            rest.split(',').next().unwrap().to_owned()
        };
        format!("{}-{}", number("boot"), number("serial"))
    };
    let target = |wait_ms| {
        let after = known(AU);
        format!("/v1/region/status?after={after}&wait_ms={wait_ms}")
    };
    let mut client = sites.connect(AU, Door::Sdk);
    sites.send(&mut client, &get(&target(5_000), PEER_KEY));
    assert_eq!(sites.read(&mut client), "");
    sites.bring(AU, &document(2, &NAMES, "")).unwrap();
    assert!(sites.read(&mut client).contains(r#""version":2"#));
    sites.send(&mut client, &get(&target(500), PEER_KEY));
    sites.advance(Duration::from_millis(400));
    assert_eq!(sites.read(&mut client), "");
    sites.advance(Duration::from_millis(200));
    assert!(sites.read(&mut client).starts_with("HTTP/1.1 200 "));
    let other = get("/v1/region/status?after=1-1&wait_ms=5000", PEER_KEY);
    let answer = sites.ask(AU, Door::Sdk, &other);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[test]
fn a_peer_that_is_away_is_two_lines_in_the_log() {
    let sites = settled("region-away");
    sites.lines(AU);
    sites.cut(AU, EU);
    sites.advance(30 * SECOND);
    let lines = sites.lines(AU);
    assert_eq!(
        lines.matches("peer eu-1 does not answer").count(),
        1,
        "{lines}"
    );
    sites.heal();
    sites.advance(10 * SECOND);
    let lines = sites.lines(AU);
    assert_eq!(
        lines.matches("peer eu-1 answers again").count(),
        1,
        "{lines}"
    );
}

#[test]
fn a_peer_reads_what_clients_read() {
    let sites = settled("region-reads");
    assert_done(&push(&sites, AU, "", "a"), "5-1");
    let config = "/apprapp/feature/v1/instances/g-1/config?action=sdkConfig\
                  &collection_id=c&environment_id=e";
    let answer = sites.ask(AU, Door::Sdk, &get(config, PEER_KEY));
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let socket = "/apprapp/wsfeature?instance_id=g-1&collection_id=c&environment_id=e";
    let upgrade = format!(
        "GET {socket} HTTP/1.1\r\nHost: r\r\nAuthorization: Bearer {PEER_KEY}\r\n\
         Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    let answer = sites.ask(AU, Door::Sdk, upgrade.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
}
