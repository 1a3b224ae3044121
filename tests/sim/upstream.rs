//! Two modelled upstreams: what each answers, by what is wrong with it just now.
//!
//! A model of the other side only. What a session should make of it is held in `failover`.

use staffetta::state::session::Loss;
use staffetta::time::{Duration, Instant};

/// What is wrong with an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Whole,
    /// Sockets close, connections are refused.
    Killed,
    /// Packets are dropped, and arrive after all if that ends in time.
    Silent,
    /// TCP works and nothing answers; what was open before is dead for good.
    TcpOnly,
    /// 503 on the upgrade. GETs work.
    Refusing(Option<Duration>),
    /// 200 on the upgrade.
    UpgradeGarbage,
    /// 200 with something else than a document on the GET. Sockets work.
    Garbage,
    Denied,
    /// Pongs and changes, but no `test message`.
    NoHeartbeat,
    /// Every socket is closed within seconds.
    Dropping,
    SlowFetch,
    /// The next GETs fail; how many is in `fails_left`.
    FetchFails,
    /// Certificates are not valid yet.
    ClockNotSet,
}

impl Fault {
    /// Any of them.
    pub fn random(random: &mut fastrand::Rng) -> Fault {
        let wait = Duration::from_secs(random.u64(1..40));
        match random.u8(0..16) {
            0 | 1 => Fault::Killed,
            2 | 3 => Fault::Silent,
            4 => Fault::TcpOnly,
            5 => Fault::Refusing(None),
            6 => Fault::Refusing(Some(wait)),
            7 => Fault::UpgradeGarbage,
            8 => Fault::Garbage,
            9 => Fault::Denied,
            10 => Fault::NoHeartbeat,
            11 => Fault::Dropping,
            12 => Fault::SlowFetch,
            13 => Fault::FetchFails,
            14 => Fault::ClockNotSet,
            _ => Fault::Whole,
        }
    }

    /// Whether no upgrade is ever answered with 101.
    pub fn is_dead(self) -> bool {
        match self {
            Fault::Killed
            | Fault::Silent
            | Fault::TcpOnly
            | Fault::Refusing(_)
            | Fault::UpgradeGarbage
            | Fault::Denied
            | Fault::ClockNotSet => true,
            Fault::Whole
            | Fault::Garbage
            | Fault::NoHeartbeat
            | Fault::Dropping
            | Fault::SlowFetch
            | Fault::FetchFails => false,
        }
    }

    /// Whether nothing arrives from it.
    pub fn is_mute(self) -> bool {
        matches!(self, Fault::Killed | Fault::Silent | Fault::TcpOnly)
    }
}

/// How a dial ends: None hangs.
pub type DialAnswer = Option<Result<(), Loss>>;

/// How a GET ends, after so long: None hangs; `Ok` has the version.
pub type GetAnswer = Option<(Duration, Result<u64, Loss>)>;

/// One upstream.
pub struct Upstream {
    pub fault: Fault,
    pub fails_left: u32,
    /// The document that it has.
    pub version: u64,
    /// When it wants no upgrade, and no GET, before.
    pub upgrade_hold: Instant,
    pub get_hold: Instant,
    /// When it last refused the key.
    pub denied: Option<Instant>,
}

impl Upstream {
    pub fn new() -> Upstream {
        Upstream {
            fault: Fault::Whole,
            fails_left: 0,
            version: 0,
            upgrade_hold: Instant::ORIGIN,
            get_hold: Instant::ORIGIN,
            denied: None,
        }
    }

    pub fn upgrade(&mut self, now: Instant) -> DialAnswer {
        let loss = match self.fault {
            Fault::Killed => Loss::Unreachable,
            Fault::Silent | Fault::TcpOnly => return None,
            Fault::Refusing(retry_after) => {
                self.upgrade_hold = now + retry_after.unwrap_or_default();
                Loss::Refused { retry_after }
            }
            Fault::UpgradeGarbage => Loss::Unusable,
            Fault::Denied => {
                self.denied = Some(now);
                Loss::Denied
            }
            Fault::ClockNotSet => Loss::ClockNotSet,
            Fault::Whole
            | Fault::Garbage
            | Fault::NoHeartbeat
            | Fault::Dropping
            | Fault::SlowFetch
            | Fault::FetchFails => return Some(Ok(())),
        };
        Some(Err(loss))
    }

    pub fn get(&mut self, random: &mut fastrand::Rng, now: Instant) -> GetAnswer {
        let slow = Duration::from_millis(random.u64(2_000..40_000));
        let answer = match self.fault {
            Fault::Killed => Err(Loss::Unreachable),
            Fault::Silent | Fault::TcpOnly => return None,
            Fault::Garbage | Fault::UpgradeGarbage => Err(Loss::Unusable),
            Fault::Denied => {
                self.denied = Some(now);
                Err(Loss::Denied)
            }
            Fault::ClockNotSet => Err(Loss::ClockNotSet),
            Fault::SlowFetch => return Some((slow, Ok(self.version))),
            Fault::FetchFails if self.fails_left > 0 => {
                self.fails_left -= 1;
                Err(self.odd_failure(random, now))
            }
            Fault::Whole
            | Fault::Refusing(_)
            | Fault::NoHeartbeat
            | Fault::Dropping
            | Fault::FetchFails => Ok(self.version),
        };
        Some((Duration::ZERO, answer))
    }

    fn odd_failure(&mut self, random: &mut fastrand::Rng, now: Instant) -> Loss {
        match random.u8(0..4) {
            0 => Loss::Unusable,
            1 => Loss::Closed,
            2 => Loss::Refused { retry_after: None },
            _ => {
                let wait = Duration::from_secs(random.u64(1..30));
                self.get_hold = now + wait;
                Loss::Refused {
                    retry_after: Some(wait),
                }
            }
        }
    }
}
