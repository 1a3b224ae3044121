//! What must hold: while all runs, and when all is quiet.

use super::*;

impl Sites {
    /// Nobody calls a push applied while another node is primary already.
    pub(super) fn judge_answer(&self, node: usize, push: Push) {
        let own = self.nodes[node]
            .routing
            .as_ref()
            .and_then(|routing| routing.record());
        let version = own.map(|record| record.version);
        for (index, other) in self.nodes.iter().enumerate() {
            let routing = other.routing.as_ref().filter(|_| index != node);
            let is_primary = routing.is_some_and(|routing| {
                let is_same = routing.record().map(|record| record.version) == version;
                is_same && routing.phase(SubjectIndex(push.subject)) == Some(Phase::Active)
            });
            let is_stale = is_primary && push.subject != ROUTE && self.compares_clocks;
            assert!(
                !is_stale,
                "push {} was applied too late: seed {}",
                push.number, self.seed
            );
        }
    }

    pub(super) fn judge_refusal(&self, push: Push, outcome: Outcome) {
        let is_stored = self.applied.contains_key(&push.number);
        let is_lie = outcome == Outcome::NotAttempted && is_stored;
        assert!(
            !is_lie,
            "push {} was attempted after all: seed {}",
            push.number, self.seed
        );
    }

    pub(super) fn count_primaries(&mut self) {
        for subject in 0..SUBJECTS {
            let mut versions = Vec::new();
            for node in &self.nodes {
                let Some(routing) = &node.routing else {
                    continue;
                };
                if routing.phase(SubjectIndex(subject)) == Some(Phase::Active) {
                    versions.push(routing.record().map(|record| record.version));
                }
            }
            let is_one = versions.windows(2).all(|pair| pair[0] == pair[1]);
            if versions.len() > 1 {
                self.told.overlaps += u64::from(is_one);
                self.has_differed |= !is_one;
            }
        }
    }

    /// All is quiet: what did clients hear, and what do the stores hold?
    pub(super) fn check(&mut self) {
        let seed = self.seed;
        if self.told.overlaps > 0 {
            return;
        }
        for node in &self.nodes {
            assert!(
                node.requests.is_empty(),
                "a request was never answered: seed {seed}"
            );
            let routing = node.routing.as_ref().expect("all nodes run in the end");
            let now = node.now(self.time_us);
            assert_eq!(routing.status(now).parked, 0, "seed {seed}");
        }
        let twice = self.applied.iter().find(|(_, count)| **count > 1);
        assert_eq!(twice, None, "a push was applied twice: seed {seed}");
        for subject in 0..usize::from(ROUTE) {
            let first = &self.nodes[0].disk.contents[subject];
            for node in &self.nodes {
                let content = &node.disk.contents[subject];
                assert_eq!(content.pushes, first.pushes, "no convergence: seed {seed}");
            }
        }
        let may_fork = self.told.unsealed > 0 || self.has_differed;
        for push in &self.acknowledged {
            assert!(
                self.applied.contains_key(&push.number),
                "{push:?} is nowhere: seed {seed}"
            );
            if push.subject == ROUTE {
                continue;
            }
            let content = &self.nodes[0].disk.contents[usize::from(push.subject)];
            let is_there = content.pushes.contains(&push.number);
            let mut orphans = self.nodes.iter().flat_map(|node| &node.disk.orphans);
            let is_kept = may_fork && orphans.any(|pushes| pushes.contains(&push.number));
            assert!(is_there || is_kept, "{push:?} is lost: seed {seed}");
        }
    }
}
