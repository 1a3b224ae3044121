//! A JSON text without the white space between its tokens.
//!
//! For documents that are cut out of an export and so have to be copied anyway: exports are printed
//! for people, and a third of their bytes would be sent to every client for nothing. Strings and
//! numbers stay byte for byte, and so does the order of keys.
//!
//! The text must have passed [`check`](super::check()): whatever stands outside a string is a token
//! or white space.

/// Takes the white space out. Bounded by the text; never longer than it.
pub fn compact(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(quote) = rest.find('"') {
        push_tokens(&mut kept, &rest[..quote]);
        let end = quote + string_length(&rest.as_bytes()[quote..]);
        kept.push_str(&rest[quote..end]);
        rest = &rest[end..];
    }
    push_tokens(&mut kept, rest);
    kept.shrink_to_fit();
    kept
}

fn push_tokens(kept: &mut String, text: &str) {
    kept.extend(text.split([' ', '\t', '\r', '\n']));
}

/// Bytes of the string literal at the start of `bytes`, its quotes included.
fn string_length(bytes: &[u8]) -> usize {
    let mut escaped = false;
    for (at, byte) in bytes.iter().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_goes_and_strings_stay() {
        for (text, want) in [
            (
                "{ \"a b\" :\r\n [ 1.0 , 2e3,\ttrue ] }",
                "{\"a b\":[1.0,2e3,true]}",
            ),
            (r#"[ "\"  \\" , "é \n " ]"#, r#"["\"  \\","é \n "]"#),
            ("{}", "{}"),
            (" [ ] ", "[]"),
        ] {
            assert_eq!(compact(text), want);
        }
    }
}
