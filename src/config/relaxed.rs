//! Comments and trailing commas: what .NET's reader of configuration takes besides JSON.
//!
//! Owns the one way in which a configuration file may differ from JSON, so that a section can be
//! pasted from an `appsettings.json` as it is: `//` to the end of the line, `/* */`, and one comma
//! behind the last value of a list or an object, anywhere in the file.
//!
//! Blanks take the place of what is left out, so that line and column of a mistake stay true. What
//! else is no JSON stays, and is for the parser to refuse.

use std::borrow::Cow;

/// `text` without comments and trailing commas, byte for byte as long. Bounded by its length.
pub fn plain(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'/') && !text.contains(&b',') {
        return Cow::Borrowed(text);
    }
    let mut out = text.to_vec();
    let mut at = 0;
    // The last two places that were no blank and no comment.
    let (mut before, mut last): (Option<usize>, Option<usize>) = (None, None);
    while at < text.len() {
        let end = comment_end(&text[at..]);
        if end > 0 {
            let comment = &mut out[at..at + end];
            comment
                .iter_mut()
                .filter(|byte| !b"\r\n".contains(byte))
                .for_each(|byte| *byte = b' ');
            at += end;
            continue;
        }
        let byte = text[at];
        if b"]}".contains(&byte)
            && let (Some(value), Some(comma)) = (before, last)
            && text[comma] == b','
            && !b"[{,:".contains(&text[value])
        {
            out[comma] = b' ';
        }
        let end = if byte == b'"' {
            string_end(&text[at..])
        } else {
            1
        };
        if !byte.is_ascii_whitespace() {
            (before, last) = (last, Some(at));
        }
        at += end;
    }
    Cow::Owned(out)
}

/// Length of the comment at the start of `text`; 0 = there is none, or it does not end.
fn comment_end(text: &[u8]) -> usize {
    match text {
        [b'/', b'/', ..] => {
            let end = text.iter().position(|byte| b"\r\n".contains(byte));
            end.unwrap_or(text.len())
        }
        [b'/', b'*', rest @ ..] => {
            let end = rest.windows(2).position(|pair| pair == b"*/");
            end.map_or(0, |end| end + 4)
        }
        _ => 0,
    }
}

/// Length of the string at the start of `text`; all of it when it does not end.
fn string_end(text: &[u8]) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<serde_json::Value> {
        serde_json::from_slice(&plain(text.as_bytes())).ok()
    }

    #[test]
    fn comments_and_trailing_commas_are_left_out() {
        for (text, same) in [
            ("[1, // one\n 2]", "[1,2]"),
            ("[1, /* two */ 2]", "[1,2]"),
            ("{\"a\": 1, /* end */ }", "{\"a\":1}"),
            ("[[1,],[2,],]", "[[1],[2]]"),
            (
                "[\"//\", \"/*\", \",]\", \"\\\"//\"]",
                "[\"//\",\"/*\",\",]\",\"\\\"//\"]",
            ),
            ("// all\n[] // end", "[]"),
            ("/***/[]/* // */", "[]"),
            ("[{},]", "[{}]"),
        ] {
            assert_eq!(value(text), value(same), "{text}");
            assert!(value(text).is_some(), "{text}");
            assert_eq!(plain(text.as_bytes()).len(), text.len());
        }
    }

    #[test]
    fn what_else_is_no_json_is_still_refused() {
        for text in [
            "[,]",
            "[1,,]",
            "{,}",
            "{\"a\":,}",
            "[1,,2]",
            "[1] /*",
            "/ [1]",
            "[1,",
            "{\"a\",}",
            ",",
            "[1,}",
            "\"//",
        ] {
            assert_eq!(value(text), None, "{text}");
        }
    }

    #[test]
    fn mistakes_keep_their_line_and_column() {
        let error = serde_json::from_slice::<serde_json::Value>(&plain(b"[1, /*\n*/ x]"));
        let error = error.unwrap_err();
        assert_eq!((error.line(), error.column()), (2, 4));
    }
}
