//! The face of an upstream: what it asks, with which credential, and what counts.

use super::*;
use crate::config::Proxy;
use crate::net::upstream::rig::{Rig, setting, slot, upstream, way};
use crate::state::session::Loss;
use crate::time::Duration;

const URL: &str = "http://relay.test:7070";

type Outcome = Result<ConfigAnswer, UpstreamError>;

fn config(rig: &Rig, upstream: &Rc<Upstream>) -> smol::Task<Outcome> {
    let (net, upstream) = (rig.net.clone(), upstream.clone());
    rig.start(async move { upstream.config(&net, &slot()).await })
}

/// Answers the next connection with `head` and `body`; what was asked on it.
fn serve(rig: &Rig, head: &str, body: &str) -> String {
    let (_, mut server) = rig.accept();
    let asked = rig.hear(&mut server);
    let length = body.len();
    let answer = format!("HTTP/1.1 {head}\r\nContent-Length: {length}\r\n\r\n{body}");
    rig.say(&mut server, answer.as_bytes());
    asked
}

fn grant(rig: &Rig, token: &str) -> String {
    let body = format!(r#"{{"access_token":"{token}","expires_in":3600}}"#);
    serve(rig, "200 OK\r\nContent-Type: application/json", &body)
}

const JSON: &str = "200 OK\r\nContent-Type: application/json; charset=utf-8";

#[test]
fn a_document_is_asked_for_with_a_token_that_is_kept() {
    let (rig, upstream) = (Rig::new(), upstream(URL));
    let task = config(&rig, &upstream);
    let asked = grant(&rig, "t1");
    assert!(asked.starts_with("POST /identity/token HTTP/1.1\r\nhost: relay.test:7070\r\n"));
    assert!(asked.ends_with("&apikey=a%20key"), "{asked}");
    let asked = serve(&rig, &format!("{JSON}\r\nX-Config-Path: r1,r2"), "{}");
    assert!(
        asked.starts_with(
            "GET /apprapp/feature/v1/instances/g-1/config?action=sdkConfig&collection_id=c\
             &environment_id=e HTTP/1.1\r\n"
        ),
        "{asked}"
    );
    assert!(
        asked.contains("\r\nauthorization: Bearer t1\r\n"),
        "{asked}"
    );
    assert!(
        asked.contains(&format!("\r\nuser-agent: {USER_AGENT}\r\n")),
        "{asked}"
    );
    let answer = rig.take(task).unwrap();
    assert_eq!(
        (&answer.bytes[..], answer.path.as_deref()),
        (&b"{}"[..], Some("r1,r2"))
    );

    let task = config(&rig, &upstream);
    assert!(serve(&rig, JSON, "{}").starts_with("GET "));
    assert!(rig.take(task).is_ok());
}

#[test]
fn two_who_want_a_token_ask_once() {
    let (rig, upstream) = (Rig::new(), upstream(URL));
    let tasks = [config(&rig, &upstream), config(&rig, &upstream)];
    grant(&rig, "t1");
    for task in tasks {
        assert!(serve(&rig, JSON, "{}").contains("Bearer t1"));
        assert!(rig.take(task).is_ok());
    }
    assert!(rig.try_accept().is_none());
}

#[test]
fn whoever_is_dropped_while_asking_holds_nobody_up() {
    let (rig, upstream) = (Rig::new(), upstream(URL));
    let (first, second) = (config(&rig, &upstream), config(&rig, &upstream));
    drop(first);
    rig.settle();
    let (_, _abandoned) = rig.accept();
    grant(&rig, "t1");
    serve(&rig, JSON, "{}");
    assert!(rig.take(second).is_ok());
}

#[test]
fn a_refused_token_is_replaced_once_and_only_if_it_is_old() {
    let (rig, upstream) = (Rig::new(), upstream(URL));
    let task = config(&rig, &upstream);
    grant(&rig, "t1");
    serve(&rig, "401 x", "");
    assert!(rig.take(task).unwrap_err().is_denied());
    rig.advance(rig.net.limits.token_retry);
    let task = config(&rig, &upstream);
    assert!(serve(&rig, "401 x", "").contains("Bearer t1"));
    grant(&rig, "t2");
    assert!(serve(&rig, JSON, "{}").contains("Bearer t2"));
    assert!(rig.take(task).is_ok());
}

#[test]
fn an_iam_that_was_not_reached_is_asked_by_the_next_try() {
    let (rig, upstream) = (Rig::new(), upstream(URL));
    let (first, second) = (config(&rig, &upstream), config(&rig, &upstream));
    rig.settle();
    drop(rig.accept());
    rig.settle();
    assert_eq!(rig.take(first).unwrap_err().loss(), Loss::Closed);
    assert_eq!(rig.take(second).unwrap_err().loss(), Loss::Closed);
    assert!(rig.try_accept().is_none(), "one attempt for both");
    rig.advance(rig.net.limits.token_unreached_retry);
    let task = config(&rig, &upstream);
    grant(&rig, "t1");
    serve(&rig, JSON, "{}");
    assert!(rig.take(task).is_ok());
}

#[test]
fn iam_is_left_alone_after_a_failure() {
    let (rig, upstream) = (Rig::new(), upstream(URL));
    let task = config(&rig, &upstream);
    serve(&rig, "400 x", "{}");
    let refused = rig.take(task).unwrap_err();
    assert_eq!(refused.problem, Problem::KeyRefused { status: 400 });
    assert!(refused.is_denied());
    let task = config(&rig, &upstream);
    assert!(rig.try_accept().is_none());
    assert_eq!(rig.take(task), Err(refused));
    // Read again, and the same: whoever did that has given it rights, perhaps.
    upstream.replace_key(Secret::new(b"a key"), &rig.net);
    let task = config(&rig, &upstream);
    serve(&rig, "400 x", "{}");
    assert!(rig.take(task).unwrap_err().is_denied());
    upstream.replace_key(Secret::new(b"other"), &rig.net);
    let task = config(&rig, &upstream);
    assert!(grant(&rig, "t1").ends_with("apikey=other"));
    serve(&rig, JSON, "{}");
    assert!(rig.take(task).is_ok());
}

#[test]
fn a_token_that_is_good_is_used_when_a_new_one_cannot_be_had() {
    let (rig, upstream) = (Rig::new(), upstream(URL));
    let task = config(&rig, &upstream);
    grant(&rig, "t1");
    serve(&rig, JSON, "{}");
    assert!(rig.take(task).is_ok());
    rig.advance(Duration::from_secs(3000));
    let refreshing = config(&rig, &upstream);
    // IAM is silent; who comes meanwhile does not wait for it.
    let (_, _iam) = rig.accept();
    let beside = config(&rig, &upstream);
    assert!(serve(&rig, JSON, "{}").contains("Bearer t1"));
    assert!(rig.take(beside).is_ok());
    // Nor does who asked it, for long: a dial has less time than an IAM that hangs.
    rig.advance(rig.net.limits.token_refresh_timeout);
    assert!(serve(&rig, JSON, "{}").contains("Bearer t1"));
    assert!(rig.take(refreshing).is_ok());
    let next = config(&rig, &upstream);
    assert!(serve(&rig, JSON, "{}").contains("Bearer t1"), "IAM rests");
    assert!(rig.take(next).is_ok());
}

#[test]
fn without_a_key_nobody_is_asked() {
    let rig = Rig::new();
    let upstream = Rc::new(Upstream::new(&setting(URL), None));
    let task = config(&rig, &upstream);
    assert_eq!(rig.take(task).unwrap_err().problem, Problem::NoKey);
    assert!(rig.try_accept().is_none());
}

#[test]
fn only_json_with_200_is_a_document() {
    for (head, is_document) in [
        (JSON, true),
        ("200 OK\r\nContent-Type: text/html", false),
        ("200 OK", false),
        ("206 x\r\nContent-Type: application/json", false),
        ("202 x\r\nContent-Type: application/json", false),
        ("500 x\r\nContent-Type: application/json", false),
    ] {
        let (rig, upstream) = (Rig::new(), upstream(URL));
        let task = config(&rig, &upstream);
        grant(&rig, "t");
        serve(&rig, head, "{}");
        assert_eq!(rig.take(task).is_ok(), is_document, "{head}");
    }
}

#[test]
fn reports_are_posted_and_any_success_will_do() {
    for (kind, path, status, accepted) in [
        (
            ReportKind::Usage,
            "/apprapp/events/v1/instances/g-1/usage",
            "202 x",
            true,
        ),
        (
            ReportKind::Analytics,
            "/apprapp/metrics/v1/instances/g-1/analytics",
            "200 x",
            true,
        ),
        (
            ReportKind::Usage,
            "/apprapp/events/v1/instances/g-1/usage",
            "429 x",
            false,
        ),
    ] {
        let (rig, upstream) = (Rig::new(), upstream(URL));
        let net = rig.net.clone();
        let task = rig.start(async move { upstream.report(&net, kind, b"[]".into()).await });
        grant(&rig, "t");
        let asked = serve(&rig, status, "");
        assert!(
            asked.starts_with(&format!("POST {path} HTTP/1.1\r\n")),
            "{asked}"
        );
        assert!(asked.contains("content-type: application/json\r\n") && asked.ends_with("\r\n[]"));
        assert_eq!(rig.take(task).is_ok(), accepted);
    }
}

#[test]
fn iam_may_be_elsewhere() {
    let rig = Rig::new();
    let through_proxy = UpstreamConfig {
        iam_url: Endpoint::parse("http://iam.test/x").ok(),
        proxy: Proxy::configured("http://proxy:3128").ok(),
        ..setting(URL)
    };
    let upstream = Rc::new(Upstream::new(&through_proxy, Secret::new(b"a key")));
    let _task = config(&rig, &upstream);
    let (to, mut proxy) = rig.accept();
    assert_eq!(to, "http://proxy:3128");
    assert!(rig.hear(&mut proxy).starts_with("CONNECT iam.test:80 "));
    rig.say(&mut proxy, b"HTTP/1.1 200 x\r\n\r\n");
    assert!(rig.hear(&mut proxy).starts_with("POST /x/identity/token "));
}

#[test]
fn a_peer_is_shown_its_key_and_no_iam_is_asked() {
    let rig = Rig::new();
    let key = Secret::new(b"a-peer-key").unwrap();
    let guid = Id::new("g-1").unwrap();
    let peer = Rc::new(Upstream::peer(way(URL), guid, &key));
    let task = config(&rig, &peer);
    let asked = serve(&rig, "401 Unauthorized", "");
    assert!(asked.starts_with("GET /apprapp/"), "{asked}");
    assert!(
        asked.contains("\r\nauthorization: Bearer a-peer-key\r\n"),
        "{asked}"
    );
    assert_eq!(rig.take(task).unwrap_err().loss(), Loss::Denied);
    assert!(rig.try_accept().is_none(), "it has no other key to try");
}
