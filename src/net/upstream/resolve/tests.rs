//! Names that resolve, fail, hang, and change, on a clock that the test moves.

use super::*;
use crate::net::clock::Hands;
use crate::time::{Duration, Wall};
use smol::LocalExecutor;
use std::cell::Cell;
use std::rc::Rc;

struct Rig {
    resolver: Rc<Resolver>,
    lane: Cell<Option<Lane>>,
    clock: Clock,
    hands: Hands,
    limits: Limits,
    executor: LocalExecutor<'static>,
}

fn rig(ask: Ask) -> Rig {
    let limits = Limits {
        names_max: 2,
        ..Limits::PRODUCTION
    };
    let (clock, hands) = Clock::virtual_at(Wall::PLAUSIBLE);
    let (resolver, lane) = Resolver::asking(ask, &limits);
    Rig {
        resolver: Rc::new(resolver),
        lane: Cell::new(Some(lane)),
        clock,
        hands,
        limits,
        executor: LocalExecutor::new(),
    }
}

type Outcome = Result<Vec<SocketAddr>, Problem>;

impl Rig {
    fn ask(&self, name: &str) -> smol::Task<Outcome> {
        let host = Host::Name(name.to_owned());
        let (resolver, clock) = (self.resolver.clone(), self.clock.clone());
        let limits = self.limits.clone();
        self.executor
            .spawn(async move { resolver.resolve(&host, 7, &clock, &limits).await })
    }

    /// Lets the lane work from now on.
    fn open_lane(&self) {
        if let Some(lane) = self.lane.take() {
            self.executor.spawn(lane.run()).detach();
        }
    }

    fn settle(&self) {
        while self.executor.try_tick() {}
    }

    fn wait(&self, task: smol::Task<Outcome>) -> Outcome {
        smol::block_on(self.executor.run(task))
    }
}

fn table(name: &str) -> Found {
    match name {
        "two" => Ok(["10.0.0.1", "10.0.0.2", "fd00::1"]
            .map(|a| a.parse().unwrap())
            .into()),
        "none" => Err(io::ErrorKind::NotFound),
        _ => Ok(vec!["10.0.0.9".parse().unwrap()]),
    }
}

fn sockets(addresses: &[&str]) -> Outcome {
    Ok(addresses
        .iter()
        .map(|address| address.parse().unwrap())
        .collect())
}

#[test]
fn families_take_turns_and_addresses_need_nobody() {
    let rig = rig(table);
    rig.open_lane();
    let found = rig.wait(rig.ask("two"));
    assert_eq!(found, sockets(&["10.0.0.1:7", "[fd00::1]:7", "10.0.0.2:7"]));
    let host = Host::Address("::1".parse().unwrap());
    let found = smol::block_on(rig.resolver.resolve(&host, 1, &rig.clock, &rig.limits));
    assert_eq!(found, sockets(&["[::1]:1"]));
}

#[test]
fn many_who_ask_for_one_name_ask_once() {
    let rig = rig(table);
    let tasks: Vec<_> = (0..9).map(|_| rig.ask("one")).collect();
    rig.settle();
    assert_eq!(rig.resolver.jobs.waiting(), 1);
    rig.open_lane();
    for task in tasks {
        assert_eq!(rig.wait(task), sockets(&["10.0.0.9:7"]));
    }
}

#[test]
fn a_failure_is_remembered_for_a_moment() {
    let rig = rig(table);
    rig.open_lane();
    let refused = Err(Problem::Resolve(io::ErrorKind::NotFound));
    assert_eq!(rig.wait(rig.ask("none")), refused);
    let until = |rig: &Rig| rig.resolver.names.borrow()["none"].failed.unwrap().1;
    let first = until(&rig);
    assert_eq!(rig.wait(rig.ask("none")), refused);
    assert_eq!(until(&rig), first);
    rig.hands.advance(rig.limits.name_failed);
    assert_eq!(rig.wait(rig.ask("none")), refused);
    assert!(until(&rig) > first);
}

#[test]
fn last_addresses_are_used_while_the_resolver_fails_or_hangs() {
    let rig = rig(table);
    {
        let mut names = rig.resolver.names.borrow_mut();
        let entry = names.entry("none".to_owned()).or_default();
        entry.found = vec!["10.0.0.5".parse().unwrap()];
    }
    let hanging = rig.ask("none");
    rig.settle();
    assert!(!hanging.is_finished());
    rig.hands.advance(rig.limits.name_timeout);
    assert_eq!(rig.wait(hanging), sockets(&["10.0.0.5:7"]));
    rig.open_lane();
    assert_eq!(rig.wait(rig.ask("none")), sockets(&["10.0.0.5:7"]));
    assert!(rig.resolver.names.borrow()["none"].failed.is_some());
}

#[test]
fn an_answer_that_comes_too_late_is_there_for_the_next() {
    let rig = rig(table);
    let hanging = rig.ask("one");
    rig.settle();
    rig.hands.advance(rig.limits.name_timeout);
    assert_eq!(rig.wait(hanging), Err(Problem::Timeout(Step::Resolve)));
    rig.open_lane();
    assert_eq!(rig.wait(rig.ask("one")), sockets(&["10.0.0.9:7"]));
    // One job was asked for in all of this, and the second who asked took its answer.
    rig.hands.advance(Duration::from_secs(1));
    assert_eq!(rig.resolver.jobs.waiting(), 0);
}

#[test]
fn few_names_are_remembered() {
    let rig = rig(table);
    rig.open_lane();
    for name in ["a", "b", "c", "d"] {
        assert!(rig.wait(rig.ask(name)).is_ok());
        rig.hands.advance(Duration::from_secs(1));
    }
    let names: Vec<String> = rig.resolver.names.borrow().keys().cloned().collect();
    assert_eq!(names, ["c", "d"]);
}

#[test]
fn the_system_knows_this_machine() {
    let found = ask_system("localhost").unwrap();
    assert!(found.iter().all(IpAddr::is_loopback), "{found:?}");
}
