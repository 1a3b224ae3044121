//! Documents of healthy relays, for the tests of those that show them.
//!
//! Owns one relay as it should be, without upstreams, and what it would say of two: whoever tests a
//! problem makes it himself, in one field.
//!
//! Never has a problem or a note in it.

use super::*;
use crate::model::Role;

/// A healthy relay with one slot, for the tests of those that show it.
pub(crate) fn sample() -> Status {
    let status = Status {
        version: "0.1.0".into(),
        state: Phase::Serving,
        ready: false,
        problems: Vec::new(),
        notes: Vec::new(),
        uptime_s: 11_520,
        clock: Clock {
            state: ClockState::Set,
            time: "2026-11-29T22:00:00Z".into(),
        },
        instance: Instance {
            guid: "11111111-2222-3333-4444-555555555555".into(),
            region: Some("us-south".into()),
        },
        seed: Some(Seed {
            file: "/etc/staffetta/seed.json".into(),
            read_s: Some(754),
            bytes: 51_961,
            problem: None,
            problem_s: None,
        }),
        upstreams: None,
        state_dir: Some(StateDir {
            folder: "/var/lib/staffetta".into(),
            problem: None,
            problem_s: None,
            saved_s: Some(754),
            waiting: 0,
            bad_files: Vec::new(),
        }),
        slots: vec![Slot {
            slot: "inventory/dev".into(),
            serves: Some(sample_served()),
            following: None,
            clients: Clients {
                websocket: 2,
                sse: 1,
                ..Clients::default()
            },
            last_error: None,
            superseded: None,
            stale_refused: 0,
        }],
        connections: Connections {
            sdk: 3,
            lobby: 0,
            admin: 1,
            limit: 1024,
        },
        keys: Keys {
            configured: 2,
            unreadable: 0,
        },
        tls: true,
        events: Events::default(),
        refusals: BTreeMap::new(),
        clusters: Vec::new(),
        region: None,
    };
    status.judged()
}

fn sample_served() -> Served {
    Served {
        source: "seed".into(),
        version: 3,
        revision: None,
        pushed_at: None,
        age_s: 754,
        confirmed_s: 20,
        digest: "ab".repeat(32),
        features: 5,
        properties: 2,
        segments: 1,
        bytes: 12_700,
        rollouts_filled: 0,
    }
}

/// A slot that follows its primary, for the tests of those that show it.
pub(crate) fn sample_following() -> Following {
    let link = |role, phase| Link {
        role,
        phase,
        dials: 1,
        losses: 0,
        last_problem: None,
        last_problem_s: None,
        clock_in_doubt: false,
    };
    Following {
        writer: None,
        upstream: Some(Role::Primary),
        since_s: 700,
        live: true,
        fetched_s: Some(20),
        next_dial: None,
        links: vec![
            link(Role::Primary, LinkPhase::Open),
            link(Role::Backup, LinkPhase::Down),
        ],
    }
}

/// An upstream as it should be.
pub(crate) fn sample_upstream(role: Role) -> Upstream {
    Upstream {
        role,
        url: format!("https://{}.example", role.as_str()),
        guid: "11111111-2222-3333-4444-555555555555".into(),
        key_readable: true,
        token: Token::Valid,
        token_problem: None,
    }
}
