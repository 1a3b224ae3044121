//! XXH64 over text that is in memory, with seed 0.
//!
//! Owns the one hash that the affinity cookie is made of. Not a hash to trust: it is unkeyed, and
//! collisions can be made. A crate for it would bring a streaming state, other widths and vector
//! code; this is one pass over a few dozen bytes, held against the published vectors below.
//!
//! Source: the algorithm's own specification, version 0.1.1.

const PRIME_1: u64 = 0x9e37_79b1_85eb_ca87;
const PRIME_2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const PRIME_3: u64 = 0x1656_67b1_9e37_79f9;
const PRIME_4: u64 = 0x85eb_ca77_c2b2_ae63;
const PRIME_5: u64 = 0x27d4_eb2f_1656_67c5;

/// The hash of `bytes`. Bounded by their number.
pub fn xxh64(bytes: &[u8]) -> u64 {
    let (stripes, mut rest) = bytes.as_chunks::<32>();
    let mut hash = if stripes.is_empty() {
        PRIME_5
    } else {
        over_stripes(stripes)
    };
    hash = hash.wrapping_add(bytes.len() as u64);
    while let Some((word, left)) = rest.split_first_chunk() {
        hash ^= round(0, u64::from_le_bytes(*word));
        hash = hash
            .rotate_left(27)
            .wrapping_mul(PRIME_1)
            .wrapping_add(PRIME_4);
        rest = left;
    }
    if let Some((word, left)) = rest.split_first_chunk() {
        hash ^= u64::from(u32::from_le_bytes(*word)).wrapping_mul(PRIME_1);
        hash = hash
            .rotate_left(23)
            .wrapping_mul(PRIME_2)
            .wrapping_add(PRIME_3);
        rest = left;
    }
    for byte in rest {
        hash ^= u64::from(*byte).wrapping_mul(PRIME_5);
        hash = hash.rotate_left(11).wrapping_mul(PRIME_1);
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(PRIME_2);
    hash ^= hash >> 29;
    hash = hash.wrapping_mul(PRIME_3);
    hash ^ hash >> 32
}

fn over_stripes(stripes: &[[u8; 32]]) -> u64 {
    let first = PRIME_1.wrapping_add(PRIME_2);
    let mut lanes = [first, PRIME_2, 0, PRIME_1.wrapping_neg()];
    for stripe in stripes {
        let (words, _) = stripe.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = round(*lane, u64::from_le_bytes(*word));
        }
    }
    let turns = [1, 7, 12, 18];
    let turned = lanes.iter().zip(turns);
    let sum = turned.fold(0_u64, |sum, (lane, turn)| {
        sum.wrapping_add(lane.rotate_left(turn))
    });
    lanes.iter().fold(sum, |hash, lane| {
        (hash ^ round(0, *lane))
            .wrapping_mul(PRIME_1)
            .wrapping_add(PRIME_4)
    })
}

fn round(lane: u64, word: u64) -> u64 {
    let sum = lane.wrapping_add(word.wrapping_mul(PRIME_2));
    sum.rotate_left(31).wrapping_mul(PRIME_1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_vectors_hold() {
        for (text, want) in [
            ("", 0xef46_db37_51d8_e999),
            ("abc", 0x44bc_2cf5_ad77_0999),
            (
                "Nobody inspects the spammish repetition",
                0xfbce_a83c_8a37_8bf1,
            ),
        ] {
            assert_eq!(xxh64(text.as_bytes()), want, "{text:?}");
        }
    }
}
