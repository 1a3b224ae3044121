//! What clients report, as the rooms hand it to each other.
//!
//! `wire` reads entries out of bodies, `state` sums and keeps them, `net` writes them down and
//! sends them on. An entry is text that is passed on, with the two members that are summed taken
//! out of it; nobody behind `wire` knows what stands in the text.
//!
//! Invariant: adding two sums up is associative, and but for equal moments commutative, so that it
//! does not matter how often, or where, parts were summed before.

/// Which of the two paths a report came in by, and goes out by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReportKind {
    /// How often flags were evaluated. Entries are summed.
    Usage,
    /// Experiments and rollouts. Entries are never merged.
    Analytics,
}

impl ReportKind {
    /// Both.
    pub const ALL: [ReportKind; 2] = [ReportKind::Usage, ReportKind::Analytics];

    /// As it is written in status, metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            ReportKind::Usage => "usage",
            ReportKind::Analytics => "analytics",
        }
    }
}

/// An instant of the calendar, as a client wrote it: seconds since 1970 and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    pub seconds: i64,
    pub nanos: u32,
}

/// When a flag was evaluated last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latest {
    /// None where the text is no time that can be compared; older than every other.
    pub moment: Option<Moment>,
    /// As received: the text of a JSON string, quotes included.
    pub text: Box<str>,
}

/// The part of an entry that is summed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    pub count: u64,
    pub latest: Latest,
}

impl Sum {
    /// Counts are added, the later time stays; of equal ones, that which was there.
    pub fn add(&mut self, other: Sum) {
        self.count = self.count.saturating_add(other.count);
        if other.latest.moment > self.latest.moment {
            self.latest = other.latest;
        }
    }
}

/// One entry of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Compact JSON text. With a sum: the other members, by which entries are told apart, without
    /// the braces around them. Without: the whole entry.
    pub text: Box<str>,
    /// None for what is never merged.
    pub sum: Option<Sum>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(count: u64, seconds: Option<i64>, text: &str) -> Sum {
        let moment = seconds.map(|seconds| Moment { seconds, nanos: 0 });
        let text = text.into();
        Sum {
            count,
            latest: Latest { moment, text },
        }
    }

    #[test]
    fn the_latest_time_stays_and_counts_are_added() {
        let mut total = sum(1, None, "soon");
        for (next, latest) in [
            (sum(2, None, "later"), "soon"),
            (sum(3, Some(5), "five"), "five"),
            (sum(4, Some(5), "also five"), "five"),
            (sum(5, Some(4), "four"), "five"),
            (sum(u64::MAX, Some(6), "six"), "six"),
        ] {
            total.add(next);
            assert_eq!(&*total.latest.text, latest);
        }
        assert_eq!(total.count, u64::MAX);
    }
}
