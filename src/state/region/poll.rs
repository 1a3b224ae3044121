//! The orders, and when to ask for them again.
//!
//! First what has to be stored, since everything else waits for that; then the requests; then the
//! peers. Nothing is decided here.

use super::*;

impl Routing {
    /// The next order. To be called until it answers `None`. Bounded by the numbers of subjects,
    /// requests and peers.
    pub fn poll_output(&mut self, now: Now) -> Option<Order> {
        self.look_once(now);
        for (index, part) in self.parts.iter_mut().enumerate() {
            let Ok(index) = u16::try_from(index) else {
                break;
            };
            let subject = SubjectIndex(index);
            if let Some(mark) = part.poll_mark(now.instant) {
                return Some(Order::Store { subject, mark });
            }
            if let Some((peer, revision)) = part.poll_pull(now.instant) {
                return Some(Order::PullHead {
                    subject,
                    peer,
                    revision,
                });
            }
        }
        self.poll_request(now)
            .or_else(|| self.poll_peer(now.instant))
    }

    /// When to call `poll_output` again though nothing happened, and why.
    ///
    /// Bounded by the numbers of subjects, requests and peers.
    pub fn poll_timeout(&self, now: Now) -> Option<(Instant, Wake)> {
        let by_wall = |wall: WallMs| now.instant + wall.since(now.wall);
        let outlooks = || self.parts.iter().filter_map(Part::outlook);
        let walls = outlooks().filter_map(|outlook| outlook.wall_wake);
        let walls = walls.filter(|wall| *wall > now.wall).map(by_wall);
        let settled = self.started_at + self.limits.region.settle;
        let starting = self.record.as_ref().map(|_| settled);
        let tilted = self.trust.tilted_until(now.instant);
        let once = outlooks().filter_map(|outlook| outlook.wake);
        let once = once
            .chain(starting)
            .chain(tilted)
            .filter(|at| *at > now.instant);
        let phases = walls.chain(once).map(|at| (at, Wake::Phase));
        let retries = self.parts.iter().flat_map(Part::wakes).flatten();
        let retries = retries.map(|at| (at, Wake::Retry));
        let requests = self
            .requests
            .next_wake(now.instant)
            .map(|at| (at, Wake::Request));
        let peers = self.peers.iter().map(|peer| {
            let ask = peer.next_ask(self.is_awaited(peer.index));
            (peer.pull_at.map_or(ask, |pull| pull.min(ask)), Wake::Peer)
        });
        let all = phases.chain(retries).chain(requests).chain(peers);
        all.min_by_key(|(at, _)| *at)
    }

    fn poll_peer(&mut self, now: Instant) -> Option<Order> {
        let poll = self.record.as_ref()?.timing.poll;
        let limits = self.limits.clone();
        for index in 0..self.peers.len() {
            let is_awaited = self
                .peers
                .get(index)
                .is_some_and(|peer| self.is_awaited(peer.index));
            let peer = self.peers.get_mut(index)?;
            if peer.pull_at.is_some_and(|at| at <= now) {
                // Again after a poll, unless its status says meanwhile that there is no need.
                peer.pull_at = Some(now + poll.max(limits.region.retry));
                return Some(Order::PullRecord { peer: peer.index });
            }
            if let Some(ask) = peer.poll_ask(&mut self.asks, is_awaited, &limits, now) {
                return Some(Order::Ask(ask));
            }
        }
        None
    }

    /// Whether the seal of this node is waited for.
    fn is_awaited(&self, node: NodeIndex) -> bool {
        let outlooks = self
            .parts
            .iter()
            .filter_map(|part| part.outlook().zip(Some(part)));
        outlooks.into_iter().any(|(outlook, part)| {
            outlook
                .awaited
                .is_some_and(|(writer, epoch)| writer == node && !part.has_seal(epoch))
        })
    }
}
