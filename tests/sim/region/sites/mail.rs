//! What nodes say to each other, and what becomes of it on the way.

use super::*;

impl Sites {
    /// Sends a question, or a request.
    pub(super) fn send(&mut self, from: usize, to: usize, what: What) {
        let boot = self.nodes[from].boot;
        let fails = self.links.is_cut(from, to) || self.links.loses(&mut self.random);
        let now = self.nodes[from].now(self.time_us);
        match (what, fails) {
            (What::Forward { id, .. }, true) => {
                let reply = Reply::NotSent;
                self.back(from, to, boot, What::Reply { id, reply });
            }
            (What::Ask { id, .. }, true) if self.random.bool() => {
                self.back(from, to, boot, What::Unreachable { id });
            }
            (
                What::Fetch {
                    subject,
                    is_pull: true,
                },
                true,
            ) => {
                if let Some(routing) = &mut self.nodes[from].routing {
                    routing.handle_pulled(SubjectIndex(subject), now);
                }
            }
            (_, true) => {}
            (what, false) => {
                if let (What::Forward { id, .. }, Some(routing)) =
                    (&what, &mut self.nodes[from].routing)
                {
                    routing.handle_sent(*id);
                }
                self.post(Message {
                    from,
                    to,
                    boot,
                    what,
                });
            }
        }
    }

    /// What the sender's own end of a link has to say.
    pub(super) fn back(&mut self, to: usize, from: usize, boot: u64, what: What) {
        let delay = Links::delay_us(&mut self.random);
        self.after(
            delay,
            Event::Arrive(Message {
                from,
                to,
                boot,
                what,
            }),
        );
    }

    pub(super) fn post(&mut self, message: Message) {
        let delay = Links::delay_us(&mut self.random);
        self.after(delay, Event::Arrive(message));
    }

    pub(super) fn arrive(&mut self, message: Message) {
        let Message {
            from,
            to,
            boot,
            what,
        } = message;
        let is_local = matches!(
            what,
            What::Unreachable { .. }
                | What::Reply {
                    reply: Reply::NotSent | Reply::Lost,
                    ..
                }
        );
        let is_lost = self.nodes[to].routing.is_none()
            || self.links.is_cut(from, to)
            || self.links.loses(&mut self.random);
        if is_lost && !is_local {
            match what {
                // Its bytes left, and nobody knows where they are.
                What::Forward { id, .. } if self.random.bool() => {
                    let reply = Reply::Lost;
                    self.back(from, to, boot, What::Reply { id, reply });
                }
                What::Fetch {
                    subject,
                    is_pull: true,
                } => self.pulled(from, boot, subject),
                What::Content {
                    subject,
                    is_pull: true,
                    ..
                } => self.pulled(to, boot, subject),
                _ => {}
            }
            return;
        }
        // Who is only read from, or reads what changes nothing, has no more to do.
        let is_idle = match &what {
            What::Fetch { .. } | What::FetchRecord => true,
            What::Content { is_pull, .. } => !is_pull,
            _ => false,
        };
        self.receive(from, to, boot, what);
        if !is_idle {
            self.drive(to);
        }
    }

    pub(super) fn pulled(&mut self, node: usize, boot: u64, subject: u16) {
        let now = self.nodes[node].now(self.time_us);
        let is_same = self.nodes[node].boot == boot;
        if let Some(routing) = self.nodes[node].routing.as_mut().filter(|_| is_same) {
            routing.handle_pulled(SubjectIndex(subject), now);
        }
        self.drive(node);
    }

    pub(super) fn receive(&mut self, from: usize, to: usize, boot: u64, what: What) {
        let is_question = matches!(
            what,
            What::Ask { .. } | What::Forward { .. } | What::Fetch { .. } | What::FetchRecord
        );
        if is_question {
            if let Some(answer) = self.answer_to(from, to, boot, what) {
                let (from, to) = (to, from);
                let what = answer;
                self.post(Message {
                    from,
                    to,
                    boot,
                    what,
                });
            }
        } else if self.nodes[to].boot == boot {
            self.hear(to, what);
        }
    }

    /// What a node says at once to a question.
    fn answer_to(&mut self, from: usize, to: usize, boot: u64, what: What) -> Option<What> {
        let now = self.nodes[to].now(self.time_us);
        let routing = self.nodes[to].routing.as_mut()?;
        match what {
            What::Ask { id, after, wait_us } => {
                let until_us = self.time_us + wait_us;
                self.nodes[to].askers.push(Asker {
                    node: from,
                    boot,
                    id,
                    after: after.unwrap_or((u64::MAX, 0)),
                    until_us,
                });
                self.after(wait_us, Event::Expire(to));
                None
            }
            What::Forward { id, push, incoming } => {
                let write = node::write(push, Origin::Peer, push.subject == ROUTE);
                let reply = match routing.receive(&incoming, write, now) {
                    Ok(here) => {
                        let node = from;
                        let reply_to = ReplyTo::Peer { node, boot, id };
                        self.nodes[to].requests.insert(here, (push, reply_to));
                        return None;
                    }
                    Err(refusal) => Reply::Refused(refusal),
                };
                Some(What::Reply { id, reply })
            }
            What::Fetch { subject, is_pull } => {
                let head = routing.head(SubjectIndex(subject))?;
                let mut content = self.nodes[to].disk.contents[usize::from(subject)].clone();
                content.head = head;
                Some(What::Content {
                    subject,
                    is_pull,
                    content,
                })
            }
            _ => self.nodes[to].disk.record.clone().map(What::Record),
        }
    }

    /// A node hears what it asked for.
    fn hear(&mut self, node: usize, what: What) {
        let now = self.nodes[node].now(self.time_us);
        let Some(routing) = &mut self.nodes[node].routing else {
            return;
        };
        match what {
            What::Told { id, mut status } => {
                if !self.compares_clocks {
                    Rc::make_mut(&mut status).wall = now.wall;
                }
                routing.handle_status(id, &status, now);
            }
            What::Unreachable { id } => routing.handle_ask_failed(id, now),
            What::Reply { id, reply } => self.replied(node, id, reply),
            What::Content {
                subject,
                is_pull,
                content,
            } => self.take_content(node, subject, is_pull, content),
            What::Record(record) => self.bring(node, record),
            _ => {}
        }
    }

    pub(super) fn replied(&mut self, node: usize, id: RequestId, reply: Reply) {
        let now = self.nodes[node].now(self.time_us);
        let is_known = self.nodes[node].requests.contains_key(&id);
        let Some(routing) = &mut self.nodes[node].routing else {
            return;
        };
        match reply {
            // Passed on as it is, unless the client has been answered meanwhile.
            Reply::Answered { is_applied } => {
                routing.handle_forwarded(id, Forwarded::Answered, now);
                if let Some((push, _)) = self.nodes[node].requests.remove(&id)
                    && is_applied
                {
                    self.acknowledged.insert(push);
                }
            }
            Reply::Refused(refusal) if is_known => {
                routing.handle_forwarded(id, Forwarded::Refused(refusal), now);
            }
            Reply::NotSent => routing.handle_forwarded(id, Forwarded::NotSent, now),
            Reply::Lost => routing.handle_forwarded(id, Forwarded::Lost, now),
            Reply::Refused(_) => {}
        }
    }

    pub(super) fn take_content(
        &mut self,
        node: usize,
        subject: u16,
        is_pull: bool,
        content: Content,
    ) {
        let now = self.nodes[node].now(self.time_us);
        let Some(routing) = &mut self.nodes[node].routing else {
            return;
        };
        let index = SubjectIndex(subject);
        if let Follow::Adopt { is_fork } = routing.follow(index, &content.head) {
            self.job(
                node,
                Job::Adopt {
                    subject,
                    is_fork,
                    content,
                },
            );
        }
        if is_pull && let Some(routing) = &mut self.nodes[node].routing {
            routing.handle_pulled(index, now);
        }
    }

    /// Answers those who wait for news of this node.
    pub(super) fn tell(&mut self, node: usize) {
        let now = self.nodes[node].now(self.time_us);
        let Some(routing) = &self.nodes[node].routing else {
            return;
        };
        let heard = (self.nodes[node].boot, routing.serial());
        let time_us = self.time_us;
        let is_due = |asker: &Asker| asker.after != heard || asker.until_us <= time_us;
        if !self.nodes[node].askers.iter().any(is_due) {
            return;
        }
        let status = Rc::new(routing.status(now));
        let askers = std::mem::take(&mut self.nodes[node].askers);
        let (due, waiting): (Vec<Asker>, Vec<Asker>) = askers.into_iter().partition(is_due);
        self.nodes[node].askers = waiting;
        for asker in due {
            let status = status.clone();
            let what = What::Told {
                id: asker.id,
                status,
            };
            self.post(Message {
                from: node,
                to: asker.node,
                boot: asker.boot,
                what,
            });
        }
    }
}
