//! What a node orders, and what its disk makes of it.

use super::*;

impl Sites {
    pub(super) fn carry_out(&mut self, node: usize, order: Order) {
        match order {
            Order::Store { subject, mark } => self.job(node, Job::Mark { subject, mark }),
            Order::Ask(ask) => {
                let what = What::Ask {
                    id: ask.id,
                    after: ask.after,
                    wait_us: ask.wait.as_micros() as u64,
                };
                self.send(node, usize::from(ask.peer.0), what);
            }
            Order::PullRecord { peer } => self.send(node, usize::from(peer.0), What::FetchRecord),
            Order::PullHead { subject, peer, .. } => {
                let subject = subject.0;
                let is_pull = true;
                self.send(node, usize::from(peer.0), What::Fetch { subject, is_pull });
            }
            Order::Apply { id, head } => {
                let (push, _) = self.nodes[node].requests[&id];
                if push.subject == ROUTE {
                    *self.applied.entry(push.number).or_default() += 1;
                    let boot = self.nodes[node].boot;
                    let lasts = self.random.u64(500..20_000);
                    self.after(lasts, Event::Server { node, boot, id });
                } else {
                    let digest = node::digest(push);
                    let head = staffetta::model::region::Head { digest, ..head };
                    self.job(node, Job::Apply { id, push, head });
                }
            }
            Order::Forward {
                id,
                peer,
                epoch,
                left,
            } => {
                let (push, reply_to) = self.nodes[node].requests[&id];
                let is_first_hop = matches!(reply_to, ReplyTo::Client { .. });
                assert!(is_first_hop, "a second hop: seed {}", self.seed);
                let record = self.nodes[node].disk.record.clone();
                let record = record.expect("records are never lost");
                let from = record.nodes[node].name.clone();
                let incoming = Incoming {
                    cluster: record.cluster.clone(),
                    via: vec![from.clone()],
                    from,
                    hops: 1,
                    epoch,
                    left,
                };
                self.send(
                    node,
                    usize::from(peer.0),
                    What::Forward { id, push, incoming },
                );
            }
            Order::Abandon { .. } => {}
            Order::Answer { id, answer } => self.answer(node, id, answer),
        }
    }

    pub(super) fn job(&mut self, node: usize, job: Job) {
        let lasts = match self.random.u32(0..60) {
            0 if self.stalls => self.random.u64(20_000..250_000),
            1 if self.stalls && self.random.u32(0..8) == 0 => self.random.u64(500_000..1_100_000),
            _ => self.random.u64(200..4_000),
        };
        let at = self.nodes[node].disk_free_us.max(self.time_us) + lasts;
        self.nodes[node].disk_free_us = at;
        self.nodes[node].jobs.push_back(job);
        let boot = self.nodes[node].boot;
        self.after(at - self.time_us, Event::Disk { node, boot });
    }

    pub(super) fn disk_done(&mut self, node: usize, boot: u64) {
        if self.nodes[node].boot != boot {
            return;
        }
        let Some(job) = self.nodes[node].jobs.pop_front() else {
            return;
        };
        if let Some(push) = self.nodes[node].disk.perform(job.clone()) {
            *self.applied.entry(push.number).or_default() += 1;
        }
        let now = self.nodes[node].now(self.time_us);
        match job {
            Job::Mark { subject, .. } => {
                if let Some(routing) = &mut self.nodes[node].routing {
                    routing.handle_mark(subject, true, now);
                }
                self.drive(node);
            }
            Job::Apply { id, head, .. } => self.applied(node, id, Applied::Stored(head)),
            Job::Adopt {
                subject,
                is_fork,
                content,
            } => {
                if let Some(routing) = &mut self.nodes[node].routing {
                    let head = Some(content.head);
                    routing.handle_head(SubjectIndex(subject), head, is_fork, now);
                }
                self.drive(node);
            }
        }
    }

    pub(super) fn applied(&mut self, node: usize, id: RequestId, what: Applied) {
        let now = self.nodes[node].now(self.time_us);
        let routing = self.nodes[node].routing.as_mut();
        let answer = routing.and_then(|routing| routing.handle_applied(id, what, now));
        if let Some(answer) = answer {
            self.answer(node, id, answer);
        }
        self.drive(node);
    }

    pub(super) fn answer(&mut self, node: usize, id: RequestId, answer: Answer) {
        let Some((push, reply_to)) = self.nodes[node].requests.remove(&id) else {
            panic!("answered twice: seed {}", self.seed);
        };
        match reply_to {
            ReplyTo::Client { due_us } => {
                let is_late = self.time_us > due_us + SLACK_US && push.subject != ROUTE;
                assert!(
                    !is_late,
                    "push {} was answered late: seed {}",
                    push.number, self.seed
                );
                match answer {
                    Answer::Applied { .. } | Answer::Pass => {
                        self.judge_answer(node, push);
                        self.acknowledged.insert(push);
                    }
                    Answer::Refused(refusal) => {
                        self.told.refused += 1;
                        self.judge_refusal(push, refusal.outcome);
                    }
                }
            }
            ReplyTo::Peer { node: to, boot, id } => {
                if matches!(answer, Answer::Applied { .. }) {
                    self.judge_answer(node, push);
                }
                let reply = match answer {
                    Answer::Refused(refusal) if refusal.outcome == Outcome::NotAttempted => {
                        Reply::Refused(refusal)
                    }
                    Answer::Refused(_) => Reply::Answered { is_applied: false },
                    Answer::Applied { .. } | Answer::Pass => Reply::Answered { is_applied: true },
                };
                self.post(Message {
                    from: node,
                    to,
                    boot,
                    what: What::Reply { id, reply },
                });
            }
        }
    }
}
