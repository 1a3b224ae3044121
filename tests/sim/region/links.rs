//! What passes between nodes, and what the network does to it.

use fastrand::Rng;
use staffetta::model::region::{Head, Record, Refusal, Status};
use staffetta::state::region::{AskId, Incoming, RequestId};
use std::rc::Rc;

/// A push of some client; its number is its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Push {
    pub number: u64,
    pub subject: u16,
}

/// What one node says to another.
#[derive(Clone)]
pub enum What {
    Ask {
        id: AskId,
        after: Option<(u64, u64)>,
        wait_us: u64,
    },
    Told {
        id: AskId,
        status: Rc<Status>,
    },
    Unreachable {
        id: AskId,
    },
    Forward {
        id: RequestId,
        push: Push,
        incoming: Incoming,
    },
    Reply {
        id: RequestId,
        reply: Reply,
    },
    Fetch {
        subject: u16,
        is_pull: bool,
    },
    Content {
        subject: u16,
        is_pull: bool,
        content: Content,
    },
    FetchRecord,
    Record(Rc<Record>),
}

/// What came of a forward.
#[derive(Clone)]
pub enum Reply {
    Answered { is_applied: bool },
    Refused(Refusal),
    NotSent,
    Lost,
}

/// What a store holds of a slot: all pushes that led to it.
#[derive(Clone, Default)]
pub struct Content {
    pub head: Head,
    pub pushes: Vec<u64>,
}

/// One message. `boot`: of whom the answer is for, so that nobody gets one to what he had asked
/// before he died.
#[derive(Clone)]
pub struct Message {
    pub from: usize,
    pub to: usize,
    pub boot: u64,
    pub what: What,
}

/// Which pairs of nodes are cut off from each other.
#[derive(Default)]
pub struct Links {
    pub cuts: Vec<(usize, usize)>,
    pub lost: u32,
}

impl Links {
    pub fn is_cut(&self, one: usize, other: usize) -> bool {
        let pair = (one.min(other), one.max(other));
        self.cuts.contains(&pair)
    }

    pub fn cut(&mut self, one: usize, other: usize) {
        self.cuts.push((one.min(other), one.max(other)));
    }

    pub fn heal(&mut self) {
        self.cuts.clear();
    }

    pub fn loses(&self, random: &mut Rng) -> bool {
        random.u32(0..1_000) < self.lost
    }

    pub fn delay_us(random: &mut Rng) -> u64 {
        match random.u32(0..20) {
            0 => random.u64(30_000..120_000),
            _ => random.u64(500..15_000),
        }
    }
}
