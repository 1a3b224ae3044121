//! What a node says to a write that a peer has sent on, before anything is applied.
//!
//! The table of the contract in its order: the first row that fits decides. Everything that the
//! peer claims is compared with what is believed here; nothing of it is taken over but the hint
//! that it may hold a newer record. A request that passes is handled like one of a client, except
//! that it is not sent on once more.
//!
//! Never: looks at a body, or at who the peer is (its key was checked by whoever read the request).

use crate::model::Id;
use crate::model::region::{Doubt, Epoch, Phase, Reason};
use crate::time::Duration;

/// What a peer says about a request that it sends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// `X-Relay-Cluster`.
    pub cluster: Id,
    /// `X-Relay-From`.
    pub from: Id,
    /// The names in `Via`.
    pub via: Vec<Id>,
    /// `X-Relay-Hops`: 1 for a request that comes from where its client sent it.
    pub hops: u32,
    /// `X-Relay-Epoch`.
    pub epoch: Epoch,
    /// `X-Relay-Deadline`: what is left of the time that the request has.
    pub left: Duration,
}

/// What is believed here.
#[derive(Clone, Copy, Debug)]
pub struct Belief<'b> {
    pub name: &'b Id,
    /// Absent without a record.
    pub cluster: Option<&'b Id>,
    pub phase: Phase,
    /// The term in force, or the one that is about to be.
    pub epoch: Epoch,
}

/// Whether the request may be parked or applied here. Bounded by the names in `Via`.
///
/// # Errors
/// The reason of the first row that fits.
pub fn judge(incoming: &Incoming, belief: &Belief<'_>) -> Result<(), Reason> {
    let Some(cluster) = belief.cluster else {
        return Err(Reason::NoRecord);
    };
    if incoming.cluster != *cluster {
        return Err(Reason::WrongCluster);
    }
    let is_here = |name: &Id| name == belief.name;
    if is_here(&incoming.from) || incoming.via.iter().any(is_here) || incoming.hops != 1 {
        return Err(Reason::Loop);
    }
    if incoming.left.is_zero() {
        return Err(Reason::DeadlineOver);
    }
    if let Phase::Unknown(doubt @ (Doubt::Conflict | Doubt::OldRecord)) = belief.phase {
        return Err(doubt.reason());
    }
    if incoming.epoch < belief.epoch {
        return Err(Reason::StaleEpoch);
    }
    if incoming.epoch > belief.epoch {
        return Err(Reason::UnknownEpoch);
    }
    match belief.phase {
        Phase::Hold | Phase::Active => Ok(()),
        Phase::Unknown(_) | Phase::Replica | Phase::Drain | Phase::Sealed => {
            Err(Reason::NotPrimary)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Id {
        Id::new(text).unwrap()
    }

    fn incoming() -> Incoming {
        Incoming {
            cluster: id("plant"),
            from: id("au-1"),
            via: vec![id("au-1")],
            hops: 1,
            epoch: Epoch(5),
            left: Duration::from_secs(1),
        }
    }

    fn answer(incoming: &Incoming, phase: Phase) -> Result<(), Reason> {
        let belief = Belief {
            name: &id("eu-1"),
            cluster: Some(&id("plant")),
            phase,
            epoch: Epoch(5),
        };
        judge(incoming, &belief)
    }

    #[test]
    fn what_is_right_is_let_through_where_it_can_be_applied() {
        assert_eq!(answer(&incoming(), Phase::Active), Ok(()));
        assert_eq!(answer(&incoming(), Phase::Hold), Ok(()));
        for phase in [
            Phase::Replica,
            Phase::Drain,
            Phase::Sealed,
            Phase::Unknown(Doubt::Starting),
        ] {
            assert_eq!(answer(&incoming(), phase), Err(Reason::NotPrimary));
        }
    }

    /// Each row is wrong in its own and in every later way.
    #[test]
    fn the_first_row_that_fits_decides() {
        let mut worse = incoming();
        let mut rows = Vec::new();
        worse.epoch = Epoch(6);
        rows.push((Reason::UnknownEpoch, worse.clone()));
        worse.epoch = Epoch(4);
        rows.push((Reason::StaleEpoch, worse.clone()));
        worse.left = Duration::ZERO;
        rows.push((Reason::DeadlineOver, worse.clone()));
        worse.hops = 2;
        rows.push((Reason::Loop, worse.clone()));
        worse.cluster = id("other");
        rows.push((Reason::WrongCluster, worse.clone()));
        for (reason, incoming) in rows {
            assert_eq!(answer(&incoming, Phase::Replica), Err(reason));
        }
    }

    #[test]
    fn a_request_that_has_been_here_is_a_loop() {
        let mut from_here = incoming();
        from_here.from = id("eu-1");
        assert_eq!(answer(&from_here, Phase::Active), Err(Reason::Loop));
        let mut by_here = incoming();
        by_here.via.push(id("eu-1"));
        assert_eq!(answer(&by_here, Phase::Active), Err(Reason::Loop));
    }

    #[test]
    fn a_conflict_is_told_before_epochs_are_compared() {
        let conflict = Phase::Unknown(Doubt::Conflict);
        let mut stale = incoming();
        stale.epoch = Epoch(1);
        assert_eq!(answer(&stale, conflict), Err(Reason::StateConflict));
    }
}
