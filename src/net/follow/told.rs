//! What the log says about an upstream: an outage costs two lines for each slot, not one a try.
//!
//! Owns the words: which slot, which upstream, what it said last. Which of them are due is decided
//! in `state::session`; what an operator wants to know beyond that is in the status.

use crate::model::{Role, SlotIndex};
use crate::net::driver::Driver;
use crate::state::session::Note;

use super::Follow;

/// Says it.
pub(super) fn log(driver: &Driver, follow: &Follow, slot: SlotIndex, note: Note) {
    let Some(key) = super::slot_key(driver, slot) else {
        return;
    };
    let cause = |role| match follow.trouble(slot, role) {
        Some(trouble) => trouble.text,
        None => format!("{}: it went silent", follow.upstream(role).endpoint()),
    };
    let log = &driver.log;
    match note {
        Note::OnPrimary => log.note(format_args!(
            "slot {key} follows the primary, {}",
            follow.upstream(Role::Primary).endpoint()
        )),
        Note::OnBackup(_) => log.warn(format_args!(
            "slot {key} follows the backup, {}; primary: {}",
            follow.upstream(Role::Backup).endpoint(),
            cause(Role::Primary)
        )),
        Note::AllDown(_) => log.error(format_args!(
            "slot {key} follows no upstream, what it serves stays; {}",
            cause(Role::Primary)
        )),
        Note::Denied(role) => log.error(format_args!(
            "slot {key}: the {} refuses the relay's key or does not know the slot, it is asked \
             rarely from now on; {}",
            role.as_str(),
            cause(role)
        )),
    }
}
