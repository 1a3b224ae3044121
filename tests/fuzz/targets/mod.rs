//! The fuzz targets: plain functions over bytes that panic when a claim does not hold.
//!
//! Shared as they are by the test beside them, which runs on stable, and by the `cargo fuzz` crate.
//! A target takes any input and is deterministic. Where a claim needs a second opinion, the second
//! reader is written here anew, as naively as it can be: it may be slow, it may not be clever.

mod access;
mod answer;
mod config;
mod deadlines;
mod destinations;
mod entropy;
mod events;
mod fanout;
mod http;
mod iam;
mod ibm;
mod json;
mod keep;
mod proxy;
mod region;
mod relay;
mod seed;
mod session;
mod slots;
mod tree;
mod upstream;
mod websocket;
mod x509;

/// A target, and what it is fed with.
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
    /// Words of its language, for mutations.
    pub words: &'static [&'static str],
    /// More corpora, from the top of the project; its own is `tests/fuzz/corpus/NAME`.
    pub folders: &'static [&'static str],
}

const fn target(name: &'static str, run: fn(&[u8]), words: &'static [&'static str]) -> Target {
    let folders = &[];
    Target {
        name,
        run,
        words,
        folders,
    }
}

/// All targets.
pub const TARGETS: &[Target] = &[
    target("http_head", http::head, http::HEAD_WORDS),
    target("http_body", http::body, http::BODY_WORDS),
    target("http_answer", upstream::http_answer, upstream::WORDS),
    target("websocket", websocket::decoder, &[]),
    target("sse", answer::sse, json::WORDS),
    target("ibm_path", ibm::path, ibm::WORDS),
    target(
        "percent",
        ibm::percent,
        &["%", "%41", "%c3%a9", "%C3", "+", "%2", "%zz"],
    ),
    target("iam_token", iam::token, iam::TOKEN_WORDS),
    target("iam_form", iam::form, iam::FORM_WORDS),
    target("json_digest", json::digest, json::WORDS),
    Target {
        name: "seed",
        run: seed::seed,
        words: seed::WORDS,
        folders: &["seeds/bad"],
    },
    target("keep_record", keep::record, keep::WORDS),
    target("gzip", events::gzip, &[]),
    target("usage_entries", events::entries, events::WORDS),
    target("spool_log", events::lines, events::LINE_WORDS),
    target("config", config::config, config::WORDS),
    target(
        "etag_names",
        answer::etag_names,
        &["\"a\"", "W/", "*", ",", " ", "\""],
    ),
    target("x509", x509::validity, &[]),
    target("cookie", proxy::cookie, proxy::COOKIE_WORDS),
    target("route", proxy::route, proxy::ROUTE_WORDS),
    target("timespan", proxy::timespan, proxy::TIMESPAN_WORDS),
    target("region_record", region::record, region::RECORD_WORDS),
    target("region_envelope", region::envelope, region::WORDS),
    target("region_peer", region::peer, region::PEER_WORDS),
    target("region_status", region::status, region::WORDS),
    target("region_problem", region::problem, region::WORDS),
    target("region_target", region::target, region::TARGET_WORDS),
    target("state_fanout", fanout::fanout, &[]),
    target("state_deadlines", deadlines::deadlines, &[]),
    target("state_slab", deadlines::slab, &[]),
    target("state_access", access::access, &[]),
    target("state_spool", events::spool, &[]),
    target("state_slots", slots::slots, &[]),
    target("state_destinations", destinations::destinations, &[]),
    target("state_relay", relay::relay, &[]),
    target("state_session", session::session, &[]),
];
