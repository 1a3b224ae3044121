//! Destinations, through requests, probes and new configurations.
//!
//! Claims: a client is only sent to a destination that is there; the cookie that it gets is that
//! destination's, and whoever resolves gets none and is where its cookie says; nobody is sent twice
//! to the one that failed. Requests under way are counted exactly. Probes keep their bound, every
//! destination that is checked gets its probe, and the timer is never late.

use super::entropy::Entropy;
use staffetta::limits::Limits;
use staffetta::model::proxy::*;
use staffetta::state::destinations::{Destinations, Finish, Outcome, Probe, Ticket};
use staffetta::time::{Duration, Instant};
use staffetta::wire::affinity;

const IDS: [&str; 6] = ["a", "B", "c", "d", "e", "f"];

pub fn destinations(input: &[u8]) {
    let mut entropy = Entropy::new(input);
    let limits = Limits {
        probes_max: 2,
        ..Limits::PRODUCTION
    };
    let random = fastrand::Rng::with_seed(entropy.word());
    let mut run = Run {
        destinations: Destinations::new(random, &limits),
        clusters: Vec::new(),
        tickets: Vec::new(),
        probes: Vec::new(),
        now: Instant::from_micros(1),
    };
    run.replace(&mut entropy);
    while !entropy.is_empty() {
        match entropy.below(8) {
            0 => run.replace(&mut entropy),
            1..=3 => run.request(&mut entropy),
            4 => run.finish(&mut entropy),
            5 => run.probe(&mut entropy),
            6 => run.now = run.now + Duration::from_secs(entropy.below(60) as u64),
            _ => run.answer(&mut entropy),
        }
        run.check();
    }
}

struct Run {
    destinations: Destinations,
    clusters: Vec<Cluster>,
    /// Requests under way, by what names their destination.
    tickets: Vec<(String, Ticket)>,
    probes: Vec<Probe>,
    now: Instant,
}

fn name(cluster: &Cluster, destination: &Destination) -> String {
    format!("{}/{}", cluster.id, destination.id).to_ascii_lowercase()
}

impl Run {
    fn replace(&mut self, entropy: &mut Entropy<'_>) {
        let count = entropy.below(3);
        self.clusters = (0..count).map(|place| cluster(place, entropy)).collect();
        self.destinations
            .replace(&self.clusters, affinity::key, self.now);
        // What went is not missed: it starts from nothing when it comes back.
        let names: Vec<String> = self.names().map(|(_, name)| name).collect();
        self.tickets.retain(|(name, _)| names.contains(name));
    }

    fn names(&self) -> impl Iterator<Item = (usize, String)> {
        let clusters = self.clusters.iter().enumerate();
        clusters.flat_map(|(place, cluster)| {
            let destinations = cluster.destinations.iter();
            destinations.map(move |destination| (place, name(cluster, destination)))
        })
    }

    fn request(&mut self, entropy: &mut Entropy<'_>) {
        let place = entropy.below(3);
        let cookie = IDS.get(entropy.below(8)).map(|id| affinity::key(id));
        let cookie = cookie.as_ref().map(AffinityKey::as_str);
        let choice = self.destinations.choose(place, cookie, self.now);
        let Some(key) = choice.destination else {
            assert!(matches!(
                choice.outcome,
                Outcome::Refused | Outcome::NoDestination
            ));
            assert_eq!(choice.establish, None);
            return;
        };
        let cluster = &self.clusters[place];
        let destination = self.destinations.destination(key).expect("it is there");
        assert!(cluster.destinations.contains(destination));
        let own = affinity::key(&destination.id);
        match choice.outcome {
            Outcome::Resolved => {
                assert_eq!((choice.establish, cookie), (None, Some(own.as_str())));
            }
            _ => assert_eq!(choice.establish, cluster.affinity.as_ref().map(|_| own)),
        }
        let named = name(cluster, destination);
        let ticket = self.destinations.begin(key);
        self.tickets.push((named, ticket));
        if let Some(again) = self.destinations.choose_again(choice, self.now) {
            assert!(again.destination.is_some() && again.destination != choice.destination);
            assert!(again.outcome != Outcome::Resolved);
        }
    }

    fn finish(&mut self, entropy: &mut Entropy<'_>) {
        if self.tickets.is_empty() {
            return;
        }
        let at = entropy.below(self.tickets.len());
        let (_, ticket) = self.tickets.swap_remove(at);
        let results = [Finish::Answered, Finish::Failed, Finish::Abandoned];
        self.destinations
            .finish(ticket, results[entropy.below(3)], self.now);
    }

    fn probe(&mut self, entropy: &mut Entropy<'_>) {
        for _ in 0..entropy.below(4) {
            self.probes.extend(self.destinations.poll_probe(self.now));
        }
    }

    fn answer(&mut self, entropy: &mut Entropy<'_>) {
        if self.probes.is_empty() {
            return;
        }
        let at = entropy.below(self.probes.len());
        let probe = self.probes.swap_remove(at);
        self.destinations
            .handle_probe(probe, entropy.flag(), self.now);
        // It ends once.
        self.destinations
            .handle_probe(probe, entropy.flag(), self.now);
    }

    fn check(&mut self) {
        let mut in_flight = 0;
        for (place, cluster) in self.clusters.iter().enumerate() {
            let views: Vec<_> = self.destinations.views(place, self.now).collect();
            assert_eq!(views.len(), cluster.destinations.len());
            for view in views {
                let named = name(cluster, view.destination);
                let own = self.tickets.iter().filter(|(name, _)| *name == named);
                assert_eq!(view.in_flight as usize, own.count(), "{named}");
                in_flight += view.in_flight as usize;
                assert_eq!(view.active.is_some(), cluster.health.active.is_some());
            }
        }
        assert_eq!(in_flight, self.tickets.len());
        if let Some(probe) = self.destinations.poll_probe(self.now) {
            assert!(self.destinations.destination(probe.destination).is_some());
            self.probes.push(probe);
        } else if let Some(due) = self.destinations.poll_timeout() {
            assert!(due > self.now, "a hot loop");
        }
    }
}

fn cluster(place: usize, entropy: &mut Entropy<'_>) -> Cluster {
    let bits = entropy.byte();
    let balances = [
        Balance::PowerOfTwoChoices,
        Balance::Random,
        Balance::RoundRobin,
        Balance::LeastRequests,
        Balance::FirstAlphabetical,
    ];
    let failure = [FailurePolicy::Redistribute, FailurePolicy::Refuse][usize::from(bits & 1)];
    let affinity = Affinity {
        failure,
        cookie_name: "Aff".into(),
        cookie: CookieShape::default(),
    };
    let health = Health {
        available: [Available::HealthyOrPanic, Available::HealthyAndUnknown]
            [usize::from(bits >> 1 & 1)],
        active: (bits & 4 > 0).then(|| ActiveCheck {
            interval: Duration::from_secs(15),
            timeout: Duration::from_secs(10),
            path: "".into(),
            query: "".into(),
            failures: 1 + u32::from(bits >> 3 & 1),
        }),
        passive: (bits & 16 > 0).then_some(PassiveCheck {
            reactivation: Duration::from_secs(30),
            failure_rate: 0.3,
        }),
    };
    let (chosen, flags) = (entropy.byte(), entropy.word());
    let ids = IDS
        .iter()
        .enumerate()
        .filter(|(bit, _)| chosen >> bit & 1 == 1);
    let destinations = ids.map(|(bit, id)| destination(id, flags >> (8 * bit)));
    Cluster {
        id: format!("cluster-{place}").into(),
        balance: balances[entropy.below(balances.len())],
        affinity: (bits & 32 == 0).then_some(affinity),
        health,
        activity_timeout: Duration::from_secs(100),
        destinations: destinations.collect(),
    }
}

fn destination(id: &str, flags: u64) -> Destination {
    let is_upper = flags & 4 > 0;
    Destination {
        id: if is_upper {
            id.to_ascii_uppercase()
        } else {
            id.to_owned()
        }
        .into(),
        address: Address {
            is_tls: false,
            host: "10.0.0.1".into(),
            port: 80 + (flags >> 3 & 1) as u16,
            path: "".into(),
        },
        health: None,
        host: None,
        is_backup: flags & 1 > 0,
        is_draining: flags & 2 > 0,
    }
}
