//! What a node does for one subject at one time: the phases, as a pure function.
//!
//! In go the record's class and timing, what this node has stored of its own word ([`Mark`]), what
//! the writer before it has said, and the time. Out come the phase, what has to be stored before
//! anything else may happen ([`Step`]), and when the answer will be another one.
//!
//! Policy: nobody is primary for want of better knowledge. A term is entered by its own writer
//! only, when the writer before has sealed (its head being here), or when `guard` and `grace` are
//! over without a seal. It is left by the clock `guard` before it ends, or at once when somebody
//! is heard who has entered a later one. What was entered is sealed before anything of a later
//! term; what was never entered is never sealed, since its writer cannot vouch for any head.
//!
//! Invariant: while the clocks of two nodes differ by less than 2 · guard + grace, no time is one
//! at which both may acknowledge a write.

use super::schedule::{self, Term};
use super::trust::Now;
use crate::model::Revision;
use crate::model::region::{Doubt, Epoch, Mark, NodeIndex, Phase, Seal, SlotClass, Timing};
use crate::time::{Instant, WallMs};

/// The term before, where it is not the record that says so: another record came into force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    pub epoch: Epoch,
    /// Absent when the new record does not have that node any more.
    pub writer: Option<NodeIndex>,
    pub since: WallMs,
}

/// All that the phase depends on.
#[derive(Clone, Copy, Debug)]
pub struct View<'v> {
    pub class: &'v SlotClass,
    pub timing: &'v Timing,
    /// This node, if the record has it.
    pub me: Option<NodeIndex>,
    /// What holds for all subjects: a conflict, or a start a moment ago.
    pub doubt: Option<Doubt>,
    /// What keeps the clock from being used.
    pub clock: Option<Doubt>,
    pub mark: Mark,
    /// The latest term that some node was heard to have entered.
    pub heard: Epoch,
    /// The last seal that was heard, and from whom.
    pub seal: Option<(NodeIndex, Seal)>,
    pub carried: Option<Carried>,
    /// What the store holds.
    pub head: Revision,
    /// Writes are under way...
    pub is_busy: bool,
    /// ...and a head has to show them. Where a local server keeps the data, nobody waits for one
    /// that takes longer than the term lasts.
    pub has_head: bool,
    /// When the last doubt ended.
    pub settled_at: Instant,
}

/// What has to be stored next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A later term is in force.
    Raise(Epoch),
    /// This node is about to be primary in that term.
    Enter { epoch: Epoch, is_unsealed: bool },
    /// This node writes no more in `epoch`; `floor` is in force from now on.
    Seal { epoch: Epoch, floor: Epoch },
}

/// What a node does for one subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlook {
    pub phase: Phase,
    /// The term in force.
    pub term: Term,
    pub next: Option<Term>,
    /// What requests of peers are compared with: of the next term, while it is being waited for.
    pub epoch: Epoch,
    pub step: Option<Step>,
    /// A write that ends now may be called applied.
    pub may_acknowledge: bool,
    /// Whose seal is being waited for.
    pub awaited: Option<(NodeIndex, Epoch)>,
    /// When to look again: by the wall clock, and by the other.
    pub wall_wake: Option<WallMs>,
    pub wake: Option<Instant>,
}

/// The outlook at `now`. Bounded by the switches and legs of the class.
pub fn look(view: &View<'_>, now: Now) -> Outlook {
    let known = view.mark.floor.max(view.heard);
    let by_floor = schedule::term_of(view.class, known);
    let lasting = by_floor.unwrap_or_else(|| schedule::term_at(view.class, WallMs::default()));
    let is_pending = schedule::term_after(view.class, &lasting).is_some();
    let by_clock = match view.clock {
        Some(_) => lasting,
        None => schedule::term_at(view.class, now.wall),
    };
    let doubt = match view.clock {
        _ if view.doubt.is_some() => view.doubt,
        _ if by_floor.is_none() && known > by_clock.epoch => Some(Doubt::OldRecord),
        Some(doubt) if is_pending => Some(doubt),
        Some(_) | None => None,
    };
    let later = |floor: &Term| floor.place > by_clock.place;
    let term = by_floor.filter(later).unwrap_or(by_clock);
    let mut outlook = Outlook {
        phase: Phase::Replica,
        term,
        next: schedule::term_after(view.class, &term),
        epoch: term.epoch,
        step: None,
        may_acknowledge: false,
        awaited: None,
        wall_wake: None,
        wake: None,
    };
    match doubt {
        Some(doubt) => outlook.phase = Phase::Unknown(doubt),
        None => settle(view, &mut outlook, now),
    }
    outlook
}

/// A writer and its term; the writer is absent when the record does not have it any more.
type Tenure = (Option<NodeIndex>, Epoch);

/// The phase where there is no doubt.
fn settle(view: &View<'_>, outlook: &mut Outlook, now: Now) {
    let (term, next) = (outlook.term, outlook.next);
    let is_mine = |term: &Term| view.me == Some(term.seat.writer);
    // A change between two terms of one writer is nobody else's business.
    let change = next.filter(|next| next.seat.writer != term.seat.writer);
    let eve = change.as_ref().and_then(|next| eve_of(view, next));
    let is_eve = eve.is_some_and(|eve| now.wall >= eve);
    let before = before(view, &term);
    let is_own = before.is_some_and(|(writer, _)| writer.is_some() && writer == view.me);
    let open = view.mark.open_term();
    let switch = next.and_then(|next| next.from);
    outlook.wall_wake = if is_eve { switch } else { eve.or(switch) };
    if open.is_some_and(|open| open < term.epoch) && !(is_mine(&term) && is_own) {
        // Overtaken by the clock or by somebody: the word is still owed.
        outlook.step = owed(view, outlook, open, term.epoch);
    } else if view.mark.floor < term.epoch {
        outlook.step = Some(Step::Raise(term.epoch));
    }
    if is_mine(&term) {
        let leaving = change.filter(|_| is_eve);
        settle_writer(view, outlook, before, leaving, now);
        return;
    }
    let over = term
        .from
        .map(|from| from + view.timing.guard + view.timing.grace);
    let is_fresh = over.is_some_and(|over| now.wall < over);
    let is_after_own = is_own && view.mark.seal.map(|seal| seal.epoch) == before.map(|(_, e)| e);
    if is_fresh && is_after_own {
        outlook.phase = Phase::Sealed;
        outlook.wall_wake = outlook.wall_wake.into_iter().chain(over).min();
    }
    if let Some(next) = change.filter(is_mine) {
        settle_next(view, outlook, &next, is_eve, now);
    }
}

/// When the writer before `next` begins to hold writes back.
fn eve_of(view: &View<'_>, next: &Term) -> Option<WallMs> {
    next.from
        .map(|from| from - view.timing.guard - view.timing.drain)
}

/// The phase of the writer of the term in force; `leaving`: the next one is at the door.
fn settle_writer(
    view: &View<'_>,
    outlook: &mut Outlook,
    before: Option<Tenure>,
    leaving: Option<Term>,
    now: Now,
) {
    let epoch = outlook.term.epoch;
    if view.mark.seal.is_some_and(|seal| seal.epoch >= epoch) {
        outlook.phase = Phase::Sealed;
        return;
    }
    if view.mark.entered != Some(epoch) {
        outlook.phase = Phase::Hold;
        let is_free = matches!(outlook.step, None | Some(Step::Raise(_)));
        if is_free && leaving.is_none() {
            wait_for(view, outlook, before, now);
        }
        return;
    }
    outlook.phase = Phase::Active;
    outlook.may_acknowledge = true;
    if let Some(next) = leaving {
        outlook.phase = Phase::Drain;
        let last = next.from.map(|from| from - view.timing.guard);
        outlook.may_acknowledge = last.is_some_and(|last| now.wall < last);
        outlook.step = owed(view, outlook, Some(epoch), next.epoch);
    }
}

/// The phase of the writer of the next term.
fn settle_next(view: &View<'_>, outlook: &mut Outlook, next: &Term, is_eve: bool, now: Now) {
    let writer = outlook.term.seat.writer;
    let epoch_before = outlook.term.epoch;
    let is_handed = is_handed(view, (Some(writer), epoch_before));
    if is_eve || is_handed {
        outlook.phase = Phase::Hold;
        outlook.epoch = next.epoch;
    }
    if is_handed && outlook.step.is_none() {
        let (epoch, is_unsealed) = (next.epoch, false);
        outlook.step = Some(Step::Enter { epoch, is_unsealed });
    }
    // The question has to lie there before the seal is made.
    let asked_from = eve_of(view, next).map(|eve| eve - view.timing.poll);
    if asked_from.is_some_and(|from| now.wall >= from) {
        outlook.awaited = Some((writer, epoch_before));
    } else {
        outlook.wall_wake = outlook.wall_wake.into_iter().chain(asked_from).min();
    }
}

/// The writer and the epoch that came before `term`.
fn before(view: &View<'_>, term: &Term) -> Option<Tenure> {
    match schedule::term_before(view.class, term) {
        Some(before) => Some((Some(before.seat.writer), before.epoch)),
        None => {
            let carried = view.carried.filter(|carried| carried.epoch < term.epoch)?;
            Some((carried.writer, carried.epoch))
        }
    }
}

/// The seal that is owed for `open`, once nothing is under way any more that it has to wait for.
fn owed(view: &View<'_>, outlook: &Outlook, open: Option<Epoch>, floor: Epoch) -> Option<Step> {
    let waits = view.is_busy && (view.has_head || outlook.may_acknowledge);
    let epoch = open.filter(|_| !waits)?;
    Some(Step::Seal { epoch, floor })
}

/// Whether the writer before has sealed and all that it wrote is here.
fn is_handed(view: &View<'_>, (writer, epoch): Tenure) -> bool {
    let fits = |(from, seal): (NodeIndex, Seal)| {
        Some(from) == writer && seal.epoch == epoch && view.head >= seal.head
    };
    view.seal.is_some_and(fits)
}

/// This node is the writer of the term in force and has not entered it.
fn wait_for(view: &View<'_>, outlook: &mut Outlook, before: Option<Tenure>, now: Now) {
    let epoch = outlook.term.epoch;
    let enter = |is_unsealed| Some(Step::Enter { epoch, is_unsealed });
    let Some((writer, epoch_before)) = before else {
        // Nobody was primary before the first term of the first record.
        outlook.step = enter(false);
        return;
    };
    let was_open = writer.is_some() && writer == view.me && view.mark.entered == Some(epoch_before);
    if was_open || is_handed(view, (writer, epoch_before)) {
        outlook.step = enter(false);
        return;
    }
    outlook.awaited = writer
        .filter(|_| writer != view.me)
        .map(|writer| (writer, epoch_before));
    let carried = view.carried.map(|carried| carried.since);
    let from = outlook.term.from.or(carried).unwrap_or_default();
    let due = from + view.timing.guard + view.timing.grace;
    // Whoever has just begun to look gives the seal the time of one look.
    let settled = view.settled_at + view.timing.grace;
    if now.wall >= due && now.instant >= settled {
        outlook.step = enter(true);
        return;
    }
    outlook.wall_wake = outlook
        .wall_wake
        .into_iter()
        .chain([due])
        .filter(|at| *at > now.wall)
        .min();
    outlook.wake = Some(settled).filter(|settled| *settled > now.instant);
}
