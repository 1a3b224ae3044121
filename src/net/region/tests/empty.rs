//! Slots that nobody has pushed to yet, handed over and taken over.

use super::*;

fn twice() -> String {
    let (one, other) = ("2027-01-15T08:00:10Z", "2027-01-15T08:00:20Z");
    format!(
        r#"{{ "at": "{one}", "to": "r-eu-1", "epoch": 6 }},
           {{ "at": "{other}", "to": "r-au-1", "epoch": 7 }}"#
    )
}

/// The first writer is gone before it could seal.
fn taken_over(test: &str) -> Sites {
    let sites = settled_by(test, &twice());
    sites.stop(AU);
    sites.advance(SECOND * 11);
    let status = status(&sites, EU);
    assert!(status.contains(r#""unsealed_takeover":true"#), "{status}");
    sites
}

#[test]
fn what_was_taken_over_empty_takes_its_first_push() {
    let sites = taken_over("region-empty-push");
    let found = sites.ask(EU, Door::AdminLocal, &get("/v1/slots/c/e", ""));
    assert!(found.starts_with("HTTP/1.1 404 "), "{found}");
    let refused = push(&sites, EU, "If-Match: *\r\n", "a");
    assert_refused(&refused, 412, "precondition_failed");
    assert_done(&push(&sites, EU, "If-None-Match: *\r\n", "a"), "6-1");
}

#[test]
fn what_was_taken_over_empty_is_handed_over_with_a_seal() {
    let sites = taken_over("region-empty-switch");
    sites.restart(AU);
    sites.lines(AU);
    sites.advance(SECOND * 12);
    let status = status(&sites, AU);
    assert!(status.contains(r#""phase":"active""#), "{status}");
    assert!(!status.contains(r#""unsealed_takeover":true"#), "{status}");
    assert!(slot(&sites, AU).starts_with("HTTP/1.1 204 "));
}
