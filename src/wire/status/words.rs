//! Ages and sizes as people read them.
//!
//! Owns the words that page, table and problems share. Two units at most, rounded down: short
//! enough for a column of a table, and never a promise of more than there is.

/// Two units at most: `9 s`, `12 min`, `3 h 5 min`, `2 days 4 h`, `40 days`.
pub fn age_in_words(seconds: u64) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    const TEN_DAYS: u64 = 10 * DAY;
    match seconds {
        0..MINUTE => format!("{seconds} s"),
        MINUTE..HOUR => format!("{} min", seconds / MINUTE),
        HOUR..DAY => format!("{} h {} min", seconds / HOUR, seconds % HOUR / MINUTE),
        DAY..TEN_DAYS => {
            let days = seconds / DAY;
            let noun = if days == 1 { "day" } else { "days" };
            format!("{days} {noun} {} h", seconds % DAY / HOUR)
        }
        _ => format!("{} days", seconds / DAY),
    }
}

/// `812 bytes`, `51 KiB`, `1.2 MiB`.
pub fn bytes_in_words(bytes: u64) -> String {
    const KIB: u64 = 1024;
    const MIB: u64 = 1024 * KIB;
    match bytes {
        0..KIB => format!("{bytes} bytes"),
        KIB..MIB => format!("{} KiB", bytes / KIB),
        _ => format!("{}.{} MiB", bytes / MIB, bytes % MIB * 10 / MIB),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_sizes_are_short_words() {
        for (seconds, words) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (3_599, "59 min"),
            (3_600, "1 h 0 min"),
            (86_399, "23 h 59 min"),
            (86_400, "1 day 0 h"),
            (200_000, "2 days 7 h"),
            (864_000, "10 days"),
        ] {
            assert_eq!(age_in_words(seconds), words);
        }
        for (bytes, words) in [
            (1_023, "1023 bytes"),
            (51_961, "50 KiB"),
            (1_363_149, "1.3 MiB"),
        ] {
            assert_eq!(bytes_in_words(bytes), words);
        }
        assert!(!age_in_words(u64::MAX).is_empty() && !bytes_in_words(u64::MAX).is_empty());
    }
}
