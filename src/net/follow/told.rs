//! What the log says about an upstream: an outage costs two lines for each slot, not one a try.
//!
//! Owns the words: which slot, which upstream, what is wrong with it. Which of them are due is
//! decided in `state::session`; what an operator wants to know beyond that is in the status, which
//! takes what is wrong from here.

use crate::model::{Role, SlotIndex};
use crate::net::driver::Driver;
use crate::state::session::{Loss, Note, Phase};

use super::{Follow, Trouble};

/// What stands between a slot and an upstream. Where the session gave up a link by itself, nobody
/// has said anything, and its own reason has to do.
pub(in crate::net) fn problem(
    driver: &Driver,
    follow: &Follow,
    slot: SlotIndex,
    role: Role,
) -> Option<Trouble> {
    let told = follow.trouble(slot, role);
    let state = driver.state.borrow();
    let link = state.sessions.of(slot)?.link(role);
    let given_up = link.last_loss.filter(|_| link.phase != Phase::Open);
    let own = given_up.and_then(|(loss, since)| {
        let reason = match loss {
            Loss::Silent => "nothing was heard of it for too long",
            Loss::NoHeartbeat => "it answers, and sends no heartbeat",
            Loss::Unreachable => "it has not answered in time",
            // Whoever noticed these has said so.
            Loss::Refused { .. }
            | Loss::Denied
            | Loss::Closed
            | Loss::Unusable
            | Loss::ClockNotSet => return None,
        };
        let upstream = follow.upstream(slot, role)?;
        let text = format!("{}: {reason}", upstream.endpoint());
        Some(Trouble { text, since })
    });
    told.or(own)
}

/// Says it.
pub(super) fn log(driver: &Driver, follow: &Follow, slot: SlotIndex, note: Note) {
    let Some(key) = super::slot_key(driver, slot) else {
        return;
    };
    let at = |role| {
        let upstream = follow.upstream(slot, role);
        upstream.map_or_else(String::new, |upstream| upstream.endpoint().to_string())
    };
    let cause = |role| match problem(driver, follow, slot, role) {
        Some(trouble) => trouble.text,
        None => format!("{}: it was given up", at(role)),
    };
    let is_writer = follow.writer(slot).is_some();
    let name = |role: Role| match is_writer {
        true => "writer of the primary region",
        false => role.as_str(),
    };
    let log = &driver.log;
    match note {
        Note::OnPrimary => log.note(format_args!(
            "slot {key} follows the {}, {}",
            name(Role::Primary),
            at(Role::Primary)
        )),
        Note::OnBackup(_) => log.warn(format_args!(
            "slot {key} follows the backup, {}; primary: {}",
            at(Role::Backup),
            cause(Role::Primary)
        )),
        Note::AllDown(_) if is_writer => log.error(format_args!(
            "slot {key} does not reach the {}, what it serves stays; {}",
            name(Role::Primary),
            cause(Role::Primary)
        )),
        Note::AllDown(_) => log.error(format_args!(
            "slot {key} follows no upstream, what it serves stays; {}",
            cause(Role::Primary)
        )),
        Note::Denied(role) => log.error(format_args!(
            "slot {key}: the {} refuses the relay's key or does not know the slot, it is asked \
             rarely from now on; {}",
            name(role),
            cause(role)
        )),
    }
}
