//! Requests as SDKs write them, for tests to use and to bend.

use crate::harness::{GUID, KEY};

/// Path and query of the configuration of a slot, in the form of today's SDKs.
pub fn config_path(collection: &str, environment: &str) -> String {
    format!(
        "/apprapp/feature/v1/instances/{GUID}/config?action=sdkConfig\
         &collection_id={collection}&environment_id={environment}"
    )
}

/// Path and query of the same in the form of the Java and Android SDKs.
pub fn flat_path(collection: &str, environment: &str) -> String {
    format!(
        "/apprapp/feature/v1/instances/{GUID}/collections/{collection}/config\
         ?environment_id={environment}"
    )
}

/// Path and query of the event stream of a slot.
pub fn subscribe_path(collection: &str, environment: &str) -> String {
    format!(
        "/apprapp/feature/v1/instances/{GUID}/environments/{environment}/sse/subscribe\
         ?collection_id={collection}"
    )
}

/// Path and query of the WebSocket of a slot.
pub fn websocket_path(collection: &str, environment: &str) -> String {
    format!(
        "/apprapp/wsfeature?instance_id={GUID}&collection_id={collection}\
         &environment_id={environment}"
    )
}

/// Where usage goes.
pub fn usage_path() -> String {
    format!("/apprapp/events/v1/instances/{GUID}/usage")
}

/// Where analytics go.
pub fn analytics_path() -> String {
    format!("/apprapp/metrics/v1/instances/{GUID}/analytics")
}

/// A request with `method` and `more` header lines (each with its CRLF), bearing the test's key.
pub fn with(method: &str, path: &str, more: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: relay\r\nAuthorization: Bearer {KEY}\r\n{more}\r\n")
}

/// `GET path` with the test's key.
pub fn get(path: &str) -> String {
    with("GET", path, "")
}

/// The configuration of the slot that every test seed fills.
pub fn config() -> String {
    get(&config_path("inventory", "dev"))
}

/// A usage report of one entry.
pub const USAGE: &str = concat!(
    r#"{"collection_id":"inventory","environment_id":"dev","usages":[{"#,
    r#""feature_id":"fast-checkout","entity_id":"user-1","segment_id":null,"#,
    r#""evaluation_time":"2026-11-29T21:54:12Z","count":1}]}"#,
);

/// `POST` of `body` to `path`, framed by `Content-Length`.
pub fn post(path: &str, body: &[u8], more: &str) -> Vec<u8> {
    let framing = format!(
        "Content-Type: application/json\r\nContent-Length: {}\r\n",
        body.len()
    );
    let mut request = with("POST", path, &format!("{framing}{more}")).into_bytes();
    request.extend_from_slice(body);
    request
}

/// The upgrade of a WebSocket client. The key is the standard's own example.
pub fn upgrade(path: &str, more: &str) -> String {
    with(
        "GET",
        path,
        &format!(
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}"
        ),
    )
}

/// What a server must answer to that key.
pub const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// A token request for `key`, in the order of Python and Ruby.
pub fn token(key: &str) -> String {
    let body = format!(
        "grant_type=urn%3Aibm%3Aparams%3Aoauth%3Agrant-type%3Aapikey&apikey={key}\
         &response_type=cloud_iam"
    );
    token_body(&body)
}

/// A token request with the form `body`.
pub fn token_body(body: &str) -> String {
    format!(
        "POST /identity/token HTTP/1.1\r\nHost: iam.cloud.ibm.com\r\nAccept: application/json\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}
