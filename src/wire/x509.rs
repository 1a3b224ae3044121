//! How long a certificate is valid, and for which names, read from its DER bytes.
//!
//! The TLS library verifies certificates and says neither when they end, which is what an operator
//! wants to know in time, nor what they are for, which is what a renewal has to keep. This reads
//! the two dates and the alternative names: no keys, no trust.
//!
//! Never panics: whatever the bytes, the answer is what was asked for or `None`.

use crate::time::Wall;
use std::net::IpAddr;

/// The dates of a certificate. A date before 1970 reads as 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    pub not_before: Wall,
    pub not_after: Wall,
}

/// Whom a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlternativeName<'d> {
    Host(&'d str),
    Address(IpAddr),
}

const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const HOST: u8 = 0x82;
const ADDRESS: u8 = 0x87;

/// `subjectAltName`, 2.5.29.17.
const ALTERNATIVE_NAMES: [u8; 3] = [0x55, 0x1d, 0x11];

/// The dates of the certificate in `der` (RFC 5280, section 4.1). Bounded by its length.
pub fn validity(der: &[u8]) -> Option<Validity> {
    let mut dates = Cursor(fields_from_validity(der)?.take(SEQUENCE)?);
    Some(Validity {
        not_before: dates.time()?,
        not_after: dates.time()?,
    })
}

/// The hosts and addresses that the certificate in `der` is for (RFC 5280, section 4.2.1.6); names
/// of other kinds are passed over. Bounded by its length.
pub fn alternative_names(der: &[u8]) -> Option<Vec<AlternativeName<'_>>> {
    let mut fields = fields_from_validity(der)?;
    let mut found = Vec::new();
    while let Some((tag, content)) = fields.next()? {
        if tag != EXTENSIONS {
            continue;
        }
        let mut extensions = Cursor(Cursor(content).take(SEQUENCE)?);
        while let Some((_, extension)) = extensions.next()? {
            let mut extension = Cursor(extension);
            if extension.take(OBJECT_IDENTIFIER)? != ALTERNATIVE_NAMES {
                continue;
            }
            // Between the two it may say that it is critical.
            let mut value = extension.next()?;
            while value.is_some_and(|(tag, _)| tag != OCTET_STRING) {
                value = extension.next()?;
            }
            let (_, value) = value?;
            let mut names = Cursor(Cursor(value).take(SEQUENCE)?);
            while let Some((tag, name)) = names.next()? {
                found.extend(alternative_name(tag, name)?);
            }
        }
    }
    Some(found)
}

/// `Some(None)` = of another kind.
fn alternative_name(tag: u8, name: &[u8]) -> Option<Option<AlternativeName<'_>>> {
    let address = |address: IpAddr| Some(Some(AlternativeName::Address(address)));
    match (tag, name.len()) {
        (HOST, _) => {
            let host = std::str::from_utf8(name).ok()?;
            Some(Some(AlternativeName::Host(host)))
        }
        (ADDRESS, 4) => address(<[u8; 4]>::try_from(name).ok()?.into()),
        (ADDRESS, 16) => address(<[u8; 16]>::try_from(name).ok()?.into()),
        (ADDRESS, _) => None,
        _ => Some(None),
    }
}

/// What is left of a certificate behind its issuer.
fn fields_from_validity(der: &[u8]) -> Option<Cursor<'_>> {
    let certificate = Cursor(der).take(SEQUENCE)?;
    let mut fields = Cursor(Cursor(certificate).take(SEQUENCE)?);
    if fields.0.first() == Some(&VERSION) {
        fields.take(VERSION)?;
    }
    fields.take(INTEGER)?;
    fields.take(SEQUENCE)?;
    fields.take(SEQUENCE)?;
    Some(fields)
}

/// What is left of a run of DER values.
struct Cursor<'d>(&'d [u8]);

impl<'d> Cursor<'d> {
    /// The content of the next value, which must have this tag.
    fn take(&mut self, tag: u8) -> Option<&'d [u8]> {
        let (found, content) = self.next()??;
        (found == tag).then_some(content)
    }

    /// Tag and content of the next value; `Some(None)` = there is no more, `None` = it is torn.
    fn next(&mut self) -> Option<Option<(u8, &'d [u8])>> {
        let Some((found, rest)) = self.0.split_first() else {
            return Some(None);
        };
        let (first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(*first), rest),
            // Up to 4 GiB: longer than any certificate.
            0x81..=0x84 => {
                let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                let value = digits
                    .iter()
                    .fold(0u32, |sum, digit| sum << 8 | u32::from(*digit));
                (usize::try_from(value).ok()?, rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(Some((*found, content)))
    }

    fn time(&mut self) -> Option<Wall> {
        match *self.0.first()? {
            UTC_TIME => {
                let (year, rest) = self.take(UTC_TIME)?.split_at_checked(2)?;
                let year = number(year)?;
                // RFC 5280, section 4.1.2.5.1.
                moment(if year < 50 { 2000 + year } else { 1900 + year }, rest)
            }
            GENERALIZED_TIME => {
                let (year, rest) = self.take(GENERALIZED_TIME)?.split_at_checked(4)?;
                moment(number(year)?, rest)
            }
            _ => None,
        }
    }
}

/// `MMDDHHMMSSZ` of a year.
fn moment(year: u64, rest: &[u8]) -> Option<Wall> {
    let digits = rest
        .strip_suffix(b"Z")
        .filter(|digits| digits.len() == 10)?;
    let pair = |index: usize| number(digits.get(2 * index..2 * index + 2)?);
    let (month, day) = (pair(0)?, pair(1)?);
    let (hour, minute, second) = (pair(2)?, pair(3)?, pair(4)?);
    let real = (1..=12).contains(&month) && (1..=31).contains(&day);
    if !real || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = hour * 3600 + minute * 60 + second;
    let days = days_before(year, month) + day - 1;
    let before_1970 = days_before(1970, 1);
    Some(match days.checked_sub(before_1970) {
        Some(days) => Wall::from_unix(days * 86_400 + seconds),
        None => Wall::from_unix(0),
    })
}

/// Days of the Gregorian calendar from 0000-03-01 to the first of a month, plus 60.
fn days_before(year: u64, month: u64) -> u64 {
    // With years that start in March the leap day is the last one, and months follow one formula.
    let (year, month) = match month {
        1 | 2 => (year + 399, month + 9),
        _ => (year + 400, month - 3),
    };
    year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5
}

fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |sum, digit| {
        digit
            .is_ascii_digit()
            .then(|| sum * 10 + u64::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A certificate cut down to what is read, with these dates.
    fn certificate(not_before: &str, not_after: &str) -> Vec<u8> {
        let value = |tag: u8, content: &[u8]| {
            let length = u8::try_from(content.len()).unwrap();
            [&[tag, 0x81, length], content].concat()
        };
        let time = |text: &str| match text.len() {
            13 => value(UTC_TIME, text.as_bytes()),
            _ => value(GENERALIZED_TIME, text.as_bytes()),
        };
        let fields = [
            value(VERSION, &[2, 1, 2]),
            value(INTEGER, &[9]),
            value(SEQUENCE, &[]),
            value(SEQUENCE, &[]),
            value(SEQUENCE, &[time(not_before), time(not_after)].concat()),
        ];
        value(SEQUENCE, &value(SEQUENCE, &fields.concat()))
    }

    fn seconds(not_before: &str, not_after: &str) -> Option<(u64, u64)> {
        let found = validity(&certificate(not_before, not_after))?;
        Some((found.not_before.as_unix(), found.not_after.as_unix()))
    }

    #[test]
    fn dates_are_seconds_since_1970() {
        let cases = [
            ("700101000000Z", 0),
            ("691231235959Z", 0),
            ("700301000000Z", 5_097_600),
            ("000229120000Z", 951_825_600),
            ("240101000000Z", 1_704_067_200),
            ("491231235959Z", 2_524_607_999),
            ("20500101000000Z", 2_524_608_000),
            ("21000301000000Z", 4_107_542_400),
            ("99991231235959Z", 253_402_300_799),
        ];
        for (text, wanted) in cases {
            assert_eq!(seconds(text, text), Some((wanted, wanted)), "{text}");
        }
    }

    #[test]
    fn dates_that_are_none_are_refused() {
        for bad in [
            "241301000000Z",
            "240100000000Z",
            "2401010000000",
            "24010100000Z",
            "240101000000+",
        ] {
            assert_eq!(seconds(bad, bad), None, "{bad}");
        }
    }

    fn named(names: &[&str]) -> Vec<u8> {
        let key = rcgen::KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let params = rcgen::CertificateParams::new(names).unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn names_are_those_that_it_was_made_for() {
        let names = ["gw.plant.local", "*.plant.local", "10.0.0.7", "fd00::7"];
        let der = named(&names);
        let found = alternative_names(&der).unwrap();
        let shown = found.iter().map(|name| match name {
            AlternativeName::Host(host) => (*host).to_owned(),
            AlternativeName::Address(address) => address.to_string(),
        });
        assert_eq!(shown.collect::<Vec<_>>(), names);
        assert_eq!(alternative_names(&named(&[])), Some(Vec::new()));
        for end in 0..der.len() {
            assert_eq!(alternative_names(&der[..end]), None);
        }
        for index in 0..der.len() {
            for byte in [0, 0x04, 0x30, 0x80, 0x82, 0x84, 0x87, 0xa3, 0xff] {
                let mut bent = der.clone();
                bent[index] = byte;
                let _ = alternative_names(&bent);
            }
        }
    }

    #[test]
    fn torn_certificates_never_panic() {
        let whole = certificate("240101000000Z", "20500101000000Z");
        for end in 0..whole.len() {
            assert_eq!(validity(&whole[..end]), None);
        }
        for index in 0..whole.len() {
            for byte in [0, 0x7f, 0x80, 0x84, 0xff] {
                let mut bent = whole.clone();
                bent[index] = byte;
                let _ = validity(&bent);
            }
        }
    }
}
