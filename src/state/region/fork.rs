//! Whose content of a slot wins, and whether the loser has to be kept.
//!
//! The greater revision wins everywhere. What loses is usually an older state of the same history
//! and may be forgotten. It is a fork when it holds writes that the winner was not built on: two
//! nodes were primary at one time, because records differed or a switch was made without a seal.
//! Then it goes to the orphans, for people to look at.
//!
//! Before the first term each node had content of its own, whose revisions say nothing to each
//! other: there the primary's wins, be it the lesser.
//!
//! Never deletes anything, and never merges: a slot's content is one document.

use crate::model::Revision;
use crate::model::region::{Epoch, Head};

/// What to do with a head that a peer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// What is here is at least as new.
    Keep,
    /// Take it; `is_fork`: after what is here was put to the orphans.
    Adopt { is_fork: bool },
    /// The same revision with other content: two writers in one term. Neither is taken.
    Contradiction,
}

/// Compares what the store holds with what a peer has. `entered` is the last term in which this
/// node was primary. Bounded by O(1).
pub fn judge(here: &Head, there: &Head, entered: Option<Epoch>) -> Follow {
    let (own, other) = (here.revision, there.revision);
    let is_of_no_term = |revision: Revision| revision.epoch == 0 && revision.seq > 0;
    if is_of_no_term(own) && is_of_no_term(other) {
        return match here.digest == there.digest {
            true => Follow::Keep,
            false => Follow::Adopt { is_fork: true },
        };
    }
    if own == other {
        return match here.digest == there.digest {
            true => Follow::Keep,
            false => Follow::Contradiction,
        };
    }
    if own > other {
        return Follow::Keep;
    }
    let is_fork = if own.epoch == other.epoch {
        here.parent != there.parent
    } else if own.epoch == there.parent.epoch {
        own.seq > there.parent.seq
    } else {
        // Terms lie between the two, and nothing here says what they were built on: whoever wrote
        // it himself keeps it, since nobody else may have it.
        own.epoch > there.parent.epoch || entered == Some(Epoch(own.epoch))
    };
    Follow::Adopt { is_fork }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Digest;

    fn head(revision: &str, parent: &str, content: u8) -> Head {
        Head {
            revision: Revision::parse(revision).unwrap(),
            digest: Digest([content; 32]),
            parent: Revision::parse(parent).unwrap(),
        }
    }

    #[test]
    fn a_later_state_of_one_history_replaces_the_earlier() {
        let adopt = Follow::Adopt { is_fork: false };
        let here = head("5-3", "4-9", 1);
        assert_eq!(judge(&here, &head("5-8", "4-9", 2), None), adopt);
        assert_eq!(judge(&here, &head("6-1", "5-3", 2), None), adopt);
        assert_eq!(judge(&here, &head("6-1", "5-7", 2), Some(Epoch(5))), adopt);
        assert_eq!(judge(&here, &head("9-1", "8-2", 2), None), adopt);
        assert_eq!(judge(&here, &head("5-2", "4-9", 2), None), Follow::Keep);
    }

    #[test]
    fn what_the_winner_was_not_built_on_is_kept() {
        let fork = Follow::Adopt { is_fork: true };
        let here = head("5-9", "4-9", 1);
        assert_eq!(judge(&here, &head("6-1", "5-7", 2), None), fork);
        assert_eq!(judge(&here, &head("9-1", "8-2", 2), Some(Epoch(5))), fork);
        assert_eq!(judge(&here, &head("6-1", "4-9", 2), None), fork);
    }

    #[test]
    fn before_the_first_term_the_primary_is_right() {
        let fork = Follow::Adopt { is_fork: true };
        let here = head("0-3", "0-0", 1);
        for there in ["0-1", "0-3", "0-7"] {
            assert_eq!(judge(&here, &head(there, "0-0", 2), None), fork, "{there}");
            assert_eq!(judge(&here, &head(there, "0-0", 1), None), Follow::Keep);
        }
        let (empty, first) = (Head::default(), head("0-1", "0-0", 1));
        let adopt = Follow::Adopt { is_fork: false };
        assert_eq!(judge(&empty, &first, None), adopt);
        assert_eq!(judge(&first, &empty, None), Follow::Keep);
        assert_eq!(judge(&here, &head("5-1", "0-3", 2), None), adopt);
    }

    #[test]
    fn one_revision_with_two_contents_is_taken_from_nobody() {
        let here = head("5-9", "4-9", 1);
        assert_eq!(judge(&here, &here, None), Follow::Keep);
        assert_eq!(
            judge(&here, &head("5-9", "4-9", 2), None),
            Follow::Contradiction
        );
    }
}
