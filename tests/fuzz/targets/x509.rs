//! Certificates, as far as their dates.
//!
//! Claims: any bytes give dates or none; dates that were written into a certificate come out as the
//! seconds that another calendar counts.

use super::entropy::Entropy;
use staffetta::time::Wall;
use staffetta::wire::x509;

pub fn validity(input: &[u8]) {
    // The year 10000, which four digits do not reach.
    let end = 253_402_300_800;
    if let Some(found) = x509::validity(input) {
        let days = 2 * 86_400;
        let bounded = |wall: Wall| wall.as_unix() <= end + days;
        assert!(
            bounded(found.not_before) && bounded(found.not_after),
            "{found:?}"
        );
    }
    let mut entropy = Entropy::new(input);
    let (before, after) = (Date::of(&mut entropy), Date::of(&mut entropy));
    let wide = entropy.flag();
    let dates = [before.der(wide), after.der(wide)].concat();
    let fields = [
        value(0xa0, &[2, 1, 2]),
        value(2, &[9]),
        value(0x30, &[]),
        value(0x30, entropy.take(300)),
        value(0x30, &dates),
        entropy.rest().to_vec(),
    ];
    let certificate = value(0x30, &value(0x30, &fields.concat()));
    let found = x509::validity(&certificate).expect("two dates");
    assert_eq!(found.not_before.as_unix(), before.seconds(), "{before:?}");
    assert_eq!(found.not_after.as_unix(), after.seconds(), "{after:?}");
}

#[derive(Debug)]
struct Date {
    year: u64,
    month: u64,
    day: u64,
    second: u64,
}

impl Date {
    fn of(entropy: &mut Entropy) -> Date {
        let word = entropy.word();
        Date {
            year: 1950 + word % 400,
            month: 1 + (word >> 16) % 12,
            day: 1 + (word >> 24) % 28,
            second: (word >> 32) % 86_400,
        }
    }

    fn der(&self, wide: bool) -> Vec<u8> {
        let (hour, minute, second) = (self.second / 3600, self.second / 60 % 60, self.second % 60);
        let rest = format!(
            "{:02}{:02}{hour:02}{minute:02}{second:02}Z",
            self.month, self.day
        );
        match wide || self.year >= 2050 {
            true => value(0x18, format!("{:04}{rest}", self.year).as_bytes()),
            false => value(0x17, format!("{:02}{rest}", self.year % 100).as_bytes()),
        }
    }

    /// Counts the days one year and one month at a time.
    fn seconds(&self) -> u64 {
        let is_leap = |year: u64| {
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
        };
        if self.year < 1970 {
            return 0;
        }
        let years: u64 = (1970..self.year)
            .map(|year| if is_leap(year) { 366 } else { 365 })
            .sum();
        let february = if is_leap(self.year) { 29 } else { 28 };
        let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let months: u64 = months[..self.month as usize - 1].iter().sum();
        (years + months + self.day - 1) * 86_400 + self.second
    }
}

/// A DER value with the shortest length that fits.
fn value(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len() as u32;
    let digits = length.to_be_bytes();
    let head = match length {
        0..=0x7f => vec![tag, length as u8],
        0x80..=0xff => vec![tag, 0x81, digits[3]],
        0x100..=0xffff => vec![tag, 0x82, digits[2], digits[3]],
        _ => [&[tag, 0x84], &digits[..]].concat(),
    };
    [&head, content].concat()
}
