//! Times as records and peers write them: RFC 3339, UTC, to the second or the millisecond.
//!
//! One way of writing for each time, so that a record which is read and written again is the same:
//! `T` and `Z` in capitals, no other zone, milliseconds only where there are some.

use crate::time::WallMs;

/// The last time that can be written: the end of the year 9999.
const LAST: WallMs = WallMs::from_unix_ms(253_402_300_799_999);

/// Reads `2026-07-01T06:00:00Z` or `2026-07-01T06:00:00.250Z`. Bounded by O(1).
pub fn parse(text: &str) -> Option<WallMs> {
    let has_form = text.is_ascii() && matches!(text.len(), 20 | 24);
    // A sixtieth second is the reader's notion of a leap second, and the next minute for us.
    let second = text.get(17..19)?;
    if !has_form || second == "60" {
        return None;
    }
    WallMs::from_system(humantime::parse_rfc3339(text).ok()?)
}

/// Writes what `parse` reads; what lies after the year 9999 is written as its end.
pub fn write(time: WallMs) -> String {
    let time = time.min(LAST);
    match time.as_unix_ms() % 1000 {
        0 => humantime::format_rfc3339_seconds(time.to_system()).to_string(),
        _ => humantime::format_rfc3339_millis(time.to_system()).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_they_are_read() {
        for text in [
            "2026-07-01T06:00:00Z",
            "2026-07-01T06:00:00.250Z",
            "1970-01-01T00:00:00Z",
            "9999-12-31T23:59:59.999Z",
        ] {
            assert_eq!(write(parse(text).unwrap()), text);
        }
        assert_eq!(
            write(WallMs::from_unix_ms(u64::MAX)),
            "9999-12-31T23:59:59.999Z"
        );
    }

    #[test]
    fn nothing_but_utc_in_one_form_is_a_time() {
        for bad in [
            "",
            "2026-07-01",
            "2026-07-01T06:00:00",
            "2026-07-01T06:00:00+00:00",
            "2026-07-01 06:00:00Z",
            "2026-07-01t06:00:00z",
            "2026-07-01T06:00:00.25Z",
            "2026-02-30T06:00:00Z",
            "2026-07-01T24:00:00Z",
            "2026-07-01T06:00:60Z",
            "1969-12-31T23:59:59Z",
            "2026-07-01T06:00:0ßZ",
            "ßßßßßßßßßß",
        ] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }
}
