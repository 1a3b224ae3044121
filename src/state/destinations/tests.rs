//! Who gets which request, through health, backups, draining and new configurations.

use super::health::Verdict;
use super::*;
use crate::model::casing;
use crate::model::proxy::{Address, Affinity, Available, Cluster, CookieShape, PassiveCheck};

/// Any function of the id alone does: what the value is, only peers care about.
fn key(id: &str) -> AffinityKey {
    let add = |sum: u64, letter: char| sum.wrapping_mul(31).wrapping_add(letter as u64);
    AffinityKey::from_hash(casing::upper_text(id).chars().fold(7, add))
}

fn at(seconds: u64) -> Instant {
    Instant::ORIGIN + Duration::from_secs(seconds)
}

/// `A`; with `!` a backup, with `~` draining.
fn destination(text: &str) -> Destination {
    Destination {
        id: text.trim_end_matches(['!', '~']).into(),
        address: Address {
            is_tls: false,
            host: "10.0.0.1".into(),
            port: 80,
            path: "".into(),
        },
        health: None,
        host: None,
        is_backup: text.contains('!'),
        is_draining: text.contains('~'),
    }
}

fn cluster(failure: Option<FailurePolicy>, destinations: &[&str]) -> Cluster {
    Cluster {
        id: "plant".into(),
        balance: Balance::RoundRobin,
        affinity: failure.map(|failure| Affinity {
            failure,
            cookie_name: "Aff".into(),
            cookie: CookieShape::default(),
        }),
        health: Health {
            available: Available::HealthyOrPanic,
            active: Some(ActiveCheck {
                interval: Duration::from_secs(15),
                timeout: Duration::from_secs(10),
                path: "".into(),
                query: "".into(),
                failures: 1,
            }),
            passive: None,
        },
        activity_timeout: Duration::from_secs(100),
        destinations: destinations.iter().map(|text| destination(text)).collect(),
    }
}

const MOVE: Option<FailurePolicy> = Some(FailurePolicy::Redistribute);
const REFUSE: Option<FailurePolicy> = Some(FailurePolicy::Refuse);

struct World {
    destinations: Destinations,
    now: Instant,
}

impl World {
    fn new(cluster: Cluster) -> World {
        let random = Rng::with_seed(3);
        let mut world = World {
            destinations: Destinations::new(random, &Limits::PRODUCTION),
            now: at(1),
        };
        world.replace(&[cluster]);
        world
    }

    fn replace(&mut self, clusters: &[Cluster]) {
        self.destinations.replace(clusters, key, self.now);
    }

    /// Lets every destination answer its next probe: those in `down` badly.
    fn probe(&mut self, down: &[&str]) {
        self.now = self.now + Duration::from_secs(15);
        while let Some(probe) = self.destinations.poll_probe(self.now) {
            let id = self.id(probe.destination);
            let is_good = !down.contains(&&*id);
            self.destinations.handle_probe(probe, is_good, self.now);
        }
        self.destinations.check_invariants();
    }

    fn id(&self, key: Key) -> String {
        self.destinations.destination(key).unwrap().id.to_string()
    }

    /// Outcome, destination, and whose cookie is set, for a request with the cookie of `id`.
    fn ask(&mut self, id: Option<&str>) -> (Outcome, String, bool) {
        let cookie = id.map(key);
        let cookie = cookie.as_ref().map(AffinityKey::as_str);
        let choice = self.destinations.choose(0, cookie, self.now);
        self.told(choice)
    }

    fn told(&self, choice: Choice) -> (Outcome, String, bool) {
        let id = choice
            .destination
            .map(|key| self.id(key))
            .unwrap_or_default();
        if let Some(establish) = choice.establish {
            assert_eq!(establish, key(&id), "the cookie of another destination");
        }
        (choice.outcome, id, choice.establish.is_some())
    }
}

fn told(outcome: Outcome, id: &str, sets_cookie: bool) -> (Outcome, String, bool) {
    (outcome, id.to_owned(), sets_cookie)
}

#[test]
fn a_new_client_is_bound_once_and_stays() {
    let mut world = World::new(cluster(MOVE, &["A", "B", "C"]));
    assert_eq!(world.ask(None), told(Outcome::New, "A", true));
    assert_eq!(world.ask(None), told(Outcome::New, "B", true));
    for _ in 0..50 {
        assert_eq!(world.ask(Some("B")), told(Outcome::Resolved, "B", false));
    }
    // Those who came back took no turn.
    assert_eq!(world.ask(None), told(Outcome::New, "C", true));
    let (counts, again) = world.destinations.outcomes(0);
    let counts: Vec<u64> = counts.map(|(_, count)| count).collect();
    assert_eq!((counts, again), (vec![0, 3, 50, 0, 0, 0], 0));
}

#[test]
fn a_cluster_without_affinity_binds_nobody() {
    let mut world = World::new(cluster(None, &["A", "B"]));
    assert_eq!(world.ask(Some("B")), told(Outcome::Unbound, "A", false));
}

#[test]
fn an_unknown_cookie_is_moved_or_refused() {
    let mut world = World::new(cluster(MOVE, &["A", "B"]));
    assert_eq!(
        world.ask(Some("X")),
        told(Outcome::Redistributed, "A", true)
    );
    let mut world = World::new(cluster(REFUSE, &["A", "B"]));
    assert_eq!(world.ask(Some("X")), told(Outcome::Refused, "", false));
    assert_eq!(world.ask(None), told(Outcome::New, "A", true));
    // Though one is there that could have taken it.
    let mut world = World::new(cluster(REFUSE, &["A"]));
    assert_eq!(world.ask(Some("X")), told(Outcome::Refused, "", false));
}

#[test]
fn nobody_there_is_503_whatever_the_cookie() {
    for failure in [None, MOVE] {
        let mut world = World::new(cluster(failure, &[]));
        assert_eq!(world.ask(None), told(Outcome::NoDestination, "", false));
        assert_eq!(
            world.ask(Some("A")),
            told(Outcome::NoDestination, "", false)
        );
    }
    let mut world = World::new(cluster(MOVE, &["A"]));
    let choice = world.destinations.choose(7, None, world.now);
    assert_eq!(choice.outcome, Outcome::NoDestination);
}

#[test]
fn a_client_that_was_moved_stays_where_it_is() {
    let mut world = World::new(cluster(MOVE, &["A", "B"]));
    world.probe(&["A"]);
    assert_eq!(
        world.ask(Some("A")),
        told(Outcome::Redistributed, "B", true)
    );
    assert_eq!(world.ask(Some("B")), told(Outcome::Resolved, "B", false));
    world.probe(&[]);
    assert_eq!(world.ask(Some("B")), told(Outcome::Resolved, "B", false));
    assert_eq!(world.ask(Some("A")), told(Outcome::Resolved, "A", false));
}

#[test]
fn a_client_that_was_refused_comes_back_to_its_destination() {
    let mut world = World::new(cluster(REFUSE, &["A", "B"]));
    world.probe(&["A"]);
    assert_eq!(world.ask(Some("A")), told(Outcome::Refused, "", false));
    world.probe(&[]);
    assert_eq!(world.ask(Some("A")), told(Outcome::Resolved, "A", false));
}

#[test]
fn when_all_are_unhealthy_all_are_used_or_none() {
    let mut world = World::new(cluster(REFUSE, &["A", "B"]));
    world.probe(&["A", "B"]);
    assert_eq!(world.ask(Some("B")), told(Outcome::Resolved, "B", false));
    assert_eq!(world.ask(None), told(Outcome::New, "A", true));
    let mut strict = cluster(MOVE, &["A", "B"]);
    strict.health.available = Available::HealthyAndUnknown;
    let mut world = World::new(strict);
    world.probe(&["A", "B"]);
    assert_eq!(
        world.ask(Some("B")),
        told(Outcome::NoDestination, "", false)
    );
    assert_eq!(world.ask(None), told(Outcome::NoDestination, "", false));
}

#[test]
fn a_backup_is_used_only_while_no_primary_is() {
    for failure in [MOVE, REFUSE] {
        let mut world = World::new(cluster(failure, &["A", "B!"]));
        for _ in 0..3 {
            assert_eq!(world.ask(None), told(Outcome::New, "A", true));
        }
        world.probe(&["A"]);
        assert_eq!(world.ask(None), told(Outcome::New, "B", true));
        assert_eq!(world.ask(Some("B")), told(Outcome::Resolved, "B", false));
        world.probe(&[]);
        // Not a failure: the client comes back under both policies.
        assert_eq!(world.ask(Some("B")), told(Outcome::New, "A", true));
        world.probe(&["B"]);
        assert_eq!(world.ask(Some("B")), told(Outcome::New, "A", true));
    }
}

#[test]
fn a_draining_destination_keeps_its_clients_and_gets_no_new_ones() {
    let mut world = World::new(cluster(REFUSE, &["A", "B~", "C"]));
    for _ in 0..300 {
        let (outcome, id, _) = world.ask(None);
        assert!(outcome == Outcome::New && id != "B");
    }
    assert_eq!(world.ask(Some("B")), told(Outcome::Resolved, "B", false));
    let mut world = World::new(cluster(MOVE, &["A~", "B~"]));
    assert_eq!(world.ask(None), told(Outcome::New, "A", true));
    assert_eq!(world.ask(None), told(Outcome::New, "B", true));
}

#[test]
fn a_backup_takes_new_clients_while_every_primary_is_draining() {
    let mut world = World::new(cluster(MOVE, &["A~", "B!"]));
    assert_eq!(world.ask(None), told(Outcome::New, "B", true));
    assert_eq!(world.ask(Some("B")), told(Outcome::Resolved, "B", false));
    assert_eq!(world.ask(Some("A")), told(Outcome::Resolved, "A", false));
    world.probe(&["B"]);
    assert_eq!(world.ask(None), told(Outcome::New, "A", true));
}

#[test]
fn who_could_not_be_reached_is_replaced_once_where_that_is_allowed() {
    for (failure, cookie, want) in [
        (None, None, Some(told(Outcome::Unbound, "B", false))),
        (MOVE, None, Some(told(Outcome::New, "B", true))),
        (
            MOVE,
            Some("A"),
            Some(told(Outcome::Redistributed, "B", true)),
        ),
        (REFUSE, None, Some(told(Outcome::New, "B", true))),
        (REFUSE, Some("A"), None),
    ] {
        let mut world = World::new(cluster(failure, &["A", "B"]));
        let cookie = cookie.map(key);
        let cookie = cookie.as_ref().map(AffinityKey::as_str);
        let first = world.destinations.choose(0, cookie, world.now);
        assert_eq!(world.told(first).1, "A");
        let second = world.destinations.choose_again(first, world.now);
        assert_eq!(second.map(|choice| world.told(choice)), want);
    }
    let mut world = World::new(cluster(MOVE, &["A"]));
    let first = world.destinations.choose(0, None, world.now);
    assert_eq!(world.destinations.choose_again(first, world.now), None);
}

#[test]
fn a_backup_takes_over_within_one_request_without_any_check() {
    let mut unchecked = cluster(REFUSE, &["A", "B!"]);
    unchecked.health.active = None;
    let mut world = World::new(unchecked);
    let first = world
        .destinations
        .choose(0, Some(key("B").as_str()), world.now);
    assert_eq!(world.told(first), told(Outcome::New, "A", true));
    let second = world.destinations.choose_again(first, world.now).unwrap();
    assert_eq!(world.told(second), told(Outcome::New, "B", true));
    assert_eq!(world.destinations.outcomes(0).1, 1);
    assert_eq!(world.destinations.poll_timeout(), None);
}

#[test]
fn requests_under_way_weigh_until_they_are_finished() {
    let mut least = cluster(MOVE, &["A", "B"]);
    least.balance = Balance::LeastRequests;
    let mut world = World::new(least);
    let choice = world.destinations.choose(0, None, world.now);
    let ticket = world.destinations.begin(choice.destination.unwrap());
    assert_eq!(world.ask(None).1, "B");
    world
        .destinations
        .finish(ticket, Finish::Answered, world.now);
    assert_eq!(world.ask(None).1, "A");
}

#[test]
fn failed_requests_take_a_destination_out_and_time_brings_it_back() {
    let mut passive = cluster(MOVE, &["A", "B"]);
    passive.health.active = None;
    passive.health.passive = Some(PassiveCheck {
        reactivation: Duration::from_secs(90),
        failure_rate: 0.3,
    });
    let mut world = World::new(passive);
    let first = world
        .destinations
        .choose(0, Some(key("A").as_str()), world.now);
    for result in [Finish::Failed; 4]
        .into_iter()
        .chain([Finish::Abandoned; 6])
    {
        let ticket = world.destinations.begin(first.destination.unwrap());
        world.destinations.finish(ticket, result, world.now);
    }
    assert_eq!(
        world.ask(Some("A")),
        told(Outcome::Redistributed, "B", true)
    );
    let verdicts: Vec<_> = world
        .destinations
        .views(0, world.now)
        .map(|view| view.passive)
        .collect();
    assert_eq!(verdicts, [Some(Verdict::Unhealthy), Some(Verdict::Unknown)]);
    world.now = at(91);
    assert_eq!(world.ask(Some("A")), told(Outcome::Resolved, "A", false));
}

#[test]
fn probes_are_bounded_and_come_at_their_interval() {
    let limits = Limits {
        probes_max: 2,
        ..Limits::PRODUCTION
    };
    let mut destinations = Destinations::new(Rng::with_seed(1), &limits);
    destinations.replace(&[cluster(MOVE, &["A", "B", "C"])], key, at(1));
    assert_eq!(destinations.poll_timeout(), Some(at(1)));
    let first = destinations.poll_probe(at(1)).unwrap();
    let second = destinations.poll_probe(at(1)).unwrap();
    assert_ne!(first.destination, second.destination);
    assert_eq!(first.timeout, Duration::from_secs(10));
    assert_eq!(
        (destinations.poll_probe(at(1)), destinations.poll_timeout()),
        (None, None)
    );
    destinations.handle_probe(first, true, at(2));
    assert_eq!(destinations.poll_timeout(), Some(at(1)));
    let third = destinations.poll_probe(at(3)).unwrap();
    destinations.handle_probe(second, false, at(40));
    destinations.handle_probe(third, true, at(4));
    // One that took longer than its interval is due at once.
    assert_eq!(destinations.poll_timeout(), Some(at(16)));
    assert_eq!(destinations.poll_probe(at(15)), None);
    destinations.check_invariants();
}

#[test]
fn a_new_configuration_keeps_what_is_still_the_same() {
    let mut world = World::new(cluster(MOVE, &["A", "B", "C"]));
    world.probe(&["B"]);
    let first = world
        .destinations
        .choose(0, Some(key("A").as_str()), world.now);
    let ticket = world.destinations.begin(first.destination.unwrap());
    let other = Cluster {
        id: "other".into(),
        ..cluster(MOVE, &["A"])
    };
    let mut plant = cluster(MOVE, &["D", "b", "a"]);
    plant.id = "PLANT".into();
    world.replace(&[other.clone(), plant.clone()]);
    let views: Vec<_> = world.destinations.views(1, world.now).collect();
    let views = views
        .iter()
        .map(|view| (&*view.destination.id, view.in_flight, view.active));
    let want = [
        ("D", 0, Some(Verdict::Unknown)),
        ("b", 0, Some(Verdict::Unhealthy)),
        ("a", 1, Some(Verdict::Healthy)),
    ];
    assert!(views.eq(want));
    // A new address is another server under the same name.
    plant.destinations[1].address.port = 81;
    world.replace(&[plant]);
    let view = world.destinations.views(0, world.now).nth(1).unwrap();
    assert_eq!(view.active, Some(Verdict::Unknown));
    world.replace(&[other]);
    world
        .destinations
        .finish(ticket, Finish::Answered, world.now);
    assert_eq!(world.ask(Some("A")), told(Outcome::Resolved, "A", false));
}

#[test]
fn a_probe_of_the_old_address_tells_nothing_of_the_new_one() {
    let mut world = World::new(cluster(MOVE, &["A", "B"]));
    let probe = world.destinations.poll_probe(world.now).unwrap();
    let mut moved = cluster(MOVE, &["A", "B"]);
    moved.destinations[0].address.port = 81;
    moved.destinations[1].address.port = 81;
    world.replace(&[moved]);
    world.destinations.handle_probe(probe, false, world.now);
    let mut views = world.destinations.views(0, world.now);
    assert!(views.all(|view| view.active == Some(Verdict::Unknown)));
    drop(views);
    world.probe(&[]);
}

#[test]
fn two_relays_agree_whatever_the_order_of_their_lists() {
    let mut random = Rng::with_seed(11);
    for _ in 0..200 {
        let mut ids: Vec<String> = (0..random.usize(1..9))
            .map(|n| format!("node-{n}"))
            .collect();
        let list = |ids: &[String]| {
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            cluster(MOVE, &ids)
        };
        let mut one = World::new(list(&ids));
        random.shuffle(&mut ids);
        let mut other = World::new(list(&ids));
        let down: Vec<String> = ids
            .iter()
            .filter(|_| random.u8(..4) == 0)
            .cloned()
            .collect();
        let down: Vec<&str> = down.iter().map(String::as_str).collect();
        one.probe(&down);
        other.probe(&down);
        for _ in 0..9 {
            let (outcome, id, _) = one.ask(None);
            assert_eq!(outcome, Outcome::New);
            assert_eq!(other.ask(Some(&id)), told(Outcome::Resolved, &id, false));
        }
        for id in &ids {
            let (theirs, ours) = (one.ask(Some(id)), other.ask(Some(id)));
            assert_eq!(theirs.0, ours.0, "{id}");
        }
    }
}

#[test]
fn the_cookie_is_always_that_of_the_destination_that_answers() {
    let mut world = World::new(cluster(MOVE, &["A", "B", "C!", "D~"]));
    let mut random = Rng::with_seed(5);
    for _ in 0..500 {
        let ids = ["A", "B", "C", "D"];
        let down: Vec<&str> = ids.into_iter().filter(|_| random.bool()).collect();
        world.probe(&down);
        let cookie = ids.get(random.usize(..5)).map(|id| key(id));
        let cookie = cookie.as_ref().map(AffinityKey::as_str);
        let choice = world.destinations.choose(0, cookie, world.now);
        let (outcome, id, sets_cookie) = world.told(choice);
        assert_eq!(sets_cookie, outcome != Outcome::Resolved);
        let all_down = down.len() == ids.len();
        assert!(all_down || !down.contains(&&*id), "{id} is down");
        if let Some(again) = world.destinations.choose_again(choice, world.now) {
            assert!(world.told(again).2 && again.destination != choice.destination);
        }
    }
}
