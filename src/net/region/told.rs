//! What the log says of region routing: one line an event, and few of what repeats.

use crate::net::driver::Driver;
use crate::state::region::Note;

use super::Region;

/// Puts a note in the log.
pub fn log(driver: &Driver, _region: &Region, note: Note) {
    driver.log.note(format_args!("region: {note:?}"));
}
