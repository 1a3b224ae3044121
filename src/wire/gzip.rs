//! Gzip of documents and of request bodies.
//!
//! Compresses once per document, at the usual level while that is cheap and at the fastest above:
//! a small gateway must not stand still for a megabyte. Inflates request bodies up to a bound, so
//! that a kilobyte from a client cannot become a gigabyte here.

use super::DecodeError;
use bytes::Bytes;
use flate2::Compression;
use flate2::bufread::{GzEncoder, MultiGzDecoder};
use std::io::{ErrorKind, Read};

/// Documents above this take level 1: 256 KiB at level 6 cost a Cortex-A53 about 50 ms.
const FAST_BYTES_MIN: usize = 256 * 1024;

const MALFORMED: DecodeError = DecodeError::Malformed("gzip");
const TRUNCATED: DecodeError = DecodeError::Malformed("gzip that ends in the middle");

/// The gzip form of `bytes`; the same bytes give the same form. Bounded by their length.
pub fn compress(bytes: &[u8]) -> Bytes {
    let level = match bytes.len() > FAST_BYTES_MIN {
        true => Compression::fast(),
        false => Compression::new(6),
    };
    let mut compressed = Vec::new();
    // Reading from memory has no way to fail.
    let read = GzEncoder::new(bytes, level).read_to_end(&mut compressed);
    debug_assert!(read.is_ok());
    compressed.shrink_to_fit();
    Bytes::from(compressed)
}

/// What gzip `bytes` hold. Bounded by `bytes_max`.
///
/// # Errors
/// Anything but whole gzip members to the very end, or more than `bytes_max` bytes in them.
pub fn inflate(bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>, DecodeError> {
    let mut inflated = Vec::new();
    let bound = u64::try_from(bytes_max)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    match MultiGzDecoder::new(bytes)
        .take(bound)
        .read_to_end(&mut inflated)
    {
        Ok(_) if inflated.len() <= bytes_max => Ok(inflated),
        Ok(_) => Err(DecodeError::BodyTooLarge),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(TRUNCATED),
        Err(_) => Err(MALFORMED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_compressed_inflates() {
        for length in [0, 1, 1000, FAST_BYTES_MIN + 1] {
            let bytes: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
            let compressed = compress(&bytes);
            assert_eq!(inflate(&compressed, length).unwrap(), bytes);
            assert_eq!(compressed, compress(&bytes));
        }
    }

    #[test]
    fn growth_is_bounded() {
        let bomb = compress(&[0; 100_000]);
        assert!(bomb.len() < 1000);
        assert_eq!(inflate(&bomb, 99_999), Err(DecodeError::BodyTooLarge));
        assert_eq!(
            inflate(&bomb, 100_000).map(|bytes| bytes.len()),
            Ok(100_000)
        );
    }

    #[test]
    fn damage_is_told() {
        let whole = compress(b"usage of ten minutes");
        for cut in 1..whole.len() {
            assert_eq!(inflate(&whole[..cut], 99), Err(TRUNCATED), "{cut}");
        }
        let mut damaged = whole.to_vec();
        damaged[15] ^= 0x40;
        assert!(inflate(&damaged, 99).is_err());
        assert_eq!(inflate(b"{\"usages\":[]}", 99), Err(MALFORMED));
        assert!(inflate(&[&whole[..], b"rest"].concat(), 99).is_err());
    }
}
