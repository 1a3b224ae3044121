//! What a slot has served before, by digest: tells a step back from a step forward.
//!
//! Owns two short lists of a slot's canonical content: the documents that it adopted, newest last,
//! each with the source that first brought it, and the seeds that it was offered. Both survive a
//! restart beside the document.
//!
//! Policy: a backup may lag behind the primary by minutes or days. What the slot knows, and knows
//! to be older than something that an upstream brought, is a step back when a backup offers it. A
//! seed is of unknown age and makes nothing older: upstreams replace it. A document that is adopted
//! again, because the primary was rolled back to it, is the newest from then on.
//!
//! Limits of it: what fell out of the lists is taken for new. A backup that lags by more than
//! `history_digests_max` changes is believed.

use std::collections::VecDeque;

use crate::limits::Limits;
use crate::model::{Digest, Past, Source};

/// The memory of one slot.
#[derive(Clone, Debug)]
pub struct History {
    /// The newest last; each digest once, and before that where an upstream brought it and a seed
    /// repeats it. Its source is never the state folder.
    adopted: VecDeque<(Digest, Source)>,
    /// Each digest once, the newest last.
    seeds: VecDeque<Digest>,
    digests_max: usize,
    seeds_max: usize,
}

impl History {
    /// A slot that knows nothing.
    pub fn new(limits: &Limits) -> History {
        History {
            adopted: VecDeque::new(),
            seeds: VecDeque::new(),
            digests_max: limits.history_digests_max,
            seeds_max: limits.history_seeds_max,
        }
    }

    /// The memory that was kept. Of lists that are too long, the newest entries count.
    ///
    /// Bounded by the length of the lists times their bounds.
    pub fn restore(past: &Past, limits: &Limits) -> History {
        let mut history = History::new(limits);
        for (digest, source) in &past.adopted {
            history.adopt(*digest, *source);
        }
        for digest in &past.seeds {
            history.see(*digest);
        }
        history
    }

    /// Puts what another memory holds on top of this one, as what came after it.
    ///
    /// Bounded by the lengths of the lists times their bounds.
    pub fn go_on(&mut self, later: &History) {
        for (digest, source) in &later.adopted {
            self.adopt(*digest, *source);
        }
        for digest in &later.seeds {
            self.see(*digest);
        }
    }

    /// Forgets what was adopted, and not which seeds were offered.
    pub fn forget_adopted(&mut self) {
        self.adopted.clear();
    }

    /// What is to be kept.
    pub fn past(&self) -> Past {
        Past {
            adopted: self.adopted.iter().copied().collect(),
            seeds: self.seeds.iter().copied().collect(),
            ..Past::default()
        }
    }

    /// The document that was adopted last, and who first brought it.
    pub fn newest(&self) -> Option<(Digest, Source)> {
        self.adopted.back().copied()
    }

    /// Whether the slot has adopted this content, and an upstream has brought other content since.
    ///
    /// Bounded by `history_digests_max`.
    pub fn is_older(&self, digest: Digest) -> bool {
        let last = self.adopted.iter().rposition(|(known, _)| *known == digest);
        let newer = |last: usize| self.adopted.iter().skip(last + 1);
        last.is_some_and(|last| newer(last).any(|(_, source)| is_upstream(*source)))
    }

    /// Whether a seed with this content was offered before.
    ///
    /// Bounded by `history_seeds_max`.
    pub fn has_seen(&self, digest: Digest) -> bool {
        self.seeds.contains(&digest)
    }

    /// Notes that the slot adopted this content. Returns whether anything changed.
    ///
    /// Bounded by `history_digests_max`.
    pub fn adopt(&mut self, digest: Digest, source: Source) -> bool {
        if self.newest().is_some_and(|(newest, _)| newest == digest) {
            return false;
        }
        // That an upstream brought it once makes others older, also when a seed brings it again.
        let is_kept = |known: Source| is_upstream(known) && !is_upstream(source);
        self.adopted
            .retain(|(known, by)| *known != digest || is_kept(*by));
        self.adopted.push_back((digest, source));
        while self.adopted.len() > self.digests_max {
            self.adopted.pop_front();
        }
        true
    }

    /// Notes that a seed with this content was offered. Returns whether anything changed.
    ///
    /// Bounded by `history_seeds_max`.
    pub fn see(&mut self, digest: Digest) -> bool {
        if self.seeds.back() == Some(&digest) {
            return false;
        }
        self.seeds.retain(|known| *known != digest);
        self.seeds.push_back(digest);
        while self.seeds.len() > self.seeds_max {
            self.seeds.pop_front();
        }
        true
    }

    /// An upstream holds what is newest here: from then on it is an upstream's content, wherever it
    /// came from first. Worth no write of its own; it is kept with the next change.
    pub fn confirm(&mut self, source: Source) {
        if let Some((_, first)) = self.adopted.back_mut()
            && is_upstream(source)
            && !is_upstream(*first)
        {
            *first = source;
        }
    }
}

/// Whether documents of this source are ordered among each other.
pub fn is_upstream(source: Source) -> bool {
    match source {
        Source::Primary | Source::Backup => true,
        Source::Seed | Source::Cache | Source::Operator => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_upstream_went_past_stays_older_when_a_seed_repeats_the_newer() {
        let mut history = History::new(&Limits::PRODUCTION);
        let content = |number| Digest([number; 32]);
        history.adopt(content(5), Source::Seed);
        history.adopt(content(0), Source::Primary);
        history.adopt(content(1), Source::Seed);
        history.adopt(content(0), Source::Seed);
        assert!(history.is_older(content(5)));
        assert!(!history.is_older(content(1)), "only a seed came after it");
        history.adopt(content(0), Source::Backup);
        assert_eq!(history.past().adopted.len(), 4);
    }

    fn digest(content: usize) -> Digest {
        Digest([content as u8; 32])
    }

    fn history(adopted: &[(usize, Source)]) -> History {
        let mut history = History::new(&Limits::PRODUCTION);
        for (content, source) in adopted {
            history.adopt(digest(*content), *source);
        }
        history
    }

    #[test]
    fn what_an_upstream_went_past_is_older() {
        let history = history(&[(1, Source::Primary), (2, Source::Backup)]);
        assert!(history.is_older(digest(1)));
        assert!(!history.is_older(digest(2)) && !history.is_older(digest(3)));
    }

    #[test]
    fn a_seed_makes_nothing_older() {
        let mut history = history(&[(1, Source::Primary), (2, Source::Seed)]);
        assert!(!history.is_older(digest(1)));
        history.confirm(Source::Cache);
        assert!(!history.is_older(digest(1)));
        history.confirm(Source::Primary);
        assert!(history.is_older(digest(1)));
        assert_eq!(history.newest(), Some((digest(2), Source::Primary)));
    }

    #[test]
    fn a_rollback_makes_old_content_the_newest() {
        let mut history = history(&[(1, Source::Primary), (2, Source::Primary)]);
        assert!(history.adopt(digest(1), Source::Primary));
        assert!(!history.adopt(digest(1), Source::Backup));
        assert!(history.is_older(digest(2)) && !history.is_older(digest(1)));
    }

    #[test]
    fn the_oldest_is_forgotten_first() {
        let limits = Limits::PRODUCTION;
        let mut history = History::new(&limits);
        for content in 0..=limits.history_digests_max {
            history.adopt(digest(content), Source::Primary);
            history.see(digest(content));
        }
        assert_eq!(history.past().adopted.len(), limits.history_digests_max);
        assert_eq!(history.past().seeds.len(), limits.history_seeds_max);
        assert!(!history.is_older(digest(0)) && history.is_older(digest(1)));
        assert!(!history.has_seen(digest(
            limits.history_digests_max - limits.history_seeds_max
        )));
        assert!(history.has_seen(digest(limits.history_digests_max)));
    }

    #[test]
    fn a_restored_history_is_the_same() {
        let mut first = history(&[(1, Source::Seed), (2, Source::Primary), (1, Source::Backup)]);
        first.see(digest(7));
        first.see(digest(8));
        first.see(digest(7));
        let past = first.past();
        assert_eq!(past.seeds, [digest(8), digest(7)]);
        assert_eq!(History::restore(&past, &Limits::PRODUCTION).past(), past);
    }
}
