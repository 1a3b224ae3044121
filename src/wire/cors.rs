//! What browsers must be told before a page may talk to the relay.
//!
//! Owns the fields of cross-origin answers. The same field goes on every answer, errors included:
//! without it a page cannot even see that its key is wrong. No credentials mode: IBM's browser SDKs
//! send their key in a header and no cookies, so `*` gives nothing away that the key does not
//! protect.
//!
//! Preflights carry no credential, and are answered 204 on every path of the service.

/// On every answer to an SDK: name and value.
pub const ANSWER: (&str, &str) = ("access-control-allow-origin", "*");

/// The same as a line of a response head, for heads that are written as text.
pub const ANSWER_LINE: &str = "access-control-allow-origin: *\r\n";

/// On the answer to a preflight.
///
/// The headers are those that Chromium and Firefox ask for on behalf of IBM's browser SDKs; without
/// the list the SDK tries again for ever. Two hours is the longest that Chromium keeps an answer.
pub const PREFLIGHT: [(&str, &str); 4] = [
    ANSWER,
    ("access-control-allow-methods", "GET, POST, OPTIONS"),
    (
        "access-control-allow-headers",
        "authorization, content-type, user-agent",
    ),
    ("access-control-max-age", "7200"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_the_field() {
        let (name, value) = ANSWER;
        assert_eq!(ANSWER_LINE, format!("{name}: {value}\r\n"));
    }

    #[test]
    fn everything_that_browsers_ask_for_is_allowed() {
        let value = |wanted: &str| {
            let field = PREFLIGHT.iter().find(|(name, _)| *name == wanted);
            field.map(|(_, value)| value.split(", ").collect::<Vec<_>>())
        };
        let headers = value("access-control-allow-headers").unwrap();
        for asked in ["authorization", "content-type", "user-agent"] {
            assert!(headers.contains(&asked), "{asked}");
        }
        let methods = value("access-control-allow-methods").unwrap();
        assert!(methods.contains(&"GET") && methods.contains(&"POST"));
        assert_eq!(value("access-control-allow-origin"), Some(vec!["*"]));
    }
}
