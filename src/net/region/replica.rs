//! What this node holds of slots for which another one is primary.
//!
//! Owns whom each slot follows: the writer of the term in force, none where that is this node
//! itself. The sessions are those that follow upstreams, one for each slot; here they get another
//! target whenever `Routing::followed` names another one, and here is what becomes of what they
//! fetch. The content of a writer comes with its head, and `state::region` says whether it counts.
//!
//! Never takes content from anybody but whom the record names, so that no ring of relays comes
//! about. Never tells clients of anything but a change of content.
//!
//! Invariant: whatever `Routing` says is to be adopted is handed to `store` in a task of its own,
//! so that it is answered although the fetch that brought it was given up.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::config::Secret;
use crate::model::region::{Head, Node, NodeIndex, Record, Status};
use crate::model::{Id, Revision, SlotIndex, SlotKey, Snapshot, Source};
use crate::net::driver::Driver;
use crate::net::follow::{self, Follow};
use crate::net::load::Loaded;
use crate::net::seed;
use crate::net::upstream::deadline::within;
use crate::net::upstream::error::{Problem, Step};
use crate::net::upstream::{Upstream, UpstreamError};
use crate::state::region::{Follow as Verdict, SubjectIndex};
use crate::state::session::{Loss, Session, Setting};
use crate::time::Duration;
use crate::wire::http::Method;
use crate::wire::http::request::Request;
use crate::wire::region::peer::PARENT;
use crate::wire::region::target::Target;
use crate::wire::{DecodeError, push};

use super::peer::{self, Bounds};
use super::{Region, ask, peer_key, store, tell};

/// Whom the slots follow.
#[derive(Default)]
pub struct Replicas {
    seen: RefCell<Option<Seen>>,
    followed: RefCell<HashMap<SlotIndex, Followed>>,
}

/// What the targets were last worked out from.
struct Seen {
    record: Option<Rc<Record>>,
    loaded: Rc<Loaded>,
    writers: Vec<Option<NodeIndex>>,
}

/// A node as it is asked.
#[derive(Clone, PartialEq, Eq)]
struct Followed {
    node: Node,
    key: Secret,
}

/// Lets every session follow whom it is to follow now. Called whenever that may have changed.
///
/// Bounded by the number of subjects.
pub fn retarget(driver: &Rc<Driver>) {
    let (Some(region), Some(follow)) = (&driver.region, &driver.follow) else {
        return;
    };
    if driver.is_draining() || !is_news(driver, region) {
        return;
    }
    for subject in subjects(region) {
        let Some(slot) = region.slot_of(driver, subject) else {
            continue;
        };
        let target = target(driver, region, subject);
        let mut followed = region.replicas.followed.borrow_mut();
        if followed.get(&slot) == target.as_ref() {
            continue;
        }
        let writer = target
            .as_ref()
            .and_then(|target| upstream(driver, &target.node));
        match target {
            Some(target) => followed.insert(slot, target),
            None => followed.remove(&slot),
        };
        drop(followed);
        begin(driver, follow, slot, writer);
    }
}

fn subjects(region: &Region) -> impl Iterator<Item = SubjectIndex> {
    let count = u16::try_from(region.subjects.len()).unwrap_or(u16::MAX);
    (0..count).map(SubjectIndex)
}

/// Whether anything has changed that a target depends on; a relay turns for every client.
fn is_news(driver: &Driver, region: &Region) -> bool {
    let routing = region.routing.borrow();
    let writers = || subjects(region).map(|subject| routing.followed(subject));
    let loaded = driver.loaded.borrow();
    let mut seen = region.replicas.seen.borrow_mut();
    let is_same = seen.as_ref().is_some_and(|seen| {
        let record = seen.record.as_ref().map(Rc::as_ptr);
        record == routing.record().map(Rc::as_ptr)
            && Rc::ptr_eq(&seen.loaded, &loaded)
            && seen.writers.iter().copied().eq(writers())
    });
    if !is_same {
        *seen = Some(Seen {
            record: routing.record().cloned(),
            loaded: loaded.clone(),
            writers: writers().collect(),
        });
    }
    !is_same
}

fn target(driver: &Driver, region: &Region, subject: SubjectIndex) -> Option<Followed> {
    let routing = region.routing.borrow();
    let writer = routing.followed(subject)?;
    Some(Followed {
        node: routing.record()?.node(writer)?.clone(),
        key: peer_key(driver)?,
    })
}

/// A node as an upstream: its change socket, and whom reports are for.
fn upstream(driver: &Driver, node: &Node) -> Option<Rc<Upstream>> {
    let (way, key) = peer::reach(driver, node).ok()?;
    Some(Rc::new(Upstream::peer(way, driver.guid.clone(), &key)))
}

/// From now on `slot` follows `writer`, or nobody: a new session for the new target.
fn begin(driver: &Driver, follow: &Follow, slot: SlotIndex, writer: Option<Rc<Upstream>>) {
    let session = writer.is_some().then(|| {
        let setting = Setting {
            has_backup: false,
            probe_interval: driver.limits.probe_interval,
            stagger: Duration::ZERO,
        };
        let seed = driver.random_below(u64::MAX);
        let mut session = Session::new(setting, &driver.limits, seed);
        session.start(driver.clock.now());
        session
    });
    follow.follow_writer(slot, writer);
    driver.state.borrow_mut().sessions.replace(slot, session);
    driver.wake();
}

/// A peer has said how it stands: where a slot's writer has more than this node, it is asked at
/// once. Its socket says so as well, as long as there is one; and of a revision that changes no
/// content, nobody else does.
///
/// Bounded by the number of subjects, squared.
pub fn handle_status(driver: &Driver, status: &Status) {
    let Some(region) = &driver.region else { return };
    for there in &status.subjects {
        let Some(subject) = region.subject(&there.subject) else {
            continue;
        };
        let Some(slot) = region.slot_of(driver, subject) else {
            continue;
        };
        let followed = region.replicas.followed.borrow();
        let is_writer = |target: &Followed| target.node.name == status.node;
        if followed.get(&slot).is_some_and(is_writer)
            && revision(region, subject) < there.head.revision
        {
            let now = driver.clock.now();
            let mut state = driver.state.borrow_mut();
            let news = |session: &mut Session| session.handle_news(now);
            state.sessions.tell(slot, news);
            driver.wake();
        }
    }
}

/// A peer answers again: slots that follow it need not wait for the end of a back-off.
///
/// Bounded by the number of slots.
pub fn handle_reached(driver: &Driver, node: &Id) {
    let Some(region) = &driver.region else { return };
    let followed = region.replicas.followed.borrow();
    let is_it = |(_, followed): &(&SlotIndex, &Followed)| followed.node.name == *node;
    let now = driver.clock.now();
    let mut state = driver.state.borrow_mut();
    for (slot, _) in followed.iter().filter(is_it) {
        let reached = |session: &mut Session| session.handle_reached(now);
        state.sessions.tell(*slot, reached);
    }
    driver.wake();
}

fn revision(region: &Region, subject: SubjectIndex) -> Revision {
    let head = region.routing.borrow().head(subject);
    head.map(|head| head.revision).unwrap_or_default()
}

/// The name of the node that `slot` follows, if it follows one.
pub fn writer_of(driver: &Driver, slot: SlotIndex) -> Option<Id> {
    let region = driver.region.as_ref()?;
    let followed = region.replicas.followed.borrow();
    followed
        .get(&slot)
        .map(|followed| followed.node.name.clone())
}

/// Whether no node has an upstream: then reports are of use to nobody.
pub fn is_isolated(driver: &Driver) -> bool {
    let region = driver.region.as_ref();
    region.is_some_and(|region| region.routing.borrow().is_isolated())
}

/// Whom the reports about `slot` are for on a node without an upstream of its own: the writer of
/// that slot, if it has one; for a slot that is not routed, that of any.
pub fn collector(driver: &Driver, slot: Option<&SlotKey>) -> Option<Rc<Upstream>> {
    let follow = driver.follow.as_ref()?;
    let region = driver.region.as_ref()?;
    let routed = subjects(region).filter_map(|subject| region.slot_of(driver, subject));
    let routed: Vec<SlotIndex> = routed.collect();
    let found = slot.and_then(|slot| {
        let (collection, environment) = (slot.collection.as_str(), slot.environment.as_str());
        driver.state.borrow().slots.find(collection, environment)
    });
    let writer = |slot: SlotIndex| {
        let name = writer_of(driver, slot)?;
        let routing = region.routing.borrow();
        let node = routing.record()?.find_node(&name)?;
        follow.writer(slot).filter(|_| routing.delivers(node))
    };
    match found.filter(|slot| routed.contains(slot)) {
        Some(slot) => writer(slot),
        None => routed.into_iter().find_map(writer),
    }
}

/// Pulls a slot's content from a peer, at least of this revision.
pub fn pull(driver: &Rc<Driver>, subject: SubjectIndex, peer: NodeIndex, revision: Revision) {
    let task = driver.clone();
    driver.spawn(async move {
        if let Err((_, problem)) = try_pull(&task, subject, peer).await {
            task.log.debug(format_args!(
                "revision {revision} cannot be pulled: {problem}"
            ));
        }
        tell(&task, |routing, now| routing.handle_pulled(subject, now));
    });
}

async fn try_pull(
    driver: &Rc<Driver>,
    subject: SubjectIndex,
    peer: NodeIndex,
) -> Result<(), (Loss, String)> {
    let (Some(region), Some(follow)) = (&driver.region, &driver.follow) else {
        return Ok(());
    };
    let _place = follow.place_to_pull().await;
    let slot = region.slot_of(driver, subject);
    match slot.zip(ask::node(driver, peer)) {
        Some((slot, node)) => fetch_from(driver, slot, &node).await,
        None => Ok(()),
    }
}

/// Fetches what the writer of `slot` has of it, and takes it if `state::region` says so. `Ok`:
/// nothing more is to be had there for now.
pub async fn fetch(driver: &Rc<Driver>, slot: SlotIndex) -> Result<(), (Loss, String)> {
    let target = {
        let followed = driver
            .region
            .as_ref()
            .map(|region| &region.replicas.followed);
        followed.and_then(|followed| followed.borrow().get(&slot).cloned())
    };
    match target {
        Some(target) => fetch_from(driver, slot, &target.node).await,
        None => Ok(()),
    }
}

async fn fetch_from(
    driver: &Rc<Driver>,
    slot: SlotIndex,
    node: &Node,
) -> Result<(), (Loss, String)> {
    let subject = driver.region.as_ref();
    let subject = subject.and_then(|region| region.subject_of(driver, slot));
    let key = follow::slot_key(driver, slot);
    let (Some(subject), Some(key)) = (subject, key) else {
        return Ok(());
    };
    let found = content(driver, node, &key).await;
    let found = found.map_err(|error| (error.loss(), error.to_string()))?;
    let Some((revision, parent, bytes)) = found else {
        return Ok(());
    };
    let snapshot = follow::read(driver, key, bytes).await?;
    let snapshot = snapshot.map_err(|problem| {
        seed::refuse(driver, slot, "writer of the primary region", &problem);
        (Loss::Unusable, format!("{}: {problem}", node.url))
    })?;
    let head = Head {
        revision,
        digest: snapshot.digest,
        parent,
    };
    offer(driver, slot, subject, snapshot, head).await
}

/// Revision, what its term was built on, and the content, as a node has them; `None` while it has
/// none.
///
/// Bounded by `upstream_total_timeout` and `document_bytes_max`.
async fn content(
    driver: &Driver,
    node: &Node,
    slot: &SlotKey,
) -> Result<Option<(Revision, Revision, Vec<u8>)>, UpstreamError> {
    let limits = &driver.limits;
    let bounds = Bounds {
        bytes_max: limits.document_bytes_max,
        silence: limits.upstream_idle_timeout,
    };
    let target = Target::Slot(slot.clone()).write();
    let request = || Request::new(Method::Get, target).with("accept", "application/json");
    let asking = Box::pin(peer::ask(driver, node, bounds, request));
    let failed = |problem| Err(UpstreamError::new(&node.url, problem));
    let answered = match within(&driver.clock, limits.upstream_total_timeout, asking).await {
        Some(Ok(answered)) => answered,
        Some(Err(failure)) => return Err(failure.error().clone()),
        None => return failed(Problem::Timeout(Step::Whole)),
    };
    let revision = answered.field("etag").and_then(push::revision);
    let parent = answered.field(PARENT).and_then(Revision::parse);
    match (answered.status, revision.zip(parent)) {
        (204, _) => Ok(None),
        (200, Some((revision, parent))) => Ok(Some((revision, parent, answered.body))),
        (200, None) => failed(Problem::Protocol(DecodeError::Malformed(
            "a slot without its revisions",
        ))),
        (status, _) => failed(Problem::Status {
            status,
            retry_after: None,
        }),
    }
}

/// Has it decided whether the content is taken, and waits until it is.
async fn offer(
    driver: &Rc<Driver>,
    slot: SlotIndex,
    subject: SubjectIndex,
    snapshot: Snapshot,
    there: Head,
) -> Result<(), (Loss, String)> {
    let verdict = tell(driver, |routing, _| routing.follow(subject, &there));
    match verdict {
        Some(Verdict::Adopt { is_fork }) => {
            // What nobody ever pushed lies in the seed.
            let is_fork = is_fork && was_pushed(driver, slot);
            let (done, taken) = smol::channel::bounded(1);
            let task = driver.clone();
            driver.spawn(async move {
                store::adopt(&task, subject, snapshot, there, is_fork).await;
                // Whoever gave the fetch up is not there any more.
                let _ = done.try_send(());
            });
            // Without the other end the process is over.
            let _ = taken.recv().await;
        }
        Some(Verdict::Keep) => confirm(driver, slot, snapshot),
        // There is a note about it.
        Some(Verdict::Contradiction) | None => return Ok(()),
    }
    let held = driver.region.as_ref();
    let held = held.map(|region| revision(region, subject));
    match held.is_none_or(|held| held >= there.revision) {
        true => Ok(()),
        // It stands behind something else, or the folder cannot be written.
        false => Err((
            Loss::Refused { retry_after: None },
            format!("revision {} could not be taken now", there.revision),
        )),
    }
}

fn was_pushed(driver: &Driver, slot: SlotIndex) -> bool {
    let state = driver.state.borrow();
    let slot = state.slots.of(slot);
    slot.is_some_and(|slot| slot.pushed_at().is_some())
}

/// What the writer has is what is served: it is confirmed.
fn confirm(driver: &Driver, slot: SlotIndex, snapshot: Snapshot) {
    let digest = snapshot.digest;
    let is_served = {
        let state = driver.state.borrow();
        let held = state.slots.of(slot).and_then(|slot| slot.held.as_ref());
        held.is_some_and(|held| held.snapshot.digest == digest)
    };
    if is_served {
        driver.publish(slot, Rc::new(snapshot), Source::Operator);
    }
}

#[cfg(test)]
mod tests;
