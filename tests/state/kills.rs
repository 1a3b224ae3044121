//! `kill -9` while seeds change: what was said to be kept is served by the next process.

use crate::harness::PATIENCE;
use crate::harness::relay::Relay;
use crate::site::{document, marker, seed, site, without_seed};
use staffetta::limits::Limits;
use staffetta::model::SlotKey;
use staffetta::wire::seed::Seed;
use std::io::Write;
use std::os::unix::net::UnixStream;

const KILLS: usize = 100;
/// Turns of an empty loop: about as long as a write takes.
const PAUSE_MAX: u64 = 2_000_000;

/// What the log calls the content of a seed.
fn digest(number: usize) -> String {
    let slot = SlotKey::parse("c/e").expect("a slot key");
    let text = seed(number).to_string();
    let seed = Seed::parse(text.as_bytes(), &Limits::PRODUCTION).expect("a good seed");
    let snapshot = seed.snapshot(&slot, &Limits::PRODUCTION);
    snapshot.expect("a good document").digest.to_string()
}

/// Reads the log of a process that has ended; the newest of `digests` that was kept, if any.
fn newest_kept(relay: &Relay, digests: &[String]) -> Option<usize> {
    let ended = relay.log.find_within(PATIENCE, 0, |_| None::<()>);
    assert_eq!(ended, None);
    let log = relay.log.all();
    let kept = log.lines().filter_map(|line| line.split_once(": kept "));
    let number = |(_, kept): (&str, &str)| digests.iter().rposition(|digest| digest == kept);
    kept.filter_map(number).max()
}

#[test]
fn what_was_kept_survives_a_hundred_kills() {
    let site = site("kills");
    let mut random = fastrand::Rng::with_seed(1);
    let mut digests = vec![digest(0)];
    let mut kept = None;
    let mut overtaken = 0;
    for kill in 0..KILLS {
        let mut relay = Relay::start(&site);
        let newest = digests.len() - 1;
        if kill > 0 {
            let found = document(relay.address);
            let served = found.as_ref().map(|(_, document)| marker(document));
            assert!(
                served >= kept && served <= Some(newest),
                "{served:?} {kept:?}"
            );
            assert!(found.is_none_or(|(source, _)| source == "cache"));
        }
        for change in 0..=random.usize(0..3) {
            digests.push(digest(digests.len()));
            site.replace_seed(&seed(digests.len() - 1).to_string());
            match change {
                0 => assert_eq!(relay.reload().0, 200),
                // Nobody waits for the verdict.
                _ => {
                    let admin = site.scratch.path("admin.sock");
                    let mut socket = UnixStream::connect(admin).expect("the admin socket");
                    let request = b"POST /reload HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
                    socket.write_all(request).expect("a request");
                }
            }
        }
        // Every other kill comes at once: how long a write takes is the machine's affair.
        if kill % 2 == 0 {
            for _ in 0..random.u64(0..PAUSE_MAX) {
                std::hint::spin_loop();
            }
        }
        relay.child.kill().expect("it runs");
        relay.child.wait().expect("it is our child");
        kept = newest_kept(&relay, &digests).max(kept);
        overtaken += usize::from(kept < Some(digests.len() - 1));
        without_seed(&site);
    }
    assert!(kept.is_some());
    // Kills that come too late would prove nothing.
    assert!(overtaken > KILLS / 20, "{overtaken}");
}
