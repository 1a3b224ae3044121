//! What the relay counts, beside what the kernel counts of the same.

use crate::harness::PATIENCE;
use crate::harness::relay::Relay;
use std::time::Instant;

/// The sum of all values of the metrics that begin with `name` and whose labels hold `label`.
pub fn metric(relay: &Relay, name: &str, label: &str) -> u64 {
    let (status, text) = relay.ask("GET /metrics");
    assert_eq!(status, 200, "{text}");
    let line = |line: &str| -> Option<u64> {
        let (left, value) = line.rsplit_once(' ')?;
        (left.starts_with(name) && left.contains(label)).then(|| value.parse().ok())?
    };
    text.lines().filter_map(line).sum()
}

/// Subscribers of all slots.
pub fn clients(relay: &Relay) -> u64 {
    metric(relay, "staffetta_clients{", "slot=")
}

/// Connections of SDKs within the limit.
pub fn connections(relay: &Relay) -> u64 {
    metric(relay, "staffetta_connections_open{", "\"sdk\"")
}

/// Connections that the deadline `reason` has ended.
pub fn expiries(relay: &Relay, reason: &str) -> u64 {
    metric(relay, "staffetta_expiries_total{", &format!("\"{reason}\""))
}

/// Open descriptors of the relay's process, its admin connections aside: none is open when asked.
pub fn descriptors(relay: &Relay) -> u64 {
    let open = std::fs::read_dir(format!("/proc/{}/fd", relay.child.id()));
    open.expect("the relay runs").count() as u64
}

/// Asks `what` until it is `wanted`. Each question is a round trip through the relay's loop; the
/// deadline is for when it never is.
pub fn until(relay: &Relay, name: &str, wanted: u64, what: impl Fn(&Relay) -> u64) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        // A question about the loop first, or a look at the kernel would not wait for anything.
        let (_, sdk) = (relay.ask("GET /live"), connections(relay));
        let found = what(relay);
        if found == wanted {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{name}: {found} instead of {wanted}, {sdk} connections\n{}",
            relay.log.all()
        );
    }
}

/// Waits until no connection of an SDK is left, nor any subscriber.
pub fn until_nobody_is_left(relay: &Relay) {
    until(relay, "subscribers", 0, clients);
    until(relay, "connections", 0, connections);
}
