//! Percent-decoding of paths, queries and forms.
//!
//! Owns the one decoder that `wire::ibm` and `wire::iam` share. It never guesses: a `%` without
//! two hex digits, or bytes that are not UTF-8 once decoded, give nothing at all. Text without
//! escapes is borrowed, so that an ordinary request allocates nothing here.

use std::borrow::Cow;

/// Decodes `%XX`. Bounded by the length of `text`.
pub fn decode(text: &str) -> Option<Cow<'_, str>> {
    if text.contains('%') {
        unescape(text, false).map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(text))
    }
}

/// Decodes `%XX` and reads `+` as a blank, as `application/x-www-form-urlencoded` has it. Bounded
/// by the length of `text`.
pub fn decode_form(text: &str) -> Option<Cow<'_, str>> {
    if text.contains(['%', '+']) {
        unescape(text, true).map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(text))
    }
}

fn unescape(text: &str, plus_is_blank: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => hex(rest.next()?)? << 4 | hex(rest.next()?)?,
            b'+' if plus_is_blank => b' ',
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_whole_or_not_at_all() {
        for (text, plain, form) in [
            ("", Some(""), Some("")),
            ("a-b_c.d", Some("a-b_c.d"), Some("a-b_c.d")),
            ("a%2Fb%2f", Some("a/b/"), Some("a/b/")),
            ("a+b", Some("a+b"), Some("a b")),
            ("%2B+%2b", Some("+++"), Some("+ +")),
            ("%C3%A9", Some("é"), Some("é")),
            ("é%20", Some("é "), Some("é ")),
            ("%", None, None),
            ("%4", None, None),
            ("%4g", None, None),
            ("%+1", None, None),
            ("%%31", None, None),
            ("%ff", None, None),
            ("%C3", None, None),
        ] {
            assert_eq!(decode(text).as_deref(), plain, "{text:?}");
            assert_eq!(decode_form(text).as_deref(), form, "{text:?} as a form");
        }
    }

    #[test]
    fn text_without_escapes_is_borrowed() {
        assert!(matches!(decode("shop"), Some(Cow::Borrowed("shop"))));
        assert!(matches!(decode_form("shop"), Some(Cow::Borrowed("shop"))));
    }
}
