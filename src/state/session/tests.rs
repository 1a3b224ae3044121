//! One claim each. What holds whatever happens is held by the simulation in `tests/sim`.

use super::*;

struct Rig {
    session: Session,
    now: Instant,
}

const STAGGER: Duration = Duration::from_secs(3);

impl Rig {
    fn new(has_backup: bool) -> Rig {
        let setting = Setting {
            has_backup,
            probe_interval: Limits::PRODUCTION.probe_interval,
            stagger: STAGGER,
        };
        let now = Instant::ORIGIN + secs(1000);
        let mut session = Session::new(setting, &Limits::PRODUCTION, 7);
        session.start(now);
        Rig { session, now }
    }

    /// A session that follows the primary, whose content is fetched.
    fn on_primary() -> Rig {
        let mut rig = Rig::new(true);
        let orders = rig.drain();
        let id = dialed(&orders, Role::Primary);
        rig.session.handle_open(id, rig.now);
        rig.fetch_all();
        assert!(rig.session.is_live());
        rig
    }

    /// A session that follows the backup, because the primary was just lost.
    fn on_backup() -> Rig {
        let mut rig = Rig::on_primary();
        rig.lose(Role::Primary, Loss::Closed);
        rig.open(Role::Backup);
        rig.fetch_all();
        assert_eq!(rig.session.active(), Some(Role::Backup));
        assert!(rig.session.is_live());
        rig
    }

    fn drain(&mut self) -> Vec<Order> {
        let orders: Vec<Order> =
            std::iter::from_fn(|| self.session.poll_output(self.now)).collect();
        let timeout = self.session.poll_timeout();
        assert!(timeout.is_none_or(|(at, _)| at > self.now), "{timeout:?}");
        orders
    }

    fn id(&self, role: Role) -> DialId {
        self.session.links[role as usize].id().unwrap()
    }

    /// Drains, and lets the dial of `role` that is under way succeed.
    fn open(&mut self, role: Role) -> Vec<Order> {
        self.drain();
        self.session.handle_open(self.id(role), self.now);
        self.drain()
    }

    fn lose(&mut self, role: Role, loss: Loss) -> Vec<Order> {
        self.drain();
        self.session.handle_loss(self.id(role), loss, self.now);
        self.drain()
    }

    fn hear(&mut self, role: Role, what: Inbound) -> Vec<Order> {
        self.session.handle_inbound(self.id(role), what, self.now);
        self.drain()
    }

    /// Lets every fetch succeed until none is under way.
    fn fetch_all(&mut self) {
        self.drain();
        while let Some(flight) = self.session.lane.flight {
            self.session.handle_fetched(flight.id, Ok(()), self.now);
            self.drain();
        }
    }

    fn land(&mut self, orders: &[Order], role: Role, outcome: Result<(), Loss>) -> Vec<Order> {
        let id = fetched(orders, role);
        self.session.handle_fetched(id, outcome, self.now);
        self.drain()
    }

    /// Lets time go by; sockets that are open are heard from, unless they are `silent`.
    fn wait(&mut self, duration: Duration, silent: bool) -> Vec<(Duration, Order)> {
        let begin = self.now;
        let end = begin + duration;
        let mut seen = Vec::new();
        loop {
            if !silent {
                for role in Role::ALL {
                    if let Some(id) = self.session.links[role as usize].id() {
                        let what = Inbound::Heartbeat;
                        self.session.handle_inbound(id, what, self.now);
                    }
                }
            }
            let elapsed = self.now - begin;
            seen.extend(self.drain().into_iter().map(|order| (elapsed, order)));
            match self.session.poll_timeout() {
                Some((at, _)) if at <= end => self.now = at,
                _ => break,
            }
        }
        self.now = end;
        seen
    }

    /// Lets seconds go by until `role` is being dialled. Returns how many went by.
    fn until_dial(&mut self, role: Role) -> u64 {
        (0..10_000)
            .find(|_| {
                self.drain();
                let is_dialing = self.session.link(role).phase == Phase::Dialing;
                if !is_dialing {
                    self.wait(secs(1), false);
                }
                is_dialing
            })
            .unwrap()
    }

    /// A day of dials that all fail at once. Returns how many there were.
    fn dead_day(&mut self) -> usize {
        let end = self.now + secs(86_400);
        let mut dials = 0;
        while self.now < end {
            for order in self.drain() {
                match order {
                    Order::Dial { id, .. } => {
                        dials += 1;
                        self.session.handle_loss(id, Loss::Unreachable, self.now);
                    }
                    Order::Fetch { id, .. } => {
                        let outcome = Err(Loss::Unreachable);
                        self.session.handle_fetched(id, outcome, self.now);
                    }
                    other => panic!("{other:?}"),
                }
            }
            if let Some((at, _)) = self.session.poll_timeout() {
                self.now = self.now.max(at);
            }
        }
        dials
    }
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn dialed(orders: &[Order], wanted: Role) -> DialId {
    let dial = |order: &Order| match order {
        Order::Dial { id, role } if *role == wanted => Some(*id),
        _ => None,
    };
    orders.iter().find_map(dial).unwrap()
}

fn fetched(orders: &[Order], wanted: Role) -> FetchId {
    let fetch = |order: &Order| match order {
        Order::Fetch { id, role } if *role == wanted => Some(*id),
        _ => None,
    };
    orders.iter().find_map(fetch).unwrap()
}

fn has_dial(orders: &[Order]) -> bool {
    let is_dial = |order: &Order| matches!(order, Order::Dial { .. });
    orders.iter().any(is_dial)
}

fn has_fetch(orders: &[Order]) -> bool {
    let is_fetch = |order: &Order| matches!(order, Order::Fetch { .. });
    orders.iter().any(is_fetch)
}

fn first_dial(seen: &[(Duration, Order)]) -> Option<(Duration, Role)> {
    seen.iter().find_map(|(at, order)| match order {
        Order::Dial { role, .. } => Some((*at, *role)),
        _ => None,
    })
}

#[test]
fn a_start_dials_the_primary_and_fetches_at_once() {
    let mut rig = Rig::new(true);
    let orders = rig.drain();
    dialed(&orders, Role::Primary);
    fetched(&orders, Role::Primary);
    assert_eq!(orders.len(), 2);
}

#[test]
fn a_start_that_has_content_leaves_the_fetch_to_the_link() {
    let mut rig = Rig::new(true);
    rig.session = Session::new(rig.session.setting, &Limits::PRODUCTION, 7);
    rig.session.start_fetching(rig.now);
    let orders = rig.drain();
    let orders = rig.land(&orders, Role::Primary, Err(Loss::Unreachable));
    rig.land(&orders, Role::Backup, Ok(()));
    rig.session.start(rig.now);
    let orders = rig.drain();
    assert!(has_dial(&orders) && !has_fetch(&orders), "{orders:?}");
}

#[test]
fn every_link_is_followed_by_a_fetch_that_began_after_it() {
    let mut rig = Rig::new(true);
    let before = rig.drain();
    let early = fetched(&before, Role::Primary);
    let orders = rig.open(Role::Primary);
    assert!(orders.contains(&Order::Abandon { id: early }), "{orders:?}");
    assert!(!rig.session.is_live());
    rig.land(&orders, Role::Primary, Ok(()));
    assert!(rig.session.is_live());
    // What was given up does not count, even if it still comes.
    rig.session
        .handle_fetched(early, Err(Loss::Denied), rig.now);
    assert!(rig.session.is_live());
}

#[test]
fn many_changes_during_a_fetch_make_one_more() {
    let mut rig = Rig::on_primary();
    rig.wait(secs(1), false);
    let orders = rig.hear(Role::Primary, Inbound::Change);
    for _ in 0..5 {
        assert!(rig.hear(Role::Primary, Inbound::Change).is_empty());
    }
    rig.land(&orders, Role::Primary, Ok(()));
    let next = rig.wait(secs(1), false);
    let fetches = next.iter().map(|(_, order)| *order).collect::<Vec<Order>>();
    rig.land(&fetches, Role::Primary, Ok(()));
    assert_eq!(fetches.len(), 1);
    assert!(!has_fetch(&rig.drain()));
}

#[test]
fn a_fetch_that_failed_is_tried_until_it_works() {
    let mut rig = Rig::on_primary();
    rig.wait(secs(1), false);
    let mut orders = rig.hear(Role::Primary, Inbound::Change);
    for _ in 0..3 {
        let fallback = rig.land(&orders, Role::Primary, Err(Loss::Unusable));
        rig.land(&fallback, Role::Backup, Ok(()));
        assert!(!rig.session.is_live());
        orders = rig
            .wait(secs(5), false)
            .into_iter()
            .map(|(_, order)| order)
            .collect();
    }
    assert_eq!(rig.session.active(), Some(Role::Primary), "no switch");
    rig.land(&orders, Role::Primary, Ok(()));
    assert!(rig.session.is_live());
    assert!(!has_fetch(&rig.drain()));
}

#[test]
fn retry_after_of_a_get_is_the_least_wait_and_the_backup_is_asked_meanwhile() {
    let mut rig = Rig::on_primary();
    rig.wait(secs(1), false);
    let orders = rig.hear(Role::Primary, Inbound::Change);
    let refused = Loss::Refused {
        retry_after: Some(secs(300)),
    };
    let fallback = rig.land(&orders, Role::Primary, Err(refused));
    rig.land(&fallback, Role::Backup, Ok(()));
    rig.wait(secs(10), false);
    let fallback = rig.hear(Role::Primary, Inbound::Change);
    rig.land(&fallback, Role::Backup, Ok(()));
    let seen = rig.wait(secs(600), false);
    let is_fetch = |order: &Order| matches!(order, Order::Fetch { .. });
    let first = seen.iter().find(|(_, order)| is_fetch(order)).unwrap();
    assert_eq!(first.0, secs(290));
    fetched(&[first.1], Role::Primary);
}

#[test]
fn the_safety_net_fetches_every_ten_minutes_and_each_slot_by_itself() {
    let at: Vec<Duration> = (0..100)
        .map(|seed| {
            let mut rig = Rig::on_primary();
            rig.session.random = Rng::with_seed(seed);
            let orders = rig.hear(Role::Primary, Inbound::Change);
            let orders = match has_fetch(&orders) {
                true => orders,
                false => vec![rig.wait(secs(2), false)[0].1],
            };
            rig.land(&orders, Role::Primary, Ok(()));
            let seen = rig.wait(secs(600), false);
            let seen = seen.iter().find(|(_, order)| has_fetch(&[*order]));
            seen.unwrap().0
        })
        .collect();
    let (first, last) = (at.iter().min().unwrap(), at.iter().max().unwrap());
    assert!(*first >= secs(540) && *last <= secs(600), "{first:?}");
    assert!(*last - *first > secs(50), "{first:?} to {last:?}");
}

#[test]
fn a_quiet_link_is_pinged_once_and_then_lost() {
    let mut rig = Rig::on_primary();
    let id = rig.id(Role::Primary);
    let seen = rig.wait(secs(61), true);
    let pings = seen
        .iter()
        .filter(|(_, order)| *order == Order::Ping { id });
    assert_eq!(pings.map(|(at, _)| *at).collect::<Vec<_>>(), [secs(30)]);
    assert!(seen.contains(&(secs(60), Order::Hangup { id })), "{seen:?}");
    assert_eq!(first_dial(&seen), Some((secs(60), Role::Backup)));
    let loss = rig.session.link(Role::Primary).last_loss.unwrap().0;
    assert_eq!(loss, Loss::Silent);
}

#[test]
fn pongs_alone_do_not_keep_a_link() {
    let mut rig = Rig::on_primary();
    for _ in 0..11 {
        rig.hear(Role::Primary, Inbound::Other);
        rig.wait(secs(10), true);
    }
    assert_eq!(rig.session.active(), Some(Role::Primary));
    rig.hear(Role::Primary, Inbound::Other);
    rig.wait(secs(10), true);
    assert_eq!(rig.session.active(), None);
    let loss = rig.session.link(Role::Primary).last_loss.unwrap().0;
    assert_eq!(loss, Loss::NoHeartbeat);
}

#[test]
fn whatever_happens_to_the_primary_the_backup_is_dialled_at_once() {
    let losses = [
        Loss::Unreachable,
        Loss::Refused { retry_after: None },
        Loss::Denied,
        Loss::Closed,
        Loss::Unusable,
        Loss::ClockNotSet,
    ];
    for loss in losses {
        let mut rig = Rig::on_primary();
        dialed(&rig.lose(Role::Primary, loss), Role::Backup);
        let mut rig = Rig::new(true);
        dialed(&rig.lose(Role::Primary, loss), Role::Backup);
    }
}

#[test]
fn a_primary_is_gone_back_to_when_a_fetch_from_it_validates_and_not_before() {
    let mut rig = Rig::on_backup();
    let seen = rig.wait(secs(20), false);
    assert_eq!(first_dial(&seen), Some((secs(15) + STAGGER, Role::Primary)));
    let backup = rig.id(Role::Backup);
    let orders = rig.open(Role::Primary);
    assert_eq!(rig.session.active(), Some(Role::Backup));
    assert!(!orders.contains(&Order::Hangup { id: backup }));
    let orders = rig.land(&orders, Role::Primary, Ok(()));
    assert_eq!(orders, [Order::Hangup { id: backup }]);
    assert_eq!(rig.session.active(), Some(Role::Primary));
    assert!(rig.session.is_live());
}

#[test]
fn a_probe_that_fails_touches_nothing_and_the_next_comes_after_the_interval() {
    let mut rig = Rig::on_backup();
    rig.wait(secs(20), false);
    let primary = rig.id(Role::Primary);
    let orders = rig.open(Role::Primary);
    let orders = rig.land(&orders, Role::Primary, Err(Loss::Unusable));
    assert_eq!(orders, [Order::Hangup { id: primary }]);
    assert!(rig.session.is_live());
    let seen = rig.wait(secs(20), false);
    // The last probe began two seconds before it failed.
    assert_eq!(first_dial(&seen), Some((secs(13), Role::Primary)));
}

#[test]
fn probes_that_hang_for_ten_minutes_never_close_the_backup() {
    let mut rig = Rig::on_backup();
    let backup = rig.id(Role::Backup);
    let seen = rig.wait(secs(600), false);
    let dials = seen.iter().filter(|(_, order)| has_dial(&[*order])).count();
    assert!((35..=41).contains(&dials), "{dials}");
    assert_eq!(rig.id(Role::Backup), backup);
    assert!(rig.session.is_live());
}

#[test]
fn a_probe_whose_get_hangs_delays_no_change_at_the_backup() {
    let mut rig = Rig::on_backup();
    rig.wait(secs(20), false);
    fetched(&rig.open(Role::Primary), Role::Primary);
    fetched(&rig.hear(Role::Backup, Inbound::Change), Role::Backup);
}

#[test]
fn a_change_that_the_primary_announces_during_its_probe_is_fetched() {
    let mut rig = Rig::on_backup();
    rig.wait(secs(20), false);
    let probe = rig.open(Role::Primary);
    rig.hear(Role::Primary, Inbound::Change);
    let orders = rig.land(&probe, Role::Primary, Ok(()));
    fetched(&orders, Role::Primary);
}

#[test]
fn a_change_that_the_backup_announces_during_a_probe_is_fetched_from_the_primary() {
    let mut rig = Rig::on_backup();
    rig.wait(secs(20), false);
    let probe = rig.open(Role::Primary);
    let orders = rig.hear(Role::Backup, Inbound::Change);
    let late = fetched(&orders, Role::Backup);
    let orders = rig.land(&probe, Role::Primary, Ok(()));
    assert!(orders.contains(&Order::Abandon { id: late }));
    fetched(&orders, Role::Primary);
}

#[test]
fn a_primary_under_probe_takes_over_when_the_backup_is_lost() {
    let mut rig = Rig::on_backup();
    rig.wait(secs(20), false);
    let probe = rig.open(Role::Primary);
    let orders = rig.lose(Role::Backup, Loss::Closed);
    assert!(orders.is_empty(), "{orders:?}");
    assert_eq!(rig.session.active(), Some(Role::Primary));
    rig.land(&probe, Role::Primary, Ok(()));
    assert!(rig.session.is_live());
}

#[test]
fn a_lost_backup_sends_the_session_to_the_primary_at_once() {
    let mut rig = Rig::on_backup();
    rig.wait(secs(10), false);
    dialed(&rig.lose(Role::Backup, Loss::Closed), Role::Primary);
}

#[test]
fn news_by_another_way_are_fetched_at_once() {
    let mut rig = Rig::on_primary();
    rig.wait(secs(20), false);
    rig.session.handle_news(rig.now);
    assert!(has_fetch(&rig.drain()));
}

#[test]
fn who_was_reached_in_another_way_is_dialled_at_once() {
    let mut rig = Rig::new(false);
    rig.dead_day();
    rig.until_dial(Role::Primary);
    assert!(!has_dial(&rig.lose(Role::Primary, Loss::Unreachable)));
    rig.session.handle_reached(rig.now);
    assert!(has_dial(&rig.drain()));
    rig.session.handle_reached(rig.now);
    assert!(!has_dial(&rig.drain()), "it is being dialled");
    let mut denied = Rig::new(false);
    denied.lose(Role::Primary, Loss::Denied);
    denied.session.handle_reached(denied.now);
    assert!(!has_dial(&denied.drain()), "its own word counts");
}

#[test]
fn a_refused_key_is_tried_again_slowly() {
    let mut rig = Rig::on_primary();
    rig.lose(Role::Primary, Loss::Denied);
    rig.open(Role::Backup);
    rig.fetch_all();
    let mut waits = Vec::new();
    for _ in 0..6 {
        waits.push(rig.until_dial(Role::Primary));
        rig.lose(Role::Primary, Loss::Denied);
    }
    assert!((30..=60).contains(&waits[0]), "{waits:?}");
    assert!(waits[5] > 590, "{waits:?}");
}

#[test]
fn a_key_that_is_refused_by_the_get_is_a_loss_too() {
    let mut rig = Rig::on_primary();
    rig.wait(secs(1), false);
    let id = rig.id(Role::Primary);
    let orders = rig.hear(Role::Primary, Inbound::Change);
    let orders = rig.land(&orders, Role::Primary, Err(Loss::Denied));
    assert!(orders.contains(&Order::Hangup { id }));
    dialed(&orders, Role::Backup);
}

#[test]
fn retry_after_of_a_refused_upgrade_is_the_least_wait() {
    let mut rig = Rig::new(false);
    let refused = Loss::Refused {
        retry_after: Some(secs(100)),
    };
    rig.lose(Role::Primary, refused);
    let seen = rig.wait(secs(200), false);
    assert_eq!(first_dial(&seen), Some((secs(100), Role::Primary)));
}

#[test]
fn a_dead_day_costs_at_most_three_hundred_dials() {
    for has_backup in [false, true] {
        let mut rig = Rig::new(has_backup);
        let dials = rig.dead_day();
        assert!((280..=300).contains(&dials), "{dials}");
    }
    let mut rig = Rig::on_backup();
    rig.lose(Role::Backup, Loss::Closed);
    let dials = rig.dead_day();
    assert!(dials <= 299, "one was under way: {dials}");
}

#[test]
fn a_primary_that_may_not_be_dialled_is_no_reason_to_dial_the_backup_again_at_once() {
    let mut rig = Rig::on_primary();
    rig.wait(secs(100), false);
    rig.lose(Role::Primary, Loss::Denied);
    rig.open(Role::Backup);
    rig.fetch_all();
    // It held for long: nothing is held against the primary but that it refused the key.
    rig.session.links[Role::Primary as usize].not_before = rig.now + secs(1000);
    rig.wait(secs(100), false);
    assert!(!has_dial(&rig.lose(Role::Backup, Loss::Closed)));
    rig.wait(secs(5), false);
    assert!(!has_dial(&rig.lose(Role::Backup, Loss::Closed)));
}

#[test]
fn two_upstreams_that_accept_and_drop_are_not_dialled_without_end() {
    let mut rig = Rig::new(true);
    let end = rig.now + secs(3600);
    let mut dials = 0;
    while rig.now < end {
        for order in rig.drain() {
            if let Order::Dial { id, .. } = order {
                dials += 1;
                rig.session.handle_open(id, rig.now);
                rig.session.handle_loss(id, Loss::Closed, rig.now);
            }
        }
        if let Some((at, _)) = rig.session.poll_timeout() {
            rig.now = rig.now.max(at);
        }
    }
    assert!(dials < 50, "{dials}");
}

#[test]
fn a_clock_that_is_set_ends_the_wait_of_who_waited_for_it() {
    let mut rig = Rig::new(false);
    for _ in 0..8 {
        rig.lose(Role::Primary, Loss::ClockNotSet);
        let (_, at) = rig.session.next_dial_at().unwrap();
        rig.now = at;
    }
    rig.lose(Role::Primary, Loss::ClockNotSet);
    rig.now = rig.now + secs(1);
    assert!(!has_dial(&rig.drain()));
    rig.session.handle_clock_jump(rig.now);
    dialed(&rig.drain(), Role::Primary);

    let mut rig = Rig::new(false);
    rig.lose(Role::Primary, Loss::Unreachable);
    rig.session.handle_clock_jump(rig.now);
    assert!(!has_dial(&rig.drain()), "another reason to wait");
}

#[test]
fn the_third_loss_in_ten_minutes_delays_the_return() {
    let mut rig = Rig::on_primary();
    let mut waits = Vec::new();
    for _ in 0..4 {
        rig.lose(Role::Primary, Loss::Closed);
        rig.open(Role::Backup);
        rig.fetch_all();
        waits.push(rig.until_dial(Role::Primary));
        let probe = rig.open(Role::Primary);
        rig.land(&probe, Role::Primary, Ok(()));
        assert_eq!(rig.session.active(), Some(Role::Primary));
    }
    assert_eq!(waits, [18, 18, 33, 63]);
}

#[test]
fn an_outage_is_worth_two_lines() {
    let mut rig = Rig::on_primary();
    let notes =
        |rig: &mut Rig| -> Vec<Note> { std::iter::from_fn(|| rig.session.poll_note()).collect() };
    assert_eq!(notes(&mut rig), [Note::OnPrimary]);
    rig.lose(Role::Primary, Loss::Closed);
    rig.open(Role::Backup);
    rig.fetch_all();
    rig.wait(secs(300), false);
    assert_eq!(notes(&mut rig), [Note::OnBackup(Loss::Closed)]);
    rig.until_dial(Role::Primary);
    let probe = rig.open(Role::Primary);
    rig.land(&probe, Role::Primary, Ok(()));
    assert_eq!(notes(&mut rig), [Note::OnPrimary]);
    rig.wait(secs(300), false);
    assert_eq!(notes(&mut rig), []);
}

#[test]
fn stale_ids_change_nothing() {
    let mut rig = Rig::on_backup();
    rig.session.handle_loss(DialId(1), Loss::Closed, rig.now);
    rig.session.handle_open(DialId(1), rig.now);
    rig.session
        .handle_inbound(DialId(999), Inbound::Change, rig.now);
    rig.session
        .handle_fetched(FetchId(2), Err(Loss::Denied), rig.now);
    assert!(rig.session.is_live());
    assert!(rig.drain().is_empty());
}

#[test]
fn the_waits_that_ship_are_those_of_the_readme() {
    let limits = Limits::PRODUCTION;
    assert_eq!(limits.probe_interval, secs(15));
    assert_eq!(limits.stagger_max, secs(5));
    assert_eq!(limits.ping_after, secs(30));
    assert_eq!(limits.silence_timeout, secs(60));
    assert_eq!(limits.heartbeat_timeout, secs(120));
    assert_eq!(limits.backoff_cap, secs(300));
    assert_eq!(
        (limits.denied_first, limits.denied_cap),
        (secs(60), secs(600))
    );
    assert_eq!(limits.refresh_interval, secs(600));
    assert_eq!(limits.damping_losses, 3);
    assert_eq!(limits.damping_window, secs(600));
    assert_eq!(limits.damping_wait_max, secs(60));
}

#[test]
fn a_reload_asks_at_once_whoever_refused_the_key() {
    let mut rig = Rig::on_primary();
    rig.lose(Role::Primary, Loss::Denied);
    rig.open(Role::Backup);
    rig.fetch_all();
    rig.session.handle_reload(rig.now);
    assert!(matches!(
        rig.drain()[..],
        [Order::Dial {
            role: Role::Primary,
            ..
        }]
    ));
    // A loss of another kind is none of its business.
    let mut rig = Rig::on_backup();
    rig.session.handle_reload(rig.now);
    assert!(rig.drain().is_empty());
}
