//! A disk that is left alone: what did not change is not written.

use crate::harness::relay::Relay;
use crate::harness::{GUID, KEY, PATIENCE};
use crate::reworded::{reworded, written_bytes};
use crate::site::{kept, seed, site, wait_kept};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

const READS: usize = 1_000;

fn follow(address: SocketAddr) -> BufReader<TcpStream> {
    let mut socket = TcpStream::connect(address).expect("the relay listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
    let request = format!(
        "GET /apprapp/feature/v1/instances/{GUID}/environments/e/sse/subscribe?collection_id=c\
         &events_only=true HTTP/1.1\r\nHost: r\r\nAuthorization: {KEY}\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).expect("a request");
    BufReader::new(socket)
}

/// The name of the next event.
fn next_event(stream: &mut BufReader<TcpStream>) -> String {
    loop {
        let mut line = String::new();
        assert!(
            stream.read_line(&mut line).expect("a line") > 0,
            "the stream ended"
        );
        if let Some(name) = line.trim_end().strip_prefix("event:") {
            return name.trim().to_owned();
        }
    }
}

#[test]
fn a_thousand_reads_of_the_same_content_write_nothing_and_tell_nobody() {
    let site = site("quiet");
    let relay = Relay::start(&site);
    let mut stream = follow(relay.address);
    let greeting = next_event(&mut stream);
    wait_kept(&relay, 1);
    let file = || fs::metadata(kept(&site)).map(|found| (found.ino(), found.mtime_nsec()));
    let mark = relay.log.mark();
    let before = (written_bytes(&relay), file().expect("it was kept"));
    for turn in 0..READS {
        let mut text = String::new();
        reworded(&seed(0), turn, &mut text);
        site.replace_seed(&text);
        let (status, verdict) = relay.reload();
        assert_eq!(status, 200, "{verdict}");
        assert!(
            verdict.contains("0 slots changed, 1 unchanged"),
            "{verdict}"
        );
    }
    assert_eq!(
        (written_bytes(&relay), file().expect("it was kept")),
        before
    );
    let kept = relay.log.find_within(Duration::ZERO, mark, |line| {
        line.contains(": kept ").then(|| line.to_owned())
    });
    assert_eq!(kept, None);

    site.replace_seed(&seed(1).to_string());
    assert_eq!(relay.reload().0, 200);
    wait_kept(&relay, 2);
    assert_ne!(file().expect("it was kept").0, before.1.0);
    // One event for the one change: the next is the heartbeat's, or the end.
    let event = next_event(&mut stream);
    assert_ne!(event, greeting);
    relay.stop();
    let mut rest = String::new();
    while stream.read_line(&mut rest).is_ok_and(|length| length > 0) {}
    assert_eq!(rest.matches("event:").count(), 0, "{rest}");
}
