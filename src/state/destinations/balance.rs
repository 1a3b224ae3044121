//! One of several destinations.
//!
//! Owns the five policies of YARP, which are asked only when there are at least two candidates, so
//! that a round robin does not advance over a cluster with one destination left. Requests that came
//! by their cookie are not distributed, and still weigh: where few or many requests decide, a busy
//! destination gets fewer new clients.
//!
//! Candidates come in the order of the file. YARP keeps no order; a round robin here does.

use fastrand::Rng;

use crate::model::casing;
use crate::model::proxy::Balance;
use crate::state::slab::Key;

/// A destination that may be chosen.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub key: Key,
    /// Requests under way.
    pub in_flight: u32,
    /// Its place in the alphabetical order.
    pub rank: usize,
}

/// How often a round robin went on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn(u32);

/// Chooses; `None` when there is nobody. Bounded by the number of candidates.
pub fn pick(
    balance: Balance,
    candidates: &[Candidate],
    turn: &mut Turn,
    random: &mut Rng,
) -> Option<Key> {
    let count = candidates.len();
    if count < 2 {
        return candidates.first().map(|only| only.key);
    }
    let picked = match balance {
        Balance::PowerOfTwoChoices => {
            let first = random.usize(..count);
            let second = (first + 1 + random.usize(..count - 1)) % count;
            let (first, second) = (&candidates[first], &candidates[second]);
            let is_less = second.in_flight < first.in_flight;
            Some(if is_less { second } else { first })
        }
        Balance::Random => candidates.get(random.usize(..count)),
        Balance::RoundRobin => {
            let place = turn.0 as usize % count;
            turn.0 = turn.0.wrapping_add(1) & 0x7fff_ffff;
            candidates.get(place)
        }
        Balance::LeastRequests => candidates.iter().min_by_key(|own| own.in_flight),
        Balance::FirstAlphabetical => candidates.iter().min_by_key(|own| own.rank),
    };
    picked.map(|picked| picked.key)
}

/// The place of each id in their alphabetical order: by the UTF-16 units of their upper case, as
/// .NET's `OrdinalIgnoreCase` has it. Bounded by O(n log n) in their number.
pub fn ranks<'a>(ids: impl Iterator<Item = &'a str>) -> Vec<usize> {
    let folded = ids.map(|id| casing::upper_text(id).encode_utf16().collect());
    let folded: Vec<Vec<u16>> = folded.collect();
    let mut order: Vec<usize> = (0..folded.len()).collect();
    order.sort_by_key(|place| &folded[*place]);
    let mut ranks = vec![0; folded.len()];
    for (rank, place) in order.into_iter().enumerate() {
        ranks[place] = rank;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::slab::Slab;

    fn candidates(in_flight: &[u32]) -> Vec<Candidate> {
        let mut slab = Slab::default();
        let candidate = |(rank, in_flight): (usize, &u32)| Candidate {
            key: slab.insert(()),
            in_flight: *in_flight,
            rank: in_flight_rank(rank),
        };
        in_flight.iter().enumerate().map(candidate).collect()
    }

    fn in_flight_rank(place: usize) -> usize {
        9 - place
    }

    /// How often each of the candidates is picked in `rounds`.
    fn picks(balance: Balance, in_flight: &[u32], rounds: usize) -> Vec<usize> {
        let candidates = candidates(in_flight);
        let (mut turn, mut random) = (Turn::default(), Rng::with_seed(7));
        let mut counts = vec![0; candidates.len()];
        for _ in 0..rounds {
            let key = pick(balance, &candidates, &mut turn, &mut random).unwrap();
            counts[key.place()] += 1;
        }
        counts
    }

    #[test]
    fn each_policy_picks_as_it_says() {
        assert_eq!(picks(Balance::RoundRobin, &[0, 5, 9], 7), [3, 2, 2]);
        assert_eq!(picks(Balance::LeastRequests, &[3, 1, 1], 4), [0, 4, 0]);
        assert_eq!(picks(Balance::FirstAlphabetical, &[0, 0, 0], 4), [0, 0, 4]);
        // The busiest of three never wins against another, the idlest always does.
        let counts = picks(Balance::PowerOfTwoChoices, &[0, 5, 9], 3000);
        assert!(
            counts[0] > 1900 && counts[1] > 900 && counts[2] == 0,
            "{counts:?}"
        );
        let counts = picks(Balance::PowerOfTwoChoices, &[1, 1, 1], 3000);
        assert!(counts.iter().all(|count| *count > 900), "{counts:?}");
        let counts = picks(Balance::Random, &[0, 5, 9], 3000);
        assert!(counts.iter().all(|count| *count > 900), "{counts:?}");
    }

    #[test]
    fn one_candidate_is_no_turn() {
        let one = candidates(&[1]);
        let (mut turn, mut random) = (Turn::default(), Rng::with_seed(7));
        let key = pick(Balance::RoundRobin, &one, &mut turn, &mut random);
        assert_eq!((key, turn.0), (Some(one[0].key), 0));
        assert_eq!(pick(Balance::RoundRobin, &[], &mut turn, &mut random), None);
    }

    #[test]
    fn the_alphabet_is_that_of_utf_16_without_case() {
        let ids = ["b", "A_", "AB", "\u{ffee}", "🚀", "a"];
        assert_eq!(ranks(ids.into_iter()), [3, 2, 1, 5, 4, 0]);
    }
}
