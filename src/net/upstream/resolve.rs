//! Names to addresses, on a lane of their own, remembered for a while.
//!
//! Owns: the addresses of a few names and how fresh they are. The system's resolver is asked, since
//! it knows what the operator told it, and it blocks; so it is asked on a lane, one name at a time,
//! and nobody waits longer for it than `name_timeout`. What comes later is kept for the next who
//! asks.
//!
//! Policy: a name is asked for once, however many wait; an answer is good for `name_fresh`, a
//! failure for `name_failed`. While a name cannot be resolved, the addresses it had last are used:
//! a site whose DNS is down is no site without network.
//!
//! Never: blocks the loop; asks for what is an address already.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};

use smol::channel::{Receiver, TryRecvError};

use crate::config::Host;
use crate::limits::Limits;
use crate::net::clock::Clock;
use crate::net::lane::{Jobs, Lane, Refused};
use crate::time::Instant;

use super::deadline::within;
use super::error::{Problem, Step};

/// What the resolver says: addresses in its order of preference, at least one.
type Found = Result<Vec<IpAddr>, io::ErrorKind>;

/// Asks the system; a test asks a table.
pub type Ask = fn(&str) -> Found;

/// Resolves names.
pub struct Resolver {
    jobs: Jobs,
    ask: Ask,
    names: RefCell<BTreeMap<String, Name>>,
}

#[derive(Default)]
struct Name {
    /// The last good answer, and until when it need not be asked for again.
    found: Vec<IpAddr>,
    fresh_until: Instant,
    /// The last failure, which is not looked into again before its moment.
    failed: Option<(io::ErrorKind, Instant)>,
    under_way: Option<Receiver<Found>>,
}

impl Resolver {
    /// A resolver that asks the system, and the lane on which it does; the relay runs that.
    pub fn new(limits: &Limits) -> (Resolver, Lane) {
        Resolver::asking(ask_system, limits)
    }

    /// A resolver that asks `ask`, which may block.
    pub fn asking(ask: Ask, limits: &Limits) -> (Resolver, Lane) {
        let (jobs, lane) = Jobs::with_room(limits.names_max);
        let names = RefCell::new(BTreeMap::new());
        (Resolver { jobs, ask, names }, lane)
    }

    /// The addresses of `host`, at most `addresses_max`, the two families in turns: a family that
    /// leads nowhere costs one attempt.
    ///
    /// Bounded by `name_timeout`, unless older addresses are known, which then do.
    pub async fn resolve(
        &self,
        host: &Host,
        port: u16,
        clock: &Clock,
        limits: &Limits,
    ) -> Result<Vec<SocketAddr>, Problem> {
        let found = match host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => {
                let looked_up = self.look_up(name, clock, limits);
                match within(clock, limits.name_timeout, looked_up).await {
                    Some(outcome) => outcome?,
                    None => self
                        .last_found(name)
                        .ok_or(Problem::Timeout(Step::Resolve))?,
                }
            }
        };
        let sockets = in_turns(found).into_iter().take(limits.addresses_max);
        Ok(sockets
            .map(|address| SocketAddr::new(address, port))
            .collect())
    }

    async fn look_up(
        &self,
        name: &str,
        clock: &Clock,
        limits: &Limits,
    ) -> Result<Vec<IpAddr>, Problem> {
        loop {
            let receiver = {
                let mut names = self.names.borrow_mut();
                make_room(&mut names, name, limits);
                let entry = names.entry(name.to_owned()).or_default();
                entry.collect(clock.now(), limits);
                if let Some(answer) = entry.answer(clock.now()) {
                    return answer.map_err(Problem::Resolve);
                }
                match &entry.under_way {
                    Some(receiver) => receiver.clone(),
                    None => {
                        let (ask, name) = (self.ask, name.to_owned());
                        let queued = self.jobs.queue(move || ask(&name));
                        let queued = queued.map_err(|refused| match refused {
                            Refused::Full(_) | Refused::Ended => Problem::Busy,
                        })?;
                        entry.under_way.insert(queued).clone()
                    }
                }
            };
            // Whoever gets the answer keeps it for all; for the others, the channel is closed.
            if let Ok(found) = receiver.recv().await
                && let Some(entry) = self.names.borrow_mut().get_mut(name)
            {
                entry.keep(found, clock.now(), limits);
            }
        }
    }

    fn last_found(&self, name: &str) -> Option<Vec<IpAddr>> {
        let names = self.names.borrow();
        let entry = names.get(name)?;
        (!entry.found.is_empty()).then(|| entry.found.clone())
    }
}

impl Name {
    /// Takes an answer that came while nobody waited.
    fn collect(&mut self, now: Instant, limits: &Limits) {
        match self.under_way.as_ref().map(Receiver::try_recv) {
            Some(Ok(found)) => self.keep(found, now, limits),
            Some(Err(TryRecvError::Closed)) => self.under_way = None,
            Some(Err(TryRecvError::Empty)) | None => {}
        }
    }

    fn keep(&mut self, found: Found, now: Instant, limits: &Limits) {
        self.under_way = None;
        match found {
            Ok(addresses) => {
                self.found = addresses;
                self.fresh_until = now + limits.name_fresh;
                self.failed = None;
            }
            Err(kind) => self.failed = Some((kind, now + limits.name_failed)),
        }
    }

    /// What is known well enough not to ask.
    fn answer(&self, now: Instant) -> Option<Found> {
        if now < self.fresh_until {
            return Some(Ok(self.found.clone()));
        }
        let (kind, until) = self.failed.filter(|(_, until)| now < *until)?;
        debug_assert!(until > now);
        Some(match self.found.is_empty() {
            true => Err(kind),
            false => Ok(self.found.clone()),
        })
    }
}

/// Forgets the name that was fresh longest ago, where there is no room for another.
fn make_room(names: &mut BTreeMap<String, Name>, name: &str, limits: &Limits) {
    if names.len() < limits.names_max || names.contains_key(name) {
        return;
    }
    let oldest = names.iter().min_by_key(|(_, entry)| entry.fresh_until);
    if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
        names.remove(&oldest);
    }
}

/// The family that the resolver prefers begins, then one of each (RFC 8305 4).
fn in_turns(found: Vec<IpAddr>) -> Vec<IpAddr> {
    let prefers_six = found.first().is_some_and(IpAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = found
        .into_iter()
        .partition(|address| address.is_ipv6() == prefers_six);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut turns = Vec::new();
    loop {
        let pair = [first.next(), second.next()];
        if pair == [None, None] {
            return turns;
        }
        turns.extend(pair.into_iter().flatten());
    }
}

/// Asks the system's resolver. Blocks: runs in the lane.
fn ask_system(name: &str) -> Found {
    #[expect(
        clippy::disallowed_methods,
        reason = "on the lane for names, which may block"
    )]
    let found = std::net::ToSocketAddrs::to_socket_addrs(&(name, 0));
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in found.map_err(|error| error.kind())? {
        if !addresses.contains(&address.ip()) {
            addresses.push(address.ip());
        }
    }
    match addresses.is_empty() {
        true => Err(io::ErrorKind::NotFound),
        false => Ok(addresses),
    }
}

#[cfg(test)]
mod tests;
