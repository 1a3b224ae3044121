//! Whom the relay follows, gathered for people.
//!
//! Owns what of a session, a link and a token is shown under which name. An age is told where the
//! session has a time, and where a wait lies ahead, how long it is still.
//!
//! Never copies a key or a token, only whether there is one.

use crate::model::{Role, SlotIndex};
use crate::net::driver::Driver;
use crate::net::follow::{Follow, problem};
use crate::net::region::replica;
use crate::net::upstream::Standing;
use crate::state::session::{Loss, Phase, Session};
use crate::time::Instant;
use crate::wire::status::{Following, Link, LinkPhase, NextDial, Token, Upstream};

/// Both upstreams; `None` on an isolated site.
pub(super) fn upstreams(driver: &Driver) -> Option<Vec<Upstream>> {
    let follow = driver.follow.as_ref()?;
    let roles = follow.roles().iter();
    let upstreams: Option<Vec<Upstream>> = roles.map(|role| upstream(follow, *role)).collect();
    upstreams.filter(|upstreams| !upstreams.is_empty())
}

fn upstream(follow: &Follow, role: Role) -> Option<Upstream> {
    let upstream = follow.own(role)?;
    let tokens = upstream.tokens()?;
    let (token, token_problem) = match tokens.standing(&follow.net) {
        Standing::NotAsked => (Token::None, None),
        Standing::Valid => (Token::Valid, None),
        Standing::Failed {
            is_refused,
            problem,
        } => match is_refused {
            true => (Token::Refused, Some(problem)),
            false => (Token::None, Some(problem)),
        },
    };
    Some(Upstream {
        role,
        url: upstream.endpoint().to_string(),
        guid: upstream.guid().to_string(),
        key_readable: tokens.has_key(),
        token,
        token_problem,
    })
}

/// How far `slot` is; `None` where it follows nobody.
pub(super) fn following(driver: &Driver, slot: SlotIndex, now: Instant) -> Option<Following> {
    let follow = driver.follow.as_ref()?;
    let state = driver.state.borrow();
    let session = state.sessions.of(slot)?;
    let roles = match follow.writer(slot) {
        Some(_) => &[Role::Primary],
        None => follow.roles(),
    };
    let next_dial = session.next_dial_at().map(|(role, at)| NextDial {
        role,
        in_s: at.since(now).as_secs(),
    });
    Some(Following {
        writer: replica::writer_of(driver, slot).map(|node| node.to_string()),
        upstream: session.active(),
        since_s: now.since(session.active_since()).as_secs(),
        live: session.is_live(),
        fetched_s: session.fetched().map(|at| now.since(at).as_secs()),
        next_dial,
        links: roles
            .iter()
            .map(|role| link(driver, follow, session, slot, *role, now))
            .collect(),
    })
}

fn link(
    driver: &Driver,
    follow: &Follow,
    session: &Session,
    slot: SlotIndex,
    role: Role,
    now: Instant,
) -> Link {
    let view = session.link(role);
    let problem = problem(driver, follow, slot, role);
    Link {
        role,
        phase: match view.phase {
            Phase::Down => LinkPhase::Down,
            Phase::Dialing => LinkPhase::Dialing,
            Phase::Open => LinkPhase::Open,
        },
        dials: view.dials,
        losses: view.losses,
        last_problem_s: problem
            .as_ref()
            .map(|problem| now.since(problem.since).as_secs()),
        last_problem: problem.map(|problem| problem.text),
        clock_in_doubt: view
            .last_loss
            .is_some_and(|(loss, _)| loss == Loss::ClockNotSet),
    }
}
