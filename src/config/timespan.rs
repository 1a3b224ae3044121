//! .NET's `TimeSpan` as text, as YARP's configuration has it.
//!
//! Owns the grammar of `TimeSpan.ParseExact` with the format `c`: an optional sign, days alone, or
//! `[days.]hours:minutes[:seconds[.fraction]]`, with blanks and tabs around it. Hours to 23,
//! minutes and seconds to 59, a fraction of up to seven digits, any number of leading zeros.
//!
//! A number alone is a number of *days*. It is read as such here; that hardly anybody means it is
//! for who asks.

use crate::time::Duration;

const TICKS_A_SECOND: i128 = 10_000_000;

/// The duration in ticks of 100 ns, or `None` for what .NET refuses. Bounded by the length of
/// `text`.
pub fn ticks(text: &str) -> Option<i64> {
    let text = text.trim_matches([' ', '\t']);
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let mut parts = text.split(':');
    let (first, second, third) = (parts.next()?, parts.next(), parts.next());
    if parts.next().is_some() {
        return None;
    }
    let Some(minutes) = second else {
        let days = i128::from(number(first, u64::MAX)?);
        return i64::try_from(sign * days * 86_400 * TICKS_A_SECOND).ok();
    };
    let (days, hours) = match first.split_once('.') {
        Some((days, hours)) => (number(days, u64::MAX)?, number(hours, 23)?),
        None => (0, number(first, 23)?),
    };
    let (seconds, fraction) = match third {
        Some(third) => third.split_once('.').unwrap_or((third, "")),
        None => ("0", ""),
    };
    let minutes = number(minutes, 59)?;
    let seconds = number(seconds, 59)?;
    let whole = i128::from(days) * 86_400 + i128::from(hours * 3600 + minutes * 60 + seconds);
    let ticks = whole * TICKS_A_SECOND + i128::from(fraction_ticks(fraction)?);
    i64::try_from(sign * ticks).ok()
}

/// The duration, or `None` for what .NET refuses and for what is below zero.
pub fn duration(text: &str) -> Option<Duration> {
    let ticks = u64::try_from(ticks(text)?).ok()?;
    let (seconds, rest) = (ticks / 10_000_000, ticks % 10_000_000);
    Some(Duration::new(seconds, rest as u32 * 100))
}

/// Whether `text` is a number of days and nothing else.
pub fn is_days(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    let digits = text.strip_prefix('-').unwrap_or(text);
    number(digits, u64::MAX).is_some()
}

fn number(digits: &str, max: u64) -> Option<u64> {
    let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_plain.then(|| digits.parse().ok()).flatten()?;
    (number <= max).then_some(number)
}

fn fraction_ticks(digits: &str) -> Option<u64> {
    let places = u32::try_from(digits.len())
        .ok()
        .filter(|places| *places <= 7)?;
    match places {
        0 => Some(0),
        _ => Some(number(digits, u64::MAX)? * 10_u64.pow(7 - places)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Cases {
        seconds: Vec<(String, f64)>,
        refused: Vec<String>,
    }

    #[test]
    fn every_text_is_read_as_dot_net_reads_it() {
        let cases = include_str!("../../tests/affinity/timespans.json");
        let cases: Cases = serde_json::from_str(cases).unwrap();
        assert!(cases.seconds.len() > 20 && cases.refused.len() > 20);
        for (text, seconds) in cases.seconds {
            let want = (seconds * 1e7).round() as i64;
            assert_eq!(ticks(&text), Some(want), "{text:?}");
        }
        for text in cases.refused {
            assert_eq!(ticks(&text), None, "{text:?}");
        }
    }

    #[test]
    fn the_ends_are_those_of_64_bits() {
        assert_eq!(ticks("10675199.02:48:05.4775807"), Some(i64::MAX));
        assert_eq!(ticks("-10675199.02:48:05.4775808"), Some(i64::MIN));
        assert_eq!(ticks("10675200"), None);
        assert_eq!(ticks("99999999999999999999"), None);
        let zeros = format!("{}1:2", "0".repeat(30));
        assert_eq!(ticks(&zeros), ticks("1:2"));
    }

    #[test]
    fn durations_are_not_below_zero_and_days_are_known() {
        assert_eq!(duration("00:00:01.5"), Some(Duration::from_millis(1500)));
        assert_eq!(duration("-00:00:01"), None);
        assert!(is_days(" 3600 ") && is_days("-1") && !is_days("1.00:00") && !is_days(""));
    }
}
